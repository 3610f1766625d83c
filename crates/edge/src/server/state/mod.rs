//! Sessions that an outside service keeps: which of them a request belongs to, and what it has had.
//!
//! The service is asked as all `services` are (`zmq_state`). One that does not answer within `zmq_state_timeout_ms` is
//! not waited for: the request goes on without session.

use fermata_config::LogLevel;
use fermata_edge_pushpin::state::id::SessionId;
use fermata_edge_pushpin::state::{Ids, bytes, ids, messages, rules};
use fermata_grip::command;
use fermata_grip::instruct::Instruct;
use fermata_grip::value::{Value, map};

use crate::client::request::{Body, ClientRequest};
use crate::client::source::{Owner, Source};
use crate::publish::port::SESSIONS;
use crate::pushpin::state::{Question, StateError, read_reply};
use crate::server::edge::Edge;
use crate::server::services;
use crate::timers::Timer;

/// The largest body that is looked through for a session's id.
const BODY_BYTES_MAX: u64 = 100_000;

/// Ids of items are told together that come within this time, and of so many sessions.
const UPDATE_MS: u64 = 10;
const UPDATES_MAX: usize = 10_000;

/// How often the service hears that a session is still there.
const ALIVE_MS: u64 = 60_000;

impl Edge {
    /// Asks the origin for a request, with its session where the route wants one and it has one.
    pub(super) fn ask_with_session(&mut self, handle: u64, source: Source) {
        let is_wanted =
            self.pushpin.state.is_some() && source.rule().is_some_and(|rule| rule.session);
        let body_bytes = source.request.body.bytes();
        if !is_wanted || source.is_plain() || !(1..=BODY_BYTES_MAX).contains(&body_bytes) {
            return self.ask_or_share(handle, source);
        }
        let args = map([
            ("domain", source.request.host_name().as_str().into()),
            ("path", bytes(source.request.path())),
        ]);
        self.ask_state(args, Question::Rules(handle, source));
    }

    /// What an instruction says of sessions goes to the service; where there is none, it says nothing.
    pub(super) fn settle_session(&mut self, source: &mut Source, instruct: &mut Instruct) {
        let rules = std::mem::take(&mut instruct.session_detect);
        let last_ids = std::mem::take(&mut instruct.last_ids);
        let is_wanted = source.home().rule().is_some_and(|rule| rule.session);
        if self.pushpin.state.is_none() || !is_wanted {
            instruct.session_id = None;
            return;
        }
        if !rules.is_empty() {
            let domain = source.request.host_name();
            let rules = rules.iter().map(|rule| rules::write(&domain, rule));
            let args = map([("rules", Value::List(rules.collect()))]);
            self.ask_state(args, Question::Notify("session-detect-rules-set"));
        }
        let Some(id) = &instruct.session_id else {
            return;
        };
        match SessionId::new(id) {
            Some(id) => {
                self.tell_session(&id, &last_ids.into_iter().collect());
                source.session_id = Some(id);
            }
            None => {
                instruct.session_id = None;
                self.refuse_session();
            }
        }
    }

    /// The origin says by what session a WebSocket is known; empty: by none.
    pub(super) fn name_session(&mut self, socket: u64, id: &[u8]) {
        // Without a service that keeps it an id means nothing.
        if self.pushpin.state.is_none() {
            return;
        }
        let id = match SessionId::new(id) {
            None if !id.is_empty() => return self.refuse_session(),
            id => id,
        };
        if let Some(id) = &id {
            self.tell_session(id, &Ids::new());
        }
        if let Some(session) = self.clients.sessions.get_mut(&socket) {
            session.source.session_id = id;
            self.watch_sessions();
        }
    }

    fn refuse_session(&mut self) {
        let line = "zmq_state: the id of a session that the origin has named is ignored: an id is text of at most \
                    1,000 bytes without control characters";
        self.worker.net.log_for_client(LogLevel::Warning, line);
    }

    /// Tells the service of a session.
    fn tell_session(&mut self, id: &SessionId, last_ids: &Ids) {
        let args = map([
            ("sid", bytes(id.as_str().as_bytes())),
            ("last-ids", ids(last_ids)),
        ]);
        self.ask_state(args, Question::Notify("session-create-or-update"));
    }

    /// A session has had an item.
    pub(super) fn note_id(&mut self, session: u64, channel: &[u8], id: &[u8]) {
        let Some(held) = self.clients.sessions.get(&session) else {
            return;
        };
        let Some(name) = held.source.session_id.clone() else {
            return;
        };
        let subscription = held.subscriptions.iter().find(|it| it.channel == channel);
        let channel = subscription
            .and_then(|it| it.own.as_deref())
            .unwrap_or(channel);
        let channel = channel.to_vec();
        let Some(state) = &mut self.pushpin.state else {
            return;
        };
        if state.updates.len() >= UPDATES_MAX && !state.updates.contains_key(&name) {
            let line =
                format!("zmq_state: an id is left out: {UPDATES_MAX} sessions have new ones");
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return;
        }
        let ids = state.updates.entry(name).or_default();
        ids.insert(channel, id.to_vec());
        let due_ms = self.worker.net.now_ms() + UPDATE_MS;
        self.timers.at(due_ms, Timer::State);
    }

    /// A client holds on with a session: the service is to keep it.
    pub(super) fn watch_sessions(&mut self) {
        let now_ms = self.worker.net.now_ms();
        if let Some(state) = &mut self.pushpin.state
            && state.alive_ms == 0
        {
            state.alive_ms = now_ms + ALIVE_MS;
            self.timers.at(state.alive_ms, Timer::State);
        }
    }

    /// There is something to tell.
    pub(super) fn on_state_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let Some(state) = &mut self.pushpin.state else {
            return;
        };
        let mut updates = std::mem::take(&mut state.updates);
        if state.alive_ms != 0 && state.alive_ms <= now_ms {
            for name in self
                .clients
                .sessions
                .values()
                .filter_map(|it| it.source.session_id.clone())
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
        for sessions in messages(&updates) {
            let args = map([("sid-last-ids", Value::Map(sessions))]);
            self.ask_state(args, Question::Notify("session-update-many"));
        }
    }

    fn ask_state(&mut self, args: Value, what: Question) {
        let Some(state) = &self.pushpin.state else {
            return self.go_without(what, "there is none");
        };
        let (timeout_ms, method) = (state.timeout_ms, what.method());
        let what = services::Question::State(what);
        self.ask_service(SESSIONS, (timeout_ms, timeout_ms), what, |id| {
            command::request(id, method, args)
        });
    }

    /// The service has answered, or not.
    pub(super) fn on_state_answer(&mut self, what: Question, outcome: Result<Value, StateError>) {
        match (what, outcome.and_then(read_reply)) {
            (Question::Rules(handle, source), Ok(rules)) => {
                let found = rules::read(&rules)
                    .iter()
                    .find_map(|rule| rules::find(rule, &body(&source.request)));
                match found {
                    None => self.ask(Owner::Client(handle), source, Vec::new()),
                    Some(id) => {
                        let args = map([("sid", bytes(id.as_str().as_bytes()))]);
                        let mut source = source;
                        source.session_id = Some(id);
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
            (Question::Notify(_), Ok(_)) => {}
            // A session of which nothing is known yet.
            (Question::LastIds(handle, source), Err(StateError::NotFound)) => {
                self.ask(Owner::Client(handle), source, Vec::new());
            }
            (what, Err(error)) => self.go_without(what, &error.to_string()),
        }
    }

    fn go_without(&mut self, what: Question, reason: &str) {
        let line = format!("zmq_state: {} fails: {reason}", what.method());
        self.worker.net.log_for_client(LogLevel::Warning, &line);
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
