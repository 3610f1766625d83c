//! Putting requests off, and beginning those that were.

use fermata_io::Driver;

use crate::embed::event::Event;
use crate::http::Http;
use crate::http::request::Place;
use crate::http::starts::Queued;
use crate::net::Net;
use crate::net::timers::ALL_WAIT;
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    /// Puts the current request off when it is not its turn to be begun. Its connection is not read from meanwhile, as while
    /// its handler runs.
    #[inline]
    pub(crate) fn put_off(&mut self) -> bool {
        // What is passed on takes its time elsewhere, and connections that are not the public's are few.
        if self.http.passes_on {
            return false;
        }
        if self.waiting.is_full() && self.http.is_of_stream(&self.net) {
            self.http.put_off_now(&mut self.net);
            return true;
        }
        if self.http.starts.begin(self.http.request.handler) {
            self.http.note_begin(&mut self.net);
            return false;
        }
        self.http.put_off_now(&mut self.net);
        true
    }

    /// Puts a WebSocket's handshake off that the program looks at, until a handler is free. One over HTTP/1 waits unread.
    #[cold]
    pub(crate) fn put_off_upgrade(&mut self) -> bool {
        let puts_off = self.waiting.is_full() && self.http.is_of_stream(&self.net);
        if puts_off {
            self.http.put_off_now(&mut self.net);
        }
        puts_off
    }

    /// The next request to begin of those that were put off.
    pub(crate) fn next_start(&mut self) -> Option<Event> {
        if !self.http.starts.is_empty() {
            // It takes long: what has been answered before it goes out first. That may close connections, so which request
            // it is comes afterwards.
            self.flush_dirty();
        }
        while !self.http.starts.is_empty() && !self.waiting.is_full() {
            let queued = self.http.starts.take()?;
            if self.http.take_queued(&mut self.net, queued) {
                self.http.note_begin(&mut self.net);
                return Some(match self.http.request.is_connect {
                    true => Event::Upgrade,
                    false => Event::Request,
                });
            }
            self.http.starts.cancel();
        }
        None
    }

    /// Refuses requests that nobody could take in time, because all handlers wait.
    pub(crate) fn refuse_overdue(&mut self) {
        if self.http.starts.is_empty() || !self.waiting.is_full() {
            return;
        }
        let now_ms = self.net.driver.now_ms();
        let Some(before_ms) = now_ms.checked_sub(self.net.settings.header_timeout_ms) else {
            return;
        };
        while let Some(queued) = self.http.starts.take_overdue(before_ms) {
            if self.http.take_queued(&mut self.net, queued) {
                self.http.lent = 0;
                self.http.drop_upload();
                let index = self.http.request.index();
                self.http.refuse(&mut self.net, index, 503, ALL_WAIT);
            }
        }
    }

    /// When `refuse_overdue` has something to do.
    pub(crate) fn overdue_ms(&self) -> u64 {
        if !self.waiting.is_full() {
            return u64::MAX;
        }
        let oldest_ms = self.http.starts.oldest_ms();
        oldest_ms.map_or(u64::MAX, |it| it + self.net.settings.header_timeout_ms)
    }
}

impl Http {
    /// Whether the current request came over a stream: those are read while all handlers wait.
    #[cold]
    fn is_of_stream<D: Driver>(&self, net: &Net<D>) -> bool {
        let index = self.request.index();
        let connection = net.connections.at(index.connection());
        connection.is_some_and(|it| it.line.is_stream())
    }

    #[cold]
    fn put_off_now<D: Driver>(&mut self, net: &mut Net<D>) {
        let index = self.request.index();
        if let Some(exchange) = net.connections.exchange_mut(index) {
            exchange.is_put_off = true;
        }
        let mut request = self.starts.spare();
        std::mem::swap(&mut self.request, &mut request);
        self.lent = 0;
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
        self.starts.put(Queued { request, since_ms });
    }

    /// A handler begins.
    #[inline]
    fn note_begin<D: Driver>(&mut self, net: &mut Net<D>) {
        if self.starts.is_measuring() {
            let now_us = net.driver.now_us();
            self.starts.note_begin(now_us);
        }
    }

    /// Makes a request the current one again. False when it needs no answer any more.
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
        if let Some(exchange) = net.connections.exchange_mut(index) {
            exchange.is_put_off = false;
        }
        self.lent = handle;
        true
    }

    /// The client of a request that was put off has left. Where many have, they give up their places.
    #[cold]
    pub(crate) fn note_dead<D: Driver>(&mut self, net: &mut Net<D>) {
        if !self.starts.note_dead() {
            return;
        }
        let connections = &net.connections;
        let dead = self.starts.take_dead(|request| {
            let exchange = connections.exchange(request.index());
            exchange.is_none_or(|it| !it.is_put_off || it.handle(request.index()) != request.handle)
        });
        for mut request in dead {
            let upload = std::mem::take(&mut request.upload);
            if upload != 0 {
                self.uploads.release(upload);
            }
            self.starts.keep_spare(request);
        }
    }
}
