//! What the stats socket tells.

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

/// Opens the socket on which workers tell the one with the stats socket, where several have something to tell.
pub(crate) fn bind(settings: &Settings) -> Result<Option<Rendezvous>, StartError> {
    if !Stats::are_wanted(settings) || settings.workers < 2 {
        return Ok(None);
    }
    rendezvous::bind("zmq_stats", "stats", settings).map(Some)
}

/// What a worker knows for the socket.
pub(crate) struct Stats {
    pub(crate) clients: Clients,
    pub(crate) role: Role,
    pub(crate) connection_ttl_ms: u64,
}

/// Which part a worker has.
pub(crate) enum Role {
    /// It has the socket.
    Speaker(Box<Speaker>),
    /// It tells that one.
    Teller(Box<Feed>),
}

/// What the worker with the socket has.
pub(crate) struct Speaker {
    pub(crate) feeders: Feeders,
    pub(crate) channel_counts: ChannelCounts,
    pub(crate) from: Vec<u8>,
    pub(crate) notation: Notation,
    pub(crate) subscription_ttl_ms: u64,
    pub(crate) report_ms: u64,
    /// When the next report is sent, and when the last was.
    pub(crate) due_ms: u64,
    pub(crate) since_ms: u64,
    /// Counters as they were then.
    pub(crate) last: [u64; 4],
    pub(crate) connections_max: u64,
    pub(crate) published: Published,
    /// What counts as one of a content's bytes; 0: blocks are not counted.
    pub(crate) block_bytes: u64,
    pub(crate) last_counts: Counts,
    pub(crate) routes: RouteReports,
}

impl Stats {
    /// Whether anybody asks: the socket, or the log, which has how many clients an item reaches.
    pub(crate) fn are_wanted(settings: &Settings) -> bool {
        !settings.zmq_stats.is_empty() || Journal::is_on(settings)
    }

    /// What worker number `worker` needs; `None`: nobody asks.
    pub fn new(settings: &Settings, worker: u16, rendezvous: Option<PathBuf>) -> Option<Box<Self>> {
        if !Self::are_wanted(settings) {
            return None;
        }
        let connection_ttl_ms = settings.stats_connection_ttl_ms;
        let subscription_ttl_ms = settings.stats_subscription_ttl_ms;
        let role = match (worker, rendezvous) {
            (1.., Some(path)) => Role::Teller(Box::new(Feed::new(path))),
            _ => Role::Speaker(Box::new(Speaker {
                feeders: Feeders::default(),
                // Twice within its time, so that one packet may be lost.
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
    /// Whether a connection of this worker is there by that id.
    pub fn has_connection(&self, id: &[u8]) -> bool {
        self.clients.find(id).is_some()
    }

    /// The same for a WebSocket.
    pub fn has_websocket(&self, id: &[u8]) -> bool {
        self.clients.find(id) == Some(true)
    }
}
