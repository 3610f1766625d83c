//! Presence: the users in each channel, counted over their tabs and all workers.
//!
//! The table is in shared memory next to the ring, and the ring's lock protects it. An entry is one (channel, user) pair with a
//! count per worker slot, so the exit of a worker removes exactly the connections of that worker. A user without connections stays
//! in the table as *leaving* for a while; a reconnect within that time is not announced.
//!
//! A change and its announcement happen under one hold of the lock. Join and leave events of a user in a channel
//! therefore have the order of the changes. The table is marked dirty during a change. After a crash the next owner of
//! the lock rebuilds all derived data: both indexes, the totals, the queue of leaving users and the free list. Data
//! that cannot be derived (state, texts, counts) becomes valid by single stores.

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

/// Maximum number of leaves announced by one [`Ring::sweep`], which limits the time for which the lock is held.
const SWEEP_MAX: usize = 256;

/// Callback that appends the data of a leave event for (channel, user, info) to the vector.
pub type LeaveData<'f> = &'f mut dyn FnMut(&[u8], &[u8], &[u8], &mut Vec<u8>);

/// Callback that receives a member as (user, info, connections).
pub type EachMember<'f> = &'f mut dyn FnMut(&[u8], &[u8], u32);

/// One connection of a user in a channel.
#[derive(Clone, Copy, Debug)]
pub struct Presence<'a> {
    /// The channel's name, 1..=255 bytes.
    pub channel: &'a [u8],
    /// The user's name, 1..=255 bytes.
    pub user: &'a [u8],
    /// Information about the user, up to 1024 bytes; a later join replaces it.
    pub info: &'a [u8],
    /// Origin of the connection, such as its client's address. [`Ring::set_source_members_max`] limits the users per source. Empty
    /// = unknown, and not limited.
    pub source: &'a [u8],
    /// Data of the join event for the user's first connection; `None` = join and leave are not announced.
    pub announce: Option<&'a [u8]>,
    /// Data of the join event if the user is present with another `info`; `None` = such a change is not announced.
    pub announce_changed: Option<&'a [u8]>,
}

/// How a connection leaves a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The client or the application closed the connection on purpose: the next sweep announces the leave.
    Deliberate,
    /// The connection was lost, and the user may reconnect: the leave is announced after the leave delay.
    Lost,
}

/// Result of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The user was not present before.
    pub first: bool,
    /// The user was present with another `info`.
    pub changed: bool,
    /// The published join event.
    pub announced: Option<Seq>,
}

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of users whose leave became final.
    pub left: usize,
    /// Events were published, so the caller must wake workers.
    pub published: bool,
    /// More users are due: sweep again.
    pub more: bool,
}

/// Reason why presence was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PresenceError {
    /// The table is full.
    #[error("members_max ({max}) users are present already")]
    Full {
        /// The configured limit.
        max: usize,
    },
    /// The channel has the maximum number of users.
    #[error("members_per_channel_max ({max}) users are present in this channel already")]
    ChannelFull {
        /// The configured limit.
        max: usize,
    },
    /// The connection's source has the maximum number of users.
    #[error("members_per_address_max ({max}) users of this client's address are present already")]
    SourceFull {
        /// The configured limit.
        max: usize,
    },
    /// The user's name is empty or too long.
    #[error("a user name has 1 to 255 bytes, this one has {bytes}")]
    User {
        /// Length of the name in bytes.
        bytes: usize,
    },
    /// The information about the user is too long.
    #[error("the information about a user has {bytes} bytes, but at most 1024 are allowed")]
    Info {
        /// Length of the information in bytes.
        bytes: usize,
    },
    /// The caller's slot is not a worker's.
    #[error("only a worker can have members; {slot} is not a worker's slot")]
    Slot {
        /// The slot.
        slot: u32,
    },
    /// The announcement cannot be published, the channel's name is invalid, or the lock is unavailable.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<LockError> for PresenceError {
    fn from(error: LockError) -> PresenceError {
        PresenceError::Publish(error.into())
    }
}

impl Ring {
    /// Counts a further connection of a user, and announces the first one.
    ///
    /// # Errors
    /// [`PresenceError`]; nothing was changed or announced.
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
            announce_changed,
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
        let message = |data| Message {
            channel,
            kind: Kind::Join,
            name: None,
            data,
        };
        // Check both events before the lock is acquired, so that an event that is too large changes nothing.
        let of_first = message(announce.unwrap_or_default());
        let of_change = message(announce_changed.unwrap_or_default());
        let (draft_first, draft_change) = (self.draft(&of_first)?, self.draft(&of_change)?);
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
        let changed = found.is_some_and(|entry| !table.has_info(entry, info));
        let (message, draft, data) = if first {
            (&of_first, &draft_first, announce)
        } else {
            (&of_change, &draft_change, announce_changed)
        };
        let announced = (first || changed) && data.is_some() && self.announces;
        if announced {
            // Make room first: a join that cannot be announced must not happen.
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
        let announced = announced.then(|| self.append(&guard, draft, message, unix_ms));
        Ok(Joined {
            first,
            changed,
            announced,
        })
    }

    /// Limits the users of one channel, so that the table has room for other channels. The limit applies to joins of this process.
    /// Without it, only `members_max` applies.
    pub fn set_channel_members_max(&mut self, max: usize) {
        self.channel_members_max = max;
    }

    /// Limits the users of one source, including users that are leaving, so that one client with many names cannot use up the
    /// table. The limit applies to joins of this process.
    pub fn set_source_members_max(&mut self, max: usize) {
        self.source_members_max = max;
    }

    /// Subtracts one connection of a user. Returns true if it was the last one over all workers: the user is now
    /// leaving, and [`Ring::sweep`] announces it at the time that `how` determines. Ignores a user that is not present.
    ///
    /// # Errors
    /// [`LockError`]; nothing has changed. Try again later; otherwise the count stays until this worker exits.
    pub fn leave(
        &mut self,
        who: &Owner,
        channel: &[u8],
        user: &[u8],
        how: Departure,
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
        let leaving = match how {
            Departure::Deliberate => table.disconnect_now(entry, who.slot, unix_ms),
            Departure::Lost => {
                table.disconnect(entry, who.slot, unix_ms.saturating_add(self.leave_delay_ms))
            }
        };
        self.words.store_release(DIRTY, 0);
        Ok(leaving)
    }

    /// Removes the users whose leave delay has passed, and publishes a leave event for each that was announced.
    ///
    /// Exactly one worker announces each user; if it is killed in between, another one announces again. A user whose
    /// event is larger than a record is removed without an event. The work per call is bounded, see [`Swept::more`].
    ///
    /// # Errors
    /// [`PublishError`] if an event cannot be published now; that user and the later ones stay for the next sweep.
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
            // Report the events published before the error, because otherwise their subscribers are not woken.
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
            // Users are counted but not queued, which only damage causes.
            self.presence_rebuild();
        }
        while let Some((entry, due)) = table.first_leaving() {
            if due == DUE_UNSET {
                table.set_unset_dues(unix_ms.saturating_add(self.leave_delay_ms));
                continue;
            }
            // A due time later than the delay allows means that the clock was set back.
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
                    // Another attempt would also fail, and all later users in the queue would stay present.
                    Err(PublishError::TooLarge { .. } | PublishError::ChannelName { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            // Remove the user only after the announcement: after a crash, announcing twice is better than never.
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

    /// Returns the number of leaving users, without acquiring the lock. If it is zero, a sweep has nothing to do.
    pub fn leaving_count(&self) -> usize {
        self.table().leaving()
    }

    /// Passes at most `count_max` users of a channel to `each`, the newest first, with their information and number of
    /// connections over all workers. A leaving user is included with zero connections, because its leave was not
    /// announced yet.
    ///
    /// The lock is held during the call, so `each` should only copy.
    ///
    /// # Errors
    /// [`LockError`]; `each` was not called.
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

    /// Returns the number of users in a channel. Visits each user without copying data.
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

    /// Removes the connections of a worker that has exited. Users without other connections become leaving.
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

    /// Empties the table.
    pub(crate) fn presence_reset(&self) {
        self.table().reset();
        self.words.store_release(DIRTY, 0);
    }

    /// After a restart no client is connected: all users of the previous run are leaving.
    pub(crate) fn presence_all_leaving(&self) {
        self.table().clear_counts();
        self.presence_rebuild();
    }

    /// Rebuilds all derived data from states, texts and counts.
    pub(crate) fn presence_rebuild(&self) {
        self.change(|| self.table().rebuild(&self.hasher));
    }

    /// Runs a change of the table. If the process is killed during the change, the next owner of the lock rebuilds the table.
    fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        self.words.store(DIRTY, 1);
        // The mark has to be visible before any store of the change.
        fence(Ordering::Release);
        let outcome = change();
        self.words.store_release(DIRTY, 0);
        outcome
    }

    /// Asserts that all derived data agrees with states, texts and counts.
    #[cfg(test)]
    pub(crate) fn check_presence(&self) {
        self.table().check();
    }

    fn table(&self) -> table::Table {
        table::Table::new(self.words, self.layout.presence)
    }
}
