//! Encoders of records.

use crate::record::Record;

/// Part of a frame without transfer framing (HTTP/1.1 chunk size and CRLFs), in bytes from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadSpan {
    /// Offset of the first payload byte.
    pub start: usize,
    /// Offset after the last payload byte.
    pub end: usize,
}

/// Writes a record in a wire format.
pub trait Encode {
    /// Appends `record` in `format` to `out`, which may hold other frames. Appending nothing skips the record.
    fn encode(&mut self, format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan;

    /// Appends the views that receive a record of the channel of [`Local::select_from`].
    fn select(&mut self, record: &Record, views: &mut Vec<u64>) {
        let _ = (record, views);
    }

    /// Appends the frame for the subscribers of a view, like [`Encode::encode`].
    fn encode_view(&mut self, view: u64, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let _ = (view, record, out);
        PayloadSpan { start: 0, end: 0 }
    }
}
