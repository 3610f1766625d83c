//! Channels over several machines: servers of their own, and a real nats-server between them that is killed as well.

mod chaos;
mod direct;
mod faults;
mod node;
mod order;
mod presence;
mod publishing;
mod refused;
mod secure;
mod traces;
