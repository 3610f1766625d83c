//! Appends records, and handles the replies.

use super::pending::Pending;
use super::scripts::{APPEND_MAX, RECORD_ARGUMENTS, SCRIPT_APPEND, SENT_RANK, SENT_SECONDS};
use super::{Redis, Write};
use crate::exchange::{Event, IN_FLIGHT_MAX, Outgoing, Place, UNSENT_BYTES_MAX, retry_ms};
use crate::resp::{self, Value};

impl Redis {
    pub fn can_send(&self) -> bool {
        self.is_live
            && self.write == Write::Taken
            && self.in_flight.len() < IN_FLIGHT_MAX
            && self.output.len() + self.batch.len() < UNSENT_BYTES_MAX
    }

    /// Adds a record to the next append. A full batch is sent immediately.
    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        self.now_ms = now_ms;
        // No floor is needed, because the script itself checks the epoch.
        self.in_flight.push(record.outbox, now_ms, false, 0);
        resp::argument(&mut self.batch, record.outbox.to_string().as_bytes());
        resp::argument(&mut self.batch, record.channel);
        // The first byte separates names from kinds: see `APPEND`.
        let (mark, text) = match (record.content.text(), record.name) {
            (Some(content), _) => (b'=', content),
            (None, Some(name)) => (b'+', name),
            (None, None) => (b'-', &b""[..]),
        };
        let mut name = vec![mark];
        name.extend_from_slice(text);
        resp::argument(&mut self.batch, &name);
        resp::argument(&mut self.batch, record.data);
        let except = record
            .except
            .map(|(worker, key)| format!("{worker:016x}{key:016x}"));
        resp::argument(&mut self.batch, except.unwrap_or_default().as_bytes());
        self.batched.push(record.outbox);
        if self.batched.len() == APPEND_MAX {
            self.append();
        }
    }

    pub fn discard(&mut self, outbox: u64, now_ms: u64) {
        self.in_flight.push(outbox, now_ms, true, 0);
        self.in_flight.settle(outbox);
    }

    /// Sends the batched records.
    pub(super) fn append(&mut self) {
        if !self.batched.is_empty() {
            self.ask_to_write();
        }
    }

    /// Sends the batched records, or an append without any.
    pub(super) fn ask_to_write(&mut self) {
        let records = std::mem::take(&mut self.batched);
        let epoch = self.epoch.to_string();
        // The last record that was sent before these and has no reply yet. If the server has refused it, the script must also
        // refuse these records, because the log would otherwise store them in the wrong order. Without such a record no check
        // is needed.
        let before = self
            .pending
            .iter()
            .rev()
            .find_map(|(pending, _)| match pending {
                Pending::Append(records) => records.last(),
                _ => None,
            });
        let before = if records.is_empty() {
            String::new()
        } else {
            before.map_or(String::new(), u64::to_string)
        };
        let application = self.options.application.as_deref().unwrap_or_default();
        let head: [&[u8]; 13] = [
            b"EVALSHA",
            &self.scripts[SCRIPT_APPEND],
            b"3",
            &self.keys.meta,
            &self.keys.log,
            &self.keys.sent,
            epoch.as_bytes(),
            &self.keys.events_max,
            &self.keys.notify_channel,
            SENT_RANK,
            SENT_SECONDS,
            before.as_bytes(),
            application.as_bytes(),
        ];
        let count = head.len() + records.len() * RECORD_ARGUMENTS;
        resp::begin(&mut self.output, count);
        for text in head {
            resp::argument(&mut self.output, text);
        }
        self.output.append(&mut self.batch);
        self.pending
            .push_back((Pending::Append(records), self.now_ms));
    }

    /// Handles a temporary refusal. Records that were sent after the refused ones are refused, too, because the log would store
    /// them in the wrong order. The caller sends all of them again when the server accepts writes.
    pub(super) fn on_refused(&mut self, words: &str) {
        let since_ms = match self.write {
            // This append was sent before the first refusal arrived. The next attempt is already scheduled.
            Write::Refused { retry_ms, .. } if retry_ms != u64::MAX => return,
            Write::Refused { since_ms, .. } => since_ms,
            _ => self.now_ms,
        };
        self.batch.clear();
        self.batched.clear();
        if self.in_flight.len() > 0 {
            self.events
                .extend(self.in_flight.clear().map(Event::Released));
            self.events.push_back(Event::Rewind);
        }
        self.write = Write::Refused {
            since_ms,
            retry_ms: self.now_ms + retry_ms(self.refusals),
        };
        self.refusals = self.refusals.saturating_add(1);
        self.refusal = format!("the server refuses to write: {words}");
        self.link.note_away();
        let cause = format!("{}: {}", self.link.name(), self.refusal);
        self.tell_away(cause);
    }

    /// Handles the reply to an append. Returns `None` if the reply is malformed.
    pub(super) fn on_appended(&mut self, records: &[u64], value: &Value<'_>) -> Option<()> {
        let [stored, places] = value.as_array()? else {
            return None;
        };
        let (stored_ms, places) = (stored.as_number(), places.as_array()?);
        if places.len() != records.len() {
            return None;
        }
        for (&outbox, seq) in records.iter().zip(places) {
            let place = Place {
                epoch: self.epoch,
                seq: seq.as_number()?,
            };
            self.last = self.last.max(place.seq);
            // Acknowledgements arrive in the order of the log, so the last one is the newest.
            self.acknowledged = Some((place, stored_ms));
            self.events.push_back(Event::Accepted { outbox, place });
            self.in_flight.settle(outbox);
            self.refusals = 0;
        }
        self.write = Write::Taken;
        self.link.handle_success();
        self.note_ready();
        Some(())
    }
}
