//! Channels: publishing, held clients, missed events, fan-out and presence.

pub(crate) mod ahead;
mod append;
pub(crate) mod busy;
pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod encode;
pub(crate) mod fanout;
pub(crate) mod follow;
pub(crate) mod gather;
pub(crate) mod hold;
pub(crate) mod items;
pub(crate) mod keep_alives;
mod members;
pub(crate) mod memory;
pub(crate) mod missed;
pub(crate) mod notes;
pub(crate) mod opening;
pub(crate) mod pace;
pub(crate) mod presence;
pub(crate) mod publish;
pub(crate) mod readers;
pub(crate) mod resume;
pub(crate) mod since;
pub(crate) mod stream_format;
#[cfg(test)]
pub(crate) mod test_ring;
pub(crate) mod views;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::Thread;

use fermata_config::Settings;
use fermata_hub::{Local, LocalConfig, Owner, Reader, Ring};
use fermata_io::Deadline;
use fermata_io::wake::Waker;

use crate::admin::stats::{Counter, Counts};
use ahead::{Ahead, Resuming};
use cluster::Outbox;
use encode::Encoder;
use follow::{Follower, FollowerThread};
use gather::{Gather, RING_SHARE};
use keep_alives::KeepAlives;
use readers::Readers;

/// A worker's channel state: the shared ring, and its own subscribers.
pub struct Channels {
    pub(crate) slot: u16,
    settings: Arc<Settings>,
    pub(crate) owner: Owner,
    pub(crate) ring: Ring,
    pub(crate) reader: Reader,
    pub(crate) local: Local,
    pub(crate) encoder: Encoder,
    pub(crate) gather: Gather,
    pub(crate) keep_alives: KeepAlives,
    /// Random identity of this worker process, part of its sockets' ids.
    pub(crate) identity: u64,
    /// Wakers, indexed by slot.
    pub(crate) wakers: Arc<Vec<Waker>>,
    /// Threads that read published events.
    pub(crate) followers: Vec<FollowerThread>,
    /// Handlers that read a channel.
    pub(crate) readers: Readers,
    /// Held clients that are ready for the next piece of missed events, and readers to wake.
    pub(crate) resuming: VecDeque<Resuming>,
    /// Clients and readers whose last event id has not yet reached this machine.
    pub(crate) ahead: Ahead,
    /// [`Ring::log_turn`] at the last check of the clients in `ahead`.
    pub(crate) log_turn: u64,
    /// Outbox for records that also go to other machines.
    pub(crate) outbox: Option<Outbox>,
    /// Time of the next check of leaving users. There is no next check if no user is leaving.
    pub(crate) sweep: Deadline,
    /// Reused buffer for the rest of a partially sent record.
    pub(crate) rest: Vec<u8>,
}

impl Channels {
    /// Joins `ring` as the worker of `slot`.
    ///
    /// # Errors
    /// The ring's lock is unavailable.
    pub(crate) fn new(
        slot: u16,
        settings: &Arc<Settings>,
        mut ring: Ring,
        wakers: Arc<Vec<Waker>>,
        mut outbox: Option<Outbox>,
        now_ms: u64,
        unix_ms: u64,
    ) -> io::Result<Channels> {
        let owner = memory::owner(u32::from(slot));
        ring.set_channel_members_max(settings.members_per_channel_max);
        ring.set_source_members_max(settings.members_per_address_max);
        if let Some(outbox) = &mut outbox {
            ring.leave_announcements_to_caller();
            outbox.past().set_slot(slot);
            let members = outbox.members();
            members.set_channel_members_max(settings.members_per_channel_max);
        }
        let started = ring.worker_started(&owner, unix_ms);
        let reader = started.map_err(io::Error::other)?;
        let identity = cluster::new_identity(outbox.as_ref());
        let mut local = Local::new(LocalConfig {
            log_bytes_max: settings.channel_log_bytes_max,
            hasher: ring.hasher(),
        });
        local.receive_directs(identity, &private_channel(slot));
        local.receive_common(&WORKERS_CHANNEL);
        Ok(Channels {
            encoder: Encoder::new(ring.ids()),
            gather: Gather::new(settings.gather_ms_max),
            keep_alives: KeepAlives::default(),
            settings: Arc::clone(settings),
            slot,
            owner,
            ring,
            reader,
            local,
            identity,
            wakers,
            followers: Vec::new(),
            readers: Readers::new(),
            resuming: VecDeque::new(),
            ahead: Ahead::default(),
            log_turn: 0,
            outbox,
            // Check immediately, because users whose worker has crashed may be waiting to leave.
            sweep: Deadline::at(now_ms),
            rest: Vec::new(),
        })
    }

    /// Returns true if reading the ring is delayed.
    pub(crate) fn is_gathering(&self, now_ms: u64) -> bool {
        self.gather.left_ms(now_ms) > 0
            && self.ring.lag_bytes(u32::from(self.slot)) < self.ring.bytes() / RING_SHARE
    }

    /// Returns the time to wait for events while the ring has unread records, at most `timeout_ms`.
    pub(crate) fn gathering_ms(&self, now_ms: u64, timeout_ms: Option<u64>) -> u64 {
        if !self.is_gathering(now_ms) {
            return 0;
        }
        let left_ms = self.gather.left_ms(now_ms);
        timeout_ms.map_or(left_ms, |timeout_ms| timeout_ms.min(left_ms))
    }

    /// Returns a reader of published events that starts at the oldest retained one.
    pub fn follow(&self) -> Follower {
        Follower::new(&self.ring)
    }

    /// Unparks a thread whenever something is published. `figures` returns its counts of forwarded
    /// events, refused events and losses.
    pub fn tell_follower(&mut self, thread: Thread, figures: Box<dyn Fn() -> [u64; 3]>) {
        self.followers.push(FollowerThread { thread, figures });
    }

    pub(crate) fn tell_followers(&self) {
        for told in &self.followers {
            told.thread.unpark();
        }
    }

    /// Sets the counters of events for edges to the sums over all threads that forward events.
    pub(crate) fn report_followers(&self, counts: &mut Counts) {
        if self.followers.is_empty() {
            return;
        }
        let mut sums = [0; 3];
        for told in &self.followers {
            for (sum, figure) in sums.iter_mut().zip((told.figures)()) {
                *sum += figure;
            }
        }
        for (counter, sum) in [Counter::EdgeTaken, Counter::EdgeRefused, Counter::EdgeLost]
            .into_iter()
            .zip(sums)
        {
            counts.set(counter, sum);
        }
    }
}

/// Internal channel for messages of other machines to all workers.
pub(crate) const WORKERS_CHANNEL: [u8; 4] = *b"\0all";

/// Returns a worker's internal channel for messages to single sockets. It starts with a control
/// character, so applications cannot use it.
pub(crate) fn private_channel(slot: u16) -> [u8; 4] {
    let [high, low] = slot.to_be_bytes();
    [0, b'w', high, low]
}
