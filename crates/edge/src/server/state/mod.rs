//! Sessions that an outside service keeps: which of them a request belongs to, and what it has had.
//!
//! The service is asked by ZeroMQ (`zmq_state`), as Pushpin asks it: this side is bound, services connect as REP. The
//! worker that publishes has the port; others send their questions through it, over a Unix socket, with an envelope
//! that the service's reply brings back (`port`). Nobody waits longer than `zmq_state_timeout_ms`: a question without
//! answer is one without session.

mod port;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use fermata_config::LogLevel;
use fermata_grip::command;
use fermata_grip::instruct::Instruct;
use fermata_grip::packet;
use fermata_grip::value::{Value, map};

use super::edge::{Edge, Owner, Source};
use super::request::{Body, ClientRequest};
use super::timers::Timer;
use crate::settings::Settings;

pub(super) use port::bind;

/// Questions without answer at a time; one more is not asked.
const ASKED_MAX: usize = 10_000;
/// The largest body that is looked through for a session's id.
const BODY_BYTES_MAX: u64 = 100_000;
/// Ids of items are told together that come within this time, and of so many sessions.
const UPDATE_MS: u64 = 10;
const UPDATES_MAX: usize = 10_000;
/// How often the service hears that a session is still there.
const ALIVE_MS: u64 = 60_000;

type Ids = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a worker has of the service.
pub(super) struct State {
    /// How its questions get there.
    line: port::Line,
    /// Those that wait for the line, and until when.
    outbox: Vec<(u64, Vec<Vec<u8>>)>,
    asked: HashMap<u64, Asked>,
    last: u64,
    timeout_ms: u64,
    updates: HashMap<Vec<u8>, Ids>,
    alive_ms: u64,
}

struct Asked {
    what: Question,
    due_ms: u64,
}

/// What was asked, and who waits for it.
enum Question {
    /// How sessions are found in requests like this.
    Rules(u64, Source),
    /// What the session of a request has had.
    LastIds(u64, Source),
    /// Nobody waits.
    Told(&'static str),
}

impl Question {
    fn method(&self) -> &'static str {
        match self {
            Self::Rules(..) => "session-detect-rules-get",
            Self::LastIds(..) => "session-get-last-ids",
            Self::Told(method) => method,
        }
    }

    fn handle(&self) -> Option<u64> {
        match self {
            Self::Rules(handle, _) | Self::LastIds(handle, _) => Some(*handle),
            Self::Told(_) => None,
        }
    }
}

impl State {
    /// What worker number `worker` needs; `None`: no service is named.
    pub fn new(settings: &Settings, worker: u16, meeting: Option<PathBuf>) -> Option<Box<Self>> {
        if settings.text("zmq_state").is_empty() {
            return None;
        }
        let line = match (worker, meeting) {
            (1.., Some(path)) => port::Line::through(path),
            _ => port::Line::default(),
        };
        Some(Box::new(Self {
            line,
            outbox: Vec::new(),
            asked: HashMap::new(),
            last: 0,
            timeout_ms: settings.number("zmq_state_timeout_ms"),
            updates: HashMap::new(),
            alive_ms: 0,
        }))
    }
}

fn ids(ids: &Ids) -> Value {
    let entries = ids.iter();
    Value::Map(
        entries
            .map(|(channel, id)| (channel.clone(), Value::Bytes(id.clone())))
            .collect(),
    )
}

fn bytes(text: &[u8]) -> Value {
    Value::Bytes(text.to_vec())
}

impl Edge {
    /// Asks the origin for a request, with its session where the route wants one and it has one.
    pub(super) fn ask_with_session(&mut self, handle: u64, source: Source) {
        let is_wanted = self.state.is_some() && source.rule().is_some_and(|rule| rule.session);
        let body_bytes = source.request.body.bytes();
        if !is_wanted || source.is_plain() || !(1..=BODY_BYTES_MAX).contains(&body_bytes) {
            return self.ask(Owner::Client(handle), source, Vec::new());
        }
        let args = map([
            ("domain", source.request.host_name().as_str().into()),
            ("path", bytes(source.request.path())),
        ]);
        self.ask_state(args, Question::Rules(handle, source));
    }

    /// What an instruction says of sessions goes to the service; where there is none, it says nothing.
    pub(super) fn settle_session(&mut self, source: &Source, instruct: &mut Instruct) {
        let rules = std::mem::take(&mut instruct.session_detect);
        let last_ids = std::mem::take(&mut instruct.last_ids);
        let is_wanted = source.home().rule().is_some_and(|rule| rule.session);
        if self.state.is_none() || !is_wanted {
            instruct.session_id = None;
            return;
        }
        if !rules.is_empty() {
            let domain = source.request.host_name();
            let rules = rules.iter().map(|rule| rules::write(&domain, rule));
            let args = map([("rules", Value::List(rules.collect()))]);
            self.ask_state(args, Question::Told("session-detect-rules-set"));
        }
        if let Some(id) = &instruct.session_id {
            self.tell_session(&id.clone(), &last_ids.into_iter().collect());
        }
    }

    /// Tells the service of a session.
    pub(super) fn tell_session(&mut self, id: &[u8], last_ids: &Ids) {
        if self.state.is_some() {
            let args = map([("sid", bytes(id)), ("last-ids", ids(last_ids))]);
            self.ask_state(args, Question::Told("session-create-or-update"));
        }
    }

    /// A session has had an item.
    pub(super) fn note_id(&mut self, session: u64, channel: &[u8], id: &[u8]) {
        let Some(held) = self.sessions.get(&session) else {
            return;
        };
        let Some(name) = held.session_id.clone() else {
            return;
        };
        let subscription = held.subscriptions.iter().find(|it| it.channel == channel);
        let channel = subscription
            .and_then(|it| it.own.as_deref())
            .unwrap_or(channel);
        let channel = channel.to_vec();
        let Some(state) = &mut self.state else {
            return;
        };
        if state.updates.len() >= UPDATES_MAX && !state.updates.contains_key(&name) {
            let line =
                format!("zmq_state: an id is left out: {UPDATES_MAX} sessions have new ones");
            self.worker.log_for_client(LogLevel::Warning, &line);
            return;
        }
        let ids = state.updates.entry(name).or_default();
        ids.insert(channel, id.to_vec());
        let due_ms = self.worker.now_ms() + UPDATE_MS;
        self.timers.at(due_ms, Timer::State);
    }

    /// A client holds on with a session: the service is to keep it.
    pub(super) fn watch_sessions(&mut self) {
        let now_ms = self.worker.now_ms();
        if let Some(state) = &mut self.state
            && state.alive_ms == 0
        {
            state.alive_ms = now_ms + ALIVE_MS;
            self.timers.at(state.alive_ms, Timer::State);
        }
    }

    /// Whoever waits for an answer has left.
    pub(super) fn forget_questions(&mut self, handle: u64) {
        if let Some(state) = &mut self.state
            && !state.asked.is_empty()
        {
            state
                .asked
                .retain(|_, asked| asked.what.handle() != Some(handle));
        }
    }

    /// Time has gone by: answers are late, or there is something to tell.
    pub(super) fn on_state_due(&mut self) {
        let now_ms = self.worker.now_ms();
        let Some(state) = &mut self.state else {
            return;
        };
        let late: Vec<u64> = state
            .asked
            .iter()
            .filter(|(_, asked)| asked.due_ms <= now_ms)
            .map(|(&id, _)| id)
            .collect();
        let mut updates = std::mem::take(&mut state.updates);
        if state.alive_ms != 0 && state.alive_ms <= now_ms {
            for name in self
                .sessions
                .values()
                .filter_map(|it| it.session_id.clone())
            {
                updates.entry(name).or_default();
            }
            state.alive_ms = match updates.is_empty() {
                true => 0,
                false => now_ms + ALIVE_MS,
            };
        }
        let alive_ms = state.alive_ms;
        if alive_ms != 0 {
            self.timers.at(alive_ms, Timer::State);
        }
        for id in late {
            self.on_answer(id, Err("it does not answer in time".to_owned()));
        }
        if !updates.is_empty() {
            let sessions = updates.iter();
            let sessions = sessions
                .map(|(name, had)| (name.clone(), ids(had)))
                .collect();
            let args = map([("sid-last-ids", Value::Map(sessions))]);
            self.ask_state(args, Question::Told("session-update-many"));
        }
        self.watch_questions();
    }

    fn watch_questions(&mut self) {
        let Some(state) = &self.state else {
            return;
        };
        if let Some(due_ms) = state.asked.values().map(|it| it.due_ms).min() {
            self.timers.at(due_ms, Timer::State);
        }
    }

    fn ask_state(&mut self, args: Value, what: Question) {
        let now_ms = self.worker.now_ms();
        let Some(state) = &mut self.state else {
            return self.go_without(what, "there is none");
        };
        if state.asked.len() >= ASKED_MAX {
            return self.go_without(what, "too many questions wait for answers");
        }
        let due_ms = now_ms + state.timeout_ms;
        state.last += 1;
        let id = state.last;
        let payload = command::request(&id.to_string(), what.method(), args);
        state.outbox.push((due_ms, vec![Vec::new(), payload]));
        state.asked.insert(id, Asked { what, due_ms });
        self.timers.at(due_ms, Timer::State);
        self.flush_state();
    }

    /// The service has answered.
    fn on_state_reply(&mut self, payload: &[u8]) {
        let Ok((reply, _)) = packet::decode(payload) else {
            self.worker
                .log_for_client(LogLevel::Warning, "zmq_state: an answer is no packet");
            return;
        };
        let id = reply.get("id").and_then(Value::integer);
        let Some(id) = id.and_then(|id| u64::try_from(id).ok()) else {
            return;
        };
        let outcome = match (reply.get("success"), reply.get("value")) {
            (Some(Value::Bool(true)), value) => Ok(value.cloned().unwrap_or(Value::Null)),
            _ => {
                let condition = reply.get("condition").and_then(Value::bytes);
                let condition = condition.unwrap_or(b"general");
                Err(condition.escape_ascii().to_string())
            }
        };
        self.on_answer(id, outcome);
    }

    fn on_answer(&mut self, id: u64, outcome: Result<Value, String>) {
        let asked = self.state.as_mut().and_then(|it| it.asked.remove(&id));
        let Some(Asked { what, .. }) = asked else {
            return;
        };
        match (what, outcome) {
            (Question::Rules(handle, source), Ok(rules)) => {
                let found = rules::read(&rules)
                    .iter()
                    .find_map(|rule| rules::find(rule, &body(&source.request)));
                match found {
                    None => self.ask(Owner::Client(handle), source, Vec::new()),
                    Some(id) => {
                        let args = map([("sid", bytes(id.as_bytes()))]);
                        let mut source = source;
                        source.session_id = Some(id.into());
                        self.ask_state(args, Question::LastIds(handle, source));
                    }
                }
            }
            (Question::LastIds(handle, source), Ok(had)) => {
                let last_ids = match had {
                    Value::Map(entries) => entries
                        .into_iter()
                        .filter_map(|(channel, id)| Some((channel, id.bytes()?.to_vec())))
                        .collect(),
                    _ => Vec::new(),
                };
                self.ask(Owner::Client(handle), source, last_ids);
            }
            (Question::Told(_), Ok(_)) => {}
            // A session of which nothing is known yet.
            (Question::LastIds(handle, source), Err(reason)) if reason == "item-not-found" => {
                self.ask(Owner::Client(handle), source, Vec::new());
            }
            (what, Err(reason)) => self.go_without(what, &reason),
        }
    }

    fn go_without(&mut self, what: Question, reason: &str) {
        let line = format!("zmq_state: {} fails: {reason}", what.method());
        self.worker.log_for_client(LogLevel::Warning, &line);
        if let Question::Rules(handle, source) | Question::LastIds(handle, source) = what {
            self.ask(Owner::Client(handle), source, Vec::new());
        }
    }
}

fn body(request: &ClientRequest) -> Vec<u8> {
    match &request.body {
        Body::None => Vec::new(),
        Body::Memory(body) => body.clone(),
        // A body that cannot be read names no session.
        Body::File { path, .. } => std::fs::read(path).unwrap_or_default(),
        // Nor does one that is too large to be held with.
        Body::Arriving { .. } => Vec::new(),
    }
}
