//! Channels over several machines: servers of their own, and a real nats-server between them that is killed as well.

mod faults;
mod node;
mod order;
mod publishing;
mod refused;
