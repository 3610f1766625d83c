//! What the settings say and nothing changes while the edge runs.

use std::rc::Rc;

use fermata_grip::sig;

use crate::prepared::Prepared;
use crate::upstream::forward::Rewriting;
use crate::upstream::talk::Limits;

/// How an edge treats requests and publishes.
pub(super) struct EdgePolicy {
    pub is_debug: bool,
    /// Responses of all routes get CORS headers.
    pub is_cross_origin: bool,
    pub rewriting: Rewriting,
    pub limits: Limits,
    pub subscriptions_max: usize,
    /// Where the ring has what a client misses, its origin is not asked.
    pub recovers_from_history: bool,
    pub header_bytes_max: usize,
    pub control_header_bytes_max: usize,
    /// What the engine knows WebSockets by.
    pub websocket: u16,
    /// The port that clients know, for programs that ask.
    pub port: u16,
    pub upstream_key: Option<Rc<sig::Key>>,
    /// What publishers have to show.
    pub control_key: Option<Rc<sig::Key>>,
    pub accepts_forwarded_proto: bool,
    pub accepts_pushpin_route: bool,
}

impl EdgePolicy {
    pub fn new(prepared: &Prepared) -> Self {
        let settings = &prepared.settings;
        Self {
            is_debug: settings.debug,
            is_cross_origin: settings.auto_cross_origin,
            rewriting: Rewriting::new(settings),
            limits: Limits {
                connect_ms: settings.origin_connect_timeout_ms,
                response_ms: settings.origin_response_timeout_ms,
                idle_ms: settings.origin_idle_timeout_ms,
            },
            subscriptions_max: settings.subscriptions_max,
            recovers_from_history: settings.recover_from_history,
            header_bytes_max: settings.header_bytes_max,
            control_header_bytes_max: settings.control_header_bytes_max,
            websocket: prepared.websocket,
            port: prepared.port,
            upstream_key: prepared.keys.upstream.clone(),
            control_key: prepared.keys.control.clone(),
            accepts_forwarded_proto: settings.accept_x_forwarded_protocol,
            accepts_pushpin_route: settings.accept_pushpin_route,
        }
    }
}
