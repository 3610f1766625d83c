//! The ring: one log of all channels in memory that every process of the server maps.
//!
//! Positions count words since the ring was made and never wrap; a position modulo the ring's size is the place.
//! Records lie between `TAIL` and `HEAD`. One lock orders all changes; reading needs no lock.
//!
//! An append does, in this order and with release ordering where another process depends on it:
//! 1. move `TAIL` over the oldest records until there is room, never past a live worker's cursor,
//! 2. write the record's words behind `HEAD`, where nobody reads,
//! 3. `PENDING` = its position: from here on the next owner of the lock completes the append if we die,
//! 4. its index bucket = its position, before `HEAD`, so that a replay up to what a worker has read misses nothing,
//! 5. `LOG_SEQ` = its place in the log, if it comes from one,
//! 6. `HEAD` = behind it: now it is published.
//!
//! A process that dies between two steps has executed all stores before that point and none after it: the kernel
//! lets no store of a dead process get lost, and whoever learns of the death from the kernel sees them. Release ordering
//! keeps the compiler and the processor from swapping the steps themselves.
//!
//! A reader copies words first and looks at `TAIL` afterwards. The fences pair such that whoever saw a word of
//! step 2 also sees the `TAIL` of step 1 and throws its copy away (a seqlock whose counter is `TAIL`).

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

/// Words at the start of a ring that tell what it is.
pub const HEAD_WORDS: usize = 3;
/// The first record's position. Not zero, so that zero can mean "no record".
const START: u64 = 1;
/// The cursor of a worker that ended or was found dead: outside every ring, so nobody waits for it.
const CURSOR_DEAD: u64 = u64::MAX;
/// No ring lives long enough to reach this position; larger values are damage.
const POSITION_MAX: u64 = 1 << 60;

/// The shared log. Each process has one value of its own; all refer to the same words.
pub struct Ring {
    pub(crate) words: Words,
    pub(crate) layout: Layout,
    pub(crate) hasher: ChannelHasher,
    pub(crate) history_count_max: usize,
    pub(crate) history_age_ms_max: u64,
    pub(crate) leave_delay_ms: u64,
    pub(crate) channel_members_max: usize,
    pub(crate) source_members_max: usize,
    /// Whether joins and leaves are announced in this ring, and not by whoever shares presence with other machines.
    pub(crate) announces: bool,
    /// Positions and sizes of the records a replay gives; kept for its memory.
    pub(crate) found: Vec<(Seq, usize)>,
    pub(crate) record: Record,
    pub(crate) texts: crate::presence::Texts,
    pub(crate) log_index: LogIndex,
    ids: Ids,
}

/// A publish that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// Name and data are too long. The caller's mistake.
    #[error("the event has {bytes} bytes of name and data, but at most {max} are allowed")]
    TooLarge {
        /// Bytes of name and data.
        bytes: usize,
        /// The configured bound.
        max: usize,
    },
    /// The channel's name is empty or too long. The caller's mistake.
    #[error("a channel name has 1 to 255 bytes, this one has {bytes}")]
    ChannelName {
        /// Bytes of the name.
        bytes: usize,
    },
    /// The ring is full of records that a live worker has not read. Wait for it; when it is the caller itself, pump.
    #[error("worker {slot} has not yet read the oldest events and the ring is full")]
    Behind {
        /// The worker's slot.
        slot: u32,
    },
    /// The shared memory could not be used.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Shared memory that does not hold the expected ring. Making a new one with [`Ring::create`] is the way on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The memory is smaller than the layout.
    #[error("the history file has {words} words of 8 bytes, but {needed} are needed")]
    TooSmall {
        /// Words there are.
        words: usize,
        /// Words needed.
        needed: usize,
    },
    /// The memory holds something else.
    #[error("this is no history file of Fermata")]
    NotARing,
    /// The ring is of another version.
    #[error("the history file was made by another version")]
    OtherVersion,
    /// The ring was made with other sizes.
    #[error(
        "the history file was made with other sizes (history_bytes_max, event_bytes_max, members_max or workers)"
    )]
    OtherSizes,
    /// The records contradict each other, for example after the machine lost power.
    #[error("the history file is damaged")]
    Damaged,
}

impl Ring {
    /// Makes an empty ring in `words`, whatever they held. `epoch` tells it apart from all rings before; `hash_key` is secret.
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

    /// Opens the ring that an earlier life of the server left in `words`, finishing an interrupted append.
    ///
    /// The caller must be its only user: all workers of the earlier life are gone. Users that were present become leaving.
    ///
    /// # Errors
    /// [`OpenError`]; the words are then as they were or damaged further, so make a new ring with a new epoch.
    pub fn open(words: &'static [AtomicU64], config: &Config) -> Result<Ring, OpenError> {
        let layout = checked_layout(words, config)?;
        let words = Words::new(words);
        let head = [
            words.load_acquire(MAGIC),
            words.load(VERSION),
            words.load(SHAPE),
        ];
        Ring::check_head(&head, config)?;
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

    /// Whether a file that begins with these words is to be opened as the ring of this configuration, known without
    /// changing anything of it.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] for zeros, which a ring begins with until it is complete, and which a machine that lost power
    /// may leave; otherwise as [`Ring::open`].
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

    /// Another value for the same ring, for a thread of this process that only reads.
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

    /// Tells a ring in a file which boot of the machine this is (not zero). If the ring was last used in another boot and
    /// not closed in order ([`Ring::close`]), its newest records may be lost, so it gets the epoch `epoch`: clients that
    /// saw a lost record then get a gap instead of silence. Returns whether the epoch changed.
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

    /// Notes that the server ended in order. Call as the last user; sync the file afterwards.
    pub fn close(&mut self) {
        self.words.store(CLEAN, 1);
    }

    /// Appends one record. When this returns `Ok`, the record survives the death of this and any other process.
    ///
    /// Afterwards wake whom [`Ring::wake_list`] names; once for several publishes is enough.
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

    /// Appends a record that concerns one subscriber: it alone does not get a message, or it alone gets a direct one.
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

    /// Starts the worker `who`: it reads from here on. Call in the worker itself, before it serves anybody.
    ///
    /// # Errors
    /// [`LockError`]; the worker did not start.
    ///
    /// # Panics
    /// When `who.slot` is not below `workers_max`.
    pub fn worker_started(&mut self, who: &Owner, unix_ms: u64) -> Result<Reader, LockError> {
        assert!(
            who.slot < self.layout.workers_max,
            "worker slot out of range"
        );
        let guard = self.lock(who, None)?;
        // The process that had the slot before is gone, even if its end was not reported.
        self.retire(&guard, who.slot, unix_ms);
        let head = self.words.load(HEAD);
        self.words.store(self.layout.slot_cursor(who.slot), head);
        self.words
            .store_release(self.layout.slot_pid(who.slot), u64::from(who.pid));
        drop(guard);
        Ok(Reader::new(self.words, &self.layout, who.slot, head))
    }

    /// Cleans up after the worker `slot` with process id `pid`, which has ended: frees the lock if it died with it,
    /// finishes its append, frees its cursor, and lets its users leave after the leave delay.
    ///
    /// Call after the process was reaped. Wake all workers afterwards: the dead one may have published or taken a wake
    /// list without waking anybody.
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

    /// Takes the lock for a process that dies with it.
    #[cfg(loom)]
    pub fn die_with_lock(&mut self, who: &Owner) {
        std::mem::forget(self.lock(who, None));
    }

    fn retire(&self, guard: &Guard, slot: u32, unix_ms: u64) {
        self.words.store(self.layout.slot_cursor(slot), CURSOR_DEAD);
        sleepers::remove(&self.words, slot);
        self.presence_slot_ended(guard, slot, unix_ms);
        // Last, so that a caller that dies in here can be followed by another one that does it all again.
        self.words.store_release(self.layout.slot_pid(slot), 0);
    }

    /// The workers that slept, and forgets them: the caller must wake each.
    pub fn wake_list(&self) -> Slots {
        // Pairs with the fence in `Reader::set_sleeping`: either we see its bit, or it sees our record.
        fence(Ordering::SeqCst);
        sleepers::take(&self.words, self.layout.workers_max)
    }

    /// The hasher that [`crate::LocalConfig`] needs.
    pub fn hasher(&self) -> ChannelHasher {
        self.hasher
    }

    /// Writer and reader of this ring's event ids.
    pub fn ids(&self) -> Ids {
        self.ids
    }

    /// The event id of `seq` as text inside `buffer`: what was published up to there, in the log if there is one.
    pub fn id_text<'b>(&mut self, seq: Seq, buffer: &'b mut [u8; ID_BYTES_MAX]) -> &'b [u8] {
        match self.place_at(seq) {
            Some(place) => Ids::new(place.epoch).text(place.seq, buffer),
            None => self.ids.text(seq, buffer),
        }
    }

    /// Reads a client's event id. A place this ring has not reached is foreign: it must come from a lost history. One that it
    /// has not reached in the log may be that of a client that comes from another machine.
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

    /// The place in the log that a client's event id names, wherever this ring stands. `None` without a log, and for other ids.
    pub fn place_of_id(&self, text: &[u8]) -> Option<LogPlace> {
        let epoch = self.log_epoch()?;
        match Ids::new(epoch).parse(text) {
            IdRef::Seq(seq) => Some(LogPlace { epoch, seq }),
            _ => None,
        }
    }

    /// Everything published so far has a sequence number up to this.
    pub fn newest(&self) -> Seq {
        self.words.load_acquire(HEAD).saturating_sub(1)
    }

    /// Bytes of records that the worker in `slot` has not read; zero when there is none.
    pub fn lag_bytes(&self, slot: u32) -> u64 {
        if slot >= self.layout.workers_max || self.words.load(self.layout.slot_pid(slot)) == 0 {
            return 0;
        }
        let cursor = self.words.load(self.layout.slot_cursor(slot));
        let words = self.words.load_acquire(HEAD).saturating_sub(cursor);
        words.min(self.layout.ring_words as u64) * 8
    }

    /// Bytes of records the ring holds.
    pub fn bytes(&self) -> u64 {
        self.layout.ring_words as u64 * 8
    }

    /// Takes the lock and repairs what a dead owner left.
    pub(crate) fn lock(&self, who: &Owner, departed: Option<u64>) -> Result<Guard, LockError> {
        let guard = lock::acquire(self.words, who, departed)?;
        let (head, _) = self.bounds().ok_or(LockError::Corrupt)?;
        if self.words.load(PENDING) == head {
            self.finish_append();
        }
        if self.words.load(DIRTY) != 0 {
            self.presence_rebuild();
        }
        Ok(guard)
    }

    /// Head and tail, if they make sense together.
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
