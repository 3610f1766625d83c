//! Close frames and the closing handshake (RFC 6455, sections 5.5.1 and 7).

pub use super::close_code::{CloseCode, valid_code};
use super::{Role, Violation, utf8};

/// Maximum length of a reason in bytes: the space in a control frame after the code.
pub const REASON_BYTES_MAX: usize = 123;

/// Content of a Close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Close code; `None` if the frame is empty.
    pub code: Option<u16>,
    /// Reason; may be empty, and is empty if there is no code.
    pub reason: &'a str,
}

/// Parses the unmasked payload of a Close frame.
///
/// # Errors
/// The payload is one byte, the code must not be sent, or the reason is not UTF-8.
pub fn parse(payload: &[u8]) -> Result<Close<'_>, Violation> {
    match payload {
        [] => Ok(Close {
            code: None,
            reason: "",
        }),
        [_] => Err(Violation::CloseTruncated),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !valid_code(code) {
                return Err(Violation::CloseCodeInvalid);
            }
            let reason = simdutf8::basic::from_utf8(reason);
            Ok(Close {
                code: Some(code),
                reason: reason.map_err(|_| Violation::CloseReasonNotUtf8)?,
            })
        }
    }
}

/// Returns true if bytes that are no longer parsed as frames end like a client's Close frame.
///
/// A client that violated the protocol sends a Close frame last, in answer to the error code. Other bytes may look the
/// same, so the result must only be used to stop waiting.
#[must_use]
pub fn ends_like_a_close(bytes: &[u8]) -> bool {
    const HEADER_BYTES: usize = 6;
    (0..=REASON_BYTES_MAX + 2).any(|payload_len| {
        let frame = bytes.len().checked_sub(HEADER_BYTES + payload_len);
        match frame.map(|at| &bytes[at..]) {
            Some([0x88, len, _, _, _, _]) => *len == 0x80,
            Some([0x88, len, mask_high, mask_low, _, _, high, low, ..]) => {
                let code = u16::from_be_bytes([high ^ mask_high, low ^ mask_low]);
                usize::from(*len) == 0x80 + payload_len && valid_code(code)
            }
            _ => false,
        }
    })
}

/// Payload of a Close frame: a two-byte code and a reason, which is truncated at a character boundary if too long.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    bytes: [u8; REASON_BYTES_MAX + 2],
    len: usize,
}

impl Payload {
    /// Creates a payload with a code, which must satisfy [`valid_code`].
    #[must_use]
    pub fn new(code: u16, reason: &str) -> Self {
        debug_assert!(
            valid_code(code),
            "the caller checks codes when it takes them"
        );
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; REASON_BYTES_MAX + 2];
        bytes[..2].copy_from_slice(&code.to_be_bytes());
        bytes[2..end + 2].copy_from_slice(&reason.as_bytes()[..end]);
        Self {
            bytes,
            len: end + 2,
        }
    }

    /// Creates an empty payload without code and reason.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            bytes: [0; REASON_BYTES_MAX + 2],
            len: 0,
        }
    }

    /// Returns the bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// State of the receiving direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Frames may arrive.
    Open,
    /// The peer's Close frame arrived with this code. No frame may follow.
    PeerClosed(u16),
    /// The peer violated the protocol, or the connection is lost. Further input is ignored.
    Ended(u16),
}

/// State of the sending direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// Frames may be sent.
    Open,
    /// The Close frame was sent; no frame may follow.
    Closed,
}

/// Closing handshake of one connection, from open to the end of TCP.
///
/// Each side sends one Close frame; then the server closes TCP (RFC 6455, section 7.1.1). The caller sends the payloads
/// that the methods return, and limits the time until [`Closing::is_over`].
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    role: Role,
    reading: Reading,
    writing: Writing,
}

impl Closing {
    /// Creates the state of an open connection.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            role,
            reading: Reading::Open,
            writing: Writing::Open,
        }
    }

    /// Starts the closing handshake. Returns the payload of the Close frame to send, or `None` if one was already sent.
    #[must_use]
    pub fn start(&mut self, code: u16, reason: &str) -> Option<Payload> {
        self.send(|| Payload::new(code, reason))
    }

    /// Handles the peer's Close frame. Returns the payload of the Close frame to answer with, or `None` if this frame
    /// answers an earlier one.
    ///
    /// The answer repeats the code, but not the reason (RFC 6455, section 5.5.1).
    #[must_use]
    pub fn handle_close(&mut self, code: Option<u16>) -> Option<Payload> {
        if self.reading == Reading::Open {
            self.reading = Reading::PeerClosed(code.unwrap_or(CloseCode::NoStatus as u16));
        }
        self.send(|| code.map_or_else(Payload::empty, |code| Payload::new(code, "")))
    }

    /// Handles a protocol violation of the peer. Returns the payload of the Close frame to send, or `None` if one was
    /// already sent.
    ///
    /// Further input must not be parsed (RFC 6455, section 7.1.7).
    #[must_use]
    pub fn fail(&mut self, violation: Violation) -> Option<Payload> {
        let code = violation.close_code() as u16;
        if self.reading == Reading::Open {
            self.reading = Reading::Ended(code);
        }
        self.send(|| Payload::new(code, &violation.to_string()))
    }

    /// Handles the end or failure of the TCP connection.
    pub fn handle_end(&mut self) {
        if self.reading == Reading::Open {
            self.reading = Reading::Ended(CloseCode::Abnormal as u16);
        }
        self.writing = Writing::Closed;
    }

    /// Returns true if the peer's frames must still be parsed, including while its answer to a Close frame is
    /// outstanding.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.reading == Reading::Open
    }

    /// Returns true if messages, pings and pongs may be sent.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.writing == Writing::Open
    }

    /// Returns true if both directions are closed: after flushing, the caller has nothing to wait for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.reading != Reading::Open && self.writing == Writing::Closed
    }

    /// Returns true if this side must close TCP now, after flushing. A client waits a limited time for the server to close TCP.
    #[must_use]
    pub fn closes_tcp(&self) -> bool {
        let failed = matches!(self.reading, Reading::Ended(_));
        self.is_over() && (self.role == Role::Server || failed)
    }

    /// Returns the close code for the application, or `None` while frames can still arrive.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self.reading {
            Reading::Open => None,
            Reading::PeerClosed(code) | Reading::Ended(code) => Some(code),
        }
    }

    /// Returns true if both sides sent a Close frame (RFC 6455, section 7.1.4).
    #[must_use]
    pub fn is_clean(&self) -> bool {
        matches!(self.reading, Reading::PeerClosed(_)) && self.writing == Writing::Closed
    }

    fn send(&mut self, payload: impl FnOnce() -> Payload) -> Option<Payload> {
        if self.writing == Writing::Closed {
            return None;
        }
        self.writing = Writing::Closed;
        Some(payload())
    }
}

/// Returns true if `reason` is a valid reason of a Close frame.
#[must_use]
pub fn valid_reason(reason: &[u8]) -> bool {
    reason.len() <= REASON_BYTES_MAX && utf8::valid(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_on_the_wire() {
        let valid: Vec<u16> = (0..=u16::MAX).filter(|&code| valid_code(code)).collect();
        let expected = (1000..=1003).chain(1007..=1014).chain(3000..=4999);
        assert_eq!(valid, expected.collect::<Vec<u16>>());
        for never_sent in [
            CloseCode::NoStatus,
            CloseCode::Abnormal,
            CloseCode::TlsHandshake,
        ] {
            assert!(!valid_code(never_sent as u16));
        }
    }

    #[test]
    fn recognizes_a_close_frame_at_the_end_of_any_bytes() {
        let mask = [7, 1, 200, 3];
        for payload in [
            &b""[..],
            b"\x03\xf1",
            b"\x03\xf1because of a length",
            &[3, 0xe8, b'x', b'x', b'x'].repeat(25)[..125],
        ] {
            let mut bytes = b"the rest of a message".to_vec();
            bytes.extend([0x88, 0x80 | payload.len() as u8]);
            bytes.extend(mask);
            bytes.extend(
                payload
                    .iter()
                    .zip(mask.iter().cycle())
                    .map(|(byte, key)| byte ^ key),
            );
            assert!(ends_like_a_close(&bytes), "{payload:?}");
            assert!(ends_like_a_close(&bytes[21..]));
            bytes.push(b'x');
            assert!(!ends_like_a_close(&bytes));
            assert!(!ends_like_a_close(&bytes[..bytes.len() - 2]));
        }
        let unmasked = b"\x88\x02\x03\xf1";
        let code_1005 = b"\x88\x82\0\0\0\0\x03\xed";
        for bytes in [&b""[..], b"\x88\x80", unmasked, code_1005] {
            assert!(!ends_like_a_close(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn payloads() {
        let close = |code, reason| Ok(Close { code, reason });
        assert_eq!(parse(b""), close(None, ""));
        assert_eq!(parse(b"\x03"), Err(Violation::CloseTruncated));
        assert_eq!(parse(b"\x03\xe8"), close(Some(1000), ""));
        assert_eq!(
            parse("\x03ébye".as_bytes()),
            Err(Violation::CloseCodeInvalid)
        );
        assert_eq!(parse(b"\x03\xe8b\xc3\xbc"), close(Some(1000), "bü"));
        assert_eq!(parse(b"\x03\xe8\xc3"), Err(Violation::CloseReasonNotUtf8));
        for code in [0u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535] {
            assert_eq!(parse(&code.to_be_bytes()), Err(Violation::CloseCodeInvalid));
        }
    }

    #[test]
    fn written_payloads_read_back_and_fit_a_control_frame() {
        for (reason, kept) in [
            (String::new(), 0),
            ("späte".into(), 6),
            ("x".repeat(123), 123),
            ("x".repeat(200), 123),
            // Two bytes per character: the 62nd would end at byte 124.
            ("ü".repeat(100), 122),
        ] {
            let payload = Payload::new(4000, &reason);
            assert!(payload.as_bytes().len() <= 125);
            let read = parse(payload.as_bytes()).expect("valid");
            assert_eq!((read.code, read.reason), (Some(4000), &reason[..kept]));
        }
        assert_eq!(Payload::empty().as_bytes(), b"");
        assert!(valid_reason("x".repeat(123).as_bytes()) && !valid_reason(&[b'x'; 124]));
        assert!(!valid_reason(b"\xff"));
    }

    fn bytes(payload: Option<Payload>) -> Option<Vec<u8>> {
        payload.map(|payload| payload.as_bytes().to_vec())
    }

    #[test]
    fn the_peer_closes_first() {
        for role in [Role::Server, Role::Client] {
            let mut closing = Closing::new(role);
            assert!(closing.can_send() && closing.can_read() && closing.code().is_none());
            assert_eq!(
                bytes(closing.handle_close(Some(1000))),
                Some(b"\x03\xe8".to_vec())
            );
            assert!(!closing.can_send() && !closing.can_read());
            assert!(closing.is_over() && closing.is_clean());
            assert_eq!(closing.closes_tcp(), role == Role::Server);
            assert_eq!(closing.code(), Some(1000));
            assert!(closing.start(1001, "").is_none());
        }
    }

    #[test]
    fn we_close_first() {
        let mut closing = Closing::new(Role::Server);
        assert_eq!(
            bytes(closing.start(1001, "restart")),
            Some(b"\x03\xe9restart".to_vec())
        );
        assert!(closing.can_read() && !closing.can_send() && !closing.is_over());
        assert!(closing.start(1001, "restart").is_none());
        assert!(closing.handle_close(None).is_none());
        assert!(closing.is_over() && closing.is_clean() && closing.closes_tcp());
        assert_eq!(closing.code(), Some(1005));
    }

    #[test]
    fn an_empty_close_frame_is_answered_by_one() {
        let mut closing = Closing::new(Role::Server);
        assert_eq!(bytes(closing.handle_close(None)), Some(Vec::new()));
    }

    #[test]
    fn a_violation_ends_reading() {
        let mut closing = Closing::new(Role::Client);
        let sent = bytes(closing.fail(Violation::TextNotUtf8)).expect("sent");
        assert_eq!(parse(&sent).map(|close| close.code), Ok(Some(1007)));
        assert!(!closing.can_read() && closing.is_over() && closing.closes_tcp());
        assert!(!closing.is_clean());
        assert_eq!(closing.code(), Some(1007));

        // After its own Close frame, this side sends nothing.
        let mut closing = Closing::new(Role::Server);
        let _ = closing.start(1000, "");
        assert!(closing.fail(Violation::MaskMissing).is_none());
        assert!(closing.is_over() && !closing.is_clean());
    }

    #[test]
    fn a_lost_connection_is_abnormal_unless_the_peer_had_closed() {
        let mut closing = Closing::new(Role::Server);
        closing.handle_end();
        assert_eq!(closing.code(), Some(1006));
        assert!(closing.is_over() && !closing.can_send() && !closing.is_clean());

        let mut closing = Closing::new(Role::Server);
        let _ = closing.handle_close(Some(1000));
        closing.handle_end();
        assert_eq!(closing.code(), Some(1000));
        assert!(closing.is_clean());
    }

    #[test]
    fn every_violation_fits_a_close_frame_uncut() {
        use Violation as V;
        for violation in [
            V::ReservedBits,
            V::ReservedOpcode,
            V::ControlFragmented,
            V::ControlTooLong,
            V::CloseFragmented,
            V::CloseTooLong,
            V::LengthNotMinimal,
            V::LengthInvalid,
            V::MaskMissing,
            V::MaskUnexpected,
            V::ContinuationUnexpected,
            V::ContinuationMissing,
            V::CloseTruncated,
            V::CloseCodeInvalid,
            V::CloseReasonNotUtf8,
            V::TextNotUtf8,
            V::FrameTooLarge,
            V::MessageTooLarge,
        ] {
            assert!(violation.to_string().len() <= REASON_BYTES_MAX);
            assert!(valid_code(violation.close_code() as u16));
        }
    }
}
