//! Client side of an open WebSocket connection: bytes in, messages and bytes out.
//!
//! This client is for tests, scripts and tools with few connections, because each client owns its compression streams. Connections
//! of a server share these. Callers pass the masking keys, because this crate has no source of randomness.

use super::close::{self, Closing};
use super::deflate::{Compressor, Context, Decompressor};
use super::extension::Agreed;
use super::frame::{self, CONTROL_BYTES_MAX, Opcode, Reserved};
use super::message::{Event, Kind, Reader, Rules};
use super::{Role, Violation};

/// Compression level: most of the gain at little CPU cost.
const LEVEL: u8 = 3;

/// Messages shorter than this many bytes are sent uncompressed.
const COMPRESS_BYTES_MIN: usize = 64;

/// An open client connection.
#[derive(Debug)]
pub struct Client {
    rules: Rules,
    reader: Reader,
    closing: Closing,
    deflate: Option<Box<Deflate>>,
    /// Buffer for a decompressed message.
    inflated: Vec<u8>,
    passes_pings: bool,
}

#[derive(Debug)]
struct Deflate {
    context: Context,
    compressor: Compressor,
    decompressor: Decompressor,
}

/// A received message or control frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A complete message.
    Message(Kind, &'a [u8]),
    /// A ping that the application must answer; see [`Client::passing_pings`].
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// The server's Close frame; no further frames follow.
    Closed {
        /// Close code. 1005 if the frame has no code.
        code: u16,
        /// Reason; may be empty.
        reason: String,
    },
}

/// Reason why something cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// A Close frame was already sent, or the connection has closed.
    #[error("the connection is closed; connect again")]
    Closed,
    /// The text is not UTF-8.
    #[error("the text is not UTF-8; encode it or send it as binary")]
    NotUtf8,
    /// A ping payload longer than a control frame allows.
    #[error("the payload of a ping has at most {CONTROL_BYTES_MAX} bytes; send less")]
    PingTooLong,
    /// A close code that must not be sent.
    #[error("the close code must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999")]
    CloseCode,
    /// A reason that is too long or not UTF-8.
    #[error("the reason has to be UTF-8 of at most 123 bytes; shorten it")]
    CloseReason,
}

impl Client {
    /// Creates a client after a handshake that agreed on `compression`. Received messages may have at most
    /// `message_bytes_max` bytes.
    #[must_use]
    pub fn new(compression: Option<&Agreed>, message_bytes_max: usize) -> Self {
        let frame_bytes_max = message_bytes_max as u64;
        let compressed = compression.is_some();
        Self {
            rules: Rules::new(Role::Client, frame_bytes_max, message_bytes_max, compressed),
            reader: Reader::new(),
            closing: Closing::new(Role::Client),
            deflate: compression.map(|agreed| {
                Box::new(Deflate {
                    context: Context::new(Role::Client, agreed),
                    compressor: Compressor::new(LEVEL, COMPRESS_BYTES_MIN),
                    decompressor: Decompressor::new(),
                })
            }),
            inflated: Vec::new(),
            passes_pings: false,
        }
    }

    /// Returns received pings to the caller instead of answering them. A proxy forwards them to its own client.
    #[must_use]
    pub fn passing_pings(mut self) -> Self {
        self.passes_pings = true;
        self
    }

    /// Processes received bytes up to the first event for the caller; call again with the rest. Appends pongs and Close
    /// frames to `out`, masked with `key`.
    ///
    /// # Errors
    /// The server violated the protocol. `out` then contains the Close frame; the caller must not read further.
    pub fn handle<'a>(
        &'a mut self,
        input: &'a mut [u8],
        key: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Received<'a>>), Violation> {
        if !self.closing.can_read() {
            return Ok((input.len(), None));
        }
        let step = match self.reader.handle(input, &self.rules) {
            Ok(step) => step,
            Err(violation) => return Err(fail(&mut self.closing, violation, key, out)),
        };
        let consumed = step.consumed;
        let received = match step.event {
            None => None,
            Some(Event::Ping(payload)) if self.passes_pings => {
                Some(Received::Ping(payload.into_owned()))
            }
            Some(Event::Ping(payload)) => {
                if self.closing.can_send() {
                    control(Opcode::Pong, &payload, key, out);
                }
                None
            }
            Some(Event::Pong(payload)) => Some(Received::Pong(payload.into_owned())),
            Some(Event::Close { code, reason }) => {
                if let Some(payload) = self.closing.handle_close(code) {
                    control(Opcode::Close, payload.as_bytes(), key, out);
                }
                Some(Received::Closed {
                    code: code.unwrap_or(close::CloseCode::NoStatus as u16),
                    reason: reason.into_owned(),
                })
            }
            Some(Event::Message {
                kind,
                compressed,
                payload,
            }) => {
                self.inflated.clear();
                match &mut self.deflate {
                    Some(deflate) if compressed => {
                        let max = self.rules.message_bytes_max;
                        let Deflate {
                            context,
                            decompressor,
                            ..
                        } = &mut **deflate;
                        let read =
                            decompressor.read(context, kind, &payload, max, &mut self.inflated);
                        if let Err(violation) = read {
                            return Err(fail(&mut self.closing, violation, key, out));
                        }
                        Some(Received::Message(kind, &self.inflated))
                    }
                    _ => Some(Received::Message(kind, lend(payload, &mut self.inflated))),
                }
            }
        };
        Ok((consumed, received))
    }

    /// Handles the end of the TCP connection. Returns the close code if no Close frame arrived before.
    pub fn handle_end(&mut self) -> Option<u16> {
        let known = self.closing.code();
        self.closing.handle_end();
        self.closing.code().filter(|_| known.is_none())
    }

    /// Appends a message.
    ///
    /// # Errors
    /// The connection is closed, or the text is not UTF-8.
    pub fn send(
        &mut self,
        kind: Kind,
        data: &[u8],
        key: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        self.check_open()?;
        let opcode = match kind {
            Kind::Text if !super::utf8::valid(data) => return Err(Unsendable::NotUtf8),
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        };
        match &mut self.deflate {
            Some(deflate) => {
                let Deflate {
                    context,
                    compressor,
                    ..
                } = &mut **deflate;
                compressor.write(context, kind, data, Some(key), out);
            }
            None => frame::write(out, opcode, true, Reserved::NONE, Some(key), data),
        }
        Ok(())
    }

    /// Appends a ping.
    ///
    /// # Errors
    /// The connection is closed, or the payload is too long.
    pub fn ping(
        &mut self,
        payload: &[u8],
        key: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        self.check_open()?;
        if payload.len() > CONTROL_BYTES_MAX {
            return Err(Unsendable::PingTooLong);
        }
        control(Opcode::Ping, payload, key, out);
        Ok(())
    }

    /// Appends a pong. Truncates the payload to the length that a control frame allows.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn pong(
        &mut self,
        payload: &[u8],
        key: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        self.check_open()?;
        let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
        control(Opcode::Pong, payload, key, out);
        Ok(())
    }

    /// Appends a Close frame, or nothing if one was already sent. Messages may still arrive until the server answers it.
    ///
    /// # Errors
    /// The code must not be sent, or the reason is too long or not UTF-8.
    pub fn close(
        &mut self,
        code: u16,
        reason: &[u8],
        key: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        if !close::valid_code(code) {
            return Err(Unsendable::CloseCode);
        }
        let reason = std::str::from_utf8(reason).map_err(|_| Unsendable::CloseReason)?;
        if !close::valid_reason(reason.as_bytes()) {
            return Err(Unsendable::CloseReason);
        }
        if let Some(payload) = self.closing.start(code, reason) {
            control(Opcode::Close, payload.as_bytes(), key, out);
        }
        Ok(())
    }

    /// Returns true if messages can be sent.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.closing.can_send()
    }

    /// Returns true if messages can arrive.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.closing.can_read()
    }

    fn check_open(&self) -> Result<(), Unsendable> {
        if self.closing.can_send() {
            Ok(())
        } else {
            Err(Unsendable::Closed)
        }
    }
}

/// Returns the payload in place, or moves it to `place`, so that it is valid for `'a`.
fn lend<'a>(payload: std::borrow::Cow<'a, [u8]>, place: &'a mut Vec<u8>) -> &'a [u8] {
    match payload {
        std::borrow::Cow::Borrowed(payload) => payload,
        std::borrow::Cow::Owned(payload) => {
            *place = payload;
            place
        }
    }
}

fn fail(closing: &mut Closing, violation: Violation, key: [u8; 4], out: &mut Vec<u8>) -> Violation {
    if let Some(payload) = closing.fail(violation) {
        control(Opcode::Close, payload.as_bytes(), key, out);
    }
    violation
}

fn control(opcode: Opcode, payload: &[u8], key: [u8; 4], out: &mut Vec<u8>) {
    frame::write(out, opcode, true, Reserved::NONE, Some(key), payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 4] = [9, 8, 7, 6];
    const MAX: usize = 100_000;

    /// Parses `bytes` as a server does, with the server's state.
    fn served(
        bytes: &mut [u8],
        reader: &mut Reader,
        agreed: Option<&Agreed>,
    ) -> Vec<Event<'static>> {
        let rules = Rules::new(Role::Server, MAX as u64, MAX, agreed.is_some());
        let mut events = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let step = reader.handle(&mut bytes[at..], &rules).expect("valid");
            at += step.consumed;
            events.extend(step.event.map(|event| match event {
                Event::Message {
                    kind,
                    compressed,
                    payload,
                } => Event::Message {
                    kind,
                    compressed,
                    payload: payload.into_owned().into(),
                },
                Event::Ping(payload) => Event::Ping(payload.into_owned().into()),
                Event::Pong(payload) => Event::Pong(payload.into_owned().into()),
                Event::Close { code, reason } => Event::Close {
                    code,
                    reason: reason.into_owned().into(),
                },
            }));
        }
        events
    }

    #[test]
    fn returns_pings_to_a_proxy() {
        let mut client = Client::new(None, MAX).passing_pings();
        let mut out = Vec::new();
        let mut input = b"\x89\x01!".to_vec();
        let ping = client.handle(&mut input, KEY, &mut out).expect("valid");
        assert_eq!(ping, (3, Some(Received::Ping(b"!".to_vec()))));
        assert!(out.is_empty());
        client.pong(&[b'!'; 200], KEY, &mut out).expect("open");
        let events = served(&mut out, &mut Reader::new(), None);
        assert_eq!(events, [Event::Pong(vec![b'!'; CONTROL_BYTES_MAX].into())]);
    }

    #[test]
    fn messages_pings_and_a_close() {
        let mut client = Client::new(None, MAX);
        let mut out = Vec::new();
        client
            .send(Kind::Text, "grüß".as_bytes(), KEY, &mut out)
            .expect("open");
        client
            .send(Kind::Binary, b"\xff", KEY, &mut out)
            .expect("open");
        client.ping(b"?", KEY, &mut out).expect("open");
        let mut reader = Reader::new();
        let events = served(&mut out, &mut reader, None);
        assert_eq!(events.len(), 3);
        assert_eq!(events[2], Event::Ping(b"?"[..].into()));

        let mut input =
            b"\x89\x01!\x8a\x01?\x01\x02ab\x80\x01c\x88\x05\x0f\xa0bye\x81\x01x".to_vec();
        let mut out = Vec::new();
        let mut seen = Vec::new();
        let mut at = 0;
        while at < input.len() {
            let (consumed, received) = client
                .handle(&mut input[at..], KEY, &mut out)
                .expect("valid");
            seen.push(match received {
                Some(Received::Message(kind, data)) => format!("{kind:?} {}", data.escape_ascii()),
                Some(Received::Ping(_)) => "Ping".to_owned(),
                Some(Received::Pong(data)) => format!("Pong {}", data.escape_ascii()),
                Some(Received::Closed { code, reason }) => format!("{code} {reason}"),
                None => String::new(),
            });
            at += consumed;
        }
        assert_eq!(seen, ["", "Pong ?", "Text abc", "4000 bye", ""]);
        let events = served(&mut out, &mut reader, None);
        assert_eq!(events[0], Event::Pong(b"!"[..].into()));
        assert!(matches!(
            events[1],
            Event::Close {
                code: Some(4000),
                ..
            }
        ));
        assert!(!client.can_send() && !client.can_read());
        assert_eq!(
            client.send(Kind::Text, b"", KEY, &mut out),
            Err(Unsendable::Closed)
        );
        assert_eq!(client.handle_end(), None);
    }

    #[test]
    fn compressed_both_ways() {
        let agreed = Agreed {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_max_window_bits: None,
            client_max_window_bits: None,
        };
        let mut client = Client::new(Some(&agreed), MAX);
        let mut server = (Compressor::new(1, 0), Decompressor::new());
        let mut context = Context::new(Role::Server, &agreed);
        let mut reader = Reader::new();
        for text in ["hello ".repeat(50), "world ".repeat(50), "!".into()] {
            let mut out = Vec::new();
            client
                .send(Kind::Text, text.as_bytes(), KEY, &mut out)
                .expect("open");
            let events = served(&mut out, &mut reader, Some(&agreed));
            let [
                Event::Message {
                    kind,
                    compressed,
                    payload,
                },
            ] = &events[..]
            else {
                panic!("one message");
            };
            assert_eq!(*compressed, text.len() > COMPRESS_BYTES_MIN);
            let mut plain = Vec::new();
            if *compressed {
                let read = server.1.read(&mut context, *kind, payload, MAX, &mut plain);
                assert_eq!((read, &plain[..]), (Ok(()), text.as_bytes()));
            }
            let mut answer = Vec::new();
            server
                .0
                .write(&mut context, *kind, text.as_bytes(), None, &mut answer);
            let (_, received) = client.handle(&mut answer, KEY, &mut out).expect("valid");
            assert_eq!(
                received,
                Some(Received::Message(Kind::Text, text.as_bytes()))
            );
        }
        // A decompression bomb.
        let mut answer = Vec::new();
        let bomb = vec![0; MAX + 1];
        server
            .0
            .write(&mut context, Kind::Binary, &bomb, None, &mut answer);
        let mut out = Vec::new();
        assert_eq!(
            client.handle(&mut answer, KEY, &mut out),
            Err(Violation::MessageTooLarge)
        );
        let events = served(&mut out, &mut reader, Some(&agreed));
        assert!(matches!(
            events[..],
            [Event::Close {
                code: Some(1009),
                ..
            }]
        ));
    }

    #[test]
    fn rejects_invalid_sends() {
        let mut client = Client::new(None, MAX);
        let mut out = Vec::new();
        assert_eq!(
            client.send(Kind::Text, b"\xff", KEY, &mut out),
            Err(Unsendable::NotUtf8)
        );
        assert_eq!(
            client.ping(&[0; 126], KEY, &mut out),
            Err(Unsendable::PingTooLong)
        );
        assert_eq!(
            client.close(1005, b"", KEY, &mut out),
            Err(Unsendable::CloseCode)
        );
        assert_eq!(
            client.close(1000, &[b'a'; 124], KEY, &mut out),
            Err(Unsendable::CloseReason)
        );
        assert_eq!(
            client.close(1000, b"\xff", KEY, &mut out),
            Err(Unsendable::CloseReason)
        );
        assert!(out.is_empty() && client.can_send());
        client.close(1000, b"bye", KEY, &mut out).expect("valid");
        let len = out.len();
        client
            .close(1000, b"again", KEY, &mut out)
            .expect("no matter");
        assert_eq!(out.len(), len);
        assert!(!client.can_send() && client.can_read());
        // Without a Close frame the connection closed abnormally.
        assert_eq!(client.handle_end(), Some(1006));
    }
}
