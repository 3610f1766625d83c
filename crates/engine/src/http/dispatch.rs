//! Who answers a request: its route, a file, the server itself, or the program for what has no route.

use std::sync::Arc;

use fermata_io::Driver;
use fermata_proto::http1::Method;
use fermata_proto::{http1, percent};

use crate::admin::stats::Counter;
use crate::admin::trace::Client;
use crate::embed::event::Event;
use crate::http::Http;
use crate::http::files::Directory;
use crate::http::request::{Place, UNROUTED_FILE};
use crate::http::router::{Found, Params};
use crate::net::Net;
use crate::net::connection::Origin;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;
use crate::worker::Worker;

/// What the router found, without borrowing it.
enum Outcome {
    File(Arc<Directory>, http1::Span, Option<u32>),
    Guarded(u32),
    NotImplemented,
    NotAllowed(String),
    Options(String),
    NotFound,
}

impl Http {
    /// Hands a request that no route serves to the program, if that wants it.
    fn fall_back(&mut self, outcome: &Outcome) -> Option<Event> {
        let fallback = self.router.fallback()?;
        let (status, allow) = match outcome {
            Outcome::NotFound => (404, ""),
            Outcome::NotAllowed(allow) if fallback.takes_methods => (405, &**allow),
            Outcome::Options(allow) if fallback.takes_methods => (204, &**allow),
            Outcome::NotImplemented if fallback.takes_methods && self.passes_on => (501, ""),
            _ => return None,
        };
        let request = &mut self.request;
        request.unrouted = status;
        request.allow.clear();
        request.allow.push_str(allow);
        request.handler = fallback.handler;
        request.params = Params::default();
        Some(Event::Request)
    }
}

impl<D: Driver> Worker<D> {
    /// Finds who answers the current request and answers it unless that is PHP.
    pub(crate) fn dispatch(&mut self) -> Option<Event> {
        let index = self.http.request.index();
        if !self.http.trace.is_recorded(index) {
            return self.dispatch_to(index);
        }
        let client = Client {
            address: self.http.client_address(&self.net),
            is_secure: self.http.is_client_secure(&self.net),
            host: self.http.client_host(&self.net).map(<[u8]>::to_vec),
        };
        self.http.trace.on_client(index, &client);
        let event = self.dispatch_to(index);
        // Handshakes are told by `begin_upgrade`, which answers some.
        if matches!(event, Some(Event::Request)) {
            let label = self.http.router.label(self.http.request.handler);
            self.http.trace.on_route(index, label);
        }
        event
    }

    fn dispatch_to(&mut self, index: ExchangeIndex) -> Option<Event> {
        let origin = match self.net.connections.at(index.connection()) {
            Some(connection) => connection.origin,
            None => return None,
        };
        if origin != Origin::Public {
            return self.dispatch_inner(index, origin);
        }
        self.net.counts.add(Counter::Requests, 1);
        self.http.note_contradiction(&mut self.net);
        if matches!(self.net.running, Running::Retired { .. }) {
            self.http.refuse(
                &mut self.net,
                index,
                503,
                "The server is restarting this worker; try again.\n",
            );
            return None;
        }
        if let Err(refusal) = self.http.decode_path(&self.net) {
            let message = format!("{refusal}.\n");
            self.http
                .refuse(&mut self.net, index, refusal.status(), &message);
            return None;
        }
        if self.http.request.unrouted != 0 {
            self.http.request.unrouted = 0;
            self.http.request.allow.clear();
        }
        let request = &mut self.http.request;
        let method = request.head.method;
        let head = match request.place {
            Place::Input {
                head_start,
                body_start,
                ..
            } => &self.net.input.bytes[head_start..body_start],
            Place::Owned => &request.head_bytes[..],
        };
        let (path, slashes) = if request.path_is_plain {
            (request.head.path.of(head), &[][..])
        } else {
            (&request.path[..], &request.slashes[..])
        };
        let method_name = request.head.method_span.of(head);
        let params = &mut request.params;
        let found = self.http.router.find(method_name, path, slashes, params);
        let outcome = match found {
            Found::WebSocket(number) => return self.begin_upgrade(index, number),
            // A success would look like a WebSocket. Who passes requests on takes it as a handshake itself.
            _ if request.is_connect => Outcome::NotFound,
            Found::Handler(handler) => {
                request.handler = handler;
                if !request.params.is_empty() && !is_text(path) {
                    // Parameters become names of channels, JSON and file names, none of which may be anything else.
                    let text = "The path is not text: it must be UTF-8 without control characters.";
                    self.http
                        .answer_error(&mut self.net, index, 400, None, text);
                    return None;
                }
                return Some(Event::Request);
            }
            Found::Files {
                handler: Some(handler),
                ..
            } => Outcome::Guarded(handler),
            Found::Files {
                directory,
                rest,
                fallback,
                ..
            } => Outcome::File(Arc::clone(directory), rest, fallback),
            Found::MethodNotAllowed { .. } if method == Method::Other => Outcome::NotImplemented,
            Found::NotFound if method == Method::Other => Outcome::NotImplemented,
            Found::MethodNotAllowed { allow } => Outcome::NotAllowed(allow.to_owned()),
            Found::Options { allow } => Outcome::Options(allow.to_owned()),
            Found::NotFound => Outcome::NotFound,
        };
        if (self.http.passes_on || !self.http.request.is_connect)
            && let Some(event) = self.http.fall_back(&outcome)
        {
            return Some(event);
        }
        match outcome {
            Outcome::File(directory, rest, fallback) => {
                if !self.answer_static(index, &directory, rest) {
                    if let Some(handler) = fallback {
                        self.http.request.handler = handler;
                        self.http.request.params = Params::default();
                        return Some(Event::Request);
                    }
                    let event = self.http.fall_back(&Outcome::NotFound);
                    if event.is_some() {
                        return event;
                    }
                    self.http
                        .answer_error(&mut self.net, index, 404, None, "Nothing is here.");
                }
            }
            Outcome::Guarded(handler) => {
                self.http.request.unrouted = UNROUTED_FILE;
                self.http.request.handler = handler;
                self.http.request.params = Params::default();
                return Some(Event::Request);
            }
            Outcome::NotImplemented => {
                self.http.answer_error(
                    &mut self.net,
                    index,
                    501,
                    None,
                    "This server does not know the method.",
                );
            }
            Outcome::NotAllowed(allow) => {
                let text = "The method is not allowed here; see Allow.";
                self.http
                    .answer_error(&mut self.net, index, 405, Some(&allow), text);
            }
            Outcome::Options(allow) => {
                self.http
                    .answer_plain(&mut self.net, index, 204, Some(&allow), b"")
            }
            Outcome::NotFound => {
                self.http
                    .answer_error(&mut self.net, index, 404, None, "Nothing is here.")
            }
        }
        None
    }

    /// A request of a listener that is not for the public.
    fn dispatch_inner(&mut self, index: ExchangeIndex, origin: Origin) -> Option<Event> {
        match origin {
            Origin::Control => {
                self.net.counts.add(Counter::ControlRequests, 1);
                self.answer_control(index);
                None
            }
            Origin::Metrics => {
                self.answer_metrics(index);
                None
            }
            Origin::Own | Origin::Public => {
                self.http.request.handler = self.net.wires.handler_of(index);
                self.http.request.params = Params::default();
                Some(Event::Request)
            }
        }
    }
}

impl Http {
    /// Decodes the path of the current request, unless there is nothing to decode.
    fn decode_path<D: Driver>(&mut self, net: &Net<D>) -> Result<(), http1::Refusal> {
        let mut path = std::mem::take(&mut self.request.path);
        let mut slashes = std::mem::take(&mut self.request.slashes);
        let view = self.request.view(&net.input.bytes);
        let raw_path = self.request.head.path.of(view.head);
        let outcome = percent::decode_path(raw_path, &mut path, &mut slashes);
        self.request.path_is_plain = outcome != Ok(true);
        self.request.path_shown.clear();
        if !slashes.is_empty() {
            let mut rest = 0;
            for slash in slashes.iter().map(|at| *at as usize) {
                self.request
                    .path_shown
                    .extend_from_slice(&path[rest..slash]);
                self.request.path_shown.extend_from_slice(b"%2F");
                rest = slash + 1;
            }
            self.request.path_shown.extend_from_slice(&path[rest..]);
        }
        self.request.path = path;
        self.request.slashes = slashes;
        outcome.map(|_| ())
    }
}

/// Whether a path that was percent-decoded is UTF-8 without control characters.
fn is_text(path: &[u8]) -> bool {
    // Nearly every path is printable ASCII, which is seen sixteen bytes at a time.
    let is_plain = |plain, byte: &u8| plain & (0x20..0x7f).contains(byte);
    path.iter().fold(true, is_plain)
        || std::str::from_utf8(path).is_ok() && !path.iter().any(u8::is_ascii_control)
}
