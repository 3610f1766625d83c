//! Fan-out: what was published, from the ring to all subscribers of this worker.

use fermata_io::{Deadline, Driver};

use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::net::index::ExchangeIndex;

/// Records read from the ring at once.
pub(crate) const PUMP_SLICE: usize = 1024;

/// How often the ring is read in one turn while nobody here wants what is read.
pub(crate) const PUMPS_MAX: usize = 8;

/// How long subscribers are served in a row before other clients get their turn, by a clock of whole
/// milliseconds: one to two of them. It is looked at after every so many sends.
const FANOUT_MS_MAX: u64 = 2;
const FANOUT_CLOCK_EVERY: usize = 64;

impl Channels {
    /// Brings new records to subscribers, at most `subscribers_max` of them and for at most some
    /// `FANOUT_MS_MAX`. True when there is more to do.
    ///
    /// A send costs a microsecond or ten: among very many clients each one's memory has left the
    /// caches since its last message, so a count alone does not bound the time that others wait.
    ///
    /// The ring is read on only when everybody has been offered what was read before: a client that
    /// keeps up is then never overtaken by its channel's log. After a crowd it waits for more (`gather`).
    pub(crate) fn fan_out<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        subscribers_max: usize,
    ) -> bool {
        debug_assert!(
            to.net.ended.is_empty(),
            "their subscriptions are still there"
        );
        let mut served = 0;
        let mut until_ms = 0;
        for _ in 0..PUMPS_MAX {
            while let Some(index) = self.local.next_ready() {
                self.send_held(to, ExchangeIndex(index));
                self.after_output(to);
                served += 1;
                if served == subscribers_max {
                    self.gather.add_served(served);
                    return true;
                }
                if served.is_multiple_of(FANOUT_CLOCK_EVERY) {
                    let now_ms = to.net.driver.refresh_now();
                    if served == FANOUT_CLOCK_EVERY {
                        until_ms = now_ms + FANOUT_MS_MAX;
                    } else if now_ms >= until_ms {
                        self.gather.add_served(served);
                        return true;
                    }
                }
            }
            if served > 0 {
                self.gather.add_served(served);
                self.gather.end_round(to.net.driver.now_ms());
                let now_ms = to.net.driver.now_ms();
                return self.reader.has_more() && !self.is_gathering(now_ms);
            }
            let now_ms = to.net.driver.now_ms();
            if !self.reader.has_more() || self.is_gathering(now_ms) {
                return false;
            }
            self.pump(to);
        }
        true
    }

    /// A whole round at once: the next records of the ring, to all their subscribers.
    pub(crate) fn catch_up<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        self.after_output(to);
        // The round that was going on comes first: the logs have no room for two.
        self.finish_round(to);
        self.pump(to);
        self.finish_round(to);
        to.net.driver.flush();
    }

    /// Brings everything that was published to its subscribers, who will hear of nothing more, in the time until `until`.
    pub(crate) fn catch_up_by<D: Driver>(&mut self, to: &mut Clients<'_, D>, until: Deadline) {
        self.catch_up(to);
        while self.reader.has_more() && !until.is_due(to.net.driver.refresh_now()) {
            self.catch_up(to);
        }
    }

    fn finish_round<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        while let Some(index) = self.local.next_ready() {
            self.send_held(to, ExchangeIndex(index));
            self.after_output(to);
        }
    }

    fn pump<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        self.local
            .pump(&mut self.reader, &mut self.encoder, PUMP_SLICE);
        if !self.encoder.unsent.is_empty() {
            self.queue_stream_items(to);
        }
        self.deliver_directs(to);
        if !self.ahead.is_empty() {
            self.look_ahead();
        }
        self.tell_followers();
    }
}
