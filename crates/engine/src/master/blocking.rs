//! Handlers that hold their worker's loop: the master looks where they are, the worker tells it.
//!
//! Workers note which handler runs and since when: two stores in shared memory. The master looks at
//! these notes four times per `blocking_call_ms` while handlers run at all, and asks the memory of a
//! worker that has been in one for half of it where it is. When the handler returns, the worker sees
//! how long it took and writes the line. A server with nothing to do is not looked at: the worker that
//! runs the first handler wakes the master.
//!
//! No signal and no thread: either would end a sleep or a poll of the program early, or run beside it.

use fermata_io::Driver;
use fermata_io::wake::Waker;

use super::{Frames, Master};

/// Looks per `blocking_call_ms`.
const LOOKS: u64 = 4;

/// Bounds of the time between two looks.
const LOOK_MS_MIN: u64 = 5;
const LOOK_MS_MAX: u64 = 1_000;

/// Looks without a handler before the master says that it looks no more.
const QUIET_LOOKS: u8 = 2;

/// When and how handlers are looked at.
pub(super) struct Looker {
    /// Rung by a worker that runs a handler while nobody looks.
    pub waker: Waker,
    /// How frames are laid out, if the embedder has told.
    pub frames: Option<Frames>,
    /// When the next look is due; `u64::MAX` = nobody looks.
    pub due_ms: u64,
    quiet_looks: u8,
}

/// What was last seen of one worker.
#[derive(Default)]
pub(super) struct Seen {
    /// When the handler that ran began.
    since_unix_ms: Option<u64>,
    /// How often its place was read.
    reads: u8,
}

impl Looker {
    pub(super) fn new(frames: Option<Frames>) -> std::io::Result<Looker> {
        Ok(Looker {
            waker: Waker::new()?,
            frames,
            due_ms: u64::MAX,
            quiet_looks: 0,
        })
    }
}

impl Master {
    /// A worker runs a handler after a pause.
    pub(super) fn begin_looking(&mut self) {
        self.looker.waker.drain();
        self.looker.quiet_looks = 0;
        if self.looker.due_ms == u64::MAX {
            self.looker.due_ms = self.driver.now_ms() + self.look_ms();
        }
    }

    fn look_ms(&self) -> u64 {
        (self.settings.blocking_call_ms / LOOKS).clamp(LOOK_MS_MIN, LOOK_MS_MAX)
    }

    /// Looks where handlers are that have been running for long.
    pub(super) fn look_at_handlers(&mut self, now_ms: u64) {
        if now_ms < self.looker.due_ms {
            return;
        }
        self.looker.due_ms = now_ms + self.look_ms();
        let unix_ms = self.driver.unix_ms();
        let mut is_quiet = true;
        for child in &mut self.children {
            let since_unix_ms = self.stats.handler_since_unix_ms(child.slot);
            let is_news = child.seen.since_unix_ms != since_unix_ms;
            if is_news {
                let reads = 0;
                child.seen = Seen {
                    since_unix_ms,
                    reads,
                };
            }
            let Some(since_unix_ms) = since_unix_ms else {
                is_quiet &= !is_news;
                continue;
            };
            is_quiet = false;
            // Once before it is too long, or one that ends just then would not be seen; once more after.
            let asked_ms = match child.seen.reads {
                0 => self.settings.blocking_call_ms / 2,
                1 => self.settings.blocking_call_ms,
                _ => continue,
            };
            if unix_ms.saturating_sub(since_unix_ms) < asked_ms {
                continue;
            }
            child.seen.reads += 1;
            let place = match &self.looker.frames {
                None => continue,
                Some(frames) => frames.place(child.pid),
            };
            let place =
                place.unwrap_or_else(|error| format!("a place that cannot be read: {error}"));
            if self.stats.handler_since_unix_ms(child.slot) == Some(since_unix_ms) {
                self.stats.set_place(child.slot, since_unix_ms, &place);
            }
        }
        self.rest_or_go_on(is_quiet);
    }

    /// A handler may begin while we say that we look no more, and its worker may have seen that we
    /// still do: so there is one look more after we have said it.
    fn rest_or_go_on(&mut self, is_quiet: bool) {
        let looker = &mut self.looker;
        if !is_quiet {
            looker.quiet_looks = 0;
            self.stats.set_looked_after(true);
            return;
        }
        looker.quiet_looks += 1;
        if looker.quiet_looks == QUIET_LOOKS {
            self.stats.set_looked_after(false);
        } else if looker.quiet_looks > QUIET_LOOKS {
            looker.due_ms = u64::MAX;
        }
    }
}
