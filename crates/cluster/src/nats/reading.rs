//! What the consumer gives.

use super::copy::{Mark, Verdict};
use super::{HEADER_CONTENT, HEADER_EXCEPT, HEADER_NAME, LAGS, Nats, OTHER_MESSAGE, PROBE, Step};
use crate::exchange::{Content, Event, Place, Received, read_except};
use crate::jetstream::Delivery;
use crate::subject::unescape;
use crate::wire::{self, Message};

impl Nats {
    /// The server itself speaks on the consumer's subject: it lives, or asks how fast it may go on.
    pub(super) fn on_control(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let Some((status, _)) = message.status() else {
            return Ok(());
        };
        if status != 100 {
            return Err(format!("the consumer has ended with status {status}"));
        }
        let stalled = message.header("Nats-Consumer-Stalled");
        match (message.reply.or(stalled), &mut self.early) {
            (Some(reply), Some(early)) => early.stalled = Some(reply.to_vec()),
            (Some(reply), None) => wire::publish(&mut self.output, reply, None, [], b""),
            (None, _) => {}
        }
        // It gives no more before it is answered, so the rest is compared when it was passed on.
        if self.step() == Some(Step::SameCopy) && self.has_stalled() {
            self.begin_live(now_ms)?;
        }
        let last = message.header("Nats-Last-Consumer");
        let last = last.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        match last {
            Some(last) if last > self.consumer_seq => {
                return Err("the log has sent messages that did not arrive".to_owned());
            }
            // It speaks without having been stalled when it has nothing to give.
            Some(_) if stalled.is_none() => {
                self.is_drained |= self.may_have_holes;
                self.note_ready();
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn on_delivery(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let delivery = message.reply.and_then(Delivery::read);
        let (Some(delivery), Some(reached)) = (delivery, self.reached) else {
            return Err("a message that was not asked for".to_owned());
        };
        // The first ones may come before the consumer's answer.
        if !matches!(
            self.step(),
            Some(Step::Consumer | Step::SameStream | Step::SameCopy | Step::Live)
        ) {
            return Err("a message before there is a consumer".to_owned());
        }
        if delivery.consumer_seq != self.consumer_seq + 1 {
            return Err("the log has sent messages that did not arrive".to_owned());
        }
        self.consumer_seq = delivery.consumer_seq;
        self.is_drained |= delivery.pending == 0 && self.may_have_holes;
        if !self.is_replicated {
            return self.take_delivery(message, delivery, reached);
        }
        // Its server lags behind, and has begun with what comes next there.
        if delivery.stream_seq < self.consumer_from {
            return Ok(());
        }
        self.given_ms = now_ms;
        let given = Mark {
            seq: delivery.stream_seq,
            unix_ns: delivery.unix_ns,
        };
        let verdict = self.copy.give(given);
        if verdict == Some(Verdict::Different) {
            return Err(self.on_other_copy(given.seq));
        }
        self.take_delivery(message, delivery, reached)?;
        match verdict {
            Some(_) => self.on_same_copy(now_ms),
            None => Ok(()),
        }
    }

    /// The leader has another message at a place that the consumer has given: so may be what it gave before it.
    pub(super) fn on_other_copy(&mut self, seq: u64) -> String {
        if self.early.is_none() {
            match self.is_first {
                // Clients of before this server was ready: it begins anew for them.
                true => self.reached = None,
                // Their ids are of other events elsewhere.
                false => self.has_lost = true,
            }
        }
        format!("its copy of the log has another message at {seq} than the leader")
    }

    /// The leader has the same message as the consumer.
    fn on_same_copy(&mut self, now_ms: u64) -> Result<(), String> {
        self.is_first = false;
        if std::mem::take(&mut self.is_doubted) {
            self.has_lost = true;
            return Err(OTHER_MESSAGE.to_owned());
        }
        match self.step() {
            Some(Step::SameCopy) => self.begin_live(now_ms),
            _ => Ok(()),
        }
    }

    fn has_stalled(&self) -> bool {
        self.early.as_ref().is_some_and(|it| it.stalled.is_some())
    }

    /// `reached` is where the consumer stood before it.
    fn take_delivery(
        &mut self,
        message: Message<'_>,
        delivery: Delivery,
        reached: Place,
    ) -> Result<(), String> {
        if std::mem::take(&mut self.is_checking) && delivery.stream_seq == reached.seq {
            let is_same = self.reached_ms == Some(delivery.unix_ms());
            // Whether it is the copy's fault is known when the leader's last message has come.
            self.is_doubted = !is_same && self.copy.awaited_ms().is_some();
            if !is_same && !self.is_doubted {
                self.has_lost = true;
                return Err(OTHER_MESSAGE.to_owned());
            }
            self.note_ready();
            return Ok(());
        }
        if delivery.stream_seq <= reached.seq {
            return Err("the log has gone back".to_owned());
        }
        if delivery.stream_seq > reached.seq + 1 {
            // Where the leader has removed none, it is the copy that lacks them; or the next answer says that they are gone.
            if self.is_replicated && !self.may_have_holes && delivery.consumer_seq > 1 {
                return Err(LAGS.to_owned());
            }
            let notice = format!(
                "the log has removed messages that were not read, {} of them: clients are told that messages may be missing",
                delivery.stream_seq - reached.seq - 1
            );
            self.give(Event::Notice(notice));
            self.begin(delivery.stream_seq - 1);
        }
        let place = Place {
            epoch: self.epoch,
            seq: delivery.stream_seq,
        };
        self.reached = Some(place);
        self.reached_ms = Some(delivery.unix_ms());
        let prefix = self.options.prefix.as_bytes();
        let token = message
            .subject
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix(b"."));
        let [content, name, except] = message.headers([HEADER_CONTENT, HEADER_NAME, HEADER_EXCEPT]);
        if content == Some(PROBE) {
            self.note_ready();
            return Ok(());
        }
        let content = Content::read(content);
        match token.and_then(unescape).zip(content) {
            Some((channel, content)) => self.give(Event::Record(Received {
                place,
                content,
                channel,
                name: name.map(<[u8]>::to_vec),
                data: message.payload.to_vec(),
                except: except.and_then(read_except),
                unix_ms: delivery.unix_ms(),
            })),
            None => {
                let subject = String::from_utf8_lossy(message.subject).into_owned();
                let notice = format!(
                    "a message is left out: its subject {subject:?} is no channel, or its content is not known"
                );
                self.give(Event::Notice(notice));
            }
        }
        self.note_ready();
        Ok(())
    }
}
