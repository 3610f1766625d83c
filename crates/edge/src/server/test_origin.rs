//! The built-in origin `test`, for trying a route without a backend.
//!
//! `/` responds with a greeting, `/response` holds a long poll and `/stream` a stream, on the channels in `?channel=`, or on
//! `test`. `/ws` is a WebSocket that is subscribed to these channels and echoes messages.

use fermata_grip::ws_control::Control;

use crate::client::socket::{Socket, Via};
use crate::client::source::{ExchangeKey, Owner};
use crate::server::turn::Turn;
use crate::server::upgrade::accept;
use crate::upstream::exchange::{Step, Stop, UpstreamExchange};
use crate::upstream::response::Head;
use crate::upstream::test_origin::{answer, channels, parts};

/// Path of the WebSocket.
const ECHO: &[u8] = b"/ws";

impl Turn<'_> {
    /// Opens a client's WebSocket to the built-in origin. `start` is the path prefix of its route.
    pub(super) fn open_test_socket(
        &mut self,
        exchange: &mut UpstreamExchange,
        start: &str,
    ) -> Step {
        let Owner::Client(handle) = exchange.owner else {
            return Err(Stop::Over);
        };
        let (path, query) = parts(&exchange.source.request.target, start);
        if path != ECHO {
            let (head, body) = answer(b"/none", b"");
            self.clients.respond(self.worker, handle, &head, &body);
            return Err(Stop::Over);
        }
        let channels = channels(query);
        self.upstream
            .exchange_keys
            .forget(ExchangeKey::Client(handle));
        let socket = accept(self.worker, handle, &Head::default())?;
        let state = Socket::new(None, Via::Echo);
        self.holds()
            .enter_socket(socket, exchange.source.clone(), state);
        for channel in channels {
            let channel = channel.into_bytes();
            let filters = Vec::new();
            self.holds()
                .control(socket, Control::Subscribe { channel, filters });
        }
        Err(Stop::Over)
    }
}
