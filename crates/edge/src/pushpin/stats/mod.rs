//! State of the stats socket.

pub(crate) mod feed;
pub(crate) mod routes;

use std::path::PathBuf;

use fermata_edge_pushpin::stats::channel_counts::ChannelCounts;
use fermata_edge_pushpin::stats::clients::{Clients, Own};
use fermata_edge_pushpin::stats::published::Published;
use fermata_grip::packet::Notation;

use crate::client::journal::Journal;
use crate::error::StartError;
use crate::pushpin::rendezvous::{self, Rendezvous};
use crate::pushpin::stats::feed::{Feed, Feeders};
use crate::pushpin::stats::routes::RouteReports;
use crate::routes::figures::Counts;
use crate::settings::Settings;

/// Opens the socket at which workers report to the worker with the stats socket, if there are
/// several workers.
pub(crate) fn bind(settings: &Settings) -> Result<Option<Rendezvous>, StartError> {
    if !Stats::are_wanted(settings) || settings.workers < 2 {
        return Ok(None);
    }
    rendezvous::bind("zmq_stats", "stats", settings).map(Some)
}

/// A worker's state for the socket.
pub(crate) struct Stats {
    pub(crate) clients: Clients,
    pub(crate) role: Role,
    pub(crate) connection_ttl_ms: u64,
}

/// Role of a worker.
pub(crate) enum Role {
    /// The worker with the socket.
    StatsPublisher(Box<StatsPublisher>),
    /// A worker that reports to the worker with the socket.
    Reporter(Box<Feed>),
}

/// State of the worker with the socket.
pub(crate) struct StatsPublisher {
    pub(crate) feeders: Feeders,
    pub(crate) channel_counts: ChannelCounts,
    pub(crate) from: Vec<u8>,
    pub(crate) notation: Notation,
    pub(crate) subscription_ttl_ms: u64,
    pub(crate) report_ms: u64,
    /// Times of the next and of the last report.
    pub(crate) due_ms: u64,
    pub(crate) since_ms: u64,
    /// Counters at the last report.
    pub(crate) last: [u64; 4],
    pub(crate) connections_max: u64,
    pub(crate) published: Published,
    /// Bytes per block of content; 0 disables counting of blocks.
    pub(crate) block_bytes: u64,
    pub(crate) last_counts: Counts,
    pub(crate) routes: RouteReports,
}

impl Stats {
    /// Returns true if the socket is configured or the log needs the number of an item's receivers.
    pub(crate) fn are_wanted(settings: &Settings) -> bool {
        !settings.zmq_stats.is_empty() || Journal::is_on(settings)
    }

    /// Creates a worker's state. Returns `None` if the configuration needs no stats.
    pub fn new(settings: &Settings, worker: u16, rendezvous: Option<PathBuf>) -> Option<Box<Self>> {
        if !Self::are_wanted(settings) {
            return None;
        }
        let connection_ttl_ms = settings.stats_connection_ttl_ms;
        let subscription_ttl_ms = settings.stats_subscription_ttl_ms;
        let role = match (worker, rendezvous) {
            (1.., Some(path)) => Role::Reporter(Box::new(Feed::new(path))),
            _ => Role::StatsPublisher(Box::new(StatsPublisher {
                feeders: Feeders::default(),
                // Sent twice per time to live, so that one packet may be lost.
                channel_counts: ChannelCounts::new(
                    subscription_ttl_ms / 2,
                    settings.subscription_linger_ms,
                ),
                from: format!("fermata-edge_{}", std::process::id()).into_bytes(),
                notation: match settings.stats_format.as_str() {
                    "json" => Notation::Json,
                    _ => Notation::Tnetstring,
                },
                subscription_ttl_ms,
                report_ms: settings.stats_report_interval_ms,
                due_ms: 0,
                since_ms: 0,
                last: [0; 4],
                connections_max: 0,
                published: Published::default(),
                block_bytes: settings.message_block_bytes,
                last_counts: Counts::default(),
                routes: RouteReports::default(),
            })),
        };
        Some(Box::new(Self {
            clients: Clients::new(
                connection_ttl_ms / 2,
                settings.stats_connection_send && !settings.zmq_stats.is_empty(),
                Own {
                    worker,
                    process: std::process::id(),
                },
            ),
            role,
            connection_ttl_ms,
        }))
    }
}

impl Stats {
    /// Returns true if this worker has a connection with that id.
    pub fn has_connection(&self, id: &[u8]) -> bool {
        self.clients.find(id).is_some()
    }

    /// Returns true if this worker has a WebSocket with that id.
    pub fn has_websocket(&self, id: &[u8]) -> bool {
        self.clients.find(id) == Some(true)
    }
}
