//! The GRIP edge: stands in front of any HTTP or FastCGI backend and holds its clients.
//!
//! [`server`] is what runs; the rest knows nothing of it: each part has its state, and what can be done with that alone.
//! [`routes`], [`settings`] and [`control`] read no files and no clocks: what a file says is an
//! argument.
//!
//! # Inside
//!
//! A client's request waits (`defer`) while a `Talk` (`upstream/talk.rs`) has a connection to its origin, taken from the
//! pool or opened (`upstream/connections.rs`); what comes back is passed on piece by piece as the client takes it, or read whole when it is an
//! instruction (`answer.rs`).
//! Which target a conversation asks, and which next, is decided by `upstream/balance.rs` from what all workers know of
//! targets (`upstream/health.rs`, words in shared memory; `upstream/targets.rs` joins them, worker 0 makes the checks). Why
//! one is not asked is told by whose fault (`upstream/unopened.rs`), and only its own counts against it; who waits for a full Unix
//! socket stands in one queue for it (`upstream/room.rs`). Names are looked up by a few threads of a worker (`upstream/resolve.rs`), the
//! only ones it has besides those for files; they begin after the fork, and a byte on a socket pair wakes the loop. A body
//! is collected up to what a client may be held with and then read only as fast as its origin takes it (`arriving.rs`).
//! A stream without wishes is then known to the engine alone; of anybody with filters, ids, links, a long poll or a
//! WebSocket there is a `Session`, which takes items one by one (`items.rs`). Worker 0 has the control port and the stats
//! socket, and the others tell it of their clients over a Unix socket (`server/stats`); what it is asked about single
//! connections it asks the others by notices (`commands.rs`). `journal.rs` logs requests, subscriptions and items.
//! The edge owns the end of every request that it has deferred: when it forgets one, it drops it (`Worker::drop_request`),
//! and the connection is closed. A record of the ring is an item as JSON, under the item's channel.
//! A polling SockJS session (`server/sockjs`) is the client of a WebSocket in its own worker, over a socket pair, so that
//! everything WebSockets can do is written once; its name says which worker has it, and others hand its requests on over
//! Unix sockets. What is asked by ZeroMQ (`server/services`: sessions of an outside service, `zhttpreq/…` backends) goes
//! through worker 0, which has the ports.
//! Who has missed something gets it from the ring or asks its origin, in turns (`reliable.rs`); what waits for its
//! predecessor is noted in the ring as well, so that the next worker 0 has it (`channels/notes.rs` of the engine, which
//! also tells all workers something). Deliveries go at a rate only where `rate.rs` is asked to: then every client takes
//! items one by one.

#![forbid(unsafe_code)]

mod client;
pub mod control;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod numbered;
mod prepared;
mod publish;
mod pushpin;
pub mod routes;
pub mod server;
pub mod settings;
mod timers;
pub mod upstream;
