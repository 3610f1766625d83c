//! Services that are asked by ZeroMQ: a question, a reply, and nobody waits longer than it is worth.
//!
//! This side is bound, services connect as REP; several at one address are asked in turn. The worker that publishes has
//! the ports, and other workers' questions go through it, over a Unix socket, with an envelope that the reply brings
//! back (`line`). Service 0 keeps sessions (`state`), the others are targets `zhttpreq/…` (`zhttp`).

mod line;

use std::collections::HashMap;
use std::path::PathBuf;

use fermata_config::LogLevel;
use fermata_grip::packet;
use fermata_grip::value::Value;

use super::edge::Edge;
use super::timers::Timer;
use crate::routes::{Origin, Routes};
use crate::settings::Settings;

pub(super) use line::bind;

/// Questions without answer at a time; one more is not asked.
const ASKED_MAX: usize = 10_000;

/// The service that keeps sessions.
pub(super) const SESSIONS: u16 = 0;

/// The addresses of services, by their numbers; an empty one: there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses(Vec<(String, Option<u32>)>);

impl Addresses {
    /// Those of the settings and routes.
    pub fn new(settings: &Settings, routes: &Routes) -> Self {
        let mut found = vec![(settings.text("zmq_state").to_owned(), None)];
        for target in routes.rules().iter().flat_map(|rule| &rule.targets) {
            if let Origin::ZhttpReq(spec) = &target.origin
                && !found.iter().any(|(known, _)| known == spec)
            {
                found.push((spec.clone(), target.ipc_file_mode));
            }
        }
        Self(found)
    }

    /// Number, address and mode of each.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &str, Option<u32>)> {
        let numbered = (0..).zip(&self.0);
        numbered
            .filter(|(_, (address, _))| !address.is_empty())
            .map(|(number, (address, mode))| (number, &address[..], *mode))
    }

    /// The number of a target's.
    pub fn find(&self, spec: &str) -> Option<u16> {
        let targets = self.iter().filter(|(number, ..)| *number != SESSIONS);
        targets
            .into_iter()
            .find(|(_, it, _)| *it == spec)
            .map(|it| it.0)
    }
}

/// What was asked, and who waits for it.
pub(super) enum Question {
    /// Something about sessions.
    State(super::state::Question),
    /// A request, by the number of its conversation.
    Request(u64),
}

struct Asked {
    what: Question,
    due_ms: u64,
}

/// What a worker has of all services.
pub(super) struct Services {
    pub addresses: Addresses,
    line: line::Line,
    /// Those that wait for the line, for which service, and until when.
    outbox: Vec<line::Waiting>,
    asked: HashMap<u64, Asked>,
    last: u64,
}

impl Services {
    /// What worker number `worker` needs.
    pub fn new(addresses: Addresses, worker: u16, meeting: Option<PathBuf>) -> Self {
        let line = match (worker, meeting) {
            (1.., Some(path)) => line::Line::through(path),
            _ => line::Line::default(),
        };
        Self {
            addresses,
            line,
            outbox: Vec::new(),
            asked: HashMap::new(),
            last: 0,
        }
    }
}

impl Services {
    /// Whether no more is asked.
    pub fn is_full(&self) -> bool {
        self.asked.len() >= ASKED_MAX
    }
}

impl Edge {
    /// Asks a service; `write` makes the question of its number.
    pub(super) fn ask_service(
        &mut self,
        service: u16,
        timeout_ms: u64,
        what: Question,
        write: impl FnOnce(&str) -> Vec<u8>,
    ) {
        if self.services.is_full() {
            let reason = "too many questions wait for answers";
            return self.on_service_answer(what, Err(reason.to_owned()));
        }
        let due_ms = self.worker.now_ms() + timeout_ms;
        self.services.last += 1;
        let id = self.services.last;
        let parts = vec![Vec::new(), write(&id.to_string())];
        self.services.outbox.push(line::Waiting {
            service,
            due_ms,
            parts,
        });
        self.services.asked.insert(id, Asked { what, due_ms });
        self.timers.at(due_ms, Timer::Services);
        self.flush_services();
    }

    /// Whoever waits for an answer has left.
    pub(super) fn forget_questions(&mut self, handle: u64) {
        if self.services.asked.is_empty() {
            return;
        }
        self.services.asked.retain(|_, asked| match &asked.what {
            Question::State(what) => what.handle() != Some(handle),
            // Its conversation is over already.
            Question::Request(_) => true,
        });
    }

    /// Answers are late.
    pub(super) fn on_services_due(&mut self) {
        let now_ms = self.worker.now_ms();
        let asked = self.services.asked.iter();
        let late: Vec<u64> = asked
            .filter(|(_, asked)| asked.due_ms <= now_ms)
            .map(|(&id, _)| id)
            .collect();
        for id in late {
            if let Some(asked) = self.services.asked.remove(&id) {
                let reason = "it does not answer in time".to_owned();
                self.on_service_answer(asked.what, Err(reason));
            }
        }
        if let Some(due_ms) = self.services.asked.values().map(|it| it.due_ms).min() {
            self.timers.at(due_ms, Timer::Services);
        }
    }

    /// A service has answered.
    fn on_service_reply(&mut self, payload: &[u8]) {
        let Ok((reply, _)) = packet::decode(payload) else {
            let line = "the answer of a service is dropped: it is no packet";
            self.worker.log_for_client(LogLevel::Warning, line);
            return;
        };
        let id = reply.get("id").and_then(Value::integer);
        let id = id.and_then(|id| u64::try_from(id).ok());
        // One that nobody waits for any more.
        let Some(asked) = id.and_then(|id| self.services.asked.remove(&id)) else {
            return;
        };
        self.on_service_answer(asked.what, Ok(reply));
    }

    fn on_service_answer(&mut self, what: Question, outcome: Result<Value, String>) {
        match what {
            Question::State(what) => self.on_state_answer(what, outcome),
            Question::Request(talk) => self.on_zhttp_answer(talk, outcome),
        }
    }
}
