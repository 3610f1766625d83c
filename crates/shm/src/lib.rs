//! What all that lies in shared memory stands on: atomics, the lock that outlives its owner, and deaths for tests.
//!
//! The processes of a server map the same memory, and any of them may be killed at any instruction. So a structure in it is
//! correct when it is correct after a death before every one of its stores:
//!
//! - Stores go through [`put`], or call [`crash::step`] first, so that a test can end a process before each of them.
//! - A lock is a word that names its owner ([`acquire`]). Whoever finds a dead owner takes the lock over and repairs what that
//!   one has left.
//! - The atomics are those of the model checker where the crate is compiled with `--cfg loom`: the tests `loom.rs` of the crates
//!   above run the same code in every order that the memory model allows.

pub mod crash;
mod lock;
mod sync;

pub use lock::{Guard, acquire};
pub use sync::{AtomicU64, Ordering, RandomState, fence, put};
