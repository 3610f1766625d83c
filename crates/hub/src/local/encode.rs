//! What writes records in a wire format.

use crate::record::Record;

/// The part of a frame without transfer framing (HTTP/1.1 chunk size and ends), in bytes from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadSpan {
    /// Offset of the first payload byte.
    pub start: usize,
    /// Offset behind the last payload byte.
    pub end: usize,
}

/// Writes a record in a wire format.
pub trait Encode {
    /// Appends `record` in `format` to `out`, which already holds other frames. Appending nothing skips the record.
    fn encode(&mut self, format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan;

    /// Appends the views that get a record of the channel that [`Local::select_from`] named.
    fn select(&mut self, record: &Record, views: &mut Vec<u64>) {
        let _ = (record, views);
    }

    /// Appends what the subscribers of one of those views get, as [`Encode::encode`] does.
    fn encode_view(&mut self, view: u64, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let _ = (view, record, out);
        PayloadSpan { start: 0, end: 0 }
    }
}
