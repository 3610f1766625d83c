//! Requests and responses: routing, bodies, files, and client properties.

pub(crate) mod body;
pub(crate) mod deferred;
pub(crate) mod dispatch;
pub(crate) mod exchange;
pub mod files;
pub(crate) mod forwarded;
mod head;
mod hosts;
pub(crate) mod protocol;
mod put_off;
pub(crate) mod request;
pub(crate) mod respond;
pub mod router;
pub(crate) mod starts;

use std::collections::HashMap;
use std::sync::Arc;

use fermata_config::Settings;
use fermata_proto::response::Repeated;
use fermata_proto::{date, http1};

use crate::admin::trace::Tracing;
use crate::id::RequestId;
use crate::net::index::ConnectionIndex;
use body::{Spools, Uploads};
use deferred::DeferredRequests;
use files::{Compressors, Roots};
use request::Request;
use respond::reason::Reason;
use respond::streams::Streams;
use router::Router;
use starts::{Queued, Starts};

/// A worker's HTTP state, besides the state of each connection.
pub struct Http {
    pub(crate) router: Arc<Router>,
    /// The application forwards requests and responses unchanged (GRIP edge): the engine does not
    /// parse forms, reject unknown methods or compress responses.
    pub(crate) passes_on: bool,
    pub(crate) limits: http1::Limits,
    /// Allowed hosts; `None` = every host.
    pub(crate) hosts: Option<hosts::AllowedHosts>,
    /// Requests need the checks of [`Self::examine`].
    pub(crate) examines: bool,
    /// The current request.
    pub(crate) request: Request,
    /// Records of requests in progress, if tracing is enabled.
    pub(crate) trace: Tracing,
    /// Data of requests whose handlers wait.
    pub(crate) deferred: DeferredRequests,
    /// Requests that wait for their handlers to start.
    pub(crate) starts: Starts,
    /// HTTP/2 requests, by stream, that wait until their clients have read earlier responses.
    pub(crate) held_back: HashMap<ConnectionIndex, Queued>,
    /// Cache of the previous request's field lines.
    pub(crate) repeats: http1::Repeats,
    /// Cache of the start of the previous response.
    pub(crate) repeated: Repeated,
    /// Custom reason phrase of the next response, if any.
    pub(crate) reason: Option<Reason>,
    pub(crate) serial: u32,
    /// The request whose head and body are still readable.
    pub(crate) lent: Option<RequestId>,
    /// The request whose handler is about to publish, if the embedder has set it. Inner `None`: the
    /// publisher is not a handler.
    pub(crate) publisher: Option<Option<RequestId>>,
    /// Stored bodies of open requests.
    pub(crate) uploads: Uploads,
    /// Storage of temporary files.
    pub(crate) spools: Spools,
    pub(crate) streams: Streams,
    /// Directories of static files.
    pub(crate) roots: Roots,
    pub(crate) compressors: Compressors,
    /// Response compression is enabled.
    pub(crate) compresses: bool,
    /// Reused buffer for a compressed response.
    pub(crate) packed: Vec<u8>,
    /// Value of `Date` in this turn.
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
            hosts: hosts::AllowedHosts::read(&settings.allowed_hosts),
            examines: !settings.trusted_proxies.is_empty() || !settings.allowed_hosts.is_empty(),
            request: Request::new(),
            trace,
            deferred: DeferredRequests::default(),
            starts: Starts::new(),
            held_back: HashMap::new(),
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

    /// Sets the time for responses.
    pub(crate) fn set_date(&mut self, unix_s: u64) {
        if unix_s != self.date_unix_s {
            self.date_unix_s = unix_s;
            self.date = date::imf_fixdate(unix_s);
        }
    }
}
