//! Chooses the targets of exchanges and records how their requests ended.
//!
//! A route with one unchecked target has no state here, and its requests have no overhead.

use fermata_config::LogLevel;

use crate::client::source::{Engine, Owner, Table, name_of};
use crate::routes::{Origin, Target};
use crate::upstream::exchange::{Purpose, UpstreamExchange};
use crate::upstream::targets::{Targets, Watched};
use crate::upstream::{Change, Policy, State, TargetSlot};

impl Targets {
    /// Sorts the targets of an exchange's route into the order in which they are tried, and selects the first one.
    pub fn choose(&self, exchange: &mut UpstreamExchange, now_ms: u64) {
        let Some(rule) = exchange.source.rule() else {
            return;
        };
        let health = self.health;
        // Events of an open WebSocket need a target with WebSocket-over-HTTP; only client requests can be served from files.
        let is_open = matches!(exchange.purpose, Purpose::Events(None));
        let reads = matches!(
            (&exchange.owner, &exchange.purpose),
            (Owner::Client(_), Purpose::Plain)
        );
        let fits = |at: &usize| {
            let target = &rule.targets[*at];
            (!is_open || target.over_http) && (reads || !matches!(target.origin, Origin::Files(_)))
        };
        let mut order: Vec<usize> = match exchange.source.watched() {
            None => (0..rule.targets.len()).filter(fits).collect(),
            Some(watched) => {
                let mut order = watched.order(rule, &exchange.source.request, health, now_ms);
                order.retain(fits);
                let own = exchange.source.target;
                let is_balanced = rule.target_options.policy != Policy::FailOver;
                // An open WebSocket stays with its target while the target is up.
                if is_open
                    && is_balanced
                    && watched.state(own, health, now_ms) != State::Out
                    && let Some(place) = order.iter().position(|&at| at == own)
                {
                    order[..=place].rotate_right(1);
                }
                order
            }
        };
        order.reverse();
        exchange.source.target = order.pop().unwrap_or(usize::MAX);
        exchange.targets = order;
    }

    /// Counts the exchange as a request to its target.
    pub fn enter(&self, exchange: &mut UpstreamExchange, now_ms: u64) {
        let target = exchange.source.target;
        let is_check = matches!(exchange.owner, Owner::Check(..));
        if exchange.is_counted || is_check {
            return;
        }
        let Some(watched) = exchange.source.watched() else {
            return;
        };
        watched.balancer.borrow_mut().begin(target);
        if let Some(&Some(slot)) = watched.slots.get(target) {
            exchange.health_at_send = self.health.on_request(slot, now_ms, watched.passive);
        }
        exchange.is_counted = true;
    }

    /// Records that the request failed, and logs when the target goes out.
    pub fn note_failed(&self, worker: &mut Engine, exchange: &UpstreamExchange, reason: &str) {
        let Some((watched, slot)) = watched_slot(exchange) else {
            return;
        };
        let now_ms = worker.net.now_ms();
        let change = self
            .health
            .on_failure(slot, exchange.health_at_send, now_ms, watched.passive);
        if change == Some(Change::Out) {
            let out_ms = watched.passive.out_ms;
            let line = format!(
                "{} is out for {out_ms} ms: {} requests failed, the last because {reason}",
                name_of(&exchange.source),
                watched.passive.failures_max,
            );
            worker.net.log(LogLevel::Warning, &line);
        }
    }

    /// Records that the target responded, and logs the recovery of a target that was out.
    pub fn note_answered(&self, worker: &mut Engine, exchange: &UpstreamExchange) {
        let Some((_, slot)) = watched_slot(exchange) else {
            return;
        };
        if self
            .health
            .on_success(slot, exchange.health_at_send)
            .is_some()
        {
            let line = format!("{} is back", name_of(&exchange.source));
            worker.net.log(LogLevel::Info, &line);
        }
    }

    /// Refreshes the slots of this worker's targets, so that the slots are not assigned to other targets.
    pub fn keep_slots(&self, table: &Table, now_ms: u64) {
        for watched in table.watched.iter().flatten() {
            for slot in watched.slots.iter().flatten() {
                self.health.keep(*slot, now_ms);
            }
        }
    }
}

impl UpstreamExchange {
    /// Subtracts the exchange from its target's requests in flight.
    pub(crate) fn leave_target(&mut self) {
        if !std::mem::take(&mut self.is_counted) {
            return;
        }
        if let Some(watched) = self.source.watched() {
            watched.balancer.borrow_mut().end(self.source.target);
        }
    }
}

fn watched_slot(exchange: &UpstreamExchange) -> Option<(&Watched, TargetSlot)> {
    let is_folder = |target: &Target| matches!(target.origin, Origin::Files(_));
    // A folder has no health state: a failed attempt to open it takes no noticeable time.
    if matches!(exchange.owner, Owner::Check(..)) || exchange.source.target().is_some_and(is_folder)
    {
        return None;
    }
    let watched = exchange.source.watched()?;
    let slot = (*watched.slots.get(exchange.source.target)?)?;
    Some((watched, slot))
}
