//! Heartbeat and idle limits of sockets, by route.

use std::num::{NonZeroU32, NonZeroU64};

use fermata_config::Settings;
use fermata_io::Deadline;

use super::{Route, Socket};
use crate::channels::pace::{Place, interval_of};

/// Limits for the silence of a socket's client; `None` = unlimited.
#[derive(Clone, Copy)]
pub(crate) struct Silence {
    ping_interval_ms: Option<NonZeroU32>,
    pub pong_timeout_ms: Option<NonZeroU64>,
    pub pong_timeout_close: Option<(u16, &'static str)>,
    idle_timeout_ms: Option<NonZeroU64>,
}

impl Silence {
    /// Returns the limits of each route, by number.
    pub fn of_routes(settings: &Settings, routes: &[Route]) -> Vec<Silence> {
        let or = |own: Option<u64>, setting| NonZeroU64::new(own.unwrap_or(setting));
        let of = |route: &Route| Silence {
            ping_interval_ms: interval_of(
                route
                    .ping_interval_ms
                    .unwrap_or(settings.websocket_ping_interval_ms),
            ),
            pong_timeout_ms: or(route.pong_timeout_ms, settings.websocket_pong_timeout_ms),
            pong_timeout_close: route.pong_timeout_close,
            idle_timeout_ms: or(route.idle_timeout_ms, settings.websocket_idle_timeout_ms),
        };
        routes.iter().map(of).collect()
    }

    /// Returns the next deadline of an open socket with connection `index` in the worker of `slot`.
    pub fn deadline(&self, socket: &Socket, index: u32, slot: u16, now_ms: u64) -> Deadline {
        let heartbeat = match (self.ping_interval_ms, self.pong_timeout_ms) {
            (None, _) => Deadline::NEVER,
            (_, Some(timeout_ms)) if socket.awaits_pong() => {
                Deadline::after(now_ms, timeout_ms.get())
            }
            (Some(interval_ms), _) => {
                Deadline::at(Place::of(index, slot, interval_ms).ping_ms(now_ms))
            }
        };
        heartbeat.min(self.idle_deadline(socket))
    }

    /// Returns the time at which a socket has been idle too long. Message times are in whole
    /// seconds, rounded so that the limit is never early.
    pub fn idle_deadline(&self, socket: &Socket) -> Deadline {
        self.idle_timeout_ms.map_or(Deadline::NEVER, |timeout_ms| {
            Deadline::after((u64::from(socket.message_s) + 1) * 1000, timeout_ms.get())
        })
    }
}
