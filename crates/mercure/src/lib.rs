//! The Mercure protocol, <https://mercure.rocks/spec>, without sockets and clock. It is the protocol of present clients
//! (0.x) or, for a hub with a [`resource::Draft`], the draft of version 1.0.
//!
//! - [`read`] parses a request: subscribe, publish, list subscriptions, or a refusal.
//! - [`token`] verifies what a client may read and write, as [`selector`]s.
//! - [`update`] is a published update, stored as one record with all its topics; selectors are compared with a [`topic`].
//! - [`audience`] selects the subscribers of an update.
//! - [`subscription`] announces and lists subscriptions.
//! - [`pattern`] and [`url`] implement the draft's matchers.
//! - [`origin`] decides what pages of other sites may do.

#![forbid(unsafe_code)]

pub mod audience;
mod draft;
mod expression;
mod form;
pub mod matcher;
pub mod origin;
pub mod pattern;
pub mod request;
pub mod resource;
pub mod selector;
pub mod subscription;
pub mod token;
pub mod topic;
pub mod update;
pub mod url;

pub use expression::{PATTERN_BYTES_MAX, TEMPLATE_BYTES};
pub use request::{Hub, Outcome, Request};

/// Path of the hub.
pub const PATH: &str = "/.well-known/mercure";

/// Maximum number of topics of an update, and of a subscriber.
pub const TOPICS_MAX: usize = 128;

/// Maximum length of a topic or selector, in bytes.
pub const TOPIC_BYTES_MAX: usize = 2048;

/// Parses a request in the hub's protocol version.
pub fn read(hub: &Hub, request: &Request<'_>) -> Outcome {
    match &hub.draft {
        Some(draft) => draft::read(hub, draft, request),
        None => request::read(hub, request),
    }
}

/// Counters of work whose amount clients choose. Tests limit these counts, because times are unreliable.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;
    use std::thread::LocalKey;

    pub type Counter = LocalKey<Cell<usize>>;

    thread_local! {
        /// Compiled expressions.
        pub static COMPILED: Cell<usize> = const { Cell::new(0) };
        /// Comparisons of an expression with a text.
        pub static COMPARED: Cell<usize> = const { Cell::new(0) };
        /// Comparisons of a selector with a topic.
        pub static SELECTORS: Cell<usize> = const { Cell::new(0) };
        /// Number of views visited in searches for ended views.
        pub static SEARCHES: Cell<usize> = const { Cell::new(0) };
        /// Parsed URLs.
        pub static URLS: Cell<usize> = const { Cell::new(0) };
    }

    pub fn add(counter: &'static Counter) {
        counter.set(counter.get() + 1);
    }

    /// Returns the increase of a counter during `run`.
    pub fn during<T>(counter: &'static Counter, run: impl FnOnce() -> T) -> (T, usize) {
        let before = counter.get();
        let result = run();
        (result, counter.get() - before)
    }
}
