//! Close frames and the closing handshake (RFC 6455, 5.5.1 and 7).

pub use super::close_code::{CloseCode, valid_code};
use super::{Role, Violation, utf8};

/// Longest reason: what a control frame leaves beside the code.
pub const REASON_BYTES_MAX: usize = 123;

/// What a Close frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// The code; `None` when the frame is empty.
    pub code: Option<u16>,
    /// The reason; may be empty, and is when there is no code.
    pub reason: &'a str,
}

/// Reads the unmasked payload of a Close frame.
///
/// # Errors
/// When it is one byte, when the code must not be sent, when the reason is not UTF-8.
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

/// Whether bytes that are not read as frames any more end like a client's Close frame: what a client that has broken the
/// protocol sends last when it has understood the code. Other bytes may look the same, so nothing but the end of waiting
/// may follow from it.
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

/// The payload of a Close frame: two bytes of code and a reason, which is cut at a character's end if too long.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    bytes: [u8; REASON_BYTES_MAX + 2],
    len: usize,
}

impl Payload {
    /// With a code, which must be valid by [`valid_code`].
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

    /// Without code and reason.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            bytes: [0; REASON_BYTES_MAX + 2],
            len: 0,
        }
    }

    /// The bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What has come from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Frames may come.
    Open,
    /// Its Close frame came, with this code. Nothing may follow.
    PeerClosed(u16),
    /// It broke the protocol, or the connection is lost: whatever comes is not looked at.
    Ended(u16),
}

/// What we have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// Frames may be sent.
    Open,
    /// Our Close frame is sent; nothing may follow.
    Closed,
}

/// The closing handshake of one connection, from open to the end of TCP.
///
/// Each side sends one Close frame, and the server then closes TCP (RFC 6455, 7.1.1). The caller sends the
/// payloads it is handed, and bounds the time until [`Closing::is_over`].
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    role: Role,
    reading: Reading,
    writing: Writing,
}

impl Closing {
    /// Of an open connection.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            role,
            reading: Reading::Open,
            writing: Writing::Open,
        }
    }

    /// We want to close. The payload is that of the Close frame to send; `None` when one is sent already.
    #[must_use]
    pub fn start(&mut self, code: u16, reason: &str) -> Option<Payload> {
        self.send(|| Payload::new(code, reason))
    }

    /// The peer's Close frame came, with this code. The payload is that of the Close frame to answer with; `None` when this is the answer to ours.
    ///
    /// The answer repeats the code (RFC 6455, 5.5.1), and not the reason.
    #[must_use]
    pub fn handle_close(&mut self, code: Option<u16>) -> Option<Payload> {
        if self.reading == Reading::Open {
            self.reading = Reading::PeerClosed(code.unwrap_or(CloseCode::NoStatus as u16));
        }
        self.send(|| code.map_or_else(Payload::empty, |code| Payload::new(code, "")))
    }

    /// The peer broke the protocol. The payload is that of the Close frame to send; `None` when one is sent already.
    ///
    /// What the peer still sends must not be read (RFC 6455, 7.1.7).
    #[must_use]
    pub fn fail(&mut self, violation: Violation) -> Option<Payload> {
        let code = violation.close_code() as u16;
        if self.reading == Reading::Open {
            self.reading = Reading::Ended(code);
        }
        self.send(|| Payload::new(code, &violation.to_string()))
    }

    /// TCP ended or failed.
    pub fn handle_end(&mut self) {
        if self.reading == Reading::Open {
            self.reading = Reading::Ended(CloseCode::Abnormal as u16);
        }
        self.writing = Writing::Closed;
    }

    /// Whether frames of the peer are still to be read: also while it owes the answer to our Close frame.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.reading == Reading::Open
    }

    /// Whether messages, pings and pongs may be sent.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.writing == Writing::Open
    }

    /// Whether both sides are done: once everything is flushed there is nothing left to wait for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.reading != Reading::Open && self.writing == Writing::Closed
    }

    /// Whether it is ours to close TCP now, after flushing. A client waits for the server to do it, but not forever.
    #[must_use]
    pub fn closes_tcp(&self) -> bool {
        let failed = matches!(self.reading, Reading::Ended(_));
        self.is_over() && (self.role == Role::Server || failed)
    }

    /// The code the connection ended with, as told to the application; `None` while it can be read.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self.reading {
            Reading::Open => None,
            Reading::PeerClosed(code) | Reading::Ended(code) => Some(code),
        }
    }

    /// Whether both Close frames were exchanged (RFC 6455, 7.1.4).
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

/// Whether `reason` can be the reason of a Close frame.
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
    fn answers_are_recognised_at_the_end_of_anything() {
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
            // Two bytes each: the 62nd would end at byte 124.
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

        // After our own Close frame nothing more is sent.
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
