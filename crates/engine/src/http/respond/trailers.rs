//! Trailers behind a body that an embedder passes on.

use fermata_io::Driver;

use crate::http::respond::streams::StreamError;
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    /// As [`Worker::end_stream`], with trailers: valid names and values, none about framing or the connection.
    ///
    /// Clients of HTTP/2 get them. Over HTTP/1 they are left out, as RFC 9110, 6.5.1 allows: few clients say that they
    /// read any, and none that needs them.
    ///
    /// # Errors
    /// As of [`Worker::end_stream`].
    pub fn end_stream_with(
        &mut self,
        handle: u64,
        trailers: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), StreamError> {
        let index = self.net.open_stream(handle)?;
        let connection = self.net.connections.at(index.connection());
        if let Some(place) = connection.and_then(|connection| connection.line.stream()) {
            self.net.http2.set_trailers(place, trailers);
        }
        self.http.end_stream(&mut self.net, handle)
    }
}
