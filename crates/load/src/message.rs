//! Messages that carry their group, sequence number, send time and a checksum.
//!
//! Every message has a fixed length and only letters, digits and dots. So it survives inside JSON, a URL or an SSE
//! field, and is found anywhere in received data: `fl1.RUN.GROUP.SEQUENCE.CONFIRMED.NUMBER.TIME.PADDING CHECKSUM`,
//! all hexadecimal except the padding.

use memchr::memmem::Finder;

/// Length of the header before the padding, in bytes.
const HEADER_BYTES: usize = 66;
const CHECKSUM_BYTES: usize = 8;
/// Minimum length of a message, in bytes.
pub(crate) const BYTES_MIN: usize = HEADER_BYTES + CHECKSUM_BYTES;

/// Content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    /// Group, or [`crate::groups::ALL`].
    pub group: u32,
    /// Sequence number within the group, from 1.
    pub sequence: u32,
    /// Sequence number of the group's last confirmed message when this message was sent. The messages between the two
    /// may be missing.
    pub confirmed: u32,
    /// Number among all published messages.
    pub number: u32,
    /// Scheduled send time on the clock of the run.
    pub time_us: u64,
}

impl Message {
    /// Appends the message with a length of `bytes` bytes, at least [`BYTES_MIN`].
    pub fn write(&self, run: u32, bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(b"fl1.");
        for field in [run, self.group, self.sequence, self.confirmed, self.number] {
            hex(out, u64::from(field), 8);
            out.push(b'.');
        }
        hex(out, self.time_us, 16);
        out.push(b'.');
        let padding = bytes.saturating_sub(BYTES_MIN);
        out.extend((0..padding).map(|at| b'a' + ((at + self.number as usize) % 26) as u8));
        let sum = checksum(&out[start..]);
        hex(out, u64::from(sum), CHECKSUM_BYTES);
    }
}

/// Result of searching received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Message(Message),
    /// The data starts like a message of this run but is corrupt.
    Corrupt,
    /// The data contains no message of this run.
    Foreign,
}

/// Finds and checks the messages of one run.
#[derive(Debug)]
pub(crate) struct Verifier {
    prefix: Finder<'static>,
    bytes: usize,
    /// The last valid message, encoded and decoded. In a fan-out many clients receive the same bytes, and comparing them is cheaper
    /// than parsing.
    last: (Vec<u8>, Option<Message>),
}

impl Verifier {
    pub fn new(run: u32, bytes: usize) -> Self {
        let mut prefix = b"fl1.".to_vec();
        hex(&mut prefix, u64::from(run), 8);
        prefix.push(b'.');
        Self {
            prefix: Finder::new(&prefix).into_owned(),
            bytes,
            last: (Vec::new(), None),
        }
    }

    pub fn find(&mut self, data: &[u8]) -> Found {
        let Some(start) = self.prefix.find(data) else {
            return Found::Foreign;
        };
        let Some(bytes) = data.get(start..start + self.bytes) else {
            // The message is truncated.
            return Found::Corrupt;
        };
        if let (last, Some(message)) = &self.last
            && last == bytes
        {
            return Found::Message(*message);
        }
        match read(bytes) {
            Some(message) => {
                self.last.0.clear();
                self.last.0.extend_from_slice(bytes);
                self.last.1 = Some(message);
                Found::Message(message)
            }
            None => Found::Corrupt,
        }
    }
}

fn read(bytes: &[u8]) -> Option<Message> {
    let (content, sum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if parse_hex(sum)? != u64::from(checksum(content)) {
        return None;
    }
    let field = |index: usize| parse_hex(&content[4 + index * 9..][..8]).map(|value| value as u32);
    Some(Message {
        group: field(1)?,
        sequence: field(2)?,
        confirmed: field(3)?,
        number: field(4)?,
        time_us: parse_hex(&content[49..65])?,
    })
}

/// Checksum against accidental changes; processes eight bytes at a time.
fn checksum(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word))
            .wrapping_mul(FACTOR)
            .rotate_left(29);
    }
    (sum ^ (sum >> 32)) as u32
}

fn hex(out: &mut Vec<u8>, value: u64, digits: usize) {
    let digit = |at: usize| b"0123456789abcdef"[(value >> (4 * at)) as usize & 15];
    out.extend((0..digits).rev().map(digit));
}

fn parse_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &digit| {
        let digit = (digit as char).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// Effect of a message on a receiver that waits for `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The message is the expected one or a later one. The fields count the messages skipped before it.
    Onward { lost: u32, unconfirmed: u32 },
    /// The message is a duplicate, or follows a later message.
    Repeated,
}

/// Moves `next`, the sequence number that a receiver waits for, past `message`. Zero accepts any number.
pub(crate) fn follow(next: &mut u32, message: &Message) -> Followed {
    if *next == 0 {
        *next = message.sequence;
    }
    if message.sequence < *next {
        return Followed::Repeated;
    }
    let skipped = message.sequence - *next;
    let lost = (message.confirmed + 1).saturating_sub(*next).min(skipped);
    *next = message.sequence + 1;
    Followed::Onward {
        lost,
        unconfirmed: skipped - lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Message = Message {
        group: 7,
        sequence: 42,
        confirmed: 41,
        number: 99,
        time_us: 123_456_789,
    };

    #[test]
    fn what_was_written_is_found_anywhere() {
        for bytes in [BYTES_MIN, 75, 128, 1024] {
            let mut out = b"{\"text\":\"".to_vec();
            MESSAGE.write(0xabcd, bytes, &mut out);
            assert_eq!(out.len(), bytes + 9);
            out.extend_from_slice(b"\"}");
            let mut verifier = Verifier::new(0xabcd, bytes);
            assert_eq!(verifier.find(&out), Found::Message(MESSAGE));
            assert_eq!(verifier.find(&out), Found::Message(MESSAGE));
            assert_eq!(Verifier::new(1, bytes).find(&out), Found::Foreign);
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut out = Vec::new();
        MESSAGE.write(1, 100, &mut out);
        let mut verifier = Verifier::new(1, 100);
        assert_eq!(verifier.find(&out), Found::Message(MESSAGE));
        for at in 0..out.len() {
            let mut changed = out.clone();
            changed[at] ^= 1;
            let found = verifier.find(&changed);
            let expected = if at < 13 {
                Found::Foreign
            } else {
                Found::Corrupt
            };
            assert_eq!(found, expected, "byte {at}");
        }
        assert_eq!(verifier.find(&out[..99]), Found::Corrupt);
    }

    #[test]
    fn lost_repeated_and_unconfirmed_are_told_apart() {
        let message = |sequence, confirmed| Message {
            sequence,
            confirmed,
            ..MESSAGE
        };
        let onward = |lost, unconfirmed| Followed::Onward { lost, unconfirmed };
        let mut next = 1;
        assert_eq!(follow(&mut next, &message(1, 0)), onward(0, 0));
        assert_eq!(follow(&mut next, &message(1, 0)), Followed::Repeated);
        assert_eq!(follow(&mut next, &message(4, 3)), onward(2, 0));
        assert_eq!(follow(&mut next, &message(9, 6)), onward(2, 2));
        assert_eq!(follow(&mut next, &message(12, 9)), onward(0, 2));
        assert_eq!(next, 13);
        let mut any = 0;
        assert_eq!(follow(&mut any, &message(50, 49)), onward(0, 0));
        assert_eq!(any, 51);
    }
}
