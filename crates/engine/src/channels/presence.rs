//! Presence in channels: users with their connections across all workers, stored in the ring's
//! memory.

use std::net::IpAddr;

use fermata_config::LogLevel;
use fermata_hub::{INFO_BYTES_MAX, LockError, Ring, USER_BYTES_MAX};
use fermata_io::Deadline;

use super::Channels;
use super::publish::{Member, check_channel};
use crate::log::Log;
use crate::misuse::Misuse;

/// Interval in milliseconds at which leaving users are checked.
pub(crate) const SWEEP_MS: u64 = 250;

/// Presence of a held client.
pub(crate) struct Presence {
    pub user: Vec<u8>,
    pub channels: Vec<Vec<u8>>,
}

/// Why the members are unknown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// An invalid channel name.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The presence table was not available in time.
    #[error("presence: {0}")]
    Backpressure(#[from] LockError),
    /// Other machines have not sent their members yet.
    #[error("the members on other machines of the cluster are not known yet; try again")]
    Unknown,
}

impl Channels {
    /// Schedules a check of leaving users, after clients left or their worker exited.
    pub(crate) fn expect_leaving(&mut self, now_ms: u64) {
        if self.ring.leaving_count() > 0 {
            self.sweep = self.sweep.min(Deadline::after(now_ms, SWEEP_MS));
        }
    }

    /// Announces users whose last connection closed `leave_delay_ms` ago.
    pub(crate) fn sweep(&mut self, (now_ms, unix_ms): (u64, u64), log: &mut Log) {
        if !self.sweep.is_due(now_ms) {
            return;
        }
        let (is_shared, mut left) = (self.outbox.is_some(), Vec::new());
        let swept = self
            .ring
            .sweep(&self.owner, unix_ms, &mut |channel, user, info, data| {
                if is_shared {
                    left.push((channel.to_vec(), user.to_vec()))
                } else {
                    data.extend_from_slice(&announcement(user, Some(info), Change::Presence))
                }
            });
        for (channel, user) in left {
            self.note_member(&channel, &user, None);
        }
        let is_done = match swept {
            Ok(swept) => {
                if swept.published {
                    self.wake_workers();
                }
                !swept.more && self.ring.leaving_count() == 0
            }
            Err(error) => {
                let message = format!("presence: cannot announce leaves yet: {error}");
                log.write_limited(LogLevel::Warning, unix_ms, &message);
                false
            }
        };
        self.sweep = if is_done {
            Deadline::NEVER
        } else {
            Deadline::after(now_ms, SWEEP_MS)
        };
    }

    /// Returns the table with all members, on all machines.
    fn members_table(&mut self) -> Result<&mut Ring, MembersError> {
        if !self.is_presence_known() {
            return Err(MembersError::Unknown);
        }
        Ok(match &mut self.outbox {
            Some(outbox) => outbox.members(),
            None => &mut self.ring,
        })
    }

    /// Returns the number of users present in a channel.
    pub fn member_count(&mut self, channel: &[u8]) -> Result<usize, MembersError> {
        let owner = self.owner;
        check_channel(channel)?;
        Ok(self.members_table()?.member_count(&owner, channel)?)
    }

    /// Returns users present in a channel, at most `count_max`, the latest first.
    pub fn members(
        &mut self,
        channel: &[u8],
        count_max: usize,
    ) -> Result<Vec<Member>, MembersError> {
        check_channel(channel)?;
        let (owner, mut members) = (self.owner, Vec::new());
        self.members_table()?.members(
            &owner,
            channel,
            count_max,
            &mut |user, info, connections| {
                members.push(Member {
                    user: user.to_vec(),
                    info: info.to_vec(),
                    connections,
                });
            },
        )?;
        Ok(members)
    }
}

/// Checks a client's user name and info.
pub(crate) fn check_member(user: Option<&[u8]>, info: Option<&[u8]>) -> Result<(), Misuse> {
    let is_user = |user: &[u8]| {
        !user.is_empty() && user.len() <= USER_BYTES_MAX && std::str::from_utf8(user).is_ok()
    };
    if !user.is_none_or(is_user) {
        return Err(Misuse::User);
    }
    if info.is_some_and(|info| info.len() > INFO_BYTES_MAX) {
        return Err(Misuse::UserInfo);
    }
    Ok(())
}

/// Returns the part of an address that identifies a client: for IPv6 the /64 network, since one
/// client may use all its addresses.
pub(super) fn network_of(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets()[..8].to_vec(),
    }
}

/// Content of an announcement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The user has joined or left.
    Presence,
    /// A present user has new info.
    Info,
}

/// Returns true if a `join` event reports new info of a user who was already present.
#[must_use]
pub fn is_info_change(announcement: &[u8]) -> bool {
    announcement.ends_with(INFO_CHANGE)
}

/// End of an announcement of [`Change::Info`]. In other announcements the value of `info` precedes
/// the closing brace; an `info` object has its own closing brace.
const INFO_CHANGE: &[u8] = b",\"changed\":true}";

/// Returns `{"user": …, "info": …}`, the data of `join` and `leave` events, with `"changed": true`
/// for new info.
pub(super) fn announcement(user: &[u8], info: Option<&[u8]>, change: Change) -> Vec<u8> {
    let user = serde_json::Value::from(String::from_utf8_lossy(user));
    let info = match info {
        Some(info) if !info.is_empty() => String::from_utf8_lossy(info),
        _ => "null".into(),
    };
    let mut text = format!("{{\"user\":{user},\"info\":{info}").into_bytes();
    text.extend_from_slice(match change {
        Change::Presence => b"}",
        Change::Info => INFO_CHANGE,
    });
    text
}
