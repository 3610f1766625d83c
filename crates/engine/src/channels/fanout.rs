//! Fan-out: delivers new records of the ring to all subscribers of this worker.

use fermata_io::{Deadline, Driver};

use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::net::index::ExchangeIndex;

/// Maximum number of records read from the ring in a row.
pub(crate) const PUMP_SLICE: usize = 1024;

/// Maximum number of ring reads per turn while no subscriber needs the records.
pub(crate) const PUMPS_MAX: usize = 8;

/// Time limit in milliseconds for serving subscribers in a row; the clock has a resolution of 1 ms,
/// so it takes one to two. The clock is read after every `FANOUT_CLOCK_EVERY` sends.
const FANOUT_MS_MAX: u64 = 2;
const FANOUT_CLOCK_EVERY: usize = 64;

impl Channels {
    /// Delivers new records to at most `subscribers_max` subscribers, for about `FANOUT_MS_MAX`.
    /// Returns true if work is left.
    ///
    /// A send takes one to ten microseconds, because in a large crowd a client's memory is no
    /// longer in the processor's caches. So a maximum count of sends does not limit the delay of
    /// other clients.
    ///
    /// The ring is read further only after all subscribers were served. So the channel's log never
    /// overtakes a client that keeps up. After a crowd, reading pauses to collect more messages
    /// (`gather`).
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
            while let Some(owner) = self.local.next_ready() {
                let (local, ring) = (&mut self.local, &mut self.ring);
                if !self.readers.wake_owner(owner, local, ring, to.waiting) {
                    self.send_held(to, ExchangeIndex(owner));
                    self.after_output(to);
                }
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

    /// Runs a complete round: delivers the next records of the ring to all their subscribers.
    pub(crate) fn catch_up<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        self.after_output(to);
        // Complete the current round first: the channel logs have room for one round. The records
        // of a second round would displace unsent ones.
        self.finish_round(to);
        self.pump(to);
        self.finish_round(to);
        to.net.driver.flush();
    }

    /// Delivers everything published so far, until `until` at the latest.
    pub(crate) fn catch_up_by<D: Driver>(&mut self, to: &mut Clients<'_, D>, until: Deadline) {
        self.catch_up(to);
        while self.reader.has_more() && !until.is_due(to.net.driver.refresh_now()) {
            self.catch_up(to);
        }
    }

    fn finish_round<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        while let Some(owner) = self.local.next_ready() {
            let (local, ring) = (&mut self.local, &mut self.ring);
            if !self.readers.wake_owner(owner, local, ring, to.waiting) {
                self.send_held(to, ExchangeIndex(owner));
                self.after_output(to);
            }
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
