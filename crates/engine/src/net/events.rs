//! The events of a batch: who each of them is for.

use fermata_io::{Driver, Event};

use crate::net::connection::Origin;
use crate::net::slab::Key;
use crate::net::token::{
    TOKEN_CONTROL, TOKEN_FILES, TOKEN_INBOX, TOKEN_LINK, TOKEN_LISTENER, TOKEN_LISTENER_LAST,
    TOKEN_METRICS, TOKEN_SIGNAL, TOKEN_WAKE, TOKEN_WATCH,
};
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    /// Takes the next event of the batch. True when it left input to be parsed.
    pub(crate) fn next_input(&mut self) -> bool {
        while let Some(event) = self.net.events.get(self.net.events_at).copied() {
            self.net.events_at += 1;
            match event.token {
                token @ TOKEN_LISTENER..=TOKEN_LISTENER_LAST => {
                    let at = (token - TOKEN_LISTENER) as usize;
                    if let Some(&listener) = self.net.listeners.get(at) {
                        self.net.accept(&mut self.http, listener, Origin::Public);
                    }
                }
                TOKEN_CONTROL => {
                    if let Some(control) = self.net.control {
                        self.net.accept(&mut self.http, control, Origin::Control);
                    }
                }
                TOKEN_METRICS => {
                    if let Some(metrics) = self.net.metrics {
                        self.net.accept(&mut self.http, metrics, Origin::Metrics);
                    }
                }
                TOKEN_WAKE => {
                    if let Some(waker) = self.channels.wakers.get(usize::from(self.net.slot)) {
                        waker.drain();
                    }
                    // The master wakes everybody when a worker has died: its users may be leaving.
                    self.channels.expect_leaving(self.net.turn_ms);
                }
                TOKEN_INBOX => self.net.take_over(),
                TOKEN_LINK => self.on_master(),
                TOKEN_SIGNAL => self.on_signal(),
                TOKEN_WATCH => self.waiting.collect_watched(&mut self.net),
                TOKEN_FILES => self.file_jobs.on_files(&mut self.waiting),
                token => {
                    if self.on_connection(Key::from_u64(token), event) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Handles an event of a connection. True when it left input to be parsed.
    fn on_connection(&mut self, key: Key, event: Event) -> bool {
        let Some((connection, exchange)) = self.net.connections.get_mut(key) else {
            self.on_wire(event);
            return false;
        };
        if event.hangup {
            connection.has_hung_up = true;
        }
        let has_left = event.hangup && exchange.is_deferred;
        if event.writable && connection.is_blocked {
            self.on_writable(key.connection());
        }
        if has_left {
            self.waiting.note_left(&self.net, key.exchange());
        }
        (event.readable || event.hangup) && self.load(key.connection())
    }
}
