//! Basis of all structures in shared memory: atomics, a lock that survives its owner, and simulated crashes for tests.
//!
//! The processes of a server map the same memory, and any of them may be killed at any instruction. A structure in it
//! is therefore correct if it is correct after a crash before each of its stores:
//!
//! - Stores use [`put`] or call [`crash::step`] first, so that a test can crash a process before each of them.
//! - A lock is a word that contains its owner's name ([`acquire`]). A process that finds a dead owner takes the lock
//!   over and repairs the structure.
//! - With `--cfg loom` the atomics come from the model checker. The tests `loom.rs` of the crates above then run the
//!   same code in every order that the memory model allows.

pub mod crash;
mod lock;
mod sync;

pub use lock::{Guard, acquire};
pub use sync::{AtomicU64, Ordering, RandomState, fence, put};
