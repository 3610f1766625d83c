//! Telling that a handler has held the loop, when it has returned.

use std::num::NonZeroU64;

use fermata_io::wake::Waker;

use crate::admin::stats::Shared;
use crate::http::router::Router;

/// How long handlers hold the loop.
pub(crate) struct Blocking {
    shared: Shared,
    slot: u16,
    /// When the program last asked for an event, or the last wait for some ended, by the wall clock.
    pub polled_unix_ms: u64,
    /// When the handler that runs began, if one does.
    handler_unix_ms: Option<NonZeroU64>,
    /// From when on a handler is too long; `None` = never.
    limit_ms: Option<NonZeroU64>,
    /// Wakes the master to look at handlers.
    sampler: Option<Waker>,
}

/// A handler that has held the loop for too long.
pub(crate) struct BlockingCall {
    since_unix_ms: u64,
    took_ms: u64,
    limit_ms: u64,
}

impl Blocking {
    /// Handlers are too long from `limit_ms` on; 0 = never.
    pub fn new(limit_ms: u64, sampler: Option<Waker>, shared: Shared, slot: u16) -> Blocking {
        Blocking {
            shared,
            slot,
            polled_unix_ms: 0,
            handler_unix_ms: None,
            limit_ms: NonZeroU64::new(limit_ms),
            sampler,
        }
    }

    /// A handler is about to run. Two stores, and a wake-up of the master after a pause.
    #[inline]
    pub fn begin(&mut self, handler: u32) {
        self.handler_unix_ms = NonZeroU64::new(self.polled_unix_ms);
        self.shared
            .begin_handler(self.slot, handler, self.polled_unix_ms);
        if let Some(sampler) = &self.sampler
            && !self.shared.is_sampled()
        {
            self.shared.set_sampled(true);
            sampler.wake();
        }
    }

    /// The program has come back, at `unix_ms`.
    #[inline]
    pub fn end(&mut self, unix_ms: u64) -> Option<BlockingCall> {
        let since_unix_ms = self.handler_unix_ms.take()?.get();
        let limit_ms = self.limit_ms?.get();
        let took_ms = unix_ms.saturating_sub(since_unix_ms);
        (took_ms >= limit_ms).then_some(BlockingCall {
            since_unix_ms,
            took_ms,
            limit_ms,
        })
    }

    /// What the log says of such a handler.
    #[cold]
    pub fn describe(&self, call: &BlockingCall, router: &Router) -> String {
        let handler = self.shared.handler(self.slot);
        let what = handler.map_or_else(
            || "the handler of an unknown route".to_owned(),
            |handler| router.what_runs(handler),
        );
        let place = self.shared.place(self.slot, call.since_unix_ms);
        let place = place.map_or_else(String::new, |place| format!("; it was in {place}"));
        format!(
            "{what} held the loop for {} ms (blocking_call_ms {}){place}. All other \
             clients of this worker waited: let Runtime::hook() make it wait in a fiber where it can, or \
             give the work to another process",
            call.took_ms, call.limit_ms,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_too_long_once() {
        let mut blocking = Blocking::new(100, None, Shared::private(), 0);
        blocking.polled_unix_ms = 1_000;
        blocking.begin(7);
        assert!(blocking.end(1_099).is_none());
        blocking.begin(7);
        let call = blocking.end(1_100).expect("it has reached the limit");
        let told = blocking.describe(&call, &Router::new());
        assert!(told.contains("held the loop for 100 ms"), "{told}");
        assert!(blocking.end(9_000).is_none(), "none runs");
        blocking.limit_ms = None;
        blocking.begin(7);
        assert!(blocking.end(u64::MAX - 1).is_none(), "never");
    }
}
