//! Settings that do not change while the edge runs.

use std::rc::Rc;

use fermata_grip::sig;

use crate::prepared::Prepared;
use crate::upstream::exchange::Limits;
use crate::upstream::forward::Rewriting;

/// Settings for requests and publishers.
pub(super) struct EdgePolicy {
    pub is_debug: bool,
    /// CORS fields are added to responses of all routes.
    pub is_cross_origin: bool,
    pub rewriting: Rewriting,
    pub limits: Limits,
    pub subscriptions_max: usize,
    /// Missed items are read from the ring, if it contains them, instead of requested from the
    /// origin.
    pub recovers_from_history: bool,
    pub header_bytes_max: usize,
    pub control_header_bytes_max: usize,
    /// WebSocket route of the engine for clients.
    pub websocket: u16,
    /// WebSocket route of the engine for SockJS sessions, which queue messages themselves.
    pub session_websocket: u16,
    /// Port for clients, reported to management queries.
    pub port: u16,
    pub upstream_key: Option<Rc<sig::Key>>,
    /// Key with which publishers have to sign.
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
            session_websocket: prepared.session_websocket,
            port: prepared.port,
            upstream_key: prepared.keys.upstream.clone(),
            control_key: prepared.keys.control.clone(),
            accepts_forwarded_proto: settings.accept_x_forwarded_protocol,
            accepts_pushpin_route: settings.accept_pushpin_route,
        }
    }
}
