//! SockJS: WebSockets for browsers and networks that do not support them, with Pushpin's transports.
//!
//! A route's `sockjs` path has three kinds of requests. `/websocket` is a plain WebSocket; `/SERVER/SESSION/websocket` uses SockJS
//! framing (`framed`). All other requests poll, by `xhr` or script elements: a [`Session`] queues messages between two requests
//! (`session`, `queue`). Towards its origin, a session is the client of a WebSocket in its own worker, over a socket pair. So
//! subscriptions, control messages and WebSocket-over-HTTP work as for every WebSocket, at the cost of two descriptors per session.
//!
//! Requests of one session may reach any worker. The session's name determines its worker; other workers forward requests to that
//! worker over a Unix socket (`workers`). A worker that exits loses its sessions, like its WebSockets.

pub(super) mod framed;
mod reply;
mod session;
mod workers;

use std::rc::Rc;

use fermata_engine::RequestId;
use fermata_io::random::Masks;
use fermata_sockjs::place::{self, Place, Transport};
use fermata_sockjs::queue::PendingRequest;

use crate::client::clients::Clients;
use crate::client::request::{Body, ClientRequest};
use crate::client::source::{Engine, Source};
use crate::pushpin::sockjs::{SockJs, base, text};
use crate::server::edge::Edge;
use crate::timers::Timers;
use crate::upstream::connections::Connections;

/// Maximum size of a request body.
const BODY_BYTES_MAX: u64 = 100_000;

/// The iframe page is cached for a year, because its name contains a version.
const PAGE_CACHE: &str = "public, max-age=31536000";

/// Response to a page that uses another origin's session.
const OTHER_ORIGIN: &str = "The session belongs to a page of another origin.";

/// Parts of the edge that polling sessions need.
pub(super) struct Polling<'a> {
    sockjs: &'a mut SockJs,
    clients: &'a mut Clients,
    connections: &'a mut Connections,
    masks: &'a mut Masks,
    timers: &'a mut Timers,
    worker: &'a mut Engine,
}

/// Action for a request below the SockJS path.
enum Next {
    /// Do not forward the request: the edge responds itself, now or later.
    Answered,
    /// Forward the request to the origin as a WebSocket handshake.
    Socket(Source),
    /// Forward the request to the worker that has the session.
    HandOn(Source, usize),
}

impl Edge {
    pub(super) fn polling(&mut self) -> Polling<'_> {
        Polling {
            sockjs: &mut self.pushpin.sockjs,
            clients: &mut self.clients,
            connections: &mut self.upstream.connections,
            masks: &mut self.upstream.masks,
            timers: &mut self.timers,
            worker: &mut self.worker,
        }
    }

    /// Serves a request below the SockJS path, which is `at` bytes long. `is_of_worker` is true if another worker forwarded it.
    pub(super) fn begin_sockjs(
        &mut self,
        handle: RequestId,
        source: Source,
        at: usize,
        is_of_worker: bool,
    ) {
        match self
            .polling()
            .take_request(handle, source, at, is_of_worker)
        {
            Next::Answered => {}
            Next::Socket(source) => self.begin_socket(handle, source),
            Next::HandOn(source, owner) => self.hand_on(handle, &source, owner),
        }
    }
}

impl Polling<'_> {
    fn take_request(
        &mut self,
        handle: RequestId,
        source: Source,
        at: usize,
        is_of_worker: bool,
    ) -> Next {
        let request = Rc::clone(&source.request);
        let place = place::read(&request.path()[at..]);
        if request.is_websocket() {
            let is_framed = match place {
                Place::Socket => false,
                Place::Session(_, Transport::Socket) => true,
                _ => {
                    self.clients
                        .answer_text(self.worker, handle, 404, "Not Found");
                    return Next::Answered;
                }
            };
            let mut source = source;
            source.request = Rc::new(for_backend(&source, at));
            source.is_sockjs = is_framed;
            return Next::Socket(source);
        }
        if request.body.bytes() > BODY_BYTES_MAX {
            self.refuse(handle, &request, 400, "Request too large.");
            return Next::Answered;
        }
        match (&request.method[..], place) {
            (b"OPTIONS", _) => self.answer_preflight(handle, &request),
            (b"GET", Place::Info) => self.answer_info(handle, &request),
            (b"GET", Place::Page) if !self.sockjs.url.is_empty() => {
                self.answer_page(handle, &request);
            }
            (method, Place::Session(name, transport)) if transport.takes(method) => {
                let own = usize::from(self.worker.index());
                let owner = self.sockjs.owner_of(own, name);
                if owner != own && !is_of_worker {
                    return Next::HandOn(source, owner);
                }
                self.on_session_request(handle, source, at, name, transport);
            }
            _ => self.refuse(handle, &request, 404, "Not Found"),
        }
        Next::Answered
    }

    /// Handles a request of a polling session in the session's worker.
    fn on_session_request(
        &mut self,
        handle: RequestId,
        source: Source,
        at: usize,
        name: &[u8],
        transport: Transport,
    ) {
        let request = Rc::clone(&source.request);
        let callback = match text::callback(&request, transport.is_script()) {
            Ok(callback) => callback,
            Err(()) => {
                return self.refuse(handle, &request, 400, "Invalid callback parameter.");
            }
        };
        if transport == Transport::ScriptPoll && callback.is_none() {
            return self.refuse(handle, &request, 400, "Bad Request");
        }
        let pending = PendingRequest {
            handle,
            callback,
            origin: request.header("origin").map(<[u8]>::to_vec),
        };
        let name = (
            request.host_name().to_ascii_lowercase(),
            base(&source).unwrap_or_default().to_owned(),
            name.to_vec(),
        );
        let known = self.sockjs.by_name.get(&name).copied();
        let session = known.and_then(|id| self.sockjs.sessions.get_mut(&id));
        if session.is_some_and(|session| !session.admits(pending.origin.as_deref())) {
            return self.refuse_pending(&pending, 403, OTHER_ORIGIN);
        }
        match (known, transport.is_send()) {
            (Some(id), true) => match text::payload(&request, transport) {
                Some(messages) => self.take_messages(id, pending, messages),
                None => self.refuse(handle, &request, 400, "Payload expected"),
            },
            (Some(id), false) => self.poll(id, pending),
            (None, true) => self.refuse(handle, &request, 404, "Not Found"),
            (None, false) => {
                let mut source = source;
                source.request = Rc::new(for_backend(&source, at));
                self.open(name, source, pending);
            }
        }
    }
}

/// Returns the handshake that a session sends to its origin.
fn for_backend(source: &Source, at: usize) -> ClientRequest {
    const OF_REQUEST: [&str; 4] = [
        "content-type",
        "content-length",
        "transfer-encoding",
        "expect",
    ];
    let request = &source.request;
    let own_path = source
        .rule()
        .and_then(|rule| rule.sockjs_as_path.as_deref());
    let mut target = match own_path {
        Some(path) if !path.is_empty() => path.as_bytes().to_vec(),
        _ => [&request.path()[..at], b"/websocket"].concat(),
    };
    let query = text::query_for_backend(request);
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(&query);
    }
    let is_passed = |name: &[u8]| {
        !OF_REQUEST
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    let headers = request.headers.iter();
    ClientRequest {
        method: b"GET".to_vec(),
        target,
        headers: headers
            .filter(|(name, _)| is_passed(name))
            .cloned()
            .collect(),
        body: Body::None,
        peer: request.peer,
        host: request.host.clone(),
        is_tls: request.is_tls,
    }
}
