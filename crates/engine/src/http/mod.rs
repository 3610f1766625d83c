//! Requests and their answers: routing, bodies, files, and what a request says of its client.

pub(crate) mod body;
mod dispatch;
pub(crate) mod exchange;
pub mod files;
pub(crate) mod forwarded;
mod head;
pub(crate) mod protocol;
mod put_off;
pub(crate) mod request;
pub(crate) mod respond;
pub mod router;
pub(crate) mod starts;

use std::sync::Arc;

use fermata_config::Settings;
use fermata_proto::response::Repeated;
use fermata_proto::{date, http1};

use body::{Spools, Uploads};
use files::{Compressors, Roots};
use request::Request;
use respond::reason::Reason;
use respond::streams::Streams;
use router::Router;
use starts::Starts;

/// What a worker keeps for requests and answers, besides what each connection has of its own.
pub(crate) struct Http {
    pub router: Arc<Router>,
    /// The program passes requests and answers on as they are: their bodies are not taken apart, methods nobody knows are
    /// its own business, and so is what an answer is sent as.
    pub passes_on: bool,
    pub limits: http1::Limits,
    /// The request that is with the handler.
    pub request: Request,
    /// Those that wait for being begun.
    pub starts: Starts,
    /// The header lines of the request before.
    pub repeats: http1::Repeats,
    /// How the answer before began.
    pub repeated: Repeated,
    /// The reason phrase of the answer that comes next, where it has one of its own.
    pub reason: Option<Reason>,
    pub serial: u32,
    /// The request whose head and body can still be read, by its handle; 0 = none.
    pub lent: u64,
    /// The request whose handler is about to publish, where the embedder has said so; 0 = none.
    pub publisher: Option<u64>,
    /// What bodies of requests that are not over have left outside of memory.
    pub uploads: Uploads,
    /// Where those lie.
    pub spools: Spools,
    pub streams: Streams,
    /// The directories of static files.
    pub roots: Roots,
    pub compressors: Compressors,
    /// Whether answers are compressed at all.
    pub compresses: bool,
    /// What one answer was compressed to, reused.
    pub packed: Vec<u8>,
    /// The time of this turn as answers tell it.
    pub date: [u8; 29],
    pub date_unix_s: u64,
}

impl Http {
    pub fn new(settings: &Settings, router: Arc<Router>, spools: Spools) -> Http {
        Http {
            router,
            passes_on: false,
            limits: http1::Limits {
                head_bytes_max: settings.header_bytes_max,
                target_bytes_max: settings.target_bytes_max,
                headers_count_max: settings.headers_count_max,
            },
            request: Request::new(),
            starts: Starts::new(),
            repeats: http1::Repeats::default(),
            repeated: Repeated::default(),
            reason: None,
            serial: 0,
            lent: 0,
            publisher: None,
            uploads: Uploads::default(),
            spools,
            streams: Streams::default(),
            roots: Roots::default(),
            compressors: Compressors::new(settings.compression_cache_bytes_max),
            compresses: settings.compression == "on",
            packed: Vec::new(),
            date: date::imf_fixdate(0),
            date_unix_s: u64::MAX,
        }
    }

    /// Has answers tell this time.
    pub fn set_date(&mut self, unix_s: u64) {
        if unix_s != self.date_unix_s {
            self.date_unix_s = unix_s;
            self.date = date::imf_fixdate(unix_s);
        }
    }
}
