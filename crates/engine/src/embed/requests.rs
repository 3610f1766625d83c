//! What an embedder asks about requests, and answers them with.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use fermata_io::Driver;
use fermata_tls::ClientCertificate;

use crate::http::body::{Read, ReadError};
use crate::http::files::{ContentHeaders, Directory};
use crate::http::respond::Gone;
use crate::http::respond::file::{FileAnswer, StaticFound};
use crate::http::respond::streams::{StreamError, Wanted};
use crate::id::RequestId;
use crate::log::Detail;
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    /// Address and port of the current request's client, `None` on a Unix socket: as a trusted proxy says, else the
    /// other end of the connection.
    pub fn client_address(&self) -> Option<(IpAddr, u16)> {
        self.http.client_address(&self.net)
    }

    /// The host and port that the client asked for, as a trusted proxy says, else as the request does.
    pub fn client_host(&self) -> Option<&[u8]> {
        self.http.client_host(&self.net)
    }

    /// Whether the client of the current request speaks TLS: to us, or to a trusted proxy in front.
    pub fn is_client_secure(&self) -> bool {
        self.http.is_client_secure(&self.net)
    }

    /// Whether the connection of the current request is encrypted.
    pub fn is_secure(&self) -> bool {
        self.http.is_secure(&self.net)
    }

    /// The certificate that the client of the current request has shown.
    pub fn client_certificate(&self) -> Option<Rc<ClientCertificate>> {
        self.http.client_certificate(&self.net)
    }

    /// Reads on in the body of an open request, at most `bytes_max`.
    ///
    /// # Errors
    /// [`ReadError`], and the same from then on; the request has still to be answered.
    pub fn read_body(&mut self, handle: RequestId, bytes_max: usize) -> Result<Read, ReadError> {
        self.http
            .read_body(&mut self.net, &mut self.waiting, handle, bytes_max)
    }

    /// Answers a request with a complete response.
    ///
    /// Names and values of `headers` must have passed `fermata_proto::response::valid_name` and
    /// `valid_value`, and must not be reserved. `Date`, `Content-Length` and `Connection` are ours.
    ///
    /// A GET whose conditions an `ETag` or `Last-Modified` among them answers gets 304 or 412 instead, and what is
    /// worth compressing is compressed for a client that reads it.
    #[inline]
    pub fn respond<'h>(
        &mut self,
        handle: RequestId,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])> + Clone,
        body: &[u8],
    ) -> Result<(), Gone> {
        self.http
            .respond(&mut self.net, handle, status, content_type, headers, body)
    }

    /// Answers a request whose handler failed: `status` to the client, the reason to the log only.
    pub fn fail(
        &mut self,
        handle: RequestId,
        status: u16,
        log_message: &str,
        detail: &Detail<'_>,
    ) -> Result<(), Gone> {
        self.http
            .fail(&mut self.net, handle, status, log_message, detail)
    }

    /// Sends `103 Early Hints` with these header lines at once (RFC 8297). False when the client would not understand them,
    /// and nothing was sent.
    ///
    /// Names and values as for [`Worker::respond`].
    pub fn send_early_hints<'h>(
        &mut self,
        handle: RequestId,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Result<bool, Gone> {
        self.http.send_early_hints(&mut self.net, handle, headers)
    }

    /// What `path`, the decoded path of a request, leads to in the static tree that `handler` stands in front of.
    pub fn find_static(&mut self, handler: u32, path: &[u8]) -> StaticFound {
        self.http.find_static(&mut self.net, handler, path)
    }

    /// Answers a request with a file: conditions and ranges of the request, which `asked` holds, are met.
    ///
    /// One that is not there is answered 404, one that cannot be read 500 with a line in the log. `headers` must be
    /// checked as for [`Worker::respond`].
    pub fn respond_file<'h>(
        &mut self,
        handle: RequestId,
        answer: &FileAnswer<'_>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        asked: &ContentHeaders<'_>,
    ) -> Result<(), Gone> {
        self.http
            .respond_file(&mut self.net, handle, answer, headers, asked)
    }

    /// Answers a request with the file that `rest` names below the folder: percent-decoded, empty or from a slash on.
    /// Conditions and ranges of the request, which `asked` holds, are met.
    ///
    /// `Nothing` and `Directory` are still to be answered; what cannot be read is answered 500 with a line in the log.
    ///
    /// # Errors
    /// The request is gone.
    pub fn respond_tree(
        &mut self,
        handle: RequestId,
        directory: &Arc<Directory>,
        rest: &[u8],
        headers: &[(&[u8], &[u8])],
        asked: &ContentHeaders<'_>,
    ) -> Result<StaticFound, Gone> {
        self.http
            .respond_tree(&mut self.net, handle, directory, rest, headers, asked)
    }

    /// What to do about a request that is to be answered by a stream.
    pub fn stream_wanted(&self, handle: RequestId, status: u16) -> Wanted {
        self.http.stream_wanted(&self.net, handle, status)
    }

    /// Answers a request by a stream, and takes as much of its first piece as it returns. `length` is promised to the
    /// client; without it the body is chunked, and for an HTTP/1.0 client it ends with the connection.
    ///
    /// From here on [`Event::Stream`] asks for more, until [`Worker::end_stream`], [`Worker::fail_stream`] or
    /// [`Event::StreamEnd`]. Nothing follows when only the head is wanted. `headers` as for [`Worker::respond`].
    pub fn begin_stream<'h>(
        &mut self,
        handle: RequestId,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        length: Option<u64>,
        first: &[u8],
    ) -> Result<usize, StreamError> {
        let line = (status, content_type);
        self.http
            .begin_stream(&mut self.net, handle, line, headers, length, first)
    }

    /// Ends a stream that the program cannot go on with: what was given is sent, and the connection ends without the
    /// mark of a whole body. The reason goes to the log.
    pub fn fail_stream(
        &mut self,
        handle: RequestId,
        log_message: &str,
        detail: &Detail<'_>,
    ) -> Result<(), StreamError> {
        self.http
            .fail_stream(&mut self.net, handle, log_message, detail)
    }

    /// Ends a stream without its end, if it has not ended.
    pub fn drop_stream(&mut self, handle: RequestId) {
        self.http.drop_stream(&mut self.net, handle)
    }

    /// As `Net::write_stream`, for a piece that is in a buffer of the embedder's: a large one is given to the kernel from
    /// there, and only what that does not take is copied.
    ///
    /// # Errors
    /// The client has left, or the piece is longer than what is left of the length that the stream was given.
    pub fn pass_stream(&mut self, handle: RequestId, piece: &[u8]) -> Result<usize, StreamError> {
        self.http.pass_stream(&mut self.net, handle, piece)
    }

    /// The last piece was given.
    pub fn end_stream(&mut self, handle: RequestId) -> Result<(), StreamError> {
        self.http.end_stream(&mut self.net, handle)
    }

    /// As [`Worker::end_stream`], with trailers: valid names and values, none about framing or the connection.
    ///
    /// Clients of HTTP/2 get them. Over HTTP/1 they are left out, as RFC 9110, 6.5.1 allows: few clients say that they
    /// read any, and none that needs them.
    ///
    /// # Errors
    /// As of [`Worker::end_stream`].
    pub fn end_stream_with(
        &mut self,
        handle: RequestId,
        trailers: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), StreamError> {
        self.http.end_stream_with(&mut self.net, handle, trailers)
    }

    /// The handler goes on while its stream is sent, and wants to know when the client has left.
    pub fn watch_stream(&mut self, handle: RequestId) {
        if let Ok(index) = self.net.open_stream(handle) {
            self.waiting.defer_at(&mut self.net, index);
        }
    }
}
