//! Older messages, for clients that missed more than their node retains.

use super::Redis;
use super::entry::Entry;
use super::pending::Pending;
use super::scripts::{PAST_LOOKS_MAX, READ_BYTES_MAX, SCRIPT_PAST};
use crate::exchange::{Event, PAST_REQUESTS_MAX, PastEntry, PastRequest, Place};
use crate::past::Collector;
use crate::resp::{self, Value};

impl Redis {
    /// Returns true if another request for older messages may be made.
    pub fn can_ask_past(&self) -> bool {
        let is_past = |pending: &&(Pending, u64)| matches!(pending.0, Pending::Past(_));
        self.is_live && self.pending.iter().filter(is_past).count() < PAST_REQUESTS_MAX
    }

    pub fn ask_past(&mut self, request: PastRequest, now_ms: u64) {
        self.now_ms = now_ms;
        let collector = Box::new(Collector::new(request));
        if collector.request.epoch == self.epoch {
            self.ask_past_on(collector)
        } else {
            self.give_past(collector.fail())
        }
    }

    /// Requests the messages after the last one that was examined.
    pub(super) fn ask_past_on(&mut self, collector: Box<Collector>) {
        let (epoch, from) = (self.epoch.to_string(), (collector.at + 1).to_string());
        let up_to = collector.request.up_to.to_string();
        let mut command: Vec<&[u8]> = vec![
            b"EVALSHA",
            &self.scripts[SCRIPT_PAST],
            b"2",
            &self.keys.meta,
            &self.keys.log,
            epoch.as_bytes(),
            from.as_bytes(),
            up_to.as_bytes(),
            PAST_LOOKS_MAX,
            READ_BYTES_MAX,
        ];
        command.extend(collector.request.channels.iter().map(|name| &name[..]));
        resp::command(&mut self.output, &command);
        self.pending
            .push_back((Pending::Past(collector), self.now_ms));
    }

    pub(super) fn give_past(&mut self, (id, entries): (u64, Vec<PastEntry>)) {
        self.events.push_back(Event::Past { id, entries });
    }

    pub(super) fn on_past(
        &mut self,
        mut collector: Box<Collector>,
        value: &Value<'_>,
    ) -> Option<()> {
        let [first, last, entries] = value.as_array()? else {
            return None;
        };
        let (from, up_to) = (collector.at + 1, collector.request.up_to);
        match first.as_number() {
            // Sequences have no holes, so the log has removed the messages before the first one that was found.
            Some(first) if first > from => collector.miss(first - 1),
            Some(_) => {}
            // The log has another epoch, or no message in this range.
            None => collector.miss(up_to),
        }
        let mut goes_on = true;
        for entry in entries.as_array()? {
            let entry = Entry::read(entry)?;
            let is_own = self.options.is_own(entry.application);
            let content = entry.channel.and(entry.data).and(entry.content);
            let content = content.filter(|_| is_own);
            let place = Place {
                epoch: self.epoch,
                seq: entry.seq,
            };
            goes_on &= collector.look(content, || entry.received(place));
        }
        collector.at = last.as_number()?.max(collector.at);
        match goes_on {
            true if collector.at < up_to => self.ask_past_on(collector),
            true => self.give_past(collector.finish()),
            false => self.give_past(collector.fail()),
        }
        Some(())
    }
}
