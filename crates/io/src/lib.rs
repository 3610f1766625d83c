//! Event loop drivers, timers, buffers, sockets and processes: every system call of Fermata.
//!
//! The engine owns a [`Driver`] and asks it what is ready; nothing here knows HTTP. The crate is
//! one of the two places where `unsafe` is allowed, so what leaves it has to be safe to hold wrong:
//! a stale token, a late timer or a signal during a fork costs a wake-up, never memory safety.
//!
//! - [`driver`]: the contract between loop and kernel, served by [`sys::epoll`], [`sys::uring`] and,
//!   in tests, [`sys::fake`]; [`kernel`] chooses between the first two.
//! - [`deadline`], [`wheel`], [`alarm`], [`buffer`], [`wake`], [`handover`]: when something is due, timers, one of them
//!   finer than a millisecond, reusable buffers, waking another process, handing it a connection.
//! - [`watch`]: descriptors of the embedding program; [`descriptors`]: low numbers are kept for them.
//! - [`files`]: work on files that does not hold the loop.
//! - [`net`], [`log_file`], [`systemd`], [`users`],
//!   [`shm`], [`signal`], [`process`], [`thread`], [`probe`], [`random`], [`clock`]: set-up and
//!   supervision.
//!
//! # Inside
//!
//! No HTTP words.
//!
//! `sys/uring` serves the contract of readiness from completions: what arrives waits in a pool of buffers that is the
//! kernel's again before every wait, small sends are collected and given to the kernel together, and what it does not take
//! stays with the driver.
//! So `send` may have taken what the kernel has not: `flush` and `leaving` are for an owner that cannot wait.
//!
//! `files/` does work on files: a `Job` is straight-line code whose only leaf is one operation, and `Files` does each at
//! once where the kernel need not wait, else in a ring of its own or on a thread. Operations own their buffers until they
//! have completed, and a job that nobody waits for any more is finished. `turns.rs` keeps jobs on the same path or handle
//! in their order.
//!
//! # Decisions and their price
//!
//! **Edge-triggered epoll, registered once.** Two system calls per connection besides its reads and writes. Price: the
//! engine must remember readiness, and forgetting it would stall a client; the fake driver behaves the same so that tests
//! find it.
//!
//! **Two kernel interfaces, chosen at start.** The setting `io` decides, docs/io.md has the measurements; one type for both
//! costs a comparison per call. Price: every promise of `Driver` is kept twice, which one set of tests checks over both.
//!
//! **Giving way before sleeping.** A worker yields its core before it waits, so that a client on the same core asks for a
//! batch instead of waking it for each request. Price: a neighbour that never sleeps would take a whole slice, so a yield
//! of more than 2 ms is paid back with twenty times as long without one (`courtesy.rs`).
//!
//! **Short work on files is done in the loop.** A write into the page cache costs less than giving it away. Price: the
//! first one that meets a slow disk holds the loop; `patience.rs` then gives everything away for twenty times as long.

pub mod alarm;
pub mod buffer;
pub mod clock;
pub mod deadline;
pub mod descriptors;
pub mod driver;
pub mod files;
pub mod handover;
pub mod kernel;
pub mod log_file;
pub mod net;
mod orphan;
pub mod probe;
pub mod process;
pub mod random;
pub mod shm;
pub mod signal;
pub mod sys;
pub mod systemd;
pub mod thread;
pub mod users;
pub mod wake;
pub mod watch;
pub mod wheel;

pub use deadline::Deadline;
pub use driver::{Accepted, Driver, EVENTS_MAX, Event, Fd, Peer};
pub use kernel::{Backend, Kernel};
