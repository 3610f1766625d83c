//! Records and probes that are published, and the log's responses.

use super::writer::{Published, Write};
use super::{Nats, ORDER_MS_MAX, Question, no_responders};
use crate::exchange::{Event, Outgoing, Rejected};
use crate::jetstream::PublishAnswer;
use crate::wire::Message;

impl Nats {
    /// Sends a record of the outbox to the log. Records are passed in the order of the outbox.
    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        let floor = self.log.floor();
        self.writer
            .in_flight
            .push(record.outbox, now_ms, false, floor);
        let start = self.output.len();
        // `max_payload` limits headers and data. This check also counts the command line, so its limit is a few bytes lower.
        let bytes = self.writer.write(record, &self.options, &mut self.output);
        let max = self.server_info.payload_max;
        if bytes > max {
            self.output.truncate(start);
            let cause = format!(
                "the event has {bytes} bytes with its headers, more than the log takes (max_payload of NATS: {max} bytes)"
            );
            self.reject(record.outbox, cause, Some((bytes, max)));
        }
    }

    pub(super) fn on_published(
        &mut self,
        outbox: u64,
        message: Message<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        if !self.writer.in_flight.is_awaited(outbox) {
            // This is a second response, or a response to a record that will be sent again.
            return Ok(());
        }
        match self.read_answer(&message, now_ms)? {
            Published::Later(cause) => self.on_refused(&cause, now_ms),
            Published::Never(cause) => self.reject(outbox, format!("the log: {cause}"), None),
            Published::Stored { seq, is_duplicate } => {
                // The log has assigned a position that it had assigned before this record was sent, so the stream was
                // recreated. On the next connection, the record is sent again and acknowledged as a duplicate, with its
                // position in the new stream.
                if !is_duplicate && seq <= self.writer.in_flight.floor_of(outbox) {
                    return Err(OTHER_STREAM.to_owned());
                }
                let place = self.log.place(seq);
                if self.log.floor() < seq {
                    self.log.given_out = place;
                }
                self.writer.refusals = 0;
                self.events.push_back(Event::Accepted { outbox, place });
                self.writer.in_flight.settle(outbox);
            }
        }
        // The record that stopped the sending may be acknowledged now. Resume if the next one is recent enough.
        let awaited_ms = self.writer.in_flight.oldest_sent_ms();
        let is_on_time = awaited_ms.is_none_or(|it| now_ms < it + ORDER_MS_MAX);
        if self.writer.state == Write::Stalled && is_on_time {
            self.writer.state = Write::Accepting;
            self.note_ready();
        }
        Ok(())
    }

    /// Reads the response to a message.
    pub(super) fn read_answer(
        &mut self,
        message: &Message<'_>,
        now_ms: u64,
    ) -> Result<Published, String> {
        if let Err(cause) = no_responders(message) {
            // No server leads the stream at the moment. It may still be described and read, so the next connection starts with
            // a probe.
            self.writer.state = Write::Refused { retry_ms: now_ms };
            return Err(cause);
        }
        if let Some(seq) = PublishAnswer::seq_of(message.payload) {
            return Ok(Published::Stored {
                seq,
                is_duplicate: false,
            });
        }
        let answer: PublishAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("cannot parse the response to a publish: {error}"))?;
        Ok(match answer.error {
            None => Published::Stored {
                seq: answer.seq,
                is_duplicate: answer.duplicate,
            },
            // The stream has no leader, is overloaded, or is full. The record may be accepted later.
            Some(error) if error.code >= 500 => Published::Later(error.description),
            Some(error) => Published::Never(error.description),
        })
    }

    /// Probes whether the log accepts messages.
    pub(super) fn probe_write(&mut self, now_ms: u64) {
        self.writer.state = Write::Probing { sent_ms: now_ms };
        let reply = format!("{}.r.w", self.options.inbox);
        self.writer
            .write_probe(&reply, &self.options, &mut self.output);
    }

    /// Sends a probe to find where the log ends. A leader that was just elected may describe the log before it has all messages,
    /// but it acknowledges nothing until it has them.
    pub(super) fn probe_end(&mut self) {
        let reply = self.reply_to(Question::End);
        self.writer
            .write_probe(&reply, &self.options, &mut self.output);
    }

    pub(super) fn on_probed(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        if !matches!(self.writer.state, Write::Probing { .. }) {
            return Ok(());
        }
        match self.read_answer(&message, now_ms)? {
            Published::Later(cause) => self.on_refused(&cause, now_ms),
            // A permanent refusal applies only to the probe. The log decides on each record separately.
            Published::Never(_) | Published::Stored { .. } => {
                self.writer.probes += 1;
                self.writer.state = Write::Accepting;
                self.failures = 0;
                self.note_ready();
            }
        }
        Ok(())
    }

    /// Handles a temporary refusal. Records in flight are sent again later.
    fn on_refused(&mut self, words: &str, now_ms: u64) {
        if self.writer.in_flight.len() > 0 {
            self.rewind();
        }
        self.writer.refuse(now_ms);
        self.report_away(&format!("the log refuses messages: {words}"));
    }

    /// Stops sending, because the oldest record has no acknowledgement for [`ORDER_MS_MAX`]. If the leader has failed, this
    /// record is lost, and the next leader could store later records before it.
    pub(super) fn on_stalled(&mut self) {
        self.writer.state = Write::Stalled;
        self.report_away("the log does not acknowledge records");
    }

    /// Requests records of the outbox again, from the oldest one that is not released.
    pub(super) fn rewind(&mut self) {
        self.events
            .extend(self.writer.in_flight.clear().map(Event::Released));
        self.events.push_back(Event::Rewind);
    }

    /// Reports that the log is unreachable, although the connection stays open.
    fn report_away(&mut self, cause: &str) {
        if let Some(live) = self.link.live_mut() {
            live.is_ready = false;
        }
        let cause = format!("{}: {cause}", self.server());
        self.report(cause);
    }

    /// Reports the cause of an outage, unless it was reported before.
    pub(super) fn report(&mut self, cause: String) {
        if self.reported.add(&cause) {
            self.events.push_back(Event::Away(cause));
        }
    }

    fn reject(&mut self, outbox: u64, cause: String, too_large: Option<(u64, u64)>) {
        self.events.push_back(Event::Rejected(Rejected {
            outbox,
            cause,
            too_large,
        }));
        self.writer.in_flight.settle(outbox);
    }
}

/// Reason for closing the connection: the log has assigned a position twice.
const OTHER_STREAM: &str = "the stream was recreated: it assigned a position a second time";
