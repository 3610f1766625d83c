//! Statistics in memory shared by all processes of a server.
//!
//! Each worker slot has its own cache lines with one writer, so counting never waits and never
//! contends. When a worker exits, the master adds its counters to the totals of its worker number,
//! so counters survive restarts. Lists (busy channels, slow clients) change as a whole; a version
//! word lets a reader detect a partial change.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use fermata_hub::CHANNEL_BYTES_MAX;

use super::table::{Counter, Gauge};
use crate::channels::memory::SLOTS;

/// Maximum number of channels and clients that a worker reports.
pub(super) const LIST_MAX: usize = 10;

/// Maximum length of a client address in bytes; every IPv4 and IPv6 address is shorter.
const PEER_BYTES_MAX: usize = 56;

/// Maximum length of a handler's source position in bytes; longer positions are truncated.
pub(crate) const PLACE_BYTES_MAX: usize = 512;

/// Maximum attempts of a reader to get a consistent view.
const READ_TRIES_MAX: usize = 1_000;

/// Words per cache line.
const LINE: usize = 8;

const fn text_words(bytes_max: usize) -> usize {
    1 + bytes_max.div_ceil(8)
}

// The header, written by the master except for `WATCHED_UNTIL_MS`.
const FOLDS: usize = 0;
const MASTER_PID: usize = 1;
const STARTED_UNIX_MS: usize = 2;
const WORKER_STARTS: usize = 3;
const WORKER_ENDS: usize = 4;
const WORKER_FAILURES: usize = 5;
const WORKERS: usize = 6;
/// 1 while the whole server stops, not only a worker.
const STOPPING: usize = 7;
/// On a separate cache line, because any worker may write it.
const WATCHED_UNTIL_MS: usize = LINE;
/// 1 while the master samples handlers. Workers read it with every event.
const IS_LOOKED_AFTER: usize = 2 * LINE;
const WORKER_STALLS: usize = 2 * LINE + 1;
/// On a cache line that no worker reads, because the job processes write it.
const JOBS_RUNNING: usize = 3 * LINE;
const JOB_PROCESSES_REPLACED: usize = 3 * LINE + 1;
const COMPANION_ENDS: usize = 3 * LINE + 2;
/// Written by any process, very rarely.
const LOG_DROPPED: usize = 3 * LINE + 3;
/// The first is written by the exporter, the second by any process, very rarely.
const SPANS_EXPORTED: usize = 3 * LINE + 4;
const SPANS_DROPPED: usize = 3 * LINE + 5;
const SLOTS_AT: usize = 4 * LINE;

// A slot.
const PID: usize = 0;
const INDEX: usize = 1;
const SINCE_UNIX_MS: usize = 2;
/// Changes while the worker's loop runs.
const BEAT: usize = 3;
/// Number of the running handler plus 1. 0 means none since the turn started.
const HANDLER: usize = 4;
/// Number of settled connections. A worker that hands over a connection also writes this word.
const SETTLED: usize = 5;
/// 1 if connections may be handed to the worker.
const TAKES: usize = 6;
/// Start of the handler in `HANDLER`.
const SINCE_EVENT_UNIX_MS: usize = 7;
const COUNTERS: usize = 8;
const GAUGES: usize = COUNTERS + Counter::LEN;
const LISTS: usize = GAUGES + Gauge::WRITTEN;
const CHANNELS: usize = LISTS + 1;
const CHANNEL_WORDS: usize = 3 + text_words(CHANNEL_BYTES_MAX);
const CLIENTS: usize = CHANNELS + LIST_MAX * CHANNEL_WORDS;
const CLIENT_WORDS: usize = 2 + text_words(PEER_BYTES_MAX) + text_words(CHANNEL_BYTES_MAX);
/// Sampled position of the handler that started at the time in the first word.
const PLACE: usize = CLIENTS + LIST_MAX * CLIENT_WORDS;
const SLOT_WORDS: usize = (PLACE + 1 + text_words(PLACE_BYTES_MAX)).next_multiple_of(LINE);

const TOTALS_AT: usize = SLOTS_AT + SLOTS as usize * SLOT_WORDS;
const TOTALS_WORDS: usize = Counter::LEN.next_multiple_of(LINE);

/// A channel with records in the last second.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BusyChannel {
    /// Channel name.
    pub channel: String,
    /// Current number of subscribers.
    pub subscribers: u64,
    /// Records in the sampled second.
    pub records: u64,
    /// Records times subscribers in that second.
    pub deliveries: u64,
}

/// A client that currently reads nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SlowClient {
    /// Address.
    pub peer: String,
    /// Name of the client's first channel. Empty if the client is not held.
    pub channel: String,
    /// Time in milliseconds for which the client has read nothing.
    pub blocked_ms: u64,
    /// Number of bytes queued for the client.
    pub waiting_bytes: u64,
}

/// Handle of the shared words. Every process has a copy.
#[derive(Clone, Copy)]
pub struct Shared {
    words: &'static [AtomicU64],
}

/// The content of a slot.
pub(super) struct SlotView {
    pub slot: u32,
    pub pid: u32,
    pub index: u16,
    pub since_unix_ms: u64,
    /// Start of the running handler.
    pub handler_since_unix_ms: Option<u64>,
    pub counters: [u64; Counter::LEN],
    pub gauges: [u64; Gauge::WRITTEN],
    pub channels: Vec<BusyChannel>,
    pub clients: Vec<SlowClient>,
}

/// The content of all slots and the header.
pub(super) struct ServerView {
    pub master_pid: u32,
    pub started_unix_ms: u64,
    pub worker_starts: u64,
    pub worker_ends: u64,
    pub worker_failures: u64,
    pub worker_stalls: u64,
    pub log_dropped: u64,
    pub jobs_running: u64,
    pub job_process_restarts: u64,
    pub job_supervisor_restarts: u64,
    pub spans_exported: u64,
    pub spans_dropped: u64,
    /// Counters of exited workers, by worker number.
    pub totals: Vec<[u64; Counter::LEN]>,
    pub slots: Vec<SlotView>,
}

impl Shared {
    /// Required memory in words. Unused words need not be backed by memory.
    pub const WORDS: usize = TOTALS_AT + SLOTS as usize * TOTALS_WORDS;

    /// Creates a handle for zeroed `words`.
    ///
    /// # Panics
    /// If there are fewer than [`Shared::WORDS`].
    pub fn new(words: &'static [AtomicU64]) -> Shared {
        assert!(
            words.len() >= Shared::WORDS,
            "too few words for the figures"
        );
        Shared { words }
    }

    /// Creates statistics in private memory.
    #[cfg(test)]
    pub(crate) fn private() -> Shared {
        let words: Vec<_> = (0..Shared::WORDS).map(|_| AtomicU64::new(0)).collect();
        Shared::new(words.leak())
    }

    /// Initializes the header, in the master.
    pub(crate) fn server_started(&self, pid: u32, worker_slots: u16, unix_ms: u64) {
        self.store(MASTER_PID, u64::from(pid));
        self.store(WORKERS, u64::from(worker_slots));
        self.store(STARTED_UNIX_MS, unix_ms);
    }

    /// Counts a forked worker.
    pub(crate) fn worker_forked(&self) {
        self.add(WORKER_STARTS, 1);
    }

    /// Initializes a slot, in its worker.
    pub(crate) fn worker_started(&self, slot: u16, index: u16, pid: u32, unix_ms: u64) {
        let at = slot_at(slot);
        self.store(at + INDEX, u64::from(index));
        self.store(at + SINCE_UNIX_MS, unix_ms);
        self.store(at + BEAT, 0);
        self.store(at + HANDLER, 0);
        self.store(at + SINCE_EVENT_UNIX_MS, 0);
        self.store(at + SETTLED, 0);
        self.words[at + PID].store(u64::from(pid), Ordering::Release);
    }

    /// Records that other workers may hand connections to this worker, or may not. Called in the
    /// worker itself.
    pub(crate) fn set_takes(&self, slot: u16, takes: bool) {
        self.words[slot_at(slot) + TAKES].store(u64::from(takes), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Returns true if the worker accepts connections. Two processes race here. The sender puts a
    /// connection into an inbox and then calls this function. The receiver stops accepting and then
    /// reads its inbox. The fences guarantee that the sender sees that the worker stopped, or the
    /// receiver sees the connection.
    pub(crate) fn takes(&self, slot: u16) -> bool {
        fence(Ordering::SeqCst);
        self.words[slot_at(slot) + TAKES].load(Ordering::Acquire) == 1
    }

    /// Returns true if the slot has no worker, because the last one has exited or the next one has
    /// not started.
    pub(crate) fn is_vacant(&self, slot: u16) -> bool {
        self.load(slot_at(slot) + PID) == 0
    }

    /// Counts a settled connection of the worker, or one being handed to it.
    pub(crate) fn add_settled(&self, slot: u16) {
        self.words[slot_at(slot) + SETTLED].fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a closed settled connection.
    pub(crate) fn remove_settled(&self, slot: u16) {
        let word = &self.words[slot_at(slot) + SETTLED];
        // A connection that was handed over while this worker started was counted for the previous
        // worker of the slot.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            count.checked_sub(1)
        });
    }

    /// Returns the worker's number of settled connections.
    pub(crate) fn settled(&self, slot: u16) -> u64 {
        self.load(slot_at(slot) + SETTLED)
    }

    /// Returns the worker with the fewest settled connections among the first `slots`. Excludes
    /// workers that accept none, and those in a handler that started before `busy_before_unix_ms`.
    pub(crate) fn least_settled(&self, slots: u16, busy_before_unix_ms: u64) -> Option<(u16, u64)> {
        (0..slots)
            .filter(|slot| {
                let at = slot_at(*slot);
                self.words[at + TAKES].load(Ordering::Acquire) == 1
                    && (self.load(at + HANDLER) == 0
                        || self.load(at + SINCE_EVENT_UNIX_MS) >= busy_before_unix_ms)
            })
            .map(|slot| (slot, self.settled(slot)))
            .min_by_key(|(_, settled)| *settled)
    }

    /// Records a heartbeat of the worker; called at least once per turn.
    #[inline]
    pub(crate) fn beat(&self, slot: u16) {
        self.add(slot_at(slot) + BEAT, 1);
    }

    /// Returns the worker's heartbeat counter, for comparison.
    pub(crate) fn beats(&self, slot: u16) -> u64 {
        self.load(slot_at(slot) + BEAT)
    }

    /// Notes that the worker passes an event to this handler.
    #[inline]
    pub(crate) fn begin_handler(&self, slot: u16, handler: u32, unix_ms: u64) {
        let at = slot_at(slot);
        self.store(at + SINCE_EVENT_UNIX_MS, unix_ms);
        self.store(at + HANDLER, u64::from(handler) + 1);
    }

    /// Notes that the worker runs no handler.
    #[inline]
    pub(crate) fn end_handler(&self, slot: u16) {
        self.store(slot_at(slot) + HANDLER, 0);
    }

    /// Marks the whole server as stopping.
    pub(crate) fn set_stopping(&self) {
        self.store(STOPPING, 1);
    }

    /// Returns true if the whole server is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.load(STOPPING) == 1
    }

    /// Counts a worker killed because it did not respond.
    pub(crate) fn worker_stalled(&self) {
        self.add(WORKER_STALLS, 1);
    }

    /// Counts a dropped log line.
    pub(crate) fn log_dropped(&self) {
        self.words[LOG_DROPPED].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts spans accepted by the collector.
    pub(crate) fn spans_exported(&self, count: u64) {
        self.add(SPANS_EXPORTED, count);
    }

    /// Counts dropped spans.
    pub(crate) fn spans_dropped(&self, count: u64) {
        self.words[SPANS_DROPPED].fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the two span counters.
    #[cfg(test)]
    pub(crate) fn spans(&self) -> (u64, u64) {
        (self.load(SPANS_EXPORTED), self.load(SPANS_DROPPED))
    }

    /// Counts a started job.
    pub(crate) fn job_begins(&self) {
        self.add(JOBS_RUNNING, 1);
    }

    /// Counts a job that has finished, or whose process has exited.
    pub(crate) fn job_ends(&self) {
        // The jobs of an exited companion were already removed.
        let _ =
            self.words[JOBS_RUNNING].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                count.checked_sub(1)
            });
    }

    /// Counts a replaced job process.
    pub(crate) fn job_process_replaced(&self) {
        self.add(JOB_PROCESSES_REPLACED, 1);
    }

    /// Notes that the companion and its child processes have exited.
    pub(crate) fn companion_ended(&self) {
        self.store(JOBS_RUNNING, 0);
        self.add(COMPANION_ENDS, 1);
    }

    /// Returns true while the master samples handlers.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.load(IS_LOOKED_AFTER) == 1
    }

    pub(crate) fn set_sampled(&self, is: bool) {
        self.store(IS_LOOKED_AFTER, u64::from(is));
    }

    /// Returns the start of the running handler, if any.
    pub(crate) fn handler_since_unix_ms(&self, slot: u16) -> Option<u64> {
        let at = slot_at(slot);
        (self.load(at + HANDLER) != 0).then(|| self.load(at + SINCE_EVENT_UNIX_MS))
    }

    /// Stores the sampled position of the handler that started at `since_unix_ms`.
    pub(crate) fn set_place(&self, slot: u16, since_unix_ms: u64, place: &str) {
        let at = slot_at(slot) + PLACE;
        self.store(at, 0);
        fence(Ordering::Release);
        self.store_text(at + 1, place, PLACE_BYTES_MAX);
        self.words[at].store(since_unix_ms, Ordering::Release);
    }

    /// Returns the sampled position of the handler that started at `since_unix_ms`.
    pub(crate) fn place(&self, slot: u16, since_unix_ms: u64) -> Option<String> {
        let at = slot_at(slot) + PLACE;
        let is_its = self.words[at].load(Ordering::Acquire) == since_unix_ms;
        is_its.then(|| self.load_text(at + 1, PLACE_BYTES_MAX))?
    }

    /// Returns the running handler, if the turn has reached a handler.
    pub(crate) fn handler(&self, slot: u16) -> Option<u32> {
        let number = self.load(slot_at(slot) + HANDLER).checked_sub(1)?;
        u32::try_from(number).ok()
    }

    /// Returns true if the worker has started any handler.
    pub(crate) fn has_run_handler(&self, slot: u16) -> bool {
        self.load(slot_at(slot) + SINCE_EVENT_UNIX_MS) != 0
    }

    /// Returns number and process id of the worker in a slot.
    pub(crate) fn worker(&self, slot: u32) -> Option<(u16, u32)> {
        let at = slot_at(u16::try_from(slot).ok()?);
        let pid = self.words[at + PID].load(Ordering::Acquire) as u32;
        (pid != 0).then(|| (self.load(at + INDEX) as u16, pid))
    }

    /// Notes that a worker has exited: the master adds its counters to the totals of its worker
    /// number.
    pub(crate) fn worker_ended(&self, slot: u16, index: u16, failed: bool) {
        let version = self.load(FOLDS);
        self.store(FOLDS, version | 1);
        fence(Ordering::Release);
        let at = slot_at(slot);
        self.store(at + PID, 0);
        for word in [HANDLER, SETTLED, TAKES, SINCE_EVENT_UNIX_MS] {
            self.store(at + word, 0);
        }
        for counter in 0..Counter::LEN {
            let word = at + COUNTERS + counter;
            self.add(totals_at(index) + counter, self.load(word));
            self.store(word, 0);
        }
        for word in GAUGES..SLOT_WORDS {
            self.store(at + word, 0);
        }
        self.add(WORKER_ENDS, 1);
        self.add(WORKER_FAILURES, u64::from(failed));
        self.words[FOLDS].store((version | 1) + 1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Writes a worker's counters. Only the worker of the slot may call this.
    pub(super) fn write(
        &self,
        slot: u16,
        counters: &[u64; Counter::LEN],
        gauges: &[u64; Gauge::WRITTEN],
    ) {
        let words = &self.words[slot_at(slot)..][..SLOT_WORDS];
        for (word, value) in words[COUNTERS..].iter().zip(counters) {
            word.store(*value, Ordering::Relaxed);
        }
        for (word, value) in words[GAUGES..].iter().zip(gauges) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Writes a worker's lists, at most `LIST_MAX` entries.
    pub(super) fn write_lists(&self, slot: u16, channels: &[BusyChannel], clients: &[SlowClient]) {
        let at = slot_at(slot);
        let version = self.load(at + LISTS);
        self.store(at + LISTS, version | 1);
        fence(Ordering::Release);
        for place in 0..LIST_MAX {
            let word = at + CHANNELS + place * CHANNEL_WORDS;
            match channels.get(place) {
                Some(busy) => {
                    self.store(word, busy.subscribers);
                    self.store(word + 1, busy.records);
                    self.store(word + 2, busy.deliveries);
                    self.store_text(word + 3, &busy.channel, CHANNEL_BYTES_MAX);
                }
                None => self.store(word + 3, 0),
            }
            let word = at + CLIENTS + place * CLIENT_WORDS;
            match clients.get(place) {
                Some(slow) => {
                    self.store(word, slow.blocked_ms);
                    self.store(word + 1, slow.waiting_bytes);
                    self.store_text(word + 2, &slow.peer, PEER_BYTES_MAX);
                    let channel_at = word + 2 + text_words(PEER_BYTES_MAX);
                    self.store_text(channel_at, &slow.channel, CHANNEL_BYTES_MAX);
                }
                None => self.store(word + 2, 0),
            }
        }
        self.words[at + LISTS].store((version | 1) + 1, Ordering::Release);
    }

    /// Makes all workers sample lists until `until_ms`. Returns true if they were not sampling. The
    /// caller then has to wake sleeping workers.
    pub(super) fn watch_until(&self, now_ms: u64, until_ms: u64) -> bool {
        let before = self.words[WATCHED_UNTIL_MS].fetch_max(until_ms, Ordering::Relaxed);
        before <= now_ms
    }

    /// Returns the time until which lists are sampled.
    pub(super) fn watched_until_ms(&self) -> u64 {
        self.load(WATCHED_UNTIL_MS)
    }

    /// Reads everything, consistently with respect to exiting workers.
    pub(super) fn read(&self) -> ServerView {
        for _ in 0..READ_TRIES_MAX {
            if let Some(view) = self.read_between_folds() {
                return view;
            }
            std::thread::yield_now();
        }
        // The master crashed during a change. Its workers stop too, so an inconsistent view does no
        // harm.
        self.read_once()
    }

    /// Returns `None` if a worker has exited during the read.
    fn read_between_folds(&self) -> Option<ServerView> {
        let version = self.words[FOLDS].load(Ordering::Acquire);
        if version & 1 != 0 {
            return None;
        }
        let view = self.read_once();
        fence(Ordering::Acquire);
        (self.load(FOLDS) == version).then_some(view)
    }

    fn read_once(&self) -> ServerView {
        let worker_slots = self.load(WORKERS).min(u64::from(SLOTS)) as u16;
        ServerView {
            master_pid: self.load(MASTER_PID) as u32,
            started_unix_ms: self.load(STARTED_UNIX_MS),
            worker_starts: self.load(WORKER_STARTS),
            worker_ends: self.load(WORKER_ENDS),
            worker_failures: self.load(WORKER_FAILURES),
            worker_stalls: self.load(WORKER_STALLS),
            log_dropped: self.load(LOG_DROPPED),
            jobs_running: self.load(JOBS_RUNNING),
            job_process_restarts: self.load(JOB_PROCESSES_REPLACED),
            job_supervisor_restarts: self.load(COMPANION_ENDS),
            spans_exported: self.load(SPANS_EXPORTED),
            spans_dropped: self.load(SPANS_DROPPED),
            totals: (0..worker_slots)
                .map(|index| std::array::from_fn(|counter| self.load(totals_at(index) + counter)))
                .collect(),
            slots: (0..SLOTS).filter_map(|slot| self.read_slot(slot)).collect(),
        }
    }

    fn read_slot(&self, slot: u16) -> Option<SlotView> {
        let at = slot_at(slot);
        let pid = self.words[at + PID].load(Ordering::Acquire) as u32;
        if pid == 0 {
            return None;
        }
        let (channels, clients) = self.read_lists(at);
        Some(SlotView {
            slot: u32::from(slot),
            pid,
            index: self.load(at + INDEX) as u16,
            since_unix_ms: self.load(at + SINCE_UNIX_MS),
            handler_since_unix_ms: self.handler_since_unix_ms(slot),
            counters: std::array::from_fn(|counter| self.load(at + COUNTERS + counter)),
            gauges: std::array::from_fn(|gauge| self.load(at + GAUGES + gauge)),
            channels,
            clients,
        })
    }

    /// Reads the lists of the slot at `at`. Empty if its worker keeps changing them.
    fn read_lists(&self, at: usize) -> (Vec<BusyChannel>, Vec<SlowClient>) {
        for _ in 0..READ_TRIES_MAX {
            let version = self.words[at + LISTS].load(Ordering::Acquire);
            if version & 1 != 0 {
                std::hint::spin_loop();
                continue;
            }
            let channels = (0..LIST_MAX).map_while(|place| {
                let word = at + CHANNELS + place * CHANNEL_WORDS;
                Some(BusyChannel {
                    channel: self.load_text(word + 3, CHANNEL_BYTES_MAX)?,
                    subscribers: self.load(word),
                    records: self.load(word + 1),
                    deliveries: self.load(word + 2),
                })
            });
            let channels = channels.collect();
            let clients = (0..LIST_MAX).map_while(|place| {
                let word = at + CLIENTS + place * CLIENT_WORDS;
                let channel_at = word + 2 + text_words(PEER_BYTES_MAX);
                Some(SlowClient {
                    peer: self.load_text(word + 2, PEER_BYTES_MAX)?,
                    channel: self
                        .load_text(channel_at, CHANNEL_BYTES_MAX)
                        .unwrap_or_default(),
                    blocked_ms: self.load(word),
                    waiting_bytes: self.load(word + 1),
                })
            });
            let clients = clients.collect();
            fence(Ordering::Acquire);
            if self.load(at + LISTS) == version {
                return (channels, clients);
            }
        }
        (Vec::new(), Vec::new())
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        self.words[at].store(value, Ordering::Relaxed);
    }

    /// Adds to a word that has only one writer.
    #[inline]
    fn add(&self, at: usize, value: u64) {
        self.store(at, self.load(at).wrapping_add(value));
    }

    fn store_text(&self, at: usize, text: &str, bytes_max: usize) {
        let bytes = &text.as_bytes()[..text.len().min(bytes_max)];
        self.store(at, bytes.len() as u64);
        for (place, part) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.store(at + 1 + place, u64::from_le_bytes(word));
        }
    }

    /// `None` if the text is empty.
    fn load_text(&self, at: usize, bytes_max: usize) -> Option<String> {
        let len = (self.load(at) as usize).min(bytes_max);
        let words = (0..len.div_ceil(8)).map(|place| self.load(at + 1 + place).to_le_bytes());
        let mut bytes: Vec<u8> = words.flatten().collect();
        bytes.truncate(len);
        (len > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[inline]
fn slot_at(slot: u16) -> usize {
    SLOTS_AT + usize::from(slot.min(SLOTS - 1)) * SLOT_WORDS
}

fn totals_at(index: u16) -> usize {
    TOTALS_AT + usize::from(index.min(SLOTS - 1)) * TOTALS_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_counters_of_an_exited_worker() {
        let shared = Shared::private();
        shared.server_started(1, 2, 1000);
        let mut counters = [0; Counter::LEN];
        let gauges = [3; Gauge::WRITTEN];
        for life in 1..=3 {
            // Each process of the worker may use another slot.
            shared.worker_started(life, 1, 100 + u32::from(life), 1000);
            counters[Counter::Requests as usize] = 10;
            shared.write(life, &counters, &gauges);
            assert_eq!(shared.read().slots.len(), 1);
            shared.worker_ended(life, 1, life == 2);
            let view = shared.read();
            assert!(view.slots.is_empty());
            let requests = view.totals[1][Counter::Requests as usize];
            assert_eq!(requests, 10 * u64::from(life));
            assert_eq!(view.totals[0][Counter::Requests as usize], 0);
        }
        let view = shared.read();
        assert_eq!((view.worker_ends, view.worker_failures), (3, 1));
    }

    #[test]
    fn resets_a_slot_for_the_next_worker() {
        let shared = Shared::private();
        shared.server_started(1, 1, 0);
        shared.worker_started(0, 0, 7, 0);
        shared.write(0, &[5; Counter::LEN], &[5; Gauge::WRITTEN]);
        shared.write_lists(0, &[busy("a", 1)], &[]);
        shared.worker_ended(0, 0, false);
        shared.worker_started(0, 0, 8, 9);
        let slot = &shared.read().slots[0];
        assert_eq!((slot.pid, slot.since_unix_ms), (8, 9));
        assert!(
            slot.counters
                .iter()
                .chain(&slot.gauges)
                .all(|word| *word == 0)
        );
        assert!(slot.channels.is_empty());
    }

    #[test]
    fn round_trips_lists() {
        let shared = Shared::private();
        shared.worker_started(2, 0, 7, 0);
        let channels: Vec<_> = (0..LIST_MAX as u64)
            .map(|number| busy(&"ü".repeat(127), number))
            .collect();
        let clients = vec![SlowClient {
            peer: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".to_owned(),
            channel: String::new(),
            blocked_ms: 5,
            waiting_bytes: 6,
        }];
        shared.write_lists(2, &channels, &clients);
        let slot = &shared.read().slots[0];
        assert_eq!((&slot.channels, &slot.clients), (&channels, &clients));
        shared.write_lists(2, &channels[..1], &[]);
        let slot = &shared.read().slots[0];
        assert_eq!((slot.channels.len(), slot.clients.len()), (1, 0));
    }

    #[test]
    fn reads_totals_after_the_master_crashed_in_a_change() {
        let shared = Shared::private();
        shared.store(FOLDS, 1);
        shared.worker_started(0, 0, 7, 0);
        assert_eq!(shared.read().slots.len(), 1);
    }

    #[test]
    fn reads_consistent_totals() {
        let shared = Shared::private();
        shared.server_started(1, 1, 0);
        let writer = std::thread::spawn(move || {
            for _ in 0..2_000 {
                shared.worker_started(0, 0, 7, 0);
                shared.write(0, &[1; Counter::LEN], &[0; Gauge::WRITTEN]);
                shared.worker_ended(0, 0, false);
            }
        });
        let mut last = 0;
        while !writer.is_finished() {
            // The master changes totals constantly here, so `read` would return an inconsistent
            // view.
            let Some(view) = shared.read_between_folds() else {
                std::thread::yield_now();
                continue;
            };
            let at = Counter::Requests as usize;
            let live: u64 = view.slots.iter().map(|slot| slot.counters[at]).sum();
            let sum = view.totals[0][at] + live;
            assert!(
                sum >= last && sum <= view.worker_ends + 1,
                "{sum} after {last}"
            );
            last = sum;
        }
        assert!(writer.join().is_ok());
        assert_eq!(shared.read().totals[0][0], 2_000);
    }

    fn busy(channel: &str, records: u64) -> BusyChannel {
        BusyChannel {
            channel: channel.to_owned(),
            subscribers: 2,
            records,
            deliveries: 2 * records,
        }
    }
}
