//! Backends: the pool of connections, retries of requests, and the selection and health of targets.

pub(crate) mod authority;
pub(crate) mod choice;
pub(crate) mod codec;
pub(crate) mod connections;
pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod exchanges;
pub(crate) mod folders;
pub(crate) mod forward;
pub(crate) mod handshake;
pub(crate) mod http2;
pub(crate) mod id;
pub(crate) mod internal;
pub(crate) mod link_body;
pub(crate) mod parts;
pub(crate) mod place;
pub(crate) mod reply;
pub(crate) mod resolve;
pub(crate) mod response;
pub(crate) mod route_keys;
pub(crate) mod signatures;
pub(crate) mod socket_queues;
pub(crate) mod targets;
pub(crate) mod test_origin;

mod balance;
mod health;
mod pool;

pub use balance::{Balancer, Candidate, HashBy, Policy};
pub use health::{
    Change, Figures, Health, HealthAtSend, HealthThresholds, MEMORY_WORDS, Passive, State,
    TARGET_SLOTS_MAX, TargetSlot,
};
pub use pool::{Failure, Limits, Pool, Sent, may_retry};

#[cfg(test)]
mod tests;
