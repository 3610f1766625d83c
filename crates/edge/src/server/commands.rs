//! Commands of publishers about single connections of any worker: check that connections exist, or send a request to a connection's
//! origin.
//!
//! The worker that received the command queries the other workers through the ring, and replies to the publisher when every worker
//! has replied. If a worker does not reply in time, the command fails. The connections of that worker must not be reported as
//! closed, because applications clean up after closed connections.

use std::collections::{HashMap, HashSet};

use fermata_config::LogLevel;
use fermata_engine::WireId;
use fermata_grip::command::{Condition, Request};
use fermata_grip::value::{Value, map};

use crate::client::source::Engine;
use crate::publish::commands::{ASKED, Query, WAITING_MAX, Waiting, ids, list, read, written};
use crate::publish::parts::Publishing;
use crate::server::edge::Edge;
use crate::timers::{Timer, Timers};

const ANSWERED: &[u8] = b"answer ";

/// Time in milliseconds within which other workers have to reply.
const ANSWER_MS: u64 = 2_000;

impl Edge {
    /// Queries all workers. Returns `None` if the response follows after the workers' replies.
    pub(super) fn ask_about(
        &mut self,
        wire: WireId,
        envelope: &[Vec<u8>],
        request: &Request,
        query: Query,
    ) -> Option<Result<Value, Condition>> {
        let found: HashSet<Vec<u8>> = self.find_connections(&query).into_iter().collect();
        if query.ids().iter().all(|id| found.contains(id)) {
            return Some(query.outcome(&found));
        }
        if self.publishing.commands.waiting.len() >= WAITING_MAX {
            return Some(Err(Condition::ProxyRequestFailed));
        }
        self.publishing.commands.last += 1;
        let number = self.publishing.commands.last;
        let missing = match self.worker.send_to_workers(&query.notice(number)) {
            Ok(missing) => missing,
            Err(failure) => {
                let line = format!("zmq_rep: {} fails: {failure}", query.method());
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                return Some(Err(Condition::ProxyRequestFailed));
            }
        };
        if missing == 0 {
            return Some(query.outcome(&found));
        }
        let due_ms = self.worker.net.now_ms() + ANSWER_MS;
        self.timers.at(due_ms, Timer::Commands);
        let waiting = Waiting {
            wire,
            envelope: envelope.to_vec(),
            request: request.clone(),
            query,
            found,
            missing,
            due_ms,
        };
        self.publishing.commands.waiting.insert(number, waiting);
        None
    }

    /// Handles a notice of another worker. Returns false if the notice is not a command.
    pub(super) fn on_command_message(&mut self, notice: &[u8]) -> bool {
        if let Some(asked) = read(ASKED, notice) {
            let number = asked.get("number").and_then(Value::bytes);
            if let (Some(number), Some(query)) = (number, Query::read(&asked)) {
                let found = self.find_connections(&query);
                let answer = map([
                    ("number", Value::Bytes(number.to_vec())),
                    ("ids", list(&found)),
                ]);
                // Ignore an error: without this reply, the command times out on the worker that sent the query.
                let _ = self.worker.send_to_workers(&written(ANSWERED, &answer));
            }
            return true;
        }
        let Some(answer) = read(ANSWERED, notice) else {
            return false;
        };
        let number = answer.get("number").and_then(Value::integer);
        if let (Some(number), Some(ids)) = (number, ids(&answer)) {
            self.publishing
                .on_command_answer(&mut self.worker, number as u64, ids);
        }
        true
    }

    /// Returns the connection ids of a query that exist on this worker, and sends the requests that the query demands.
    fn find_connections(&mut self, query: &Query) -> Vec<Vec<u8>> {
        let mut found = query.ids().to_vec();
        found.retain(|id| {
            self.publishing.commands.sockets.contains_key(id)
                || self
                    .pushpin
                    .stats
                    .as_ref()
                    .is_some_and(|stats| match query {
                        Query::Check(_) => stats.has_connection(id),
                        Query::Refresh(_) => stats.has_websocket(id),
                    })
        });
        if let Query::Refresh(id) = query
            && let Some(&handle) = self.publishing.commands.sockets.get(id)
        {
            self.holds().refresh_socket(handle);
        }
        found
    }
}

impl Publishing {
    fn on_command_answer(&mut self, worker: &mut Engine, number: u64, ids: Vec<Vec<u8>>) {
        let Some(waiting) = self.commands.waiting.get_mut(&number) else {
            // The response was already sent.
            return;
        };
        waiting.found.extend(ids);
        waiting.missing -= 1;
        let is_known = waiting
            .query
            .ids()
            .iter()
            .all(|id| waiting.found.contains(id));
        if (is_known || waiting.missing == 0)
            && let Some(waiting) = self.commands.waiting.remove(&number)
        {
            let outcome = waiting.query.outcome(&waiting.found);
            self.answer_command(worker, &waiting, outcome);
        }
    }

    /// Fails commands for which a worker did not reply in time.
    pub(super) fn on_commands_due(&mut self, timers: &mut Timers, worker: &mut Engine) {
        let now_ms = worker.net.now_ms();
        let waiting = std::mem::take(&mut self.commands.waiting);
        let (late, left): (HashMap<_, _>, HashMap<_, _>) =
            waiting.into_iter().partition(|(_, it)| it.due_ms <= now_ms);
        self.commands.waiting = left;
        for waiting in late.into_values() {
            let line = format!(
                "zmq_rep: {} fails: {} workers have not answered within {ANSWER_MS} ms",
                waiting.query.method(),
                waiting.missing
            );
            worker.net.log_for_client(LogLevel::Warning, &line);
            self.answer_command(worker, &waiting, Err(Condition::ProxyRequestFailed));
        }
        if let Some(due_ms) = self.commands.waiting.values().map(|it| it.due_ms).min() {
            timers.at(due_ms, Timer::Commands);
        }
    }

    fn answer_command(
        &mut self,
        worker: &mut Engine,
        waiting: &Waiting,
        outcome: Result<Value, Condition>,
    ) {
        let to = (waiting.wire, &waiting.envelope[..]);
        self.reply_command(worker, to, &waiting.request, outcome);
    }

    /// Replies to a publisher's command. The destination is the publisher's connection and envelope.
    pub(super) fn reply_command(
        &mut self,
        worker: &mut Engine,
        (wire, envelope): (WireId, &[Vec<u8>]),
        request: &Request,
        outcome: Result<Value, Condition>,
    ) {
        let reply = request.reply(outcome);
        let mut message: Vec<&[u8]> = envelope.iter().map(Vec::as_slice).collect();
        message.push(&reply);
        // The port drops the reply if the publisher has disconnected.
        self.ports.send(worker, wire, &message);
    }
}
