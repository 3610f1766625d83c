//! Records: the content of a publish, as plain data and as words in the ring.
//!
//! In the ring a record starts with a header of fixed words. Channel, name and data follow, each padded to complete words. The
//! subscriber that the record concerns and the record's log position follow, if present.

use crate::words::{WORD_BYTES, words_for};

/// A record's position in the ring: unique within the ring's epoch and ascending in publish order. Not dense, never zero.
pub type Seq = u64;

/// Maximum length of a channel name in bytes. The minimum is one byte.
pub const CHANNEL_BYTES_MAX: usize = if cfg!(loom) { 8 } else { 255 };

// Words of a record's header.
/// The record's own position.
pub(crate) const W_STAMP: usize = 0;
/// Number of words of the record (32 bits), length of the channel name (8), kind (8), flags for: has a name, concerns one
/// subscriber, has a log position (1 bit each).
pub(crate) const W_SHAPE: usize = 1;
/// Position of the previous record in the same index bucket. 0 means none.
pub(crate) const W_PREV: usize = 2;
/// Wall-clock time in milliseconds.
pub(crate) const W_TIME: usize = 3;
/// Name length (32 bits), data length (32).
pub(crate) const W_LENGTHS: usize = 4;
/// Hash of the channel name.
pub(crate) const W_HASH: usize = 5;
/// Checksum of all other words.
pub(crate) const W_SUM: usize = 6;
/// Words of the header.
pub(crate) const HEADER_WORDS: usize = 7;

/// Words of a [`Subscriber`].
pub(crate) const SUBSCRIBER_WORDS: usize = 2;

/// Words of a [`LogPlace`].
pub(crate) const PLACE_WORDS: usize = 2;

/// A position in a log that several servers share. It identifies an event on all of these servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogPlace {
    /// Identifies the log. Never zero.
    pub epoch: u64,
    /// Ascends in the log's order.
    pub seq: u64,
}

/// One subscriber of one worker. The worker chooses both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// Random number of the worker process.
    pub worker: u64,
    /// Number of the subscriber within the worker. Its low 32 bits are the `owner` argument of [`crate::Local::subscribe`].
    pub key: u64,
}

impl Subscriber {
    /// The worker itself, for messages on a channel that only this worker reads.
    pub const WORKER: Subscriber = Subscriber {
        worker: 0,
        key: u64::MAX,
    };

    pub(crate) fn bytes(self) -> [u8; SUBSCRIBER_WORDS * WORD_BYTES] {
        let mut bytes = [0; SUBSCRIBER_WORDS * WORD_BYTES];
        bytes[..WORD_BYTES].copy_from_slice(&self.worker.to_le_bytes());
        bytes[WORD_BYTES..].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }
}

impl LogPlace {
    pub(crate) fn bytes(self) -> [u8; PLACE_WORDS * WORD_BYTES] {
        let mut bytes = [0; PLACE_WORDS * WORD_BYTES];
        bytes[..WORD_BYTES].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[WORD_BYTES..].copy_from_slice(&self.seq.to_le_bytes());
        bytes
    }
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A published message.
    Message,
    /// A user joined.
    Join,
    /// A user left.
    Leave,
    /// A message for a single subscriber, on a channel that only the subscriber's worker reads.
    Direct,
    /// Messages of the log are missing at this position, or another log starts: see
    /// [`Ring::begin_log`](crate::Ring::begin_log). Readers return [`Read::Lost`](crate::Read::Lost) for it.
    Gap,
}

impl Kind {
    fn from_bits(bits: u64) -> Option<Kind> {
        match bits {
            0 => Some(Kind::Message),
            1 => Some(Kind::Join),
            2 => Some(Kind::Leave),
            3 => Some(Kind::Direct),
            4 => Some(Kind::Gap),
            _ => None,
        }
    }
}

/// A message to publish.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The channel's name, 1..=255 bytes.
    pub channel: &'a [u8],
    /// The kind of the record.
    pub kind: Kind,
    /// The event's name; `None` = an unnamed event.
    pub name: Option<&'a [u8]>,
    /// The event's data.
    pub data: &'a [u8],
}

/// A record that was read. Reuse one value to reuse its buffer.
#[derive(Clone, Debug)]
pub struct Record {
    /// The record's position in the ring.
    pub seq: Seq,
    /// Time of the publish, in wall-clock milliseconds.
    pub unix_ms: u64,
    /// The kind of the record.
    pub kind: Kind,
    pub(crate) hash: u64,
    channel_len: u8,
    has_name: bool,
    concerns_one: bool,
    has_place: bool,
    name_len: u32,
    data_len: u32,
    /// Channel, name and data, each padded to complete words; may be longer if reused.
    bytes: Vec<u8>,
}

impl Record {
    /// Creates an empty record, to be read into.
    pub fn empty() -> Record {
        Record {
            seq: 0,
            unix_ms: 0,
            kind: Kind::Message,
            hash: 0,
            channel_len: 0,
            has_name: false,
            concerns_one: false,
            has_place: false,
            name_len: 0,
            data_len: 0,
            bytes: Vec::new(),
        }
    }

    /// Creates a record that does not come from the ring. Returns `None` if a length is out of range.
    pub fn new(seq: Seq, unix_ms: u64, message: &Message<'_>) -> Option<Record> {
        let shape = Shape::of(message, false, false)?;
        let mut record = Record::empty();
        let bytes = record.fill(seq, unix_ms, 0, &shape);
        let parts = [
            message.channel,
            message.name.unwrap_or_default(),
            message.data,
        ];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += padded(part.len());
        }
        Some(record)
    }

    /// Becomes the record at a log position that is not in the ring. Returns false if a length is out of range.
    pub fn become_logged(
        &mut self,
        place: LogPlace,
        unix_ms: u64,
        message: &Message<'_>,
        except: Option<Subscriber>,
    ) -> bool {
        let Some(shape) = Shape::of(message, except.is_some(), true) else {
            return false;
        };
        let bytes = self.fill(0, unix_ms, 0, &shape);
        let (except, place) = (except.map(Subscriber::bytes), place.bytes());
        let parts = [
            message.channel,
            message.name.unwrap_or_default(),
            message.data,
            except.as_ref().map_or(&[][..], |bytes| &bytes[..]),
            &place,
        ];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += padded(part.len());
        }
        true
    }

    /// Returns the channel's name.
    pub fn channel(&self) -> &[u8] {
        &self.bytes[..usize::from(self.channel_len)]
    }

    /// Returns the event's name, if it has one.
    pub fn name(&self) -> Option<&[u8]> {
        let start = padded(usize::from(self.channel_len));
        self.has_name
            .then(|| &self.bytes[start..start + self.name_len as usize])
    }

    /// Returns the event's data.
    pub fn data(&self) -> &[u8] {
        let start = padded(usize::from(self.channel_len)) + padded(self.name_len as usize);
        &self.bytes[start..start + self.data_len as usize]
    }

    /// Returns the socket that must not receive a message, or the only socket that receives a direct message.
    pub fn subscriber(&self) -> Option<Subscriber> {
        if !self.concerns_one {
            return None;
        }
        let (worker, key) = self.pair_at(0)?;
        Some(Subscriber { worker, key })
    }

    /// Returns true if the record comes from a log, and false if it exists on this server only.
    #[inline]
    pub(crate) fn has_log_place(&self) -> bool {
        self.has_place
    }

    /// Returns the record's log position, if the record comes from a log.
    pub fn log_place(&self) -> Option<LogPlace> {
        if !self.has_place {
            return None;
        }
        let before = if self.concerns_one {
            SUBSCRIBER_WORDS
        } else {
            0
        };
        let (epoch, seq) = self.pair_at(before)?;
        Some(LogPlace { epoch, seq })
    }

    /// Returns two words at an offset after the data.
    fn pair_at(&self, words: usize) -> Option<(u64, u64)> {
        let start = padded(usize::from(self.channel_len))
            + padded(self.name_len as usize)
            + padded(self.data_len as usize)
            + words * WORD_BYTES;
        let (words, _) = self.bytes.get(start..)?.as_chunks::<WORD_BYTES>();
        let [first, second, ..] = words else {
            return None;
        };
        Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second)))
    }

    /// Sets all fields except the bytes, and returns the buffer for the bytes.
    pub(crate) fn fill(&mut self, seq: Seq, unix_ms: u64, hash: u64, shape: &Shape) -> &mut [u8] {
        self.seq = seq;
        self.unix_ms = unix_ms;
        self.kind = shape.kind;
        self.hash = hash;
        self.channel_len = shape.channel_len;
        self.has_name = shape.has_name;
        self.concerns_one = shape.concerns_one;
        self.has_place = shape.has_place;
        self.name_len = shape.name_len;
        self.data_len = shape.data_len;
        let len = shape.body_words() * WORD_BYTES;
        // Never shrink the buffer, so that in the steady state nothing is allocated or cleared.
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[..len]
    }
}

/// The lengths of a record. They are checked against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) channel_len: u8,
    pub(crate) has_name: bool,
    pub(crate) concerns_one: bool,
    pub(crate) has_place: bool,
    pub(crate) name_len: u32,
    pub(crate) data_len: u32,
}

impl Shape {
    /// Returns the lengths of a message. Returns `None` if a length does not fit the format.
    pub(crate) fn of(message: &Message<'_>, concerns_one: bool, has_place: bool) -> Option<Shape> {
        if message.channel.is_empty() || message.channel.len() > CHANNEL_BYTES_MAX {
            return None;
        }
        Some(Shape {
            kind: message.kind,
            channel_len: u8::try_from(message.channel.len()).ok()?,
            has_name: message.name.is_some(),
            concerns_one,
            has_place,
            name_len: u32::try_from(message.name.map_or(0, <[u8]>::len)).ok()?,
            data_len: u32::try_from(message.data.len()).ok()?,
        })
    }

    /// Decodes `W_SHAPE` and `W_LENGTHS`. Returns `None` if they are invalid, inconsistent or too large.
    pub(crate) fn read(shape: u64, lengths: u64, record_words_max: usize) -> Option<Shape> {
        let flags = shape >> 48;
        if flags > 7 {
            return None;
        }
        let read = Shape {
            channel_len: (shape >> 32) as u8,
            kind: Kind::from_bits(shape >> 40 & 0xff)?,
            has_name: flags & 1 != 0,
            concerns_one: flags & 2 != 0,
            has_place: flags & 4 != 0,
            name_len: lengths as u32,
            data_len: (lengths >> 32) as u32,
        };
        let words = read.total_words();
        let sound = words == shape as u32 as usize
            && words <= record_words_max
            && read.channel_len > 0
            && (read.has_name || read.name_len == 0);
        sound.then_some(read)
    }

    /// Encodes `W_SHAPE` and `W_LENGTHS`.
    pub(crate) fn write(&self) -> (u64, u64) {
        let shape = self.total_words() as u64
            | u64::from(self.channel_len) << 32
            | (self.kind as u64) << 40
            | u64::from(self.has_name) << 48
            | u64::from(self.concerns_one) << 49
            | u64::from(self.has_place) << 50;
        (
            shape,
            u64::from(self.name_len) | u64::from(self.data_len) << 32,
        )
    }

    pub(crate) fn body_words(&self) -> usize {
        words_for(usize::from(self.channel_len))
            + words_for(self.name_len as usize)
            + words_for(self.data_len as usize)
            + if self.concerns_one {
                SUBSCRIBER_WORDS
            } else {
                0
            }
            + if self.has_place { PLACE_WORDS } else { 0 }
    }

    pub(crate) fn total_words(&self) -> usize {
        HEADER_WORDS + self.body_words()
    }
}

fn padded(len: usize) -> usize {
    words_for(len) * WORD_BYTES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn damaged_shapes_are_refused_or_consistent(shape: u64, lengths: u64) {
            if let Some(read) = Shape::read(shape, lengths, 10_000) {
                prop_assert!(read.total_words() <= 10_000);
                prop_assert_eq!(read.write(), (shape, lengths));
            }
        }
    }

    #[test]
    fn constructed_record_returns_its_parts() {
        let message = Message {
            channel: b"room",
            kind: Kind::Join,
            name: Some(b"hello-world"),
            data: b"x",
        };
        let record = Record::new(9, 8, &message).expect("lengths are fine");
        assert_eq!(
            (record.channel(), record.name(), record.data()),
            (&b"room"[..], message.name, &b"x"[..])
        );
        assert!(
            Record::new(
                9,
                8,
                &Message {
                    channel: b"",
                    ..message
                }
            )
            .is_none()
        );
        assert!(
            Record::new(
                9,
                8,
                &Message {
                    channel: &[b'c'; 256],
                    ..message
                }
            )
            .is_none()
        );
    }
}
