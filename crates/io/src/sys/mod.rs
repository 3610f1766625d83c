//! Implementations of [`crate::Driver`].

pub mod epoll;
pub mod fake;
mod socket;
pub mod uring;
mod yield_policy;
