//! Fuzz targets for WebSocket.

use std::borrow::Cow;

use crate::ws::deflate::{Compressor, Context, Decompressor};
use crate::ws::extension::{self, Agreed, Policy};
use crate::ws::frame::{self, Opcode, Reserved};
use crate::ws::message::{Event, Kind, Reader, Rules};
use crate::ws::{Role, Violation, close};

/// Limits small enough to be reached.
const FRAME_BYTES_MAX: u64 = 150;
const MESSAGE_BYTES_MAX: usize = 300;

/// Checks received frames: every split gives the same events within the limits, and parsed events round-trip.
pub fn ws(data: &[u8]) {
    // The first byte selects the rules, the second the splits.
    let [selector, seed, input @ ..] = data else {
        return;
    };
    let role = if selector & 1 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let compression = selector & 2 != 0;
    let rules = Rules::new(role, FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, compression);
    let whole = read(input, &[], &rules);
    for splits in [
        &[0][..],
        &[seed % 7],
        &[seed % 3, seed / 5 % 11, 0, seed % 29],
    ] {
        assert_eq!(read(input, splits, &rules), whole);
    }

    let mut written = Vec::new();
    for event in &whole.0 {
        check(event);
        write(event, role, &mut written);
    }
    // A joined message may exceed the limit of one frame.
    let rules = Rules::new(role, u64::MAX, MESSAGE_BYTES_MAX, compression);
    assert_eq!(read(&written, &[*seed], &rules), (whole.0, None));
}

/// Returns all events of `input`, read in pieces of `splits[i] + 1` bytes, using `splits` cyclically; in one piece if `splits` is
/// empty.
fn read(input: &[u8], splits: &[u8], rules: &Rules) -> (Vec<Event<'static>>, Option<Violation>) {
    let mut reader = Reader::new();
    let mut events = Vec::new();
    let mut sizes = splits.iter().cycle().map(|&size| usize::from(size) + 1);
    let mut rest = input;
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(usize::MAX).min(rest.len());
        let mut piece = rest[..size].to_vec();
        rest = &rest[size..];
        let mut at = 0;
        while at < size {
            let step = match reader.handle(&mut piece[at..], rules) {
                Ok(step) => step,
                Err(violation) => return (events, Some(violation)),
            };
            assert!(step.event.is_some() || at + step.consumed == size);
            at += step.consumed;
            events.extend(step.event.map(owned));
        }
        assert!(reader.kept_bytes() <= rules.message_bytes_max);
    }
    (events, None)
}

fn owned(event: Event<'_>) -> Event<'static> {
    let bytes = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
    match event {
        Event::Message {
            kind,
            compressed,
            payload,
        } => Event::Message {
            kind,
            compressed,
            payload: bytes(payload),
        },
        Event::Ping(payload) => Event::Ping(bytes(payload)),
        Event::Pong(payload) => Event::Pong(bytes(payload)),
        Event::Close { code, reason } => Event::Close {
            code,
            reason: Cow::Owned(reason.into_owned()),
        },
    }
}

fn check(event: &Event<'_>) {
    match event {
        Event::Message {
            kind,
            compressed,
            payload,
        } => {
            assert!(payload.len() <= MESSAGE_BYTES_MAX);
            let text = std::str::from_utf8(payload);
            assert!(*kind == Kind::Binary || *compressed || text.is_ok());
        }
        Event::Ping(payload) | Event::Pong(payload) => {
            assert!(payload.len() <= frame::CONTROL_BYTES_MAX);
        }
        Event::Close { code, reason } => {
            assert!(reason.len() <= close::REASON_BYTES_MAX);
            assert!(code.is_none_or(close::valid_code) && (code.is_some() || reason.is_empty()));
        }
    }
}

/// Writes the event as its peer would, in one frame.
fn write(event: &Event<'_>, reader: Role, out: &mut Vec<u8>) {
    let close_payload;
    let (opcode, compressed, payload) = match event {
        Event::Message {
            kind: Kind::Text,
            compressed,
            payload,
        } => (Opcode::Text, *compressed, &payload[..]),
        Event::Message {
            compressed,
            payload,
            ..
        } => (Opcode::Binary, *compressed, &payload[..]),
        Event::Ping(payload) => (Opcode::Ping, false, &payload[..]),
        Event::Pong(payload) => (Opcode::Pong, false, &payload[..]),
        Event::Close { code, reason } => {
            close_payload = code.map_or_else(close::Payload::empty, |code| {
                close::Payload::new(code, reason)
            });
            (Opcode::Close, false, close_payload.as_bytes())
        }
    };
    let reserved = if compressed {
        Reserved::RSV1
    } else {
        Reserved::NONE
    };
    let mask = (reader == Role::Server).then_some([0x12, 0x80, 0, 0xff]);
    frame::write(out, opcode, true, reserved, mask, payload);
}

/// Checks a `Sec-WebSocket-Extensions` line: the result satisfies the policy and round-trips as an offer.
pub fn ws_extensions(data: &[u8]) {
    let Some((&selector, line)) = data.split_first() else {
        return;
    };
    let policy = Policy {
        server_no_context_takeover: selector & 1 != 0,
        client_no_context_takeover: selector & 2 != 0,
        server_max_window_bits: 9 + (selector >> 2) % 7,
        client_max_window_bits: 9 + (selector >> 5) % 7,
    };
    let lines = || [line].into_iter();
    let agreed = extension::negotiate(lines(), Some(&policy));
    let without = extension::negotiate(lines(), None);
    assert_eq!(without.is_err(), agreed.is_err());
    let Ok(Some(agreed)) = agreed else {
        return;
    };
    assert!(agreed.server_no_context_takeover || !policy.server_no_context_takeover);
    assert!(agreed.client_no_context_takeover || !policy.client_no_context_takeover);
    assert!((9..=policy.server_max_window_bits).contains(&agreed.server_window_bits()));
    assert!((8..=15).contains(&agreed.client_window_bits()));
    let mut answer = Vec::new();
    agreed.write(&mut answer);
    let again = extension::negotiate([&answer[..]].into_iter(), Some(&Policy::default()));
    assert_eq!(again, Ok(Some(agreed)));
}

/// Checks compressed messages. Any bytes give a message within the limit or a violation, and the history never exceeds
/// a window. The same bytes as messages round-trip with any negotiated parameters.
pub fn ws_deflate(data: &[u8]) {
    // The first bytes select the negotiated parameters, level and limit; a length precedes each message.
    let [windows, selector, level, limit, input @ ..] = data else {
        return;
    };
    let agreed = Agreed {
        server_max_window_bits: Some(9 + (windows & 15) % 7),
        client_max_window_bits: Some(8 + (windows >> 4) % 8),
        server_no_context_takeover: selector & 1 != 0,
        client_no_context_takeover: selector & 2 != 0,
    };
    let (role, peer, mask) = if selector & 4 == 0 {
        (Role::Server, Role::Client, None)
    } else {
        (Role::Client, Role::Server, Some([0x12, 0x80, 0, 0xff]))
    };
    let bytes_max = 1 << (4 + limit % 16);
    let mut receives = Context::new(role, &agreed);
    let (mut sends, mut reads) = (Context::new(role, &agreed), Context::new(peer, &agreed));
    let mut decompressor = Decompressor::new();
    let mut compressor = Compressor::new(1 + level % 9, usize::from(level / 9));
    let rules = Rules::new(peer, 1 << 20, 1 << 20, true);
    let mut rest = input;
    while let Some((&len, after)) = rest.split_first() {
        let (message, after) = after.split_at(after.len().min(usize::from(len)));
        rest = after;

        let mut out = vec![7];
        if decompressor
            .read(&mut receives, Kind::Binary, message, bytes_max, &mut out)
            .is_ok()
        {
            assert!(out[0] == 7 && out.len() <= bytes_max + 1);
        } else {
            receives = Context::new(role, &agreed);
        }
        assert!(receives.kept_bytes() <= 1 << 15);

        let mut frame = Vec::new();
        let message = message.repeat(1 + usize::from(limit / 16));
        compressor.write(&mut sends, Kind::Binary, &message, mask, &mut frame);
        assert!(frame.len() <= message.len() + 18);
        let step = Reader::new().handle(&mut frame, &rules).expect("valid");
        let Some(Event::Message {
            compressed,
            payload,
            ..
        }) = step.event
        else {
            panic!("a whole message");
        };
        if compressed {
            out.clear();
            let read =
                decompressor.read(&mut reads, Kind::Binary, &payload, message.len(), &mut out);
            assert_eq!((read, &out), (Ok(()), &message));
        } else {
            assert_eq!(*payload, message);
        }
    }
    assert_eq!(sends.kept_bytes() > 0, reads.kept_bytes() > 0);
}
