//! The server engine: joins `proto` (HTTP parsing), `hub` (channels) and `io` (kernel interfaces).
//!
//! [`Server`] collects settings and routes, [`Server::start`] forks workers, and the embedder pulls
//! events from each [`Worker`]. The engine contains no Zend and no command-line code.
//!
//! # Structure
//!
//! `Worker` (`worker/`) consists of parts and runs the turn of the event loop:
//!
//! - `Net` (`net/`): connections, deadlines, input, buffers, counters, the log and the embedder's
//!   wires. It also records whether the worker still accepts requests.
//! - `Http` (`http/`): the router and the current request.
//! - `Channels` (`channels/`): the ring and this worker's subscribers.
//! - `Sockets` (`websocket/`): routes and events of WebSockets.
//! - `Waiting` (`embed/`): handlers that wait.
//! - `Blocking`, `Tracing` and `Reporter` (`admin/`): monitoring for the operator.
//!
//! A call that concerns one part is a method of that part: `worker.net` (clock, log, counters,
//! wires), `worker.waiting`, `worker.http`, `worker.channels` and so on. A call that concerns
//! several parts is a method of `Worker`, or receives the parts as arguments (`FileJobs`,
//! `embed/file_jobs.rs`).
//!
//! A `Connection` (`net/connection.rs`) is a socket: its bytes, its deadline and its close. An
//! `Exchange` (`http/exchange.rs`) is one request and its response. Its `Stage` holds the data of
//! the current stage only: the arriving body, the hold or the WebSocket. An HTTP/1 connection has
//! one exchange at a time. `Connections` stores both, by `ConnectionIndex` and `ExchangeIndex`;
//! only the conversion between the two indexes relies on that. `Protocol` (`http/protocol.rs`)
//! decides how head, body pieces and end of a response are written to the connection.
//!
//! A part never refers to `Worker`. A method belongs to the part whose state it changes and
//! receives the other parts it needs: a response is `Http`'s and gets `Net`; a WebSocket close is
//! `Sockets`' and gets `Net` and `Channels`. A record of a channel may reach clients by any
//! transport. Code for that gets `Clients` (`channels/clients.rs`), which borrows the other four
//! parts for one call. `Worker` has methods in `worker/` (the order of calls), `start.rs`,
//! `drain.rs` and `embed/`; each passes a call of the embedder to one part. `scripts/modules.py`
//! enforces this. A part that closes a connection or empties its output notifies no other part.
//! `Net` lists the connection, and `Channels::after_output` notifies the others after each call of
//! the turn that can do so.
//!
//! `admin/trace/` records requests in progress for the access log, the latency histogram and spans;
//! a worker has it only if one of them is enabled. Lines are collected and written at most ten
//! times a second. Lines that cannot be written are dropped and counted; logging never blocks.
//! Spans go from workers over a socket pair to the exporter (`admin/otlp/`,
//! `master/exporter_process.rs`). The exporter is a process that posts them to a collector and runs
//! only if a collector is set. The master detects handlers that block the loop from two words in
//! shared memory, and reads their position from the worker's memory (`master/blocking.rs`,
//! `frames.rs`). This needs no signal and no thread.
//!
//! The server's log never blocks either (`log.rs`, `io/log_file.rs`): a line that standard error
//! does not accept immediately is dropped and counted.
//!
//! A worker that was able to run a handler is replaced immediately when it exits or retires; any
//! other after a growing delay (`master/spawn.rs`). A retiring worker hands its idle connections to
//! other workers, or leaves them in its inbox for its replacement (`net/balance.rs`).
//!
//! `embed/wires.rs` puts the embedder's sockets into the loop: connections it opens (also TLS), its
//! own listeners, and listeners whose HTTP the engine parses. Their tokens use an index that no
//! connection has, so other connections have no overhead. `embed/relay.rs` holds clients for an
//! embedder that publishes in its own formats. If the embedder requests it, `relay.rs` passes each
//! record to the embedder once per client. The PHP extension uses neither.
//!
//! `http/respond/outgoing.rs` and `stream.rs` are the sources of a response body: a file (by
//! `sendfile` where the driver supports it), parts of a file, or a stream. A stream requests its
//! next piece from the application when the kernel has accepted the last one. `http/files/` opens
//! files below a root, evaluates conditions and ranges (`proto`'s `conditions`, `range`,
//! `negotiate`) and caches compressed files.
//!
//! `http/body/` stores a request body while it arrives: in memory, or above `body_memory_bytes_max`
//! in a temporary file. `proto`'s `multipart` parses forms with files. A body outside memory has a
//! number and lives until the application's `Request` is released. Names of temporary files start
//! with a number of the server, so several servers may share a directory. A route may receive its
//! requests before their bodies (`http/body/early.rs`). The engine then reads from the connection
//! only when the handler reads.
//!
//! `websocket/` handles an exchange after its 101 response. `Socket` takes 16 bytes inside
//! `Exchange`; rarely needed state is in its `Busy` box. Missed records are sent in pieces
//! (`websocket/resume.rs`) before the socket is subscribed. A message that is complete in the
//! worker's input buffer is unmasked in place and lent to the application. Frames are written
//! directly into the connection's output. So up to 128 pipelined messages cost one read and one
//! write. Events of a socket are ordered: open, messages, close. `Events` queues them, and they are
//! delivered before any more input is parsed. A socket in a channel is a subscription like a held
//! client, with its own formats. A record that excludes its sender names it (`Subscriber`), and
//! only that cursor skips the frame. A message for a socket of another worker passes through the
//! ring, on a channel that only that worker reads.
//!
//! With a cluster (`channels/cluster`) workers publish into an outbox. The bridge process
//! (`master/bridge_process.rs`) moves it to a log shared by all machines, and appends records of
//! that log to the ring.
//!
//! A test of an application runs a worker in its own process (`in_process.rs`), with no master, no
//! listener and a manual clock. Worker and driver are those of production;
//! `Worker::next_event_within` returns where `next_event` would sleep.
//!
//! # Decisions and their price
//!
//! **One process per core, `SO_REUSEPORT` each.** The request path has no handover, and a crash
//! affects one worker. Price: each worker pays for PHP code in memory (shared after fork until
//! written), and the kernel's hash distributes few clients unevenly. The next decision corrects
//! that.
//!
//! **A keep-alive connection moves at most once.** After its first response, an idle connection is
//! passed by `SCM_RIGHTS` to a worker with fewer such connections (`net/balance.rs`). So a hundred
//! clients are spread evenly over eight workers. Connections with a single request cost nothing
//! extra. Price: held clients, WebSockets and TLS connections have state and stay where the hash
//! put them.
//!
//! **The master keeps all listeners open.** The replacement of a crashed worker serves the
//! connections in its queue. Price: they wait for it, up to the back-off.
//!
//! **Private counters, copied periodically.** A worker adds to plain fields (`Counts`) and copies
//! them to its own lines of a shared mapping at most every 100 ms. The master adds the counts of an
//! exited worker to its slot. Price: counters are up to 100 ms old, a killed worker loses as much,
//! and each burst causes one more wake-up.
//!
//! **One pass over a large crowd serves many messages.** After a fan-out to very many clients the
//! worker does not read the ring for some milliseconds (`channels/gather.rs`; always on the edge,
//! on PHP servers with `gather_ms_max`). Each client then receives the new messages in one send.
//! Price: of back-to-back messages, all but the first are delayed that long.
//!
//! **Timers without cancelling.** A busy connection touches no timer. Price: an entry may fire
//! needlessly and is armed again.
//!
//! **Keep-alive comments are spread over the interval.** Clients that connect together receive
//! their comments at different times: `Place` (`channels/pace.rs`) assigns slots on a grid of 100
//! ms, so that a worker wakes once per batch. Price: a client's first comment comes before its
//! interval is over.

#![forbid(unsafe_code)]

mod admin;
mod channels;
mod drain;
mod embed;
mod http;
mod id;
mod in_process;
mod log;
mod master;
mod missed;
mod misuse;
mod net;
pub mod numbered;
mod server;
mod start;
#[cfg(test)]
mod tests;
pub mod websocket;
mod worker;

pub use admin::otlp::{OpenPost, OtlpError, Post, PostError, Posted};
pub use admin::publisher::{PublisherError, publish};
pub use admin::stats;
pub use admin::stats::{MoreMetrics, Tables};
pub use admin::trace::{SpanIds, Upstream};
pub use channels::Channels;
pub use channels::busy::{Busy, RingWait};
pub use channels::cluster::{
    Ack, ClusterError, ClusterFigures, History, HistoryError, HistoryReader, Publisher, Publishing,
};
pub use channels::encode::{ChannelEvent, Encoding, Select, WriteMessage};
pub use channels::follow::{Archive, Followed, Follower, Published, What};
pub use channels::hold::{Hold, HoldError};
pub use channels::memory::HubError;
pub use channels::opening::{Last, Opening};
pub use channels::presence::{MembersError, is_info_change};
pub use channels::publish::{
    EventId, Member, Message, Past, PublishFailure, check_channel, check_message,
};
pub use channels::readers::READERS_MAX;
pub use channels::resume::ReadNext;
pub use channels::since::Since;
pub use channels::stream_format::StreamFormat;
pub use channels::views::{Past as ViewPast, ViewHold};
pub use embed::event::{Event, Left};
pub use embed::file_jobs::{FileJobError, FileJobs};
pub use embed::program_figures::{JobEnd, TaskKind};
pub use embed::relayed::{Items, KeepAlive, Relayed, ResponseHead};
pub use embed::rendezvous::{Rendezvous, RendezvousError, SocketFile};
pub use embed::upstream::UpstreamSpan;
pub use embed::waiting::Waiting;
pub use embed::wires::WireEvent;
pub use fermata_config::{
    SettingError, check_option, environment, mask_secrets, unknown_variables,
};
pub use fermata_io::probe::features;
pub use fermata_proto::response::reserved_name;
pub use http::Http;
pub use http::body::{
    ARRIVING, BodyLimits, BodyPace, Read, ReadError, Temporary, Unchosen, Upload, UploadedFile,
};
pub use http::files::is_program;
pub use http::request::{Request, RequestView, UNROUTED_FILE};
pub use http::respond::Gone;
pub use http::respond::file::{FileAnswer, FilePlace, StaticFound};
pub use http::respond::pushed::PushedEvent;
pub use http::respond::stream::unread_bytes;
pub use http::respond::streams::{StreamError, Wanted};
pub use http::{files, router};
pub use id::{PublishId, ReaderId, RequestId, SocketId, WireId};
pub use in_process::Memory;
pub use log::{Detail, Logger};
pub use master::{
    Companion, EXIT_RETIRED, Frames, IdentityError, StartError, Started, control_path,
};
pub use missed::missed;
pub use misuse::{Misuse, NameProblem};
pub use net::Net;
pub use net::listen_error::ListenError;
pub use net::listeners::bind_unix;
pub use net::tls::{ServerTls, TlsError};
pub use server::Server;
pub use start::Parts;
pub use worker::Worker;
