//! Sending frames. A socket's queue is the output of its connection, and is bounded.

use fermata_config::LogLevel;
use fermata_hub::SubId;
use fermata_io::Driver;
use fermata_io::buffer::Pool;
use fermata_proto::ws::frame::{self, Header, Opcode, Parse, Reserved, Rules};
use fermata_proto::ws::message::Kind;
use fermata_proto::ws::{Role, utf8};

use super::{QueuePolicy, Served, Socket};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::busy::Busy;
use crate::channels::hold::HoldError;
use crate::channels::publish::PublishFailure;
use crate::http::Http;
use crate::http::exchange::{Exchange, Stage};
use crate::id::SocketId;
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::connection::Connection;
use crate::net::index::ExchangeIndex;
use crate::websocket::Sockets;

/// Minimum part of a queue that is freed when old messages are dropped, as a divisor. Without a minimum, each message to a client
/// far behind would cost a copy of its queue.
const DROP_PART: usize = 8;

/// Maximum number of bytes that are compressed for one socket before its frames are sent.
const COMPRESS_BYTES_MAX: usize = 32 * 1024;

/// Why a message was not queued.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The socket is closed or closing.
    #[error("the WebSocket is closed")]
    Gone,
    /// The client reads too slowly, and the route refuses further messages.
    #[error(transparent)]
    Backpressure(Busy),
    /// An invalid argument.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

impl From<HoldError> for SendError {
    fn from(error: HoldError) -> SendError {
        match error {
            HoldError::Gone => SendError::Gone,
            HoldError::Misuse(cause) => SendError::Misuse(cause),
            HoldError::Backpressure(cause) => SendError::Backpressure(cause),
        }
    }
}

impl From<PublishFailure> for SendError {
    fn from(failure: PublishFailure) -> SendError {
        HoldError::from(failure).into()
    }
}

impl<D: Driver> Net<D> {
    /// Queues a ping or an unsolicited pong. A payload beyond the maximum of a control frame is
    /// cut.
    pub fn send_control(
        &mut self,
        socket: SocketId,
        is_ping: bool,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let Some(open) = open_socket(self.connections.socket_mut(socket)) else {
            return Err(SendError::Gone);
        };
        let opcode = if is_ping { Opcode::Ping } else { Opcode::Pong };
        let payload = &payload[..payload.len().min(frame::CONTROL_BYTES_MAX)];
        append(open.connection, &mut self.pool, opcode, payload);
        self.mark_dirty(socket.exchange().connection());
        Ok(())
    }
}

impl Sockets {
    /// See `Worker::send`.
    #[inline]
    pub(crate) fn send<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        id: SocketId,
        is_binary: bool,
        data: &[u8],
    ) -> Result<(), SendError> {
        // If the application echoes a text of the client, the text is not validated again.
        let is_text = is_binary || self.is_current_text(net, data) || utf8::valid(data);
        let open = open_socket(net.connections.socket_mut(id));
        let Some(mut open) = open else {
            return Err(SendError::Gone);
        };
        if !is_text {
            return Err(Misuse::TextEncoding.into());
        }
        let queued = open.connection.unsent();
        let queue_bytes_max = self.served[open.socket.route()].queue_bytes_max;
        if queued > 0 && queued + data.len() > queue_bytes_max {
            self.make_room(net, http, channels, id, data.len())?;
            open = open_socket(net.connections.socket_mut(id)).ok_or(SendError::Gone)?;
        }
        let Open {
            connection, socket, ..
        } = open;
        if socket.compresses.is_agreed() {
            let kind = if is_binary { Kind::Binary } else { Kind::Text };
            let served = &mut self.served[socket.route()];
            let out = connection.take_buffer(&mut net.pool);
            socket.write_compressed(served, kind, data, out);
        } else {
            let opcode = if is_binary {
                Opcode::Binary
            } else {
                Opcode::Text
            };
            append(connection, &mut net.pool, opcode, data);
        }
        net.counts.add(Counter::WebSocketSent, 1);
        net.counts
            .add(Counter::WebSocketSentBytes, data.len() as u64);
        net.mark_dirty(id.exchange().connection());
        Ok(())
    }

    /// Compresses and sends channel messages for a socket with context takeover.
    pub(crate) fn send_compressed<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        // Send at least as many bytes as one read of the ring adds. Otherwise the log would overtake
        // a client that reads fast enough.
        let mut left = COMPRESS_BYTES_MAX.max(net.settings.channel_log_bytes_max);
        while left > 0 {
            match self.send_compressed_piece(net, http, channels, index) {
                Some(bytes) => left = left.saturating_sub(bytes),
                None => return,
            }
        }
        // Continue in the next turn, so that other clients are served.
        net.mark_dirty(index.connection());
    }

    /// Sends the next piece. Returns the size of its frames if the kernel has accepted it and more
    /// may follow.
    fn send_compressed_piece<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) -> Option<usize> {
        let (connection, exchange) = net.connections.pair_mut(index)?;
        let chain = exchange.chain;
        let mut slices = Vec::new();
        let gathered = channels
            .local
            .gather(chain, false, &mut slices, COMPRESS_BYTES_MAX);
        if gathered.gap {
            self.on_socket_gap(net, channels, index);
            return None;
        }
        let socket = exchange.socket_mut()?;
        let served = &mut self.served[socket.route()];
        if gathered.bytes == 0 {
            return None;
        }
        let out = connection.take_buffer(&mut net.pool);
        for slice in slices {
            socket.write_frames_compressed(served, slice, out);
        }
        let is_recorded = http.trace.is_recorded(index);
        let ahead = is_recorded.then(|| channels.local.frames_ahead(chain));
        channels
            .local
            .advance(chain, false, gathered.bytes, &mut channels.rest);
        if let Some(ahead) = ahead {
            let left = channels.local.frames_ahead(chain);
            http.trace.on_events(index, ahead.saturating_sub(left));
        }
        // If some bytes are unsent, sending continues when the kernel accepts more.
        net.write_all(http, index.connection())
            .then_some(gathered.bytes)
    }

    /// Handles a full queue: flushes it, then applies the route's policy.
    #[cold]
    fn make_room<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        id: SocketId,
        bytes: usize,
    ) -> Result<(), SendError> {
        net.flush(http, id.exchange().connection());
        let Some(Open {
            connection, socket, ..
        }) = open_socket(net.connections.socket_mut(id))
        else {
            return Err(SendError::Gone);
        };
        let served = &self.served[socket.route()];
        let (policy, max) = (served.queue_policy, served.queue_bytes_max);
        let queued = connection.unsent();
        if queued > 0 && queued + bytes > max {
            match policy {
                QueuePolicy::Refuse => {
                    net.counts.add(Counter::WebSocketQueueRefused, 1);
                    return Err(SendError::Backpressure(Busy::Queue { queued, max }));
                }
                QueuePolicy::DropOldest => {
                    let wanted = (queued + bytes - max).max(max / DROP_PART);
                    let dropped = socket.drop_frames(&mut connection.out, wanted);
                    net.counts.add(Counter::WebSocketQueueDropped, dropped);
                }
                QueuePolicy::Close => {
                    net.counts.add(Counter::WebSocketQueueClosed, 1);
                    let line = format!(
                        "{}: WebSocket closed: the client reads too slowly (queueBytes)",
                        connection.peer
                    );
                    socket.drop_frames(&mut connection.out, usize::MAX);
                    net.log_for_client(LogLevel::Info, &line);
                    let reason = "more messages wait than the server keeps; read faster";
                    self.start_close(net, channels, id.exchange(), 1013, reason);
                    return Err(SendError::Gone);
                }
            }
        }
        Ok(())
    }
}

impl Sockets {
    /// Appends complete text frames to a socket's output. Compresses them if the socket has context takeover.
    pub(super) fn append_frames<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        frames: &[u8],
    ) {
        // Sending may have closed the socket.
        let Some(open) = open_socket(net.connections.pair_mut(index)) else {
            return;
        };
        if frames.is_empty() {
            return;
        }
        let socket = open.socket;
        let out = open.connection.take_buffer(&mut net.pool);
        if socket.refers_back() {
            let served = &mut self.served[socket.route()];
            socket.write_frames_compressed(served, frames, out);
        } else {
            out.extend_from_slice(frames);
        }
    }

    /// Returns true if `data` is the text message that the application is handling.
    #[inline]
    fn is_current_text<D: Driver>(&self, net: &Net<D>, data: &[u8]) -> bool {
        let event = self.socket_event(net);
        !event.is_binary && std::ptr::eq(event.payload, data)
    }
}

/// A socket to which frames may be queued.
pub(super) struct Open<'a> {
    pub connection: &'a mut Connection,
    pub chain: &'a mut SubId,
    pub socket: &'a mut Socket,
}

/// Returns the socket of an exchange, if frames may be queued.
#[inline]
pub(super) fn open_socket<'a>(
    pair: Option<(&'a mut Connection, &'a mut Exchange)>,
) -> Option<Open<'a>> {
    let (connection, Exchange { stage, chain, .. }) = pair?;
    match stage {
        Stage::Socket(socket) if socket.can_send() => Some(Open {
            connection,
            chain,
            socket,
        }),
        _ => None,
    }
}

/// Appends a frame to a connection's output.
#[inline]
pub(super) fn append(connection: &mut Connection, pool: &mut Pool, opcode: Opcode, payload: &[u8]) {
    let out = connection.take_buffer(pool);
    frame::write(out, opcode, true, Reserved::NONE, None, payload);
}

impl Socket {
    /// Returns the queue size up to which more input is read. The other half of the queue is for replies to this input.
    #[inline]
    pub fn reading_bytes_max(&self, served: &[Served]) -> usize {
        served[self.route()].queue_bytes_max / 2
    }

    /// Appends a message as a compressed frame.
    fn write_compressed(
        &mut self,
        served: &mut Served,
        kind: Kind,
        message: &[u8],
        out: &mut Vec<u8>,
    ) {
        let busy = self.busy.as_mut();
        match busy.and_then(|busy| busy.context.as_deref_mut()) {
            Some(context) => served.compressor.write(context, kind, message, None, out),
            None => {
                let bits = self.compresses.window_bits();
                served.compressor.write_shared(bits, kind, message, out);
            }
        }
    }

    /// Compresses the messages of plain text frames.
    fn write_frames_compressed(&mut self, served: &mut Served, frames: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while at < frames.len() {
            let (_, len) = frame_at(frames, at);
            let frame = &frames[at..at + len];
            self.write_compressed(served, Kind::Text, &frame[payload_start(frame)..], out);
            at += len;
        }
    }

    /// Drops messages from the front of the queue until `wanted` bytes are free. Returns the number of dropped messages. Partially
    /// sent frames and control frames stay.
    fn drop_frames(&self, out: &mut Vec<u8>, wanted: usize) -> u64 {
        let start = self.busy.as_ref().map_or(0, |busy| busy.unsent_frame);
        let (mut to, mut from) = (start, start);
        let mut dropped = 0;
        while from < out.len() {
            let (opcode, len) = frame_at(out, from);
            if from - to < wanted && !opcode.is_control() {
                dropped += 1;
            } else {
                out.copy_within(from..from + len, to);
                to += len;
            }
            from += len;
        }
        out.truncate(to);
        dropped
    }

    /// Notes that the kernel has accepted the output up to `sent`, within the queue.
    pub fn on_sent(&mut self, out: &[u8], sent: usize) {
        let busy = self.busy();
        while busy.unsent_frame < sent {
            busy.unsent_frame += frame_at(out, busy.unsent_frame).1;
        }
    }

    /// Notes that `removed` sent bytes were removed from the front of the output.
    pub fn on_removed(&mut self, removed: usize) {
        if let Some(busy) = &mut self.busy {
            busy.unsent_frame -= removed;
        }
    }

    /// Notes that the output starts with the last `bytes` of a partially sent frame.
    pub fn on_rest(&mut self, bytes: usize) {
        self.busy().unsent_frame = bytes;
    }

    /// Notes that the kernel has accepted all output.
    #[inline]
    pub fn on_flushed(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.unsent_frame = 0;
            self.rest();
        }
    }
}

/// Returns the header length of a frame written by the server.
fn payload_start(frame: &[u8]) -> usize {
    match frame.get(1) {
        Some(126) => 4,
        Some(127) => 10,
        _ => 2,
    }
}

/// Returns opcode and length of the server's frame at `at`.
fn frame_at(out: &[u8], at: usize) -> (Opcode, usize) {
    let rules = Rules {
        reserved: Reserved::ALL,
        ..Rules::for_role(Role::Client, u64::MAX)
    };
    let rest = out.get(at..).unwrap_or_default();
    match Header::parse(rest, &rules) {
        Ok(Parse::Complete {
            header,
            header_bytes,
        }) if header.payload_len <= (rest.len() - header_bytes) as u64 => {
            (header.opcode, header_bytes + header.payload_len as usize)
        }
        // The queue contains only complete frames of the server.
        _ => {
            debug_assert!(rest.is_empty(), "no frame at {at} of {}", out.len());
            (Opcode::Close, rest.len().max(1))
        }
    }
}
