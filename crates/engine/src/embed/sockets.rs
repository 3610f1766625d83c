//! WebSocket API of an embedder.

use fermata_io::{Driver, Peer};

use crate::id::{RequestId, SocketId};
use crate::log::Detail;
use crate::websocket::{AcceptError, Accepted, Join, SendError, SocketEvent, SocketInfo};
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    /// Accepts the handshake of an `Event::Upgrade` and returns the socket's id. Without a
    /// `protocol`, selects the route's first protocol that the client offers.
    pub fn accept_upgrade(
        &mut self,
        handle: RequestId,
        protocol: Option<&[u8]>,
        headers: &[(&[u8], &[u8])],
    ) -> Result<SocketId, AcceptError> {
        let (index, upgrade) = self
            .sockets
            .take_upgrade(&self.net, handle, protocol, headers)?;
        let accepted = Accepted {
            route: upgrade.route,
            handshake: &upgrade.handshake,
            protocol: upgrade.protocol,
            own: protocol,
            headers,
        };
        let Worker {
            sockets,
            net,
            http,
            channels,
            waiting,
            ..
        } = self;
        let socket = sockets.open_socket(net, http, channels, waiting, index, &accepted);
        socket.ok_or(AcceptError::Gone)
    }

    /// Returns the event of the last `Event::Open`, `Event::Message` or `Event::Close`.
    #[inline]
    pub fn socket_event(&self) -> SocketEvent<'_> {
        self.sockets.socket_event(&self.net)
    }

    /// Returns properties of a socket; `None` if it has closed.
    pub fn socket_info(&self, socket: SocketId) -> Option<SocketInfo<'_>> {
        self.sockets.socket_info(&self.net, &self.channels, socket)
    }

    /// Returns the peer of a socket, including during the socket's close event.
    pub fn socket_peer(&self, socket: SocketId) -> Option<Peer> {
        self.sockets.socket_peer(&self.net, socket)
    }

    /// Queues a message for a socket; it is sent at the end of the turn.
    #[inline]
    pub fn send(
        &mut self,
        socket: SocketId,
        is_binary: bool,
        data: &[u8],
    ) -> Result<(), SendError> {
        let sent = self.sockets.send(
            &mut self.net,
            &mut self.http,
            &mut self.channels,
            socket,
            is_binary,
            data,
        );
        self.after_output();
        sent
    }

    /// Starts to close a socket. `Event::Close` follows when the client has replied, or after
    /// `websocket_close_timeout_ms`.
    pub fn disconnect(
        &mut self,
        socket: SocketId,
        code: u16,
        reason: &[u8],
    ) -> Result<(), SendError> {
        self.sockets
            .disconnect(&mut self.net, &mut self.channels, socket, code, reason)
    }

    /// Closes a socket whose handler failed: code 1011 to the client, the reason only to the log.
    pub fn fail_socket(&mut self, socket: SocketId, log_message: &str, detail: &Detail<'_>) {
        self.sockets.fail_socket(
            &mut self.net,
            &mut self.channels,
            socket,
            log_message,
            detail,
        )
    }

    /// Subscribes a socket to a channel. The messages that the socket missed are sent first.
    pub fn join_channel(&mut self, socket: SocketId, join: &Join<'_>) -> Result<(), SendError> {
        let (channels, mut to) = self.clients();
        channels.join_channel(&mut to, socket, join)
    }

    /// Ends a subscription. Messages that were not sent to the client yet are lost.
    pub fn leave_channel(&mut self, socket: SocketId, channel: &[u8]) -> Result<(), SendError> {
        self.channels.leave_channel(&mut self.net, socket, channel)
    }

    /// Returns the id with which any worker can send to a socket: the worker's identity, its slot
    /// and the socket's handle.
    pub fn socket_id(&self, socket: SocketId) -> Option<String> {
        let is_known = self.sockets.is_known(&self.net, socket);
        is_known.then(|| self.channels.socket_id(socket))
    }

    /// Returns the parts of a socket's id other than the handle: the worker's identity, and its
    /// slot.
    pub fn socket_place(&self, socket: SocketId) -> Option<(u64, u16)> {
        let is_known = self.sockets.is_known(&self.net, socket);
        is_known.then(|| self.channels.socket_place())
    }

    /// Sends a message to a socket of any worker by its id. Has no effect if the socket has closed.
    pub fn send_to(&mut self, id: &[u8], is_binary: bool, data: &[u8]) -> Result<(), SendError> {
        let (channels, mut to) = self.clients();
        channels.send_to(&mut to, id, is_binary, data)
    }
}
