//! Detection of handlers that blocked the loop, after they have returned.

use std::num::NonZeroU64;

use fermata_io::wake::Waker;

use crate::admin::stats::Shared;
use crate::http::router::Router;

/// State for detecting blocking handlers.
pub(crate) struct Blocking {
    shared: Shared,
    slot: u16,
    /// Wall-clock time of the last poll, or of the end of the last wait.
    pub polled_unix_ms: u64,
    /// Start of the running handler, if any.
    handler_unix_ms: Option<NonZeroU64>,
    /// Time in milliseconds from which a handler counts as blocking; `None` = never.
    limit_ms: Option<NonZeroU64>,
    /// Wakes the master to sample handlers.
    sampler: Option<Waker>,
}

/// A handler that has blocked the loop.
pub(crate) struct BlockingCall {
    since_unix_ms: u64,
    took_ms: u64,
    limit_ms: u64,
}

impl Blocking {
    /// Creates the state; handlers count as blocking from `limit_ms` on, 0 = never.
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

    /// Notes the start of a handler. Costs two stores, and a wake-up of the master after a pause.
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

    /// Notes that the application has returned at `unix_ms`.
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

    /// Returns the log message for a blocking handler.
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
    fn reports_a_blocking_handler_once() {
        let mut blocking = Blocking::new(100, None, Shared::private(), 0);
        blocking.polled_unix_ms = 1_000;
        blocking.begin(7);
        assert!(blocking.end(1_099).is_none());
        blocking.begin(7);
        let call = blocking.end(1_100).expect("it has reached the limit");
        let text = blocking.describe(&call, &Router::new());
        assert!(text.contains("held the loop for 100 ms"), "{text}");
        assert!(blocking.end(9_000).is_none(), "none runs");
        blocking.limit_ms = None;
        blocking.begin(7);
        assert!(blocking.end(u64::MAX - 1).is_none(), "never");
    }
}
