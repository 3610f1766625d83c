//! The backend of all cases: what it answers is decided by the first part of the path, which names the case.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Of each name, where they are not all kept.
const SEEN_MAX: usize = 50;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// As sent, in order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What the origin does about it.
pub enum Reply {
    /// Answers; the connection stays.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Sends these bytes and closes.
    Close(Vec<u8>),
    /// Sends these bytes and nothing more, but does not close.
    Hang(Vec<u8>),
    /// Lets the case have the connection.
    Take(Box<dyn FnOnce(TcpStream) + Send>),
}

type Handler = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

#[derive(Default)]
struct State {
    handlers: HashMap<String, Handler>,
    seen: HashMap<String, Vec<Request>>,
    /// Connections that must not close.
    hanging: Vec<TcpStream>,
}

/// The backend.
#[derive(Clone)]
pub struct Origin {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Request {
    /// The values of a header, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// An answer of 200.
pub fn ok(headers: &[(&'static str, &str)], body: impl AsRef<[u8]>) -> Reply {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    Reply::Answer(200, headers.collect(), body.as_ref().to_vec())
}

/// A text of 200.
pub fn text(body: &str) -> Reply {
    ok(&[("Content-Type", "text/plain")], body)
}

impl Origin {
    /// Listens on a free port.
    pub fn start() -> Self {
        Self::start_on(0)
    }

    /// The same for a run of hours: connections without a request for this long are closed, and of requests the last few are
    /// kept.
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
        // Ends with the process: nothing of the test waits for it.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || server.serve(stream, patience));
            }
        });
        origin
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers requests whose path begins with `/NAME`.
    pub fn on(&self, name: &str, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        self.lock()
            .handlers
            .insert(name.to_owned(), Arc::new(answer));
    }

    /// The requests of that name so far.
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

/// An answer as bytes.
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

/// The next request; `None` at the end.
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
