//! Records: eight bytes of head, content, padding.

/// Maximum size of standard error reported per request, in bytes; the rest is dropped.
pub const STDERR_BYTES_MAX: usize = 64 * 1024;

/// Maximum content of one record, a multiple of eight so that full records need no padding.
const CONTENT_BYTES_MAX: usize = 65_528;
const VERSION: u8 = 1;
/// Id in all records: a connection carries one request at a time, so one id suffices.
pub(super) const ID: u16 = 1;
const RESPONDER: u8 = 1;
const KEEP_CONNECTION: u8 = 1;

/// Types of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin = 1,
    Abort = 2,
    End = 3,
    Params = 4,
    Stdin = 5,
    Stdout = 6,
    Stderr = 7,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub kind: u8,
    pub id: u16,
    pub content_bytes: u16,
    pub padding_bytes: u8,
}

impl RecordHead {
    /// Decodes eight bytes. Returns `None` for another protocol version.
    pub fn read(bytes: [u8; 8]) -> Option<Self> {
        let [
            version,
            kind,
            id_high,
            id_low,
            length_high,
            length_low,
            padding_bytes,
            _,
        ] = bytes;
        (version == VERSION).then_some(Self {
            kind,
            id: u16::from_be_bytes([id_high, id_low]),
            content_bytes: u16::from_be_bytes([length_high, length_low]),
            padding_bytes,
        })
    }
}

/// Writes one request. Call the methods in the order of their declaration.
#[derive(Debug)]
pub struct Request<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Request<'a> {
    /// Starts a request; with `keep` the connection stays open for another request.
    pub fn begin(out: &'a mut Vec<u8>, keep: bool) -> Self {
        let flags = if keep { KEEP_CONNECTION } else { 0 };
        record(out, Kind::Begin, &[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
        Self { out }
    }

    /// Writes all variables.
    pub fn params<'v>(self, variables: impl IntoIterator<Item = (&'v [u8], &'v [u8])>) -> Self {
        let mut content = Vec::new();
        for (name, value) in variables {
            length(&mut content, name.len());
            length(&mut content, value.len());
            content.extend_from_slice(name);
            content.extend_from_slice(value);
        }
        stream(self.out, Kind::Params, &content);
        record(self.out, Kind::Params, &[]);
        self
    }

    /// Writes a piece of the body.
    pub fn body(out: &mut Vec<u8>, piece: &[u8]) {
        stream(out, Kind::Stdin, piece);
    }

    /// Writes the end of the body. Also required for an empty body.
    pub fn body_end(out: &mut Vec<u8>) {
        record(out, Kind::Stdin, &[]);
    }

    /// Writes an abort, because the client has left. Few applications react to it; only closing the connection frees their process.
    pub fn abort(out: &mut Vec<u8>) {
        record(out, Kind::Abort, &[]);
    }
}

/// Writes no record for an empty piece, because an empty record ends a stream.
fn stream(out: &mut Vec<u8>, kind: Kind, content: &[u8]) {
    for piece in content.chunks(CONTENT_BYTES_MAX) {
        record(out, kind, piece);
    }
}

pub(super) fn record(out: &mut Vec<u8>, kind: Kind, content: &[u8]) {
    let length = (content.len() as u16).to_be_bytes();
    let id = ID.to_be_bytes();
    let padding = content.len().wrapping_neg() % 8;
    out.extend_from_slice(&[
        VERSION,
        kind as u8,
        id[0],
        id[1],
        length[0],
        length[1],
        padding as u8,
        0,
    ]);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 8][..padding]);
}

/// Writes a length: one byte below 128, otherwise four bytes with the highest bit set.
fn length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => out.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes()),
    }
}
