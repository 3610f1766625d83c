//! Presence: who is in which channel, counted over the tabs and workers of a user.
//!
//! The table lies in shared memory beside the ring and is changed under the ring's lock. An entry is one (channel, user)
//! with a count per worker slot, so that the end of a worker takes exactly its share. A user without connections
//! stays in the table as *leaving* for a while; a reconnect in that time is silent.
//!
//! A change and its announcement happen under one hold of the lock, so the order of join and leave events of a user in
//! the channel is the order of the changes. The table is marked dirty during a change; the next owner of the lock
//! after a death rebuilds everything that can be derived: both indexes, the totals, the queue of leaving users and
//! the free list. What cannot be derived (state, texts, counts) becomes valid by single stores.

mod cluster;
mod table;

use thiserror::Error;

use crate::layout::{DIRTY, INFO_BYTES_MAX, USER_BYTES_MAX};
use crate::lock::{Guard, LockError, Owner};
use crate::record::{Kind, Message, Seq};
use crate::ring::{PublishError, Ring};
use fermata_shm::{Ordering, fence};
use table::{DUE_UNSET, PRESENT};

pub use cluster::{EachPresent, Present};
pub(crate) use table::Texts;

/// Most leaves announced by one [`Ring::sweep`], which holds the lock that long.
const SWEEP_MAX: usize = 256;

/// Appends the data of a leave event for (channel, user, info) to the vector.
pub type LeaveData<'f> = &'f mut dyn FnMut(&[u8], &[u8], &[u8], &mut Vec<u8>);

/// Takes a member as (user, info, connections).
pub type EachMember<'f> = &'f mut dyn FnMut(&[u8], &[u8], u32);

/// One connection of a user in a channel.
#[derive(Clone, Copy, Debug)]
pub struct Presence<'a> {
    /// The channel's name, 1..=255 bytes.
    pub channel: &'a [u8],
    /// The user's name, 1..=255 bytes.
    pub user: &'a [u8],
    /// What is known about the user, up to 1024 bytes; a later join replaces it.
    pub info: &'a [u8],
    /// Where the connection comes from, such as its client's address: of one source at most so many users are present, see
    /// [`Ring::set_source_members_max`]. Empty = not known, and not bounded.
    pub source: &'a [u8],
    /// Data of the join event to publish if this is the user's first connection; `None` = join and leave silently.
    pub announce: Option<&'a [u8]>,
}

/// The outcome of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The user was not present before.
    pub first: bool,
    /// The published join event.
    pub announced: Option<Seq>,
}

/// The outcome of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Users that left for good.
    pub left: usize,
    /// Whether events were published, so that workers must be woken.
    pub published: bool,
    /// Whether more are due: sweep again.
    pub more: bool,
}

/// A presence change that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PresenceError {
    /// The table is full.
    #[error("members_max ({max}) users are present already")]
    Full {
        /// The configured bound.
        max: usize,
    },
    /// The channel has as many users as one may have.
    #[error("members_per_channel_max ({max}) users are present in this channel already")]
    ChannelFull {
        /// The configured bound.
        max: usize,
    },
    /// The connection's source has as many users present as one may have.
    #[error("members_per_address_max ({max}) users of this client's address are present already")]
    SourceFull {
        /// The configured bound.
        max: usize,
    },
    /// The user's name is empty or too long.
    #[error("a user name has 1 to 255 bytes, this one has {bytes}")]
    User {
        /// Bytes of the name.
        bytes: usize,
    },
    /// The information about the user is too long.
    #[error("the information about a user has {bytes} bytes, but at most 1024 are allowed")]
    Info {
        /// Bytes of the information.
        bytes: usize,
    },
    /// The caller's slot is not that of a worker.
    #[error("only a worker can have members; {slot} is not a worker's slot")]
    Slot {
        /// The slot.
        slot: u32,
    },
    /// The announcement cannot be published (or the channel's name is wrong, or the lock cannot be had).
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<LockError> for PresenceError {
    fn from(error: LockError) -> PresenceError {
        PresenceError::Publish(error.into())
    }
}

impl Ring {
    /// Counts one more connection of a user, and announces the first one.
    ///
    /// # Errors
    /// [`PresenceError`]; nothing has changed and nothing was announced.
    pub fn join(
        &mut self,
        who: &Owner,
        presence: &Presence<'_>,
        unix_ms: u64,
    ) -> Result<Joined, PresenceError> {
        let Presence {
            channel,
            user,
            info,
            source,
            announce,
        } = *presence;
        if user.is_empty() || user.len() > USER_BYTES_MAX {
            return Err(PresenceError::User { bytes: user.len() });
        }
        if info.len() > INFO_BYTES_MAX {
            return Err(PresenceError::Info { bytes: info.len() });
        }
        if who.slot >= self.layout.workers_max {
            return Err(PresenceError::Slot { slot: who.slot });
        }
        let message = Message {
            channel,
            kind: Kind::Join,
            name: None,
            data: announce.unwrap_or_default(),
        };
        let draft = self.draft(&message)?;
        let guard = self.lock(who, None)?;
        let table = self.table();
        let keys = table.keys(&self.hasher, channel, user);
        let source = table.source(&self.hasher, source);
        let found = table.find(&keys, channel, user);
        let first = found.is_none();
        if first && table.source_count(source) >= self.source_members_max {
            return Err(PresenceError::SourceFull {
                max: self.source_members_max,
            });
        }
        if first && table.channel_count(&keys) >= self.channel_members_max {
            return Err(PresenceError::ChannelFull {
                max: self.channel_members_max,
            });
        }
        let announced = first && announce.is_some() && self.announces;
        if announced {
            // Room first: a join that cannot be announced must not happen.
            self.make_room(&guard, who, draft.shape.total_words())?;
        }
        let entry = match found {
            Some(entry) => entry,
            None => table.free_entry().ok_or(PresenceError::Full {
                max: self.layout.presence.members_max,
            })?,
        };
        self.change(|| {
            if first {
                table.insert(entry, (&keys, source), (channel, user, info), who.slot);
            } else {
                table.connect(entry, info, who.slot);
            }
            if announce.is_some() {
                table.set_announced(entry);
            }
        });
        let announced = announced.then(|| self.append(&guard, &draft, &message, unix_ms));
        Ok(Joined { first, announced })
    }

    /// Bounds the users of one channel, so that those of the others find room in the table. A process sets it for its
    /// own joins; without it `members_max` is the only bound.
    pub fn set_channel_members_max(&mut self, max: usize) {
        self.channel_members_max = max;
    }

    /// Bounds the users that came from one source, those that are leaving among them, so that one client with many names
    /// leaves room for all others. A process sets it for its own joins.
    pub fn set_source_members_max(&mut self, max: usize) {
        self.source_members_max = max;
    }

    /// Counts one connection of a user less. Without any left on all workers, the user becomes leaving: `Ok(true)`.
    /// A user that is not there is ignored.
    ///
    /// # Errors
    /// [`LockError`]; nothing has changed: try again later, or the count stays until this worker ends.
    pub fn leave(
        &mut self,
        who: &Owner,
        channel: &[u8],
        user: &[u8],
        unix_ms: u64,
    ) -> Result<bool, LockError> {
        if who.slot >= self.layout.workers_max {
            return Ok(false);
        }
        let _guard = self.lock(who, None)?;
        let table = self.table();
        let keys = table.keys(&self.hasher, channel, user);
        let Some(entry) = table.find(&keys, channel, user) else {
            return Ok(false);
        };
        self.words.store(DIRTY, 1);
        fence(Ordering::Release);
        let leaving =
            table.disconnect(entry, who.slot, unix_ms.saturating_add(self.leave_delay_ms));
        self.words.store_release(DIRTY, 0);
        Ok(leaving)
    }

    /// Removes the users whose leave delay has passed, and publishes a leave event for each that was announced.
    ///
    /// Exactly one worker announces each user; if it is killed in between, another one announces again. A user whose event is
    /// larger than a record may be leaves without one. Bounded per call, see [`Swept::more`].
    ///
    /// # Errors
    /// [`PublishError`] when an event cannot be published now; that user and the later ones stay for the next sweep.
    pub fn sweep(
        &mut self,
        who: &Owner,
        unix_ms: u64,
        data: LeaveData<'_>,
    ) -> Result<Swept, PublishError> {
        let mut swept = Swept::default();
        if self.leaving_count() == 0 {
            return Ok(swept);
        }
        let mut texts = std::mem::take(&mut self.texts);
        let outcome = self.sweep_locked(who, unix_ms, data, &mut texts, &mut swept);
        self.texts = texts;
        match outcome {
            // What was published before the failure must be told, or nobody would be woken.
            Err(error) if swept.left == 0 => Err(error),
            _ => Ok(swept),
        }
    }

    fn sweep_locked(
        &self,
        who: &Owner,
        unix_ms: u64,
        data: LeaveData<'_>,
        texts: &mut Texts,
        swept: &mut Swept,
    ) -> Result<(), PublishError> {
        let guard = self.lock(who, None)?;
        let table = self.table();
        if table.first_leaving().is_none() {
            // Counted but not queued: only damage does that.
            self.presence_rebuild();
        }
        while let Some((entry, due)) = table.first_leaving() {
            if due == DUE_UNSET {
                table.set_unset_dues(unix_ms.saturating_add(self.leave_delay_ms));
                continue;
            }
            // A due time further away than the delay means that the clock was set back.
            if due > unix_ms && due - unix_ms <= self.leave_delay_ms {
                break;
            }
            if swept.left == SWEEP_MAX {
                swept.more = true;
                break;
            }
            if table.announced(entry) || !self.announces {
                table.texts(entry, texts);
                texts.data.clear();
                let Texts {
                    channel,
                    user,
                    info,
                    data: out,
                } = texts;
                data(channel, user, info, out);
            }
            if table.announced(entry) && self.announces {
                match self.announce_leave(&guard, who, texts, unix_ms) {
                    Ok(()) => swept.published = true,
                    // Trying again would not help and would keep everybody behind this user present for ever.
                    Err(PublishError::TooLarge { .. } | PublishError::ChannelName { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            // Removed only after it was announced: a death in between announces twice rather than never.
            self.change(|| table.remove(entry));
            swept.left += 1;
        }
        Ok(())
    }

    fn announce_leave(
        &self,
        guard: &Guard,
        who: &Owner,
        texts: &Texts,
        unix_ms: u64,
    ) -> Result<(), PublishError> {
        let message = Message {
            channel: &texts.channel,
            kind: Kind::Leave,
            name: None,
            data: &texts.data,
        };
        let draft = self.draft(&message)?;
        self.make_room(guard, who, draft.shape.total_words())?;
        self.append(guard, &draft, &message, unix_ms);
        Ok(())
    }

    /// Users that are leaving. Cheap and without the lock: zero means that a sweep has nothing to do.
    pub fn leaving_count(&self) -> usize {
        self.table().leaving()
    }

    /// Gives at most `count_max` users of a channel, those that came last first, each with its information and the number
    /// of connections over all workers.
    /// A user that is leaving is still given, with no connections: nobody was told of the leave yet.
    ///
    /// The lock is held meanwhile: `each` should only copy.
    ///
    /// # Errors
    /// [`LockError`]; nothing was given.
    pub fn members(
        &mut self,
        who: &Owner,
        channel: &[u8],
        count_max: usize,
        each: EachMember<'_>,
    ) -> Result<(), LockError> {
        let _guard = self.lock(who, None)?;
        let mut texts = std::mem::take(&mut self.texts);
        let table = self.table();
        let hash = self.hasher.hash(channel);
        let entries = table.channel_entries(hash);
        let entries = entries.filter(|&entry| table.is_channel(entry, hash, channel));
        for entry in entries.take(count_max) {
            table.texts(entry, &mut texts);
            each(&texts.user, &texts.info, table.connections(entry));
        }
        self.texts = texts;
        Ok(())
    }

    /// How many users [`Ring::members`] would give without a bound. Costs a look at each of them, but copies nothing.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn member_count(&mut self, who: &Owner, channel: &[u8]) -> Result<usize, LockError> {
        let _guard = self.lock(who, None)?;
        let table = self.table();
        let hash = self.hasher.hash(channel);
        let entries = table.channel_entries(hash);
        Ok(entries
            .filter(|&entry| table.is_channel(entry, hash, channel))
            .count())
    }

    /// Takes the connections of a worker that ended; users without any others become leaving.
    pub(crate) fn presence_slot_ended(&self, _guard: &Guard, slot: u32, unix_ms: u64) {
        let table = self.table();
        let due = unix_ms.saturating_add(self.leave_delay_ms);
        self.change(|| {
            for entry in table
                .used_entries()
                .filter(|&entry| table.state(entry) == PRESENT)
            {
                table.disconnect_all(entry, slot, due);
            }
        });
    }

    /// Makes the table empty.
    pub(crate) fn presence_reset(&self) {
        self.table().reset();
        self.words.store_release(DIRTY, 0);
    }

    /// After a restart nobody is connected: everybody of the earlier life is leaving.
    pub(crate) fn presence_all_leaving(&self) {
        self.table().clear_counts();
        self.presence_rebuild();
    }

    /// Derives everything again from states, texts and counts.
    pub(crate) fn presence_rebuild(&self) {
        self.change(|| self.table().rebuild(&self.hasher));
    }

    /// Runs a change of the table. If the process dies in it, the next owner of the lock rebuilds the table.
    fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        self.words.store(DIRTY, 1);
        // The mark is seen before any store of the change.
        fence(Ordering::Release);
        let outcome = change();
        self.words.store_release(DIRTY, 0);
        outcome
    }

    /// Asserts that everything derived agrees with states, texts and counts.
    #[cfg(test)]
    pub(crate) fn check_presence(&self) {
        self.table().check();
    }

    fn table(&self) -> table::Table {
        table::Table::new(self.words, self.layout.presence)
    }
}
