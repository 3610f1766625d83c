//! Bytes to messages: one frame of the current input at a time.

use std::borrow::Cow;

use fermata_io::Driver;
use fermata_proto::ws::Role;
use fermata_proto::ws::deflate::Context;
use fermata_proto::ws::extension::Agreed;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{Event as FrameEvent, Kind, Reader};

use super::Busy;
use super::output::append;
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::embed::event::Event;
use crate::net::Net;
use crate::net::buffer::Current;
use crate::net::input::Step;
use crate::websocket::Sockets;

/// Decompressed bytes that take as long as a frame, so that a read of little that becomes much does not
/// keep others waiting either.
const INFLATED_BYTES_PER_FRAME: usize = 1024;

/// What sockets agree on that remember nothing.
const NO_TAKEOVER: Agreed = Agreed {
    server_no_context_takeover: true,
    client_no_context_takeover: true,
    server_max_window_bits: None,
    client_max_window_bits: None,
};

impl Sockets {
    /// Takes the next frame of the current input.
    #[inline]
    pub(crate) fn step_socket<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        current: Current,
    ) -> Step {
        let (index, at, filled) = (current.index.exchange(), current.at, current.filled);
        if at == filled {
            return Step::Starved;
        }
        let Some(key) = net.connections.key(index.connection()) else {
            return Step::Starved;
        };
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return Step::Starved;
        };
        let Some(socket) = exchange.socket_mut() else {
            return Step::Starved;
        };
        let Some(served) = self.served.get(socket.route()) else {
            return Step::Starved;
        };
        if !socket.can_read() {
            // Nothing counts behind a close frame or a violation.
            if let Some(place) = connection.line.stream() {
                net.http2.consumed(place, filled - at);
            }
            net.input.advance(filled);
            return Step::Starved;
        }
        let mut fresh = Reader::new();
        let mut kept = socket.busy.as_mut();
        let reader = match &mut kept {
            Some(busy) => {
                busy.awaits_pong = false;
                &mut busy.reader
            }
            None => &mut fresh,
        };
        let rules = if socket.compresses.is_agreed() {
            &served.rules_compressed
        } else {
            &served.rules
        };
        let step = match reader.handle(&mut net.input.bytes[at..filled], rules) {
            Ok(step) => step,
            Err(violation) => {
                self.on_violation(net, channels, index, violation);
                return Step::Again;
            }
        };
        // What is put back into the inbox is not used yet: its client may not send as much again.
        if let Some(place) = connection.line.stream() {
            net.http2.consumed(place, step.consumed);
        }
        let at = at + step.consumed;
        if kept.is_some() {
            socket.rest();
        } else if !fresh.is_between_messages() {
            socket.busy = Some(Box::new(Busy {
                reader: fresh,
                ..Busy::default()
            }));
        }
        let can_send = socket.can_send();
        if let Some(current) = &mut net.input.current {
            current.at = at;
            current.requests += 1;
        }
        match step.event {
            None => return Step::Starved,
            // After our own close frame the program is done with the socket.
            Some(FrameEvent::Message { .. }) if !can_send => {}
            Some(FrameEvent::Message {
                kind,
                payload,
                compressed: true,
            }) => {
                let mut message = Vec::new();
                let bytes_max = rules.message_bytes_max;
                let busy = socket.busy.as_mut();
                let read = match busy.and_then(|busy| busy.context.as_deref_mut()) {
                    Some(context) => {
                        self.inflater
                            .read(context, kind, &payload, bytes_max, &mut message)
                    }
                    None => {
                        let context = &mut Context::new(Role::Server, &NO_TAKEOVER);
                        self.inflater
                            .read(context, kind, &payload, bytes_max, &mut message)
                    }
                };
                if let Err(violation) = read {
                    self.on_violation(net, channels, index, violation);
                    return Step::Again;
                }
                if let Some(current) = &mut net.input.current {
                    let frames = message.len() / INFLATED_BYTES_PER_FRAME;
                    let frames = u32::try_from(frames).unwrap_or(u32::MAX);
                    current.requests = current.requests.saturating_add(frames);
                }
                net.counts.add(Counter::WebSocketReceived, 1);
                net.counts
                    .add(Counter::WebSocketReceivedBytes, message.len() as u64);
                socket.message_s = (net.driver.now_ms() / 1000) as u32;
                if !served.callbacks.message {
                    return Step::Again;
                }
                let is_binary = kind == Kind::Binary;
                self.events
                    .give(served.handler, key.to_u64(), is_binary, message);
                return Step::Socket(Event::Message);
            }
            Some(FrameEvent::Message { kind, payload, .. }) => {
                net.counts.add(Counter::WebSocketReceived, 1);
                net.counts
                    .add(Counter::WebSocketReceivedBytes, payload.len() as u64);
                socket.message_s = (net.driver.now_ms() / 1000) as u32;
                if !served.callbacks.message {
                    return Step::Again;
                }
                let (handler, socket) = (served.handler, key.to_u64());
                let is_binary = kind == Kind::Binary;
                match payload {
                    // The payload ends its frame.
                    Cow::Borrowed(payload) => {
                        let (len, start) = (payload.len(), at - payload.len());
                        self.events.lend(handler, socket, is_binary, start, len);
                    }
                    Cow::Owned(payload) => {
                        self.events.give(handler, socket, is_binary, payload);
                    }
                }
                return Step::Socket(Event::Message);
            }
            Some(FrameEvent::Ping(payload)) => {
                net.counts.add(Counter::WebSocketPingsReceived, 1);
                if can_send && served.callbacks.control {
                    let (handler, socket) = (served.handler, key.to_u64());
                    let payload = payload.into_owned();
                    self.events.give(handler, socket, false, payload);
                    return Step::Socket(Event::Ping);
                }
                if can_send {
                    // The number of frames per turn, and reading no more from a client that takes
                    // nothing, bound what a flood of pings can queue.
                    append(connection, &mut net.pool, Opcode::Pong, &payload);
                    net.mark_dirty(index.connection());
                }
            }
            Some(FrameEvent::Pong(payload)) if can_send && served.callbacks.control => {
                let (handler, socket) = (served.handler, key.to_u64());
                let payload = payload.into_owned();
                self.events.give(handler, socket, false, payload);
                return Step::Socket(Event::Pong);
            }
            Some(FrameEvent::Pong(_)) => {}
            Some(FrameEvent::Close { code, reason }) => {
                let reason = reason.into_owned();
                self.on_close_frame(net, channels, index, code, &reason);
            }
        }
        Step::Again
    }
}
