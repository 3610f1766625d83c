//! One session with a backend: numbered packets in both directions, with body parts limited by credits.
//!
//! This type has no sockets. It creates a packet for the backend, but counts the packet only after the owner confirms that the
//! packet was sent. If a number were missing, the backend would end the session.

use std::collections::VecDeque;

use fermata_grip::packet::{Notation, encode};
use fermata_grip::value::{Value, map};

use super::frames::{Frame, Written};
use super::packet::{Response, bytes, response};

/// Initial credit of the backend, and maximum body size in the first packet, in bytes.
pub const WINDOW_BYTES: usize = 200_000;
/// Maximum number of messages that a WebSocket's backend has sent and the client has not accepted.
const EVENTS_MAX: usize = 10_000;
/// Maximum number of bytes by which a backend may exceed its credit before its session is stopped.
const BEYOND_BYTES_MAX: usize = WINDOW_BYTES;
/// Maximum size of message content in one packet, in bytes. The limit applies whatever the credit is, because the receiver reads
/// packets as a whole.
const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Silence after which a session ends, and interval of keep-alive packets to the backend.
const SESSION_MS: u64 = 60_000;
const KEEP_ALIVE_MS: u64 = 45_000;

/// Output of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Status and headers of the response.
    Head(Response),
    /// A piece of the body.
    Body(Vec<u8>),
    /// Frames of a WebSocket, in the form that a server writes.
    Frames(Vec<u8>),
    /// The response is complete.
    End,
}

/// Reason why a session ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The backend cannot serve the request, but another backend may.
    Unserved(String),
    /// The backend requires the length of the body.
    LengthRequired,
    /// Any other failure.
    Failed(String),
}

/// Data that opens a session.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The address that the backend replies to.
    pub from: &'a str,
    /// Id of the session.
    pub id: &'a str,
    /// Method, address and headers.
    pub entries: Vec<(Vec<u8>, Value)>,
    /// Start of the request body. `None`: the session is a WebSocket.
    pub body: Option<&'a [u8]>,
    /// More of the body follows.
    pub has_more: bool,
}

/// A session.
#[derive(Debug, Default)]
pub struct Exchange {
    from: String,
    id: String,
    /// The backend process that accepted the request. Empty until the backend has replied.
    peer: Vec<u8>,
    out_sequence: i64,
    in_sequence: i64,
    /// Bytes that may be sent.
    credits: usize,
    /// Bytes that the backend may still send, and bytes that the client has consumed but that are not yet credited to the backend.
    window: usize,
    consumed: usize,
    is_socket: bool,
    has_head: bool,
    /// The entire request was sent.
    has_sent_end: bool,
    /// No more events follow.
    is_over: bool,
    /// Events that the client has not accepted, each with its content size in bytes.
    events: VecDeque<(Event, usize)>,
    received_bytes: usize,
    /// A partially sent frame.
    frame: Option<Frame>,
    sends_binary: bool,
    written: Written,
    has_closed: bool,
    peer_has_closed: bool,
    /// Time of the last packet from the backend, and time of the last keep-alive packet to the backend.
    received_ms: u64,
    sent_ms: u64,
}

impl Exchange {
    /// Opens a session and returns its first packet.
    pub fn open(opening: Opening<'_>, now_ms: u64) -> (Self, Vec<u8>) {
        let exchange = Self {
            from: opening.from.to_owned(),
            id: opening.id.to_owned(),
            out_sequence: 1,
            window: WINDOW_BYTES,
            is_socket: opening.body.is_none(),
            has_sent_end: !opening.has_more,
            received_ms: now_ms,
            sent_ms: now_ms,
            ..Self::default()
        };
        let mut entries = exchange.entries(0);
        entries.extend(opening.entries);
        let mut push = |name: &str, value| entries.push((name.as_bytes().to_vec(), value));
        if let Some(body) = opening.body {
            push("body", Value::Bytes(body.to_vec()));
            push("stream", Value::Bool(true));
        }
        if opening.has_more {
            push("more", Value::Bool(true));
        }
        push("credits", Value::Integer(WINDOW_BYTES as i64));
        (exchange, packed(entries))
    }

    /// Handles a packet of the backend.
    ///
    /// # Errors
    /// The session has ended.
    pub fn handle(
        &mut self,
        packet: &Value,
        sequence: Option<i64>,
        now_ms: u64,
    ) -> Result<(), Condition> {
        let outcome = self.take(packet, sequence, now_ms);
        if outcome.is_err() {
            self.events.clear();
        }
        outcome
    }

    fn take(
        &mut self,
        packet: &Value,
        sequence: Option<i64>,
        now_ms: u64,
    ) -> Result<(), Condition> {
        if self.is_over {
            return Ok(());
        }
        let from = bytes(packet, "from");
        if !from.is_empty() && self.peer.is_empty() {
            self.peer = from.to_vec();
        } else if !from.is_empty() && from != self.peer {
            // Backends of other targets reply to the same port, but each session belongs to one backend.
            return Ok(());
        }
        let kind = bytes(packet, "type");
        match kind {
            b"error" => {
                self.is_over = true;
                return self.on_error(packet);
            }
            b"cancel" => {
                self.is_over = true;
                return failed("the backend has cancelled the request");
            }
            _ => {}
        }
        let has_more = packet.get("more") == Some(&Value::Bool(true));
        // A reply of a single packet may be unnumbered.
        let is_alone = self.in_sequence == 0 && !has_more && !self.is_socket;
        if sequence.unwrap_or(if is_alone { 0 } else { -1 }) != self.in_sequence {
            return failed("a packet of the backend is missing, or comes out of order");
        }
        self.in_sequence += 1;
        self.received_ms = now_ms;
        let credits = packet.get("credits").and_then(Value::integer).unwrap_or(0);
        self.credits = self
            .credits
            .saturating_add(usize::try_from(credits).unwrap_or(0));
        match kind {
            b"credit" | b"keep-alive" => return Ok(()),
            b"" | b"data" if !self.has_head => {
                self.take_head(packet)?;
                if self.is_socket {
                    return Ok(());
                }
            }
            _ if !self.has_head => {
                return failed("the backend did not start with a response");
            }
            _ => {}
        }
        let body = bytes(packet, "body");
        self.count_received(body.len())?;
        match kind {
            kind if self.is_socket => self.take_frame(kind, packet, body.len()),
            b"" | b"data" => {
                self.take_body(body, has_more);
                Ok(())
            }
            // Newer peers may send other kinds of packets, which are ignored.
            _ => Ok(()),
        }
    }

    fn take_head(&mut self, packet: &Value) -> Result<(), Condition> {
        let head = response(packet).map_err(|error| Condition::Failed(error.to_string()))?;
        if (head.status == 101) != self.is_socket {
            return failed("the backend responds to a WebSocket as to a request, or the reverse");
        }
        self.has_head = true;
        self.events.push_back((Event::Head(head), 0));
        Ok(())
    }

    /// Subtracts bytes that the backend has sent from the backend's credit.
    fn count_received(&mut self, len: usize) -> Result<(), Condition> {
        const BEYOND: &str = "the backend sends more than its credit";
        if len > self.window + BEYOND_BYTES_MAX {
            return failed(BEYOND);
        }
        self.received_bytes += len;
        if self.received_bytes > WINDOW_BYTES + BEYOND_BYTES_MAX {
            return failed(BEYOND);
        }
        self.window = self.window.saturating_sub(len);
        Ok(())
    }

    fn take_frame(&mut self, kind: &[u8], packet: &Value, len: usize) -> Result<(), Condition> {
        if self.events.len() >= EVENTS_MAX {
            // Empty messages and pings use no credit, so this limit applies to their number.
            return failed("the backend sends faster than the client reads");
        }
        let mut frames = Vec::new();
        if self.written.write(kind, packet, &mut frames) {
            self.events.push_back((Event::Frames(frames), len));
        }
        self.peer_has_closed |= kind == b"close";
        self.is_over = self.has_closed && self.peer_has_closed;
        Ok(())
    }

    fn take_body(&mut self, body: &[u8], has_more: bool) {
        if !body.is_empty() {
            // Merge pieces of a body. A list of single bytes would need several times the credit in memory.
            match self.events.back_mut() {
                Some((Event::Body(waiting), waiting_len)) => {
                    waiting.extend_from_slice(body);
                    *waiting_len += body.len();
                }
                _ => self
                    .events
                    .push_back((Event::Body(body.to_vec()), body.len())),
            }
        }
        if !has_more {
            self.is_over = true;
            self.events.push_back((Event::End, 0));
        }
    }

    fn on_error(&mut self, packet: &Value) -> Result<(), Condition> {
        let condition = bytes(packet, "condition");
        if condition == b"rejected" && self.is_socket && !self.has_head {
            let head = response(packet).map_err(|error| Condition::Failed(error.to_string()))?;
            self.events.push_back((Event::Head(head), 0));
            let body = bytes(packet, "body").to_vec();
            let len = body.len();
            self.received_bytes += len;
            self.events.push_back((Event::Body(body), len));
            self.events.push_back((Event::End, 0));
            return Ok(());
        }
        let condition = match condition {
            b"" => &b"generic"[..],
            condition => condition,
        };
        let reason = format!("the backend answers: {}", condition.escape_ascii());
        Err(match condition {
            b"remote-connection-failed" | b"connection-timeout" | b"tls-error"
                if !self.has_head =>
            {
                Condition::Unserved(reason)
            }
            b"length-required" if !self.has_head => Condition::LengthRequired,
            _ => Condition::Failed(reason),
        })
    }

    /// Returns the next event. If that is the head of a response, also returns all events after it.
    pub fn next_events(&mut self) -> Vec<Event> {
        let is_whole = matches!(self.events.front(), Some((Event::Head(_), _)))
            && matches!(self.events.back(), Some((Event::End, _)));
        let count = if is_whole {
            self.events.len()
        } else {
            self.events.len().min(1)
        };
        let events = self.events.drain(..count);
        let (events, bytes): (Vec<Event>, Vec<usize>) = events.unzip();
        let bytes: usize = bytes.into_iter().sum();
        self.received_bytes -= bytes;
        self.consumed += bytes;
        events
    }

    /// Returns true if a part of the request may be sent now.
    pub fn may_send(&self) -> bool {
        !self.peer.is_empty() && self.credits > 0 && !self.is_over
    }

    /// Returns a packet with as much of the body as the credit allows, and the number of bytes.
    pub fn body(&self, piece: &[u8]) -> (Vec<u8>, usize) {
        let fits = piece.len().min(self.credits);
        let mut entries = self.entries(self.out_sequence);
        entries.push((b"body".to_vec(), Value::Bytes(piece[..fits].to_vec())));
        entries.push((b"more".to_vec(), Value::Bool(true)));
        (packed(entries), fits)
    }

    /// Returns the packet that ends the request body. This packet needs no credit. `None`: it cannot be sent now.
    pub fn body_end(&self) -> Option<Vec<u8>> {
        let may_end = !self.has_sent_end && !self.peer.is_empty() && !self.is_over;
        may_end.then(|| packed(self.entries(self.out_sequence)))
    }

    /// Records that the last body packet was sent.
    pub fn sent_body(&mut self, bytes: usize) {
        self.out_sequence += 1;
        self.credits -= bytes;
    }

    /// Records that the end was sent.
    pub fn sent_end(&mut self) {
        self.out_sequence += 1;
        self.has_sent_end = true;
    }

    /// Returns a packet with as much of the first frame as fits, and the number of bytes consumed.
    pub fn frame(&mut self, written: &[u8]) -> (Option<(Vec<u8>, usize, bool)>, usize) {
        let mut taken = 0;
        if self.peer.is_empty() || self.is_over {
            return (None, 0);
        }
        if self.frame.is_none()
            && let Some((frame, len)) = Frame::read(written)
        {
            self.frame = Some(frame);
            taken = len;
        }
        let sequence = self.out_sequence;
        let credits = self.credits.min(PIECE_BYTES_MAX);
        let Some(frame) = &mut self.frame else {
            return (None, taken);
        };
        let Some((more, bytes, is_done)) = frame.packet(credits, &mut self.sends_binary) else {
            return (None, taken);
        };
        let mut entries = self.entries(sequence);
        entries.extend(more);
        (Some((packed(entries), bytes, is_done)), taken)
    }

    /// Returns true if a part of a frame waits for credit.
    pub fn has_frame(&self) -> bool {
        self.frame.is_some()
    }

    /// Records that the packet with a frame was sent.
    pub fn sent_frame(&mut self, bytes: usize, is_done: bool) {
        self.out_sequence += 1;
        self.credits -= bytes;
        if is_done && let Some(frame) = self.frame.take() {
            self.has_closed |= frame.is_close;
            self.is_over = self.has_closed && self.peer_has_closed;
        }
    }

    /// Returns a packet that credits the consumed bytes to the backend, and the number of these bytes. `None`: no byte was
    /// consumed.
    pub fn credit(&self) -> Option<(Vec<u8>, usize)> {
        if self.consumed == 0 || self.peer.is_empty() || self.is_over {
            return None;
        }
        let mut entries = self.entries(self.out_sequence);
        entries.push((b"type".to_vec(), "credit".into()));
        let credits = Value::Integer(self.consumed as i64);
        entries.push((b"credits".to_vec(), credits));
        Some((packed(entries), self.consumed))
    }

    /// Records that the credit was sent.
    pub fn sent_credit(&mut self, bytes: usize) {
        self.out_sequence += 1;
        self.consumed -= bytes;
        self.window += bytes;
    }

    /// Returns a keep-alive packet. `None`: no packet is due.
    pub fn keep_alive(&self, now_ms: u64) -> Option<Vec<u8>> {
        let is_due = now_ms >= self.sent_ms + KEEP_ALIVE_MS;
        if !is_due || self.peer.is_empty() || self.is_over {
            return None;
        }
        let mut entries = self.entries(self.out_sequence);
        entries.push((b"type".to_vec(), "keep-alive".into()));
        Some(packed(entries))
    }

    /// Records that the keep-alive was sent.
    pub fn sent_keep_alive(&mut self, now_ms: u64) {
        self.out_sequence += 1;
        self.sent_ms = now_ms;
    }

    /// Returns the packet that cancels the session. `None`: the session has ended, or no backend has accepted it.
    pub fn cancel(&self) -> Option<Vec<u8>> {
        if self.is_over || self.peer.is_empty() {
            return None;
        }
        let mut entries = self.entries(self.out_sequence);
        entries.push((b"type".to_vec(), "cancel".into()));
        Some(packed(entries))
    }

    /// Returns the backend process that accepted the request.
    pub fn peer(&self) -> &[u8] {
        &self.peer
    }

    /// Returns true if the backend was silent for too long.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        !self.is_over && now_ms >= self.received_ms + SESSION_MS
    }

    fn entries(&self, sequence: i64) -> Vec<(Vec<u8>, Value)> {
        let packet = map([
            ("from", self.from.as_str().into()),
            ("id", self.id.as_str().into()),
            ("seq", Value::Integer(sequence)),
        ]);
        match packet {
            Value::Map(entries) => entries,
            _ => Vec::new(),
        }
    }
}

/// Returns a packet that cancels a session which no longer exists here.
pub fn cancel(from: &str, id: &[u8]) -> Vec<u8> {
    let entries = [
        ("from", from.into()),
        ("id", Value::Bytes(id.to_vec())),
        ("type", "cancel".into()),
    ];
    let mut out = Vec::new();
    encode(&mut out, &map(entries), Notation::Tnetstring);
    out
}

fn packed(entries: Vec<(Vec<u8>, Value)>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, &Value::Map(entries), Notation::Tnetstring);
    out
}

fn failed(reason: &str) -> Result<(), Condition> {
    Err(Condition::Failed(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use fermata_grip::packet::decode;

    use super::*;

    fn opened(body: Option<&[u8]>, has_more: bool) -> (Exchange, Value) {
        let opening = Opening {
            from: "us",
            id: "1",
            entries: vec![(b"uri".to_vec(), "http://a/".into())],
            body,
            has_more,
        };
        let (exchange, packet) = Exchange::open(opening, 0);
        (exchange, read(&packet))
    }

    fn read(packet: &[u8]) -> Value {
        decode(packet).expect("a packet").0
    }

    fn take(exchange: &mut Exchange, packet: Value, now_ms: u64) -> Result<(), Condition> {
        let sequence = packet.get("seq").and_then(Value::integer);
        exchange.handle(&packet, sequence, now_ms)
    }

    /// Returns a packet from the backend with this sequence number and these entries.
    fn reply<const N: usize>(sequence: i64, entries: [(&str, Value); N]) -> Value {
        let Value::Map(mut all) = map(entries) else {
            panic!("a map");
        };
        all.push((b"seq".to_vec(), Value::Integer(sequence)));
        all.push((b"from".to_vec(), "them".into()));
        Value::Map(all)
    }

    #[test]
    fn body_packets_respect_credit() {
        let (mut exchange, first) = opened(Some(b"ab"), true);
        assert_eq!(bytes(&first, "body"), b"ab");
        assert_eq!(first.get("more"), Some(&Value::Bool(true)));
        assert!(!exchange.may_send() && exchange.body_end().is_none());
        let credit = [("type", "credit".into()), ("credits", Value::Integer(3))];
        assert_eq!(take(&mut exchange, reply(0, credit), 1), Ok(()));
        assert!(exchange.may_send());
        let (packet, bytes) = exchange.body(b"cdefg");
        assert_eq!(bytes, 3);
        let packet = read(&packet);
        assert_eq!(super::bytes(&packet, "body"), b"cde");
        assert_eq!(packet.get("seq"), Some(&Value::Integer(1)));
        exchange.sent_body(bytes);
        assert!(!exchange.may_send());
        let end = read(&exchange.body_end().expect("it needs no credit"));
        assert_eq!(end.get("seq"), Some(&Value::Integer(2)));
        assert_eq!(end.get("more"), None);
        exchange.sent_end();
        assert!(exchange.body_end().is_none());
    }

    /// A body that arrives byte by byte needs as much memory as one that arrives in one piece.
    #[test]
    fn merges_small_pieces_of_a_body() {
        let (mut exchange, _) = opened(Some(b""), false);
        let (code, more) = (("code", Value::Integer(200)), ("more", Value::Bool(true)));
        let first = reply(0, [code, more.clone()]);
        assert_eq!(take(&mut exchange, first, 1), Ok(()));
        for number in 1..=1_000 {
            let piece = reply(number, [more.clone(), ("body", "x".into())]);
            assert_eq!(take(&mut exchange, piece, 1), Ok(()));
        }
        assert!(exchange.events.len() <= 2, "{}", exchange.events.len());
        assert!(matches!(exchange.next_events()[..], [Event::Head(_)]));
        assert_eq!(exchange.next_events(), [Event::Body(vec![b'x'; 1_000])]);
        let credit = exchange.credit().map(|(_, bytes)| bytes);
        assert_eq!(credit, Some(1_000));
    }

    #[test]
    fn response_returns_credit_when_consumed() {
        let (mut exchange, _) = opened(Some(b""), false);
        let (code, more) = (("code", Value::Integer(200)), ("more", Value::Bool(true)));
        let first = reply(0, [code.clone(), more.clone(), ("body", "abc".into())]);
        assert_eq!(take(&mut exchange, first, 1), Ok(()));
        assert!(exchange.credit().is_none());
        assert!(matches!(exchange.next_events()[..], [Event::Head(_)]));
        assert_eq!(exchange.next_events(), [Event::Body(b"abc".to_vec())]);
        let (packet, bytes) = exchange.credit().expect("credit");
        assert_eq!(
            (read(&packet).get("credits"), bytes),
            (Some(&Value::Integer(3)), 3)
        );
        exchange.sent_credit(bytes);
        assert!(exchange.credit().is_none());
        assert_eq!(
            take(&mut exchange, reply(1, [("body", "d".into())]), 1),
            Ok(())
        );
        assert_eq!(exchange.next_events(), [Event::Body(b"d".to_vec())]);
        assert_eq!(exchange.next_events(), [Event::End]);
        // The session has ended, so no more packets are sent.
        assert!(exchange.credit().is_none() && exchange.cancel().is_none());
    }

    #[test]
    fn accepts_a_response_of_one_unnumbered_packet() {
        let (mut exchange, _) = opened(Some(b""), false);
        let whole = map([("code", Value::Integer(200)), ("body", "x".into())]);
        assert_eq!(take(&mut exchange, whole, 1), Ok(()));
        assert_eq!(exchange.next_events().len(), 3);
    }

    #[test]
    fn protocol_violation_ends_the_session() {
        let code = || ("code", Value::Integer(200));
        let more = || ("more", Value::Bool(true));
        let large = Value::Bytes(vec![b'x'; WINDOW_BYTES + BEYOND_BYTES_MAX + 1]);
        for packet in [
            reply(1, [code(), more()]),
            map([code(), more()]),
            reply(0, [("code", Value::Integer(99)), more()]),
            reply(0, [("code", Value::Integer(101)), more()]),
            reply(0, [("type", "ping".into()), more()]),
            reply(0, [("type", "cancel".into()), more()]),
            reply(0, [code(), ("body", large)]),
        ] {
            let (mut exchange, _) = opened(Some(b""), false);
            let outcome = take(&mut exchange, packet.clone(), 1);
            assert!(matches!(outcome, Err(Condition::Failed(_))), "{packet:?}");
            assert_eq!(exchange.next_events(), []);
        }
        for (condition, is_unserved) in [("remote-connection-failed", true), ("generic", false)] {
            let (mut exchange, _) = opened(Some(b""), false);
            let entries = [("type", "error".into()), ("condition", condition.into())];
            let outcome = take(&mut exchange, reply(0, entries), 1);
            assert_eq!(matches!(outcome, Err(Condition::Unserved(_))), is_unserved);
        }
    }

    #[test]
    fn silence_ends_a_session_and_keep_alives_are_sent() {
        let (mut exchange, _) = opened(Some(b""), false);
        assert!(exchange.keep_alive(KEEP_ALIVE_MS).is_none());
        let alive = reply(0, [("type", "keep-alive".into())]);
        assert_eq!(take(&mut exchange, alive, 10), Ok(()));
        assert!(!exchange.is_expired(SESSION_MS + 9) && exchange.is_expired(SESSION_MS + 10));
        assert!(exchange.keep_alive(KEEP_ALIVE_MS - 1).is_none());
        assert!(exchange.keep_alive(KEEP_ALIVE_MS).is_some());
        exchange.sent_keep_alive(KEEP_ALIVE_MS);
        assert!(exchange.keep_alive(KEEP_ALIVE_MS).is_none());
        let cancel = read(&exchange.cancel().expect("it is not over"));
        assert_eq!(bytes(&cancel, "type"), b"cancel");
        assert_eq!(cancel.get("seq"), Some(&Value::Integer(2)));
    }

    #[test]
    fn websocket_ends_when_both_sides_have_closed() {
        let (mut exchange, first) = opened(None, false);
        assert_eq!(first.get("stream"), None);
        let accepted = [
            ("code", Value::Integer(101)),
            ("credits", Value::Integer(5)),
        ];
        assert_eq!(take(&mut exchange, reply(0, accepted), 1), Ok(()));
        let close = reply(
            1,
            [("type", "close".into()), ("code", Value::Integer(1_000))],
        );
        assert_eq!(take(&mut exchange, close, 1), Ok(()));
        assert!(matches!(exchange.next_events()[..], [Event::Head(_)]));
        assert_eq!(
            exchange.next_events(),
            [Event::Frames(b"\x88\x02\x03\xe8".to_vec())]
        );
        assert!(exchange.cancel().is_some());
        let (packet, taken) = exchange.frame(b"\x88\x02\x03\xe8");
        let (packet, bytes, is_done) = packet.expect("a packet");
        assert_eq!((taken, bytes, is_done), (4, 0, true));
        assert_eq!(super::bytes(&read(&packet), "type"), b"close");
        exchange.sent_frame(bytes, is_done);
        assert!(exchange.cancel().is_none());
    }

    #[test]
    fn splits_a_large_message() {
        let (mut exchange, _) = opened(None, false);
        let accepted = [
            ("code", Value::Integer(101)),
            ("credits", Value::Integer(10_000_000)),
        ];
        assert_eq!(take(&mut exchange, reply(0, accepted), 1), Ok(()));
        let mut written = vec![0x82, 127, 0, 0, 0, 0, 0, 2, 0, 0];
        written.resize(written.len() + 0x2_0000, b'x');
        let mut sent = Vec::new();
        while sent.len() < 0x2_0000 {
            let (packet, taken) = exchange.frame(&written);
            written.drain(..taken);
            let (_, bytes, is_done) = packet.expect("a piece");
            assert!((1..=PIECE_BYTES_MAX).contains(&bytes));
            exchange.sent_frame(bytes, is_done);
            sent.resize(sent.len() + bytes, b'x');
        }
        assert!(!exchange.has_frame() && written.is_empty());
    }

    #[test]
    fn refused_websocket_has_a_response() {
        let (mut exchange, _) = opened(None, false);
        let refused = [
            ("type", "error".into()),
            ("condition", "rejected".into()),
            ("code", Value::Integer(403)),
            ("body", "no".into()),
        ];
        assert_eq!(take(&mut exchange, reply(0, refused), 1), Ok(()));
        let events = exchange.next_events();
        assert!(
            matches!(&events[..], [Event::Head(head), Event::Body(_), Event::End] if head.status == 403)
        );
    }
}
