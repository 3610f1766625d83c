//! Services that are asked by ZeroMQ: a question, a reply, and nobody waits longer than it is worth.
//!
//! This side is bound, services connect as REP; several at one address are asked in turn. The worker that publishes has
//! the ports, and other workers' questions go through it, over a Unix socket, with an envelope that the reply brings
//! back (`line`). Service 0 keeps sessions (`state`), the others are targets `zhttpreq/…` (`zhttp`) and `zhttp/…`
//! (`zhttp_stream`), of which the latter have three ports each: requests go out by the first to whoever takes them, what belongs
//! to a session by the second to whom has taken it, and everything that backends say comes by the third.

mod line;

use std::collections::VecDeque;

use fermata_config::LogLevel;
use fermata_edge_pushpin::line::{NOBODY_THERE, why_unheard};
use fermata_grip::packet;
use fermata_grip::value::Value;

use crate::pushpin::parts::Pushpin;
pub(crate) use crate::pushpin::services::{PendingQuestion, Question, Unanswered};
use crate::pushpin::state::StateError;
use crate::server::edge::Edge;
use crate::timers::Timer;

impl Edge {
    /// Asks a service; `write` makes the question of its number, which is returned. It is waited `room_ms` for somebody who
    /// takes the question, and `timeout_ms` in all.
    pub(super) fn ask_service(
        &mut self,
        service: u16,
        (room_ms, timeout_ms): (u64, u64),
        what: Question,
        write: impl FnOnce(&str) -> Vec<u8>,
    ) -> Option<u64> {
        if !self.pushpin.services.may_ask(service, &what) {
            let unanswered = Unanswered {
                reason: "too many questions wait for answers".to_owned(),
                is_unheard: true,
            };
            self.on_service_answer(what, Err(unanswered));
            return None;
        }
        let now_ms = self.worker.net.now_ms();
        let due_ms = now_ms + room_ms.min(timeout_ms);
        let question = PendingQuestion {
            what,
            service,
            due_ms,
            answer_due_ms: now_ms + timeout_ms,
        };
        let id = self.pushpin.services.put(question, write);
        self.timers.at(due_ms, Timer::Services);
        self.flush_services();
        Some(id)
    }

    /// Answers are late.
    pub(super) fn on_services_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let pending = self.pushpin.services.pending.iter();
        let late: Vec<u64> = pending
            .filter(|(_, question)| question.due_ms <= now_ms)
            .map(|(&id, _)| id)
            .collect();
        for id in late {
            let Some(question) = self.pushpin.services.pending.get(&id) else {
                continue;
            };
            let (service, answer_due_ms) = (question.service, question.answer_due_ms);
            if answer_due_ms > now_ms && !self.pushpin.services.is_waiting(service, id) {
                // It has been asked, and the rest of its time is for the answer.
                if let Some(question) = self.pushpin.services.pending.get_mut(&id) {
                    question.due_ms = answer_due_ms;
                }
                continue;
            }
            if let Some((what, is_unheard)) = self.pushpin.services.take(id) {
                let reason = match is_unheard {
                    true => NOBODY_THERE,
                    false => "it does not answer in time",
                };
                let unanswered = Unanswered {
                    reason: reason.to_owned(),
                    is_unheard,
                };
                self.on_service_answer(what, Err(unanswered));
            }
        }
        // Those of other workers are given back to them.
        self.flush_services();
        let pending = self.pushpin.services.pending.values().map(|it| it.due_ms);
        let fronts = self
            .pushpin
            .services
            .outbox
            .values()
            .filter_map(VecDeque::front);
        let relayed = fronts.filter(|it| it.id == 0).map(|it| it.due_ms);
        if let Some(due_ms) = pending.chain(relayed).min() {
            self.timers.at(due_ms, Timer::Services);
        }
    }

    /// What was asked by a worker that has ended is not answered. What waits for somebody to ask goes on waiting.
    pub(super) fn lose_questions(&mut self, reason: &str) {
        let pending = self.pushpin.services.pending.iter();
        let lost: Vec<u64> = pending
            .filter(|(id, question)| !self.pushpin.services.is_waiting(question.service, **id))
            .map(|(&id, _)| id)
            .collect();
        for id in lost {
            if let Some((what, _)) = self.pushpin.services.take(id) {
                let unanswered = Unanswered {
                    reason: reason.to_owned(),
                    is_unheard: false,
                };
                self.on_service_answer(what, Err(unanswered));
            }
        }
    }

    /// A service has answered.
    pub(super) fn on_service_reply(&mut self, payload: &[u8]) {
        let Ok((reply, _)) = packet::decode(payload) else {
            let line = "the answer of a service is dropped: it is no packet";
            self.worker.net.log_for_client(LogLevel::Warning, line);
            return;
        };
        let session = match reply.get("id") {
            // Several sessions at once.
            Some(Value::List(_)) => {
                self.pushpin.services.inbox.push_back(reply);
                return;
            }
            Some(Value::Bytes(id)) if id.contains(&b'-') => {
                let number = self.pushpin.services.session_number(id);
                let is_refused = why_unheard(&reply).is_some();
                if !is_refused
                    || number.is_none_or(|it| !self.pushpin.services.pending.contains_key(&it))
                {
                    self.pushpin.services.inbox.push_back(reply);
                    return;
                }
                number
            }
            _ => None,
        };
        let id = reply.get("id").and_then(Value::integer);
        let id = session.or(id.and_then(|id| u64::try_from(id).ok()));
        // One that nobody waits for any more.
        let Some((what, _)) = id.and_then(|id| self.pushpin.services.take(id)) else {
            return;
        };
        let outcome = match why_unheard(&reply) {
            None => Ok(reply),
            Some(reason) => Err(Unanswered {
                reason: reason.to_owned(),
                is_unheard: true,
            }),
        };
        self.on_service_answer(what, outcome);
    }

    fn on_service_answer(&mut self, what: Question, outcome: Result<Value, Unanswered>) {
        match what {
            Question::State(what) => {
                let outcome = outcome.map_err(|it| StateError::Unanswered(it.reason));
                self.on_state_answer(what, outcome);
            }
            Question::Request(talk) => self.on_zhttp_answer(talk, outcome),
            // An answer is a packet of the session, so this is none.
            Question::Session(talk) => {
                if let Err(unanswered) = outcome {
                    self.on_zhttp_answer(talk, Err(unanswered));
                }
            }
        }
    }
}

impl Pushpin {
    /// The client that waits for an answer has left.
    pub(super) fn forget_questions(&mut self, handle: u64) {
        if self.services.pending.is_empty() {
            return;
        }
        let is_its = |question: &PendingQuestion| match &question.what {
            Question::State(what) => what.handle() == Some(handle),
            // A conversation takes its own back.
            Question::Request(_) | Question::Session(_) => false,
        };
        let pending = self.services.pending.iter();
        let ids: Vec<u64> = pending
            .filter(|(_, question)| is_its(question))
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.services.forget(id);
        }
    }
}
