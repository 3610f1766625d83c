//! Handles messages of the consumer: stored messages, heartbeats, and flow-control requests.

use super::consumer::{Checked, HOLE, Proof, Stage, Trust};
use super::copy::{Mark, Verdict};
use super::headers::{HEADER_APPLICATION, HEADER_CONTENT, HEADER_EXCEPT, HEADER_NAME, PROBE};
use super::log::Reached;
use super::{LAGS, Nats, OTHER_MESSAGE};
use crate::exchange::{Content, Event, Received, read_except};
use crate::jetstream::Delivery;
use crate::subject::unescape;
use crate::wire::{self, Message};

impl Nats {
    /// Handles a message from the server itself on the consumer's subject, which is a heartbeat or a flow-control request.
    pub(super) fn on_control(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let Some((status, _)) = message.status() else {
            return Ok(());
        };
        if status != 100 {
            return Err(format!("the consumer has ended with status {status}"));
        }
        let stalled = message.header("Nats-Consumer-Stalled");
        // The server stops delivering until it receives an answer. While messages are held, delay the answer, which bounds
        // their number.
        match (message.reply.or(stalled), self.link.held_mut()) {
            (Some(reply), Some(held)) => held.stalled = Some(reply.to_vec()),
            (Some(reply), None) => wire::publish(&mut self.output, reply, None, [], b""),
            (None, _) => {}
        }
        // The server waits for an answer before it delivers the message that is to be compared. Go live now, which answers it,
        // and compare a later message.
        if self.link.proof() == Some(Proof::Copy)
            && self.link.consumer().is_some_and(|it| it.has_stalled())
        {
            self.go_live(now_ms)?;
        }
        let last = message.header("Nats-Last-Consumer");
        let last = last.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        let Some(consumer) = self.link.consumer_mut() else {
            return Ok(());
        };
        match last {
            Some(last) if last > consumer.seq => return Err(HOLE.to_owned()),
            // The server sends this heartbeat only if it has nothing to deliver.
            Some(_) if stalled.is_none() => {
                consumer.past.note_drained(true);
                self.note_ready();
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles a stored message. Its reply subject has its sequence in the stream and its number among the consumer's
    /// deliveries.
    pub(super) fn on_delivery(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let delivery = message.reply.and_then(Delivery::read);
        let (Some(delivery), Some(reached)) = (delivery, self.log.reached) else {
            return Err("unexpected message".to_owned());
        };
        // The consumer is set from its request on, because deliveries may arrive before the response to the request.
        let Some(consumer) = self.link.consumer_mut() else {
            return Err("unexpected message: no consumer exists".to_owned());
        };
        consumer.count(&delivery)?;
        if !self.log.is_replicated {
            return self.take_delivery(message, delivery, reached);
        }
        // The copy lagged and lacked the sequence `from`, so the server started with an earlier one. Skip messages before
        // `from`.
        if delivery.stream_seq < consumer.from {
            return Ok(());
        }
        let given = Mark {
            seq: delivery.stream_seq,
            unix_ns: delivery.unix_ns,
        };
        let verdict = consumer.compare(given, now_ms);
        if verdict == Some(Verdict::Different) {
            return Err(self.on_other_copy(given.seq));
        }
        self.take_delivery(message, delivery, reached)?;
        match verdict {
            Some(_) => self.on_same_copy(now_ms),
            None => Ok(()),
        }
    }

    /// Handles a position at which the leader and the consumer's copy have different messages. Earlier messages may differ,
    /// too. Returns the reason for closing the connection.
    pub(super) fn on_other_copy(&mut self, seq: u64) -> String {
        if let Some(consumer) = self.link.consumer()
            && let Stage::Live(_) = consumer.stage
        {
            match consumer.trust {
                // All messages came from this copy. The next consumer starts as if nothing had been read.
                Trust::Unproven => self.log.reached = None,
                // Clients may hold event ids that belong to other events on other nodes. The log counts as replaced, so that it
                // gets a new epoch.
                Trust::Checking | Trust::Doubted | Trust::Settled => self.log.is_replaced = true,
            }
        }
        format!("its copy of the log has another message at {seq} than the leader")
    }

    /// Handles that the leader has the same message as the consumer's copy.
    fn on_same_copy(&mut self, now_ms: u64) -> Result<(), String> {
        let Some(consumer) = self.link.consumer_mut() else {
            return Ok(());
        };
        // The copy is correct and differs from the messages that were read, so the log was replaced.
        if consumer.resolve_doubt() {
            self.log.is_replaced = true;
            return Err(OTHER_MESSAGE.to_owned());
        }
        consumer.trust = Trust::Settled;
        match self.link.proof() {
            Some(Proof::Copy) => self.go_live(now_ms),
            _ => Ok(()),
        }
    }

    /// Passes on a delivery. `reached` is the position before that delivery.
    fn take_delivery(
        &mut self,
        message: Message<'_>,
        delivery: Delivery,
        reached: Reached,
    ) -> Result<(), String> {
        let Some(consumer) = self.link.consumer_mut() else {
            return Ok(());
        };
        match consumer.check(&delivery, reached) {
            Checked::New => {}
            // This message was passed on before, but may be the last one that [`Event::Ready`] waits for.
            Checked::Known => {
                self.note_ready();
                return Ok(());
            }
            Checked::Replaced => {
                self.log.is_replaced = true;
                return Err(OTHER_MESSAGE.to_owned());
            }
        }
        let reached = reached.place.seq;
        if delivery.stream_seq <= reached {
            return Err("the consumer has delivered an earlier message".to_owned());
        }
        if delivery.stream_seq > reached + 1 {
            // Sequences are missing, although the stream's description counts no deleted messages. Either the copy lacks these
            // messages, or the leader has removed them since the description. Connect again, because the next description shows
            // which. The first delivery is exempt: a stream removes its oldest messages when they expire.
            if self.log.is_replicated && !consumer.past.may_have_holes && delivery.consumer_seq > 1
            {
                return Err(LAGS.to_owned());
            }
            let notice = format!(
                "the log has removed messages that were not read, {} of them; clients receive a gap event",
                delivery.stream_seq - reached - 1
            );
            self.give(Event::Notice(notice));
            let begin = self.log.restart(delivery.stream_seq - 1);
            self.give(begin);
        }
        let place = self.log.place(delivery.stream_seq);
        self.log.reached = Some(Reached {
            place,
            stored_ms: Some(delivery.unix_ms()),
        });
        for event in self.events_of(&message, &delivery).into_iter().flatten() {
            self.give(event);
        }
        self.note_ready();
        Ok(())
    }

    /// Returns the events of a delivered message.
    fn events_of(&self, message: &Message<'_>, delivery: &Delivery) -> [Option<Event>; 2] {
        let place = self.log.place(delivery.stream_seq);
        let passed = Some(Event::Passed(place));
        let [content, name, except, application] = message.headers([
            HEADER_CONTENT,
            HEADER_NAME,
            HEADER_EXCEPT,
            HEADER_APPLICATION,
        ]);
        if !self.options.is_own(application) {
            return [Some(self.options.intruder(application)), passed];
        }
        if content == Some(PROBE) {
            return [passed, None];
        }
        let prefix = self.options.prefix.as_bytes();
        let token = message
            .subject
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix(b"."));
        let content = Content::read(content);
        let Some((channel, content)) = token.and_then(unescape).zip(content) else {
            let subject = String::from_utf8_lossy(message.subject).into_owned();
            let notice = format!(
                "skipped a message: its subject {subject:?} is no channel, or its content is unknown"
            );
            return [Some(Event::Notice(notice)), passed];
        };
        let record = Event::Record(Received {
            place,
            content,
            channel,
            name: name.map(<[u8]>::to_vec),
            data: message.payload.to_vec(),
            except: except.and_then(read_except),
            unix_ms: delivery.unix_ms(),
        });
        [Some(record), None]
    }

    /// Passes an event on, or holds it until the consumer is proven.
    fn give(&mut self, event: Event) {
        match self.link.held_mut() {
            Some(held) => held.events.push(event),
            None => self.events.push_back(event),
        }
    }
}
