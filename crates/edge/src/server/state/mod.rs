//! Sessions stored by an external service: the session that a request belongs to, and the last ids that it received.
//!
//! The service is queried like all `services` (`zmq_state`). If it does not reply within `zmq_state_timeout_ms`, the request
//! continues without a session.

use fermata_config::LogLevel;
use fermata_edge_pushpin::state::id::SessionId;
use fermata_edge_pushpin::state::{Ids, bytes, ids, messages, rules};
use fermata_engine::RequestId;
use fermata_grip::command;
use fermata_grip::instruct::Instruct;
use fermata_grip::value::{Value, map};

use crate::client::request::{Body, ClientRequest};
use crate::client::session::Session;
use crate::client::source::{Engine, Owner, Source};
use crate::publish::port::SESSIONS;
use crate::publish::ports::Ports;
use crate::pushpin::parts::Pushpin;
use crate::pushpin::state::{ALIVE_MS, Question, State, StateError, UPDATES_MAX, read_reply};
use crate::server::edge::Edge;
use crate::server::services::{self, Backends};
use crate::server::tasks::Ask;
use crate::timers::{Timer, Timers};

/// Maximum size of a body that is searched for a session id.
const BODY_BYTES_MAX: u64 = 100_000;

/// Time for which ids of items are batched.
const UPDATE_MS: u64 = 10;

/// Error for a question beyond the limit.
const TOO_MANY: &str = "too many questions wait for answers";

/// Client of the session service.
pub(super) struct Keeper<'a> {
    state: &'a mut State,
    backends: Backends<'a>,
}

impl Pushpin {
    /// Returns the client of the session service; `None` if no service is configured.
    pub(super) fn keeper<'a>(
        &'a mut self,
        ports: &'a mut Ports,
        timers: &'a mut Timers,
        worker: &'a mut Engine,
    ) -> Option<Keeper<'a>> {
        let state = self.state.as_deref_mut()?;
        let services = &mut self.services;
        let backends = Backends {
            services,
            ports,
            timers,
            worker,
        };
        Some(Keeper { state, backends })
    }
}

impl Edge {
    /// Starts the exchange of a request, after looking up its session if the route uses sessions.
    pub(super) fn ask_with_session(&mut self, handle: RequestId, source: Source) {
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

    fn ask_state(&mut self, args: Value, what: Question) {
        let unasked = match self.holds().keeper() {
            Some(mut keeper) => keeper.ask(args, what),
            None => Some(what),
        };
        if let Some(Question::Rules(handle, source) | Question::LastIds(handle, source)) = unasked {
            self.ask(Ask::new(Owner::Client(handle), source));
        }
    }

    /// Handles a reply of the service, or a missing reply.
    pub(super) fn on_state_answer(&mut self, what: Question, outcome: Result<Value, StateError>) {
        match after(what, outcome.and_then(read_reply)) {
            Next::Ask(handle, source, last_ids) => {
                self.ask(Ask::new(Owner::Client(handle), source).behind(last_ids))
            }
            Next::LastIds(args, what) => self.ask_state(args, what),
            Next::Without(what, error) => {
                log_failure(&mut self.worker, &what, &error.to_string());
                if let Question::Rules(handle, source) | Question::LastIds(handle, source) = what {
                    self.ask(Ask::new(Owner::Client(handle), source));
                }
            }
            Next::Nothing => {}
        }
    }
}

impl Keeper<'_> {
    /// Passes the session fields of an instruction to the service, if the route uses sessions.
    pub fn settle(&mut self, source: &mut Source, instruct: &mut Instruct) {
        let rules = std::mem::take(&mut instruct.session_detect);
        let last_ids = std::mem::take(&mut instruct.last_ids);
        if !source.home().rule().is_some_and(|rule| rule.session) {
            instruct.session_id = None;
            return;
        }
        if !rules.is_empty() {
            let domain = source.request.host_name();
            let rules = rules.iter().map(|rule| rules::write(&domain, rule));
            let args = map([("rules", Value::List(rules.collect()))]);
            self.notify(args, "session-detect-rules-set");
        }
        let Some(id) = &instruct.session_id else {
            return;
        };
        match SessionId::new(id) {
            Some(id) => {
                self.update_session(&id, &last_ids.into_iter().collect());
                source.session_id = Some(id);
            }
            None => {
                instruct.session_id = None;
                self.refuse();
            }
        }
    }

    /// Sets the session of a WebSocket; an empty id removes it.
    pub fn name(&mut self, source: &mut Source, id: &[u8]) {
        let id = match SessionId::new(id) {
            None if !id.is_empty() => return self.refuse(),
            id => id,
        };
        if let Some(id) = &id {
            self.update_session(id, &Ids::new());
        }
        source.session_id = id;
        self.watch();
    }

    fn refuse(&mut self) {
        let line = "zmq_state: the id of a session that the origin has named is ignored: an id is text of at most \
                    1,000 bytes without control characters";
        let net = &mut self.backends.worker.net;
        net.log_for_client(LogLevel::Warning, line);
    }

    /// Creates or updates a session in the service.
    fn update_session(&mut self, id: &SessionId, last_ids: &Ids) {
        let args = map([
            ("sid", bytes(id.as_str().as_bytes())),
            ("last-ids", ids(last_ids)),
        ]);
        self.notify(args, "session-create-or-update");
    }

    /// Records that a session received an item.
    pub fn note_id(&mut self, held: &Session, channel: &[u8], id: &[u8]) {
        let Some(name) = &held.source.session_id else {
            return;
        };
        let subscription = held.subscriptions.iter().find(|it| it.channel == channel);
        let channel = subscription
            .and_then(|it| it.own.as_deref())
            .unwrap_or(channel);
        let Backends { timers, worker, .. } = &mut self.backends;
        if self.state.note_id(name, channel, id) {
            timers.at(worker.net.now_ms() + UPDATE_MS, Timer::State)
        } else {
            let line =
                format!("zmq_state: an id was dropped: {UPDATES_MAX} sessions have new ones");
            worker.net.log_for_client(LogLevel::Warning, &line);
        }
    }

    /// Starts the timer that refreshes the sessions of held clients.
    pub fn watch(&mut self) {
        if self.state.alive_ms == 0 {
            self.state.alive_ms = self.backends.worker.net.now_ms() + ALIVE_MS;
            self.backends.timers.at(self.state.alive_ms, Timer::State);
        }
    }

    /// Sends updates that are due. `names` contains the sessions of all held clients.
    pub fn on_due(&mut self, names: impl Iterator<Item = SessionId>) {
        let now_ms = self.backends.worker.net.now_ms();
        let updates = self.state.take_updates(now_ms, names);
        if self.state.alive_ms != 0 {
            self.backends.timers.at(self.state.alive_ms, Timer::State);
        }
        for sessions in messages(&updates) {
            let args = map([("sid-last-ids", Value::Map(sessions))]);
            self.notify(args, "session-update-many");
        }
    }

    fn notify(&mut self, args: Value, method: &'static str) {
        self.ask(args, Question::Notify(method));
    }

    /// Queries the service. If the question cannot be sent, logs this and returns the question.
    fn ask(&mut self, args: Value, what: Question) -> Option<Question> {
        let (timeout_ms, method) = (self.state.timeout_ms, what.method());
        let what = services::Question::State(what);
        let times = (timeout_ms, timeout_ms);
        let asked = self.backends.ask(SESSIONS, times, what, |id| {
            command::request(id, method, args)
        });
        let Err(services::Question::State(what)) = asked else {
            return None;
        };
        log_failure(self.backends.worker, &what, TOO_MANY);
        Some(what)
    }
}

/// Action after a reply of the service.
enum Next {
    /// Start the exchange with the last ids of the session.
    Ask(RequestId, Source, Vec<(Vec<u8>, Vec<u8>)>),
    /// Query the last ids of the session.
    LastIds(Value, Question),
    /// Continue without a session.
    Without(Question, StateError),
    Nothing,
}

fn after(what: Question, outcome: Result<Value, StateError>) -> Next {
    match (what, outcome) {
        (Question::Rules(handle, mut source), Ok(rules)) => {
            let body = body(&source.request);
            let found = rules::read(&rules)
                .iter()
                .find_map(|rule| rules::find(rule, &body));
            let Some(id) = found else {
                return Next::Ask(handle, source, Vec::new());
            };
            let args = map([("sid", bytes(id.as_str().as_bytes()))]);
            source.session_id = Some(id);
            Next::LastIds(args, Question::LastIds(handle, source))
        }
        (Question::LastIds(handle, source), Ok(Value::Map(had))) => {
            let last_ids = had
                .into_iter()
                .filter_map(|(channel, id)| Some((channel, id.bytes()?.to_vec())));
            Next::Ask(handle, source, last_ids.collect())
        }
        // The request starts a new session.
        (Question::LastIds(handle, source), Ok(_) | Err(StateError::NotFound)) => {
            Next::Ask(handle, source, Vec::new())
        }
        (Question::Notify(_), Ok(_)) => Next::Nothing,
        (what, Err(error)) => Next::Without(what, error),
    }
}

fn log_failure(worker: &mut Engine, what: &Question, reason: &str) {
    let line = format!("zmq_state: {} fails: {reason}", what.method());
    worker.net.log_for_client(LogLevel::Warning, &line);
}

fn body(request: &ClientRequest) -> Vec<u8> {
    match &request.body {
        Body::None => Vec::new(),
        Body::Memory(body) => body.clone(),
        // An unreadable body has no session id.
        Body::File { path, .. } => std::fs::read(path).unwrap_or_default(),
        // A large body is not searched.
        Body::Arriving { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::request;

    fn last_ids(next: Next) -> Vec<(Vec<u8>, Vec<u8>)> {
        match next {
            Next::Ask(handle, _, last_ids) if handle == request(1) => last_ids,
            _ => panic!("the origin is asked"),
        }
    }

    #[test]
    fn a_request_goes_on_with_what_its_session_has_had() {
        let question = || Question::LastIds(request(1), Source::of_get("/"));
        let had = map([("a", "1".into()), ("b", Value::Integer(2))]);
        let expected = vec![(b"a".to_vec(), b"1".to_vec())];
        assert_eq!(last_ids(after(question(), Ok(had))), expected);
        for outcome in [Ok(Value::Null), Err(StateError::NotFound)] {
            assert!(last_ids(after(question(), outcome)).is_empty());
        }
        let error = Err(StateError::Refused("general".to_owned()));
        assert!(matches!(
            after(question(), error),
            Next::Without(Question::LastIds(..), StateError::Refused(_))
        ));
    }

    #[test]
    fn a_request_without_a_session_asks_its_origin_alone() {
        let question = || Question::Rules(request(1), Source::of_get("/"));
        let next = after(question(), Ok(Value::List(Vec::new())));
        assert!(last_ids(next).is_empty());
        // A service without the required methods counts as missing.
        let next = after(question(), Err(StateError::NotFound));
        assert!(matches!(next, Next::Without(Question::Rules(..), _)));
    }
}
