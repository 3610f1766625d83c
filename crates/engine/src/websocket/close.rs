//! Closing sockets: closing handshake, timeouts, heartbeats, drain.

use fermata_config::LogLevel;
use fermata_hub::Departure;
use fermata_io::Driver;
use fermata_proto::ws::Violation;
use fermata_proto::ws::close::{self, CloseCode, REASON_BYTES_MAX};
use fermata_proto::ws::frame::Opcode;

use super::output::{append, open_socket};
use super::{QueuePolicy, SendError};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::missed::Loss;
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

/// Returns how the users of a socket leave when either side closes it with `code`.
///
/// Codes 1000 and 1005 (no code, `socket.close()` of a browser) close a connection on purpose. A
/// reloaded page sends 1001. After 1001 and every other code, the same user may reconnect.
fn departure_of(code: u16) -> Departure {
    if code == CloseCode::Normal as u16 || code == CloseCode::NoStatus as u16 {
        Departure::Deliberate
    } else {
        Departure::Lost
    }
}

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
    /// Handles a client that has ended its stream without a close frame. Queued output is still
    /// sent.
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
        channels.leave_channels(net, index, Departure::Lost);
        self.queue_close(net, index, CloseCode::Abnormal as u16, "");
        match net.connections.pair_mut(index) {
            Some((connection, exchange)) if exchange.has_output(connection) => {
                connection.has_unread = false;
                connection.writing = Writing::Close;
                net.mark_dirty(index.connection());
            }
            _ => net.close(http, index.connection()),
        }
    }

    /// Closes a socket because the server or this worker drains; the client should reconnect.
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
        // Flush now, so that thousands of clients share one buffer.
        net.flush(http, index.connection());
    }

    /// Handles the deadline of a socket.
    pub(crate) fn on_socket_deadline<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        let now_ms = net.driver.now_ms();
        let Some((_, connection, socket)) = net.connections.socket_at(index) else {
            // Unreachable: the caller has just checked that the connection is a socket.
            return missed(());
        };
        let (peer, has_unread) = (connection.peer, connection.has_unread);
        let silence = net.silences[socket.route()];
        if !socket.can_send() {
            net.counts.add(Counter::WebSocketTimeoutClose, 1);
            net.close(http, index.connection());
            return;
        }
        // Unread input may contain the pong: the socket's handler waits, or all handlers do.
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
            // The network may still deliver the server's close frame, although no pong arrived.
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
        // Flush now, so that thousands of sockets that are pinged in one turn share one buffer.
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
        // A socket that has already closed needs no close.
        let _ = self.disconnect(net, channels, socket, CloseCode::InternalError as u16, b"");
    }
}

impl Sockets {
    /// Queues the server's close frame, unless one is queued. No frame is sent after it.
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
            channels.leave_channels(net, index, departure_of(code));
            net.queue_close(index, &payload);
            net.restart_deadline(index.connection());
        }
    }

    /// Handles the client's close frame: the reply to the server's close frame, or one that needs a
    /// reply.
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
        channels.leave_channels(net, index, departure_of(code));
        if let Some(payload) = answer {
            net.queue_close(index, &payload);
        }
        self.queue_close(net, index, code, reason);
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

    /// Closes a socket whose client violated the protocol, and stops reading from it.
    pub(super) fn on_violation<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
        violation: Violation,
    ) -> Step {
        let Some((_, connection, socket)) = net.connections.socket_at(index) else {
            // Unreachable: the connection's input is being parsed as frames.
            return missed(Step::Again);
        };
        let line = format!("{}: WebSocket closed: {violation}", connection.peer);
        let payload = socket.busy().closing.fail(violation);
        // A peer that receives the server's end-of-stream before it has replied may never read the
        // close code. Some relays treat the end of one direction as the end of both, and the client
        // then reports 1006.
        let rest = match net.input.current {
            Some(current) if current.index == index.connection() => {
                &net.input.bytes[current.at..current.filled]
            }
            _ => &[],
        };
        let has_answered = violation.is_of_close_frame() || close::ends_like_a_close(rest);
        socket.busy().awaits_answer = payload.is_some() && !has_answered;
        connection.writing = Writing::Linger;
        channels.leave_channels(net, index, Departure::Lost);
        if let Some(payload) = payload {
            net.queue_close(index, &payload);
        }
        net.log_for_client(LogLevel::Info, &line);
        let code = violation.close_code() as u16;
        self.queue_close(net, index, code, &violation.to_string());
        net.mark_dirty(index.connection());
        Step::Again
    }

    /// Handles a slow socket that a channel's log has overtaken.
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
            // Unreachable: the socket's cursor was read above.
            return missed(());
        };
        let loss = Loss::of(channels.local.is_log_lost(exchange.chain));
        if self.served[route].queue_policy == QueuePolicy::Close {
            net.counts.add(loss.dropped(), 1);
            let reason = loss.close_reason();
            self.start_close(
                net,
                channels,
                index,
                CloseCode::TryAgainLater as u16,
                reason,
            );
            return;
        }
        net.counts.add(loss.counter(), 1);
        channels.local.skip_gap(exchange.chain);
        let chain = exchange.chain;
        let out = connection.take_buffer(&mut net.pool);
        // Send one gap event for each format in which the socket receives channels.
        let mut sent = Vec::new();
        for format in channels.local.formats_of(chain) {
            if !sent.contains(&format) {
                sent.push(format);
                let encoder = &mut channels.encoder;
                encoder.gap_frame(format, None, loss.reason(), out);
            }
        }
        net.mark_dirty(index.connection());
    }
}
