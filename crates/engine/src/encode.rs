//! From a channel's record to the bytes its subscribers get, once per wire format.

use fermata_hub::{Encode, ID_BYTES_MAX, Ids, Kind, PayloadSpan, Record};
use fermata_proto::{chunk, sse};

/// The wire format of SSE subscribers: events in chunks of HTTP's chunked coding. HTTP/1.0 clients
/// read the same log and are sent only what stands between the chunk marks.
pub(crate) const FORMAT_SSE: u8 = 0;

/// Encodes the records of one ring.
pub(crate) struct SseEncoder {
    pub ids: Ids,
}

impl Encode for SseEncoder {
    fn encode(&mut self, _format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let start = out.len();
        let payload = chunk::wrap_with(out, |out| event(&self.ids, record, out));
        PayloadSpan {
            start: payload.start - start,
            end: payload.end - start,
        }
    }
}

/// One record as an event, without transfer framing.
pub(crate) fn event(ids: &Ids, record: &Record, out: &mut Vec<u8>) {
    let mut id = [0; ID_BYTES_MAX];
    let id = ids.text(record.seq, &mut id);
    let name = match record.kind {
        Kind::Message => record.name(),
        Kind::Join => Some(&b"join"[..]),
        Kind::Leave => Some(&b"leave"[..]),
    };
    sse::event(out, Some(id), name, record.data());
}

/// The event that tells a client that messages before the next one are missing.
pub(crate) fn gap(reason: &str, out: &mut Vec<u8>) {
    sse::event(
        out,
        None,
        Some(b"gap"),
        format!("{{\"reason\":\"{reason}\"}}").as_bytes(),
    );
}

/// Moves the client's last event id without dispatching an event (HTML, 9.2.6: an event without
/// data only sets the id), so that a client that has received nothing yet can resume as well.
pub(crate) fn position(ids: &Ids, seq: u64, out: &mut Vec<u8>) {
    let mut id = [0; ID_BYTES_MAX];
    let id = ids.text(seq, &mut id);
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(id);
    out.extend_from_slice(b"\n\n");
}
