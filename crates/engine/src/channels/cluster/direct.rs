//! Messages for a socket on another machine, and for the workers of all other machines.
//!
//! They pass through the cluster log like events. The machine that has the socket delivers the
//! message to the worker in the socket's id; other machines ignore it.

use fermata_hub::{Kind, Message, PublishError, Subscriber};
use fermata_io::clock;

use super::facts::NO_CHANNEL;
use super::identity::is_of;
use super::memory::{
    DIRECT_HEAD_BYTES, MARK_BYTES, MARK_DIRECT, MARK_WORKERS, NOBODY, READER_SLOT,
};
use crate::channels::busy::Busy;
use crate::channels::publish::PublishFailure;
use crate::channels::{Channels, WORKERS_CHANNEL, private_channel};
use crate::misuse::Misuse;

const TEXT: u8 = b't';
const BINARY: u8 = b'b';

/// A message for one socket, as stored in the log.
pub(super) struct Direct<'a> {
    pub slot: u16,
    pub is_binary: bool,
    pub data: &'a [u8],
}

impl<'a> Direct<'a> {
    fn written(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(DIRECT_HEAD_BYTES + self.data.len());
        out.push(if self.is_binary { BINARY } else { TEXT });
        out.extend_from_slice(&self.slot.to_le_bytes());
        out.extend_from_slice(self.data);
        out
    }

    /// Parses a message. `None` if another program wrote it.
    pub fn read(data: &'a [u8]) -> Option<Direct<'a>> {
        let (head, data) = data.split_at_checked(DIRECT_HEAD_BYTES)?;
        let is_binary = match head[0] {
            TEXT => false,
            BINARY => true,
            _ => return None,
        };
        let slot = u16::from_le_bytes([head[1], head[2]]);
        let is_message = is_binary || std::str::from_utf8(data).is_ok();
        is_message.then_some(Direct {
            slot,
            is_binary,
            data,
        })
    }
}

impl Channels {
    /// Returns true if another machine of the cluster has the subscriber.
    pub(crate) fn is_elsewhere(&self, subscriber: Subscriber) -> bool {
        let outbox = self.outbox.as_ref();
        outbox.is_some_and(|outbox| !is_of(subscriber.worker, outbox.node))
    }

    /// Queues a message for a socket of another machine, without waiting for an acknowledgement.
    ///
    /// # Errors
    /// The log is unreachable, or the outbox is full.
    pub(crate) fn send_elsewhere(
        &mut self,
        slot: u16,
        subscriber: Subscriber,
        is_binary: bool,
        data: &[u8],
    ) -> Result<(), PublishFailure> {
        let direct = Direct {
            slot,
            is_binary,
            data,
        };
        self.put_message(MARK_DIRECT, &direct.written(), subscriber)
    }

    /// Sends a message to the workers of all other machines, without waiting for an
    /// acknowledgement. Returns false if there is no cluster.
    ///
    /// # Errors
    /// The message is too large, the log is unreachable, or the outbox is full.
    pub fn send_to_servers(&mut self, data: &[u8]) -> Result<bool, PublishFailure> {
        if self.outbox.is_none() {
            return Ok(false);
        }
        let (bytes, max) = (data.len(), self.settings.event_bytes_max);
        if bytes > max {
            return Err(Misuse::ServersMessageBytes { bytes, max }.into());
        }
        let sender = Subscriber {
            worker: self.identity,
            ..Subscriber::WORKER
        };
        self.put_message(MARK_WORKERS, data, sender)?;
        Ok(true)
    }

    fn put_message(
        &mut self,
        mark: u8,
        data: &[u8],
        subscriber: Subscriber,
    ) -> Result<(), PublishFailure> {
        let is_ready = self.is_log_ready();
        let Some(outbox) = self.outbox.as_mut().filter(|_| is_ready) else {
            return Err(Busy::NoWay.into());
        };
        let [low, high] = NOBODY.to_le_bytes();
        let mark: [u8; MARK_BYTES] = [low, high, mark];
        let record = Message {
            channel: NO_CHANNEL,
            kind: Kind::Message,
            name: Some(&mark),
            data,
        };
        let put =
            outbox
                .ring
                .publish_about(&self.owner, &record, Some(subscriber), clock::unix_ms());
        if outbox.ring.wake_list().contains(READER_SLOT) {
            outbox.waker.wake();
        }
        match put {
            Ok(_) => Ok(()),
            Err(PublishError::Behind { .. }) => Err(Busy::WayFull.into()),
            Err(error) => Err(Busy::Ring(error).into()),
        }
    }
}

/// Builds the record that delivers a message to the worker with the socket.
pub(super) fn record<'a>(channel: &'a [u8], direct: &Direct<'a>) -> Message<'a> {
    Message {
        channel,
        kind: Kind::Direct,
        name: direct.is_binary.then_some(&b"b"[..]),
        data: direct.data,
    }
}

/// Builds the record that delivers a message of another machine to all workers of this machine.
pub(super) fn workers_record(data: &[u8]) -> Message<'_> {
    Message {
        channel: &WORKERS_CHANNEL,
        kind: Kind::Direct,
        name: None,
        data,
    }
}

/// Returns the channel that the socket's worker reads.
pub(super) fn channel_of(direct: &Direct<'_>) -> [u8; 4] {
    private_channel(direct.slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_malformed_direct_messages() {
        let text = Direct {
            slot: 0x1234,
            is_binary: false,
            data: "Grüße".as_bytes(),
        };
        let written = text.written();
        let read = Direct::read(&written).expect("it was written by us");
        assert_eq!((read.slot, read.is_binary), (0x1234, false));
        assert_eq!(read.data, "Grüße".as_bytes());
        for bad in [&b""[..], b"t", b"t\0", b"x\0\0data", b"t\0\0\xff"] {
            assert!(Direct::read(bad).is_none(), "{bad:?}");
        }
        assert!(Direct::read(b"b\0\0\xff").is_some());
        assert!(Direct::read(b"t\0\0").is_some());
    }
}
