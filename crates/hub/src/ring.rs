//! The ring: one log of all channels, in memory that every process of the server maps.
//!
//! Positions count words since the ring was created and never wrap. A position modulo the ring's size is the word's
//! index. Records are between `TAIL` and `HEAD`. One lock orders all changes; reading needs no lock.
//!
//! An append does the following, in this order, with release ordering where another process depends on it:
//!
//! 1. Move `TAIL` over the oldest records until there is room, never past a live worker's cursor.
//! 2. Write the record's words after `HEAD`, where no process reads.
//! 3. Set `PENDING` to its position. If this process is killed after this step, the next owner of the lock completes the append.
//! 4. Set its index bucket to its position. This precedes `HEAD`, so that a replay up to a worker's cursor misses nothing.
//! 5. Set `LOG_SEQ` to its log position, if it comes from a log.
//! 6. Set `HEAD` to the position after the record. The record is now published.
//!
//! A process that is killed between two steps has executed all stores before that point and none after it. The kernel
//! loses no store of a killed process. The next owner of the lock sees these stores, because it acquires the lock only
//! after the kernel has reported the exit. Release ordering prevents the compiler and the processor from reordering the
//! steps.
//!
//! A reader copies words first and reads `TAIL` afterwards. The fences pair such that a reader that sees a word of step
//! 2 also sees the `TAIL` of step 1, and discards its copy (a seqlock whose counter is `TAIL`).

mod access;
mod append;

use thiserror::Error;

use crate::hash::ChannelHasher;
use crate::id::{ID_BYTES_MAX, IdRef, Ids};
use crate::layout::{
    BOOT, CLEAN, Config, ConfigError, DIRTY, EPOCH, HASH_KEY, HEAD, LOCK, Layout, MAGIC, PENDING,
    SAFE, SHAPE, TAIL, VERSION,
};
use crate::lock::{self, Guard, LockError, Owner, owner_word};
use crate::log_index::LogIndex;
use crate::reader::Reader;
use crate::record::{LogPlace, Message, Record, Seq, Subscriber};
use crate::sleepers::{self, Slots};
use crate::words::Words;
use fermata_shm::{AtomicU64, Ordering, fence};

const MAGIC_WORD: u64 = u64::from_le_bytes(*b"fermata\x01");
const FORMAT_VERSION: u64 = 3;

/// Number of words at the start of a ring that identify its format.
pub const HEAD_WORDS: usize = 3;
/// Position of the first record. Not zero, because zero means "no record".
const START: u64 = 1;
/// Cursor of a worker that has exited or was found dead. It is outside of every ring, so no publisher waits for it.
const CURSOR_DEAD: u64 = u64::MAX;
/// No ring reaches this position in practice, so larger values are damage.
const POSITION_MAX: u64 = 1 << 60;

/// The shared log. Each process has its own `Ring` value; all of them refer to the same words.
pub struct Ring {
    pub(crate) words: Words,
    pub(crate) layout: Layout,
    pub(crate) hasher: ChannelHasher,
    pub(crate) history_count_max: usize,
    pub(crate) history_age_ms_max: u64,
    pub(crate) leave_delay_ms: u64,
    pub(crate) channel_members_max: usize,
    pub(crate) source_members_max: usize,
    /// True if this ring announces joins and leaves; false if presence is shared with other servers, which announce them.
    pub(crate) announces: bool,
    /// Positions and sizes of the records in a replay; reused.
    pub(crate) found: Vec<(Seq, usize)>,
    pub(crate) record: Record,
    pub(crate) texts: crate::presence::Texts,
    pub(crate) log_index: LogIndex,
    ids: Ids,
}

/// Reason why a record was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// Name and data are too long. A mistake of the caller.
    #[error("the event has {bytes} bytes of name and data, but at most {max} are allowed")]
    TooLarge {
        /// Length of name and data in bytes.
        bytes: usize,
        /// The configured limit.
        max: usize,
    },
    /// The channel's name is empty or too long. A mistake of the caller.
    #[error("a channel name has 1 to 255 bytes, this one has {bytes}")]
    ChannelName {
        /// Length of the name in bytes.
        bytes: usize,
    },
    /// The ring is full of records that a live worker has not read. Wait for that worker; if it is the caller, pump.
    #[error("worker {slot} has not yet read the oldest events and the ring is full")]
    Behind {
        /// Slot of the worker.
        slot: u32,
    },
    /// The shared memory cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The shared memory does not hold the expected ring. Create a new one with [`Ring::create`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The memory is smaller than the layout.
    #[error("the history file has {words} words of 8 bytes, but {needed} are needed")]
    TooSmall {
        /// Present number of words.
        words: usize,
        /// Required number of words.
        needed: usize,
    },
    /// The memory contains other data.
    #[error("this is not a history file of Fermata")]
    NotARing,
    /// The ring has another version.
    #[error("the history file was made by another version")]
    OtherVersion,
    /// The ring was created with other sizes.
    #[error(
        "the history file was made with other sizes (history_bytes_max, event_bytes_max, members_max or workers)"
    )]
    OtherSizes,
    /// The records contradict each other, for example after a power failure.
    #[error("the history file is damaged")]
    Damaged,
}

impl Ring {
    /// Creates an empty ring in `words`, whatever their contents. `epoch` distinguishes the ring from all earlier rings; `hash_key`
    /// is secret.
    ///
    /// # Errors
    /// [`OpenError::Config`] and [`OpenError::TooSmall`].
    pub fn create(
        words: &'static [AtomicU64],
        config: &Config,
        epoch: u64,
        hash_key: u64,
    ) -> Result<Ring, OpenError> {
        let layout = checked_layout(words, config)?;
        let words = Words::new(words);
        // If this process is killed before the ring is complete, the next process finds no magic number and creates a ring again.
        words.store(MAGIC, 0);
        for at in VERSION..layout.ring {
            words.store(at, 0);
        }
        words.store(VERSION, FORMAT_VERSION);
        words.store(SHAPE, layout.fingerprint());
        words.store(EPOCH, epoch);
        words.store(HASH_KEY, hash_key);
        for at in [HEAD, TAIL, SAFE] {
            words.store(at, START);
        }
        let ring = Ring::attach(words, layout, config);
        ring.presence_reset();
        words.store_release(MAGIC, MAGIC_WORD);
        Ok(ring)
    }

    /// Opens the ring that a previous run of the server left in `words`, and completes an interrupted append.
    ///
    /// The caller must be the only user of the words: all workers of the previous run have exited. Present users become leaving.
    ///
    /// # Errors
    /// [`OpenError`]; some words may have changed. Create a new ring with a new epoch.
    pub fn open(words: &'static [AtomicU64], config: &Config) -> Result<Ring, OpenError> {
        let layout = checked_layout(words, config)?;
        let words = Words::new(words);
        let head = [
            words.load_acquire(MAGIC),
            words.load(VERSION),
            words.load(SHAPE),
        ];
        Ring::check_head(&head, config)?;
        // The owner of the lock and the workers in the slots were processes of the previous run.
        words.store(LOCK, 0);
        sleepers::clear(&words);
        for slot in 0..layout.workers_max {
            words.store(layout.slot_pid(slot), 0);
        }
        let ring = Ring::attach(words, layout, config);
        let (head, _) = ring.bounds().ok_or(OpenError::Damaged)?;
        ring.finish_append();
        let (head, tail) = ring
            .bounds()
            .filter(|now| now.0 >= head)
            .ok_or(OpenError::Damaged)?;
        words.store(SAFE, tail);
        ring.rebuild_index(head, tail)?;
        ring.presence_all_leaving();
        Ok(ring)
    }

    /// Checks that the first words of a file identify a ring of this configuration.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if the first word is zero: the ring was not completed, or a power failure has erased the
    /// word. All other errors are those of [`Ring::open`].
    pub fn check_head(head: &[u64; HEAD_WORDS], config: &Config) -> Result<(), OpenError> {
        let [magic, version, shape] = *head;
        match magic {
            0 => return Err(OpenError::Damaged),
            MAGIC_WORD => {}
            _ => return Err(OpenError::NotARing),
        }
        if version != FORMAT_VERSION {
            return Err(OpenError::OtherVersion);
        }
        if shape != Layout::new(config)?.fingerprint() {
            return Err(OpenError::OtherSizes);
        }
        Ok(())
    }

    pub(crate) fn attach(words: Words, layout: Layout, config: &Config) -> Ring {
        Ring {
            hasher: ChannelHasher::new(words.load(HASH_KEY)),
            ids: Ids::new(words.load(EPOCH)),
            words,
            layout,
            history_count_max: config.history_count_max,
            history_age_ms_max: config.history_age_ms_max,
            leave_delay_ms: config.leave_delay_ms,
            channel_members_max: usize::MAX,
            source_members_max: usize::MAX,
            announces: true,
            found: Vec::new(),
            record: Record::empty(),
            texts: Default::default(),
            log_index: LogIndex::default(),
        }
    }

    /// Returns a second value for the same ring, for a thread of this process that only reads.
    pub fn twin(&self) -> Ring {
        Ring {
            layout: self.layout.clone(),
            found: Vec::new(),
            record: Record::empty(),
            texts: Default::default(),
            log_index: LogIndex::default(),
            ..*self
        }
    }

    /// Stores the id of the machine's boot (not zero) in a ring in a file. If the ring was last used in another boot and was not
    /// closed by [`Ring::close`], its newest records may be lost. The ring then gets the epoch `epoch`, so clients that received a
    /// lost record receive a gap. Returns true if the epoch changed.
    pub fn adopt(&mut self, boot: u64, epoch: u64) -> bool {
        let last_boot = self.words.load(BOOT);
        let doubtful = last_boot != 0 && last_boot != boot && self.words.load(CLEAN) == 0;
        if doubtful {
            self.words.store(EPOCH, epoch);
            self.ids = Ids::new(epoch);
        }
        self.words.store(CLEAN, 0);
        self.words.store_release(BOOT, boot);
        doubtful
    }

    /// Records that the server shut down regularly. The last process that uses the ring must call it, and then sync the file.
    pub fn close(&mut self) {
        self.words.store(CLEAN, 1);
    }

    /// Appends one record. After `Ok`, the record survives the crash of this and any other process.
    ///
    /// Then wake the workers in [`Ring::wake_list`]; once for several publishes is enough.
    ///
    /// # Errors
    /// [`PublishError`]; nothing was published.
    pub fn publish(
        &mut self,
        who: &Owner,
        message: &Message<'_>,
        unix_ms: u64,
    ) -> Result<Seq, PublishError> {
        self.publish_about(who, message, None, unix_ms)
    }

    /// Appends a record that concerns one subscriber: the only subscriber that must not receive a message, or the only subscriber
    /// that receives a direct message.
    ///
    /// # Errors
    /// As [`Ring::publish`].
    pub fn publish_about(
        &mut self,
        who: &Owner,
        message: &Message<'_>,
        subscriber: Option<Subscriber>,
        unix_ms: u64,
    ) -> Result<Seq, PublishError> {
        let draft = self.draft_about(message, subscriber, None)?;
        let guard = self.lock(who, None)?;
        self.make_room(&guard, who, draft.shape.total_words())?;
        Ok(self.append(&guard, &draft, message, unix_ms))
    }

    /// Registers the worker `who`, which reads the records published from now on. Must be called in the worker itself, before it
    /// serves clients.
    ///
    /// # Errors
    /// [`LockError`]; the worker did not start.
    ///
    /// # Panics
    /// If `who.slot` is not below `workers_max`.
    pub fn worker_started(&mut self, who: &Owner, unix_ms: u64) -> Result<Reader, LockError> {
        assert!(
            who.slot < self.layout.workers_max,
            "worker slot out of range"
        );
        let guard = self.lock(who, None)?;
        // The previous process in the slot has exited, even if that was not reported.
        self.retire(&guard, who.slot, unix_ms);
        let head = self.words.load(HEAD);
        self.words.store(self.layout.slot_cursor(who.slot), head);
        // Store the pid last: publishers ignore the cursor of a slot without a pid.
        self.words
            .store_release(self.layout.slot_pid(who.slot), u64::from(who.pid));
        drop(guard);
        Ok(Reader::new(self.words, &self.layout, who.slot, head))
    }

    /// Cleans up after the worker `slot` with process id `pid`, which has exited. It frees the lock if the worker held it,
    /// completes the worker's append, frees its cursor, and makes its users leave after the leave delay.
    ///
    /// Call it after the process was reaped. Wake all workers afterwards: the exited worker may have published, or fetched a wake
    /// list, without waking them.
    ///
    /// # Errors
    /// [`LockError`]: try again later.
    pub fn worker_ended(
        &mut self,
        who: &Owner,
        slot: u32,
        pid: u32,
        unix_ms: u64,
    ) -> Result<(), LockError> {
        let guard = self.lock(who, Some(owner_word(slot, pid)))?;
        if slot < self.layout.workers_max
            && self.words.load(self.layout.slot_pid(slot)) == u64::from(pid)
        {
            self.retire(&guard, slot, unix_ms);
        }
        Ok(())
    }

    /// Acquires the lock for a process that dies while holding it.
    #[cfg(loom)]
    pub fn die_with_lock(&mut self, who: &Owner) {
        std::mem::forget(self.lock(who, None));
    }

    fn retire(&self, guard: &Guard, slot: u32, unix_ms: u64) {
        self.words.store(self.layout.slot_cursor(slot), CURSOR_DEAD);
        sleepers::remove(&self.words, slot);
        self.presence_slot_ended(guard, slot, unix_ms);
        // Clear the pid last: if the caller is killed before, its replacement repeats all steps.
        self.words.store_release(self.layout.slot_pid(slot), 0);
    }

    /// Returns and clears the set of sleeping workers: the caller must wake each.
    pub fn wake_list(&self) -> Slots {
        // Pairs with the fence in `Reader::set_sleeping`: either this process sees the worker's bit, or the worker sees this
        // process's record.
        fence(Ordering::SeqCst);
        sleepers::take(&self.words, self.layout.workers_max)
    }

    /// Returns the hasher for [`crate::LocalConfig`].
    pub fn hasher(&self) -> ChannelHasher {
        self.hasher
    }

    /// Returns the writer and parser of this ring's event ids.
    pub fn ids(&self) -> Ids {
        self.ids
    }

    /// Writes the event id of `seq` into `buffer` and returns it. With a log, the id contains the last log position up to `seq`.
    pub fn id_text<'b>(&mut self, seq: Seq, buffer: &'b mut [u8; ID_BYTES_MAX]) -> &'b [u8] {
        match self.place_at(seq) {
            Some(place) => Ids::new(place.epoch).text(place.seq, buffer),
            None => self.ids.text(seq, buffer),
        }
    }

    /// Parses a client's event id. A position that this ring has not reached is foreign, because it comes from a lost history. A
    /// log position that this ring has not reached may come from another server.
    pub fn parse_id(&mut self, text: &[u8]) -> IdRef {
        if let Some(epoch) = self.log_epoch() {
            return match Ids::new(epoch).parse(text) {
                IdRef::Seq(seq) => self.find_place(LogPlace { epoch, seq }),
                other => other,
            };
        }
        match self.ids.parse(text) {
            IdRef::Seq(seq) if seq >= self.words.load_acquire(HEAD) => IdRef::Foreign,
            other => other,
        }
    }

    /// Parses a client's event id as a log position, whatever this ring's position is. `None` without a log, and for other ids.
    pub fn place_of_id(&self, text: &[u8]) -> Option<LogPlace> {
        let epoch = self.log_epoch()?;
        match Ids::new(epoch).parse(text) {
            IdRef::Seq(seq) => Some(LogPlace { epoch, seq }),
            _ => None,
        }
    }

    /// Returns a sequence number that is not lower than the number of any record published so far.
    pub fn newest(&self) -> Seq {
        self.words.load_acquire(HEAD).saturating_sub(1)
    }

    /// Returns the bytes of records that the worker in `slot` has not read; zero without a worker.
    pub fn lag_bytes(&self, slot: u32) -> u64 {
        if slot >= self.layout.workers_max || self.words.load(self.layout.slot_pid(slot)) == 0 {
            return 0;
        }
        let cursor = self.words.load(self.layout.slot_cursor(slot));
        let words = self.words.load_acquire(HEAD).saturating_sub(cursor);
        words.min(self.layout.ring_words as u64) * 8
    }

    /// Returns the size of the ring for records, in bytes.
    pub fn bytes(&self) -> u64 {
        self.layout.ring_words as u64 * 8
    }

    /// Acquires the lock, and repairs the state that an exited owner left.
    pub(crate) fn lock(&self, who: &Owner, departed: Option<u64>) -> Result<Guard, LockError> {
        let guard = lock::acquire(self.words, who, departed)?;
        let (head, _) = self.bounds().ok_or(LockError::Corrupt)?;
        // The previous owner was killed between steps 3 and 6 of an append.
        if self.words.load(PENDING) == head {
            self.finish_append();
        }
        if self.words.load(DIRTY) != 0 {
            self.presence_rebuild();
        }
        Ok(guard)
    }

    /// Returns head and tail, if they are consistent.
    pub(crate) fn bounds(&self) -> Option<(Seq, Seq)> {
        let (head, tail) = (self.words.load(HEAD), self.words.load(TAIL));
        let sound = (START..=head).contains(&tail)
            && head < POSITION_MAX
            && head - tail <= self.layout.ring_words as u64;
        sound.then_some((head, tail))
    }
}

fn checked_layout(words: &[AtomicU64], config: &Config) -> Result<Layout, OpenError> {
    let layout = Layout::new(config)?;
    if words.len() < layout.words() {
        return Err(OpenError::TooSmall {
            words: words.len(),
            needed: layout.words(),
        });
    }
    Ok(layout)
}
