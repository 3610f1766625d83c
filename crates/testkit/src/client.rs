//! Client connection that sends exactly the given bytes.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::random::Random;
use crate::response::{Chunked, Framing, Head, Response, parse_head};
use crate::wait::deadline;

/// Maximum bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// End of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server closed its side in an orderly way.
    Closed,
    /// The connection was reset; bytes in flight may be lost.
    Reset,
}

/// Reasons why no response could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The connection ended where a response could have started.
    Ended(End),
    /// The connection ended inside a response, after this many of its bytes.
    Truncated(usize, End),
    /// Nothing arrived before the deadline.
    TimedOut,
    /// The response violates the protocol.
    Malformed(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Ended(end) => write!(f, "the connection ended ({end:?})"),
            ReadError::Truncated(bytes, end) => {
                write!(
                    f,
                    "the connection ended ({end:?}) after {bytes} bytes of a response"
                )
            }
            ReadError::TimedOut => write!(f, "no answer within the deadline"),
            ReadError::Malformed(why) => write!(f, "malformed response: {why}"),
        }
    }
}

/// Parameters of a connection; [`Connection::open`] covers the simple case.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Address of the server.
    pub address: SocketAddr,
    /// Local address to connect from, for limits per address; any of 127.0.0.0/8.
    pub source: Option<Ipv4Addr>,
    /// Size of the receive buffer. With a small buffer, the server soon sees a slow reader.
    pub receive_bytes: Option<usize>,
}

impl Target {
    /// Connects.
    ///
    /// # Errors
    /// Returns the system's error. Only IPv4 supports a source address or a small buffer.
    pub fn connect(self) -> io::Result<Connection> {
        let stream = match self.address {
            SocketAddr::V4(address) if self.source.is_some() || self.receive_bytes.is_some() => {
                let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
                if let Some(bytes) = self.receive_bytes {
                    // Set the size before connecting, because the window in the handshake depends on it.
                    sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
                }
                if let Some(source) = self.source {
                    rustix::net::bind(&socket, &SocketAddrV4::new(source, 0))?;
                }
                rustix::net::connect(&socket, &address)?;
                TcpStream::from(socket)
            }
            address => TcpStream::connect_timeout(&address, deadline())?,
        };
        Connection::from_stream(stream)
    }
}

/// A client connection. Methods with the prefix `try_` return errors; the others panic, because most tests treat any
/// error as a failure.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Received bytes that belong to no response read so far.
    inbox: Vec<u8>,
}

/// Makes closing the socket reset the connection.
pub fn reset_on_close(stream: &TcpStream) {
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

impl Connection {
    /// Connects to `address`.
    ///
    /// # Panics
    /// Panics if the server refuses the connection.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).unwrap_or_else(|error| panic!("connect {address}: {error}"))
    }

    /// Connects to `address`.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn try_open(address: SocketAddr) -> io::Result<Connection> {
        Target {
            address,
            source: None,
            receive_bytes: None,
        }
        .connect()
    }

    fn from_stream(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(deadline()))?;
        Ok(Connection {
            stream,
            inbox: Vec::new(),
        })
    }

    /// Sends all bytes.
    ///
    /// # Panics
    /// Panics if the bytes cannot be sent.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes)
            .unwrap_or_else(|error| panic!("send: {error}"));
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// Returns the system's error, for example after the server closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends the bytes in random pieces, each as a packet (Nagle's algorithm is off).
    #[track_caller]
    pub fn send_split(&mut self, bytes: &[u8], piece_bytes_max: usize, random: &mut Random) {
        for piece in random.split(bytes, piece_bytes_max) {
            self.send(piece);
        }
    }

    /// Sends all bytes from a separate thread, for more bytes than the kernel buffers. The thread ends with the
    /// connection.
    #[track_caller]
    pub fn send_in_background(&self, bytes: Vec<u8>) -> JoinHandle<io::Result<()>> {
        let mut stream = self
            .stream
            .try_clone()
            .expect("descriptors are not used up");
        thread::spawn(move || stream.write_all(&bytes))
    }

    /// Sends a request with Host, the given header lines and, unless `body` is empty, Content-Length.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn try_send_request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        self.try_send([text.as_bytes(), body].concat())
    }

    /// Sends a GET request and returns its response.
    ///
    /// # Panics
    /// Panics unless a well-formed response arrives.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, &[], b"")
    }

    /// Sends a POST request and returns its response.
    ///
    /// # Panics
    /// Panics unless a well-formed response arrives.
    #[track_caller]
    pub fn post(&mut self, target: &str, body: impl AsRef<[u8]>) -> Response {
        self.request("POST", target, &[], body.as_ref())
    }

    /// Sends a request and returns its response.
    ///
    /// # Panics
    /// Panics unless a well-formed response arrives.
    #[track_caller]
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        match self.try_request(method, target, headers, body) {
            Ok(response) => response,
            Err(error) => panic!("{method} {target}: {error}"),
        }
    }

    /// Sends a request and returns its response.
    ///
    /// # Errors
    /// Returns the reason why no response was read.
    pub fn try_request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response, ReadError> {
        let sent = self.try_send_request(method, target, headers, body);
        match self.try_read_response(method == "HEAD") {
            Err(ReadError::TimedOut) if sent.is_err() => Err(ReadError::Ended(End::Reset)),
            result => result,
        }
    }

    /// Reads one response to a request other than HEAD.
    ///
    /// # Panics
    /// Panics unless a well-formed response arrives.
    #[track_caller]
    pub fn read_response(&mut self) -> Response {
        self.try_read_response(false)
            .unwrap_or_else(|error| panic!("response: {error}"))
    }

    /// Reads one response, including interim ones (1xx). `to_head` is true for the response to a HEAD request.
    ///
    /// # Errors
    /// Returns the reason why no response was read.
    pub fn try_read_response(&mut self, to_head: bool) -> Result<Response, ReadError> {
        let end = Instant::now() + deadline();
        let head = self.read_head(end)?;
        let framing = head.framing(to_head).map_err(ReadError::Malformed)?;
        let body = match framing {
            Framing::None => Vec::new(),
            Framing::Length(len) => {
                while self.inbox.len() < len {
                    self.receive_more(end)?;
                }
                self.inbox.drain(..len).collect()
            }
            Framing::Chunked => self.read_chunks(end)?,
            Framing::UntilClose => {
                if head.minor_version == 1 && !head.connection_says("close") {
                    let why = "a body until close needs connection: close";
                    return Err(ReadError::Malformed(why.into()));
                }
                match self.read_to_end() {
                    (body, Some(End::Closed)) => body,
                    (body, Some(end)) => return Err(ReadError::Truncated(body.len(), end)),
                    (_, None) => return Err(ReadError::TimedOut),
                }
            }
        };
        Ok(Response {
            head,
            body,
            framing,
        })
    }

    /// Reads a response head until `end` and leaves the body unread.
    pub(crate) fn read_head(&mut self, end: Instant) -> Result<Head, ReadError> {
        loop {
            if let Some((head, len)) = parse_head(&self.inbox).map_err(ReadError::Malformed)? {
                self.inbox.drain(..len);
                return Ok(head);
            }
            self.receive_more(end)?;
        }
    }

    fn read_chunks(&mut self, end: Instant) -> Result<Vec<u8>, ReadError> {
        let (mut decoder, mut body) = (Chunked::default(), Vec::new());
        loop {
            let decoded = decoder.decode(&self.inbox, &mut body);
            let (used, done) = decoded.map_err(ReadError::Malformed)?;
            self.inbox.drain(..used);
            if done {
                return Ok(body);
            }
            self.receive_more(end)?;
        }
    }

    fn receive_more(&mut self, end: Instant) -> Result<(), ReadError> {
        let left = end.saturating_duration_since(Instant::now());
        let held = self.inbox.len();
        match self.receive(left) {
            Received::Bytes => Ok(()),
            Received::Ended(end) if held == 0 => Err(ReadError::Ended(end)),
            Received::Ended(end) => Err(ReadError::Truncated(held, end)),
            Received::TimedOut => Err(ReadError::TimedOut),
        }
    }

    /// Waits at most `patience` for bytes and appends them to the inbox.
    pub(crate) fn receive(&mut self, patience: Duration) -> Received {
        // Use at least 1 ms, because a timeout of zero would disable the timeout.
        let patience = patience.max(Duration::from_millis(1));
        self.stream
            .set_read_timeout(Some(patience))
            .expect("the time-out is not zero");
        let held = self.inbox.len();
        self.inbox.resize(held + READ_BYTES, 0);
        let result = self.stream.read(&mut self.inbox[held..]);
        self.inbox.truncate(held + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Received::Ended(End::Closed),
            Ok(_) => Received::Bytes,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Received::TimedOut,
                io::ErrorKind::Interrupted => Received::Bytes,
                _ => Received::Ended(End::Reset),
            },
        }
    }

    /// Returns the received bytes that were not consumed.
    pub(crate) fn inbox(&mut self) -> &mut Vec<u8> {
        &mut self.inbox
    }

    /// Returns true if bytes or the end arrive within `patience`. Consumes nothing.
    pub fn has_data(&mut self, patience: Duration) -> bool {
        !self.inbox.is_empty() || !matches!(self.receive(patience), Received::TimedOut)
    }

    /// Waits until `len` unconsumed bytes have arrived, and leaves them.
    ///
    /// # Panics
    /// Panics if the connection ends or the deadline passes first.
    #[track_caller]
    pub fn wait_for_bytes(&mut self, len: usize) {
        let end = Instant::now() + deadline();
        while self.inbox.len() < len {
            match self.receive(end.saturating_duration_since(Instant::now())) {
                Received::Bytes => {}
                Received::Ended(end) => panic!("ended ({end:?}) before {len} bytes"),
                Received::TimedOut => panic!("{} of {len} bytes", self.inbox.len()),
            }
        }
    }

    /// Returns the status of the next response without consuming the response. This is for event streams, which have no end to wait
    /// for.
    ///
    /// # Panics
    /// Panics if the connection ends or the deadline passes first, or if the bytes are no response.
    #[track_caller]
    pub fn peek_status(&mut self) -> u16 {
        const LINE: &[u8] = b"HTTP/1.1 ";
        self.wait_for_bytes(LINE.len() + 3);
        let status = self.inbox.strip_prefix(LINE).map(|rest| &rest[..3]);
        let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        status.unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(&self.inbox)))
    }

    /// Reads to the end of the connection. Returns `None` as the end if the connection is still open at the deadline.
    pub fn read_to_end(&mut self) -> (Vec<u8>, Option<End>) {
        let end = Instant::now() + deadline();
        loop {
            match self.receive(end.saturating_duration_since(Instant::now())) {
                Received::Bytes => {}
                Received::Ended(end) => return (std::mem::take(&mut self.inbox), Some(end)),
                Received::TimedOut => return (std::mem::take(&mut self.inbox), None),
            }
        }
    }

    /// Checks that the server closes without sending more bytes.
    ///
    /// # Panics
    /// Panics if bytes arrive or the connection is still open at the deadline.
    #[track_caller]
    pub fn expect_end(&mut self) -> End {
        let (bytes, end) = self.read_to_end();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
        assert!(
            bytes.is_empty(),
            "{} bytes where the end was due: {shown:?}",
            bytes.len()
        );
        end.expect("the server closes the connection before the deadline")
    }

    /// Shuts down the sending side; responses can still be read.
    #[track_caller]
    pub fn finish_sending(&mut self) {
        self.stream
            .shutdown(Shutdown::Write)
            .expect("the connection is open");
    }

    /// Closes with a reset, like a crashed peer.
    pub fn reset(self) {
        reset_on_close(&self.stream);
    }

    /// Returns the local address, as the server sees it.
    pub fn local_address(&self) -> SocketAddr {
        self.stream
            .local_addr()
            .expect("a connected socket has an address")
    }
}

/// Result of [`Connection::receive`].
pub(crate) enum Received {
    /// At least one byte arrived, or the read was interrupted. The caller has to check again.
    Bytes,
    /// The connection ended.
    Ended(End),
    /// Nothing arrived in time.
    TimedOut,
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Starts a peer that accepts one connection, waits for `request` and sends `answer`.
    fn peer(request: &'static [u8], answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the test connects");
            let mut got = vec![0; request.len()];
            stream.read_exact(&mut got).expect("the test sends");
            assert_eq!(got, request);
            stream.write_all(answer).expect("the test reads");
        });
        address
    }

    #[test]
    fn responses_of_all_framings_are_read_in_order() {
        let answer = b"HTTP/1.1 100 Continue\r\n\r\n\
            HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\nab\
            HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nTransfer-Encoding: chunked\r\n\r\n\
            1\r\nc\r\n0\r\n\r\n\
            HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\nrest";
        let mut connection = Connection::open(peer(b"x", answer));
        connection.send("x");
        assert_eq!(connection.read_response().status(), 100);
        assert_eq!(connection.read_response().text(), "ab");
        assert_eq!(connection.read_response().text(), "c");
        let last = connection.read_response();
        assert_eq!((last.text(), last.framing), ("rest", Framing::UntilClose));
        assert_eq!(
            connection.try_read_response(false),
            Err(ReadError::Ended(End::Closed))
        );
    }

    #[test]
    fn a_cut_response_is_truncated() {
        let answer = b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 9\r\n\r\nab";
        let mut connection = Connection::open(peer(b"x", answer));
        connection.send("x");
        let result = connection.try_read_response(false);
        assert_eq!(result, Err(ReadError::Truncated(2, End::Closed)));
    }

    #[test]
    fn a_source_address_can_be_chosen() {
        let address = peer(b"", b"");
        let source = Ipv4Addr::new(127, 0, 0, 9);
        let target = Target {
            address,
            source: Some(source),
            receive_bytes: Some(4096),
        };
        let connection = target.connect().expect("all of 127.0.0.0/8 is ours");
        assert_eq!(connection.local_address().ip(), source);
    }
}
