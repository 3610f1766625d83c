//! WebSocket client that sends exactly the given frames, valid or not, and reads strictly.

use std::time::{Duration, Instant};

use crate::client::{Connection, End, ReadError, Received};
use crate::response::Head;
use crate::wait::deadline;

/// Key of RFC 6455, section 1.3, and the matching response.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// First byte of a complete text message: FIN and opcode.
pub const TEXT: u8 = 0x81;
/// First byte of a complete binary message.
pub const BINARY: u8 = 0x82;
/// First byte of a close frame.
pub const CLOSE: u8 = 0x88;
/// First byte of a ping.
pub const PING: u8 = 0x89;
/// First byte of a pong.
pub const PONG: u8 = 0x8a;
/// Set on the first frame of a compressed message.
pub const RSV1: u8 = 0x40;

/// Mask of every frame. The value does not matter to a server.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Header lines that every handshake needs.
const LINES: [&str; 4] = [
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// FIN, reserved bits and opcode.
    pub first: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Returns the close code. Returns `None` for other frames, and for close frames without a code.
    pub fn close_code(&self) -> Option<u16> {
        let code = self.payload.first_chunk()?;
        (self.first == CLOSE).then(|| u16::from_be_bytes(*code))
    }
}

/// A received item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A frame.
    Frame(Frame),
    /// The end of the connection.
    End(End),
}

/// Encodes a frame like a client: masked, with the shortest length encoding.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(first, payload.len() as u64);
    let masked = payload.iter().zip(MASK.iter().cycle());
    bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Encodes the header of a masked frame; the payload must use the same key.
pub fn header(first: u8, payload_len: u64) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload_len {
        0..=125 => bytes.push(0x80 | payload_len as u8),
        126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(payload_len as u16).to_be_bytes());
        }
        _ => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&payload_len.to_be_bytes());
        }
    }
    bytes.extend_from_slice(&MASK);
    bytes
}

/// Encodes the payload of a close frame.
pub fn close_payload(code: u16, reason: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], reason.as_bytes()].concat()
}

/// Formats a handshake for `path` with additional header lines.
pub fn request(path: &str, lines: &[&str]) -> String {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: fermata.test\r\n");
    for line in LINES.iter().chain(lines) {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text + "\r\n"
}

/// An open WebSocket.
#[derive(Debug)]
pub struct Socket {
    connection: Connection,
    head: Head,
}

impl Socket {
    /// Opens a WebSocket at `path`.
    ///
    /// # Panics
    /// Panics if the server does not accept it.
    #[track_caller]
    pub fn open(connection: Connection, path: &str) -> Socket {
        Socket::open_with(connection, path, &[])
    }

    /// Opens a WebSocket at `path` with additional header lines.
    ///
    /// # Panics
    /// Panics if the server does not accept it.
    #[track_caller]
    pub fn open_with(mut connection: Connection, path: &str, lines: &[&str]) -> Socket {
        connection.send(request(path, lines));
        match Socket::after_request(connection) {
            Ok(socket) => socket,
            Err(error) => panic!("WebSocket {path}: {error}"),
        }
    }

    /// Expects the response to a handshake with [`KEY`] that was already sent.
    ///
    /// # Errors
    /// Returns the reason why there is no WebSocket.
    pub fn after_request(mut connection: Connection) -> Result<Socket, ReadError> {
        let head = connection.read_head(Instant::now() + deadline())?;
        let upgrade = head.header("upgrade").map(str::to_ascii_lowercase);
        let opened = head.status == 101
            && head.connection_says("upgrade")
            && upgrade.as_deref() == Some("websocket")
            && head.header("sec-websocket-accept") == Some(ACCEPT);
        if opened {
            Ok(Socket { connection, head })
        } else {
            Err(ReadError::Malformed(format!("not accepted: {head:?}")))
        }
    }

    /// Returns the head of the response.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// Panics if it cannot be sent.
    #[track_caller]
    pub fn send(&mut self, first: u8, payload: impl AsRef<[u8]>) {
        self.connection.send(frame(first, payload.as_ref()));
    }

    /// Sends a text message.
    ///
    /// # Panics
    /// Panics if it cannot be sent.
    #[track_caller]
    pub fn text(&mut self, text: &str) {
        self.send(TEXT, text);
    }

    /// Returns the next frame or the end. Returns `None` if nothing arrives within `patience`.
    ///
    /// # Panics
    /// Panics if a server must not send the frame.
    #[track_caller]
    pub fn try_next(&mut self, patience: Duration) -> Option<Item> {
        let end = Instant::now() + patience;
        loop {
            let inbox = self.connection.inbox();
            match take_frame(inbox) {
                Ok(Some(frame)) => return Some(Item::Frame(frame)),
                Ok(None) => {}
                Err(why) => panic!("{why}: {:?}", &inbox[..inbox.len().min(20)]),
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.connection.receive(left) {
                Received::Bytes => {}
                Received::Ended(end) => return Some(Item::End(end)),
                Received::TimedOut => return None,
            }
        }
    }

    /// Returns the next frame.
    ///
    /// # Panics
    /// Panics at the end of the connection and at the deadline.
    #[track_caller]
    pub fn next_frame(&mut self) -> Frame {
        match self.try_next(deadline()) {
            Some(Item::Frame(frame)) => frame,
            Some(Item::End(end)) => panic!("the connection ended ({end:?}) where a frame was due"),
            None => panic!("no frame within the deadline"),
        }
    }

    /// Returns the next frame, which must be a complete text message.
    ///
    /// # Panics
    /// Panics if it is anything else.
    #[track_caller]
    pub fn next_text(&mut self) -> String {
        let frame = self.next_frame();
        assert_eq!(frame.first, TEXT, "{frame:?}");
        String::from_utf8(frame.payload).expect("text is UTF-8")
    }

    /// Checks that the server's next frame closes with `code`, responds with a close frame, and checks that the
    /// server closes TCP.
    ///
    /// # Panics
    /// Panics if the server does anything else.
    #[track_caller]
    pub fn expect_close(&mut self, code: u16) -> String {
        let frame = self.next_frame();
        assert_eq!(frame.close_code(), Some(code), "{frame:?}");
        let reason = String::from_utf8(frame.payload[2..].to_vec()).expect("a reason is UTF-8");
        // The server may have closed TCP already, because it need not wait after a violation.
        let _ = self
            .connection
            .try_send(self::frame(CLOSE, &close_payload(code, "")));
        self.expect_end();
        reason
    }

    /// Checks that only the end of the connection arrives.
    ///
    /// # Panics
    /// Panics if a frame arrives, or if the connection is still open at the deadline.
    #[track_caller]
    pub fn expect_end(&mut self) {
        match self.try_next(deadline()) {
            Some(Item::End(_)) => {}
            other => panic!("{other:?} where the end was due"),
        }
    }

    /// Checks that no frame arrives for `period`.
    ///
    /// # Panics
    /// Panics with the received item.
    #[track_caller]
    pub fn expect_silence(&mut self, period: Duration) {
        if let Some(item) = self.try_next(period) {
            panic!("{item:?} where silence was due");
        }
    }

    /// Returns the underlying connection, for bytes that are not frames.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns the underlying connection, to reset it.
    pub fn into_connection(self) -> Connection {
        self.connection
    }
}

/// Removes a frame from the start of `bytes`; returns `None` if it is incomplete.
fn take_frame(bytes: &mut Vec<u8>) -> Result<Option<Frame>, &'static str> {
    let [first, second, rest @ ..] = &bytes[..] else {
        return Ok(None);
    };
    let (first, short) = (*first, *second);
    if short & 0x80 != 0 {
        return Err("a server's frame is masked");
    }
    let (header_len, len) = match short {
        126 => match rest.first_chunk() {
            Some(len) => (4, u64::from(u16::from_be_bytes(*len))),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(len) => (10, u64::from_be_bytes(*len)),
            None => return Ok(None),
        },
        len => (2, u64::from(len)),
    };
    let minimal = match header_len {
        2 => true,
        4 => len > 125,
        _ => len > 0xffff && len < 1 << 40,
    };
    if !minimal {
        return Err("a length is not in its shortest form");
    }
    if first & 0x30 != 0 || (first & 8 != 0 && (first & 0xc0 != 0x80 || len > 125)) {
        return Err("a frame breaks the protocol");
    }
    let end = header_len + len as usize;
    if bytes.len() < end {
        return Ok(None);
    }
    let payload = bytes[header_len..end].to_vec();
    bytes.drain(..end);
    Ok(Some(Frame { first, payload }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_whole_and_strictly() {
        for len in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![7; len];
            let mut bytes = frame(BINARY, &payload);
            let header_len = bytes.len() - len;
            // Removes the mask, because servers send unmasked frames.
            bytes[1] &= 0x7f;
            bytes.drain(header_len - 4..header_len);
            bytes.truncate(header_len - 4);
            bytes.extend_from_slice(&payload);
            let mut part = bytes[..bytes.len() - 1].to_vec();
            assert_eq!(take_frame(&mut part), Ok(None));
            bytes.push(0x81);
            let taken = take_frame(&mut bytes);
            let first = BINARY;
            assert_eq!(taken, Ok(Some(Frame { first, payload })));
            assert_eq!(bytes, [0x81]);
        }
        for wrong in [
            &b"\x81\x80"[..],
            b"\x81\x7e\x00\x10",
            b"\x81\x7f\0\0\0\0\0\0\xff\xff",
            b"\x91\x00",
            b"\x09\x00",
            b"\xc9\x00",
        ] {
            assert!(take_frame(&mut wrong.to_vec()).is_err(), "{wrong:?}");
        }
    }
}
