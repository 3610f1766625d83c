//! Requests and their answers: routing, bodies, files, and what a request says of its client.

pub(crate) mod body;
pub(crate) mod deferred;
pub(crate) mod dispatch;
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

use crate::admin::trace::Tracing;
use crate::id::RequestId;
use body::{Spools, Uploads};
use deferred::DeferredRequests;
use files::{Compressors, Roots};
use request::Request;
use respond::reason::Reason;
use respond::streams::Streams;
use router::Router;
use starts::Starts;

/// What a worker keeps for requests and answers, besides what each connection has of its own.
pub struct Http {
    pub(crate) router: Arc<Router>,
    /// The program passes requests and answers on as they are: their bodies are not taken apart, methods nobody knows are
    /// its own business, and so is what an answer is sent as.
    pub(crate) passes_on: bool,
    pub(crate) limits: http1::Limits,
    /// The request that is with the handler.
    pub(crate) request: Request,
    /// What is remembered of requests in progress, when somebody wants it.
    pub(crate) trace: Tracing,
    /// What is remembered of requests whose handlers wait.
    pub(crate) deferred: DeferredRequests,
    /// Those that wait for being begun.
    pub(crate) starts: Starts,
    /// The header lines of the request before.
    pub(crate) repeats: http1::Repeats,
    /// How the answer before began.
    pub(crate) repeated: Repeated,
    /// The reason phrase of the answer that comes next, where it has one of its own.
    pub(crate) reason: Option<Reason>,
    pub(crate) serial: u32,
    /// The request whose head and body can still be read.
    pub(crate) lent: Option<RequestId>,
    /// The request whose handler is about to publish, or none, where the embedder has said so.
    pub(crate) publisher: Option<Option<RequestId>>,
    /// What bodies of requests that are not over have left outside of memory.
    pub(crate) uploads: Uploads,
    /// Where those lie.
    pub(crate) spools: Spools,
    pub(crate) streams: Streams,
    /// The directories of static files.
    pub(crate) roots: Roots,
    pub(crate) compressors: Compressors,
    /// Whether answers are compressed at all.
    pub(crate) compresses: bool,
    /// What one answer was compressed to, reused.
    pub(crate) packed: Vec<u8>,
    /// The time of this turn as answers tell it.
    pub(crate) date: [u8; 29],
    pub(crate) date_unix_s: u64,
}

impl Http {
    pub(crate) fn new(
        settings: &Settings,
        router: Arc<Router>,
        spools: Spools,
        trace: Tracing,
    ) -> Http {
        Http {
            router,
            passes_on: false,
            limits: http1::Limits {
                head_bytes_max: settings.header_bytes_max,
                target_bytes_max: settings.target_bytes_max,
                headers_count_max: settings.headers_count_max,
            },
            request: Request::new(),
            trace,
            deferred: DeferredRequests::default(),
            starts: Starts::new(),
            repeats: http1::Repeats::default(),
            repeated: Repeated::default(),
            reason: None,
            serial: 0,
            lent: None,
            publisher: None,
            uploads: Uploads::default(),
            spools,
            streams: Streams::default(),
            roots: Roots::default(),
            compressors: Compressors::new(settings.compression_cache_bytes_max),
            compresses: settings.compression == "on",
            packed: Vec::new(),
            date: date::imf_fixdate(0),
            date_unix_s: 0,
        }
    }

    /// Has answers tell this time.
    pub(crate) fn set_date(&mut self, unix_s: u64) {
        if unix_s != self.date_unix_s {
            self.date_unix_s = unix_s;
            self.date = date::imf_fixdate(unix_s);
        }
    }
}
