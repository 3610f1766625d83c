//! What a handler says ahead of its answer: hints, and a reason phrase of its own.

use fermata_io::Driver;
use fermata_proto::http2::hpack;
use fermata_proto::response;

use crate::http::Http;
use crate::http::protocol::Protocol;
use crate::http::respond::Gone;
use crate::http::respond::reason::Reason;
use crate::id::RequestId;
use crate::missed::missed;
use crate::net::Net;
use crate::net::connection::Origin;
use crate::net::index::ExchangeIndex;

impl Http {
    /// Gives the answer that comes next for this request a reason phrase of its own, where its status is this one and its
    /// protocol has such phrases.
    pub fn set_reason(&mut self, handle: RequestId, status: u16, phrase: &[u8]) {
        self.reason = (phrase != response::reason(status).as_bytes()).then(|| Reason {
            handle,
            status,
            phrase: phrase.into(),
        });
    }
}

impl Http {
    /// See `Worker::send_early_hints`.
    pub(crate) fn send_early_hints<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Result<bool, Gone> {
        let index = net.open_request(handle)?;
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return Err(missed(Gone));
        };
        if exchange.protocol == Protocol::Http10 || connection.origin != Origin::Public {
            return Ok(false);
        }
        if let Some(place) = connection.line.stream() {
            let has_sent = net.http2.send_head(place, 103, false, |block| {
                hpack::encode_status(block, 103);
                for (name, value) in headers {
                    hpack::encode(block, name, value);
                }
            });
            if has_sent {
                net.flush_carriers(self);
            }
            return Ok(has_sent);
        }
        let out = connection.take_buffer(&mut net.pool);
        response::write_interim(out, 103, headers);
        if connection.is_blocked {
            return Ok(true);
        }
        // A handler that does not wait has answered before the turn ends, when hints are of no use any more.
        if net.write_all(self, index.connection()) {
            net.mark_dirty(index.connection());
        }
        Ok(true)
    }
}

impl Http {
    /// The phrase for an answer that is written now, which nothing else gets.
    pub(crate) fn take_reason<D: Driver>(
        &mut self,
        net: &Net<D>,
        index: ExchangeIndex,
        status: u16,
    ) -> Option<Box<[u8]>> {
        let reason = self.reason.take()?;
        let serial = reason.handle.serial();
        let is_its = reason.handle.exchange() == index
            && net
                .connections
                .exchange(index)
                .is_some_and(|it| it.serial == serial);
        (is_its && reason.status == status).then_some(reason.phrase)
    }
}
