//! Event ids: `<epoch>-<seq>`, both in base 36.
//!
//! The epoch distinguishes rings: an id from before a restart without history must not be read as a position in the new
//! ring.

use crate::record::{LogPlace, Record, Seq};

/// Maximum length of an event id in bytes: two 64-bit numbers in base 36 and the hyphen.
pub const ID_BYTES_MAX: usize = 27;

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const DIGITS_MAX: usize = 13;

/// The position that a client's `Last-Event-ID` refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdRef {
    /// A sequence number of this ring.
    Seq(Seq),
    /// A log position that this ring has not reached. The client received it from another server.
    Ahead(Seq),
    /// A log position before all records of this ring. The log may still have the records after it.
    Past(Seq),
    /// An id of another epoch, or an id that this ring has not assigned. The records after it are unknown.
    Foreign,
    /// Not an event id.
    Invalid,
}

/// Writes and parses the event ids of one epoch.
#[derive(Clone, Copy)]
pub struct Ids {
    epoch: u64,
    /// `<epoch>-` as text.
    prefix: [u8; DIGITS_MAX + 1],
    prefix_len: u8,
}

impl Ids {
    /// Creates the ids of `epoch`.
    pub fn new(epoch: u64) -> Ids {
        let mut digits = [0; DIGITS_MAX];
        let text = base36(epoch, &mut digits);
        let mut prefix = [0; DIGITS_MAX + 1];
        prefix[..text.len()].copy_from_slice(text);
        prefix[text.len()] = b'-';
        Ids {
            epoch,
            prefix,
            prefix_len: text.len() as u8 + 1,
        }
    }

    /// Appends the id of `seq`.
    pub fn write(&self, seq: Seq, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix[..usize::from(self.prefix_len)]);
        let mut digits = [0; DIGITS_MAX];
        out.extend_from_slice(base36(seq, &mut digits));
    }

    /// Writes the id of `seq` into `buffer` and returns it.
    pub fn text<'b>(&self, seq: Seq, buffer: &'b mut [u8; ID_BYTES_MAX]) -> &'b [u8] {
        let prefix_len = usize::from(self.prefix_len);
        buffer[..prefix_len].copy_from_slice(&self.prefix[..prefix_len]);
        let mut digits = [0; DIGITS_MAX];
        let text = base36(seq, &mut digits);
        let end = prefix_len + text.len();
        buffer[prefix_len..end].copy_from_slice(text);
        &buffer[..end]
    }

    /// Writes the id of a record into `buffer` and returns it. The id contains the record's log position if the record comes from a
    /// log, otherwise its sequence number.
    pub fn of<'b>(&self, record: &Record, buffer: &'b mut [u8; ID_BYTES_MAX]) -> &'b [u8] {
        let (ids, seq) = self.id_of(record);
        ids.text(seq, buffer)
    }

    /// Returns the id of a record as numbers.
    pub fn id_of(&self, record: &Record) -> (Ids, Seq) {
        match record.log_place() {
            Some(place) if place.epoch != self.epoch => (Ids::new(place.epoch), place.seq),
            Some(place) => (*self, place.seq),
            None => (*self, record.seq),
        }
    }

    /// Parses an id. Only the spelling that [`Ids::write`] produces is valid: lower case, no leading zeros.
    pub fn parse(&self, text: &[u8]) -> IdRef {
        let Some(hyphen) = text.iter().position(|&byte| byte == b'-') else {
            return IdRef::Invalid;
        };
        match (number(&text[..hyphen]), number(&text[hyphen + 1..])) {
            (Some(epoch), Some(seq)) if epoch == self.epoch => IdRef::Seq(seq),
            (Some(_), Some(_)) => IdRef::Foreign,
            _ => IdRef::Invalid,
        }
    }

    /// Parses an id as a log position, whatever its epoch.
    pub fn place_of(text: &[u8]) -> Option<LogPlace> {
        let hyphen = text.iter().position(|&byte| byte == b'-')?;
        let (epoch, seq) = (number(&text[..hyphen])?, number(&text[hyphen + 1..])?);
        (epoch > 0).then_some(LogPlace { epoch, seq })
    }

    /// Returns the epoch of these ids.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

fn base36(mut value: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        buffer[at] = DIGITS[(value % 36) as usize];
        value /= 36;
        if value == 0 {
            return &buffer[at..];
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > DIGITS_MAX || (text[0] == b'0' && text.len() > 1) {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'z' => byte - b'a' + 10,
            _ => return None,
        };
        value.checked_mul(36)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parse_undoes_write(epoch: u64, seq: u64) {
            let ids = Ids::new(epoch);
            let mut out = Vec::new();
            ids.write(seq, &mut out);
            let mut buffer = [0; ID_BYTES_MAX];
            prop_assert_eq!(ids.text(seq, &mut buffer), &out[..]);
            prop_assert_eq!(ids.parse(&out), IdRef::Seq(seq));
            prop_assert_eq!(Ids::new(epoch ^ 1).parse(&out), IdRef::Foreign);
        }

        #[test]
        fn never_panics_on_any_bytes(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let ids = Ids::new(7);
            if let IdRef::Seq(seq) = ids.parse(&text) {
                let mut out = Vec::new();
                ids.write(seq, &mut out);
                prop_assert_eq!(out, text);
            }
        }
    }

    #[test]
    fn other_spellings_are_invalid() {
        let ids = Ids::new(35);
        assert_eq!(ids.parse(b"z-10"), IdRef::Seq(36));
        for text in [
            "",
            "-",
            "z",
            "z-",
            "-1",
            "Z-10",
            "z-010",
            "0z-10",
            "z-10 ",
            "z-1-0",
            "z-zzzzzzzzzzzzz",
            "z-+1",
        ] {
            assert_eq!(ids.parse(text.as_bytes()), IdRef::Invalid, "{text:?}");
        }
        assert_eq!(ids.parse(b"y-10"), IdRef::Foreign);
    }
}
