//! Refused requests; the response closes the connection.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_io::buffer::Buffer;
use fermata_proto::http2::ErrorCode;

use crate::http::Http;
use crate::http::exchange::{Exchange, Stage};
use crate::http::protocol::Protocol;
use crate::missed::missed;
use crate::net::Net;
use crate::net::connection::{Connection, Writing};
use crate::net::index::ExchangeIndex;

impl Http {
    pub(crate) fn refuse_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        bytes_max: u64,
    ) {
        let message = format!("The body is larger than {bytes_max} bytes.\n");
        self.refuse(net, index, 413, &message);
    }

    /// Refuses an incomplete request head, and closes the connection.
    pub(crate) fn refuse_head<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        message: &str,
    ) {
        let current = net
            .input
            .current
            .filter(|current| current.index == index.connection());
        if let Some((connection, exchange)) = net.connections.pair_mut(index) {
            let head = match current {
                Some(current) => &net.input.bytes[current.at..current.filled],
                None => &connection.inbox[..],
            };
            // The values of the previous request do not apply.
            if !connection.line.is_stream() {
                exchange.is_head = asks_for_head(head);
                exchange.protocol = Protocol::Http11;
            }
        }
        self.refuse(net, index, status, message);
    }

    /// Refuses a request, and closes the connection.
    pub(crate) fn refuse<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        message: &str,
    ) {
        // On an HTTP/2 stream, dropped bytes are credited to the client's flow-control window,
        // because the client needs it to send the rest.
        net.drop_input(index.connection());
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        let line = format!(
            "{}: refused with {status}: {}",
            connection.peer,
            message.trim_end().trim_end_matches('.')
        );
        refuse_in(connection, exchange);
        net.counts.refusal(status);
        if exchange.body.is_some() {
            // The rest of a file has to follow its sent part, so append nothing.
            return;
        }
        net.log
            .write_limited(LogLevel::Info, net.driver.unix_ms(), &line);
        let mut text = message.to_owned();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        self.answer_plain(net, index, status, None, text.as_bytes());
    }
}

/// Refuses a request that no handler has started, because the application of this worker has exited.
/// An HTTP/2 stream is reset with REFUSED_STREAM, so that its client sends the request again
/// (RFC 9113, section 8.7). Over HTTP/1 the response is 503.
pub(crate) fn refuse_restarting<D: Driver>(
    http: &mut Http,
    net: &mut Net<D>,
    index: ExchangeIndex,
) {
    const STATUS: u16 = 503;
    let Some(connection) = net.connections.at(index.connection()) else {
        return missed(());
    };
    let Some(place) = connection.line.stream() else {
        let text = "The server is restarting this worker; try again.\n";
        return http.refuse(net, index, STATUS, text);
    };
    let line = format!(
        "{}: stream refused: the server is restarting this worker",
        connection.peer
    );
    http.trace.on_head(index, connection, STATUS);
    net.log
        .write_limited(LogLevel::Info, net.driver.unix_ms(), &line);
    net.counts.refusal(STATUS);
    net.counts.response(STATUS);
    net.http2.reset(place, ErrorCode::REFUSED_STREAM);
    net.close(http, index.connection());
}

/// Returns true if a possibly incomplete request is a HEAD request, whose response has no content.
pub(crate) fn asks_for_head(request: &[u8]) -> bool {
    let request = request.strip_prefix(b"\r\n").unwrap_or(request);
    request.starts_with(b"HEAD ")
}

/// Prepares a connection for its last response.
fn refuse_in(connection: &mut Connection, exchange: &mut Exchange) {
    exchange.stage = Stage::Handling(None);
    connection.inbox = Buffer::default();
    connection.keeps_alive = false;
    connection.writing = Writing::Linger;
}
