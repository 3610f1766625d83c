//! Connections as the kernel sees them: accepting, reading, writing, time-outs, the end.

pub(crate) mod accept;
pub(crate) mod backend;
pub(crate) mod balance;
pub(crate) mod connection;
pub(crate) mod input;
pub(crate) mod listeners;
pub(crate) mod output;
pub(crate) mod preface;
pub(crate) mod slab;
pub(crate) mod timers;
pub(crate) mod tls;
