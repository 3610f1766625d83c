//! Publishing to an HTTP control port, over a connection that is kept while the port keeps it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fermata_proto::response_reader::{Event, RequestKind, ResponseError, ResponseReader};
use rustls::ClientConfig;
use serde_json::json;

use crate::address::Url;
use crate::tls::{self, Stream};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The longest part of a refusal that is shown.
const SHOWN_CHARS_MAX: usize = 500;

/// Why something was not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Nobody has answered in time, or not in HTTP.
    #[error("{0}; is an edge or Pushpin listening there?")]
    Unreachable(String),
    /// Nothing was sent: what the port would want to see cannot be shown to it.
    #[error("{0}")]
    Unauthorized(String),
    /// The answer is no 2xx.
    #[error("{authority} refuses with {status}: {text}")]
    Refused {
        /// Host and port.
        authority: String,
        /// Its status.
        status: u16,
        /// The beginning of what it says.
        text: String,
    },
}

impl PublishError {
    /// Whether the same items will never be taken: they are to blame, and no password or rate.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if matches!(status, 400 | 405..=407 | 409..=428 | 430..=499))
    }

    /// Whether the items may be to blame although it does not say so: a filter in between forbids one, or something fails
    /// over it. Who is overloaded says that it is about all of them.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if !self.is_final() && !matches!(status, 408 | 429 | 503))
    }
}

/// A publisher to one control port.
pub struct Client {
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
struct Answer {
    status: u16,
    body: Vec<u8>,
    is_kept: bool,
}

impl Client {
    /// A client that gives each publish so much time, connecting included.
    pub fn new(url: Url, timeout: Duration) -> Self {
        Self {
            url,
            timeout,
            kept: None,
            addresses: Vec::new(),
            tls: None,
        }
    }

    /// Reads whom the system trusts, if that is needed: later it would be done for the first publish, and look at the
    /// environment then.
    ///
    /// # Errors
    /// What is wrong with the certificates.
    pub fn prepare(&mut self) -> Result<(), String> {
        if self.url.is_tls && self.tls.is_none() {
            self.tls = Some(tls::configuration()?);
        }
        Ok(())
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.url.authority()
    }

    /// Publishes items of JSON and waits for the answer; any 2xx is a success.
    ///
    /// # Errors
    /// Why they are not published, as far as is known.
    pub fn publish(
        &mut self,
        authorization: Option<&str>,
        items: &[serde_json::Value],
    ) -> Result<(), PublishError> {
        let until = Instant::now() + self.timeout;
        let request = self.request(authorization, &json!({ "items": items }).to_string());
        if let Some(mut kept) = self.kept.take()
            && let Ok(Some(answer)) = kept.exchange(&request, until)
        {
            return self.finish(kept, answer);
        }
        // The port may have closed what was kept at any moment, and ids keep an edge from delivering twice.
        let authority = self.url.authority();
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            PublishError::Unreachable(format!("cannot {what} {authority}: {error}"))
        };
        let mut connection = self
            .connect(until)
            .map_err(|error| failed("connect to", &error))?;
        match connection.exchange(&request, until) {
            Ok(Some(answer)) => self.finish(connection, answer),
            Ok(None) => Err(failed("publish to", &"the answer is not HTTP")),
            Err(error) => Err(failed("publish to", &error)),
        }
    }

    fn connect(&mut self, until: Instant) -> Result<Connection, String> {
        if let Some(path) = &self.url.socket {
            let connected = UnixStream::connect(path).and_then(|it| Ok((it.try_clone()?, it)));
            let (twin, socket) = connected.map_err(|error| error.to_string())?;
            return Ok(Connection {
                stream: Box::new(twin),
                socket: Socket::Unix(socket),
            });
        }
        self.prepare()?;
        let connected = self
            .connect_tcp(until)
            .and_then(|it| Ok((it.try_clone()?, it)));
        let (twin, socket) = connected.map_err(|error| error.to_string())?;
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

    fn request(&self, authorization: Option<&str>, body: &str) -> Vec<u8> {
        let authorization =
            authorization.map_or(String::new(), |value| format!("Authorization: {value}\r\n"));
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\n{authorization}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.url.path,
            self.url.host_header(),
            body.len(),
        )
        .into_bytes()
    }

    fn finish(&mut self, connection: Connection, answer: Answer) -> Result<(), PublishError> {
        if answer.is_kept {
            self.kept = Some(connection);
        }
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&answer.body);
        let text: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
        Err(PublishError::Refused {
            authority: self.authority(),
            status: answer.status,
            text: text.escape_debug().to_string(),
        })
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
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn client(port: u16) -> Client {
        let url = Url {
            is_tls: false,
            host: "127.0.0.1".into(),
            port,
            path: "/publish/".into(),
            socket: None,
        };
        Client::new(url, TIMEOUT)
    }

    fn read_request(socket: &mut TcpStream) -> String {
        let (mut request, mut buffer) = (String::new(), [0; 4096]);
        loop {
            let len = socket.read(&mut buffer).expect("a request");
            assert!(len > 0, "a whole request");
            request.push_str(std::str::from_utf8(&buffer[..len]).expect("ASCII"));
            let Some((head, body)) = request.split_once("\r\n\r\n") else {
                continue;
            };
            let (_, rest) = head.split_once("Content-Length: ").expect("a length");
            let length = rest.lines().next().expect("a line");
            if body.len() >= length.parse().expect("a number") {
                return request;
            }
        }
    }

    /// Publishes to a server that answers so; the outcome, and what the server was sent.
    fn against(answer: &'static [u8]) -> (Result<(), PublishError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let request = read_request(&mut socket);
            socket.write_all(answer).expect("a client that reads");
            request
        });
        let outcome = client(port).publish(Some("Bearer t"), &[json!({"channel": "c"})]);
        (outcome, server.join().expect("the server"))
    }

    #[test]
    fn items_are_posted_and_2xx_is_a_success() {
        let (outcome, request) =
            against(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nPublished\n");
        assert_eq!(outcome, Ok(()));
        assert!(
            request.starts_with("POST /publish/ HTTP/1.1\r\nHost: 127.0.0.1:"),
            "{request}"
        );
        assert!(
            request.contains("\r\nAuthorization: Bearer t\r\n"),
            "{request}"
        );
        assert!(
            request.ends_with(r#"{"items":[{"channel":"c"}]}"#),
            "{request}"
        );
        assert_eq!(against(b"HTTP/1.0 202 Fine\r\n\r\n").0, Ok(()));
    }

    #[test]
    fn a_connection_is_kept_as_long_as_the_answers_allow() {
        const ANSWERS: [&[u8]; 5] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            // Then the server closes, without a word.
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        ];
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            for answers in [&ANSWERS[..4], &ANSWERS[4..]] {
                let (mut socket, _) = listener.accept().expect("a client");
                for answer in answers {
                    read_request(&mut socket);
                    socket.write_all(answer).expect("a client that reads");
                }
            }
        });
        let mut client = client(port);
        for _ in ANSWERS {
            assert_eq!(client.publish(None, &[json!({})]), Ok(()));
        }
        assert!(client.kept.is_none());
        server.join().expect("the server");
    }

    #[test]
    fn a_refusal_is_shown_and_garbage_is_no_answer() {
        let (outcome, _) =
            against(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 16\r\n\r\nInvalid format.\n");
        let error = outcome.expect_err("a refusal");
        assert!(error.is_final());
        let error = error.to_string();
        assert!(
            error.contains("refuses with 400: Invalid format."),
            "{error}"
        );
        for (garbage, said) in [
            (&b"SSH-2.0-x\r\n"[..], "not HTTP"),
            (b"", "without a response"),
            (b"HTTP/1.1 2", "not HTTP"),
        ] {
            let error = against(garbage).0.expect_err("no answer");
            assert!(!error.is_final());
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn only_an_answer_that_may_be_about_items_is_doubted() {
        let refused = |status| PublishError::Refused {
            authority: String::new(),
            status,
            text: String::new(),
        };
        for (status, is_doubtful) in [(400, false), (413, false), (408, false), (429, false)] {
            assert_eq!(refused(status).is_doubtful(), is_doubtful, "{status}");
        }
        for (status, is_doubtful) in [(401, true), (403, true), (404, true), (500, true)] {
            assert_eq!(refused(status).is_doubtful(), is_doubtful, "{status}");
        }
        assert!(!refused(503).is_doubtful() && refused(502).is_doubtful());
        assert!(!PublishError::Unreachable(String::new()).is_doubtful());
    }

    #[test]
    fn nobody_there_is_said_with_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let error = client(port).publish(None, &[]).expect_err("nobody");
        assert!(
            error.to_string().contains(&format!("127.0.0.1:{port}")),
            "{error}"
        );
    }
}
