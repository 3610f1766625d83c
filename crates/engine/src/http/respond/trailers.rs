//! Trailer fields after a forwarded body.

use fermata_io::Driver;

use crate::http::Http;
use crate::http::respond::streams::StreamError;
use crate::id::RequestId;
use crate::net::Net;

impl Http {
    /// See `Worker::end_stream_with`.
    pub(crate) fn end_stream_with<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        trailers: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), StreamError> {
        let index = net.open_stream(handle)?;
        let connection = net.connections.at(index.connection());
        if let Some(place) = connection.and_then(|connection| connection.line.stream()) {
            net.http2.set_trailers(place, trailers);
        }
        self.end_stream(net, handle)
    }
}
