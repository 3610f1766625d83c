//! Presence in channels: users with their connections over all workers, kept in the ring's memory.

use std::net::IpAddr;

use fermata_config::LogLevel;
use fermata_hub::{INFO_BYTES_MAX, LockError, Ring, USER_BYTES_MAX};
use fermata_io::Deadline;

use super::Channels;
use super::publish::{Member, check_channel};
use crate::log::Log;
use crate::misuse::Misuse;

/// How often leaving users are looked at while there are any.
pub(crate) const SWEEP_MS: u64 = 250;

/// What a held client is counted as.
pub(crate) struct Presence {
    pub user: Vec<u8>,
    pub channels: Vec<Vec<u8>>,
}

/// Why nothing is known of who is present.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// The channel's name is not acceptable.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The presence table was not to be had in time.
    #[error("presence: {0}")]
    Backpressure(#[from] LockError),
    /// Other machines have not told yet.
    #[error("who is present on the other machines of the cluster is not known yet; try again")]
    Unknown,
}

impl Channels {
    /// Others have left, perhaps with their worker: they are announced soon.
    pub(crate) fn expect_leaving(&mut self, now_ms: u64) {
        if self.ring.leaving_count() > 0 {
            self.sweep = self.sweep.min(Deadline::after(now_ms, SWEEP_MS));
        }
    }

    /// Announces users whose last connection has been gone for `leave_delay_ms`.
    pub(crate) fn sweep(&mut self, (now_ms, unix_ms): (u64, u64), log: &mut Log) {
        if !self.sweep.is_due(now_ms) {
            return;
        }
        let (is_shared, mut left) = (self.outbox.is_some(), Vec::new());
        let swept =
            self.ring.sweep(
                &self.owner,
                unix_ms,
                &mut |channel, user, info, data| match is_shared {
                    true => left.push((channel.to_vec(), user.to_vec())),
                    false => data.extend_from_slice(&announcement(user, Some(info))),
                },
            );
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
                let message = format!("presence: leaves are announced later: {error}");
                log.write_limited(LogLevel::Warning, unix_ms, &message);
                false
            }
        };
        self.sweep = match is_done {
            true => Deadline::NEVER,
            false => Deadline::after(now_ms, SWEEP_MS),
        };
    }

    /// The table that has all who are present, on whichever machine.
    fn members_table(&mut self) -> Result<&mut Ring, MembersError> {
        if !self.is_presence_known() {
            return Err(MembersError::Unknown);
        }
        Ok(match &mut self.outbox {
            Some(outbox) => outbox.members(),
            None => &mut self.ring,
        })
    }

    /// How many users are present in a channel.
    pub fn member_count(&mut self, channel: &[u8]) -> Result<usize, MembersError> {
        let owner = self.owner;
        check_channel(channel)?;
        Ok(self.members_table()?.member_count(&owner, channel)?)
    }

    /// Users present in a channel, at most `count_max` of them, the latest first.
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

/// Checks who a client counts as.
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

/// The part of an address that tells clients apart: of IPv6 the network, whose 2^64 addresses one client may have.
pub(super) fn network_of(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets()[..8].to_vec(),
    }
}

/// `{"user": …, "info": …}`, what `join` and `leave` events carry.
pub(super) fn announcement(user: &[u8], info: Option<&[u8]>) -> Vec<u8> {
    let user = serde_json::Value::from(String::from_utf8_lossy(user));
    let info = match info {
        Some(info) if !info.is_empty() => String::from_utf8_lossy(info),
        _ => "null".into(),
    };
    format!("{{\"user\":{user},\"info\":{info}}}").into_bytes()
}
