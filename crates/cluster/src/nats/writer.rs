//! Writes records to the log: the records in flight, and whether the log accepts messages.

use super::headers::{
    HEADER_APPLICATION, HEADER_CONTENT, HEADER_EXCEPT, HEADER_ID, HEADER_NAME, PROBE,
};
use crate::decimal;
use crate::exchange::{Options, Outgoing, retry_ms};
use crate::in_flight::InFlightQueue;
use crate::subject::escape;
use crate::wire;

/// Whether the log accepts messages. This state outlives a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// The log accepts messages, or its state is unknown.
    Accepting,
    /// The oldest record has no acknowledgement after [`ORDER_MS_MAX`](super::ORDER_MS_MAX). No other records are sent until it
    /// has one.
    Stalled,
    /// The log has refused a message. The next probe is due at `retry_ms`, or as soon as a new connection is live.
    Refused { retry_ms: u64 },
    /// A probe was sent.
    Probing { sent_ms: u64 },
}

/// Writes records to the log.
pub(super) struct Writer {
    pub state: Write,
    /// Refusals since the last acknowledged record.
    pub refusals: u32,
    /// Probes that the log has stored.
    pub probes: u64,
    pub in_flight: InFlightQueue,
    /// Buffers of the record that is being written, reused.
    subject: Vec<u8>,
    reply: Vec<u8>,
    id: Vec<u8>,
}

/// The log's response to a message.
pub(super) enum Published {
    Stored {
        seq: u64,
        /// True if the log already had the message.
        is_duplicate: bool,
    },
    /// Refused for now, with the cause.
    Later(String),
    /// Refused for ever, with the cause.
    Never(String),
}

impl Writer {
    pub fn new() -> Writer {
        Writer {
            state: Write::Accepting,
            refusals: 0,
            probes: 0,
            in_flight: InFlightQueue::default(),
            subject: Vec::new(),
            reply: Vec::new(),
            id: Vec::new(),
        }
    }

    /// Handles the end of the connection. The next attempt is due at `retry_ms`.
    pub fn end(&mut self, retry_ms: u64) {
        self.state = match self.state {
            // The next connection sends the unacknowledged records again, from the oldest one on.
            Write::Stalled => Write::Accepting,
            Write::Probing { .. } => Write::Refused { retry_ms },
            other => other,
        };
    }

    /// Records a refusal. The log counts as refusing until it accepts a probe.
    pub fn refuse(&mut self, now_ms: u64) {
        let retry_ms = now_ms + retry_ms(self.refusals);
        self.state = Write::Refused { retry_ms };
        self.refusals = self.refusals.saturating_add(1);
    }

    /// Returns the time at which the oldest unacknowledged message was sent.
    pub fn awaited_ms(&self) -> Option<u64> {
        match self.state {
            Write::Probing { sent_ms } => Some(sent_ms),
            _ => self.in_flight.oldest_sent_ms(),
        }
    }

    /// Appends a record to `output`. Returns the number of appended bytes.
    pub fn write(&mut self, record: &Outgoing<'_>, options: &Options, output: &mut Vec<u8>) -> u64 {
        let start = output.len();
        self.subject.clear();
        self.subject.extend_from_slice(options.prefix.as_bytes());
        self.subject.push(b'.');
        escape(record.channel, &mut self.subject);
        let mut number = [0; decimal::DIGITS_MAX];
        let number = decimal::write(record.outbox, &mut number);
        self.reply.clear();
        self.reply.extend_from_slice(options.inbox.as_bytes());
        self.reply.extend_from_slice(b".r.p.");
        self.reply.extend_from_slice(number);
        self.id.clear();
        self.id.extend_from_slice(options.outbox.as_bytes());
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
            { &options.application }
                .as_ref()
                .map(|application| (HEADER_APPLICATION, application.as_bytes())),
        ];
        wire::publish(
            output,
            &self.subject,
            Some(&self.reply),
            headers.into_iter().flatten(),
            record.data,
        );
        (output.len() - start) as u64
    }

    /// Appends a probe to `output`.
    pub fn write_probe(&self, reply: &str, options: &Options, output: &mut Vec<u8>) {
        let subject = format!("{}.-", options.prefix);
        // The id does not change until a probe is stored, so that repeated probes are stored only once.
        let id = format!("{}-w{}", options.inbox, self.probes);
        wire::publish(
            output,
            subject.as_bytes(),
            Some(reply.as_bytes()),
            [(HEADER_ID, id.as_bytes()), (HEADER_CONTENT, PROBE)],
            b"",
        );
    }
}
