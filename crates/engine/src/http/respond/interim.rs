//! Interim responses, and custom reason phrases.

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

/// Maximum number of unsent bytes on a connection; above it, the client receives no interim
/// responses.
const UNSENT_BYTES_MAX: usize = 16 * 1024;

impl Http {
    /// Sets the reason phrase of the request's next response. It applies if the status matches and
    /// the protocol supports phrases.
    pub fn set_reason(&mut self, handle: RequestId, status: u16, phrase: &[u8]) {
        self.reason = (phrase != response::reason(status).as_bytes()).then(|| Reason {
            handle,
            status,
            phrase: phrase.into(),
        });
    }
}

impl Http {
    /// See `Worker::send_interim`.
    pub(crate) fn send_interim<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        status: u16,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Result<bool, Gone> {
        let index = net.open_request(handle)?;
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return Err(missed(Gone));
        };
        if exchange.protocol == Protocol::Http10 || connection.origin != Origin::Public {
            return Ok(false);
        }
        // An origin may send any number of interim responses to a client that does not read.
        let unsent = connection.unsent();
        if let Some(place) = connection.line.stream() {
            if net.http2.unsent_bytes(place) > UNSENT_BYTES_MAX {
                return Ok(false);
            }
            let has_sent = net.http2.send_head(place, status, false, |block| {
                hpack::encode_status(block, status);
                for (name, value) in headers {
                    hpack::encode(block, name, value);
                }
            });
            if has_sent {
                net.flush_carriers(self);
            }
            return Ok(has_sent);
        }
        if unsent > UNSENT_BYTES_MAX {
            return Ok(false);
        }
        let out = connection.take_buffer(&mut net.pool);
        response::write_interim(out, status, headers);
        if connection.is_blocked {
            net.note_buffered(index.connection());
            return Ok(true);
        }
        // Flush now: a handler that does not wait answers before the turn ends, and the hints would
        // arrive together with its response.
        if net.write_all(self, index.connection()) {
            net.mark_dirty(index.connection());
        }
        Ok(true)
    }
}

impl Http {
    /// Removes and returns the phrase for a response that is being written.
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
