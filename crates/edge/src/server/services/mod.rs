//! Services queried over ZeroMQ, each question with a time-out.
//!
//! The edge binds ports, and services connect to them as REP. If several services connect to one port, the edge queries them in
//! turn. The publishing worker has the ports. Other workers send their questions to it over a Unix socket. An envelope identifies
//! the worker, and the reply contains the same envelope (`line`). Service 0 stores sessions (`state`). The others are the targets
//! `zhttpreq/…` (`zhttp`) and `zhttp/…` (`zhttp_stream`). Each target `zhttp/…` has three ports: the first sends requests to any
//! backend, the second sends further packets of a session to its backend, and the third receives all packets of backends.

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

/// Parts of the edge for querying services, without clients and other targets.
pub(super) struct Backends<'a> {
    pub services: &'a mut Services,
    pub ports: &'a mut Ports,
    pub timers: &'a mut Timers,
    pub worker: &'a mut Engine,
}

impl Edge {
    /// Handles questions that timed out.
    pub(super) fn on_services_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        for answered in self.pushpin.services.take_late(now_ms) {
            self.on_service_answer(answered);
        }
        // Return questions of other workers to these workers.
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
            Question::Request(exchange) => self.on_zhttp_answer(exchange, outcome),
            // Replies to this question arrive as packets of the session, so this result is an error.
            Question::Session(exchange) => {
                if let Err(unanswered) = outcome {
                    self.on_zhttp_answer(exchange, Err(unanswered));
                }
            }
        }
    }
}

impl Backends<'_> {
    /// Queries a service. `write` encodes the question with its number, which is returned. The question waits `room_ms` for a
    /// connection, and `timeout_ms` in total.
    ///
    /// # Errors
    /// Returns the question if too many are queued.
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

    /// Handles a reply. Returns the question unless the packet belongs to a session.
    pub(super) fn take_reply(&mut self, payload: &[u8]) -> Option<Answered> {
        let Ok((reply, _)) = packet::decode(payload) else {
            let line = "the answer of a service is dropped: it is no packet";
            self.worker.net.log_for_client(LogLevel::Warning, line);
            return None;
        };
        self.services.take_reply(reply)
    }
}
