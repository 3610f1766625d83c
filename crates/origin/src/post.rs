//! Posting JSON to a URL, over a connection that is kept while the server keeps it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fermata_proto::response_reader::{
    Event, HeadError, RequestKind, ResponseError, ResponseReader,
};
use rustls::ClientConfig;

use crate::address::Url;
use crate::tls::{self, Stream, TlsError};

/// The longest answer that is read.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The longest part of an answer that is shown.
const SHOWN_CHARS_MAX: usize = 500;

/// Posts JSON to one URL.
pub struct Poster {
    url: Url,
    timeout: Duration,
    kept: Option<Connection>,
    /// Those of the host; looked up again when none of them takes a connection.
    addresses: Vec<SocketAddr>,
    /// Once it was needed.
    tls: Option<Arc<ClientConfig>>,
}

struct Connection {
    stream: Box<dyn Stream>,
    /// The same socket, for its time-outs.
    socket: Socket,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// No step on it takes longer than until then.
    fn limit(&self, until: Instant) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => limit(socket, until),
            Self::Unix(socket) => {
                let left = left(until)?;
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))
            }
        }
    }
}

/// An answer, as far as it matters.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// After how many seconds it is to be tried again, where it says so (`Retry-After`, RFC 9110, 10.2.3); dates are not read.
    pub retry_after_s: Option<u64>,
    body: Vec<u8>,
    is_kept: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Nothing was sent: nobody has taken a connection in time.
    #[error("cannot connect: {0}")]
    Connecting(String),
    /// It may have been received, and was not answered in time or not in HTTP.
    #[error("no answer: {0}")]
    Exchanging(String),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Answer {
    /// Whether what was posted is taken.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Its content.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Whether it was longer than what is read of it.
    pub fn is_cut(&self) -> bool {
        self.body.len() > ANSWER_BYTES_MAX
    }

    /// The beginning of what it says, for a log.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let text: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
        text.escape_debug().to_string()
    }
}

impl Poster {
    /// One that gives each post so much time, connecting included.
    pub fn new(url: Url, timeout: Duration) -> Self {
        Self {
            url,
            timeout,
            kept: None,
            addresses: Vec::new(),
            tls: None,
        }
    }

    /// Reads whom the system trusts, if that is needed: later it would be done for the first post, and look at the
    /// environment then.
    ///
    /// # Errors
    /// What is wrong with the certificates.
    pub fn prepare(&mut self) -> Result<(), TlsError> {
        if self.url.is_tls && self.tls.is_none() {
            self.tls = Some(tls::configuration()?);
        }
        Ok(())
    }

    /// Gives each post so much time from here on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.url.authority()
    }

    /// Posts JSON with more headers and waits for the answer. What is posted over a connection that was kept, and gets no
    /// answer there, is posted once more: the server may have closed it at any moment.
    ///
    /// # Errors
    /// Why there is no answer, as far as is known.
    pub fn post(&mut self, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer, PostError> {
        self.post_as("application/json", headers, body)
    }

    /// The same with content of another type.
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

    /// Gets what is there, as one of these media types.
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
            Ok(None) => Err(PostError::Exchanging("the answer is not HTTP".to_owned())),
            Err(error) => Err(PostError::Exchanging(error.to_string())),
        }
    }

    /// Whether a connection is kept for the next post.
    pub fn is_connected(&self) -> bool {
        self.kept.is_some()
    }

    fn connect(&mut self, until: Instant) -> Result<Connection, ConnectError> {
        if let Some(path) = &self.url.socket {
            let connected = UnixStream::connect(path).and_then(|it| Ok((it.try_clone()?, it)));
            let (twin, socket) = connected?;
            return Ok(Connection {
                stream: Box::new(twin),
                socket: Socket::Unix(socket),
            });
        }
        self.prepare()?;
        let connected = self
            .connect_tcp(until)
            .and_then(|it| Ok((it.try_clone()?, it)));
        let (twin, socket) = connected?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => tls::connect(twin, &self.url.host, tls)?,
            None => Box::new(twin),
        };
        Ok(Connection {
            stream,
            socket: Socket::Tcp(socket),
        })
    }

    fn connect_tcp(&mut self, until: Instant) -> io::Result<TcpStream> {
        if self.addresses.is_empty() {
            let found = (&*self.url.host, self.url.port).to_socket_addrs()?;
            self.addresses = found.collect();
        }
        let connected = connect_to(&self.addresses, until);
        if connected.is_err() {
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
    /// Status and body of the answer; `None`: it is none.
    fn exchange(&mut self, request: &[u8], until: Instant) -> io::Result<Option<Answer>> {
        self.socket.limit(until)?;
        self.stream.write_all(request)?;
        self.stream.flush()?;
        let mut reader = ResponseReader::new(RequestKind::default());
        let (mut events, mut answer) = (Vec::new(), None::<Answer>);
        let mut buffer = [0; 4096];
        loop {
            self.socket.limit(until)?;
            let read = match self.stream.read(&mut buffer) {
                Ok(0) => reader.finish(&mut events),
                Ok(len) => reader.handle(&buffer[..len], &mut events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Servers that close without TLS's farewell have answered nevertheless.
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
                // What was posted is taken, though nobody can tell where the answer ends.
                Err(ResponseError::Head(HeadError::Framing { status })) if status >= 200 => {
                    return Ok(Some(Answer {
                        status,
                        retry_after_s: None,
                        body: Vec::new(),
                        is_kept: false,
                    }));
                }
                // The status counts, also where the rest is cut off.
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

/// Connects to the first address that takes the connection.
///
/// # Errors
/// Those of the last address.
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
    match left.is_zero() {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        false => Ok(left),
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
    fn a_status_counts_where_only_the_end_of_the_answer_is_ambiguous() {
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
        let mut poster = Poster::new(url, Duration::from_secs(60));
        let answer = poster.post(&[], b"{}").expect("it is answered");
        assert!(answer.is_success());
        assert!(!poster.is_connected(), "nobody knows what comes next on it");
        let answer = poster.post(&[], b"{}").expect("it is answered");
        assert_eq!((answer.status, answer.is_success()), (503, false));
        server.join().expect("it does not panic");
    }
}
