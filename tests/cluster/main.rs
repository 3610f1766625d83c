//! Channels over several machines: servers of their own, and a real log between them that is killed and cut off as well.

mod chaos;
mod chaos_log;
mod direct;
mod failover;
mod faults;
mod node;
mod order;
mod pages;
mod partitions;
mod past;
mod presence;
mod publishing;
mod refused;
mod secure;
mod traces;
