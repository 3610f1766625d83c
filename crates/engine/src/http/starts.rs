//! Scheduling of request handlers within a turn.
//!
//! A request whose handler usually takes long waits here until all short work of the turn is done.
//! A request of an unmeasured route also waits here, if the handlers of the turn have already taken
//! long. Waiting requests start for a limited time in each turn, and routes take turns. So a short
//! request waits for the rest of one turn, not for all handlers of an earlier crowd. Medium
//! handlers start immediately until the medium handlers of the turn have used the same time. Short
//! routes never wait here.
//!
//! The duration of each call is measured until its route is known, and while the route is not
//! short. For a short route, only one of [`SAMPLE`] calls is measured, because reading the clock
//! costs as much as routing.
//!
//! Disadvantage: requests of different connections may be answered out of order. Requests of one
//! connection are answered in order, and requests of one route start in order.

use std::collections::VecDeque;

use crate::http::request::Request;

/// Handler time in a turn, in microseconds, after which routes that are not known as short wait.
/// Handlers are not interrupted.
pub(crate) const AT_ONCE_US_MAX: u64 = 4_000;

/// Time limit in microseconds per turn: one for handlers that waited here to start, and one for
/// handlers resumed after a wait. At least one handler of each kind runs per turn.
pub(crate) const LONG_US_MAX: u64 = 2_000;

/// Mean duration in microseconds from which a route's handlers wait until short ones have run.
const LONG_US: u64 = 500;

/// Mean duration in microseconds from which each call is measured and the calls per turn are
/// limited, because many such calls also take long.
const MEDIUM_US: u64 = 100;

/// Maximum duration counted for one call, so that a single delayed call does not mark a short route
/// as long.
const CALL_US_MAX: u64 = 4 * LONG_US;

/// Divisor of the weight of a new call in the mean.
const MEAN_PART: u64 = 16;

/// Number of measured calls after which a route's mean duration is used.
const CALLS_KNOWN: u8 = 16;

/// Sampling interval for short routes, in calls.
const SAMPLE: u8 = 8;

/// Number of measured routes; larger handler numbers always start immediately.
const ROUTES_MAX: usize = 1 << 16;

/// Minimum number of waiting requests of disconnected clients at which they are removed.
const DEAD_MIN: usize = 64;
/// Requests of disconnected clients are removed only if they are at least this fraction (1/8) of all
/// waiting requests: a removal visits all of these.
const DEAD_PART: usize = 8;

/// Number of cleared requests kept for reuse, and the maximum body buffer that each keeps.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 * 1024;

/// The running handler, and the time limit that it counts against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Nothing,
    /// The handler with this number, started immediately.
    AtOnce(u32),
    /// The handler with this number, started after waiting here.
    Queued(u32),
    /// A handler or task resumed after another wait.
    Resumed,
}

#[derive(Default)]
struct Route {
    /// Mean duration of the route's handlers until they return or wait, times [`MEAN_PART`].
    mean_us: u64,
    /// Number of measured calls, up to [`CALLS_KNOWN`].
    calls: u8,
    /// Number of calls since the last measured call.
    unmeasured: u8,
    waiting: VecDeque<Queued>,
}

/// A request that waits to start.
pub(crate) struct Queued {
    pub request: Box<Request>,
    pub since_ms: u64,
}

/// The waiting requests of a worker: at most one per connection or stream, and some requests of
/// disconnected clients.
pub(crate) struct Starts {
    /// Routes, by handler number.
    routes: Vec<Route>,
    /// Handlers with waiting requests, in round-robin order.
    rotation: VecDeque<u32>,
    /// Number of waiting requests of all handlers.
    waiting_len: usize,
    /// Number of waiting requests whose clients have disconnected.
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

    /// Starts another turn, with new time limits.
    pub fn begin_turn(&mut self) {
        self.at_once_us = 0;
        self.queued_us = 0;
        self.resumed_us = 0;
    }

    /// Returns true if a measured handler runs. The caller then has to report its start and its
    /// return.
    #[inline]
    pub fn is_measuring(&self) -> bool {
        self.runs != Runs::Nothing
    }

    /// Notes the start of the handler or request that `begin`, `take` or `begin_resumed` returned.
    #[inline]
    pub fn note_begin(&mut self, now_us: u64) {
        self.since_us = now_us;
    }

    /// Notes that the handler has returned or waits.
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
        // Handlers beyond `ROUTES_MAX` are not measured.
        if let Some(route) = self.routes.get_mut(handler as usize) {
            let mean_us = route.mean_us - route.mean_us / MEAN_PART;
            route.mean_us = mean_us + took_us.min(CALL_US_MAX);
            route.calls = route.calls.saturating_add(1);
        }
    }

    /// Notes that a handler resumes after a wait.
    pub fn begin_resumed(&mut self) {
        self.runs = Runs::Resumed;
    }

    /// Returns true if another waiting handler may resume in this turn.
    pub fn may_resume(&self) -> bool {
        self.resumed_us < LONG_US_MAX
    }

    /// Returns true if a request for this handler starts now. If false, the caller must queue the
    /// request here.
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

    /// Adds a request that does not start now.
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

    /// Notes that the client of a waiting request has disconnected. Returns true if such requests
    /// should be removed.
    pub fn note_dead(&mut self) -> bool {
        self.dead_len += 1;
        self.dead_len >= DEAD_MIN.max(self.waiting_len / DEAD_PART)
    }

    /// Notes that the request of a disconnected client was removed in its turn.
    pub fn forget_dead(&mut self) {
        self.dead_len = self.dead_len.saturating_sub(1);
    }

    /// Removes and returns the requests whose clients have disconnected.
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

    /// Returns the number of waiting requests, including those of disconnected clients.
    #[cfg(test)]
    pub fn waiting_len(&self) -> usize {
        self.waiting_len
    }

    pub fn is_empty(&self) -> bool {
        self.rotation.is_empty()
    }

    /// Returns the next request to start in this turn.
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

    /// Notes that the request returned by `take` does not start.
    pub fn cancel(&mut self) {
        self.runs = Runs::Nothing;
    }

    /// Returns a request that has waited since before `before_ms`, route by route.
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

    /// Returns the time since which the oldest request has been waiting; `None` if no request
    /// waits.
    pub fn oldest_ms(&self) -> Option<u64> {
        let waiting = self.rotation.iter();
        let first = waiting.filter_map(|&it| self.routes[it as usize].waiting.front());
        first.map(|it| it.since_ms).min()
    }

    /// Returns an empty request.
    pub fn spare(&mut self) -> Box<Request> {
        let spare = self.spares.pop();
        spare.unwrap_or_else(|| Box::new(Request::new()))
    }

    /// Stores a request for reuse.
    pub fn keep_spare(&mut self, mut request: Box<Request>) {
        if self.spares.len() < SPARES_MAX {
            // A large body buffer is not kept for small bodies.
            if request.body_bytes.capacity() > SPARE_BYTES_MAX {
                request.body_bytes = Vec::new();
            }
            self.spares.push(request);
        }
    }
}
