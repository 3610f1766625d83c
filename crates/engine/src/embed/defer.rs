//! Handlers that wait: a program may put a request or a message aside and answer it later.
//!
//! While it does, its connection is not read from, so the next request or message of the same client
//! comes after the answer, and what the client may send meanwhile is bounded by the kernel. The
//! program is told when the client leaves (`Event::Gone`), is woken when it wants to be
//! (`Event::Wake`), and can hold back new work when it has no room for another handler that waits.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_io::watch::{Interest, Ready};
use fermata_proto::http1::Method;

use crate::admin::stats::Counter;
use crate::embed::relay::Items;
use crate::embed::watch::Watching;
use crate::embed::wires::WireEvent;
use crate::http::files::ContentHeaders;
use crate::http::respond::answer::Gone;
use crate::net::connection::{Origin, Reading, Writing};
use crate::net::slab::Key;
use crate::worker::{Event, Worker};

/// Connections listed while new work is held back that are not worth looking at for those listed twice.
const HELD_BACK_SLACK: usize = 1024;

/// What is handed out as `Event::Gone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The client of this request.
    Request(u64),
    /// The client of this WebSocket.
    Socket(u64),
    /// A client that was held by `Worker::hold_relayed`, by the request it was held with.
    Held(u64),
}

/// What an answer depends on of a request whose bytes are gone: remembered while its handler waits.
pub(crate) struct Asked {
    /// The request, since another one may have taken its connection's place.
    handle: u64,
    pub method: Method,
    pub headers: ContentHeaders<'static>,
    /// The client's address, as a trusted proxy says.
    pub client: Option<IpAddr>,
    /// The first `Accept` line.
    pub accept: Option<Box<[u8]>>,
}

/// What a handler that waits has to be told.
#[derive(Clone, Debug)]
pub(crate) enum News {
    Left(Left),
    Ready(Ready),
    Wire(WireEvent),
    Items(Items),
    Told(Box<[u8]>),
    /// More of this request's body has arrived, or will not.
    Body(u64),
}

/// What the worker remembers about waiting handlers.
pub(crate) struct Waiting {
    /// When the program wants to be woken; `u64::MAX` = not at all.
    pub wake_ms: u64,
    /// The time has come, and the program has not been told.
    pub is_due: bool,
    /// The operator wants files to be read again, and the program has not been told.
    has_reload: bool,
    /// The program has begun something that the worker must not stop before.
    pub is_busy: bool,
    /// No new request or message can be handled.
    is_full: bool,
    /// What has not been told. A client that has left is listed once, a descriptor once for each time
    /// that it was asked for.
    pub news: VecDeque<News>,
    /// The last that were told of.
    told_left: Left,
    told_ready: Ready,
    told_body: u64,
    /// The descriptors of the program that it waits for; `None` until it does.
    pub watching: Option<Box<Watching>>,
    pub wire: WireEvent,
    pub items: Items,
    pub told: Box<[u8]>,
    /// Connections with something to read, held back while `is_full`.
    held_back: Vec<u32>,
    /// What was asked for by requests whose handlers wait, by connection.
    asked: HashMap<u32, Box<Asked>>,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting {
            wake_ms: u64::MAX,
            is_due: false,
            has_reload: false,
            is_busy: false,
            is_full: false,
            news: VecDeque::new(),
            told_left: Left::Request(0),
            told_ready: Ready {
                fd: -1,
                what: Interest::NONE,
            },
            told_body: 0,
            watching: None,
            wire: WireEvent::default(),
            items: Items::default(),
            told: Box::default(),
            held_back: Vec::new(),
            asked: HashMap::new(),
        }
    }

    /// What is remembered of a request, whose handler has waited.
    pub fn asked(&self, handle: u64) -> Option<&Asked> {
        let asked = self.asked.get(&(handle as u32))?;
        (asked.handle == handle).then_some(asked)
    }

    /// The same, for the answer, which comes once.
    pub fn take_asked(&mut self, handle: u64) -> Option<Box<Asked>> {
        self.asked(handle)?;
        self.asked.remove(&(handle as u32))
    }

    /// Keeps it until it is taken, or another takes its connection's place.
    pub fn remember(&mut self, asked: Box<Asked>) {
        self.asked.insert(asked.handle as u32, asked);
    }

    #[cfg(test)]
    pub fn asked_len(&self) -> usize {
        self.asked.len()
    }

    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The operator wants files to be read again.
    pub fn reload(&mut self) {
        self.has_reload = true;
        self.wake_now();
    }

    /// The program is woken before the loop sleeps, and then asks anew for the time it wants to be woken at.
    pub fn wake_now(&mut self) {
        self.wake_ms = u64::MAX;
        self.is_due = true;
    }

    /// Whether the program has begun something that can still come to its end.
    pub fn can_finish(&self) -> bool {
        let watched = self.watching.as_ref().map_or(0, |it| it.armed());
        self.is_busy && (self.wake_ms != u64::MAX || watched > 0 || !self.news.is_empty())
    }
}

impl<D: Driver> Worker<D> {
    /// Whether the operator has asked for files to be read again since this was asked; `Event::Wake` tells when to ask.
    /// See `Server::take_reloads`.
    pub fn take_reload(&mut self) -> bool {
        std::mem::take(&mut self.waiting.has_reload)
    }

    /// The handler of a request waits. Its client is watched from now on.
    ///
    /// Whoever defers a request owns its end: the connection stays until it is answered, held, upgraded or dropped
    /// ([`Worker::drop_request`]), also when its client has left meanwhile ([`Event::Gone`]).
    pub fn defer(&mut self, handle: u64) -> Result<(), Gone> {
        let index = self.open_request(handle)?;
        // An embedder that passes responses on settles what they are itself.
        if self.http.lent == handle && self.relay.is_none() {
            let view = self.http.request.view(&self.input);
            let asked = Asked {
                handle,
                method: self.http.request.head.method,
                headers: ContentHeaders::of(&view).into_owned(),
                client: self.client_address().map(|(address, _)| address),
                accept: view.header(b"accept", 0).map(Box::from),
            };
            self.waiting.remember(Box::new(asked));
        }
        self.defer_at(index);
        Ok(())
    }

    /// The handler of a request that has waited has come to its end, whatever it has answered.
    pub fn settle_request(&mut self, handle: u64) {
        self.waiting.take_asked(handle);
    }

    /// Ends a request that gets no answer, or no end of it: its client has left, or there is none to give. What was queued
    /// for the client before is still sent; then its connection is closed. Nothing happens to a request that was answered.
    pub fn drop_request(&mut self, handle: u64) {
        // The program may have begun to answer before it was told that the client has left.
        self.drop_stream(handle);
        let Ok(index) = self.open_request(handle) else {
            return;
        };
        self.drop_subscriptions(index);
        let Some(connection) = self.net.connections.at_mut(index) else {
            return;
        };
        // Its owner knows: it is not told of the end any more.
        connection.is_deferred = false;
        connection.partial = None;
        if connection.has_output() {
            connection.keeps_alive = false;
            connection.writing = Writing::Close;
            self.mark_dirty(index);
        } else {
            self.close(index);
        }
    }

    /// The program waits before it can give the next piece of a stream. Its client is watched until it does.
    pub fn defer_stream(&mut self, handle: u64) -> Result<(), Gone> {
        let index = self.open_stream(handle)?;
        self.defer_at(index);
        Ok(())
    }

    /// The handler of a socket waits: the socket's next message comes after `resume_socket`.
    pub fn defer_socket(&mut self, socket: u64) -> Result<(), Gone> {
        let key = Key::from_u64(socket);
        match self.net.connections.get(key) {
            Some(connection) if connection.socket.is_some() => {
                self.defer_at(key.index);
                Ok(())
            }
            _ => Err(Gone),
        }
    }

    /// The handler of a socket has come to its end.
    pub fn resume_socket(&mut self, socket: u64) {
        let key = Key::from_u64(socket);
        if let Some(connection) = self.net.connections.get_mut(key)
            && std::mem::take(&mut connection.is_deferred)
        {
            self.go_on(key.index);
        }
    }

    pub(crate) fn defer_at(&mut self, index: u32) {
        let Some(connection) = self.net.connections.at_mut(index) else {
            return;
        };
        if !std::mem::replace(&mut connection.is_deferred, true) {
            self.net.counts.add(Counter::HandlersWaited, 1);
            if connection.has_hung_up {
                self.note_left(index);
            }
        }
    }

    /// The client of a connection whose handler waits has left, or its connection is closed.
    pub(crate) fn note_left(&mut self, index: u32) {
        let Some(key) = self.net.connections.key(index) else {
            return;
        };
        let Some(connection) = self.net.connections.at(index) else {
            return;
        };
        if !connection.is_deferred {
            if connection.reading == Reading::Held && self.relay.is_some() {
                let handle = connection.handle(index);
                self.note(Left::Held(handle));
                if let Some(relay) = &mut self.relay {
                    relay.forget(index);
                }
            }
            return;
        }
        // Whoever waits for the body finds its end by itself.
        if connection
            .partial
            .as_ref()
            .is_some_and(|it| it.is_waited_for())
        {
            return;
        }
        if connection.socket.is_some() {
            self.note(Left::Socket(key.to_u64()));
        } else if connection.reading == Reading::Handling && connection.writing == Writing::Open {
            let handle = connection.handle(index);
            self.note(Left::Request(handle));
        }
    }

    fn note(&mut self, left: Left) {
        self.waiting.news.push_back(News::Left(left));
    }

    /// The next client that has left, descriptor or wire that is ready, items, or the time to wake the program.
    pub(crate) fn next_wait_event(&mut self) -> Option<Event> {
        if let Some(news) = self.waiting.news.pop_front() {
            return Some(match news {
                News::Left(left) => {
                    self.waiting.told_left = left;
                    Event::Gone
                }
                News::Ready(ready) => {
                    self.waiting.told_ready = ready;
                    Event::Ready
                }
                News::Wire(event) => {
                    self.waiting.wire = event;
                    Event::Wire
                }
                News::Items(items) => {
                    self.waiting.items = items;
                    Event::Items
                }
                News::Told(data) => {
                    self.waiting.told = data;
                    Event::Told
                }
                News::Body(handle) => {
                    self.waiting.told_body = handle;
                    Event::Body
                }
            });
        }
        std::mem::take(&mut self.waiting.is_due).then_some(Event::Wake)
    }

    /// The request whose handler may read on, of the last `Event::Body`.
    pub fn body_arrived(&self) -> u64 {
        self.waiting.told_body
    }

    /// Who has left, of the last `Event::Gone`.
    pub fn left(&self) -> Left {
        self.waiting.told_left
    }

    /// Which descriptor is ready, of the last `Event::Ready`.
    pub fn ready(&self) -> Ready {
        self.waiting.told_ready
    }

    /// Asks for one `Event::Wake` at `due_ms` of `Worker::now_ms`; 0 = after the next turn,
    /// `u64::MAX` = not any more.
    pub fn wake_at(&mut self, due_ms: u64) {
        self.waiting.wake_ms = due_ms;
    }

    /// Milliseconds of the monotonic clock, read now.
    pub fn now_ms(&mut self) -> u64 {
        self.net.driver.refresh_now()
    }

    /// Whether the program has begun something (a task, a job for later) that should come to its end
    /// before the worker stops, within `drain_timeout_ms`.
    pub fn set_busy(&mut self, is_busy: bool) {
        self.waiting.is_busy = is_busy;
    }

    /// Whether the program has no room for another handler. Meanwhile requests and messages stay where
    /// they are, in the sockets; files and held clients wait with them, for they come by requests.
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
                self.settings.fibers_max
            );
            self.log_for_client(LogLevel::Warning, &message);
        } else {
            self.net.again.append(&mut self.waiting.held_back);
            self.http.streams.let_on();
        }
    }

    /// Lists a connection for the time when there is room again. True when it has to wait.
    pub(crate) fn hold_back(&mut self, index: u32) -> bool {
        if !self.waiting.is_full {
            return false;
        }
        let Some(connection) = self.net.connections.at_mut(index) else {
            return true;
        };
        if connection.origin != Origin::Public {
            return false;
        }
        connection.has_unread = true;
        if !std::mem::replace(&mut connection.is_again, true) {
            self.waiting.held_back.push(index);
            // A place that is used by client after client is listed for each of them.
            if self.waiting.held_back.len() > 2 * self.net.connections.len() + HELD_BACK_SLACK {
                self.waiting.held_back.sort_unstable();
                self.waiting.held_back.dedup();
            }
        }
        true
    }
}
