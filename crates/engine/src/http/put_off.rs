//! Putting requests off, and beginning those that were.

use fermata_io::{Deadline, Driver};

use crate::embed::event::Event;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::request::Place;
use crate::http::starts::Queued;
use crate::missed::Known;
use crate::net::Net;
use crate::net::timers::ALL_WAIT;

impl Http {
    /// The next request to begin of those that were put off.
    pub(crate) fn next_start<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &Waiting,
    ) -> Option<Event> {
        while !self.starts.is_empty() && !waiting.is_full() {
            let queued = self.starts.take()?;
            if self.take_queued(net, queued) {
                self.note_begin(net);
                return Some(match self.request.is_connect {
                    true => Event::Upgrade,
                    false => Event::Request,
                });
            }
            self.starts.cancel();
        }
        None
    }
}

impl Http {
    /// Puts the current request off when it is not its turn to be begun. Its connection is not read from meanwhile, as while
    /// its handler runs.
    #[inline]
    pub(crate) fn put_off<D: Driver>(&mut self, net: &mut Net<D>, waiting: &Waiting) -> bool {
        // What is passed on takes its time elsewhere, and connections that are not the public's are few.
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

    /// Puts a WebSocket's handshake off that the program looks at, until a handler is free. One over HTTP/1 waits unread.
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

    /// Refuses requests that nobody could take in time, because all handlers wait.
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

    /// When `refuse_overdue` has something to do.
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
        self.starts.put(Queued { request, since_ms });
    }

    /// A handler begins.
    #[inline]
    fn note_begin<D: Driver>(&mut self, net: &Net<D>) {
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
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            exchange.is_put_off = false;
        }
        self.lent = Some(handle);
        true
    }

    /// The client of a request that was put off has left. Where many have, they give up their places.
    #[cold]
    pub(crate) fn note_dead<D: Driver>(&mut self, net: &Net<D>) {
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
