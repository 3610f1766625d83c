//! Formats of held HTTP responses.
//!
//! This file writes all bytes that the server itself sends to held clients. A new format is a new
//! variant with the functions below. Formats of an embedder are in [`items`](super::items) and
//! [`encode`](super::encode).

use fermata_hub::{ID_BYTES_MAX, Ids, Kind, Record};
use fermata_proto::sse;

/// The format of a held client's response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamFormat {
    /// Server-sent events (HTML, section 9.2).
    #[default]
    EventStream,
}

impl StreamFormat {
    /// All formats, indexed by number.
    pub(crate) const ALL: [StreamFormat; 1] = [StreamFormat::EventStream];

    /// Returns the number that marks entries of this format in channel logs. The entries are in
    /// HTTP chunked coding. A client that does not support it receives only the bytes between the
    /// chunk marks.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Returns the format with this number.
    #[inline]
    pub(crate) fn of_number(number: u8) -> Option<StreamFormat> {
        StreamFormat::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if a GRIP edge can hold the clients of this format. The server then sends each
    /// event once per edge.
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

    /// Appends one record, without transfer framing.
    pub(crate) fn record(self, ids: &Ids, record: &Record, out: &mut Vec<u8>) {
        let name = match record.kind {
            Kind::Message => record.name(),
            Kind::Join => Some(&b"join"[..]),
            Kind::Leave => Some(&b"leave"[..]),
            // Only on internal channels, which clients cannot join.
            Kind::Direct | Kind::Gap => return,
        };
        let mut id = [0; ID_BYTES_MAX];
        let id = ids.of(record, &mut id);
        self.event(Some(id), name, record.data(), out);
    }

    /// Appends an event; without an id the client's position is unchanged.
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

    /// Appends a gap event, which reports that messages before the next message are missing.
    pub(crate) fn gap(self, reason: &str, out: &mut Vec<u8>) {
        let data = format!("{{\"reason\":\"{reason}\"}}");
        self.event(None, Some(b"gap"), data.as_bytes(), out);
    }

    /// Appends the position from which a client can resume before its first event.
    pub(crate) fn position(self, id: &[u8], out: &mut Vec<u8>) {
        match self {
            // An event without data only sets the id and is not dispatched (HTML, section 9.2.6).
            StreamFormat::EventStream => {
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(id);
                out.extend_from_slice(b"\n\n");
            }
        }
    }

    /// Appends a keep-alive.
    pub(crate) fn keep_alive(self, out: &mut Vec<u8>) {
        match self {
            StreamFormat::EventStream => sse::comment(out, b""),
        }
    }

    /// Appends the retry time, at the end of a response that the server ends.
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
    fn finds_stream_formats_by_number() {
        for format in StreamFormat::ALL {
            assert_eq!(StreamFormat::of_number(format.number()), Some(format));
        }
        assert_eq!(StreamFormat::of_number(u8::MAX), None);
    }
}
