//! The edge's state about its targets.

use std::rc::Rc;

use fermata_fastcgi::spool::Ledger;
use fermata_io::random::Masks;

use super::authority::Authority;
use super::connections::Connections;
use super::exchange::Sharing;
use super::exchanges::ExchangeKeys;
use super::folders::Folders;
use super::http2::{Carriers, PingTimes};
use super::signatures::Signatures;
use super::targets::Targets;
use crate::prepared::Prepared;

/// Exchanges with targets by key, and the connections that carry the exchanges.
pub(crate) struct Upstream {
    pub exchange_keys: ExchangeKeys,
    pub connections: Connections,
    /// HTTP/2 connections.
    pub carriers: Carriers,
    /// Health of the targets.
    pub targets: Targets,
    pub folders: Folders,
    pub sharing: Sharing,
    pub signatures: Signatures,
    /// Masking keys of frames to WebSockets of targets.
    pub masks: Masks,
    /// Responses of FastCGI applications that clients have not received.
    pub spools: Rc<Ledger>,
}

impl Upstream {
    pub fn new(prepared: &Prepared, spools: Rc<Ledger>) -> Self {
        let settings = &prepared.settings;
        let times = PingTimes {
            interval_ms: settings.origin_ping_interval_ms,
            timeout_ms: settings.origin_ping_timeout_ms,
        };
        Self {
            exchange_keys: ExchangeKeys::default(),
            connections: Connections::new(Authority::new(settings, &prepared.directory)),
            carriers: Carriers::new(settings.origin_streams_max, times),
            targets: prepared.targets,
            folders: Folders::default(),
            sharing: Sharing::new(settings.share_all),
            signatures: Signatures::new(prepared),
            masks: Masks::default(),
            spools,
        }
    }
}
