//! Channels: publishing, held clients, what they missed, fan-out and presence.

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
pub(crate) mod resume;
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
use crate::net::slab::Key;
use ahead::Ahead;
use cluster::Outbox;
use encode::Encoder;
use follow::{Follower, FollowerThread};
use gather::{Gather, RING_SHARE};
use keep_alives::KeepAlives;

/// What a worker knows of channels: the ring that it shares with the others, and its own subscribers.
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
    /// Tells this life of the worker from all others, in the ids of its sockets.
    pub(crate) identity: u64,
    /// Wakers of all slots, by slot.
    pub(crate) wakers: Arc<Vec<Waker>>,
    /// Threads that read what is published.
    pub(crate) followers: Vec<FollowerThread>,
    /// Held clients that have room for the next piece of what they missed.
    pub(crate) resuming: VecDeque<Key>,
    /// Those that have seen on another machine what has not come here yet.
    pub(crate) ahead: Ahead,
    /// Where what is published goes that is for other machines as well.
    pub(crate) outbox: Option<Outbox>,
    /// When leaving users are looked at, if any are.
    pub(crate) sweep: Deadline,
    /// The rest of a record of which a client has taken a part, reused.
    pub(crate) rest: Vec<u8>,
}

impl Channels {
    /// Joins `ring` as the worker of `slot`.
    ///
    /// # Errors
    /// The ring's lock is not to be had.
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
            resuming: VecDeque::new(),
            ahead: Ahead::default(),
            outbox,
            // Users whose worker has died may be waiting to be announced as gone.
            sweep: Deadline::at(now_ms),
            rest: Vec::new(),
        })
    }

    /// Whether the ring is left alone for now.
    pub(crate) fn is_gathering(&self, now_ms: u64) -> bool {
        self.gather.left_ms(now_ms) > 0
            && self.ring.lag_bytes(u32::from(self.slot)) < self.ring.bytes() / RING_SHARE
    }

    /// How long to wait for events while there is something in the ring, of at most `timeout_ms`.
    pub(crate) fn gathering_ms(&self, now_ms: u64, timeout_ms: Option<u64>) -> u64 {
        if !self.is_gathering(now_ms) {
            return 0;
        }
        let left_ms = self.gather.left_ms(now_ms);
        timeout_ms.map_or(left_ms, |timeout_ms| timeout_ms.min(left_ms))
    }

    /// A reader of what is published, from the oldest event that is kept.
    pub fn follow(&self) -> Follower {
        Follower::new(&self.ring)
    }

    /// Has a thread unparked whenever something was published. `figures` are how many events it has told, how many were
    /// refused, and how often some were lost.
    pub fn tell_follower(&mut self, thread: Thread, figures: Box<dyn Fn() -> [u64; 3]>) {
        self.followers.push(FollowerThread { thread, figures });
    }

    pub(crate) fn tell_followers(&self) {
        for told in &self.followers {
            told.thread.unpark();
        }
    }

    /// Counts what followers have told.
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

/// The channel over which all workers get messages of other machines.
pub(crate) const WORKERS_CHANNEL: [u8; 4] = *b"\0all";

/// The channel over which a worker gets messages for single sockets. Programs cannot name it: it
/// begins with a control character.
pub(crate) fn private_channel(slot: u16) -> [u8; 4] {
    let [high, low] = slot.to_be_bytes();
    [0, b'w', high, low]
}
