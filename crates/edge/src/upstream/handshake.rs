//! WebSocket handshakes with targets.

use std::rc::Rc;

use fermata_proto::ws::accept::KEY_BYTES;
use fermata_proto::ws::opening;

use crate::client::over_http::OverHttp;
use crate::routes::{Origin, Target};
use crate::upstream::exchange::{Purpose, UpstreamExchange};

pub(crate) fn new_key() -> [u8; KEY_BYTES] {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&fermata_io::random::u64().to_le_bytes());
    nonce[8..].copy_from_slice(&fermata_io::random::u64().to_le_bytes());
    opening::key(nonce)
}

impl UpstreamExchange {
    /// Converts the handshake to the target's form: an upgrade, or a request of WebSocket-over-HTTP. Called for each target that is
    /// tried, because the next target may use the other form.
    pub(crate) fn carry(&mut self, target: &Target) {
        // The built-in test origin always uses plain WebSockets.
        let over_http = target.over_http && target.origin != Origin::Test;
        match (&self.purpose, over_http) {
            (Purpose::Upgrade(_), true) => {
                let mut over = OverHttp::new(Rc::clone(&self.source.request));
                self.source.request = Rc::new(over.open(target.one_event));
                self.purpose = Purpose::Events(Some(over));
            }
            (Purpose::Events(Some(over)), false) => {
                self.source.request = over.opening();
                self.purpose = Purpose::Upgrade(new_key());
            }
            (Purpose::Events(Some(_)), true)
            | (Purpose::Upgrade(_), false)
            | (Purpose::Plain | Purpose::Worker | Purpose::Events(None), _) => {}
        }
    }
}
