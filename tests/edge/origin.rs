//! The backend of all cases. The first path segment names the case and selects the handler.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Number of requests that are stored per name, unless all requests are stored.
const SEEN_MAX: usize = 50;

/// A request as received.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// In the order and spelling received.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Reaction of the origin.
pub enum Reply {
    /// Sends a response; the connection stays open.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Sends these bytes and closes.
    Close(Vec<u8>),
    /// Sends these bytes and keeps the connection open.
    Hang(Vec<u8>),
    /// Passes the connection to the case.
    Take(Box<dyn FnOnce(TcpStream) + Send>),
}

type Handler = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

#[derive(Default)]
struct State {
    handlers: HashMap<String, Handler>,
    seen: HashMap<String, Vec<Request>>,
    /// Connections that stay open.
    hanging: Vec<TcpStream>,
}

/// The backend.
#[derive(Clone)]
pub struct Origin {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Request {
    /// Returns the values of a header, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Returns a response with status 200.
pub fn ok(headers: &[(&'static str, &str)], body: impl AsRef<[u8]>) -> Reply {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    Reply::Answer(200, headers.collect(), body.as_ref().to_vec())
}

/// Returns a text response with status 200.
pub fn text(body: &str) -> Reply {
    ok(&[("Content-Type", "text/plain")], body)
}

impl Origin {
    /// Listens on a free port.
    pub fn start() -> Self {
        Self::start_on(0)
    }

    /// Starts a backend for a run of hours: it closes connections idle for `patience` and stores
    /// only the last requests.
    pub fn start_impatient(patience: Duration) -> Self {
        Self::serve_on(0, Some(patience))
    }

    /// Listens on this port.
    pub fn start_on(port: u16) -> Self {
        Self::serve_on(port, None)
    }

    fn serve_on(port: u16, patience: Option<Duration>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let origin = Self {
            state: Arc::default(),
            port,
        };
        let server = origin.clone();
        // Runs until the process exits; the test never joins it.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || server.serve(stream, patience));
            }
        });
        origin
    }

    /// Returns the port on which the backend listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Handles requests whose path starts with `/NAME`.
    pub fn on(&self, name: &str, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        self.lock()
            .handlers
            .insert(name.to_owned(), Arc::new(answer));
    }

    /// Returns the requests received for that name.
    pub fn seen(&self, name: &str) -> Vec<Request> {
        self.lock().seen.get(name).cloned().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream, patience: Option<Duration>) {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(patience);
        let Ok(mut writer) = stream.try_clone() else {
            return;
        };
        let mut reader = BufReader::new(stream);
        while let Ok(Some(request)) = read_request(&mut reader, &mut writer) {
            let name = request
                .target
                .split(['/', '?'])
                .nth(1)
                .unwrap_or_default()
                .to_owned();
            let handler = {
                let mut state = self.lock();
                let seen = state.seen.entry(name.clone()).or_default();
                seen.push(request.clone());
                if patience.is_some() && seen.len() > SEEN_MAX {
                    seen.remove(0);
                }
                state.handlers.get(&name).cloned()
            };
            let reply = match handler {
                Some(handler) => handler(&request),
                None => Reply::Answer(404, Vec::new(), b"no such case\n".to_vec()),
            };
            match reply {
                Reply::Answer(status, headers, body) => {
                    let head = request.method == "HEAD";
                    if writer
                        .write_all(&answer(status, &headers, &body, head))
                        .is_err()
                    {
                        return;
                    }
                }
                Reply::Close(bytes) => {
                    let _ = writer.write_all(&bytes);
                    let _ = writer.shutdown(std::net::Shutdown::Both);
                    return;
                }
                Reply::Hang(bytes) => {
                    let _ = writer.write_all(&bytes);
                    self.lock().hanging.push(writer);
                    return;
                }
                Reply::Take(run) => return run(writer),
            }
        }
    }
}

/// Encodes a response.
pub fn answer(status: u16, headers: &[(&str, String)], body: &[u8], is_head: bool) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !matches!(status, 204 | 304) {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    let body = if is_head { b"" } else { body };
    [text.as_bytes(), body].concat()
}

/// Reads the next request; returns `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead, writer: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let mut request = Request {
        method,
        target,
        headers: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        request
            .headers
            .push((name.to_owned(), value.trim().to_owned()));
    }
    if request.header("expect").is_some() {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if let Some(length) = request.header("content-length") {
        request.body = vec![0; length.parse().unwrap_or(0)];
        reader.read_exact(&mut request.body)?;
    } else if request.header("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let len = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; len + 2];
            reader.read_exact(&mut chunk)?;
            if len == 0 {
                break;
            }
            request.body.extend_from_slice(&chunk[..len]);
        }
    }
    Ok(Some(request))
}
