//! Encoded presence records: notes that wait in the outbox, and the facts that the log stores.

use fermata_hub::{Kind, Message, Owner, Ring, Subscriber};

use super::memory::{MARK_BYTES, MARK_NOTE, NOBODY};

/// Channel name in records that concern no channel.
pub(super) const NO_CHANNEL: &[u8] = b"-";

/// A user's number of connections on one server has changed.
pub(super) const OP_MEMBER: u8 = b'm';
/// A user's number of connections, sent because a server has requested all members.
pub(super) const OP_REPEAT: u8 = b'r';
/// Only in notes: a silent server's user has left. The log stores `OP_MEMBER` with `FLAG_GONE`.
pub(super) const OP_GONE: u8 = b'g';
/// A heartbeat of a server with members.
pub(super) const OP_BEAT: u8 = b'b';
/// Requests the members of all servers.
pub(super) const OP_ASK: u8 = b'a';

/// The user's joins and leaves are reported to clients.
pub(super) const FLAG_ANNOUNCED: u8 = 1;
/// Another server has published the fact, because the server of the user is silent.
pub(super) const FLAG_GONE: u8 = 2;
/// The sender observed that this change makes the user join or leave.
pub(super) const FLAG_CHANGES: u8 = 4;

/// Length of a fact before the user's name: operation, server, connections, flags, length of the
/// name.
const FACT_BYTES: usize = 15;

/// An entry of a worker or the bridge in the outbox. The bridge looks up the current values when it
/// publishes the entry.
pub(super) struct Note<'a> {
    pub channel: &'a [u8],
    pub data: &'a [u8],
}

/// Number of connections of a user of a channel on one server, as stored in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact<'a> {
    pub op: u8,
    pub node: u64,
    pub connections: u32,
    pub flags: u8,
    pub user: &'a [u8],
    pub info: &'a [u8],
}

impl<'a> Fact<'a> {
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(self.op);
        out.extend_from_slice(&self.node.to_le_bytes());
        out.extend_from_slice(&self.connections.to_le_bytes());
        out.push(self.flags);
        out.push(self.user.len() as u8);
        out.extend_from_slice(self.user);
        out.extend_from_slice(self.info);
    }

    pub fn read(data: &'a [u8]) -> Option<Fact<'a>> {
        let (head, rest) = data.split_at_checked(FACT_BYTES)?;
        let (user, info) = rest.split_at_checked(usize::from(head[14]))?;
        Some(Fact {
            op: head[0],
            node: u64::from_le_bytes(head[1..9].try_into().ok()?),
            connections: u32::from_le_bytes(head[9..13].try_into().ok()?),
            flags: head[13],
            user,
            info,
        })
    }
}

/// Builds the note of a worker whose count of a user has changed.
pub(super) fn member_note(user: &[u8]) -> Vec<u8> {
    [&[OP_MEMBER], user].concat()
}

pub(super) fn flag(flag: u8, is_set: bool) -> u8 {
    if is_set { flag } else { 0 }
}

/// Puts a note into the outbox. Returns false if the outbox is full or its lock is unavailable.
///
/// The client `except` receives no event caused by the note.
pub(super) fn put_note(
    outbox: &mut Ring,
    owner: &Owner,
    note: &Note<'_>,
    except: Option<Subscriber>,
) -> bool {
    let [low, high] = NOBODY.to_le_bytes();
    let mark: [u8; MARK_BYTES] = [low, high, MARK_NOTE];
    let message = Message {
        channel: note.channel,
        kind: Kind::Message,
        name: Some(&mark),
        data: note.data,
    };
    outbox.publish_about(owner, &message, except, 0).is_ok()
}
