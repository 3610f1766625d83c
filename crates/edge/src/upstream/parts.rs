//! What the edge keeps of its targets.

use fermata_io::random::Masks;

use super::authority::Authority;
use super::connections::Connections;
use super::folders::Folders;
use super::http2::{Carriers, PingTimes};
use super::signatures::Signatures;
use super::talk::Sharing;
use super::talks::Askers;
use super::targets::Targets;
use crate::prepared::Prepared;

/// The askers of conversations with targets, and the connections that carry these.
pub(crate) struct Upstream {
    pub askers: Askers,
    pub connections: Connections,
    /// Those of HTTP/2.
    pub carriers: Carriers,
    /// How targets fare.
    pub targets: Targets,
    pub folders: Folders,
    pub sharing: Sharing,
    pub signatures: Signatures,
    /// Of the frames for WebSockets of targets.
    pub masks: Masks,
}

impl Upstream {
    pub fn new(prepared: &Prepared) -> Self {
        let settings = &prepared.settings;
        let times = PingTimes {
            interval_ms: settings.origin_ping_interval_ms,
            timeout_ms: settings.origin_ping_timeout_ms,
        };
        Self {
            askers: Askers::default(),
            connections: Connections::new(Authority::new(settings, &prepared.directory)),
            carriers: Carriers::new(settings.origin_streams_max, times),
            targets: prepared.targets,
            folders: Folders::default(),
            sharing: Sharing::new(settings.share_all),
            signatures: Signatures::new(prepared),
            masks: Masks::default(),
        }
    }
}
