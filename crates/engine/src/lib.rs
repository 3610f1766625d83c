//! The server: joins `proto` (bytes to requests), `hub` (channels) and `io` (the kernel).
//!
//! [`Server`] collects settings and routes, [`Server::start`] forks workers, and each [`Worker`] is
//! pulled for events by its embedder. No Zend and no command line here.

#![forbid(unsafe_code)]

mod accept;
mod answer;
mod answer_file;
mod answer_tree;
mod backend;
mod balance;
mod blocking;
mod body;
mod connection;
mod control;
mod drain;
mod elsewhere;
mod encode;
mod errors;
mod file_jobs;
pub mod files;
mod follow;
mod forwarded;
mod gather;
mod hold;
mod hub;
mod input;
mod listeners;
mod log;
mod master;
mod metrics;
mod notes;
mod outgoing;
mod output;
mod pace;
mod preface;
mod publisher;
mod pushed;
mod relay;
mod represent;
mod request;
mod resume;
pub mod router;
mod server;
mod slab;
pub mod stats;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod timers;
mod tls;
mod trace;
mod waiting;
mod watch;
pub mod websocket;
mod wires;
mod worker;

pub use answer::Gone;
pub use answer_file::{FileAnswer, FilePlace, StaticFound};
pub use body::{ARRIVING, Read, ReadError, Temporary, Upload, UploadedFile};
pub use elsewhere::{Last, Opening};
pub use fermata_io::probe::features;
pub use file_jobs::FileJobError;
pub use files::is_program;
pub use follow::{Archive, Followed, Follower, Published};
pub use hold::{Hold, HoldError, MembersError};
pub use hub::{
    EventId, HubError, Member, Message, Past, PublishFailure, check_channel, check_message,
};
pub use log::{Detail, Logger};
pub use master::{Companion, EXIT_RETIRED, Frames, StartError, Started, control_path};
pub use metrics::MoreMetrics;
pub use publisher::{PublisherError, publish};
pub use pushed::PushedEvent;
pub use relay::{Encoding, Items, KeepAlive, Relayed, ResponseHead};
pub use request::{Request, RequestView, UNROUTED_FILE};
pub use server::Server;
pub use stream::{StreamError, Wanted};
pub use tally::{JobEnd, TaskKind};
pub use tls::{ServerTls, TlsError};
pub use waiting::Left;
pub use wires::WireEvent;
pub use worker::{Event, Parts, Worker};
