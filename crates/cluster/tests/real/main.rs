//! Bridges and a real server of the log, which is killed and comes back: nothing is lost, doubled or out of order.

#![allow(clippy::unwrap_used)]

mod each;
mod nats;
mod nats_cluster;
mod node;
mod redis;
mod redis_cluster;
mod sentinel;
