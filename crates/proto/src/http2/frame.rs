//! Frames (RFC 9113, 4 and 6): their nine bytes of header, and the payloads of those that are not data.

use super::error::ErrorCode;

/// What a client's connection begins with (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of every frame's header.
pub const HEADER_BYTES: usize = 9;

/// The largest payload before SETTINGS say otherwise, and the least that they may say (RFC 9113, 6.5.2).
pub const PAYLOAD_BYTES_USUAL: u32 = 16_384;

/// The largest payload that SETTINGS may allow (RFC 9113, 6.5.2).
pub const PAYLOAD_BYTES_MAX: u32 = (1 << 24) - 1;

/// The highest number of a stream.
pub const STREAM_MAX: u32 = (1 << 31) - 1;

/// The largest window (RFC 9113, 6.9.1).
pub const WINDOW_MAX: i32 = i32::MAX;

/// The windows before SETTINGS and WINDOW_UPDATE (RFC 9113, 6.9.2).
pub const WINDOW_INITIAL: i32 = 65_535;

/// The kinds of frames (RFC 9113, 11.2; RFC 9218, 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Part of a body.
    Data = 0x0,
    /// Begins a header block.
    Headers = 0x1,
    /// Deprecated.
    Priority = 0x2,
    /// Ends a stream at once.
    RstStream = 0x3,
    /// Settings of the sender, or their acknowledgement.
    Settings = 0x4,
    /// Turned off here.
    PushPromise = 0x5,
    /// Wants the same back.
    Ping = 0x6,
    /// No further streams.
    GoAway = 0x7,
    /// More may be sent.
    WindowUpdate = 0x8,
    /// Goes on with a header block.
    Continuation = 0x9,
    /// How urgent a response is.
    PriorityUpdate = 0x10,
}

impl Kind {
    /// The kind with this number; `None` for those that have to be ignored (RFC 9113, 5.5).
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0x0 => Self::Data,
            0x1 => Self::Headers,
            0x2 => Self::Priority,
            0x3 => Self::RstStream,
            0x4 => Self::Settings,
            0x5 => Self::PushPromise,
            0x6 => Self::Ping,
            0x7 => Self::GoAway,
            0x8 => Self::WindowUpdate,
            0x9 => Self::Continuation,
            0x10 => Self::PriorityUpdate,
            _ => return None,
        })
    }
}

/// Flags of frames. The same bit means different things on different kinds.
pub mod flag {
    /// On DATA and HEADERS: the stream ends.
    pub const END_STREAM: u8 = 0x1;
    /// On SETTINGS and PING: this is the answer.
    pub const ACK: u8 = 0x1;
    /// On HEADERS and CONTINUATION: the header block ends.
    pub const END_HEADERS: u8 = 0x4;
    /// On DATA and HEADERS: there is padding.
    pub const PADDED: u8 = 0x8;
    /// On HEADERS: five bytes of deprecated priority come first.
    pub const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload.
    pub len: u32,
    /// The number of the kind, which may be unknown.
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The stream, without the reserved bit; 0 is the connection.
    pub stream: u32,
}

impl Header {
    /// Reads a header.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = *bytes;
        Self {
            len: u32::from_be_bytes([0, l2, l1, l0]),
            kind,
            flags,
            stream: u32::from_be_bytes([s3, s2, s1, s0]) & STREAM_MAX,
        }
    }

    /// Writes a header.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        debug_assert!(self.len <= PAYLOAD_BYTES_MAX && self.stream <= STREAM_MAX);
        let [_, l2, l1, l0] = self.len.to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }

    /// Whether `flag` is set.
    #[inline]
    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a whole frame.
pub fn write(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
    let header = Header {
        len: payload.len() as u32,
        kind: kind as u8,
        flags,
        stream,
    };
    out.reserve(HEADER_BYTES + payload.len());
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
}

/// Appends RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write(out, Kind::RstStream, 0, stream, &code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE; stream 0 is the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    debug_assert!(increment > 0 && increment <= WINDOW_MAX as u32);
    write(out, Kind::WindowUpdate, 0, stream, &increment.to_be_bytes());
}

/// Appends PING, or its answer with the flag [`flag::ACK`].
pub fn write_ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    write(out, Kind::Ping, flags, 0, &payload);
}

/// Appends GOAWAY with `debug`, which helps to find the cause.
pub fn write_go_away(out: &mut Vec<u8>, last: u32, code: ErrorCode, debug: &[u8]) {
    let header = Header {
        len: 8 + debug.len() as u32,
        kind: Kind::GoAway as u8,
        flags: 0,
        stream: 0,
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_read_back(len in 0..=PAYLOAD_BYTES_MAX, kind: u8, flags: u8, stream in 0..=STREAM_MAX) {
            let header = Header { len, kind, flags, stream };
            let mut bytes = header.encode();
            prop_assert_eq!(Header::parse(&bytes), header);
            // The reserved bit is ignored (RFC 9113, 4.1).
            bytes[5] |= 0x80;
            prop_assert_eq!(Header::parse(&bytes), header);
        }
    }

    #[test]
    fn frames_as_bytes() {
        let mut out = Vec::new();
        write(&mut out, Kind::Data, flag::END_STREAM, 1, b"hi");
        assert_eq!(out, b"\0\0\x02\0\x01\0\0\0\x01hi");
        out.clear();
        write_reset(&mut out, 3, ErrorCode::CANCEL);
        assert_eq!(out, b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08");
        out.clear();
        write_go_away(&mut out, STREAM_MAX, ErrorCode::NO_ERROR, b"x");
        assert_eq!(out, b"\0\0\x09\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0x");
    }
}
