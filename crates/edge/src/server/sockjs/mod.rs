//! SockJS: WebSockets for browsers and networks without them, in the transports that Pushpin has.
//!
//! Three things stand below a route's `sockjs` path. A WebSocket at `/websocket` is one like any other; one at
//! `/SERVER/SESSION/websocket` has its messages wrapped (`framed`). Everything else is polling, by `xhr` or by script
//! elements: a [`Session`] collects what its client is to get between two requests (`session`, `queue`). Towards its
//! backend it is the client of a WebSocket in its own worker, over a pair of sockets: subscriptions, control messages
//! and backends over HTTP are those of every WebSocket, and the price is two descriptors per session.
//!
//! Requests of one session may reach any worker. Its name says which one has it; the others hand them on over a Unix
//! socket and pass the answer back (`workers`). A worker that ends takes its sessions along, as its WebSockets.

pub(super) mod framed;
mod reply;
mod session;
mod workers;

use std::rc::Rc;

use fermata_engine::RequestId;
use fermata_io::random::Masks;
use fermata_sockjs::place::{self, Place, Transport};
use fermata_sockjs::queue::Asker;

use crate::client::clients::Clients;
use crate::client::request::{Body, ClientRequest};
use crate::client::source::{Engine, Source};
use crate::pushpin::sockjs::{SockJs, base, text};
use crate::server::edge::Edge;
use crate::timers::Timers;
use crate::upstream::connections::Connections;

/// The largest body of a request.
const BODY_BYTES_MAX: u64 = 100_000;

/// The largest page of an iframe lasts a year: its name has a version in it.
const PAGE_CACHE: &str = "public, max-age=31536000";

/// What polling sessions need: the clients they answer, and the wires of their WebSockets.
pub(super) struct Polling<'a> {
    sockjs: &'a mut SockJs,
    clients: &'a mut Clients,
    connections: &'a mut Connections,
    masks: &'a mut Masks,
    timers: &'a mut Timers,
    worker: &'a mut Engine,
}

/// What becomes of a request below the path of SockJS.
enum Next {
    /// It is, or will be, answered from here.
    Answered,
    /// It is the handshake of a WebSocket for the backend.
    Socket(Source),
    /// Another worker has its session.
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

    /// Serves a request below the path of SockJS, of which `at` bytes come before; `is_of_worker`: another worker has got it.
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

    /// A request of a polling session, in the worker that has it.
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
        let asker = Asker {
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
        match (known, transport.is_send()) {
            (Some(id), true) => match text::payload(&request, transport) {
                Some(messages) => self.take_messages(id, asker, messages),
                None => self.refuse(handle, &request, 400, "Payload expected"),
            },
            (Some(id), false) => self.poll(id, asker),
            (None, true) => self.refuse(handle, &request, 404, "Not Found"),
            (None, false) => {
                let mut source = source;
                source.request = Rc::new(for_backend(&source, at));
                self.open(name, source, asker);
            }
        }
    }
}

/// The handshake of a session as its backend sees it.
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
