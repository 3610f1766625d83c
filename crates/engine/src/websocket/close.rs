//! The end of sockets: the closing handshake, time-outs, heartbeats, drain.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::ws::Violation;
use fermata_proto::ws::close::{self, CloseCode, REASON_BYTES_MAX};
use fermata_proto::ws::frame::Opcode;

use super::output::{append, open_socket};
use super::{QueuePolicy, SendError};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::http::Http;
use crate::http::exchange::Exchange;
use crate::id::SocketId;
use crate::log::Detail;
use crate::missed::{Known, missed};
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::connection::Writing;
use crate::net::index::ExchangeIndex;
use crate::net::input::Step;
use crate::net::running::Running;
use crate::websocket::Sockets;

impl<D: Driver> Net<D> {
    fn queue_close(&mut self, index: ExchangeIndex, payload: &close::Payload) {
        if let Some(connection) = self.connections.at_mut(index.connection()).known() {
            let payload = payload.as_bytes();
            append(connection, &mut self.pool, Opcode::Close, payload);
            self.mark_dirty(index.connection());
        }
    }
}

impl Sockets {
    /// The client has ended its stream without a close frame. What waits for it is still sent.
    pub(crate) fn on_socket_end<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        if let Some((_, _, socket)) = net.connections.socket_at(index).known() {
            socket.busy().closing.handle_end();
        }
        channels.leave_channels(net, index);
        self.tell_ended(net, index, CloseCode::Abnormal as u16, "");
        match net.connections.pair_mut(index) {
            Some((connection, exchange)) if exchange.has_output(connection) => {
                connection.has_unread = false;
                connection.writing = Writing::Close;
                net.mark_dirty(index.connection());
            }
            _ => net.close(http, index.connection()),
        }
    }

    /// The server stops, or this worker does: the client is told to come back.
    pub(crate) fn drain_socket<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        let code = if matches!(net.running, Running::Retired { .. }) {
            CloseCode::ServiceRestart
        } else {
            CloseCode::GoingAway
        };
        self.start_close(net, channels, index, code as u16, "");
        // At once, so that thousands share one buffer.
        net.flush(http, index.connection());
    }

    /// What was due for a socket happens.
    pub(crate) fn on_socket_deadline<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        let now_ms = net.driver.now_ms();
        let Some((_, connection, socket)) = net.connections.socket_at(index) else {
            // Its deadline has just been found, and was that of a socket.
            return missed(());
        };
        let (peer, has_unread) = (connection.peer, connection.has_unread);
        let silence = net.silences[socket.route()];
        if !socket.can_send() {
            net.counts.add(Counter::WebSocketTimeoutClose, 1);
            net.close(http, index.connection());
            return;
        }
        // Input that nobody reads now (its handler waits, or all fibers do) may hold the pong.
        if socket.awaits_pong() && silence.pong_timeout_ms.is_some() && !has_unread {
            net.counts.add(Counter::WebSocketTimeoutPong, 1);
            let line = format!(
                "{peer}: WebSocket cut off: no sign of life within websocket_pong_timeout_ms"
            );
            net.log_for_client(LogLevel::Info, &line);
            let Some((code, reason)) = silence.pong_timeout_close else {
                net.close(http, index.connection());
                return;
            };
            // Its network may carry what we say, though nothing came back.
            self.start_close(net, channels, index, code, reason);
            net.flush(http, index.connection());
            return;
        }
        if silence.idle_deadline(socket).is_due(now_ms) {
            net.counts.add(Counter::WebSocketTimeoutIdle, 1);
            self.start_close(
                net,
                channels,
                index,
                CloseCode::GoingAway as u16,
                "no message for too long",
            );
            net.flush(http, index.connection());
            return;
        }
        socket.busy().awaits_pong = true;
        net.counts.add(Counter::WebSocketPingsSent, 1);
        append(connection, &mut net.pool, Opcode::Ping, b"");
        net.restart_deadline(index.connection());
        // At once, so that thousands that are due together share one buffer.
        net.flush(http, index.connection());
    }
}

impl Sockets {
    /// See `Worker::disconnect`.
    pub(crate) fn disconnect<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        socket: SocketId,
        code: u16,
        reason: &[u8],
    ) -> Result<(), SendError> {
        if !close::valid_code(code) {
            return Err(Misuse::CloseCode(code).into());
        }
        let Some(reason) = std::str::from_utf8(reason)
            .ok()
            .filter(|reason| reason.len() <= REASON_BYTES_MAX)
        else {
            return Err(Misuse::CloseReason.into());
        };
        if open_socket(net.connections.socket_mut(socket)).is_none() {
            return Err(SendError::Gone);
        }
        self.start_close(net, channels, socket.exchange(), code, reason);
        Ok(())
    }

    /// See `Worker::fail_socket`.
    pub(crate) fn fail_socket<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        socket: SocketId,
        log_message: &str,
        detail: &Detail<'_>,
    ) {
        net.counts.add(Counter::HandlerFailures, 1);
        net.log_detailed(LogLevel::Error, log_message, detail);
        // A socket that has ended meanwhile needs no end.
        let _ = self.disconnect(net, channels, socket, CloseCode::InternalError as u16, b"");
    }
}

impl Sockets {
    /// Queues our close frame, unless there is one. Nothing is sent after it.
    pub(crate) fn start_close<D: Driver>(
        &self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
        code: u16,
        reason: &str,
    ) {
        let payload = net
            .connections
            .exchange_mut(index)
            .and_then(Exchange::socket_mut)
            .and_then(|socket| socket.busy().closing.start(code, reason));
        if let Some(payload) = payload {
            channels.leave_channels(net, index);
            net.queue_close(index, &payload);
            net.restart_deadline(index.connection());
        }
    }

    /// The client's close frame: the answer to ours, or to be answered.
    pub(super) fn on_close_frame<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
        code: Option<u16>,
        reason: &str,
    ) {
        let Some((_, _, socket)) = net.connections.socket_at(index) else {
            return missed(());
        };
        let answer = socket.busy().closing.handle_close(code);
        let code = socket
            .busy()
            .closing
            .code()
            .unwrap_or(CloseCode::NoStatus as u16);
        channels.leave_channels(net, index);
        if let Some(payload) = answer {
            net.queue_close(index, &payload);
        }
        self.tell_ended(net, index, code, reason);
        let is_parsed = net.input.current.is_none_or(|current| {
            current.index != index.connection() || current.at == current.filled
        });
        if let Some(connection) = net.connections.at_mut(index.connection()).known() {
            let is_read_whole = is_parsed && !connection.has_unread;
            connection.writing = if is_read_whole {
                Writing::Close
            } else {
                Writing::Linger
            };
        }
        net.mark_dirty(index.connection());
    }

    /// The client breaks the protocol: it is told, and nothing more is read from it.
    pub(super) fn on_violation<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
        violation: Violation,
    ) -> Step {
        let Some((_, connection, socket)) = net.connections.socket_at(index) else {
            // Its input is being parsed as frames.
            return missed(Step::Again);
        };
        let line = format!("{}: WebSocket closed: {violation}", connection.peer);
        let payload = socket.busy().closing.fail(violation);
        // A peer that sees our end before it has answered may never read the code: relays take the end of one
        // side for that of both, and a client then reports 1006.
        let rest = match net.input.current {
            Some(current) if current.index == index.connection() => {
                &net.input.bytes[current.at..current.filled]
            }
            _ => &[],
        };
        let has_answered = violation.is_of_close_frame() || close::ends_like_a_close(rest);
        socket.busy().awaits_answer = payload.is_some() && !has_answered;
        connection.writing = Writing::Linger;
        channels.leave_channels(net, index);
        if let Some(payload) = payload {
            net.queue_close(index, &payload);
        }
        net.log_for_client(LogLevel::Info, &line);
        let code = violation.close_code() as u16;
        self.tell_ended(net, index, code, &violation.to_string());
        net.mark_dirty(index.connection());
        Step::Again
    }

    /// A channel's log has moved past what a slow socket has received.
    pub(crate) fn on_socket_gap<D: Driver>(
        &self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        let pair = net.connections.pair_mut(index);
        let Some((connection, exchange, route)) =
            pair.and_then(|(it, exchange)| Some((it, &*exchange, exchange.socket()?.route())))
        else {
            // Its cursor has just been looked at.
            return missed(());
        };
        if self.served[route].queue_policy == QueuePolicy::Close {
            net.counts.add(Counter::DroppedSlow, 1);
            let reason = "messages were missed; read faster";
            self.start_close(
                net,
                channels,
                index,
                CloseCode::TryAgainLater as u16,
                reason,
            );
            return;
        }
        net.counts.add(Counter::GapsSlow, 1);
        channels.local.skip_gap(exchange.chain);
        let chain = exchange.chain;
        let out = connection.take_buffer(&mut net.pool);
        // Once for each way in which it reads its channels.
        let mut told = Vec::new();
        for format in channels.local.formats_of(chain) {
            if !told.contains(&format) {
                told.push(format);
                let encoder = &mut channels.encoder;
                encoder.gap_frame(format, None, "too slow", out);
            }
        }
        net.mark_dirty(index.connection());
    }
}
