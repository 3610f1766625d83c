//! Waiting handlers: an application may postpone the response to a request or message.
//!
//! Meanwhile its connection is not read, so the client's next request or message follows the
//! response, and the kernel limits what the client may send ahead. If the client disconnects, the
//! application receives `Event::Gone`. The application can request an `Event::Wake`, and can
//! postpone new work when too many handlers wait.

use std::io;

use fermata_config::LogLevel;
use fermata_io::watch::{Interest, Ready};
use fermata_io::{Deadline, Driver, Fd};

use crate::admin::stats::Counter;
use crate::embed::event::{Event, Left};
use crate::embed::waiting::WaitEvent;
use crate::embed::waiting::Waiting;
use crate::embed::watch::WatchedDescriptors;
use crate::embed::wires::WireEvent;
use crate::http::Http;
use crate::http::deferred::DeferredRequest;
use crate::http::exchange::Exchange;
use crate::http::exchange::{Held, Stage};
use crate::http::files::ContentHeaders;
use crate::http::respond::Gone;
use crate::id::{RequestId, SocketId};
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Origin, Phase, Writing};
use crate::net::ended::Ended;
use crate::net::index::{ConnectionIndex, ExchangeIndex};
use crate::worker::Worker;

/// Minimum number of excess entries of postponed connections before duplicates are removed.
const HELD_BACK_SLACK: usize = 1024;

impl<D: Driver> Net<D> {
    /// Resumes a socket whose handler has returned.
    pub fn resume_socket(&mut self, socket: SocketId) {
        if let Some((_, exchange)) = self.connections.socket_mut(socket)
            && std::mem::take(&mut exchange.is_deferred)
        {
            self.go_on(socket.exchange().connection());
        }
    }

    /// Returns the current time of the monotonic clock in milliseconds.
    pub fn now_ms(&mut self) -> u64 {
        self.driver.refresh_now()
    }
}

impl Http {
    /// Drops stored data of a waiting request whose handler has returned.
    pub fn settle_request(&mut self, handle: RequestId) {
        self.deferred.take(handle);
    }
}

impl Waiting {
    /// Returns true if the operator has requested a reload of files since the last call; announced
    /// by `Event::Wake`. See `Server::take_reloads`.
    pub fn take_reload(&mut self) -> bool {
        std::mem::take(&mut self.has_reload)
    }

    fn note(&mut self, left: Left) {
        self.events.push_back(WaitEvent::Left(left));
    }

    /// Drops an undelivered `Gone` of a request that becomes a WebSocket with the same number. The
    /// WebSocket reports its own end.
    pub(crate) fn forget_left(&mut self, handle: RequestId) {
        self.events
            .retain(|it| !matches!(it, WaitEvent::Left(Left::Request(left)) if *left == handle));
    }

    /// Returns the next event for waiting handlers: a disconnected client, a ready descriptor or
    /// wire, items, or a wake-up.
    pub(crate) fn next_wait_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(match event {
                WaitEvent::Left(Left::Request(request)) => Event::Gone(request),
                WaitEvent::Left(Left::Held(request)) => Event::HeldGone(request),
                WaitEvent::Left(Left::Socket(socket)) => Event::SocketGone(socket),
                WaitEvent::Ready(ready) => {
                    self.ready = Some(ready);
                    Event::Ready
                }
                WaitEvent::Wire(event) => {
                    self.wire = Some(event);
                    Event::Wire
                }
                WaitEvent::Items(items) => {
                    self.items = items;
                    Event::Items
                }
                WaitEvent::PeerMessage(data) => {
                    self.peer_message = data;
                    Event::PeerMessage
                }
                WaitEvent::Read(reader) => Event::Read(reader),
                WaitEvent::Body(handle) => Event::Body(handle),
            });
        }
        std::mem::take(&mut self.is_due).then_some(Event::Wake)
    }

    /// Returns the descriptor of the last `Event::Ready`.
    pub fn ready(&self) -> Option<Ready> {
        self.ready
    }

    /// Returns the wire of the last `Event::Wire`.
    pub fn wire(&self) -> Option<WireEvent> {
        self.wire
    }

    /// Schedules one `Event::Wake` at the time `wake`, by the clock of `Net::now_ms`. If the time
    /// has already passed, the event is returned after the next turn of the loop.
    pub fn wake_at(&mut self, wake: Deadline) {
        self.wake = wake;
    }

    /// Sets if the application has started work (a task, a postponed job) that should finish before
    /// the worker stops, within `drain_timeout_ms`.
    pub fn set_busy(&mut self, is_busy: bool) {
        self.is_busy = is_busy;
    }
}

impl<D: Driver> Worker<D> {
    /// Notes that the handler of a request waits. The client is watched from now on.
    ///
    /// The caller must end a deferred request: the connection stays until the request is answered,
    /// held, upgraded or dropped ([`Worker::drop_request`]), even if its client disconnects
    /// ([`Event::Gone`]).
    pub fn defer(&mut self, handle: RequestId) -> Result<(), Gone> {
        let index = self.net.open_request(handle)?;
        if self.http.lent == Some(handle) && !self.http.passes_on {
            let view = self.http.request.view(&self.net.input.bytes);
            let request = DeferredRequest {
                handle,
                method: self.http.request.head.method,
                headers: ContentHeaders::of(&view).into_owned(),
                client: self
                    .http
                    .client_address(&self.net)
                    .map(|(address, _)| address),
                accept: view.header(b"accept", 0).map(Box::from),
            };
            self.http.deferred.remember(Box::new(request));
        }
        self.waiting.defer_at(&mut self.net, index);
        Ok(())
    }

    /// Ends a request without a response or in the middle of one, for example after its client
    /// disconnected. The server still sends queued output, then closes the connection. Has no
    /// effect on an answered request.
    pub fn drop_request(&mut self, handle: RequestId) {
        // The application may have started a response before it was notified of the disconnect.
        self.drop_stream(handle);
        let Ok(index) = self.net.open_request(handle) else {
            return;
        };
        self.channels.drop_subscriptions(&mut self.net, index);
        let Some((connection, exchange)) = self.net.connections.pair_mut(index) else {
            return missed(());
        };
        // The owner of the request needs no notification.
        exchange.is_deferred = false;
        exchange.stage = Stage::Handling(None);
        if exchange.has_output(connection) {
            connection.keeps_alive = false;
            connection.writing = Writing::Close;
            self.net.mark_dirty(index.connection());
        } else {
            self.net.close(&mut self.http, index.connection());
            self.after_output();
        }
    }

    /// Notes that the application waits before it writes the next piece of a stream. Its client is
    /// watched until then.
    pub fn defer_stream(&mut self, handle: RequestId) -> Result<(), Gone> {
        let index = self.net.open_stream(handle)?;
        self.waiting.defer_at(&mut self.net, index);
        Ok(())
    }

    /// Notes that the handler of a socket waits: the socket's next message follows `resume_socket`.
    pub fn defer_socket(&mut self, socket: SocketId) -> Result<(), Gone> {
        match self.net.connections.socket(socket) {
            Some((_, exchange)) if exchange.is_socket() => {
                self.waiting.defer_at(&mut self.net, socket.exchange());
                Ok(())
            }
            _ => Err(Gone),
        }
    }

    /// Sets the state "too many handlers wait". While set, new requests and messages stay in the
    /// sockets, including requests for files and holds.
    pub fn set_full(&mut self, is_full: bool) {
        if is_full == self.waiting.is_full {
            return;
        }
        self.waiting.is_full = is_full;
        if is_full {
            self.net.counts.add(Counter::FibersExhausted, 1);
            let message = format!(
                "all fibers ({}) wait; new requests and messages wait, too, until one is free; \
                 raise fibers_max, or wait for less time",
                self.net.settings.fibers_max
            );
            self.net.log_for_client(LogLevel::Warning, &message);
        } else {
            self.net.again.append(&mut self.waiting.held_back);
            self.http.streams.let_on();
        }
    }

    /// Schedules one `Event::Ready` when `fd` is ready for any of `interest` or has hung up.
    /// Replaces an earlier call; `Interest::NONE` cancels it. The descriptor may be closed at any
    /// time; no event follows then.
    ///
    /// # Errors
    /// `PermissionDenied` for a file that is always ready, such as a regular one; other errors of
    /// the kernel.
    pub fn watch_descriptor(&mut self, fd: Fd, interest: Interest) -> io::Result<()> {
        let watched_descriptors = match &mut self.waiting.watched_descriptors {
            Some(watched_descriptors) => watched_descriptors,
            None if interest == Interest::NONE => return Ok(()),
            empty => empty.insert(Box::new(WatchedDescriptors::new(&mut self.net.driver)?)),
        };
        watched_descriptors.set(fd, interest)
    }

    /// Notes that the application has returned at `unix_ms`.
    #[inline]
    pub(crate) fn note_return(&mut self, unix_ms: u64) {
        if let Some(call) = self.blocking.end(unix_ms) {
            self.net.counts.add(Counter::BlockingCallbacks, 1);
            let message = self.blocking.describe(&call, &self.http.router);
            self.net.log_for_client(LogLevel::Warning, &message);
        }
    }

    /// Notes that a waiting handler or task resumes directly after another one returned, without a
    /// poll in between.
    pub fn note_resumed(&mut self, handler: u32) {
        let unix_ms = self.net.driver.unix_ms();
        self.note_return(unix_ms);
        self.blocking.polled_unix_ms = unix_ms;
        self.blocking.begin(handler);
        let now_us = self.net.driver.now_us();
        self.http.starts.note_return(now_us);
        self.http.starts.begin_resumed();
        self.http.starts.note_begin(now_us);
    }

    /// Returns true if another waiting handler or task may resume, or a task may start, in this
    /// turn. Notes that the running one has returned. If false, the application must poll first;
    /// `wake_at(Deadline::NOW)` wakes it in the next turn.
    pub fn may_resume(&mut self) -> bool {
        if self.http.starts.is_measuring() {
            let now_us = self.net.driver.now_us();
            self.http.starts.note_return(now_us);
        }
        self.http.starts.may_resume()
    }

    /// Sends written responses without handling other events, while the handler continues. Releases
    /// the handler's request.
    pub fn send_answers(&mut self) {
        self.http.lent = None;
        self.net.driver.refresh_now();
        self.flush_dirty();
        self.net.driver.flush();
    }
}

impl Waiting {
    pub(crate) fn defer_at<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        if !std::mem::replace(&mut exchange.is_deferred, true) {
            net.counts.add(Counter::HandlersWaited, 1);
            if connection.has_hung_up {
                self.note_left(net, index);
            }
        }
    }

    /// Reports the disconnect of a client whose handler waits.
    pub(crate) fn note_left<D: Driver>(&mut self, net: &Net<D>, index: ExchangeIndex) {
        if let Some((connection, exchange)) = net.connections.pair(index).known() {
            let is_open = connection.phase == Phase::Open && connection.writing == Writing::Open;
            self.note_left_by(index, is_open, exchange);
        }
    }

    fn note_left_by(&mut self, index: ExchangeIndex, is_open: bool, exchange: &Exchange) {
        let handle = exchange.handle(index);
        if !exchange.is_deferred {
            if exchange.held().is_some_and(Held::is_own) {
                self.note(Left::Held(handle));
            }
            return;
        }
        // A handler that waits for the body detects the disconnect itself.
        if exchange.is_read_from() {
            return;
        }
        if exchange.is_socket() {
            self.note(Left::Socket(SocketId::of(handle)));
        } else if exchange.is_handling() && is_open {
            self.note(Left::Request(handle));
        }
    }

    /// Reports a closed connection to handlers that wait for its client or its request's body.
    pub(crate) fn note_ended(&mut self, ended: &Ended) {
        let index = ended.key.exchange();
        self.note_left_by(index, ended.is_open, &ended.exchange);
        self.wake_reader_of(index, &ended.exchange);
    }

    /// Postpones a connection until a handler is free. Returns true if it has to wait.
    pub(crate) fn hold_back<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ConnectionIndex,
    ) -> bool {
        if !self.is_full {
            return false;
        }
        let Some(connection) = net.connections.at_mut(index) else {
            return missed(true);
        };
        if connection.origin != Origin::Public {
            return false;
        }
        connection.has_unread = true;
        if !std::mem::replace(&mut connection.is_again, true) {
            self.held_back.push(index);
            // Reused connection indexes are listed repeatedly.
            if self.held_back.len() > 2 * net.connections.len() + HELD_BACK_SLACK {
                self.held_back.sort_unstable();
                self.held_back.dedup();
            }
        }
        true
    }

    /// Queues ready descriptors for `next_wait_event`.
    #[cold]
    pub(crate) fn collect_watched<D: Driver>(&mut self, net: &mut Net<D>) {
        let Some(watched_descriptors) = &mut self.watched_descriptors else {
            return;
        };
        let (result, ready) = watched_descriptors.collect();
        self.events.extend(ready.map(WaitEvent::Ready));
        if let Err(error) = result {
            let message = format!("cannot collect ready descriptors: {error}");
            net.log_for_client(LogLevel::Error, &message);
        }
    }
}
