//! Channels over many machines: the bridge between a node and a shared log, which is NATS JetStream or a stream of Redis.
//!
//! A node's workers append what they publish to an *outbox*. The [`Bridge`] publishes it to the log, learns the place the
//! log gave it, and reads the log in its order for the node's ring. Order and identity of events come from the log
//! ([`Place`]), so they are the same on every node.
//!
//! No sockets, no clock and no shared memory here: bytes, outbox records and the time come in, bytes and [`Event`]s go out.
//!
//! # What holds
//!
//! - A record is accepted only when the log has acknowledged it. What was sent and not acknowledged when a connection ends is
//!   sent again under the same id, by which the log knows it (`Nats-Msg-Id`; in Redis a set beside the stream).
//! - Records come out in the log's order, each once, and without holes: a hole is an [`Event::Begin`], which tells every client
//!   that something may be missing.
//! - A copy of a replicated log that is not what its leader has is left for another one; where its records were told
//!   already, the log gets a new epoch.
//! - Older records are asked for when a client needs what its node has no more ([`PastRequest`]); what is not to be had is told as
//!   missing ([`PastEntry::Gap`]).
//! - Whatever the log says is checked; what cannot be understood ends the connection, and never the process.
//!
//! # Decisions and their price
//!
//! **Our own clients.** NATS has ten verbs and RESP3 a dozen kinds of values, and the clients that exist bring a runtime or
//! a pool of connections. TLS is the caller's, who has one already; [`Event::Secure`] says when.
//!
//! **One connection at a time.** A Sentinel is asked who the master is, and left for the master; a server of a Redis Cluster that
//! names another one, too. Price: nobody tells of a fail-over, it is noticed by the connection that ends.
//!
//! **One consumer for all channels of an application.** A node reads everything that is published under its prefix. Price: a
//! node costs what the whole cluster publishes, whoever is connected to it.

#![forbid(unsafe_code)]

mod address;
mod bridge;
mod decimal;
mod epoch;
mod exchange;
mod flight;
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
