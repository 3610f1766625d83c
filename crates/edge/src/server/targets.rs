//! Which target of its route a request goes to, and how targets fare.
//!
//! Of a route with one target that nobody checks nothing is remembered here, and its requests cost nothing.

use fermata_config::LogLevel;

use crate::client::source::{Owner, Table, name_of};
use crate::routes::{Origin, Target};
use crate::server::edge::Edge;
use crate::upstream::talk::{Purpose, Talk};
use crate::upstream::targets::Watched;
use crate::upstream::{Change, Policy, Seat, State};

impl Edge {
    /// Puts the targets of a conversation's route into the order in which they are asked, and takes the first.
    pub(super) fn choose(&mut self, talk: &mut Talk) {
        let Some(rule) = talk.source.rule() else {
            return;
        };
        let (health, now_ms) = (self.targets.health, self.worker.now_ms());
        // Events of an open WebSocket are for targets that know such, and files for clients that read them.
        let is_open = matches!(talk.purpose, Purpose::Events(None));
        let reads = matches!(
            (&talk.owner, &talk.purpose),
            (Owner::Client(_), Purpose::Plain)
        );
        let fits = |at: &usize| {
            let target = &rule.targets[*at];
            (!is_open || target.over_http) && (reads || !matches!(target.origin, Origin::Files(_)))
        };
        let mut order: Vec<usize> = match talk.source.watched() {
            None => (0..rule.targets.len()).filter(fits).collect(),
            Some(watched) => {
                let mut order = watched.order(rule, &talk.source.request, health, now_ms);
                order.retain(fits);
                let own = talk.source.target;
                let is_balanced = rule.care.policy != Policy::FailOver;
                // An open one stays where it is as long as it can.
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
        talk.source.target = order.pop().unwrap_or(usize::MAX);
        talk.targets = order;
    }

    /// A conversation goes on with the next target.
    pub(super) fn next_target(&mut self, talk: &mut Talk) {
        self.leave_target(talk);
        self.end_opening(talk);
        talk.addresses.clear();
        talk.source.target = talk.targets.pop().unwrap_or(usize::MAX);
    }

    /// A conversation turns to its target.
    pub(super) fn enter_target(&mut self, talk: &mut Talk) {
        let now_ms = self.worker.now_ms();
        let target = talk.source.target;
        let is_check = matches!(talk.owner, Owner::Check(..));
        if talk.is_counted || is_check {
            return;
        }
        let Some(watched) = talk.source.watched() else {
            return;
        };
        watched.balancer.borrow_mut().begin(target);
        if let Some(&Some(seat)) = watched.seats.get(target) {
            let health = self.targets.health;
            talk.target_asked = health.on_request(seat, now_ms, watched.passive);
        }
        talk.is_counted = true;
    }

    /// A conversation has nothing to do with its target any more.
    pub(super) fn leave_target(&mut self, talk: &mut Talk) {
        if !std::mem::take(&mut talk.is_counted) {
            return;
        }
        if let Some(watched) = talk.source.watched() {
            watched.balancer.borrow_mut().end(talk.source.target);
        }
    }

    /// The target of a conversation was of no use.
    pub(super) fn note_failed(&mut self, talk: &Talk, reason: &str) {
        let Some((watched, seat)) = watched_seat(talk) else {
            return;
        };
        let now_ms = self.worker.now_ms();
        let health = self.targets.health;
        let change = health.on_failure(seat, talk.target_asked, now_ms, watched.passive);
        if change == Some(Change::Out) {
            let out_ms = watched.passive.out_ms;
            let line = format!(
                "{} is out for {out_ms} ms: {} requests failed, the last because {reason}",
                name_of(&talk.source),
                watched.passive.failures_max,
            );
            self.worker.log(LogLevel::Warning, &line);
        }
    }

    /// The target of a conversation has answered.
    pub(super) fn note_answered(&mut self, talk: &Talk) {
        let Some((_, seat)) = watched_seat(talk) else {
            return;
        };
        let health = self.targets.health;
        if health.on_success(seat, talk.target_asked).is_some() {
            let line = format!("{} is back", name_of(&talk.source));
            self.worker.log(LogLevel::Info, &line);
        }
    }

    /// Tells others that the seats of our targets are in use.
    pub(super) fn keep_seats(&mut self, table: &Table) {
        let now_ms = self.worker.now_ms();
        for watched in table.watched.iter().flatten() {
            for seat in watched.seats.iter().flatten() {
                self.targets.health.keep(*seat, now_ms);
            }
        }
    }
}

fn watched_seat(talk: &Talk) -> Option<(&Watched, Seat)> {
    let is_folder = |target: &Target| matches!(target.origin, Origin::Files(_));
    // A folder is there or it is not, which costs nothing to find out each time.
    if matches!(talk.owner, Owner::Check(..)) || talk.source.target().is_some_and(is_folder) {
        return None;
    }
    let watched = talk.source.watched()?;
    let seat = (*watched.seats.get(talk.source.target)?)?;
    Some((watched, seat))
}
