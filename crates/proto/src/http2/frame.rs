//! Frames (RFC 9113, sections 4 and 6): headers, and the payloads of control frames.

use super::error::ErrorCode;

/// Connection preface of a client (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame header in bytes.
pub const HEADER_BYTES: usize = 9;

/// Initial SETTINGS_MAX_FRAME_SIZE, which is also its minimum (RFC 9113, section 6.5.2).
pub const PAYLOAD_BYTES_USUAL: u32 = 16_384;

/// Maximum of SETTINGS_MAX_FRAME_SIZE (RFC 9113, section 6.5.2).
pub const PAYLOAD_BYTES_MAX: u32 = (1 << 24) - 1;

/// Highest stream identifier.
pub const STREAM_MAX: u32 = (1 << 31) - 1;

/// Maximum flow-control window (RFC 9113, section 6.9.1).
pub const WINDOW_MAX: i32 = i32::MAX;

/// Initial flow-control window (RFC 9113, section 6.9.2).
pub const WINDOW_INITIAL: i32 = 65_535;

/// Frame types (RFC 9113, section 11.2; RFC 9218, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A piece of a body.
    Data = 0x0,
    /// Starts a header block.
    Headers = 0x1,
    /// Deprecated priority.
    Priority = 0x2,
    /// Resets a stream.
    RstStream = 0x3,
    /// Settings of the sender, or an acknowledgement.
    Settings = 0x4,
    /// Disabled by this implementation.
    PushPromise = 0x5,
    /// A request for an acknowledgement with the same payload.
    Ping = 0x6,
    /// Announces that no further streams are accepted.
    GoAway = 0x7,
    /// Enlarges a flow-control window.
    WindowUpdate = 0x8,
    /// Continues a header block.
    Continuation = 0x9,
    /// Priority of a response.
    PriorityUpdate = 0x10,
}

impl Kind {
    /// Returns the type with this number, or `None` for types that must be ignored (RFC 9113, section 5.5).
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

/// Frame flags. The meaning of a bit depends on the frame type.
pub mod flag {
    /// DATA and HEADERS: last frame of the stream.
    pub const END_STREAM: u8 = 0x1;
    /// SETTINGS and PING: acknowledgement.
    pub const ACK: u8 = 0x1;
    /// HEADERS and CONTINUATION: last frame of the header block.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA and HEADERS: the payload is padded.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: five bytes of deprecated priority come first.
    pub const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Payload length in bytes.
    pub len: u32,
    /// Number of the frame type; may be unknown.
    pub kind: u8,
    /// Flags; see [`flag`].
    pub flags: u8,
    /// Stream identifier without the reserved bit; 0 is the connection.
    pub stream: u32,
}

impl Header {
    /// Parses a header.
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

    /// Encodes the header.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        debug_assert!(self.len <= PAYLOAD_BYTES_MAX && self.stream <= STREAM_MAX);
        let [_, l2, l1, l0] = self.len.to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }

    /// Returns true if `flag` is set.
    #[inline]
    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a complete frame.
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

/// Appends PING, or its acknowledgement with the flag [`flag::ACK`].
pub fn write_ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    write(out, Kind::Ping, flags, 0, &payload);
}

/// Appends GOAWAY with `debug`, a description of the cause.
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
            // The reserved bit is ignored (RFC 9113, section 4.1).
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
