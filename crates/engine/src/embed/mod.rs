//! The embedder's API: waiting, watched descriptors, connections, file operations, and clients held
//! in custom formats.

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
