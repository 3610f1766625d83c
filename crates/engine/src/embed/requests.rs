//! Request API of an embedder: client properties, bodies and responses.

use std::net::{IpAddr, Ipv6Addr};
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
use crate::net::buffered::LARGE_BYTES;
use crate::worker::Worker;

/// RFC 8297.
const EARLY_HINTS: u16 = 103;

impl<D: Driver> Worker<D> {
    /// Returns the address and port of the current request's client. A trusted proxy reports them.
    /// Without such a proxy, they are the address and port of the peer. `None` on a Unix socket.
    pub fn client_address(&self) -> Option<(IpAddr, u16)> {
        self.http.client_address(&self.net)
    }

    /// Returns the address that identifies the client of an unanswered request:
    /// [`Worker::client_address`], or for IPv6 its /64 network, since one client may use all
    /// addresses of the network.
    pub fn client_network(&self, handle: RequestId) -> Option<IpAddr> {
        let address = self.http.client_of(&self.net, handle)?;
        Some(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
            address => address,
        })
    }

    /// Returns the requested host and port: as reported by a trusted proxy, otherwise from the
    /// request.
    pub fn client_host(&self) -> Option<&[u8]> {
        self.http.client_host(&self.net)
    }

    /// Returns true if the client of the current request uses TLS, to this server or to a trusted
    /// proxy.
    pub fn is_client_secure(&self) -> bool {
        self.http.is_client_secure(&self.net)
    }

    /// Returns true if the connection of the current request uses TLS.
    pub fn is_secure(&self) -> bool {
        self.http.is_secure(&self.net)
    }

    /// Returns the client certificate of the current request.
    pub fn client_certificate(&self) -> Option<Rc<ClientCertificate>> {
        self.http.client_certificate(&self.net)
    }

    /// Reads more of an open request's body, at most `bytes_max`.
    ///
    /// # Errors
    /// [`ReadError`], also for all later calls; the request still needs a response.
    pub fn read_body(&mut self, handle: RequestId, bytes_max: usize) -> Result<Read, ReadError> {
        self.http
            .read_body(&mut self.net, &mut self.waiting, handle, bytes_max)
    }

    /// Answers a request with a complete response.
    ///
    /// Names and values of `headers` must have passed `fermata_proto::response::valid_name` and
    /// `valid_value`, and must not be reserved. The engine writes `Date`, `Content-Length` and
    /// `Connection`.
    ///
    /// A conditional GET is answered 304 or 412 if `headers` contain a matching `ETag` or
    /// `Last-Modified`. Compressible content is compressed if the client accepts it.
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

    /// Answers a request whose handler failed: `status` to the client, the reason only to the log.
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

    /// Sends `103 Early Hints` with these fields (RFC 8297). Returns false and sends nothing if the
    /// client does not support them, or if more than 16 KiB are unsent on its connection.
    ///
    /// Names and values as for [`Worker::respond`].
    pub fn send_early_hints<'h>(
        &mut self,
        handle: RequestId,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Result<bool, Gone> {
        self.send_interim(handle, EARLY_HINTS, headers)
    }

    /// Sends an interim response with any status except 101, after which the protocol is no longer
    /// HTTP.
    pub fn send_interim<'h>(
        &mut self,
        handle: RequestId,
        status: u16,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Result<bool, Gone> {
        debug_assert!((100..200).contains(&status) && status != 101);
        self.http
            .send_interim(&mut self.net, handle, status, headers)
    }

    /// Looks up `path`, the decoded path of a request, in the static directory that `handler`
    /// guards.
    pub fn find_static(&mut self, handler: u32, path: &[u8]) -> StaticFound {
        self.http.find_static(&mut self.net, handler, path)
    }

    /// Answers a request with a file, applying the request's conditions and ranges in `asked`.
    ///
    /// A missing file is answered 404, an unreadable one 500 with a line in the log. `headers` must
    /// be checked as for [`Worker::respond`].
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

    /// Answers a request with the file named by `rest` below the directory; `rest` is
    /// percent-decoded, and empty or starts with a slash. Applies the request's conditions and
    /// ranges in `asked`.
    ///
    /// `Nothing` and `Directory` still need a response; an unreadable file is answered 500 with a
    /// line in the log.
    ///
    /// # Errors
    /// The request is not open.
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

    /// Returns what the response to a request needs if it is a stream.
    pub fn stream_wanted(&self, handle: RequestId, status: u16) -> Wanted {
        self.http.stream_wanted(&self.net, handle, status)
    }

    /// Answers a request with a stream, and accepts a part of its first piece; returns the length
    /// of that part. `length` is announced to the client. Without `length` the body is chunked, or
    /// for HTTP/1.0 ends with the connection.
    ///
    /// [`Event::Stream`] then requests more, until [`Worker::end_stream`], [`Worker::fail_stream`]
    /// or [`Event::StreamEnd`]. No event follows if only the head is needed. `headers` as for
    /// [`Worker::respond`].
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

    /// Ends a stream that the application cannot continue: written bytes are sent, and the
    /// connection closes without the end mark of a complete body. The reason goes to the log.
    pub fn fail_stream(
        &mut self,
        handle: RequestId,
        log_message: &str,
        detail: &Detail<'_>,
    ) -> Result<(), StreamError> {
        self.http
            .fail_stream(&mut self.net, handle, log_message, detail)
    }

    /// Cuts off a stream, if it is open.
    pub fn drop_stream(&mut self, handle: RequestId) {
        self.http.drop_stream(&mut self.net, handle)
    }

    /// Writes a piece like `Net::write_stream`, from a buffer of the embedder. A large piece is
    /// passed directly to the kernel; only the bytes that the kernel does not accept are copied.
    ///
    /// # Errors
    /// The client has disconnected, or the piece exceeds the announced length.
    pub fn pass_stream(&mut self, handle: RequestId, piece: &[u8]) -> Result<usize, StreamError> {
        self.http.pass_stream(&mut self.net, handle, piece)
    }

    /// Flushes a stream after `queued` bytes, if they are many, so that the unsent bytes are
    /// counted before another handler runs.
    #[inline]
    pub fn send_large(&mut self, handle: RequestId, queued: usize) {
        if queued >= LARGE_BYTES
            && let Ok(index) = self.net.open_stream(handle)
        {
            self.net.flush(&mut self.http, index.connection());
        }
    }

    /// Ends a stream after its last piece.
    pub fn end_stream(&mut self, handle: RequestId) -> Result<(), StreamError> {
        self.http.end_stream(&mut self.net, handle)
    }

    /// Ends a stream like [`Worker::end_stream`], with trailers: valid names and values, without
    /// framing and connection fields.
    ///
    /// HTTP/2 clients receive them. Over HTTP/1 they are dropped, as RFC 9110, section 6.5.1
    /// permits: few clients announce support for trailers, and no client needs them.
    ///
    /// # Errors
    /// As for [`Worker::end_stream`].
    pub fn end_stream_with(
        &mut self,
        handle: RequestId,
        trailers: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), StreamError> {
        self.http.end_stream_with(&mut self.net, handle, trailers)
    }

    /// Requests a notification if the client of a stream disconnects while its handler continues.
    pub fn watch_stream(&mut self, handle: RequestId) {
        if let Ok(index) = self.net.open_stream(handle) {
            self.waiting.defer_at(&mut self.net, index);
        }
    }
}
