//! A receiver: its connection and the next expected message.

use fermata_io::Fd;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{Event, Reader, Rules};

use crate::counters::{Counter, Counters};
use crate::error::Fault;
use crate::exchange::echo::{BYTES_MIN, write_number};
use crate::tls::Tls;
use crate::websocket::{Masks, Opening};

/// Invalid descriptor.
pub(super) const NONE: Fd = -1;

/// State of a client.
#[derive(Debug)]
pub(super) enum State {
    /// Not connected.
    Closed,
    /// Waiting for the handshake response, with its incomplete start.
    Opening(Vec<u8>),
    /// Receiving messages.
    Held(Reader),
}

/// A client. It holds no buffers between reads.
#[derive(Debug)]
pub(super) struct Client {
    pub fd: Fd,
    pub state: State,
    pub tls: Option<Tls>,
    /// Bytes to send, encrypted with TLS; the first `sent` bytes are sent.
    pub unsent: Vec<u8>,
    pub sent: usize,
    pub opened_us: u64,
    /// Number of the next message.
    next: u32,
}

/// State shared by all clients while one of them reads.
#[derive(Debug)]
pub(super) struct Shared {
    pub opening: Opening,
    pub masks: Masks,
    pub rules: Rules,
    /// Expected message. A number replaces its first bytes.
    pub message: Vec<u8>,
    pub counters: Counters,
    /// Decrypted bytes of one read. Empty between reads.
    plain: Vec<u8>,
    /// Bytes to send for the reading client; empty between reads.
    replies: Vec<u8>,
}

/// Result of one read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// True if the handshake is complete.
    pub opened: bool,
    /// Number of messages, valid or not.
    pub messages: u64,
}

impl Client {
    pub fn new() -> Self {
        Self {
            fd: NONE,
            state: State::Closed,
            tls: None,
            unsent: Vec::new(),
            sent: 0,
            opened_us: 0,
            next: 0,
        }
    }

    /// Adds bytes to send.
    pub fn write(&mut self, plain: &[u8]) -> Result<(), Fault> {
        match &mut self.tls {
            Some(tls) => tls.write(plain, &mut self.unsent),
            None => {
                self.unsent.extend_from_slice(plain);
                Ok(())
            }
        }
    }

    /// Processes received bytes.
    pub fn handle(&mut self, input: &mut [u8], shared: &mut Shared) -> Result<Progress, Fault> {
        let Some(tls) = &mut self.tls else {
            return self.handle_plain(input, shared);
        };
        let mut plain = std::mem::take(&mut shared.plain);
        let read = tls.read(input, &mut plain, &mut self.unsent);
        let progress = read.and_then(|()| self.handle_plain(&mut plain, shared));
        plain.clear();
        shared.plain = plain;
        progress
    }

    fn handle_plain(&mut self, input: &mut [u8], shared: &mut Shared) -> Result<Progress, Fault> {
        let mut progress = Progress::default();
        let mut used = 0;
        if let State::Opening(head) = &mut self.state {
            let before = head.len();
            head.extend_from_slice(input);
            let Some(bytes) = shared.opening.check(head)? else {
                return Ok(progress);
            };
            used = bytes - before;
            progress.opened = true;
            self.state = State::Held(Reader::new());
        }
        let State::Held(reader) = &mut self.state else {
            return Ok(progress);
        };
        loop {
            let step = reader.handle(&mut input[used..], &shared.rules)?;
            used += step.consumed;
            match step.event {
                None => break,
                Some(Event::Message { payload, .. }) => {
                    progress.messages += 1;
                    check(&payload, &mut self.next, shared);
                }
                Some(Event::Ping(payload)) => {
                    shared
                        .masks
                        .write(Opcode::Pong, &payload, &mut shared.replies);
                }
                Some(Event::Pong(_)) => {}
                Some(Event::Close { code, reason }) => {
                    let reason = reason.into();
                    return Err(Fault::Closed { code, reason });
                }
            }
        }
        if !shared.replies.is_empty() {
            let replies = std::mem::take(&mut shared.replies);
            self.write(&replies)?;
        }
        Ok(progress)
    }
}

impl Shared {
    pub fn new(opening: Opening, rules: Rules, message_bytes: usize) -> Self {
        Self {
            opening,
            masks: Masks::new(),
            rules,
            message: crate::exchange::echo::text(message_bytes),
            counters: Counters::default(),
            plain: Vec::new(),
            replies: Vec::new(),
        }
    }
}

/// Compares a message with the expected one, byte by byte.
fn check(payload: &[u8], next: &mut u32, shared: &mut Shared) {
    write_number(&mut shared.message, *next);
    if payload == shared.message {
        *next = next.wrapping_add(1);
        return shared.counters.increment(Counter::Deliveries);
    }
    let number = payload
        .get(..BYTES_MIN)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let same = payload.get(BYTES_MIN..) == Some(&shared.message[BYTES_MIN..]);
    match number.filter(|_| same) {
        None => shared.counters.increment(Counter::Corrupt),
        Some(number) if number < *next => shared.counters.increment(Counter::Repeated),
        Some(number) => {
            shared
                .counters
                .add(Counter::Lost, u64::from(number - *next));
            shared.counters.increment(Counter::Deliveries);
            *next = number.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use fermata_proto::ws::Role;
    use fermata_proto::ws::frame::{self, Reserved};

    use super::*;
    use crate::target::Template;

    fn shared() -> Shared {
        let opening = Opening::new("h", &Template::parse(b"/"), Vec::new());
        Shared::new(opening, Rules::new(Role::Client, 64, 64, false), 10)
    }

    #[test]
    fn every_message_is_compared_with_the_one_that_is_due() {
        let mut shared = shared();
        let mut client = Client::new();
        client.state = State::Held(Reader::new());
        let messages = [
            "00000000ij",
            "00000001ij",
            "00000001ij",
            "00000004ij",
            "00000005iX",
            "00000005ij",
            "short",
        ];
        let mut bytes = Vec::new();
        for message in messages {
            let payload = message.as_bytes();
            frame::write(
                &mut bytes,
                Opcode::Text,
                true,
                Reserved::NONE,
                None,
                payload,
            );
        }
        let mut seen = 0;
        for piece in bytes.chunks_mut(5) {
            seen += client.handle(piece, &mut shared).expect("frames").messages;
        }
        assert_eq!(seen, messages.len() as u64);
        let counted = |counter| shared.counters.get(counter);
        assert_eq!(counted(Counter::Deliveries), 4);
        assert_eq!(counted(Counter::Repeated), 1);
        assert_eq!(counted(Counter::Lost), 2);
        assert_eq!(counted(Counter::Corrupt), 2);
    }

    #[test]
    fn a_ping_is_answered_and_a_close_ends() {
        let mut shared = shared();
        let mut client = Client::new();
        client.state = State::Held(Reader::new());
        let mut bytes = Vec::new();
        frame::write(&mut bytes, Opcode::Ping, true, Reserved::NONE, None, b"p");
        let progress = client.handle(&mut bytes, &mut shared);
        assert_eq!(progress.expect("frames"), Progress::default());
        assert_eq!(client.unsent[..2], [0x8a, 0x81]);
        bytes.clear();
        frame::write(&mut bytes, Opcode::Close, true, Reserved::NONE, None, b"");
        assert!(client.handle(&mut bytes, &mut shared).is_err());
    }
}
