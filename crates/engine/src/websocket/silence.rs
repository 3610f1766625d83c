//! What happens when nothing is heard of a socket, as its route says.

use fermata_config::Settings;

use super::{Route, Socket};
use crate::channels::pace::Place;

/// How long the client of a socket may be silent. 0 = for ever.
#[derive(Clone, Copy)]
pub(crate) struct Silence {
    ping_interval_ms: u64,
    pub pong_timeout_ms: u64,
    pub pong_timeout_close: Option<(u16, &'static str)>,
    idle_timeout_ms: u64,
}

impl Silence {
    /// Of each route, by number.
    pub fn of_routes(settings: &Settings, routes: &[Route]) -> Vec<Silence> {
        let of = |route: &Route| Silence {
            ping_interval_ms: route
                .ping_interval_ms
                .unwrap_or(settings.websocket_ping_interval_ms),
            pong_timeout_ms: route
                .pong_timeout_ms
                .unwrap_or(settings.websocket_pong_timeout_ms),
            pong_timeout_close: route.pong_timeout_close,
            idle_timeout_ms: route
                .idle_timeout_ms
                .unwrap_or(settings.websocket_idle_timeout_ms),
        };
        routes.iter().map(of).collect()
    }

    /// When something is due for an open socket, the connection of number `index` in the worker of `slot`; `u64::MAX` =
    /// nothing.
    pub fn due_ms(&self, socket: &Socket, index: u32, slot: u16, now_ms: u64) -> u64 {
        let heartbeat_ms = match (self.ping_interval_ms, self.pong_timeout_ms) {
            (0, _) => u64::MAX,
            (_, pong_timeout_ms) if socket.awaits_pong() && pong_timeout_ms > 0 => {
                now_ms + pong_timeout_ms
            }
            (ping_interval_ms, _) => {
                let interval_ms = u32::try_from(ping_interval_ms).unwrap_or(u32::MAX);
                Place::of(index, slot, interval_ms).ping_ms(now_ms)
            }
        };
        heartbeat_ms.min(self.idle_due_ms(socket))
    }

    /// When a socket has been without a message for too long. Messages are dated to the second, which must not make it
    /// earlier.
    pub fn idle_due_ms(&self, socket: &Socket) -> u64 {
        match self.idle_timeout_ms {
            0 => u64::MAX,
            idle_timeout_ms => (u64::from(socket.message_s) + 1) * 1000 + idle_timeout_ms,
        }
    }
}
