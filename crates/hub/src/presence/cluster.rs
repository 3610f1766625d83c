//! Presence shared by several servers: a table of the cluster with one slot per server, and comparison with the table
//! of this server.
//!
//! In the cluster's table a count is set, not incremented or decremented, so a change may be repeated. No user is
//! leaving: a user without connections is removed immediately. The caller handles time and announcements.

use super::table::PRESENT;
use super::{Presence, PresenceError};
use crate::lock::{LockError, Owner};
use crate::ring::Ring;

/// A user in a channel, as stored in a table.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The channel's name.
    pub channel: &'a [u8],
    /// The user's name.
    pub user: &'a [u8],
    /// Information about the user.
    pub info: &'a [u8],
    /// Connections over all slots; zero for a leaving user.
    pub connections: u32,
    /// Connections of the requested slot.
    pub of_slot: u32,
    /// True if the leave is announced.
    pub is_announced: bool,
}

/// Callback that receives a user of a table.
pub type EachPresent<'f> = &'f mut dyn FnMut(&Present<'_>);

impl Ring {
    /// Disables announcements: [`Ring::join`] publishes none, and [`Ring::sweep`] passes all users that have left to
    /// its callback, including those that joined without an announcement.
    pub fn leave_announcements_to_caller(&mut self) {
        self.announces = false;
    }

    /// Passes a user of a channel to `each`, if present.
    ///
    /// # Errors
    /// [`LockError`]; `each` was not called.
    pub fn present(
        &mut self,
        who: &Owner,
        (channel, user): (&[u8], &[u8]),
        slot: u32,
        each: EachPresent<'_>,
    ) -> Result<(), LockError> {
        let _guard = self.lock(who, None)?;
        let table = self.table();
        let keys = table.keys(&self.hasher, channel, user);
        if let Some(entry) = table.find(&keys, channel, user) {
            let mut texts = std::mem::take(&mut self.texts);
            self.give(entry, slot, &mut texts, each);
            self.texts = texts;
        }
        Ok(())
    }

    /// Passes users of all channels to `each`, from at most `count_max` table entries starting at `from`. Returns the
    /// next start; `None` at the end. A user that joins or leaves between calls may be skipped.
    ///
    /// # Errors
    /// [`LockError`]; `each` was not called.
    pub fn present_from(
        &mut self,
        who: &Owner,
        from: usize,
        count_max: usize,
        slot: u32,
        each: EachPresent<'_>,
    ) -> Result<Option<usize>, LockError> {
        let _guard = self.lock(who, None)?;
        let table = self.table();
        let mut texts = std::mem::take(&mut self.texts);
        let end = table.used_entries().end;
        let until = from.saturating_add(count_max).min(end);
        for entry in from..until {
            if table.is_used(entry) {
                self.give(entry, slot, &mut texts, each);
            }
        }
        self.texts = texts;
        Ok((until < end).then_some(until))
    }

    /// Sets the number of connections of a user in a channel for one slot. A user with zero connections over all slots is removed.
    /// The limit per source does not apply.
    ///
    /// # Errors
    /// [`PresenceError`]; nothing has changed.
    pub fn set_present(
        &mut self,
        who: &Owner,
        slot: u32,
        presence: &Presence<'_>,
        connections: u32,
    ) -> Result<(), PresenceError> {
        let Presence {
            channel,
            user,
            info,
            announce,
            ..
        } = *presence;
        if user.is_empty() || user.len() > crate::layout::USER_BYTES_MAX {
            return Err(PresenceError::User { bytes: user.len() });
        }
        if info.len() > crate::layout::INFO_BYTES_MAX {
            return Err(PresenceError::Info { bytes: info.len() });
        }
        if slot >= self.layout.workers_max {
            return Err(PresenceError::Slot { slot });
        }
        let _guard = self.lock(who, None)?;
        let table = self.table();
        let keys = table.keys(&self.hasher, channel, user);
        let mut found = table.find(&keys, channel, user);
        if let Some(entry) = found.filter(|&entry| table.state(entry) != PRESENT) {
            // A process that set the user's last connection count to zero was killed before it removed the user.
            self.change(|| table.remove(entry));
            found = None;
        }
        match (found, connections) {
            (None, 0) => {}
            (None, _) => {
                let entry = table.free_entry().ok_or(PresenceError::Full {
                    max: self.layout.presence.members_max,
                })?;
                self.change(|| {
                    table.insert(entry, (&keys, 0), (channel, user, info), slot);
                    table.set_connections(entry, None, slot, connections);
                });
                found = Some(entry);
            }
            (Some(entry), 0) if table.connections(entry) == table.connections_of(entry, slot) => {
                self.change(|| table.remove(entry));
                return Ok(());
            }
            (Some(entry), 0) => self.change(|| table.set_connections(entry, None, slot, 0)),
            (Some(entry), _) => {
                self.change(|| table.set_connections(entry, Some(info), slot, connections));
            }
        }
        if let Some(entry) = found.filter(|_| announce.is_some() && connections > 0) {
            table.set_announced(entry);
        }
        Ok(())
    }

    /// Checks that a user may join a channel. A present user always may.
    ///
    /// # Errors
    /// [`PresenceError::ChannelFull`], [`PresenceError::Full`], or the lock is unavailable.
    pub fn check_room(
        &mut self,
        who: &Owner,
        (channel, user): (&[u8], &[u8]),
    ) -> Result<(), PresenceError> {
        let _guard = self.lock(who, None)?;
        let table = self.table();
        let keys = table.keys(&self.hasher, channel, user);
        if table.find(&keys, channel, user).is_some() {
            return Ok(());
        }
        if table.channel_count(&keys) >= self.channel_members_max {
            return Err(PresenceError::ChannelFull {
                max: self.channel_members_max,
            });
        }
        match table.free_entry() {
            Some(_) => Ok(()),
            None => Err(PresenceError::Full {
                max: self.layout.presence.members_max,
            }),
        }
    }

    /// Returns the maximum number of users over all channels.
    pub fn members_max(&self) -> usize {
        self.layout.presence.members_max
    }

    /// Removes all users.
    ///
    /// # Errors
    /// [`LockError`]; nothing has changed.
    pub fn clear_present(&mut self, who: &Owner) -> Result<(), LockError> {
        let _guard = self.lock(who, None)?;
        self.presence_reset();
        Ok(())
    }

    fn give(&self, entry: usize, slot: u32, texts: &mut super::Texts, each: EachPresent<'_>) {
        let table = self.table();
        table.texts(entry, texts);
        let is_slot = slot < self.layout.workers_max;
        each(&Present {
            channel: &texts.channel,
            user: &texts.user,
            info: &texts.info,
            connections: table.connections(entry),
            of_slot: if is_slot {
                table.connections_of(entry, slot)
            } else {
                0
            },
            is_announced: table.announced(entry),
        });
    }
}
