//! The kernels behind [`crate::Driver`].

mod courtesy;
pub mod epoll;
pub mod fake;
mod socket;
pub mod uring;
