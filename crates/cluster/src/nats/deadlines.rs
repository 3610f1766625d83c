//! Deadlines of an open connection, and what happens when one has passed.

use super::consumer::{Proof, Stage};
use super::session::{Link, Session, Step};
use super::writer::Write;
use super::{
    ASK_AGAIN_FOR_CONSUMER_MS, ASK_AGAIN_MS, CONSUMER_SILENCE_MS_MAX, COPY_SILENCE_MS_MAX, LAGS,
    LEADER_POLL_MS, LEADER_SILENCE_MS_MAX, Nats, ORDER_MS_MAX, OTHERS_MS, Question,
};
use crate::exchange::ANSWER_MS_MAX;

/// A deadline. Its kind determines what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The server is silent: the connection ends.
    Silence,
    /// The step has no response: the connection ends.
    Step,
    /// The request of the step may be lost, so it is sent again.
    Repeat,
    /// The consumer has sent neither messages nor heartbeats, so the connection ends.
    Consumer,
    /// The copy lacks messages that the leader has: the connection ends.
    Copy,
    /// No leader with a majority has described the log: the connection ends.
    Leader,
    /// The leader is polled.
    LeaderPoll,
    /// The oldest record is not acknowledged, so no other records are sent after it.
    Order,
    /// A record or a probe has no response: the connection ends.
    Record,
    /// A log that has refused records is probed.
    Probe,
    /// A request for older messages may be lost. A PING finds out.
    Past,
    /// A PING is sent.
    Ping,
}

const NEVER: u64 = u64::MAX;

impl Nats {
    /// Handles the first deadline that has passed. The next call handles later ones.
    pub(super) fn handle_deadlines(&mut self, now_ms: u64) {
        let Link::Up(session) = &self.link else {
            return;
        };
        let deadlines = self.deadlines(session);
        let Some((_, due)) = deadlines.into_iter().find(|(at_ms, _)| *at_ms <= now_ms) else {
            return;
        };
        match due {
            Due::Silence => self.fail("the connection is silent", now_ms),
            Due::Step => self.fail(self.late_step(session), now_ms),
            Due::Repeat => self.ask_again(now_ms),
            Due::Consumer => self.fail("the consumer is silent", now_ms),
            Due::Copy => self.fail(LAGS, now_ms),
            Due::Leader => self.fail("no leader of the log has a majority of its servers", now_ms),
            Due::LeaderPoll => {
                if let Some(live) = self.link.live_mut() {
                    live.leader.asked_ms = now_ms;
                }
                self.ask("STREAM.INFO", Question::Leader, b"");
            }
            Due::Order => self.on_stalled(),
            Due::Record => {
                // The server may still answer all other requests. The next connection starts with a probe, which shows whether
                // the log stores messages.
                self.writer.state = Write::Refused { retry_ms: now_ms };
                self.fail("a record was not acknowledged in time", now_ms);
            }
            Due::Probe => self.probe_write(now_ms),
            Due::Past => self
                .past
                .doubt(&mut self.liveness, &mut self.output, now_ms),
            // Send no PING in the clear before TLS. The handshake has a separate deadline.
            Due::Ping if matches!(session.step, Step::Secure) => self.liveness.skip_ping(now_ms),
            Due::Ping => self.liveness.ping(&mut self.output, now_ms),
        }
    }

    /// Returns the earliest deadline of an open connection.
    pub(super) fn session_due_ms(&self, session: &Session) -> u64 {
        let deadlines = self.deadlines(session);
        deadlines
            .into_iter()
            .map(|(at_ms, _)| at_ms)
            .fold(NEVER, u64::min)
    }

    /// Returns all deadlines, in the order in which they are handled when several have passed.
    fn deadlines(&self, session: &Session) -> [(u64, Due); 12] {
        let (step_ms, repeat_ms) = self.step_deadlines(session);
        let response = |since_ms, silence_ms| self.liveness.response_due_ms(since_ms, silence_ms);
        let oldest_ms = self.writer.in_flight.oldest_sent_ms();
        let mut consumer_ms = NEVER;
        let mut copy_ms = NEVER;
        let (mut leader_ms, mut poll_ms) = (NEVER, NEVER);
        let (mut order_ms, mut probe_ms) = (NEVER, NEVER);
        if let Step::Reading(consumer) = &session.step
            && let Stage::Live(live) = &consumer.stage
        {
            consumer_ms = response(consumer.received_ms, CONSUMER_SILENCE_MS_MAX);
            if let Some(since_ms) = consumer.copy.awaited_ms() {
                copy_ms = response(since_ms.max(consumer.given_ms), COPY_SILENCE_MS_MAX);
            }
            if self.log.is_replicated {
                leader_ms = response(live.leader.received_ms, LEADER_SILENCE_MS_MAX);
                poll_ms = live.leader.asked_ms + LEADER_POLL_MS;
            }
            match (self.writer.state, oldest_ms) {
                (Write::Refused { retry_ms }, _) => probe_ms = retry_ms,
                (Write::Accepting | Write::Probing { .. }, Some(sent_ms)) => {
                    order_ms = response(sent_ms, ORDER_MS_MAX);
                }
                _ => {}
            }
        }
        let awaited_ms = self.writer.awaited_ms();
        let record_ms = awaited_ms.map_or(NEVER, |sent_ms| response(sent_ms, ANSWER_MS_MAX));
        [
            (self.liveness.silence_due_ms(), Due::Silence),
            (step_ms, Due::Step),
            (repeat_ms, Due::Repeat),
            (consumer_ms, Due::Consumer),
            (copy_ms, Due::Copy),
            (leader_ms, Due::Leader),
            (poll_ms, Due::LeaderPoll),
            (order_ms, Due::Order),
            (record_ms, Due::Record),
            (probe_ms, Due::Probe),
            (self.past.due_ms(), Due::Past),
            (self.liveness.ping_due_ms(), Due::Ping),
        ]
    }

    /// Returns the time at which the step is overdue, and the time at which its request is repeated.
    fn step_deadlines(&self, session: &Session) -> (u64, u64) {
        // If other servers are configured, do not wait long for one that cannot describe the log.
        let hurry_ms = match self.options.servers.len() {
            ..=1 => ANSWER_MS_MAX,
            _ => OTHERS_MS,
        };
        let (silence_ms, repeat_ms) = match &session.step {
            Step::Info => (hurry_ms, None),
            Step::Stream => (hurry_ms, Some(ASK_AGAIN_MS)),
            Step::Secure | Step::NewStream | Step::NewEpoch => (ANSWER_MS_MAX, None),
            Step::End => (ANSWER_MS_MAX, Some(ASK_AGAIN_MS)),
            Step::Reading(consumer) => match &consumer.stage {
                Stage::Live(_) => return (NEVER, NEVER),
                Stage::Proving { proof, .. } => match proof {
                    Proof::Creation => (ANSWER_MS_MAX, Some(ASK_AGAIN_FOR_CONSUMER_MS)),
                    Proof::Stream => (ANSWER_MS_MAX, Some(ASK_AGAIN_MS)),
                    Proof::Copy => (ANSWER_MS_MAX, None),
                },
            },
        };
        let response = |since_ms, silence_ms| self.liveness.response_due_ms(since_ms, silence_ms);
        (
            response(session.since_ms, silence_ms),
            repeat_ms.map_or(NEVER, |silence_ms| response(session.asked_ms, silence_ms)),
        )
    }

    /// Returns the reason for closing the connection when the step has no response in time.
    fn late_step(&self, session: &Session) -> &'static str {
        match &session.step {
            Step::Info if self.server().is_tls => {
                "no answer in time; if its handshake_first is true, set it to auto or false"
            }
            Step::Info => {
                "no answer in time; if it speaks TLS at this port, write tls:// in cluster"
            }
            Step::Reading(_) if self.link.proof() == Some(Proof::Copy) => LAGS,
            _ => "no answer in time",
        }
    }

    /// Sends the step's request again.
    fn ask_again(&mut self, now_ms: u64) {
        // The consumer may exist, and only the response may be lost. Abandon the consumer and request the stream again, which
        // leads to another consumer.
        if self.link.proof() == Some(Proof::Creation) {
            self.retry_consumer();
        }
        if let Link::Up(session) = &mut self.link {
            session.asked_ms = now_ms;
        }
        match self.link.step() {
            Some(Step::End) => self.probe_end(),
            _ => self.ask_for_stream(),
        }
    }
}
