//! Clients held for an embedder that publishes in formats of its own: the GRIP edge.
//!
//! The engine's own holds know events; here a record's data means what the embedder says. Streams without wishes of
//! their own share one encoded log per channel ([`Encoding`]), exactly as event streams do, and the embedder is not
//! asked per client. A client that needs more (filters, reliable delivery, long polls, WebSockets) takes *items*: the records
//! as they were published, handed out by [`Event::Items`](crate::Event::Items) one client at a time.
//!
//! What is special about such a client is in its exchange (`Held::Own`).

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
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;
use crate::websocket::SendError;
use crate::worker::Worker;

/// The status instead of a success that a client would take for an open WebSocket.
const STATUS_NOT_SWITCHED: u16 = 502;

impl<D: Driver> Net<D> {
    /// The connection that is held by this request.
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
    /// Seconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.driver.unix_ms()
    }

    /// The same in whole seconds.
    pub fn unix_s(&self) -> u64 {
        self.driver.unix_ms() / 1000
    }

    /// How many bytes wait for a held client; `None`: it has left.
    pub fn held_unsent(&self, handle: RequestId) -> Option<usize> {
        let index = self.held(handle).ok()?;
        self.connections
            .at(index.connection())
            .map(|it| it.unsent())
    }
}

impl<D: Driver> Net<D> {
    /// Whether a client would take an answer to its handshake for a WebSocket that is open: over HTTP/2 any success says so
    /// (RFC 8441, 5), and over HTTP/1.1 101 alone does.
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
    /// What was published to a client, of the last `Event::Items`.
    pub fn items(&self) -> Items {
        self.items.clone()
    }
}

impl Channels {
    /// How a client is held by the embedder.
    fn held_by(&mut self, hold: &Relayed<'_>) -> Held {
        let keep_alive = hold.keep_alive;
        Held::Own {
            keep_alive_ms: keep_alive.and_then(|it| NonZeroU32::new(it.interval_ms)),
            // What the log has moved past cannot be made up for in a stream; the embedder is asked where it decides.
            closes_on_gap: !hold.takes_items,
            keeps_interval: keep_alive.is_some_and(|it| !it.restarts),
            keep_alive: keep_alive.map(|it| self.keep_alives.intern(it.data)),
        }
    }
}

impl<D: Driver> Worker<D> {
    /// From here on records mean what `stream` makes of them. To be called before the first event is asked for.
    pub fn relay(&mut self, stream: Encoding) {
        self.channels.encoder.stream = Some(stream);
        self.http.passes_on = true;
    }

    /// Answers a request with a complete response, whose head is passed on as it is.
    ///
    /// # Errors
    /// The request is gone.
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
        Ok(())
    }

    /// As [`Worker::begin_stream`], with a head that is passed on as it is. False: the answer has no body and is complete;
    /// nothing is asked for.
    ///
    /// # Errors
    /// As of [`Worker::begin_stream`].
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
        // The head goes at once; when it is sent the embedder is asked for more.
        self.net.mark_dirty(index.connection());
        Ok(has_body)
    }

    /// Answers a request by a stream that stays open: head, body, and then what is published.
    ///
    /// # Errors
    /// The request is gone.
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

    /// A stream of [`Worker::begin_relayed_stream`] stays open: what is published follows what was written.
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
    /// It has left.
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

    /// Appends bytes to a held client's body. Returns how many of its bytes wait for it now.
    ///
    /// # Errors
    /// It has left.
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

    /// Ends a held client's response in order.
    ///
    /// # Errors
    /// It has left.
    pub fn end_held(&mut self, handle: RequestId) -> Result<(), Gone> {
        let index = self.net.held(handle)?;
        self.channels
            .end_hold(&mut self.net, &mut self.waiting, index);
        Ok(())
    }

    /// Cuts a held client off: its response must not look whole.
    pub fn cut_held(&mut self, handle: RequestId) {
        if let Ok(index) = self.net.held(handle) {
            self.net.close(&mut self.http, index.connection());
            self.after_output();
        }
    }

    /// Has the client of a request that is not answered yet get items.
    ///
    /// # Errors
    /// The request is gone.
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

    /// It gets none any more: to be called before it is answered.
    pub fn end_items(&mut self, handle: RequestId) {
        if let Ok(index) = self.net.open_request(handle) {
            self.channels.drop_subscriptions(&mut self.net, index);
        }
    }

    /// Subscribes a socket: it takes items. False when it has ended.
    ///
    /// # Errors
    /// The socket has ended.
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

    /// Makes the current request's connection a WebSocket, if its handshake is one that can be accepted: by
    /// `accept_upgrade`, or it is answered like a request. False: it has been refused, or `handle` is not the request of the
    /// last event any more: what is known of the current one would be said of another client.
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
