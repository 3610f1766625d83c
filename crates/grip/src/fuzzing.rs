//! Fuzz targets: each accepts any bytes and panics if a parser violates a property.
//!
//! `fuzz/` runs them under libFuzzer; the tests below run them over seeds and mutations of these.

use crate::filter::FILTERS_MAX;
use crate::instruct::{self, Instruct};
use crate::item::{self, Item};
use crate::over_http::{self, Event};
use crate::packet::{self, Notation};
use crate::params;
use crate::template::Template;
use crate::zmtp::{self, Peer, Socket};
use crate::{command, control, last, sig, tnetstring, ws_control};

/// Parses instructions from headers (one `name: value` per line) and from JSON. Checks that limits hold, and that headers for the
/// client are well-formed.
pub fn grip_instruct(data: &[u8]) {
    let headers: Vec<(&[u8], &[u8])> = data
        .split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..at], line[at + 1..].trim_ascii()))
        })
        .collect();
    if let Ok(instruct) = instruct::from_headers(200, b"", &headers) {
        check_instruct(&instruct);
    }
    for (name, value) in instruct::client_headers(&headers) {
        assert!(!name.to_ascii_lowercase().starts_with(b"grip-"));
        assert!(headers.contains(&(name, value)));
    }
    for (channel, id) in last::read(&headers) {
        if let Some(written) = last::write(&channel, &id) {
            assert_eq!(last::read(&[(b"Grip-Last", &written)]), [(channel, id)]);
        }
    }
    if let Ok(instruct) = instruct::from_json(200, &headers, data) {
        check_instruct(&instruct);
        for (name, value) in &instruct.answer.headers {
            assert!(!name.is_empty() && !name.contains(&b':'));
            assert!(
                ![name, value]
                    .iter()
                    .any(|text| text.iter().any(|byte| b"\r\n\0".contains(byte)))
            );
        }
    }
}

fn check_instruct(instruct: &Instruct) {
    assert!(instruct.timeout_s >= instruct::RESPONSE_TIMEOUT_MIN_S);
    assert!(instruct.answer.status <= instruct::STATUS_MAX);
    for (at, channel) in instruct.channels.iter().enumerate() {
        assert!(channel.filters.len() <= FILTERS_MAX);
        assert!(
            instruct.channels[..at]
                .iter()
                .all(|other| other.name != channel.name)
        );
    }
    if let Some(keep_alive) = &instruct.keep_alive {
        assert!(!keep_alive.data.is_empty() && keep_alive.timeout_s >= 1);
    }
    if let Some(next) = &instruct.next {
        assert!(!next.uri.iter().any(|byte| *byte <= b' ' || *byte == 0x7f));
    }
}

/// Published data: payloads, items, control requests and commands. Parsed values read back after encoding.
pub fn grip_item(data: &[u8]) {
    if let Ok((value, notation)) = packet::decode(data) {
        let mut out = Vec::new();
        tnetstring::encode(&mut out, &value);
        // NaN is the only value that does not equal itself.
        if !format!("{value:?}").contains("NaN") {
            assert_eq!(tnetstring::decode(&out).expect("own tnetstring"), value);
        }
        if let Ok(item) = item::parse(&value, notation, None) {
            check_item(&item);
        }
    }
    if let control::Request::Publish(items, _) = control::read(b"POST", b"/publish/", None, data) {
        items.iter().for_each(check_item);
    }
    if let Some(request) = command::Request::read(data) {
        let reply = request.reply(Err(command::Condition::BadRequest));
        assert!(packet::decode(&reply).is_ok());
    }
}

fn check_item(item: &Item) {
    let mut packet = Vec::new();
    packet::encode(
        &mut packet,
        &item.to_value(Notation::Tnetstring),
        Notation::Tnetstring,
    );
    let (value, notation) = packet::decode(&packet).expect("own packet");
    // Items with only unknown formats are not written again.
    if item.http_response.is_some() || item.http_stream.is_some() || item.ws_message.is_some() {
        assert_eq!(
            &item::parse(&value, notation, None).expect("own item"),
            item
        );
    }
}

/// Events of a WebSocket over HTTP, control messages, and header parameters. Parsed values read back after encoding.
pub fn grip_events(data: &[u8]) {
    if let Ok(events) = over_http::decode(data) {
        let mut body = Vec::new();
        events
            .iter()
            .for_each(|event| over_http::encode(&mut body, event));
        assert_eq!(over_http::decode(&body), Ok(events.clone()));
        let content: usize = events.iter().map(|event| event.content().len()).sum();
        assert!(content <= data.len());
        check_outbox(events, data.len());
    }
    if let ws_control::Kind::Control(json) = ws_control::kind(data, true, b"m:") {
        let _ = ws_control::read(json);
    }
    let _ = ws_control::read(data);
    if let Some(element) = params::element(data) {
        for (name, value) in &element.params {
            let mut text = [b"x; ", &name[..], b"="].concat();
            // The encoder never writes a name with a quote.
            if params::quote(&mut text, value).is_some() && !name.contains(&b'"') {
                let again = params::element(&text).expect("own element");
                assert_eq!(again.params[0].1, *value);
            }
        }
    }
}

fn check_outbox(events: Vec<Event>, seed: usize) {
    let mut outbox = over_http::Outbox::new(usize::MAX / 2, usize::MAX);
    let expected: Vec<u8> = events
        .iter()
        .flat_map(|event| event.content().to_vec())
        .collect();
    for event in events {
        outbox.push(event).expect("no bound");
    }
    let mut arrived = Vec::new();
    let mut part = seed % 5 + 1;
    while !outbox.is_empty() {
        let mut body = Vec::new();
        outbox.offer(&mut body, false);
        let events = over_http::decode(&body).expect("own body");
        let content: Vec<u8> = events
            .iter()
            .flat_map(|event| event.content().to_vec())
            .collect();
        let taken = part.min(content.len());
        arrived.extend_from_slice(&content[..taken]);
        outbox.accept(Some(taken)).expect("no more than offered");
        part *= 2;
    }
    assert_eq!(arrived, expected);
}

/// Tokens and keys: a token of another key is refused, and no text panics.
pub fn grip_sig(data: &[u8]) {
    let key = sig::Key::secret(b"a secret that no input knows");
    assert!(sig::verify(&key, data, 0, None).is_err());
    let _ = sig::Key::from_pem(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = sig::Key::parse(text, |_| Ok(data.to_vec()));
    }
}

/// Reads a ZeroMQ connection. Checks that any split of the input gives the same events and the same error, and that messages stay
/// within the limit.
pub fn grip_zmtp(data: &[u8]) {
    // The first byte chooses the socket, the handshake and the split.
    let Some((&selector, wire)) = data.split_first() else {
        return;
    };
    let (socket, peer) = match selector % 3 {
        0 => (Socket::Pull, Socket::Push),
        1 => (Socket::Pub, Socket::Sub),
        _ => (Socket::Rep, Socket::Req),
    };
    let mut input = Vec::new();
    if selector & 64 == 0 {
        let mut other = Peer::new(peer, zmtp::Limits::default(), &mut input);
        let mut greeting = Vec::new();
        Peer::new(socket, zmtp::Limits::default(), &mut greeting);
        other
            .handle(&greeting, &mut input, &mut Vec::new())
            .expect("own greeting");
    }
    input.extend_from_slice(wire);
    let whole = run_peer(socket, &input, usize::MAX);
    assert_eq!(run_peer(socket, &input, 1), whole);
    assert_eq!(run_peer(socket, &input, usize::from(selector) + 2), whole);
    for event in &whole.0 {
        if let zmtp::Event::Message(parts) = event {
            assert!(parts.len() <= PEER_LIMITS.parts_max);
            assert!(parts.iter().map(Vec::len).sum::<usize>() <= PEER_LIMITS.message_bytes_max);
        }
    }
}

const PEER_LIMITS: zmtp::Limits = zmtp::Limits {
    message_bytes_max: 100,
    parts_max: 3,
};

type Outcome = (Vec<zmtp::Event>, Vec<u8>, Option<zmtp::ZmtpError>);

fn run_peer(socket: Socket, input: &[u8], len: usize) -> Outcome {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let mut peer = Peer::new(socket, PEER_LIMITS, &mut out);
    for piece in input.chunks(len) {
        if let Err(error) = peer.handle(piece, &mut out, &mut events) {
            return (events, out, Some(error));
        }
    }
    (events, out, None)
}

/// Reads a template. Checks that any split of the input gives the same output or the same error.
pub fn grip_template(data: &[u8]) {
    let whole = render(data, usize::MAX);
    for len in [1, 2, 7] {
        assert_eq!(render(data, len), whole);
    }
}

fn render(data: &[u8], len: usize) -> Result<Vec<u8>, crate::template::TemplateError> {
    let (mut template, mut out) = (Template::default(), Vec::new());
    for piece in data.chunks(len) {
        template.feed(piece, &mut out, &mut |argument, letter, out| {
            out.extend_from_slice(argument.unwrap_or(b"-"));
            out.push(letter);
            Ok(())
        })?;
    }
    template.finish()?;
    Ok(out)
}

#[cfg(test)]
mod tests;
