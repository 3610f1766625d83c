//! Telling that a handler has held the loop, when it has returned.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_io::wake::Waker;

use crate::admin::stats::Counter;
use crate::worker::Worker;

/// How long handlers hold the loop.
pub(crate) struct Blocking {
    /// When the program last asked for an event, or the last wait for some ended, by the wall clock.
    pub polled_unix_ms: u64,
    /// When the handler that runs began; 0 = none does.
    handler_unix_ms: u64,
    /// From when on a handler is too long; `u64::MAX` = never.
    limit_ms: u64,
    /// Wakes the master to look at handlers.
    looker: Option<Waker>,
}

impl Blocking {
    /// Handlers are too long from `limit_ms` on; 0 = never.
    pub fn new(limit_ms: u64, looker: Option<Waker>, unix_ms: u64) -> Blocking {
        Blocking {
            polled_unix_ms: unix_ms,
            handler_unix_ms: 0,
            limit_ms: if limit_ms == 0 { u64::MAX } else { limit_ms },
            looker,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// A handler is about to run. Two stores, and a wake-up of the master after a pause.
    #[inline]
    pub(crate) fn note_handler(&mut self, handler: u32) {
        let shared = &self.reporter.shared;
        self.blocking.handler_unix_ms = self.blocking.polled_unix_ms;
        shared.begin_handler(self.slot, handler, self.blocking.polled_unix_ms);
        if let Some(looker) = &self.blocking.looker
            && !shared.is_looked_after()
        {
            shared.set_looked_after(true);
            looker.wake();
        }
    }

    /// The program has come back, at `unix_ms`.
    #[inline]
    pub(crate) fn note_return(&mut self, unix_ms: u64) {
        let took_ms = unix_ms.saturating_sub(self.blocking.handler_unix_ms);
        if took_ms >= self.blocking.limit_ms && self.blocking.handler_unix_ms != 0 {
            self.tell_blocking(took_ms);
        }
        self.blocking.handler_unix_ms = 0;
    }

    /// A handler or a task goes on that has waited, without the program having asked for an event: what ran until now
    /// has returned.
    pub fn note_resumed(&mut self, handler: u32) {
        let unix_ms = self.net.driver.unix_ms();
        self.note_return(unix_ms);
        self.blocking.polled_unix_ms = unix_ms;
        self.note_handler(handler);
    }

    #[cold]
    fn tell_blocking(&mut self, took_ms: u64) {
        self.net.counts.add(Counter::BlockingCallbacks, 1);
        let shared = &self.reporter.shared;
        let handler = shared.handler(self.slot);
        let what = handler.map_or_else(
            || "the handler of an unknown route".to_owned(),
            |handler| self.http.router.what_runs(handler),
        );
        let place = shared.place(self.slot, self.blocking.handler_unix_ms);
        let place = place.map_or_else(String::new, |place| format!("; it was in {place}"));
        let message = format!(
            "{what} held the loop for {took_ms} ms (blocking_call_ms {}){place}. All other \
             clients of this worker waited: let Runtime::hook() make it wait in a fiber where it can, or \
             give the work to another process",
            self.blocking.limit_ms,
        );
        self.log_for_client(LogLevel::Warning, &message);
    }
}
