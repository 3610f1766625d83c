//! The GRIP edge: a reverse proxy for HTTP and FastCGI backends that holds clients for them.
//!
//! [`server`] runs the edge. The other modules do not depend on it: each has its own state and the operations on it.
//! [`routes`], [`settings`] and [`control`] read no files and no clocks; contents of files are arguments.
//!
//! # Inside
//!
//! **Requests.** A client's request is deferred while an `UpstreamExchange` (`upstream/exchange.rs`) uses a connection to
//! its origin, from the pool or a new one (`upstream/connections.rs`). The response is forwarded while it arrives, or
//! collected if it is an instruction (`answer.rs`). A request body is collected up to the size with which a client may be
//! held, then read as fast as its origin accepts it (`arriving.rs`). Every deferred request ends in the edge: dropping one
//! (`Worker::drop_request`) closes its connection.
//!
//! **Targets.** `upstream/balance.rs` chooses the target of a request, and the next one after a failure, from health in
//! shared memory (`upstream/health.rs`, `upstream/targets.rs`); worker 0 runs the checks. Errors are classified by cause
//! (`upstream/error.rs`), and only a target's own count against it. Exchanges that find the backlog of a Unix socket full
//! wait in one queue (`upstream/socket_queues.rs`). A few threads per worker resolve names (`upstream/resolve.rs`).
//!
//! **Holds.** A held stream without options exists only in the engine. A client with filters, ids or links, a long poll and
//! a WebSocket have a `Session`, which receives items individually (`items.rs`). A client that missed items receives them
//! from the ring or from its origin, a few clients at a time (`reliable.rs`).
//!
//! **Workers.** Worker 0 has the control port, the ZeroMQ ports and the stats socket. The others report their clients to it
//! over a Unix socket (`server/stats`), send it questions for services (`server/services`), and receive commands about
//! single connections as notices (`commands.rs`). A polling SockJS session (`server/sockjs`) is the client of a WebSocket in
//! its own worker, over a socket pair; its name determines the worker, and others forward its requests.
//!
//! **Items.** A record of the ring is an item as JSON, under the item's channel. Items that wait for their predecessor are
//! also stored in the ring, where a replacement of worker 0 finds them. In a cluster (`posts.rs`), worker 0 appends items to
//! the shared log in order, reads the items of other edges, and responds to publishers after the log's acknowledgement.
//! Deliveries are rate-limited only if configured (`rate.rs`); then all clients receive items individually.

#![forbid(unsafe_code)]

mod client;
pub mod control;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hash;
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
    //! Requests and connections for tests.

    use fermata_engine::{RequestId, WireId};

    pub(crate) const fn request(number: u64) -> RequestId {
        RequestId::from_raw(number).expect("it is not zero")
    }

    pub(crate) const fn wire(number: u64) -> WireId {
        WireId::from_raw(number).expect("it is not zero")
    }
}
