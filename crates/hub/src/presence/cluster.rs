//! Presence that several machines share: a table of the whole cluster, in which each machine has a slot, and what is needed
//! to compare it with the table of this machine.
//!
//! In the cluster's table a count is set and not counted up or down, so that a change may be made twice, and nobody is leaving:
//! a user without connections is removed at once. Time and announcements are the caller's.

use super::table::PRESENT;
use super::{Presence, PresenceError};
use crate::lock::{LockError, Owner};
use crate::ring::Ring;

/// A user in a channel, as a table has it.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The channel's name.
    pub channel: &'a [u8],
    /// The user's name.
    pub user: &'a [u8],
    /// What is known about the user.
    pub info: &'a [u8],
    /// Connections over all slots: none of a user that is leaving.
    pub connections: u32,
    /// Connections of the slot that was asked for.
    pub of_slot: u32,
    /// Whether the leave is announced.
    pub is_announced: bool,
}

/// Takes a user of a table.
pub type EachPresent<'f> = &'f mut dyn FnMut(&Present<'_>);

impl Ring {
    /// Leaves it to the caller to tell of joins and leaves: [`Ring::join`] announces none, and [`Ring::sweep`] gives all users
    /// that have left, those that came silently among them.
    pub fn leave_announcements_to_caller(&mut self) {
        self.announces = false;
    }

    /// Gives a user of a channel, if it is there.
    ///
    /// # Errors
    /// [`LockError`]; nothing was given.
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

    /// Gives users of all channels, at most `count_max` entries of the table from `from` on. Returns where to go on; `None` at
    /// the end. A user that comes or goes meanwhile may be given or not.
    ///
    /// # Errors
    /// [`LockError`]; nothing was given.
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

    /// Says how many connections a slot has of a user in a channel; zero of all slots removes the user. The user's source is
    /// not bounded here.
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
            // The process that took its last connection was killed before removing it.
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

    /// Whether a user may be let into a channel: those who are in have room.
    ///
    /// # Errors
    /// [`PresenceError::ChannelFull`], [`PresenceError::Full`], or the lock is not to be had.
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

    /// Most users of all channels.
    pub fn members_max(&self) -> usize {
        self.layout.presence.members_max
    }

    /// Removes everybody.
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
