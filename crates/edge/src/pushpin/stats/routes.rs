//! Reports of single routes with an id, up to a limit.

use std::collections::HashMap;

use fermata_edge_pushpin::stats::published::Published;

use crate::routes::figures::Counts;

/// Maximum number of routes with their own report; further routes count only in the total.
const ROUTES_MAX: usize = 256;
const MINUTE_MS: u64 = 60_000;

/// Counts of a route since its last report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// Number of held clients, by worker.
    by_worker: HashMap<u64, u64>,
    connections_max: u64,
    /// Connected time that was not reported.
    connected_ms: u64,
    pub received: u64,
    pub sent: u64,
    pub published: Published,
    /// Counters at the last report.
    pub last: Counts,
}

impl Route {
    fn connections(&self) -> u64 {
        self.by_worker.values().sum()
    }

    /// Returns the maximum of concurrent connections since the last report.
    pub fn take_connections(&mut self) -> u64 {
        let now = self.connections();
        std::mem::replace(&mut self.connections_max, now)
    }

    /// Returns the full minutes of connected time and retains the remainder.
    pub fn take_minutes(&mut self) -> u64 {
        let minutes = self.connected_ms / MINUTE_MS;
        self.connected_ms %= MINUTE_MS;
        minutes
    }
}

/// Reports of all routes.
#[derive(Debug, Default)]
pub(crate) struct RouteReports {
    routes: HashMap<Vec<u8>, Route>,
    since_ms: u64,
}

impl RouteReports {
    /// Returns the route of this name. `None` without a name or above the limit.
    pub fn get(&mut self, name: &[u8]) -> Option<&mut Route> {
        let is_new = !self.routes.contains_key(name);
        if name.is_empty() || (is_new && self.routes.len() >= ROUTES_MAX) {
            return None;
        }
        Some(self.routes.entry(name.to_vec()).or_default())
    }

    /// Sets the number of a worker's clients of a route.
    pub fn set(&mut self, worker: u64, name: &[u8], count: u64) {
        let Some(route) = self.get(name) else {
            // Without a name or beyond the limit.
            return;
        };
        match count {
            0 => route.by_worker.remove(&worker),
            count => route.by_worker.insert(worker, count),
        };
        route.connections_max = route.connections_max.max(route.connections());
    }

    /// Removes the clients of a worker that exited.
    pub fn forget(&mut self, worker: u64) {
        for route in self.routes.values_mut() {
            route.by_worker.remove(&worker);
        }
    }

    /// Adds the time since the previous call to the connected time of each route, once per connection.
    pub fn pass(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(std::mem::replace(&mut self.since_ms, now_ms));
        for route in self.routes.values_mut() {
            route.connected_ms += route.connections() * passed_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_their_minutes_are_those_of_all_workers() {
        let mut reports = RouteReports::default();
        reports.pass(1_000);
        reports.set(1, b"r", 2);
        reports.set(2, b"r", 1);
        reports.set(1, b"r", 1);
        reports.pass(46_000);
        reports.forget(2);
        reports.pass(91_000);
        let route = reports.get(b"r").expect("it is there");
        assert_eq!((route.connections_max, route.connections()), (3, 1));
        // Two connections for 45 seconds, then one: 135 seconds.
        assert_eq!((route.take_minutes(), route.connected_ms), (2, 15_000));
    }

    #[test]
    fn so_many_routes_are_reported_and_none_without_a_name() {
        let mut reports = RouteReports::default();
        assert!(reports.get(b"").is_none());
        let names = (0..2 * ROUTES_MAX).map(|it| it.to_string().into_bytes());
        let known = names.filter(|name| reports.get(name).is_some()).count();
        assert_eq!(known, ROUTES_MAX);
        assert!(reports.get(b"0").is_some());
    }
}
