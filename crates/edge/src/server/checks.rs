//! Health checks of targets. One worker sends the requests on behalf of all workers.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_io::Peer;

use crate::client::request::{Body, ClientRequest};
use crate::client::source::{Engine, Owner, Source, Table, name_of};
use crate::routes::{Domain, Origin, Rule};
use crate::server::edge::Edge;
use crate::server::tasks::Ask;
use crate::timers::{Timer, Timers};
use crate::upstream::exchange::UpstreamExchange;
use crate::upstream::parts::Upstream;
use crate::upstream::{Change, HealthThresholds};

/// `User-Agent` of checks.
const AGENT: &[u8] = b"fermata-edge (check)";

/// Interval in milliseconds at which slots of the health table are refreshed.
const TARGET_SLOTS_MS: u64 = 60_000;

/// Number of check intervals for which a target stays out after its last failed check. Without a newer result, requests go to the
/// target again, because the worker that runs the checks may have exited.
const BELIEVED_INTERVALS: u64 = 3;

/// Statuses of healthy targets.
const WELL: std::ops::Range<u16> = 200..400;

impl Upstream {
    /// Starts the checks of new routes immediately, in the worker that runs them.
    pub(super) fn begin_checks(&mut self, table: &Table, timers: &mut Timers, worker: &mut Engine) {
        let now_ms = worker.net.now_ms();
        timers.at(now_ms + TARGET_SLOTS_MS, Timer::TargetSlots);
        if worker.index() != 0 {
            return;
        }
        for (rule, watched) in table.watched.iter().enumerate() {
            let Some(watched) = watched else {
                continue;
            };
            for (target, slot) in watched.slots.iter().enumerate() {
                match (slot, watched.check) {
                    (Some(_), Some(_)) => timers.at(now_ms, Timer::Check(rule, target)),
                    // The previous routes may have checked the target; another route of the same name may still check it.
                    (Some(slot), None) if !table.is_checked(*slot) => {
                        self.targets.health.end_checks(*slot);
                    }
                    (Some(_), None) => {}
                    (None, _) => {
                        let line =
                            "a route has targets that are not watched: there are too many in all";
                        worker.net.log(LogLevel::Warning, line);
                    }
                }
            }
        }
    }

    pub(super) fn on_target_slots_due(
        &mut self,
        table: &Table,
        timers: &mut Timers,
        worker: &mut Engine,
    ) {
        let now_ms = worker.net.now_ms();
        self.targets.keep_slots(table, now_ms);
        timers.at(now_ms + TARGET_SLOTS_MS, Timer::TargetSlots);
    }

    /// Records the result of a check.
    pub(super) fn on_checked(
        &mut self,
        generation: u32,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
        outcome: Result<u16, &str>,
    ) {
        if let Owner::Check(_, target) = exchange.owner {
            // After a failure, the exchange has no target left. Restore the index of the checked target.
            exchange.source.target = target;
        }
        let source = &exchange.source;
        // Drop the result of a check that started with earlier routes: the indices refer to these routes.
        let (Some(watched), true) = (source.watched(), source.table.generation == generation)
        else {
            return;
        };
        let (Some(check), Some(&Some(slot))) = (watched.check, watched.slots.get(source.target))
        else {
            return;
        };
        let is_good = outcome.is_ok_and(|status| WELL.contains(&status));
        let thresholds = HealthThresholds {
            rise: check.rise,
            fall: check.fall,
            believed_ms: BELIEVED_INTERVALS * check.interval_ms + check.timeout_ms,
        };
        let now_ms = worker.net.now_ms();
        let health = self.targets.health;
        let change = health.on_check(slot, is_good, thresholds, now_ms);
        let (level, what) = match change {
            None => return,
            Some(Change::Back) => (LogLevel::Info, "is back: its checks are good".to_owned()),
            Some(Change::Out) => (
                LogLevel::Warning,
                match outcome {
                    Ok(status) => format!("is out: its check is answered {status}"),
                    Err(reason) => format!("is out: its check fails: {reason}"),
                },
            ),
        };
        let line = format!("{} {what}", name_of(source));
        worker.net.log(level, &line);
    }
}

impl Edge {
    pub(super) fn on_check_due(&mut self, rule: usize, target: usize) {
        let table = Rc::clone(&self.routing.table);
        let watched = table.watched.get(rule).and_then(Option::as_ref);
        let Some(check) = watched.and_then(|it| it.check) else {
            return;
        };
        let Some(source) = table.routes.rules().get(rule).and_then(|rule_| {
            let path = rule_.target_options.check.clone()?;
            let request = request(rule_, target, path)?;
            Some(Source {
                request: Rc::new(request),
                table: Rc::clone(&table),
                rule,
                target,
                is_trusted: false,
                is_sockjs: false,
                session_id: None,
            })
        }) else {
            return;
        };
        let now_ms = self.worker.net.now_ms();
        self.timers
            .at(now_ms + check.interval_ms, Timer::Check(rule, target));
        let owner = Owner::Check(rule, target);
        if self.upstream.exchange_keys.of(owner.key()).is_some() {
            // The previous check is still in progress.
            return;
        }
        let due_ms = now_ms + check.timeout_ms;
        self.ask(Ask {
            deadline_ms: due_ms,
            ..Ask::new(owner, source)
        });
    }
}

/// Returns the request that checks a target; `None` if the target cannot be checked.
fn request(rule: &Rule, target: usize, path: String) -> Option<ClientRequest> {
    let target = rule.targets.get(target)?;
    let host = match (&target.host, &rule.as_host, &rule.domain) {
        (Some(host), ..) | (None, Some(host), _) => host.clone(),
        (None, None, Domain::Host(host)) => host.clone(),
        (None, None, Domain::Any | Domain::Unnamed) => match &target.origin {
            Origin::Host { host, .. } | Origin::FastCgiHost { host, .. } => host.clone(),
            _ => "localhost".to_owned(),
        },
    };
    let is_asked = matches!(
        target.origin,
        Origin::Host { .. } | Origin::Unix(_) | Origin::FastCgiHost { .. } | Origin::FastCgiUnix(_)
    );
    is_asked.then(|| ClientRequest {
        method: b"GET".to_vec(),
        target: path.into_bytes(),
        headers: vec![(b"User-Agent".to_vec(), AGENT.to_vec())],
        body: Body::None,
        peer: Peer::Unix,
        host: host.into_bytes(),
        is_tls: false,
    })
}
