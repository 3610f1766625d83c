//! How a response that stays open says what its channels bring.
//!
//! All that is written to a held client of the server's own is written here: a new format is a new variant, and the
//! functions that it has below. Formats of an embedder's are in [`items`](super::items) and [`encode`](super::encode).

use fermata_hub::{ID_BYTES_MAX, Ids, Kind, Record};
use fermata_proto::sse;

/// The format of a held client's response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamFormat {
    /// Server-sent events (HTML, 9.2).
    #[default]
    EventStream,
}

impl StreamFormat {
    /// All of them, each at its number.
    pub(crate) const ALL: [StreamFormat; 1] = [StreamFormat::EventStream];

    /// The number of what channels' logs hold for it: records in chunks of HTTP's chunked coding. Clients without that
    /// coding read the same log and are sent only what stands between the chunk marks.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The format whose logs have this number.
    #[inline]
    pub(crate) fn of_number(number: u8) -> Option<StreamFormat> {
        StreamFormat::ALL.get(usize::from(number)).copied()
    }

    /// Whether a GRIP edge can hold its clients: what is published is told to edges once for all of them.
    pub(crate) fn is_of_edges(self) -> bool {
        match self {
            StreamFormat::EventStream => true,
        }
    }

    pub(crate) fn content_type(self) -> &'static [u8] {
        match self {
            StreamFormat::EventStream => sse::CONTENT_TYPE,
        }
    }

    /// One record, without transfer framing.
    pub(crate) fn record(self, ids: &Ids, record: &Record, out: &mut Vec<u8>) {
        let name = match record.kind {
            Kind::Message => record.name(),
            Kind::Join => Some(&b"join"[..]),
            Kind::Leave => Some(&b"leave"[..]),
            // Is on no channel that can be subscribed to.
            Kind::Direct | Kind::Gap => return,
        };
        let mut id = [0; ID_BYTES_MAX];
        let id = ids.of(record, &mut id);
        self.event(Some(id), name, record.data(), out);
    }

    /// An event; without an id the client's position stays what it is.
    pub(crate) fn event(
        self,
        id: Option<&[u8]>,
        name: Option<&[u8]>,
        data: &[u8],
        out: &mut Vec<u8>,
    ) {
        match self {
            StreamFormat::EventStream => sse::event(out, id, name, data),
        }
    }

    /// The event that tells a client that messages before the next one are missing.
    pub(crate) fn gap(self, reason: &str, out: &mut Vec<u8>) {
        let data = format!("{{\"reason\":\"{reason}\"}}");
        self.event(None, Some(b"gap"), data.as_bytes(), out);
    }

    /// The position from which a client can resume that has received nothing yet.
    pub(crate) fn position(self, id: &[u8], out: &mut Vec<u8>) {
        match self {
            // An event without data only sets the id, and none is dispatched (HTML, 9.2.6).
            StreamFormat::EventStream => {
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(id);
                out.extend_from_slice(b"\n\n");
            }
        }
    }

    /// What breaks a silence.
    pub(crate) fn keep_alive(self, out: &mut Vec<u8>) {
        match self {
            StreamFormat::EventStream => sse::comment(out, b""),
        }
    }

    /// When to come back, at the end of a response that the server ends.
    pub(crate) fn retry(self, retry_ms: u64, out: &mut Vec<u8>) {
        match self {
            StreamFormat::EventStream => sse::retry(out, retry_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_found_by_their_numbers() {
        for format in StreamFormat::ALL {
            assert_eq!(StreamFormat::of_number(format.number()), Some(format));
        }
        assert_eq!(StreamFormat::of_number(u8::MAX), None);
    }
}
