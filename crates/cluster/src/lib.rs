//! Channels over many machines: the bridge between a node and a shared log, which is NATS JetStream or a Redis stream.
//!
//! A node's workers append what they publish to an *outbox*. The [`Bridge`] publishes it to the log, learns the position that
//! the log assigns, and reads the log in order for the node's ring. Order and identity of events come from the log ([`Place`]),
//! so they are the same on every node.
//!
//! The crate has no sockets, no clock and no shared memory: bytes, outbox records and the time come in, bytes and [`Event`]s go
//! out.
//!
//! # Terms
//!
//! | Term | Meaning |
//! |---|---|
//! | log | the JetStream stream or Redis stream that all nodes share |
//! | record | an entry of a node's outbox; it has a number in the outbox, and a position once the log has stored it |
//! | message | an entry of the log: a record of any node, or a probe |
//! | position | epoch of the log and sequence in it ([`Place`]) |
//! | probe | a message without content, sent only to test whether the log accepts messages, or where it ends |
//! | live | the log was opened on this connection, and its messages are passed on |
//! | ready | the log accepts records, and all messages that it had at the start of the connection were read ([`Event::Ready`]) |
//! | older messages | messages that a client missed and its node no longer retains ([`PastRequest`]) |
//!
//! # Invariants
//!
//! - A record is accepted only once the log has acknowledged it. Records without an acknowledgement when a connection ends are
//!   sent again with the same id, which the log recognizes (`Nats-Msg-Id`; in Redis a set next to the stream).
//! - Records come out in the log's order, each once, and without holes. A hole is reported as [`Event::Begin`]. The caller then
//!   notifies every client that messages may be missing.
//! - If a copy of a replicated log differs from its leader, the bridge stops reading it and reads another one. If its records
//!   were passed on, the log gets a new epoch.
//! - Older records are requested when a client needs more than its node retains ([`PastRequest`]). Missing ones are reported
//!   ([`PastEntry::Gap`]).
//! - All input from the log is checked. Malformed input ends the connection, never the process.
//!
//! # Decisions and their price
//!
//! **Our own clients.** NATS has ten verbs and RESP3 a dozen kinds of values; existing clients bring a runtime or a connection
//! pool. The caller provides TLS; [`Event::Secure`] requests the handshake.
//!
//! **One connection at a time.** A Sentinel names the master, and a server of a Redis Cluster may name another server. The
//! bridge then connects to that server. Price: no message announces a fail-over, so the bridge detects it when the connection
//! ends.
//!
//! **One consumer for all channels of an application.** A node reads everything that is published under its prefix. Price: each
//! node processes the traffic of the entire cluster, whichever clients it serves.

#![forbid(unsafe_code)]

mod address;
mod bridge;
mod decimal;
mod epoch;
mod exchange;
mod in_flight;
mod jetstream;
mod link;
mod nats;
mod nkey;
mod past;
mod redis;
mod resp;
mod rfc3339;
mod subject;
mod wire;

pub use address::{Address, AddressError, Kind, Sentinel};
pub use bridge::Bridge;
pub use exchange::{
    Content, Event, IN_FLIGHT_MAX, Login, Options, Outgoing, PAST_REQUESTS_MAX, PastEntry,
    PastRequest, Place, Received, Rejected,
};
pub use nkey::{Credentials, CredentialsError, Nkey};
pub use wire::{Operation, WireError, parse};
