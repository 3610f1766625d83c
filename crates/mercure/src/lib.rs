//! The Mercure protocol, <https://mercure.rocks/spec>: no socket and no clock here. It is that of today's clients (0.x), and
//! where a hub has a [`resource::Draft`], the draft of version 1.0.
//!
//! [`read`] tells what a request asks for: to subscribe, to publish, to list subscriptions; or how it is refused.
//! A [`token`] says what its bearer may read and write, by [`selector`]s. An [`update`] is what is published; it is kept as
//! one record with all of its topics; a [`topic`] is what selectors are compared with. [`audience`] knows which subscribers
//! get which update, [`subscription`] how subscribing itself is told. [`pattern`] and [`url`] are what matchers of the draft
//! need. [`origin`] is what pages of other sites may do.

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

/// Where the hub is, below the host.
pub const PATH: &str = "/.well-known/mercure";

/// Most topics of an update, and of a subscriber.
pub const TOPICS_MAX: usize = 128;

/// Longest topic or selector, in bytes.
pub const TOPIC_BYTES_MAX: usize = 2048;

/// Tells what a request asks for, in the version that the hub speaks.
pub fn read(hub: &Hub, request: &Request<'_>) -> Outcome {
    match &hub.draft {
        Some(draft) => draft::read(hub, draft, request),
        None => request::read(hub, request),
    }
}

/// How often work was done of which clients choose the amount: tests bound it by this, and not by a clock.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;
    use std::thread::LocalKey;

    pub type Counter = LocalKey<Cell<usize>>;

    thread_local! {
        /// Expressions that were compiled.
        pub static COMPILED: Cell<usize> = const { Cell::new(0) };
        /// Expressions that were compared with a text.
        pub static COMPARED: Cell<usize> = const { Cell::new(0) };
        /// Selectors that were compared with a topic.
        pub static SELECTORS: Cell<usize> = const { Cell::new(0) };
        /// Searches for views that have ended.
        pub static SEARCHES: Cell<usize> = const { Cell::new(0) };
        /// URLs that were read.
        pub static URLS: Cell<usize> = const { Cell::new(0) };
    }

    pub fn add(counter: &'static Counter) {
        counter.set(counter.get() + 1);
    }

    /// How often it was done meanwhile.
    pub fn during<T>(counter: &'static Counter, run: impl FnOnce() -> T) -> (T, usize) {
        let before = counter.get();
        let result = run();
        (result, counter.get() - before)
    }
}
