//! Sends JSON to a URL with POST, over a persistent connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fermata_proto::response_reader::{
    Event, HeadError, RequestKind, ResponseError, ResponseReader,
};
use rustls::ClientConfig;

use crate::address::Url;
use crate::tls::{self, Stream, TlsError};

/// Maximum size of a response body that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of characters of a response in messages.
const SHOWN_CHARS_MAX: usize = 500;

/// A client for POST requests to one URL.
pub struct HttpPoster {
    url: Url,
    timeout: Duration,
    kept: Option<Connection>,
    /// Addresses of the host; resolved again when no address accepts a connection.
    addresses: Vec<SocketAddr>,
    /// TLS configuration. It is set when TLS is first needed.
    tls: Option<Arc<ClientConfig>>,
}

struct Connection {
    stream: Box<dyn Stream>,
    until: Until,
}

/// End of the current exchange. A connection shares this value with its socket.
type Until = Arc<Mutex<Instant>>;

/// A socket whose reads and writes end together with the exchange.
///
/// TLS reads and writes several times for one call. Without the common end, a peer that sends single bytes would start the time-out
/// again with each byte.
struct Timed {
    socket: Socket,
    until: Until,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Timed {
    /// Limits the next read or write to the time that is left for the exchange.
    fn limit(&self) -> io::Result<()> {
        let left = left(*self.until.lock().unwrap_or_else(PoisonError::into_inner))?;
        match &self.socket {
            Socket::Tcp(socket) => {
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))
            }
            Socket::Unix(socket) => {
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))
            }
        }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        let read = match &mut self.socket {
            Socket::Tcp(socket) => socket.read(into),
            Socket::Unix(socket) => socket.read(into),
        };
        read.map_err(as_timeout)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        let written = match &mut self.socket {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        };
        written.map_err(as_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The relevant parts of a response.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Seconds before the next attempt (`Retry-After`, RFC 9110, section 10.2.3); dates are ignored.
    pub retry_after_s: Option<u64>,
    body: Vec<u8>,
    is_kept: bool,
}

/// Reason why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// No request was sent: no connection was accepted in time.
    #[error("cannot connect: {0}")]
    Connecting(String),
    /// No HTTP response arrived in time. The server may have received the request.
    #[error("no response: {0}")]
    Exchanging(String),
}

/// Reason why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Answer {
    /// Returns true if the request was accepted.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the content of the response.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Returns true if the content was longer than the limit.
    pub fn is_cut(&self) -> bool {
        self.body.len() > ANSWER_BYTES_MAX
    }

    /// Returns the beginning of the content, for a log.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let text: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
        text.escape_debug().to_string()
    }
}

impl HttpPoster {
    /// Creates a client with a timeout per request, which includes the connection.
    pub fn new(url: Url, timeout: Duration) -> Self {
        Self {
            url,
            timeout,
            kept: None,
            addresses: Vec::new(),
            tls: None,
        }
    }

    /// Reads the system's trusted certificates, if TLS needs them. This reads environment variables. Without this call, the
    /// first request reads them, possibly in another thread while the application changes the environment.
    pub fn prepare(&mut self) -> Result<(), TlsError> {
        if self.url.is_tls && self.tls.is_none() {
            self.tls = Some(tls::configuration()?);
        }
        Ok(())
    }

    /// Sets the timeout of each following request.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Returns host and port.
    pub fn authority(&self) -> String {
        self.url.authority()
    }

    /// Sends JSON with additional headers and waits for the response. A request that gets no response on a reused
    /// connection is sent again, because the server may close such a connection at any time.
    ///
    /// # Errors
    /// There is no response, as far as is known.
    pub fn post(&mut self, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer, PostError> {
        self.post_as("application/json", headers, body)
    }

    /// Sends content of another type.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn post_as(
        &mut self,
        content_type: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, PostError> {
        let request = self.request(content_type, headers, body);
        self.ask(&request)
    }

    /// Sends a GET request for one of these media types.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn get(&mut self, accept: &str) -> Result<Answer, PostError> {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: {accept}\r\n\r\n",
            self.url.path,
            self.url.host_header()
        );
        self.ask(request.as_bytes())
    }

    fn ask(&mut self, request: &[u8]) -> Result<Answer, PostError> {
        let until = Instant::now() + self.timeout;
        // A server may close a reused connection at any time. If it fails, whatever the error, send the request on a new one.
        if let Some(mut kept) = self.kept.take()
            && let Ok(Some(answer)) = kept.exchange(request, until)
        {
            return Ok(self.finish(kept, answer));
        }
        let mut connection = self
            .connect(until)
            .map_err(|error| PostError::Connecting(error.to_string()))?;
        match connection.exchange(request, until) {
            Ok(Some(answer)) => Ok(self.finish(connection, answer)),
            Ok(None) => Err(PostError::Exchanging("the response is not HTTP".to_owned())),
            Err(error) => Err(PostError::Exchanging(error.to_string())),
        }
    }

    /// Returns true if a connection is kept for the next request.
    pub fn is_connected(&self) -> bool {
        self.kept.is_some()
    }

    fn connect(&mut self, until: Instant) -> Result<Connection, ConnectError> {
        let shared: Until = Arc::new(Mutex::new(until));
        let timed = |socket| Timed {
            socket,
            until: Arc::clone(&shared),
        };
        let stream: Box<dyn Stream> = match &self.url.socket {
            Some(path) => Box::new(timed(Socket::Unix(UnixStream::connect(path)?))),
            None => {
                self.prepare()?;
                let socket = timed(Socket::Tcp(self.connect_tcp(until)?));
                match &self.tls {
                    Some(tls) => tls::connect(socket, &self.url.host, tls)?,
                    None => Box::new(socket),
                }
            }
        };
        Ok(Connection {
            stream,
            until: shared,
        })
    }

    fn connect_tcp(&mut self, until: Instant) -> io::Result<TcpStream> {
        if self.addresses.is_empty() {
            let found = (&*self.url.host, self.url.port).to_socket_addrs()?;
            self.addresses = found.collect();
        }
        let connected = connect_to(&self.addresses, until);
        if connected.is_err() {
            // The host may have moved. Resolve its name again at the next attempt.
            self.addresses.clear();
        }
        connected
    }

    fn request(&self, content_type: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\n",
            self.url.path,
            self.url.host_header()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!(
            "Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        request
    }

    fn finish(&mut self, connection: Connection, answer: Answer) -> Answer {
        if answer.is_kept {
            self.kept = Some(connection);
        }
        answer
    }
}

impl Connection {
    /// Sends a request and reads the response. `None`: the reply is not an HTTP response.
    fn exchange(&mut self, request: &[u8], until: Instant) -> io::Result<Option<Answer>> {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.stream.write_all(request)?;
        self.stream.flush()?;
        let mut reader = ResponseReader::new(RequestKind::default());
        let (mut events, mut answer) = (Vec::new(), None::<Answer>);
        let mut buffer = [0; 4096];
        loop {
            let read = match self.stream.read(&mut buffer) {
                Ok(0) => reader.finish(&mut events),
                Ok(len) => reader.handle(&buffer[..len], &mut events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Servers that close without TLS's close_notify have responded nevertheless.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && answer.is_some() => {
                    reader.finish(&mut events)
                }
                Err(error) => return Err(error),
            };
            for event in events.drain(..) {
                match (event, &mut answer) {
                    (Event::Head(head), _) => {
                        answer = Some(Answer {
                            status: head.status,
                            retry_after_s: retry_after_s(&head.headers),
                            body: Vec::new(),
                            is_kept: false,
                        });
                    }
                    (Event::Body(piece), Some(answer)) => answer.body.extend(piece),
                    (Event::End { is_reusable }, Some(answer)) => answer.is_kept = is_reusable,
                    _ => {}
                }
            }
            let is_long = |answer: &Answer| answer.body.len() > ANSWER_BYTES_MAX;
            match read {
                Err(error @ ResponseError::Empty) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error));
                }
                // The request was accepted, although the end of the response is ambiguous.
                Err(ResponseError::Head(HeadError::Framing { status })) if status >= 200 => {
                    return Ok(Some(Answer {
                        status,
                        retry_after_s: None,
                        body: Vec::new(),
                        is_kept: false,
                    }));
                }
                // The status is valid, even if the rest of the response is cut off.
                Err(_) => return Ok(answer),
                Ok(()) if reader.is_complete() || answer.as_ref().is_some_and(is_long) => {
                    return Ok(answer);
                }
                Ok(()) => {}
            }
        }
    }
}

fn retry_after_s(headers: &[(Vec<u8>, Vec<u8>)]) -> Option<u64> {
    let named = |name: &[u8]| name.eq_ignore_ascii_case(b"retry-after");
    let (_, value) = headers.iter().find(|(name, _)| named(name))?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// Connects to the first address that accepts a connection.
///
/// # Errors
/// The error of the last address.
pub fn connect(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    connect_to(&addresses, until)
}

fn connect_to(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, left(until)?) {
            Ok(socket) => {
                limit(&socket, until)?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(timed_out())
    } else {
        Ok(left)
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// Replaces the error that a socket reports at its time-out, because it is the same error as for a non-blocking socket without
/// data.
fn as_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        _ => error,
    }
}

fn limit(socket: &TcpStream, until: Instant) -> io::Result<()> {
    let left = left(until)?;
    socket.set_read_timeout(Some(left))?;
    socket.set_write_timeout(Some(left))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn sending_single_bytes_does_not_extend_the_timeout() {
        // The head of a TLS record of 16 KiB, which arrives in a quarter of an hour.
        let beginnings: [(&str, &[u8]); 2] = [
            ("https", b"\x16\x03\x03\x40\x00"),
            ("http", b"HTTP/1.1 200 OK\r\nX: "),
        ];
        for (scheme, beginning) in beginnings {
            let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
            let port = listener.local_addr().expect("it is bound").port();
            let server = std::thread::spawn(move || {
                let (mut socket, _) = listener.accept().expect("it is posted");
                let mut sent = socket.write_all(beginning);
                while sent.is_ok() {
                    std::thread::sleep(Duration::from_millis(50));
                    sent = socket.write_all(b"x");
                }
            });
            let url = Url::parse(&format!("{scheme}://localhost:{port}/")).expect("it is one");
            let mut poster = HttpPoster::new(url, Duration::from_millis(300));
            if scheme == "https" {
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let configuration = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .expect("rustls has them")
                    .with_root_certificates(rustls::RootCertStore::empty())
                    .with_no_client_auth();
                poster.tls = Some(Arc::new(configuration));
            }
            let failure = poster.post(&[], b"{}").map(|_| ()).expect_err("no answer");
            assert_eq!(failure.to_string(), "no response: no answer in time");
            // The client has closed the connection; otherwise this join would not return.
            server.join().expect("it does not panic");
        }
    }

    #[test]
    fn accepts_the_status_of_a_response_with_ambiguous_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let address = listener.local_addr().expect("it is bound");
        let server = std::thread::spawn(move || {
            for status in ["200 OK", "503 Busy"] {
                let (mut socket, _) = listener.accept().expect("one per post");
                let mut request = Vec::new();
                let mut buffer = [0; 1024];
                while !request.ends_with(b"{}") {
                    let len = socket.read(&mut buffer).expect("it is posted");
                    request.extend_from_slice(&buffer[..len]);
                }
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok"
                );
                socket.write_all(answer.as_bytes()).expect("it is read");
            }
        });
        let url = Url::parse(&format!("http://{address}/hook")).expect("it is one");
        let mut poster = HttpPoster::new(url, Duration::from_secs(60));
        let answer = poster.post(&[], b"{}").expect("it is answered");
        assert!(answer.is_success());
        assert!(!poster.is_connected(), "nobody knows what comes next on it");
        let answer = poster.post(&[], b"{}").expect("it is answered");
        assert_eq!((answer.status, answer.is_success()), (503, false));
        server.join().expect("it does not panic");
    }
}
