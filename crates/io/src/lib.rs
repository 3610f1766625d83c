//! Event loop drivers, timers, buffers, sockets and processes: every system call of Fermata.
//!
//! The engine owns a [`Driver`] and asks it what is ready; nothing here knows HTTP. The crate is
//! one of the two places where `unsafe` is allowed, so what leaves it has to be safe to hold wrong:
//! a stale token, a late timer or a signal during a fork costs a wake-up, never memory safety.
//!
//! - [`driver`]: the contract between loop and kernel, served by [`sys::epoll`], [`sys::uring`] and,
//!   in tests, [`sys::fake`]; [`kernel`] chooses between the first two.
//! - [`wheel`], [`alarm`], [`buffer`], [`wake`], [`handover`]: timers, one of them finer than a
//!   millisecond, reusable buffers, waking another process, handing it a connection.
//! - [`watch`]: descriptors of the embedding program; [`descriptors`]: low numbers are kept for them.
//! - [`files`]: work on files that does not hold the loop.
//! - [`net`], [`log_file`], [`systemd`], [`users`],
//!   [`shm`], [`signal`], [`process`], [`thread`], [`probe`], [`random`], [`clock`]: set-up and
//!   supervision.

pub mod alarm;
pub mod buffer;
pub mod clock;
pub mod descriptors;
pub mod driver;
pub mod files;
pub mod handover;
pub mod kernel;
pub mod log_file;
pub mod net;
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

pub use driver::{Accepted, Driver, EVENTS_MAX, Event, Fd, Peer};
pub use kernel::{Backend, Kernel};
