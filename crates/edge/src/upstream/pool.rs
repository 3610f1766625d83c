//! Connections that wait for another request, and whether a request may be sent again.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// The bounds of a [`Pool`]; each is a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a connection waits. Below what backends allow, so that they seldom close one as it is taken.
    pub idle_ms: u64,
    /// Waiting connections to one target.
    pub per_target_max: usize,
    /// Waiting connections in all.
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

/// Idle connections by target. `C` names one; the caller closes those returned as surplus or expired.
#[derive(Debug)]
pub struct Pool<T, C> {
    limits: Limits,
    idle: HashMap<T, VecDeque<(u64, C)>>,
    count: usize,
}

impl<T: Hash + Eq + Clone, C: PartialEq> Pool<T, C> {
    /// Empty.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            idle: HashMap::new(),
            count: 0,
        }
    }

    /// Puts a connection back; returns it where there is no room.
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

    /// Takes the connection that was used last, with the time since when it waits: the others may expire, and its caches
    /// are warm.
    pub fn take(&mut self, now_ms: u64, target: &T) -> Option<(u64, C)> {
        let waiting = self.idle.get_mut(target)?;
        let &(since_ms, _) = waiting.back()?;
        if now_ms.saturating_sub(since_ms) >= self.limits.idle_ms {
            return None;
        }
        let taken = waiting.pop_back()?;
        self.count -= 1;
        // The place stays until `expire`: this one comes back to it in a moment.
        Some(taken)
    }

    /// The backend has closed an idle connection, or sent something on it.
    pub fn remove(&mut self, target: &T, connection: &C) -> bool {
        let Some(waiting) = self.idle.get_mut(target) else {
            // None of this target waits.
            return false;
        };
        let before = waiting.len();
        waiting.retain(|(_, other)| other != connection);
        let removed = before - waiting.len();
        self.count -= removed;
        self.drop_empty(target);
        removed > 0
    }

    /// Hands out what has waited too long.
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

    /// Connections that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn drop_empty(&mut self, target: &T) {
        if self.idle.get(target).is_some_and(VecDeque::is_empty) {
            self.idle.remove(target);
        }
    }
}

/// How a request to a backend failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or no TLS: nothing was sent.
    Connect,
    /// The same, by what the request names: it says nothing about the target.
    Name,
    /// The target has said that it did not look at the request (RFC 9113, 8.7).
    Unprocessed,
    /// The connection ended before a byte of the response.
    NoResponse,
    /// It ended, or made no sense, within the response.
    Response,
    /// It took too long.
    TimeOut,
}

impl Failure {
    /// Whether the backend has got nothing of the request.
    pub fn is_unsent(self) -> bool {
        matches!(self, Failure::Connect | Failure::Name)
    }
}

/// What had been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The method may be repeated by itself (RFC 9110, 9.2.2).
    pub is_idempotent: bool,
    /// The connection had served a request before, so the backend may have closed it before it saw this one.
    pub is_reused: bool,
    /// The whole request is still here.
    pub is_replayable: bool,
}

/// Whether a failed request may be sent once more: to the next target, or on a fresh connection.
///
/// A request that a backend may have acted on is repeated only where that does no harm.
pub fn may_retry(failure: Failure, sent: Sent) -> bool {
    match failure {
        Failure::Connect | Failure::Name | Failure::Unprocessed => sent.is_replayable,
        Failure::NoResponse => sent.is_replayable && sent.is_reused && sent.is_idempotent,
        Failure::Response | Failure::TimeOut => false,
    }
}
