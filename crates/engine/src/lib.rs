//! The server: joins `proto` (bytes to requests), `hub` (channels) and `io` (the kernel).
//!
//! [`Server`] collects settings and routes, [`Server::start`] forks workers, and each [`Worker`] is
//! pulled for events by its embedder. No Zend and no command line here.
//!
//! # Inside
//!
//! It is pulled by its embedder and knows no Zend and no command line.
//! `Worker` (`worker/`) is its parts and the turn: `Net` (`net/`) has connections, their deadlines, the input,
//! buffers and counters, the log, the embedder's wires, and knows whether new requests are taken;
//! `Http` (`http/`) the router and the request at hand; `Channels` (`channels/`) the ring and this worker's subscribers;
//! `Sockets` (`websocket/`) routes and events of WebSockets; `Waiting` (`embed/`) what the embedder waits for;
//! `Blocking`, `Tracing` and `Reporter` (`admin/`) what the operator sees.
//! What an embedder asks of one part alone is a method of that part, reached as `worker.net` (clock, log, figures, wires),
//! `worker.waiting`, `worker.http`, `worker.channels` and so on; what joins parts is asked of the worker, or is handed them
//! (`FileJobs`, `embed/file_jobs.rs`).
//! A `Connection` (`net/connection.rs`) is a socket: its bytes, its deadline, its end. An `Exchange` (`http/exchange.rs`) is
//! one request and what answers it, with a `Stage` that holds what only that stage has: the body that arrives, the hold, the
//! WebSocket. HTTP/1 has one exchange per connection at a time; `Connections` hands out both, by a `ConnectionIndex` and an
//! `ExchangeIndex`, and where the one is made of the other is where that is assumed. How an answer's head, pieces and end lie
//! on the connection is up to `Protocol` (`http/protocol.rs`).
//! A part is handed what it needs and knows no `Worker`. A method belongs to the part whose state it changes, and is given the
//! others that it needs: an answer is `Http`'s and gets `Net`, a WebSocket's close is `Sockets`' and gets `Net` and `Channels`.
//! What channels bring may have to leave by any way there is, so what they do with it gets `Clients` (`channels/clients.rs`),
//! which borrows the other four for a call. `Worker` has methods in `worker/` (who is called in which order), `start.rs`,
//! `drain.rs` and `embed/`, where each hands a call of the embedder's to a part; `scripts/modules.py` holds the engine to
//! that. A part that closes a connection or sends all that it had tells nobody: `Net` lists it, and `Channels::after_output`
//! tells the others, behind each call of the turn's that can have done so.
//! `admin/trace/` remembers requests in progress for the access log and the histogram of latencies; a worker has one only
//! when somebody wants either, or spans. Lines are collected and written at most ten times a second, and left out and
//! counted rather than waited for. Spans go from workers over a socket pair to the exporter (`admin/otlp/`,
//! `master/exporter_process.rs`), a process that posts them to a collector and is there only when one is set.
//! Handlers that hold the loop are noticed by the master from two words in shared memory, and their place is read out of
//! the worker's memory (`master/blocking.rs`, `frames.rs`): no signal, no thread.
//! Logging never blocks (`log.rs`, `io/log_file.rs`): a line that standard error does not take at once is left out and
//! counted.
//! A worker that could run a handler is replaced at once when it ends or retires, one that could not after a pause that
//! grows (`master/spawn.rs`); one that retires gives its idle connections to others or leaves them in its inbox for its
//! replacement (`net/balance.rs`).
//!
//! `embed/wires.rs` has sockets of the embedder in the loop: connections it opens (also encrypted), listeners of its own,
//! and listeners whose HTTP the engine parses for it; their tokens have an index no connection has, so nobody else pays for
//! them. `embed/relay.rs` holds clients for an embedder that publishes in formats of its own, and hands it records one
//! client at a time where it wants to decide. The extension uses neither.
//!
//! `http/respond/outgoing.rs` and `stream.rs` are where a body comes from while it leaves: a file (by `sendfile` where the
//! driver can), parts of one, or a stream that the program is asked for piece by piece when the kernel has taken the last;
//! `http/files/` opens below a root, weighs conditions and ranges (`proto`'s `conditions`, `range`, `negotiate`) and keeps
//! what it has compressed.
//!
//! `http/body/` is where a body goes while it arrives: memory, or above `body_memory_bytes_max` a temporary file; forms
//! with files are taken apart by `proto`'s `multipart`. What is outside of memory has a number and lives until the
//! program's `Request` is gone; names of temporary files begin with a number of the server's own, so that several may share
//! a directory.
//! A route may get its requests before their bodies (`http/body/early.rs`): nothing is read from such a connection but what
//! the handler asks for.
//!
//! `websocket/` is an exchange from its 101 on: `Socket` is 16 bytes inside `Exchange`, and what few sockets need at a
//! time is in its `Busy` box.
//! What a socket missed of a channel comes in pieces (`websocket/resume.rs`); only then is it subscribed.
//! A message that lies whole in the worker's input buffer is unmasked there and lent to the program, and frames are written
//! straight into the connection's output: pipelined messages, up to 128 in a row, cost one read and one write.
//! Events of a socket come in order, open, messages, close: `Events` keeps what comes up anywhere in the loop, and it is
//! handed out before anything else is parsed.
//! Sockets in channels are subscriptions like held clients, in formats of their own; a record that leaves out its sender
//! names it (`Subscriber`), and only that cursor skips the frame.
//! A message for a socket of another worker goes through the ring, on a channel that only that worker reads.
//!
//! With a cluster (`channels/cluster`) what workers publish goes into an outbox, from which the bridge process
//! (`master/bridge_process.rs`) takes it to a log that machines share; that process appends what the log says to the ring.
//!
//! A test of a program has a worker in its own process (`in_process.rs`): no master, no listener, and a clock that stands still.
//! It is the same worker over the same driver; `Worker::next_event_within` comes back where `next_event` would sleep.
//!
//! # Decisions and their price
//!
//! **One process per core, `SO_REUSEPORT` each.** Nothing is handed over on the request path, and a crash has one worker's
//! size. Price: memory of PHP code is paid per worker (shared after fork until written), and the kernel's hash spreads few
//! clients unevenly, which the next decision mends.
//!
//! **A connection that stays moves once.** When its first answer has gone out and another worker has fewer connections that
//! stay, an idle connection is handed to that one by `SCM_RIGHTS` (`net/balance.rs`): a hundred clients are shared evenly
//! by eight workers. Connections per request pay nothing. Price: held clients, WebSockets and encrypted connections have
//! state and stay where the hash has put them.
//!
//! **The master keeps all listeners open.** Connections that wait in a dead worker's queue are served by its replacement.
//! Price: they wait for it, up to the back-off.
//!
//! **Counting in private, copying in turns.** A worker adds to plain fields (`Counts`) and copies them to its own lines of
//! a shared mapping at most every 100 ms; the master folds an ended worker's counts into its seat. Price: figures are up to
//! 100 ms old, a killed worker loses as much, and one more wake-up follows each burst.
//!
//! **A crowd is served once for many messages.** After a fan-out to very many the ring is left alone for some milliseconds
//! (`channels/gather.rs`; the edge does so, PHP servers with `gather_ms_max`), and each client gets what came meanwhile in
//! one send. Price: of messages that come back to back, each but the first is that much later.
//!
//! **Timers without cancelling.** A busy connection touches no timer. Price: an entry may fire for nothing and is armed
//! again.
//!
//! **A place in the interval for every keep-alive.** Clients that came at once do not get their comments at once: `Place`
//! (`channels/pace.rs`) spreads them over the interval, on a grid of 100 ms so that a worker wakes for a batch. Price: the
//! first comment of a client comes sooner than its interval.

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
pub use channels::presence::MembersError;
pub use channels::publish::{
    EventId, Member, Message, Past, PublishFailure, check_channel, check_message,
};
pub use channels::stream_format::StreamFormat;
pub use channels::views::{Past as ViewPast, Since, ViewHold};
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
pub use http::respond::streams::{StreamError, Wanted};
pub use http::{files, router};
pub use id::{PublishId, RequestId, SocketId, WireId};
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
