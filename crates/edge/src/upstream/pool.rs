//! Idle connections, and the rule for sending a failed request again.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// Limits of a [`Pool`]; each is a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Idle time in milliseconds after which a connection is closed. It is shorter than the usual keep-alive time of backends, so
    /// that a backend rarely closes a connection just before a request is sent on it.
    pub idle_ms: u64,
    /// Maximum number of idle connections to one target.
    pub per_target_max: usize,
    /// Maximum number of idle connections to all targets.
    pub total_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle_ms: 55_000,
            per_target_max: 64,
            total_max: 1_024,
        }
    }
}

/// Idle connections by target. `C` identifies a connection. The caller closes connections that are returned as surplus or expired.
#[derive(Debug)]
pub struct Pool<T, C> {
    limits: Limits,
    idle: HashMap<T, VecDeque<(u64, C)>>,
    count: usize,
}

impl<T: Hash + Eq + Clone, C: PartialEq> Pool<T, C> {
    /// Creates an empty pool.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            idle: HashMap::new(),
            count: 0,
        }
    }

    /// Adds a connection. Returns it if the pool is full.
    pub fn put(&mut self, now_ms: u64, target: &T, connection: C) -> Option<C> {
        if self.count >= self.limits.total_max {
            return Some(connection);
        }
        let waiting = self.idle.entry(target.clone()).or_default();
        if waiting.len() >= self.limits.per_target_max {
            return Some(connection);
        }
        waiting.push_back((now_ms, connection));
        self.count += 1;
        None
    }

    /// Removes and returns the most recently used connection, and the time since which it is idle. The other connections can thus
    /// expire.
    pub fn take(&mut self, now_ms: u64, target: &T) -> Option<(u64, C)> {
        let waiting = self.idle.get_mut(target)?;
        let &(since_ms, _) = waiting.back()?;
        if now_ms.saturating_sub(since_ms) >= self.limits.idle_ms {
            return None;
        }
        let taken = waiting.pop_back()?;
        self.count -= 1;
        // An empty entry stays until `expire`, because the connection usually returns soon.
        Some(taken)
    }

    /// Removes an idle connection that the backend closed or wrote to.
    pub fn remove(&mut self, target: &T, connection: &C) -> bool {
        let Some(waiting) = self.idle.get_mut(target) else {
            // The target has no idle connection.
            return false;
        };
        let before = waiting.len();
        waiting.retain(|(_, other)| other != connection);
        let removed = before - waiting.len();
        self.count -= removed;
        self.drop_empty(target);
        removed > 0
    }

    /// Moves connections that were idle too long to `expired`.
    pub fn expire(&mut self, now_ms: u64, expired: &mut Vec<C>) {
        let idle_ms = self.limits.idle_ms;
        for waiting in self.idle.values_mut() {
            while let Some((since_ms, _)) = waiting.front()
                && now_ms.saturating_sub(*since_ms) >= idle_ms
                && let Some((_, connection)) = waiting.pop_front()
            {
                expired.push(connection);
                self.count -= 1;
            }
        }
        self.idle.retain(|_, waiting| !waiting.is_empty());
    }

    /// Returns the number of idle connections.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if no connection is idle.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn drop_empty(&mut self, target: &T) {
        if self.idle.get(target).is_some_and(VecDeque::is_empty) {
            self.idle.remove(target);
        }
    }
}

/// How a request to a target failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Connecting or the TLS handshake failed: nothing was sent.
    Connect,
    /// Like `Connect`, but the cause is a name in the request. Such a failure does not count against the target.
    Name,
    /// The target did not process the request (RFC 9113, section 8.7).
    Unprocessed,
    /// The connection ended before the first byte of the response.
    NoResponse,
    /// The response was incomplete or malformed.
    Response,
    /// A time-out.
    TimeOut,
}

impl Failure {
    /// Returns true if nothing of the request was sent.
    pub fn is_unsent(self) -> bool {
        matches!(self, Failure::Connect | Failure::Name)
    }
}

/// Properties of the request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The method is idempotent (RFC 9110, section 9.2.2).
    pub is_idempotent: bool,
    /// The connection had served a request before, so the backend may have closed it before this request arrived.
    pub is_reused: bool,
    /// The edge still has the complete request.
    pub is_replayable: bool,
}

/// Returns true if a failed request may be sent again, to the next target or on a new connection.
///
/// If a backend may have processed a request, the request is repeated only if it is idempotent.
pub fn may_retry(failure: Failure, sent: Sent) -> bool {
    match failure {
        Failure::Connect | Failure::Name | Failure::Unprocessed => sent.is_replayable,
        Failure::NoResponse => sent.is_replayable && sent.is_reused && sent.is_idempotent,
        Failure::Response | Failure::TimeOut => false,
    }
}
