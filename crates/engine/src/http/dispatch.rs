//! Selects the part that responds to a request: a route, a file, the server itself, or the
//! application's fallback.

use std::sync::Arc;

use fermata_io::Driver;
use fermata_proto::http1::Method;
use fermata_proto::{http1, percent};

use crate::admin::stats::Counter;
use crate::admin::trace::Client;
use crate::http::Http;
use crate::http::files::Directory;
use crate::http::request::{Place, UNROUTED_FILE};
use crate::http::respond::refuse::refuse_restarting;
use crate::http::router::{Found, Params};
use crate::missed::missed;
use crate::net::Net;
use crate::net::connection::Origin;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;

/// The part that responds to a request.
pub(crate) enum Answerer {
    /// The application.
    Program,
    /// The server, which has already responded.
    Server,
    /// The WebSocket route with this number, if the request is a handshake.
    WebSocket(u16),
    /// The control socket.
    Control,
    /// The metrics and health endpoint.
    Metrics,
}

/// Result of the router, without borrowing it.
enum Outcome {
    Handler(u32),
    WebSocket(u16),
    /// A handler's path parameters are not valid text.
    NotText,
    File(Arc<Directory>, http1::Span, Option<u32>),
    Guarded(u32),
    NotImplemented,
    NotAllowed(String),
    Options(String),
    NotFound,
}

/// Returns a host without its port.
fn host_name(host: &[u8]) -> &[u8] {
    let end = host.iter().position(|&byte| byte == b':');
    &host[..end.unwrap_or(host.len())]
}

impl Http {
    /// Finds the part that responds to the current request. Sends the response if that part is the
    /// server.
    #[inline]
    pub(crate) fn dispatch<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
    ) -> Answerer {
        if !self.trace.is_recorded(index) {
            return self.dispatch_to(net, index);
        }
        let client = Client {
            address: self.client_address(net),
            is_secure: self.is_client_secure(net),
            host: self.client_host(net).map(<[u8]>::to_vec),
        };
        self.trace.on_client(index, &client);
        let answerer = self.dispatch_to(net, index);
        // `begin_upgrade` records handshakes, because it answers some of them itself.
        if matches!(answerer, Answerer::Program) {
            let label = self.router.label(self.request.handler);
            self.trace.on_route(index, label);
        }
        answerer
    }

    /// Runs the checks that settings require for each request. Returns false if the request was
    /// refused.
    #[inline(never)]
    fn examine<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) -> bool {
        self.note_contradiction(net);
        let Some(hosts) = &self.hosts else {
            return true;
        };
        // A web page cannot set `Host`, but it can set a header in which a proxy would report another host.
        let asked = [
            self.request.view(&net.input.bytes).host(),
            self.client_host(net),
        ];
        let Some(host) = asked.into_iter().find(|host| !hosts.allows(*host)) else {
            return true;
        };
        let text = format!(
            "This server answers localhost, addresses and the hosts of allowed_hosts, and {} is none of them; \
             add it, as in FERMATA_ALLOWED_HOSTS={0}.\n",
            String::from_utf8_lossy(host_name(host.unwrap_or_default()))
        );
        self.refuse(net, index, 403, &text);
        false
    }

    fn dispatch_to<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) -> Answerer {
        let Some(connection) = net.connections.at(index.connection()) else {
            // Unreachable: a request that was just read has a connection.
            return missed(Answerer::Server);
        };
        match connection.origin {
            Origin::Public => {}
            Origin::Control => {
                net.counts.add(Counter::ControlRequests, 1);
                return Answerer::Control;
            }
            Origin::Metrics => return Answerer::Metrics,
            Origin::Own => return self.hand_to(net.wires.handler_of(index)),
        }
        if net.running != Running::Serving && self.turn_over(net, index) {
            return Answerer::Server;
        }
        net.counts.add(Counter::Requests, 1);
        if self.examines && !self.examine(net, index) {
            return Answerer::Server;
        }
        if let Err(refusal) = self.decode_path(net) {
            let message = format!("{refusal}.\n");
            self.refuse(net, index, refusal.status(), &message);
            return Answerer::Server;
        }
        if self.request.unrouted != 0 {
            self.request.unrouted = 0;
            self.request.allow.clear();
        }
        match self.find(net) {
            Outcome::Handler(handler) => {
                self.request.handler = handler;
                Answerer::Program
            }
            Outcome::WebSocket(number) => Answerer::WebSocket(number),
            outcome => self.answer_unrouted(net, index, outcome),
        }
    }

    /// Passes the current request to another worker if this worker starts no more requests; refuses it if PHP cannot run. Returns
    /// false if the request is to be handled here.
    #[cold]
    pub(crate) fn turn_over<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) -> bool {
        if net.give_request(self, index.connection()) {
            return true;
        }
        let is_retired = matches!(net.running, Running::Retired { .. });
        if is_retired {
            net.counts.add(Counter::Requests, 1);
            refuse_restarting(self, net, index);
        }
        is_retired
    }

    /// Queries the router. The path parameters are stored in the request.
    #[inline]
    fn find<D: Driver>(&mut self, net: &Net<D>) -> Outcome {
        let request = &mut self.request;
        let method = request.head.method;
        let head = match request.place {
            Place::Input {
                head_start,
                body_start,
                ..
            } => &net.input.bytes[head_start..body_start],
            Place::Owned => &request.head_bytes[..],
        };
        let (path, slashes) = if request.path_is_plain {
            (request.head.path.of(head), &[][..])
        } else {
            (&request.path[..], &request.slashes[..])
        };
        let method_name = request.head.method_span.of(head);
        let params = &mut request.params;
        match self.router.find(method_name, path, slashes, params) {
            Found::WebSocket(number) => Outcome::WebSocket(number),
            // A 2xx response would look like an accepted WebSocket. An embedder that forwards requests handles the handshake
            // itself.
            _ if request.is_connect => Outcome::NotFound,
            Found::Handler(handler) => {
                if params.is_empty() || is_text(path) {
                    Outcome::Handler(handler)
                } else {
                    // Parameters become channel names, JSON and file names, which must be text.
                    Outcome::NotText
                }
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
        }
    }

    /// Answers a request without a handler route: by a file, the application's fallback, or an
    /// error.
    fn answer_unrouted<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        outcome: Outcome,
    ) -> Answerer {
        if (self.passes_on || !self.request.is_connect) && self.fall_back(&outcome) {
            return Answerer::Program;
        }
        match outcome {
            Outcome::Handler(handler) => return self.hand_to(handler),
            Outcome::WebSocket(number) => return Answerer::WebSocket(number),
            Outcome::NotText => {
                let text = "The path is not text: it must be UTF-8 without control characters.";
                self.answer_error(net, index, 400, None, text);
            }
            Outcome::File(directory, rest, fallback) => {
                if self.answer_static(net, index, &directory, rest) {
                    return Answerer::Server;
                }
                if let Some(handler) = fallback {
                    return self.hand_to(handler);
                }
                if self.fall_back(&Outcome::NotFound) {
                    return Answerer::Program;
                }
                self.answer_error(net, index, 404, None, "Nothing is here.");
            }
            Outcome::Guarded(handler) => {
                self.request.unrouted = UNROUTED_FILE;
                return self.hand_to(handler);
            }
            Outcome::NotImplemented => {
                let text = "This server does not know the method.";
                self.answer_error(net, index, 501, None, text);
            }
            Outcome::NotAllowed(allow) => {
                let text = "The method is not allowed here; see Allow.";
                self.answer_error(net, index, 405, Some(&allow), text);
            }
            Outcome::Options(allow) => self.answer_plain(net, index, 204, Some(&allow), b""),
            Outcome::NotFound => self.answer_error(net, index, 404, None, "Nothing is here."),
        }
        Answerer::Server
    }

    /// Passes the current request to a handler without path parameters.
    fn hand_to(&mut self, handler: u32) -> Answerer {
        self.request.handler = handler;
        self.request.params = Params::default();
        Answerer::Program
    }

    /// Passes an unrouted request to the application, if it has a fallback.
    fn fall_back(&mut self, outcome: &Outcome) -> bool {
        let Some(fallback) = self.router.fallback() else {
            return false;
        };
        let (status, allow) = match outcome {
            Outcome::NotFound => (404, ""),
            Outcome::NotAllowed(allow) if fallback.takes_methods => (405, &**allow),
            Outcome::Options(allow) if fallback.takes_methods => (204, &**allow),
            Outcome::NotImplemented if fallback.takes_methods && self.passes_on => (501, ""),
            _ => return false,
        };
        let handler = fallback.handler;
        self.request.unrouted = status;
        self.request.allow.clear();
        self.request.allow.push_str(allow);
        self.hand_to(handler);
        true
    }
}

impl Http {
    /// Decodes the path of the current request, unless it contains no escapes.
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

/// Returns true if a percent-decoded path is UTF-8 without control characters.
fn is_text(path: &[u8]) -> bool {
    // Fast path for printable ASCII, sixteen bytes at a time.
    let is_plain = |plain, byte: &u8| plain & (0x20..0x7f).contains(byte);
    path.iter().fold(true, is_plain)
        || std::str::from_utf8(path).is_ok() && !path.iter().any(u8::is_ascii_control)
}
