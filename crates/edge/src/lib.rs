//! The GRIP edge: stands in front of any HTTP or FastCGI backend and holds its clients.
//!
//! [`server`] is what runs; the rest knows nothing of it: each part has its state, and what can be done with that alone.
//! [`routes`], [`settings`] and [`control`] read no files and no clocks: what a file says is an
//! argument.
//!
//! # Inside
//!
//! A client's request waits (`defer`) while a `Talk` (`upstream/talk.rs`) has a connection to its origin, taken from the
//! pool or opened (`upstream/connections.rs`). The response is passed on piece by piece as the client takes it, or read whole
//! when it is an instruction (`answer.rs`).
//! `upstream/balance.rs` chooses the target of a request, and the next one after a failure, from what all workers know of
//! targets (`upstream/health.rs`, words in shared memory; `upstream/targets.rs` joins them, worker 0 makes the checks). Why a
//! request is not sent to a target is said by whose fault it is (`upstream/error.rs`), and only the target's own faults count
//! against it. Conversations that find the queue of a Unix socket full wait in one queue for it
//! (`upstream/socket_queues.rs`). A few threads of each worker look names up (`upstream/resolve.rs`), the only ones it has
//! besides those for files; they begin after the fork, and a byte on a socket pair wakes the loop. A body
//! is collected up to what a client may be held with and then read only as fast as its origin takes it (`arriving.rs`).
//! A held stream without further options is then known to the engine alone; a client with filters, ids, links, a long poll or
//! a WebSocket has a `Session`, which takes items one by one (`items.rs`). Worker 0 has the control port and the stats
//! socket, and the other workers report their clients to it over a Unix socket (`server/stats`); commands about single
//! connections are passed to the other workers as notices (`commands.rs`). `journal.rs` logs requests, subscriptions and items.
//! The edge owns the end of every request that it has deferred: when it forgets one, it drops it (`Worker::drop_request`),
//! and the connection is closed. A record of the ring is an item as JSON, under the item's channel.
//! A polling SockJS session (`server/sockjs`) is the client of a WebSocket in its own worker, over a socket pair, so that
//! everything WebSockets can do is written once; its name says which worker has it, and others hand its requests on over
//! Unix sockets. Questions over ZeroMQ (`server/services`: sessions of an outside service, `zhttpreq/…` backends) go
//! through worker 0, which has the ports.
//! A client that missed items gets them from the ring or from its origin, a few clients at a time (`reliable.rs`). Items that
//! wait for their predecessor are noted in the ring as well, so that the next worker 0 has them (`channels/notes.rs` of the
//! engine, which also broadcasts to all workers). In a cluster (`posts.rs`) worker 0 gives items to the log in their order, reads
//! along what other edges publish, and answers publishers when the log has their items. Deliveries are paced only where `rate.rs` is configured: then every client
//! takes items one by one.

#![forbid(unsafe_code)]

mod client;
pub mod control;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod prepared;
mod publish;
mod pushpin;
pub mod routes;
pub mod server;
pub mod settings;
mod timers;
pub mod upstream;

use fermata_engine::numbered;

#[cfg(test)]
mod ids {
    //! Requests and wires of tests.

    use fermata_engine::{RequestId, WireId};

    pub(crate) const fn request(number: u64) -> RequestId {
        RequestId::from_raw(number).expect("it is not zero")
    }

    pub(crate) const fn wire(number: u64) -> WireId {
        WireId::from_raw(number).expect("it is not zero")
    }
}
