//! The server: joins `proto` (bytes to requests), `hub` (channels) and `io` (the kernel).
//!
//! [`Server`] collects settings and routes, [`Server::start`] forks workers, and each [`Worker`] is
//! pulled for events by its embedder. No Zend and no command line here.

#![forbid(unsafe_code)]

mod admin;
mod channels;
mod drain;
mod embed;
mod http;
mod log;
mod master;
mod net;
mod server;
#[cfg(test)]
mod tests;
pub mod websocket;
mod worker;

pub use admin::publisher::{PublisherError, publish};
pub use admin::stats;
pub use admin::stats::MoreMetrics;
pub use channels::encode::Encoding;
pub use channels::follow::{Archive, Followed, Follower, Published};
pub use channels::hold::{Hold, HoldError};
pub use channels::memory::HubError;
pub use channels::opening::{Last, Opening};
pub use channels::presence::MembersError;
pub use channels::publish::{
    EventId, Member, Message, Past, PublishFailure, check_channel, check_message,
};
pub use embed::event::{Event, Left};
pub use embed::file_jobs::FileJobError;
pub use embed::relayed::{Items, KeepAlive, Relayed, ResponseHead};
pub use embed::tally::{JobEnd, TaskKind};
pub use embed::wires::WireEvent;
pub use fermata_io::probe::features;
pub use http::body::{ARRIVING, Read, ReadError, Temporary, Upload, UploadedFile};
pub use http::files::is_program;
pub use http::request::{Request, RequestView, UNROUTED_FILE};
pub use http::respond::Gone;
pub use http::respond::file::{FileAnswer, FilePlace, StaticFound};
pub use http::respond::pushed::PushedEvent;
pub use http::respond::streams::{StreamError, Wanted};
pub use http::{files, router};
pub use log::{Detail, Logger};
pub use master::{Companion, EXIT_RETIRED, Frames, StartError, Started, control_path};
pub use net::listeners::bind_unix;
pub use net::tls::{ServerTls, TlsError};
pub use server::Server;
pub use worker::{Parts, Worker};
