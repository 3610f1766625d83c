//! The kernels behind [`crate::Driver`].

pub mod epoll;
pub mod fake;
mod socket;
pub mod uring;
