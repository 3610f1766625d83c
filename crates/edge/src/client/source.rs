//! Sources and owners of responses. A source is a request and the target that receives it. An owner is the part of the edge that
//! waits for the response.

use std::rc::Rc;

use fermata_edge_pushpin::state::id::SessionId;
use fermata_engine::{RequestId, Worker};
use fermata_io::Kernel;
use fermata_tls::Tls;

use crate::client::request::ClientRequest;
use crate::routes::{Routes, Rule, Target};
use crate::upstream::TargetSlot;
use crate::upstream::targets::Watched;

/// Engine handler of requests from clients.
pub(crate) const HANDLER_CLIENTS: u32 = 0;

/// Engine handler of requests from publishers.
pub(crate) const HANDLER_CONTROL: u32 = 1;

/// Engine handler of internal WebSockets, which SockJS sessions use.
pub(crate) const HANDLER_SESSIONS: u32 = 2;

/// Engine handler of SockJS requests from other workers.
pub(crate) const HANDLER_WORKERS: u32 = 3;

/// Engine type of the edge.
pub(crate) type Engine = Worker<Tls<Kernel>>;

/// One loaded version of the routes.
#[derive(Debug)]
pub(crate) struct Table {
    /// Number of this version. An idle connection is reused only for targets of the same version, because the options of a target
    /// may have changed.
    pub generation: u32,
    pub routes: Routes,
    /// Source of the client's own request, in a table that was made for a link to another server; `None` in a loaded table. The
    /// other server must not receive the client's credentials.
    pub home: Option<Box<Source>>,
    /// State of the targets, by route.
    pub watched: Vec<Option<Watched>>,
}

/// A request and its target.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub request: Rc<ClientRequest>,
    pub table: Rc<Table>,
    /// Index of the route in the table; `usize::MAX` without a route.
    pub rule: usize,
    /// Index of the target in the route.
    pub target: usize,
    /// The client is an edge with a valid signature.
    pub is_trusted: bool,
    /// True if messages of the request's WebSocket are framed for SockJS.
    pub is_sockjs: bool,
    /// Session id for an external session service.
    pub session_id: Option<SessionId>,
}

impl Source {
    pub fn rule(&self) -> Option<&Rule> {
        self.table.routes.rules().get(self.rule)
    }

    pub fn target(&self) -> Option<&Target> {
        self.rule()?.targets.get(self.target)
    }

    /// Returns true if the request goes to another server, which a link names.
    pub fn is_foreign(&self) -> bool {
        self.table.home.is_some()
    }

    /// Returns the source of the client's own request. Its route determines the prefix and the number of channels also for the
    /// responses of links.
    pub fn home(&self) -> &Source {
        self.table.home.as_deref().unwrap_or(self)
    }

    /// Returns true if the edge forwards GRIP instructions unchanged: the client is an edge, or the route has `no_grip`.
    pub fn is_plain(&self) -> bool {
        self.is_trusted || self.rule().is_some_and(|rule| rule.no_grip)
    }
}

/// The part of the edge that a response is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Client of this request.
    Client(RequestId),
    /// A held stream that continues with the response of a link, by the request of its client.
    Link(RequestId),
    /// WebSocket of this request.
    Socket(RequestId),
    /// Health check of a target, by indices of route and target.
    Check(usize, usize),
    /// Notification of an origin that a client has left.
    GoneNotice(u64),
    /// Request of a filter about an item.
    Filter(u64),
}

/// Key of an exchange; at most one is open per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExchangeKey {
    /// A client or WebSocket, by its request.
    Client(RequestId),
    /// A health check, as in [`Owner`].
    Check(usize, usize),
    GoneNotice(u64),
    Filter(u64),
}

impl Owner {
    /// Returns the key of the owner's exchange.
    pub fn key(self) -> ExchangeKey {
        match self {
            Owner::Client(handle) | Owner::Link(handle) | Owner::Socket(handle) => {
                ExchangeKey::Client(handle)
            }
            Owner::Check(rule, target) => ExchangeKey::Check(rule, target),
            Owner::GoneNotice(number) => ExchangeKey::GoneNotice(number),
            Owner::Filter(number) => ExchangeKey::Filter(number),
        }
    }

    /// Returns the request of the client, if the owner is a client.
    pub fn client(self) -> Option<RequestId> {
        match self.key() {
            ExchangeKey::Client(handle) => Some(handle),
            ExchangeKey::Check(..) | ExchangeKey::GoneNotice(_) | ExchangeKey::Filter(_) => None,
        }
    }
}

impl Table {
    /// Returns true if a route checks this target.
    pub fn is_checked(&self, slot: TargetSlot) -> bool {
        let is_its =
            |watched: &Watched| watched.check.is_some() && watched.slots.contains(&Some(slot));
        self.watched.iter().flatten().any(is_its)
    }
}

impl Source {
    /// Returns the state of the targets of the request's route.
    pub fn watched(&self) -> Option<&Watched> {
        self.table.watched.get(self.rule)?.as_ref()
    }
}

/// Returns the target's name for the log.
pub(crate) fn name_of(source: &Source) -> String {
    let target = source.target().map_or("", |it| &it.name);
    let route = source.rule().map_or_else(String::new, Rule::label);
    format!("target {} of route {route}", target.escape_debug())
}

#[cfg(test)]
impl Source {
    /// Creates a GET request without a route.
    pub(crate) fn of_get(target: &str) -> Self {
        Self {
            request: Rc::new(ClientRequest {
                method: b"GET".to_vec(),
                target: target.as_bytes().to_vec(),
                ..ClientRequest::forgotten()
            }),
            table: Rc::new(Table {
                generation: 0,
                routes: Routes::read("", |_| Ok(())).0,
                home: None,
                watched: Vec::new(),
            }),
            rule: 0,
            target: 0,
            is_trusted: false,
            is_sockjs: false,
            session_id: None,
        }
    }
}
