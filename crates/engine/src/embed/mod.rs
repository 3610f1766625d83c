//! What an embedder can do in the loop besides answering: wait, watch descriptors, open connections, work on files,
//! and hold clients in formats of its own.

pub(crate) mod channels;
pub(crate) mod connect;
pub(crate) mod defer;
pub(crate) mod event;
pub(crate) mod file_jobs;
pub(crate) mod program_figures;
pub(crate) mod relay;
pub(crate) mod relayed;
pub(crate) mod rendezvous;
mod requests;
mod sockets;
pub(crate) mod upstream;
pub(crate) mod waiting;
pub(crate) mod watch;
pub(crate) mod wires;
mod worker;
