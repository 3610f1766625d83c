//! Which target of its route a request goes to, and how targets fare.
//!
//! Of a route with one target that nobody checks nothing is remembered here, and its requests cost nothing.

use std::cell::RefCell;
use std::collections::HashMap;

use fermata_config::LogLevel;
use fermata_io::shm::Shared;

use super::edge::{Edge, Owner, Source, Table};
use super::origin::{Purpose, Talk};
use super::request::ClientRequest;
use crate::routes::{Origin, Routes, Rule, Target};
use crate::settings::Settings;
use crate::upstream::{
    Balancer, Candidate, Change, HashBy, Health, MEMORY_WORDS, Passive, Policy, Seat, State,
};

/// What is known of all targets, by all workers.
#[derive(Clone, Copy)]
pub(super) struct Targets {
    pub health: Health,
    passive: Passive,
    check: Checking,
}

/// How a target is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checking {
    pub interval_ms: u64,
    pub timeout_ms: u64,
    pub rise: u64,
    pub fall: u64,
}

/// What is known of the targets of one route.
#[derive(Debug)]
pub(super) struct Watched {
    /// By target; `None`: there was no room.
    pub seats: Vec<Option<Seat>>,
    balancer: RefCell<Balancer>,
    passive: Passive,
    /// How they are checked, if they are.
    pub check: Option<Checking>,
}

impl Targets {
    /// Before workers are forked.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(settings: &Settings) -> std::io::Result<Self> {
        let memory = Shared::anonymous(MEMORY_WORDS)?;
        Ok(Self {
            health: Health::new(memory.words()),
            passive: Passive {
                failures_max: settings.number("origin_out_after"),
                within_ms: settings.number("origin_out_within_ms"),
                out_ms: settings.number("origin_out_for_ms"),
            },
            check: Checking {
                interval_ms: settings.number("origin_check_interval_ms"),
                timeout_ms: settings.number("origin_check_timeout_ms"),
                rise: settings.number("origin_check_rise"),
                fall: settings.number("origin_check_fall"),
            },
        })
    }

    /// What is to be known of the targets of these routes, by route. Requests by the routes `before` go on.
    pub fn watch(
        &self,
        routes: &Routes,
        before: &[Option<Watched>],
        now_ms: u64,
    ) -> Vec<Option<Watched>> {
        let mut known = HashMap::new();
        for watched in before.iter().flatten() {
            for (target, seat) in watched.seats.iter().enumerate() {
                if let Some(seat) = seat {
                    known.entry(*seat).or_insert((watched, target));
                }
            }
        }
        let watch = |rule: &Rule| {
            let is_alone = rule.targets.len() < 2 && rule.care.check.is_none();
            (!is_alone).then(|| {
                let watched = self.watch_rule(rule, now_ms);
                watched.share(&known);
                watched
            })
        };
        routes.rules().iter().map(watch).collect()
    }

    fn watch_rule(&self, rule: &Rule, now_ms: u64) -> Watched {
        const SECOND: u64 = 1_000;
        let (care, label) = (&rule.care, rule.label());
        let seats = rule.targets.iter().map(|target| {
            self.health
                .seat(&format!("{label} {}", target.name), now_ms)
        });
        let ms = |seconds: Option<u64>, ms| seconds.map_or(ms, |it| it * SECOND);
        Watched {
            seats: seats.collect(),
            balancer: RefCell::new(Balancer::new(rule.targets.len())),
            passive: Passive {
                failures_max: care.out_after.unwrap_or(self.passive.failures_max),
                out_ms: ms(care.out_for_s, self.passive.out_ms),
                ..self.passive
            },
            check: care.check.as_ref().map(|_| Checking {
                interval_ms: ms(care.check_interval_s, self.check.interval_ms),
                timeout_ms: ms(care.check_timeout_s, self.check.timeout_ms),
                rise: care.check_rise.unwrap_or(self.check.rise),
                fall: care.check_fall.unwrap_or(self.check.fall),
            }),
        }
    }
}

impl Watched {
    /// Counts requests together with those of routes that were read before.
    fn share(&self, known: &HashMap<Seat, (&Watched, usize)>) {
        let mut balancer = self.balancer.borrow_mut();
        for (target, seat) in self.seats.iter().enumerate() {
            if let Some((before, of)) = seat.as_ref().and_then(|seat| known.get(seat)) {
                balancer.share(target, &before.balancer.borrow(), *of);
            }
        }
    }

    /// How a target fares.
    pub fn state(&self, target: usize, health: Health, now_ms: u64) -> State {
        match self.seats.get(target) {
            Some(&Some(seat)) => health.state(seat, now_ms),
            _ => State::Up,
        }
    }

    fn order(
        &self,
        rule: &Rule,
        request: &ClientRequest,
        health: Health,
        now_ms: u64,
    ) -> Vec<usize> {
        let targets: Vec<Candidate<'_>> = rule
            .targets
            .iter()
            .enumerate()
            .map(|(at, target)| Candidate {
                name: &target.name,
                weight: target.weight,
                is_reserve: target.is_reserve,
                state: self.state(at, health, now_ms),
            })
            .collect();
        let policy = &rule.care.policy;
        let key = match policy {
            Policy::Hash(by) => hash_key(by, request),
            _ => Vec::new(),
        };
        self.balancer.borrow_mut().order(policy, &targets, &key)
    }
}

/// What requests have in common that go to the same target; nothing where they have not got it.
fn hash_key(by: &HashBy, request: &ClientRequest) -> Vec<u8> {
    let key = match by {
        HashBy::Client => return request.peer.ip().map_or(Vec::new(), address_bytes),
        HashBy::Path => Some(request.path()),
        HashBy::Header(name) => request.header(name),
        HashBy::Cookie(name) => request
            .headers
            .iter()
            .filter(|(header, _)| header.eq_ignore_ascii_case(b"cookie"))
            .flat_map(|(_, value)| value.split(|&byte| byte == b';'))
            .filter_map(|pair| pair.trim_ascii().split_at_checked(name.len()))
            .find(|(start, rest)| *start == name.as_bytes() && rest.first() == Some(&b'='))
            .map(|(_, rest)| &rest[1..]),
    };
    key.unwrap_or_default().to_vec()
}

fn address_bytes(address: std::net::IpAddr) -> Vec<u8> {
    match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

impl Table {
    /// Whether a route checks this target.
    pub fn is_checked(&self, seat: Seat) -> bool {
        let is_its =
            |watched: &Watched| watched.check.is_some() && watched.seats.contains(&Some(seat));
        self.watched.iter().flatten().any(is_its)
    }
}

impl Source {
    /// What is known of the targets of its route.
    pub fn watched(&self) -> Option<&Watched> {
        self.table.watched.get(self.rule)?.as_ref()
    }
}

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

/// The target of a request, for the log.
pub(super) fn name_of(source: &Source) -> String {
    let target = source.target().map_or("", |it| &it.name);
    let route = source.rule().map_or_else(String::new, Rule::label);
    format!("target {} of route {route}", target.escape_debug())
}

#[cfg(test)]
mod tests {
    use fermata_io::Peer;

    use super::super::request::Body;
    use super::*;

    #[test]
    fn a_hash_is_made_of_what_the_route_names() {
        let request = ClientRequest {
            method: b"GET".to_vec(),
            target: b"/a?b".to_vec(),
            headers: vec![
                (b"x-user".to_vec(), b"7".to_vec()),
                (b"Cookie".to_vec(), b"aid=1; id=2;id=3".to_vec()),
            ],
            body: Body::None,
            peer: Peer::Unix,
            host: Vec::new(),
            is_tls: false,
        };
        for (by, key) in [
            (HashBy::Client, ""),
            (HashBy::Path, "/a"),
            (HashBy::Header("X-User".into()), "7"),
            (HashBy::Header("X-Other".into()), ""),
            (HashBy::Cookie("id".into()), "2"),
            (HashBy::Cookie("d".into()), ""),
        ] {
            assert_eq!(hash_key(&by, &request), key.as_bytes(), "{by:?}");
        }
    }
}
