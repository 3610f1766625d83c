//! Delivering socket events to the application, and socket properties.

use fermata_io::{Driver, Peer};
use fermata_proto::ws::close::CloseCode;

use super::events::{SocketEvent, SocketInfo, Waiting};
use super::{PROTOCOL_NONE, PROTOCOL_OWN, Socket};
use crate::admin::stats::{Counter, Counts};
use crate::channels::Channels;
use crate::embed::event::Event;
use crate::embed::waiting::Waiting as Handlers;
use crate::id::SocketId;
use crate::missed::Known;
use crate::net::Net;
use crate::net::ended::Ended;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;
use crate::websocket::Sockets;

impl Sockets {
    /// See `Worker::socket_info`.
    pub(crate) fn socket_info<'a, D: Driver>(
        &'a self,
        net: &'a Net<D>,
        channels: &Channels,
        socket: SocketId,
    ) -> Option<SocketInfo<'a>> {
        let (connection, exchange) = net.connections.socket(socket)?;
        let it = exchange.socket()?;
        let served = &self.served[it.route()];
        let protocol = match it.protocol {
            PROTOCOL_NONE => None,
            PROTOCOL_OWN => it.busy.as_ref().and_then(|busy| busy.protocol.as_deref()),
            at => served.protocols.get(usize::from(at)).map(Vec::as_slice),
        };
        let (_, behind_bytes) = channels.local.behind(exchange.chain);
        Some(SocketInfo {
            is_open: it.can_send(),
            queued_bytes: connection.unsent() + behind_bytes as usize,
            protocol,
        })
    }

    /// See `Worker::socket_peer`.
    pub(crate) fn socket_peer<D: Driver>(&self, net: &Net<D>, socket: SocketId) -> Option<Peer> {
        match net.connections.socket(socket) {
            Some((connection, exchange)) => exchange.is_socket().then_some(connection.peer),
            None if self.events.socket == socket => self.events.peer,
            None => None,
        }
    }

    /// Returns the next queued event.
    #[inline]
    pub(crate) fn next_socket_event(
        &mut self,
        running: Running,
        waiting: &Handlers,
    ) -> Option<Event> {
        if self.events.is_empty() || waiting.is_full() {
            return None;
        }
        if matches!(running, Running::Retired { .. }) {
            self.events.clear();
            return None;
        }
        self.events.take()
    }
}

impl Sockets {
    /// See `Worker::socket_event`.
    #[inline]
    pub(crate) fn socket_event<'a, D: Driver>(&'a self, net: &'a Net<D>) -> SocketEvent<'a> {
        let events = &self.events;
        SocketEvent {
            handler: events.handler,
            socket: events.socket,
            code: events.code,
            is_binary: events.is_binary,
            payload: events.payload(&net.input.bytes),
        }
    }

    /// Returns true if a socket is open, or its close is the current event.
    pub(crate) fn is_known<D: Driver>(&self, net: &Net<D>, socket: SocketId) -> bool {
        match net.connections.socket(socket) {
            Some((_, exchange)) => exchange.is_socket(),
            None => self.events.socket == socket && self.events.peer.is_some(),
        }
    }

    /// Queues the close event of a socket, once.
    pub(crate) fn queue_close<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        code: u16,
        reason: &str,
    ) {
        if let Some((id, connection, socket)) = net.connections.socket_at(index).known() {
            let end = (code, reason);
            self.queue_close_of(id, connection.peer, socket, end, &mut net.counts);
        }
    }

    /// Handles the closed connection of a socket or handshake.
    pub(crate) fn note_ended(&mut self, ended: &mut Ended, counts: &mut Counts) {
        let index = ended.key.exchange();
        if !self.upgrades.is_empty() {
            self.upgrades.remove(&index);
        }
        if !self.clients.is_empty() {
            self.clients.remove(&index);
        }
        let id = ended.exchange.socket_id(index);
        if let Some(socket) = ended.exchange.socket_mut() {
            let end = (CloseCode::Abnormal as u16, "");
            self.queue_close_of(id, ended.peer, socket, end, counts);
        }
    }

    fn queue_close_of(
        &mut self,
        id: SocketId,
        peer: Peer,
        socket: &mut Socket,
        (code, reason): (u16, &str),
        counts: &mut Counts,
    ) {
        if std::mem::replace(&mut socket.busy().is_close_queued, true) {
            return;
        }
        count_ended(counts, code);
        let served = &self.served[socket.route()];
        if served.callbacks.close {
            self.events.waiting.push_back(Waiting::Close {
                socket: id,
                handler: served.handler,
                code,
                peer,
                reason: reason.into(),
            });
        }
    }
}

/// Counts a close by its code.
fn count_ended(counts: &mut Counts, code: u16) {
    let counter = match code {
        1000 | 1001 | 1005 => Counter::WebSocketClosedNormal,
        1006 => Counter::WebSocketClosedAbnormal,
        1002 | 1003 | 1007 | 1009 | 1010 => Counter::WebSocketClosedProtocol,
        0..=2999 => Counter::WebSocketClosedServer,
        _ => Counter::WebSocketClosedApplication,
    };
    counts.add(counter, 1);
}
