//! Clients held for an embedder that publishes in its own formats: the GRIP edge.
//!
//! The engine's own holds handle events; here the embedder defines the meaning of a record's data.
//! Plain streams share one encoded log per channel ([`Encoding`]), like event streams, and the
//! embedder is not called per client. Other clients (filters, reliable delivery, long polls,
//! WebSockets) receive *items*: unencoded records, delivered with
//! [`Event::Items`](crate::Event::Items) for one client at a time.
//!
//! The state of such a client is in its exchange (`Held::Own`).

use std::num::NonZeroU32;

use fermata_io::{Deadline, Driver};
use fermata_proto::response;

use crate::admin::trace::End;
use crate::channels::Channels;
use crate::channels::encode::{Encoding, FORMAT_ITEMS};
use crate::embed::event::Event;
use crate::embed::relayed::{Items, Relayed, ResponseHead};
use crate::embed::waiting::Waiting;
use crate::http::exchange::{Held, Stage};
use crate::http::protocol::BodyLength;
use crate::http::respond::Gone;
use crate::http::respond::stream::in_head;
use crate::http::respond::streams::StreamError;
use crate::id::{RequestId, SocketId};
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::buffered::LARGE_BYTES;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;
use crate::websocket::SendError;
use crate::worker::Worker;

/// Status that replaces a 2xx status which a client would mistake for an open WebSocket.
const STATUS_NOT_SWITCHED: u16 = 502;

impl<D: Driver> Net<D> {
    /// Returns the exchange held by this request.
    fn held(&self, handle: RequestId) -> Result<ExchangeIndex, Gone> {
        let index = handle.exchange();
        let generation = handle.serial();
        match self.connections.exchange(index) {
            Some(it) if it.serial == generation && it.is_held() => Ok(index),
            _ => Err(Gone),
        }
    }
}

impl<D: Driver> Net<D> {
    /// Returns milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.driver.unix_ms()
    }

    /// Returns seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        self.driver.unix_ms() / 1000
    }

    /// Returns the number of bytes queued for a held client; `None` if it has disconnected.
    pub fn held_unsent(&self, handle: RequestId) -> Option<usize> {
        let index = self.held(handle).ok()?;
        self.connections
            .at(index.connection())
            .map(|it| it.unsent())
    }
}

impl<D: Driver> Net<D> {
    /// Returns true if a client would mistake the response to its handshake for an open WebSocket.
    /// Any 2xx status opens a WebSocket over HTTP/2 (RFC 8441, section 5), only 101 over HTTP/1.1.
    fn would_look_open(&self, index: ExchangeIndex, status: u16) -> bool {
        self.connections
            .pair(index)
            .is_some_and(|(connection, exchange)| {
                exchange.has_handshake
                    && connection.line.stream().is_some()
                    && (200..300).contains(&status)
            })
    }
}

impl Waiting {
    /// Returns the records of the last `Event::Items`.
    pub fn items(&self) -> Items {
        self.items.clone()
    }
}

impl Channels {
    /// Returns the hold state for a client of the embedder.
    fn held_by(&mut self, hold: &Relayed<'_>) -> Held {
        let keep_alive = hold.keep_alive;
        Held::Own {
            keep_alive_ms: keep_alive.and_then(|it| NonZeroU32::new(it.interval_ms)),
            // A stream cannot recover events dropped from the log. A client that receives items
            // can: the embedder decides where it continues.
            closes_on_gap: !hold.takes_items,
            keeps_interval: keep_alive.is_some_and(|it| !it.restarts),
            keep_alive: keep_alive.map(|it| self.keep_alives.intern(it.data)),
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Sets the embedder's encoding of records. Must be called before the first poll.
    pub fn relay(&mut self, stream: Encoding) {
        self.channels.encoder.stream = Some(stream);
        self.http.passes_on = true;
    }

    /// Answers a request with a complete response, whose head is forwarded unchanged.
    ///
    /// # Errors
    /// The request is not open.
    pub fn respond_relayed(
        &mut self,
        handle: RequestId,
        head: &ResponseHead<'_>,
        body: &[u8],
    ) -> Result<(), Gone> {
        let index = self.net.open_request(handle)?;
        let exchange = self.net.connections.exchange(index);
        let is_head = exchange.is_some_and(|it| it.is_head);
        let length = match (response::bodiless(head.status), is_head, head.length) {
            (true, ..) | (false, true, None) => BodyLength::None,
            (false, true, Some(length)) => BodyLength::Known(length),
            (false, false, _) => BodyLength::Known(body.len() as u64),
        };
        self.write_relayed_head(index, head, length);
        if let Some((connection, exchange)) = self.net.connections.pair_mut(index).known()
            && !exchange.is_head
            && length != BodyLength::None
        {
            connection.out.extend_from_slice(body);
        }
        self.http.finish_answer(&mut self.net, index);
        if body.len() >= LARGE_BYTES {
            self.net.flush(&mut self.http, index.connection());
        }
        Ok(())
    }

    /// Starts a stream like [`Worker::begin_stream`], with a head that is forwarded unchanged.
    /// Returns false if the response has no body and is complete.
    ///
    /// # Errors
    /// As for [`Worker::begin_stream`].
    pub fn begin_relayed_stream(
        &mut self,
        handle: RequestId,
        head: &ResponseHead<'_>,
        length: Option<u64>,
    ) -> Result<bool, StreamError> {
        let index = self.net.open_request(handle)?;
        self.write_relayed_head(index, head, in_head(head.status, length));
        let has_body = self
            .http
            .start_stream(&mut self.net, index, handle, length, head.status);
        // Send the head now. Afterwards the embedder is polled for pieces.
        self.net.mark_dirty(index.connection());
        Ok(has_body)
    }

    /// Answers a request with a stream that stays open: head, body, and then published records.
    ///
    /// # Errors
    /// The request is not open.
    pub fn hold_relayed(
        &mut self,
        handle: RequestId,
        head: &ResponseHead<'_>,
        body: &[u8],
        hold: &Relayed<'_>,
    ) -> Result<(), Gone> {
        let index = self.net.open_request(handle)?;
        self.write_relayed_head(index, head, BodyLength::Unknown);
        let Some((connection, exchange)) = self.net.connections.pair_mut(index) else {
            return Err(missed(Gone));
        };
        if exchange.is_head {
            self.http.finish_answer(&mut self.net, index);
            return Ok(());
        }
        exchange.protocol.write_piece(&mut connection.out, body);
        self.begin_held(index, hold);
        Ok(())
    }

    /// Keeps a stream of [`Worker::begin_relayed_stream`] open: published records follow its bytes.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn hold_stream(&mut self, handle: RequestId, hold: &Relayed<'_>) -> Result<(), Gone> {
        let index = self.net.open_stream(handle)?;
        if let Some(exchange) = self.net.connections.exchange_mut(index).known() {
            exchange.body = None;
            self.http.streams.let_go();
        }
        self.begin_held(index, hold);
        Ok(())
    }

    fn begin_held(&mut self, index: ExchangeIndex, hold: &Relayed<'_>) {
        if self.net.running != Running::Serving {
            self.http.trace.on_answer(index, End::Closed, &mut self.net);
            self.channels
                .finish_hold(&mut self.net, &mut self.waiting, index, None);
            return;
        }
        let held = self.channels.held_by(hold);
        let (channels, mut to) = self.clients();
        channels.begin_hold(&mut to, index, held);
        channels.subscribe_held(to.net, index, hold);
    }

    /// Replaces subscriptions and keep-alive of a held client.
    ///
    /// # Errors
    /// The client has disconnected.
    pub fn update_held(&mut self, handle: RequestId, hold: &Relayed<'_>) -> Result<(), Gone> {
        let index = self.net.held(handle)?;
        let held = self.channels.held_by(hold);
        self.channels.subscribe_held(&mut self.net, index, hold);
        if let Some((connection, exchange)) = self.net.connections.pair_mut(index).known() {
            exchange.stage = Stage::Held(held);
            connection.deadline = Deadline::NEVER;
        }
        self.net.restart_deadline(index.connection());
        Ok(())
    }

    /// Appends bytes to a held client's body. Returns the number of queued bytes.
    ///
    /// # Errors
    /// The client has disconnected.
    pub fn write_held(&mut self, handle: RequestId, bytes: &[u8]) -> Result<usize, Gone> {
        let index = self.net.held(handle)?;
        let Some((connection, exchange)) = self.net.connections.pair_mut(index) else {
            return Err(missed(Gone));
        };
        let out = connection.take_buffer(&mut self.net.pool);
        exchange.protocol.write_piece(out, bytes);
        let unsent = connection.unsent();
        if !exchange.keeps_interval() {
            self.net.restart_deadline(index.connection());
        }
        self.net.mark_dirty(index.connection());
        Ok(unsent)
    }

    /// Ends a held client's response cleanly.
    ///
    /// # Errors
    /// The client has disconnected.
    pub fn end_held(&mut self, handle: RequestId) -> Result<(), Gone> {
        let index = self.net.held(handle)?;
        self.channels
            .end_hold(&mut self.net, &mut self.waiting, index);
        Ok(())
    }

    /// Cuts off a held client, so that its response does not look complete.
    pub fn cut_held(&mut self, handle: RequestId) {
        if let Ok(index) = self.net.held(handle) {
            self.net.close(&mut self.http, index.connection());
            self.after_output();
        }
    }

    /// Subscribes the client of an unanswered request to items.
    ///
    /// # Errors
    /// The request is not open.
    pub fn poll_items(&mut self, handle: RequestId, channels: &[&[u8]]) -> Result<(), Gone> {
        let index = self.net.open_request(handle)?;
        let hold = Relayed {
            channels,
            takes_items: true,
            keep_alive: None,
        };
        self.channels.subscribe_held(&mut self.net, index, &hold);
        Ok(())
    }

    /// Ends the subscriptions of a client that receives items. Must be called before the response.
    pub fn end_items(&mut self, handle: RequestId) {
        if let Ok(index) = self.net.open_request(handle) {
            self.channels.drop_subscriptions(&mut self.net, index);
        }
    }

    /// Subscribes a socket to items.
    ///
    /// # Errors
    /// The socket has closed.
    pub fn subscribe_socket(&mut self, socket: SocketId, channel: &[u8]) -> Result<(), SendError> {
        let Some((_, exchange)) = self.net.connections.socket_mut(socket) else {
            return Err(SendError::Gone);
        };
        if exchange.socket().is_none() {
            return Err(SendError::Gone);
        }
        exchange.takes_items = true;
        exchange.chain = self.channels.local.subscribe(
            socket.exchange().0,
            exchange.chain,
            channel,
            FORMAT_ITEMS,
        );
        Ok(())
    }

    /// Ends a subscription of a socket.
    pub fn unsubscribe_socket(&mut self, socket: SocketId, channel: &[u8]) {
        if let Some((_, exchange)) = self.net.connections.socket_mut(socket)
            && exchange.socket().is_some()
            && let Some(chain) = self.channels.local.leave(exchange.chain, channel)
        {
            exchange.chain = chain;
        }
    }

    /// Prepares the current request's handshake for `accept_upgrade` or a response. Returns false
    /// if the handshake was refused, or if `handle` is not the request of the last event, because
    /// the current request then belongs to another client.
    pub fn begin_handshake(&mut self, handle: RequestId, route: u16) -> bool {
        if self.http.lent != Some(handle) {
            return false;
        }
        let index = handle.exchange();
        let Worker {
            sockets,
            net,
            http,
            channels,
            waiting,
            ..
        } = self;
        sockets.begin_upgrade(net, http, channels, waiting, index, route) == Some(Event::Upgrade)
    }

    fn write_relayed_head(
        &mut self,
        index: ExchangeIndex,
        head: &ResponseHead<'_>,
        length: BodyLength,
    ) {
        let mut head = *head;
        if self.net.would_look_open(index, head.status) {
            (head.status, head.reason) = (STATUS_NOT_SWITCHED, b"");
        }
        self.http.write_head_by(
            &mut self.net,
            index,
            head.status,
            length,
            |protocol, out, date, keeps_alive| {
                protocol.write_passed_head(out, &head, date, length, keeps_alive);
            },
        );
    }
}
