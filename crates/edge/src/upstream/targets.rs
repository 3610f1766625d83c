//! State of the targets of routes, and the order in which targets are tried.

use std::cell::RefCell;
use std::collections::HashMap;

use fermata_io::shm::Shared;

use crate::client::request::ClientRequest;
use crate::routes::{Routes, Rule};
use crate::settings::Settings;
use crate::upstream::{
    Balancer, Candidate, HashBy, Health, MEMORY_WORDS, Passive, Policy, State, TargetSlot,
};

/// State of all targets, shared by all workers.
#[derive(Clone, Copy)]
pub(crate) struct Targets {
    pub health: Health,
    passive: Passive,
    check: Checking,
}

/// Health check of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checking {
    pub interval_ms: u64,
    pub timeout_ms: u64,
    pub rise: u64,
    pub fall: u64,
}

/// State of the targets of one route.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Slot of each target; `None` if the table was full.
    pub slots: Vec<Option<TargetSlot>>,
    pub(crate) balancer: RefCell<Balancer>,
    pub(crate) passive: Passive,
    /// Health check, if any.
    pub check: Option<Checking>,
}

impl Targets {
    /// Allocates the table. Called before workers are forked.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn new(settings: &Settings) -> std::io::Result<Self> {
        let memory = Shared::anonymous(MEMORY_WORDS)?;
        Ok(Self {
            health: Health::new(memory.words()),
            passive: Passive {
                failures_max: settings.origin_out_after,
                within_ms: settings.origin_out_within_ms,
                out_ms: settings.origin_out_for_ms,
            },
            check: Checking {
                interval_ms: settings.origin_check_interval_ms,
                timeout_ms: settings.origin_check_timeout_ms,
                rise: settings.origin_check_rise,
                fall: settings.origin_check_fall,
            },
        })
    }

    /// Creates the state for these routes. Requests in flight that the previous routes (`before`) started stay counted.
    pub fn watch(
        &self,
        routes: &Routes,
        before: &[Option<Watched>],
        now_ms: u64,
    ) -> Vec<Option<Watched>> {
        let mut known = HashMap::new();
        for watched in before.iter().flatten() {
            for (target, slot) in watched.slots.iter().enumerate() {
                if let Some(slot) = slot {
                    known.entry(*slot).or_insert((watched, target));
                }
            }
        }
        let watch = |rule: &Rule| {
            let is_alone = rule.targets.len() < 2 && rule.target_options.check.is_none();
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
        let (target_options, label) = (&rule.target_options, rule.label());
        let slots = rule.targets.iter().map(|target| {
            self.health
                .slot(&format!("{label} {}", target.name), now_ms)
        });
        let ms = |seconds: Option<u64>, ms| seconds.map_or(ms, |it| it * SECOND);
        Watched {
            slots: slots.collect(),
            balancer: RefCell::new(Balancer::new(rule.targets.len())),
            passive: Passive {
                failures_max: target_options
                    .out_after
                    .unwrap_or(self.passive.failures_max),
                out_ms: ms(target_options.out_for_s, self.passive.out_ms),
                ..self.passive
            },
            check: target_options.check.as_ref().map(|_| Checking {
                interval_ms: ms(target_options.check_interval_s, self.check.interval_ms),
                timeout_ms: ms(target_options.check_timeout_s, self.check.timeout_ms),
                rise: target_options.check_rise.unwrap_or(self.check.rise),
                fall: target_options.check_fall.unwrap_or(self.check.fall),
            }),
        }
    }
}

impl Watched {
    /// Shares the request counts with the previous routes.
    fn share(&self, known: &HashMap<TargetSlot, (&Watched, usize)>) {
        let mut balancer = self.balancer.borrow_mut();
        for (target, slot) in self.slots.iter().enumerate() {
            if let Some((before, of)) = slot.as_ref().and_then(|slot| known.get(slot)) {
                balancer.share(target, &before.balancer.borrow(), *of);
            }
        }
    }

    /// Returns the state of a target.
    pub fn state(&self, target: usize, health: Health, now_ms: u64) -> State {
        match self.slots.get(target) {
            Some(&Some(slot)) => health.state(slot, now_ms),
            _ => State::Up,
        }
    }

    pub(crate) fn order(
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
        let policy = &rule.target_options.policy;
        let key = match policy {
            Policy::Hash(by) => hash_key(by, request),
            _ => Vec::new(),
        };
        self.balancer.borrow_mut().order(policy, &targets, &key)
    }
}

/// Returns the key of a request; requests with equal keys go to the same target. Empty if the request does not contain the key.
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

#[cfg(test)]
mod tests {
    use fermata_io::Peer;

    use super::*;
    use crate::client::request::Body;

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
