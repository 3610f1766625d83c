//! Postponing requests, and starting them later.

use fermata_io::{Deadline, Driver};

use crate::embed::event::Event;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::request::{Place, Request};
use crate::http::respond::refuse::refuse_restarting;
use crate::http::starts::Queued;
use crate::missed::Known;
use crate::net::Net;
use crate::net::index::ConnectionIndex;
use crate::net::running::Running;
use crate::net::timers::ALL_WAIT;

impl Http {
    /// Returns the next postponed request to start.
    pub(crate) fn next_start<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &Waiting,
    ) -> Option<Event> {
        while !self.starts.is_empty() && !waiting.is_full() {
            let queued = self.starts.take()?;
            if self.take_queued(net, queued) {
                let index = self.request.index().connection();
                if net.gives_requests && net.give_request(self, index) {
                    self.starts.cancel();
                    continue;
                }
                let is_retired = matches!(net.running, Running::Retired { .. });
                if is_retired && self.is_of_stream(net) {
                    self.lent = None;
                    self.drop_upload();
                    let index = self.request.index();
                    refuse_restarting(self, net, index);
                    self.starts.cancel();
                    continue;
                }
                if let Some(carrier) = net.unread_carrier(index) {
                    self.hold_back(net, carrier);
                    self.starts.cancel();
                    continue;
                }
                self.note_begin(net);
                return Some(if self.request.is_connect {
                    Event::Upgrade
                } else {
                    Event::Request
                });
            }
            self.starts.cancel();
        }
        None
    }
}

impl Http {
    /// Postpones the current request if its handler has to wait for its turn. While it waits, its
    /// connection is not read, as while a handler runs.
    #[inline]
    pub(crate) fn put_off<D: Driver>(&mut self, net: &mut Net<D>, waiting: &Waiting) -> bool {
        // Do not wait if the server passes requests on, because these spend their time at the
        // backend. Listeners other than the public ones have few connections.
        if self.passes_on {
            return false;
        }
        if waiting.is_full() && self.is_of_stream(net) {
            self.put_off_now(net);
            return true;
        }
        if self.starts.begin(self.request.handler) {
            self.note_begin(net);
            return false;
        }
        self.put_off_now(net);
        true
    }

    /// Postpones a WebSocket handshake that needs a handler until one is free. This applies to
    /// HTTP/2; over HTTP/1 the handshake stays unread in the socket.
    #[cold]
    pub(crate) fn put_off_upgrade<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &Waiting,
    ) -> bool {
        let puts_off = waiting.is_full() && self.is_of_stream(net);
        if puts_off {
            self.put_off_now(net);
        }
        puts_off
    }

    /// Refuses requests that could not start in time because all handlers wait.
    pub(crate) fn refuse_overdue<D: Driver>(&mut self, net: &mut Net<D>, waiting: &Waiting) {
        if self.starts.is_empty() || !waiting.is_full() {
            return;
        }
        let now_ms = net.driver.now_ms();
        let Some(before_ms) = now_ms.checked_sub(net.settings.header_timeout_ms) else {
            return;
        };
        while let Some(queued) = self.starts.take_overdue(before_ms) {
            if self.take_queued(net, queued) {
                self.lent = None;
                self.drop_upload();
                let index = self.request.index();
                self.refuse(net, index, 503, ALL_WAIT);
            }
        }
    }

    /// Returns the time of the next call of `refuse_overdue`.
    pub(crate) fn overdue<D: Driver>(&self, net: &Net<D>, waiting: &Waiting) -> Deadline {
        if !waiting.is_full() {
            return Deadline::NEVER;
        }
        let oldest_ms = self.starts.oldest_ms();
        oldest_ms.map_or(Deadline::NEVER, |it| {
            Deadline::after(it, net.settings.header_timeout_ms)
        })
    }
}

impl Http {
    /// Returns true if the current request came over an HTTP/2 stream: streams are read while all
    /// handlers wait.
    #[cold]
    fn is_of_stream<D: Driver>(&self, net: &Net<D>) -> bool {
        let index = self.request.index();
        let connection = net.connections.at(index.connection());
        connection.is_some_and(|it| it.line.is_stream())
    }

    #[cold]
    fn put_off_now<D: Driver>(&mut self, net: &mut Net<D>) {
        let queued = self.take_off(net);
        self.starts.put(queued);
    }

    /// Moves the current request to memory that outlives the turn.
    #[cold]
    pub(crate) fn take_off<D: Driver>(&mut self, net: &mut Net<D>) -> Queued {
        let index = self.request.index();
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            exchange.is_put_off = true;
        }
        let mut request = self.starts.spare();
        std::mem::swap(&mut self.request, &mut request);
        self.lent = None;
        if let Place::Input {
            head_start,
            body_start,
            body_len,
        } = request.place
        {
            let body = body_start..body_start + body_len;
            request.head_bytes.clear();
            let head = &net.input.bytes[head_start..body_start];
            request.head_bytes.extend_from_slice(head);
            request.body_bytes.clear();
            request.body_bytes.extend_from_slice(&net.input.bytes[body]);
            request.place = Place::Owned;
        }
        let since_ms = net.driver.now_ms();
        Queued { request, since_ms }
    }

    /// Notes the start of a handler.
    #[inline]
    fn note_begin<D: Driver>(&mut self, net: &Net<D>) {
        if self.starts.is_measuring() {
            let now_us = net.driver.now_us();
            self.starts.note_begin(now_us);
        }
    }

    /// Makes a postponed request the current one. Returns false if the request no longer needs a
    /// response.
    fn take_queued<D: Driver>(&mut self, net: &mut Net<D>, queued: Queued) -> bool {
        let mut request = queued.request;
        std::mem::swap(&mut self.request, &mut request);
        self.starts.keep_spare(request);
        let handle = self.request.handle;
        let Ok(index) = net.open_request(handle) else {
            self.starts.forget_dead();
            self.drop_upload();
            return false;
        };
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            exchange.is_put_off = false;
        }
        self.lent = Some(handle);
        true
    }

    /// Notes that the client of a postponed request has disconnected. Removes such entries when
    /// there are many.
    #[cold]
    pub(crate) fn note_dead<D: Driver>(&mut self, net: &Net<D>, index: ConnectionIndex) {
        if let Some(queued) = self.held_back.remove(&index) {
            self.give_up(queued.request);
            return;
        }
        if !self.starts.note_dead() {
            return;
        }
        let connections = &net.connections;
        let dead = self.starts.take_dead(|request| {
            let exchange = connections.exchange(request.index());
            exchange.is_none_or(|it| !it.is_put_off || it.handle(request.index()) != request.handle)
        });
        for request in dead {
            self.give_up(request);
        }
    }

    /// Drops a postponed request.
    fn give_up(&mut self, mut request: Box<Request>) {
        let upload = std::mem::take(&mut request.upload);
        if upload != 0 {
            self.uploads.release(upload);
        }
        self.starts.keep_spare(request);
    }
}
