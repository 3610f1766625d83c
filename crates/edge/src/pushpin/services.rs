//! Services queried over ZeroMQ, and the pending questions to them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use fermata_edge_pushpin::line;
use fermata_engine::{RequestId, WireId};
use fermata_grip::value::Value;

use crate::error::StartError;
use crate::publish::port::{Port, SESSIONS};
use crate::pushpin::rendezvous::{self, Rendezvous};
use crate::routes::{Origin, Routes};
use crate::settings::Settings;
use crate::upstream::id::UpstreamExchangeId;

/// Maximum number of pending questions of each kind. A further question is refused.
const ASKED_MAX: usize = 10_000;

/// Address of a service.
#[derive(Clone, Debug)]
struct Address {
    /// ZeroMQ address; empty if the service is not configured.
    spec: String,
    mode: Option<u32>,
    /// The service has sessions and three ports.
    is_stream: bool,
}

/// Addresses of services, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    all: Vec<Address>,
    /// Name of this edge for session backends; workers append a dot and their number.
    instance: String,
}

impl Addresses {
    /// Reads the services of settings and routes.
    pub fn new(settings: &Settings, routes: &Routes) -> Self {
        let mut all = vec![Address {
            spec: settings.zmq_state.clone(),
            mode: None,
            is_stream: false,
        }];
        for target in routes.rules().iter().flat_map(|rule| &rule.targets) {
            let (spec, is_stream) = match &target.origin {
                Origin::ZhttpReq(spec) => (spec, false),
                Origin::Zhttp(spec) => (spec, true),
                _ => continue,
            };
            if !all
                .iter()
                .any(|it| it.spec == *spec && it.is_stream == is_stream)
            {
                all.push(Address {
                    spec: spec.clone(),
                    mode: target.ipc_file_mode,
                    is_stream,
                });
            }
        }
        let instance = format!("fermata-{:016x}", fermata_io::random::u64());
        Self { all, instance }
    }

    fn numbered(&self) -> impl Iterator<Item = (u16, &Address)> {
        let numbered = (0..).zip(&self.all);
        numbered.filter(|(_, it)| !it.spec.is_empty())
    }

    /// Returns true if no service is configured.
    pub fn is_empty(&self) -> bool {
        self.numbered().next().is_none()
    }

    /// Returns every port with its address and mode.
    pub fn ports(&self) -> Vec<(Port, String, Option<u32>)> {
        let mut ports = Vec::new();
        for (number, it) in self.numbered() {
            if !it.is_stream {
                ports.push((Port::Service(number), it.spec.clone(), it.mode));
                continue;
            }
            let kinds = [
                Port::Requests(number),
                Port::Sessions(number),
                Port::Responses,
            ];
            for (at, kind) in kinds.into_iter().enumerate() {
                ports.push((kind, place(&it.spec, at), it.mode));
            }
        }
        ports
    }

    /// Returns the number of a target's service.
    pub fn find(&self, spec: &str, is_stream: bool) -> Option<u16> {
        let mut targets = self.numbered().filter(|(number, _)| *number != SESSIONS);
        targets
            .find(|(_, it)| it.spec == spec && it.is_stream == is_stream)
            .map(|it| it.0)
    }

    /// Returns the numbers of services with sessions.
    pub fn streams(&self) -> Vec<u16> {
        let all = self.numbered();
        all.filter(|(_, it)| it.is_stream).map(|it| it.0).collect()
    }

    pub(crate) fn is_stream(&self, service: u16) -> bool {
        self.all
            .get(usize::from(service))
            .is_some_and(|it| it.is_stream)
    }

    /// Returns the prefix that marks responses for this edge.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

/// Returns one of the three addresses of a target with sessions. The addresses are consecutive ports, or socket paths with
/// different endings.
fn place(spec: &str, at: usize) -> String {
    const ENDINGS: [&str; 3] = ["-out", "-out-stream", "-in"];
    let numbered = spec
        .strip_prefix("tcp://")
        .and_then(|it| it.rsplit_once(':'));
    match numbered.and_then(|(host, port)| Some((host, port.parse::<usize>().ok()?))) {
        Some((host, port)) => format!("tcp://{host}:{}", port + at),
        None => format!("{spec}{}", ENDINGS.get(at).unwrap_or(&"")),
    }
}

/// The purpose of a question.
pub(crate) enum Question {
    /// A query to the session service.
    State(crate::pushpin::state::Question),
    /// A request of this exchange.
    Request(UpstreamExchangeId),
    /// A request that opens a session.
    Session(UpstreamExchangeId),
}

/// Why a question failed.
pub(crate) struct Unanswered {
    pub reason: String,
    /// True if the question was never sent.
    pub is_unsent: bool,
}

/// A question that has ended, and its result.
pub(crate) type Answered = (Question, Result<Value, Unanswered>);

pub(crate) struct PendingQuestion {
    pub(crate) what: Question,
    pub(crate) service: u16,
    /// Time of the next time-out: first the time-out for the service to connect, then `answer_due_ms`.
    pub(crate) due_ms: u64,
    /// Timeout for the reply.
    pub(crate) answer_due_ms: u64,
}

/// A worker's state for all services.
pub(crate) struct Services {
    pub addresses: Addresses,
    pub(crate) line: line::Line<WireId>,
    /// Questions that wait for a connection, by service, oldest first. No queue is empty.
    pub(crate) outbox: BTreeMap<u16, VecDeque<line::Waiting>>,
    pub(crate) pending: HashMap<u64, PendingQuestion>,
    /// Number of pending requests.
    requests: usize,
    last: u64,
    /// Name of this worker, to which backends reply.
    pub from: String,
    /// Prefix of session ids; each process has another.
    tag: String,
    /// Keys of the hash in session ids, so that a backend cannot guess the id of another session.
    seals: RandomState,
    /// Exchange of each session, by number.
    pub sessions: HashMap<u64, UpstreamExchangeId>,
    /// Packets of backends. Handled after the current read, because replies may use the same connection.
    pub inbox: VecDeque<Value>,
    /// In the worker with the ports: connections to other workers, by worker number.
    pub(crate) workers: HashMap<u16, WireId>,
    pub(crate) own_index: u16,
}

impl Services {
    /// Creates the state of a worker.
    pub fn new(addresses: Addresses, worker: u16, rendezvous: Option<PathBuf>) -> Self {
        let line = match (worker, rendezvous) {
            (1.., Some(path)) => line::Line::through(path),
            _ => line::Line::default(),
        };
        Self {
            from: format!("{}.{worker}", addresses.instance()),
            addresses,
            line,
            outbox: BTreeMap::new(),
            pending: HashMap::new(),
            requests: 0,
            last: 0,
            tag: format!("{:016x}", fermata_io::random::u64()),
            seals: RandomState::new(),
            sessions: HashMap::new(),
            inbox: VecDeque::new(),
            workers: HashMap::new(),
            own_index: worker,
        }
    }
}

impl Services {
    /// Returns true if a further question is allowed. Requests and state questions have separate limits.
    pub fn may_ask(&self, service: u16, what: &Question) -> bool {
        let count = match what {
            Question::Request(_) | Question::Session(_) => self.requests,
            Question::State(_) => self.pending.len() - self.requests,
        };
        count < ASKED_MAX && !self.is_blocked(service)
    }

    pub(crate) fn put(
        &mut self,
        question: PendingQuestion,
        write: impl FnOnce(&str) -> Vec<u8>,
    ) -> u64 {
        self.last += 1;
        let id = self.last;
        let waiting = line::Waiting {
            id,
            due_ms: question.due_ms,
            parts: vec![Vec::new(), write(&self.text(&question, id))],
        };
        let queue = self.outbox.entry(question.service).or_default();
        queue.push_back(waiting);
        self.requests += usize::from(!matches!(question.what, Question::State(_)));
        self.pending.insert(id, question);
        id
    }

    /// Formats a question's id. Ids of sessions have to be unique across processes.
    fn text(&self, question: &PendingQuestion, id: u64) -> String {
        match question.what {
            Question::Session(_) => {
                format!("{}-{id}-{:016x}", self.tag, self.seals.hash_one(id))
            }
            Question::State(_) | Question::Request(_) => id.to_string(),
        }
    }

    /// Parses the id of a session of this worker.
    pub fn session_number(&self, id: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(id).ok()?;
        let number = text.strip_prefix(&self.tag)?.strip_prefix('-')?;
        let (number, seal) = number.split_once('-')?;
        let number = number.parse().ok()?;
        (u64::from_str_radix(seal, 16) == Ok(self.seals.hash_one(number))).then_some(number)
    }

    /// Ends the question that opened a session, after a backend accepted it.
    pub fn settle_session(&mut self, number: u64) {
        self.take(number);
    }

    /// Returns true if the queue of a service is full.
    pub(crate) fn is_blocked(&self, service: u16) -> bool {
        let queue = self.outbox.get(&service);
        queue.is_some_and(|it| it.len() >= line::OUTBOX_MAX)
    }

    /// Drops a question whose reply is not needed.
    pub fn forget(&mut self, id: u64) {
        self.take(id);
    }

    /// Removes a question. Also returns true if the question was never sent.
    pub(crate) fn take(&mut self, id: u64) -> Option<(Question, bool)> {
        let question = self.pending.remove(&id)?;
        if !matches!(question.what, Question::State(_)) {
            self.requests -= 1;
        }
        let mut is_unsent = false;
        if let Some(queue) = self.outbox.get_mut(&question.service) {
            let at = queue.iter().position(|it| it.id == id);
            is_unsent = at.is_some_and(|at| queue.remove(at).is_some());
            if queue.is_empty() {
                self.outbox.remove(&question.service);
            }
        }
        Some((question.what, is_unsent))
    }

    /// Returns true if a question is pending.
    pub fn is_asked(&self, id: u64) -> bool {
        self.pending.contains_key(&id)
    }

    /// Removes the questions that timed out. A question that was sent may wait for its reply for the rest of its time.
    pub fn take_late(&mut self, now_ms: u64) -> Vec<Answered> {
        let pending = self.pending.iter();
        let late: Vec<(u64, u16, u64)> = pending
            .filter(|(_, it)| it.due_ms <= now_ms)
            .map(|(&id, it)| (id, it.service, it.answer_due_ms))
            .collect();
        let mut answered = Vec::new();
        for (id, service, answer_due_ms) in late {
            if answer_due_ms > now_ms && !self.is_waiting(service, id) {
                if let Some(question) = self.pending.get_mut(&id) {
                    question.due_ms = answer_due_ms;
                }
            } else if let Some((what, is_unsent)) = self.take(id) {
                let reason = if is_unsent {
                    line::NOBODY_THERE
                } else {
                    "it does not answer in time"
                };
                answered.push(unanswered(what, reason, is_unsent));
            }
        }
        answered
    }

    /// Returns the time of the next time-out, including time-outs of other workers' questions.
    pub fn due_ms(&self) -> Option<u64> {
        let pending = self.pending.values().map(|it| it.due_ms);
        let fronts = self.outbox.values().filter_map(VecDeque::front);
        let relayed = fronts.filter(|it| it.id == 0).map(|it| it.due_ms);
        pending.chain(relayed).min()
    }

    /// Removes the questions that were sent through a worker that has exited. Unsent questions stay queued.
    pub fn take_lost(&mut self, reason: &str) -> Vec<Answered> {
        let pending = self.pending.iter();
        let lost: Vec<u64> = pending
            .filter(|(id, it)| !self.is_waiting(it.service, **id))
            .map(|(&id, _)| id)
            .collect();
        let taken = lost.into_iter().filter_map(|id| self.take(id));
        taken
            .map(|(what, _)| unanswered(what, reason, false))
            .collect()
    }

    /// Returns the question of a reply. Puts packets of sessions into the inbox.
    pub fn take_reply(&mut self, reply: Value) -> Option<Answered> {
        let refusal = line::why_not_forwarded(&reply);
        let id = match reply.get("id") {
            // A packet for several sessions.
            Some(Value::List(_)) => {
                self.inbox.push_back(reply);
                return None;
            }
            Some(Value::Bytes(id)) if id.contains(&b'-') => {
                let number = self.session_number(id).filter(|it| self.is_asked(*it));
                if refusal.is_none() || number.is_none() {
                    self.inbox.push_back(reply);
                    return None;
                }
                number
            }
            id => id
                .and_then(Value::integer)
                .and_then(|id| u64::try_from(id).ok()),
        };
        // `None` if the question was dropped.
        let (what, _) = self.take(id?)?;
        Some(match refusal {
            None => (what, Ok(reply)),
            Some(reason) => unanswered(what, reason, true),
        })
    }

    /// Drops the questions of a client that left.
    pub fn forget_of_client(&mut self, handle: RequestId) {
        if self.pending.is_empty() {
            return;
        }
        let is_its = |question: &PendingQuestion| match &question.what {
            Question::State(what) => what.handle() == Some(handle),
            // Exchanges remove their own questions.
            Question::Request(_) | Question::Session(_) => false,
        };
        let pending = self.pending.iter();
        let ids: Vec<u64> = pending
            .filter(|(_, question)| is_its(question))
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.forget(id);
        }
    }

    pub(crate) fn is_waiting(&self, service: u16, id: u64) -> bool {
        let queue = self.outbox.get(&service);
        queue.is_some_and(|it| it.iter().any(|it| it.id == id))
    }
}

fn unanswered(what: Question, reason: &str, is_unsent: bool) -> Answered {
    let reason = reason.to_owned();
    (what, Err(Unanswered { reason, is_unsent }))
}

/// Opens the socket at which the worker with the ZeroMQ ports receives the requests of workers without ports. Returns `None` if
/// there is only one worker, or no service.
pub(crate) fn bind(
    settings: &Settings,
    addresses: &Addresses,
) -> Result<Option<Rendezvous>, StartError> {
    if addresses.is_empty() || settings.workers < 2 {
        return Ok(None);
    }
    rendezvous::bind("workers", "services", settings).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u16 = SESSIONS + 2;

    fn ask(services: &mut Services, service: u16, what: Question) -> u64 {
        assert!(services.may_ask(service, &what));
        let question = PendingQuestion {
            what,
            service,
            due_ms: 1,
            answer_due_ms: 2,
        };
        services.put(question, |id| id.as_bytes().to_vec())
    }

    fn notification() -> Question {
        Question::State(crate::pushpin::state::Question::Notify("x"))
    }

    #[test]
    fn those_who_have_left_make_room() {
        let mut services = Services::new(Addresses::default(), 0, None);
        let ids: Vec<u64> = (0..line::OUTBOX_MAX as u64)
            .map(|exchange| {
                ask(
                    &mut services,
                    SESSIONS + 1,
                    Question::Request(UpstreamExchangeId::of(exchange)),
                )
            })
            .collect();
        assert!(!services.may_ask(SESSIONS + 1, &Question::Request(UpstreamExchangeId::of(0))));
        // Another service and state requests have separate limits.
        ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(0)),
        );
        ask(&mut services, SESSIONS, notification());
        services.forget(ids[0]);
        assert!(services.may_ask(SESSIONS + 1, &Question::Request(UpstreamExchangeId::of(0))));
        for id in ids {
            services.forget(id);
        }
        assert_eq!((services.requests, services.pending.len()), (1, 2));
        assert_eq!(services.outbox.len(), 2);
    }

    #[test]
    fn requests_leave_sessions_their_places() {
        let mut services = Services::new(Addresses::default(), 0, None);
        for exchange in 0..ASKED_MAX as u64 {
            ask(
                &mut services,
                OTHER,
                Question::Request(UpstreamExchangeId::of(exchange)),
            );
            // The questions are sent, but no replies arrive.
            services.outbox.clear();
        }
        assert!(!services.may_ask(OTHER, &Question::Request(UpstreamExchangeId::of(0))));
        assert!(services.may_ask(SESSIONS, &notification()));
    }

    #[test]
    fn a_sent_question_may_have_been_processed() {
        let mut services = Services::new(Addresses::default(), 0, None);
        let id = ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(0)),
        );
        let other = ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(1)),
        );
        let sent = services
            .outbox
            .get_mut(&OTHER)
            .and_then(VecDeque::pop_front);
        assert_eq!(sent.map(|it| it.id), Some(id));
        assert!(matches!(services.take(id), Some((_, false))));
        assert!(matches!(services.take(other), Some((_, true))));
        assert!(services.take(other).is_none());
    }

    #[test]
    fn a_question_that_was_asked_has_the_rest_of_its_time() {
        let mut services = Services::new(Addresses::default(), 0, None);
        let asked = ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(0)),
        );
        services.outbox.clear();
        ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(1)),
        );
        assert_eq!(services.due_ms(), Some(1));
        // The other request was never sent.
        let late = services.take_late(1);
        assert!(matches!(
            &late[..],
            [(Question::Request(exchange), Err(it))] if *exchange == UpstreamExchangeId::of(1) && it.is_unsent
        ));
        assert!(services.is_asked(asked));
        assert_eq!(services.due_ms(), Some(2));
        let late = services.take_late(2);
        assert!(matches!(&late[..], [(_, Err(it))] if !it.is_unsent));
        assert_eq!(services.due_ms(), None);
    }

    #[test]
    fn what_answers_no_question_is_a_packet_of_a_session() {
        let mut services = Services::new(Addresses::default(), 0, None);
        let id = ask(
            &mut services,
            OTHER,
            Question::Session(UpstreamExchangeId::of(0)),
        );
        let name = services.text(&services.pending[&id], id);
        let packet = |condition: Option<&str>| {
            let mut entries = vec![(b"id".to_vec(), Value::from(name.as_str()))];
            entries.extend(condition.map(|it| (b"condition".to_vec(), Value::from(it))));
            Value::Map(entries)
        };
        assert!(services.take_reply(packet(None)).is_none());
        assert!(services.take_reply(packet(Some("no"))).is_none());
        assert_eq!(services.inbox.len(), 2);
        let refused = services.take_reply(packet(Some(line::NOBODY)));
        assert!(matches!(refused, Some((Question::Session(_), Err(it))) if it.is_unsent));
        // The request is closed, so the second reply counts as a packet.
        assert!(services.take_reply(packet(Some(line::NOBODY))).is_none());
        assert_eq!(services.inbox.len(), 3);
    }

    #[test]
    fn what_a_worker_that_has_ended_was_asked_is_lost_alone() {
        let mut services = Services::new(Addresses::default(), 1, None);
        ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(0)),
        );
        services.outbox.clear();
        let waits = ask(
            &mut services,
            OTHER,
            Question::Request(UpstreamExchangeId::of(1)),
        );
        let lost = services.take_lost("gone");
        assert!(matches!(&lost[..], [(_, Err(it))] if it.reason == "gone" && !it.is_unsent));
        assert!(services.is_asked(waits));
    }
}
