//! Which requests are begun in a turn.
//!
//! A request whose handler is known to take long waits here until everything short has been done, and so does one of a
//! route that is not known yet when this turn's handlers have taken long already. From here requests are begun for a
//! bounded time of each turn, the routes taking turns. So a short request waits for the rest of one turn, and not for all
//! handlers of a crowd that came before. Handlers that take neither long nor next to nothing are begun at once until those of
//! the turn have taken as much; routes that are known as short never wait here.
//!
//! How long a handler takes is measured in each call until its route is known and while it is not short, and in one of
//! [`SAMPLE`] calls else: a look at the clock costs as much as finding the route.
//!
//! The price: requests of different connections may be answered in another order than they came in. Those of one connection
//! are not, and those of one route are begun in their order.

use std::collections::VecDeque;

use crate::http::request::Request;

/// Time that handlers which are begun at once may take in a turn until routes wait that are not known as short. None is
/// interrupted.
pub(crate) const AT_ONCE_US_MAX: u64 = 4_000;

/// Time that handlers begun from here, and handlers that go on after a wait, may take in a turn, each. One of either kind
/// runs however long the turn has lasted.
pub(crate) const LONG_US_MAX: u64 = 2_000;

/// From this mean time on the handlers of a route wait for short ones.
const LONG_US: u64 = 500;

/// From this mean time on each call is measured, and those of a turn are bounded: a crowd of them takes long, too.
const MEDIUM_US: u64 = 100;

/// One call counts as so much at most: a single one that was held up does not make a short route a long one.
const CALL_US_MAX: u64 = 4 * LONG_US;

/// The mean moves by this part of the difference with each call.
const MEAN_PART: u64 = 16;

/// A route is known after so many calls.
const CALLS_KNOWN: u8 = 16;

/// Of a route that is known as short one of so many calls is measured.
const SAMPLE: u8 = 8;

/// Routes with larger numbers are all begun at once.
const ROUTES_MAX: usize = 1 << 16;

/// Requests whose clients have left are sought when there are so many, and when they are this part of those that wait: so
/// they hold little, and each costs a few looks.
const DEAD_MIN: usize = 64;
const DEAD_PART: usize = 8;

/// Emptied requests kept for the next, and the room for a body that each keeps.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 * 1024;

/// What runs, and on whose account.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Nothing,
    /// The handler of this number, from the beginning.
    AtOnce(u32),
    /// The same, after it has waited here.
    Queued(u32),
    /// A handler or task that has waited for something else.
    Resumed,
}

#[derive(Default)]
struct Route {
    /// How long its handlers take until they end or wait, times [`MEAN_PART`].
    mean_us: u64,
    /// Calls that were measured, until it is known.
    calls: u8,
    /// Calls since one was measured.
    unmeasured: u8,
    waiting: VecDeque<Queued>,
}

/// A request that waits for being begun.
pub(crate) struct Queued {
    pub request: Box<Request>,
    pub since_ms: u64,
}

/// The requests of a worker that wait for being begun; at most one for each connection or stream, and a few of clients that
/// have left.
pub(crate) struct Starts {
    /// By the number of the handler.
    routes: Vec<Route>,
    /// Handlers with requests that wait, in the order in which each gives one.
    rotation: VecDeque<u32>,
    /// Requests that wait, of all handlers.
    waiting_len: usize,
    /// Those of them whose clients have left.
    dead_len: usize,
    #[expect(
        clippy::vec_box,
        reason = "they come and go boxed, and moving a request is dear"
    )]
    spares: Vec<Box<Request>>,
    runs: Runs,
    since_us: u64,
    at_once_us: u64,
    queued_us: u64,
    resumed_us: u64,
}

impl Starts {
    pub fn new() -> Starts {
        Starts {
            routes: Vec::new(),
            rotation: VecDeque::new(),
            waiting_len: 0,
            dead_len: 0,
            spares: Vec::new(),
            runs: Runs::Nothing,
            since_us: 0,
            at_once_us: 0,
            queued_us: 0,
            resumed_us: 0,
        }
    }

    /// Another turn: all may take as much again.
    pub fn begin_turn(&mut self) {
        self.at_once_us = 0;
        self.queued_us = 0;
        self.resumed_us = 0;
    }

    /// Whether a handler runs whose time is measured: then it is to be said when it begins and returns.
    #[inline]
    pub fn is_measuring(&self) -> bool {
        self.runs != Runs::Nothing
    }

    /// What `begin`, `take` or `begin_resumed` was about begins.
    #[inline]
    pub fn note_begin(&mut self, now_us: u64) {
        self.since_us = now_us;
    }

    /// What ran has returned, or waits.
    #[inline]
    pub fn note_return(&mut self, now_us: u64) {
        let took_us = now_us.saturating_sub(self.since_us);
        let handler = match std::mem::replace(&mut self.runs, Runs::Nothing) {
            Runs::Nothing => return,
            Runs::Resumed => {
                self.resumed_us += took_us;
                return;
            }
            Runs::AtOnce(handler) => {
                self.at_once_us += took_us;
                handler
            }
            Runs::Queued(handler) => {
                self.queued_us += took_us;
                handler
            }
        };
        // Those beyond `ROUTES_MAX` are not measured.
        if let Some(route) = self.routes.get_mut(handler as usize) {
            let mean_us = route.mean_us - route.mean_us / MEAN_PART;
            route.mean_us = mean_us + took_us.min(CALL_US_MAX);
            route.calls = route.calls.saturating_add(1);
        }
    }

    /// A handler goes on that has waited.
    pub fn begin_resumed(&mut self) {
        self.runs = Runs::Resumed;
    }

    /// Whether another handler may go on in this turn that has waited.
    pub fn may_resume(&self) -> bool {
        self.resumed_us < LONG_US_MAX
    }

    /// Whether a request for this handler is begun now; otherwise it is to be put here.
    #[inline]
    pub fn begin(&mut self, handler: u32) -> bool {
        let at = handler as usize;
        if at >= self.routes.len() {
            if at >= ROUTES_MAX {
                return true;
            }
            self.routes.resize_with(at + 1, Route::default);
        }
        let route = &mut self.routes[at];
        if route.mean_us >= MEDIUM_US * MEAN_PART {
            let is_long = route.mean_us >= LONG_US * MEAN_PART;
            if is_long || self.at_once_us >= AT_ONCE_US_MAX || !route.waiting.is_empty() {
                return false;
            }
        } else if route.calls < CALLS_KNOWN {
            if self.at_once_us >= AT_ONCE_US_MAX || !route.waiting.is_empty() {
                return false;
            }
        } else if route.unmeasured < SAMPLE - 1 {
            route.unmeasured += 1;
            return true;
        }
        route.unmeasured = 0;
        self.runs = Runs::AtOnce(handler);
        true
    }

    /// A request that is not begun now.
    pub fn put(&mut self, queued: Queued) {
        let handler = queued.request.handler;
        let at = handler as usize;
        if at >= self.routes.len() {
            self.routes.resize_with(at + 1, Route::default);
        }
        let route = &mut self.routes[at];
        if route.waiting.is_empty() {
            self.rotation.push_back(handler);
        }
        route.waiting.push_back(queued);
        self.waiting_len += 1;
    }

    /// The client of a request that waits has left. True when those of such clients are to be taken out.
    pub fn note_dead(&mut self) -> bool {
        self.dead_len += 1;
        self.dead_len >= DEAD_MIN.max(self.waiting_len / DEAD_PART)
    }

    /// One of a client that has left was taken in its turn.
    pub fn forget_dead(&mut self) {
        self.dead_len = self.dead_len.saturating_sub(1);
    }

    /// Takes out the requests whose clients have left.
    #[expect(clippy::vec_box, reason = "as with `spares`")]
    pub fn take_dead(&mut self, is_dead: impl Fn(&Request) -> bool) -> Vec<Box<Request>> {
        let mut dead = Vec::with_capacity(self.dead_len);
        for &handler in &self.rotation {
            let waiting = &mut self.routes[handler as usize].waiting;
            for _ in 0..waiting.len() {
                match waiting.pop_front() {
                    Some(queued) if is_dead(&queued.request) => dead.push(queued.request),
                    queued => waiting.extend(queued),
                }
            }
        }
        self.rotation
            .retain(|&it| !self.routes[it as usize].waiting.is_empty());
        self.waiting_len -= dead.len();
        self.dead_len = 0;
        dead
    }

    /// How many wait, with those whose clients have left.
    #[cfg(test)]
    pub fn waiting_len(&self) -> usize {
        self.waiting_len
    }

    pub fn is_empty(&self) -> bool {
        self.rotation.is_empty()
    }

    /// The next request to begin in this turn.
    pub fn take(&mut self) -> Option<Queued> {
        if self.queued_us >= LONG_US_MAX {
            return None;
        }
        let handler = self.rotation.pop_front()?;
        let waiting = &mut self.routes.get_mut(handler as usize)?.waiting;
        let queued = waiting.pop_front();
        if !waiting.is_empty() {
            self.rotation.push_back(handler);
        }
        self.waiting_len -= usize::from(queued.is_some());
        self.runs = Runs::Queued(handler);
        queued
    }

    /// What was taken is not begun.
    pub fn cancel(&mut self) {
        self.runs = Runs::Nothing;
    }

    /// The oldest that has waited since before `before_ms`, route by route.
    pub fn take_overdue(&mut self, before_ms: u64) -> Option<Queued> {
        let handler = self.rotation.iter().copied().find(|&handler| {
            let first = self.routes[handler as usize].waiting.front();
            first.is_some_and(|it| it.since_ms <= before_ms)
        })?;
        let waiting = &mut self.routes[handler as usize].waiting;
        let queued = waiting.pop_front();
        if waiting.is_empty() {
            self.rotation.retain(|&it| it != handler);
        }
        self.waiting_len -= usize::from(queued.is_some());
        queued
    }

    /// Since when the oldest has waited; `None` = none does.
    pub fn oldest_ms(&self) -> Option<u64> {
        let waiting = self.rotation.iter();
        let first = waiting.filter_map(|&it| self.routes[it as usize].waiting.front());
        first.map(|it| it.since_ms).min()
    }

    /// An empty one.
    pub fn spare(&mut self) -> Box<Request> {
        let spare = self.spares.pop();
        spare.unwrap_or_else(|| Box::new(Request::new()))
    }

    /// Takes one back.
    pub fn keep_spare(&mut self, mut request: Box<Request>) {
        if self.spares.len() < SPARES_MAX {
            // A large body is not kept for a small one.
            if request.body_bytes.capacity() > SPARE_BYTES_MAX {
                request.body_bytes = Vec::new();
            }
            self.spares.push(request);
        }
    }
}
