//! Event loop drivers, timers, buffers, sockets and processes: all system calls of Fermata.
//!
//! The engine owns a [`Driver`] and polls it for ready descriptors; the crate contains no HTTP. It is one of the two crates that
//! may use `unsafe`. Its interface must therefore tolerate misuse: a stale token, a late timer or a signal during a fork may cause
//! a needless wake-up, but never a violation of memory safety.
//!
//! - [`driver`]: interface between event loop and kernel. [`sys::epoll`] and [`sys::uring`] implement it, and
//!   [`sys::fake`] in tests; [`kernel`] selects one of the first two.
//! - [`deadline`], [`wheel`], [`alarm`]: deadlines, timers, and a timer finer than a millisecond.
//! - [`buffer`], [`wake`], [`handover`]: reusable buffers, waking another process, handing over a connection to another process.
//! - [`watch`]: descriptors of the application; [`descriptors`]: low numbers reserved for the application.
//! - [`files`]: file operations that do not block the loop.
//! - [`net`], [`log_file`], [`systemd`], [`users`], [`memory`], [`shm`], [`signal`], [`process`], [`thread`],
//!   [`probe`], [`random`], [`clock`]: set-up and supervision.
//!
//! # Inside
//!
//! `sys/uring` implements readiness on top of completions. Received bytes wait in a pool of buffers, which is returned to the
//! kernel before every wait. Small sends are collected and submitted together; bytes that the kernel does not accept stay in the
//! driver. `send` may therefore accept bytes that the kernel has not accepted yet: an owner that cannot wait uses `flush` and
//! `leaving`.
//!
//! `files/` runs file operations. A `Job` is straight-line code that awaits one operation at a time. `Files` runs an operation
//! immediately if it cannot block, otherwise in its own ring or on a thread. Operations own their buffers until they complete, and
//! a job without a waiter is still finished. `turns.rs` keeps jobs on the same path or handle in order.
//!
//! # Decisions and their price
//!
//! **Edge-triggered epoll, registered once.** Two system calls per connection in addition to its reads and writes.
//! Price: the engine must remember readiness, or a client stalls. The fake driver behaves the same, so that tests find
//! such errors.
//!
//! **Two kernel interfaces, selected at start.** The setting `io` decides; docs/io.md has measurements. One type for
//! both costs a comparison per call. Price: every guarantee of `Driver` is implemented twice; one set of tests checks
//! both.
//!
//! **Yielding before sleeping.** A worker yields its core before it waits. A client on the same core then sends a batch
//! of requests instead of waking the worker for each one. Price: a busy process on the core would run for a complete
//! time slice. After a yield of more than 2 ms, the worker therefore does not yield for twenty times as long
//! (`yield_policy.rs`).
//!
//! **Short file operations run in the loop.** A write into the page cache costs less than a hand-over. Price: an
//! operation on a slow disk blocks the loop. When such waits exceed a credit of 5 ms, `inline_io_budget.rs` hands all
//! operations over for twenty times the excess.

pub mod alarm;
pub mod buffer;
pub mod clock;
pub mod deadline;
pub mod descriptors;
pub mod driver;
pub mod files;
pub mod handover;
pub mod kernel;
mod links;
pub mod log_file;
pub mod memory;
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
