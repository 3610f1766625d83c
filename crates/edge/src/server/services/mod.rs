//! Services that are asked by ZeroMQ: a question, a reply, and nobody waits longer than it is worth.
//!
//! This side is bound, services connect as REP; several at one address are asked in turn. The worker that publishes has
//! the ports, and other workers' questions go through it, over a Unix socket, with an envelope that the reply brings
//! back (`line`). Service 0 keeps sessions (`state`), the others are targets `zhttpreq/…` (`zhttp`) and `zhttp/…`
//! (`zhttp_stream`), of which the latter have three ports each: requests go out by the first to whoever takes them, what belongs
//! to a session by the second to whom has taken it, and everything that backends say comes by the third.

mod line;

use fermata_config::LogLevel;
use fermata_grip::packet;

use crate::client::source::Engine;
use crate::publish::ports::Ports;
use crate::pushpin::services::Services;

pub(crate) use crate::pushpin::services::{Answered, PendingQuestion, Question};
use crate::pushpin::state::StateError;
use crate::server::edge::Edge;
use crate::timers::{Timer, Timers};

/// What asks services needs: nothing of clients, and nothing of targets that are reached otherwise.
pub(super) struct Backends<'a> {
    pub services: &'a mut Services,
    pub ports: &'a mut Ports,
    pub timers: &'a mut Timers,
    pub worker: &'a mut Engine,
}

impl Edge {
    /// Answers are late.
    pub(super) fn on_services_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        for answered in self.pushpin.services.take_late(now_ms) {
            self.on_service_answer(answered);
        }
        // Those of other workers are given back to them.
        self.holds().backends().flush();
        if let Some(due_ms) = self.pushpin.services.due_ms() {
            self.timers.at(due_ms, Timer::Services);
        }
    }

    pub(super) fn on_service_answer(&mut self, (what, outcome): Answered) {
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

impl Backends<'_> {
    /// Asks a service; `write` makes the question of its number, which is returned. It is waited `room_ms` for somebody who
    /// takes the question, and `timeout_ms` in all.
    ///
    /// # Errors
    /// The question, where too many wait already.
    pub fn ask(
        &mut self,
        service: u16,
        (room_ms, timeout_ms): (u64, u64),
        what: Question,
        write: impl FnOnce(&str) -> Vec<u8>,
    ) -> Result<u64, Question> {
        if !self.services.may_ask(service, &what) {
            return Err(what);
        }
        let now_ms = self.worker.net.now_ms();
        let due_ms = now_ms + room_ms.min(timeout_ms);
        let question = PendingQuestion {
            what,
            service,
            due_ms,
            answer_due_ms: now_ms + timeout_ms,
        };
        let id = self.services.put(question, write);
        self.timers.at(due_ms, Timer::Services);
        self.flush();
        Ok(id)
    }

    /// A service has answered: the question, where this is the answer to one and no packet of a session.
    pub(super) fn take_reply(&mut self, payload: &[u8]) -> Option<Answered> {
        let Ok((reply, _)) = packet::decode(payload) else {
            let line = "the answer of a service is dropped: it is no packet";
            self.worker.net.log_for_client(LogLevel::Warning, line);
            return None;
        };
        self.services.take_reply(reply)
    }
}
