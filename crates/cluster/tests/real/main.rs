//! Bridges and real servers, which are killed and restarted: no record is lost, duplicated or out of order.

#![allow(clippy::unwrap_used)]

mod each;
mod nats;
mod nats_cluster;
mod node;
mod redis;
mod redis_cluster;
mod sentinel;
