//! Parsing frames: one frame of the current input at a time.

use std::borrow::Cow;

use fermata_io::Driver;
use fermata_proto::ws::deflate::{Context, Decompressor};
use fermata_proto::ws::extension::Agreed;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{self, Event as FrameEvent, Kind, Reader, Rules};
use fermata_proto::ws::{Role, Violation};

use super::output::append;
use super::{Busy, Served, Socket};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::embed::event::Event;
use crate::missed::missed;
use crate::net::Net;
use crate::net::buffer::Current;
use crate::net::input::Step;
use crate::websocket::Sockets;

/// Number of decompressed bytes that count as one frame, so that highly compressed input does not
/// delay other clients.
const INFLATED_BYTES_PER_FRAME: usize = 1024;

/// Parameters of sockets without context takeover.
const NO_TAKEOVER: Agreed = Agreed {
    server_no_context_takeover: true,
    client_no_context_takeover: true,
    server_max_window_bits: None,
    client_max_window_bits: None,
};

impl Sockets {
    /// Processes the next frame of the current input.
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
        let Some((id, connection, socket)) = net.connections.socket_at(index) else {
            // Unreachable: `step_input` has just checked that the connection is a socket.
            return missed(Step::Starved);
        };
        let served = &self.served[socket.route()];
        if !socket.can_read() {
            // Input after a close frame or a violation is ignored.
            net.http2.consumed(connection.line, filled - at);
            net.input.advance(filled);
            return Step::Starved;
        }
        let rules = served.rules(socket);
        let step = match socket.read_frame(rules, &mut net.input.bytes[at..filled]) {
            Ok(step) => step,
            Err(violation) => return self.on_violation(net, channels, index, violation),
        };
        // Bytes returned to the inbox are not consumed: the client may not send as many more.
        net.http2.consumed(connection.line, step.consumed);
        let at = at + step.consumed;
        let can_send = socket.can_send();
        if let Some(current) = &mut net.input.current {
            current.at = at;
            current.requests += 1;
        }
        let handler = served.handler;
        match step.event {
            None => {
                net.note_buffered(index.connection());
                Step::Starved
            }
            // After our close frame the application gets no more messages.
            Some(FrameEvent::Message { .. }) if !can_send => Step::Again,
            Some(FrameEvent::Message {
                kind,
                mut payload,
                compressed,
            }) => {
                // The message arrived in several reads, and was counted then.
                let was_split = matches!(payload, Cow::Owned(_));
                if compressed {
                    let bytes_max = rules.message_bytes_max;
                    match socket.inflate(&mut self.inflater, kind, &payload, bytes_max) {
                        Ok(message) => payload = Cow::Owned(message),
                        Err(violation) => {
                            return self.on_violation(net, channels, index, violation);
                        }
                    }
                    let frames = payload.len() / INFLATED_BYTES_PER_FRAME;
                    let frames = u32::try_from(frames).unwrap_or(u32::MAX);
                    if let Some(current) = &mut net.input.current {
                        current.requests = current.requests.saturating_add(frames);
                    }
                }
                net.counts.add(Counter::WebSocketReceived, 1);
                net.counts
                    .add(Counter::WebSocketReceivedBytes, payload.len() as u64);
                socket.message_s = (net.driver.now_ms() / 1000) as u32;
                if !served.callbacks.message {
                    drop(payload);
                    if was_split {
                        net.note_buffered(index.connection());
                    }
                    return Step::Again;
                }
                let is_binary = kind == Kind::Binary;
                match payload {
                    Cow::Borrowed(payload) => {
                        self.events.lend(handler, id, is_binary, payload.len(), at);
                    }
                    Cow::Owned(payload) => {
                        self.events.give(handler, id, is_binary, payload);
                        if was_split {
                            net.note_buffered(index.connection());
                        }
                    }
                }
                Step::Socket(Event::Message)
            }
            Some(FrameEvent::Ping(payload)) => {
                net.counts.add(Counter::WebSocketPingsReceived, 1);
                if can_send && served.callbacks.control {
                    self.events.give(handler, id, false, payload.into_owned());
                    return Step::Socket(Event::Ping);
                }
                if can_send {
                    // The limit of frames per turn, and pausing reads of blocked clients, limit the
                    // output that a flood of pings causes.
                    append(connection, &mut net.pool, Opcode::Pong, &payload);
                    net.mark_dirty(index.connection());
                }
                Step::Again
            }
            Some(FrameEvent::Pong(payload)) if can_send && served.callbacks.control => {
                self.events.give(handler, id, false, payload.into_owned());
                Step::Socket(Event::Pong)
            }
            Some(FrameEvent::Pong(_)) => Step::Again,
            Some(FrameEvent::Close { code, reason }) => {
                let reason = reason.into_owned();
                self.on_close_frame(net, channels, index, code, &reason);
                Step::Again
            }
        }
    }
}

impl Served {
    /// Returns the frame rules for a socket of the route.
    #[inline]
    fn rules(&self, socket: &Socket) -> &Rules {
        if socket.compresses.is_agreed() {
            &self.rules_compressed
        } else {
            &self.rules
        }
    }
}

impl Socket {
    /// Reads the next frame of `input`. A reader is kept only within a message.
    #[inline]
    fn read_frame<'a>(
        &mut self,
        rules: &Rules,
        input: &'a mut [u8],
    ) -> Result<message::Step<'a>, Violation> {
        if let Some(busy) = &mut self.busy {
            busy.awaits_pong = false;
            let step = busy.reader.handle(input, rules)?;
            self.rest();
            return Ok(step);
        }
        let mut reader = Reader::new();
        let step = reader.handle(input, rules)?;
        if !reader.is_between_messages() {
            self.busy = Some(Box::new(Busy {
                reader,
                ..Busy::default()
            }));
        }
        Ok(step)
    }

    /// Decompresses a message. Uses the context of earlier messages if this was negotiated.
    fn inflate(
        &mut self,
        inflater: &mut Decompressor,
        kind: Kind,
        payload: &[u8],
        bytes_max: usize,
    ) -> Result<Vec<u8>, Violation> {
        let mut message = Vec::new();
        let mut own = None;
        let kept = self
            .busy
            .as_mut()
            .and_then(|busy| busy.context.as_deref_mut());
        let context = kept.unwrap_or_else(|| own.insert(Context::new(Role::Server, &NO_TAKEOVER)));
        inflater.read(context, kind, payload, bytes_max, &mut message)?;
        Ok(message)
    }
}
