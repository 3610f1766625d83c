//! What the log says of messages that it was given.

use super::{
    HEADER_CONTENT, HEADER_EXCEPT, HEADER_ID, HEADER_NAME, Nats, ORDER_MS_MAX, PROBE, Write,
    no_responders,
};
use crate::decimal;
use crate::exchange::{Event, Outgoing, Place, Rejected, retry_ms};
use crate::jetstream::PublishAnswer;
use crate::subject::escape;
use crate::wire::{self, Message};

impl Nats {
    /// Sends a record of the outbox to the log. Records are handed over in their order.
    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        self.flight.push(record.outbox, now_ms, false);
        let start = self.output.len();
        self.subject.clear();
        self.subject
            .extend_from_slice(self.options.prefix.as_bytes());
        self.subject.push(b'.');
        escape(record.channel, &mut self.subject);
        let mut number = [0; decimal::DIGITS_MAX];
        let number = decimal::write(record.outbox, &mut number);
        self.reply.clear();
        self.reply.extend_from_slice(self.options.inbox.as_bytes());
        self.reply.extend_from_slice(b".r.p.");
        self.reply.extend_from_slice(number);
        self.id.clear();
        self.id.extend_from_slice(self.options.outbox.as_bytes());
        self.id.push(b'-');
        self.id.extend_from_slice(number);
        let except = record
            .except
            .map(|(worker, key)| format!("{worker:016x}{key:016x}"));
        let headers = [
            Some((HEADER_ID, &self.id[..])),
            record.content.text().map(|text| (HEADER_CONTENT, text)),
            record.name.map(|name| (HEADER_NAME, name)),
            except
                .as_ref()
                .map(|except| (HEADER_EXCEPT, except.as_bytes())),
        ];
        wire::publish(
            &mut self.output,
            &self.subject,
            Some(&self.reply),
            headers.into_iter().flatten(),
            record.data,
        );
        // It counts headers as well, not the line before them.
        if (self.output.len() - start) as u64 > self.payload_max {
            self.output.truncate(start);
            let cause = format!(
                "the event is larger than the log allows (max_payload of NATS: {} bytes)",
                self.payload_max
            );
            self.reject(record.outbox, cause);
        }
    }

    pub(super) fn on_published(
        &mut self,
        outbox: u64,
        message: Message<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        if !self.flight.is_awaited(outbox) {
            // Of a connection before, or twice, or of what is sent again when the log takes messages.
            return Ok(());
        }
        match self.read_answer(&message, now_ms)? {
            Published::Later(cause) => self.on_refused(&cause, now_ms),
            Published::Never(cause) => self.reject(outbox, format!("the log: {cause}")),
            Published::Stored(seq) => {
                let place = Place {
                    epoch: self.epoch,
                    seq,
                };
                self.refusals = 0;
                self.events.push_back(Event::Accepted { outbox, place });
                self.flight.settle(outbox);
            }
        }
        let awaited_ms = self.flight.oldest_sent_ms();
        if self.is_unanswered && awaited_ms.is_none_or(|it| now_ms < it + ORDER_MS_MAX) {
            self.is_unanswered = false;
            self.note_ready();
        }
        Ok(())
    }

    pub(super) fn read_answer(
        &mut self,
        message: &Message<'_>,
        now_ms: u64,
    ) -> Result<Published, String> {
        if let Err(cause) = no_responders(message) {
            // They may answer everything else.
            self.write = Write::Refused { retry_ms: now_ms };
            return Err(cause);
        }
        if let Some(seq) = PublishAnswer::seq_of(message.payload) {
            return Ok(Published::Stored(seq));
        }
        let answer: PublishAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("the answer to a publish: {error}"))?;
        Ok(match answer.error {
            None => Published::Stored(answer.seq),
            // It has no leader at the moment, or is overloaded, or full.
            Some(error) if error.code >= 500 => Published::Later(error.description),
            Some(error) => Published::Never(error.description),
        })
    }

    /// Asks the log to take a message that is none.
    pub(super) fn ask_to_write(&mut self, now_ms: u64) {
        self.write = Write::Probing { sent_ms: now_ms };
        let reply = format!("{}.r.w", self.options.inbox);
        self.probe(&reply);
    }

    /// Sends a message without content.
    pub(super) fn probe(&mut self, reply: &str) {
        let subject = format!("{}.-", self.options.prefix);
        // The same until it is taken, so that it is there once.
        let id = format!("{}-w{}", self.options.inbox, self.probes);
        wire::publish(
            &mut self.output,
            subject.as_bytes(),
            Some(reply.as_bytes()),
            [(HEADER_ID, id.as_bytes()), (HEADER_CONTENT, PROBE)],
            b"",
        );
    }

    pub(super) fn on_asked_to_write(
        &mut self,
        message: Message<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        if !matches!(self.write, Write::Probing { .. }) {
            return Ok(());
        }
        match self.read_answer(&message, now_ms)? {
            Published::Later(cause) => self.on_refused(&cause, now_ms),
            // It says of each record what is wrong with it.
            Published::Never(_) | Published::Stored(_) => {
                self.probes += 1;
                self.write = Write::Taken;
                self.failures = 0;
                self.note_ready();
            }
        }
        Ok(())
    }

    /// The log takes no messages for a while. What was sent is sent again.
    pub(super) fn on_refused(&mut self, words: &str, now_ms: u64) {
        if self.flight.len() > 0 {
            self.events.extend(self.flight.clear().map(Event::Released));
            self.events.push_back(Event::Rewind);
        }
        let retry_ms = now_ms + retry_ms(self.refusals);
        self.write = Write::Refused { retry_ms };
        self.refusals = self.refusals.saturating_add(1);
        self.is_unanswered = false;
        self.is_ready = false;
        let server = &self.options.servers[self.server];
        let cause = format!("{server}: the log does not take messages: {words}");
        self.tell_away(cause);
    }

    pub(super) fn tell_away(&mut self, cause: String) {
        if self.reported.add(&cause) {
            self.events.push_back(Event::Away(cause));
        }
    }

    pub(super) fn reject(&mut self, outbox: u64, cause: String) {
        self.events
            .push_back(Event::Rejected(Rejected { outbox, cause }));
        self.flight.settle(outbox);
    }
}

/// What the log says of a message.
pub(super) enum Published {
    Stored(u64),
    /// It does not take it now, and why.
    Later(String),
    Never(String),
}
