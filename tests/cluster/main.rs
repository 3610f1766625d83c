//! Channels over several machines: separate servers with a real log, which the tests also kill and
//! disconnect.

mod chaos;
mod chaos_log;
mod checked;
mod direct;
mod failover;
mod faults;
mod lost;
mod node;
mod nodes;
mod order;
mod pages;
mod partitions;
mod past;
mod presence;
mod publishing;
mod ready;
mod refused;
mod secure;
mod traces;
