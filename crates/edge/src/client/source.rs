//! A request and where it goes, and whom a response is for.

use std::rc::Rc;

use fermata_edge_pushpin::state::id::SessionId;
use fermata_engine::{RequestId, Worker};
use fermata_io::Kernel;
use fermata_tls::Tls;

use crate::client::request::ClientRequest;
use crate::routes::{Routes, Rule, Target};
use crate::upstream::Seat;
use crate::upstream::targets::Watched;

/// The handlers of the engine: clients, and publishers.
pub(crate) const HANDLER_CLIENTS: u32 = 0;
pub(crate) const HANDLER_CONTROL: u32 = 1;

/// WebSockets of the worker's own, which SockJS sessions have.
pub(crate) const HANDLER_SESSIONS: u32 = 2;

/// Requests of SockJS sessions that other workers have got.
pub(crate) const HANDLER_WORKERS: u32 = 3;

/// The engine as the edge has it.
pub(crate) type Engine = Worker<Tls<Kernel>>;

/// Routes as they were read at one time.
#[derive(Debug)]
pub(crate) struct Table {
    /// Tells this reading from others, so that no connection is used for another target.
    pub generation: u32,
    pub routes: Routes,
    /// A link led to another server, for which this table was made: it gets none of the client's secrets.
    pub home: Option<Box<Source>>,
    /// What is known of targets, by route.
    pub watched: Vec<Option<Watched>>,
}

/// A request, and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub request: Rc<ClientRequest>,
    pub table: Rc<Table>,
    pub rule: usize,
    pub target: usize,
    /// The client is an edge itself, whose signature is good.
    pub is_trusted: bool,
    /// The messages of its WebSocket are wrapped for SockJS.
    pub is_sockjs: bool,
    /// The session that an outside service knows it by.
    pub session_id: Option<SessionId>,
}

impl Source {
    pub fn rule(&self) -> Option<&Rule> {
        self.table.routes.rules().get(self.rule)
    }

    pub fn target(&self) -> Option<&Target> {
        self.rule()?.targets.get(self.target)
    }

    /// Whether it goes to a server that only a link has named.
    pub fn is_foreign(&self) -> bool {
        self.table.home.is_some()
    }

    /// Where the client's own request went: what its route says of channels holds wherever links lead.
    pub fn home(&self) -> &Source {
        self.table.home.as_deref().unwrap_or(self)
    }

    /// Whether responses mean nothing to us.
    pub fn is_plain(&self) -> bool {
        self.is_trusted || self.rule().is_some_and(|rule| rule.no_grip)
    }
}

/// What a response is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The client of this request.
    Client(RequestId),
    /// The stream that was held by this request, which goes on with it.
    Link(RequestId),
    /// A client's WebSocket.
    Socket(RequestId),
    /// A health check of the target of this route and place.
    Check(usize, usize),
    /// A notice to the origin that this client has left.
    GoneNotice(u64),
    /// An item that a filter asks a server about.
    Filter(u64),
}

/// Of whom there is one conversation at a time: a client has one, whatever it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asker {
    /// A client, by the request that it came with, also as a WebSocket.
    Client(RequestId),
    /// As of [`Owner`].
    Check(usize, usize),
    GoneNotice(u64),
    Filter(u64),
}

impl Owner {
    /// The asker of a conversation for it.
    pub fn asker(self) -> Asker {
        match self {
            Owner::Client(handle) | Owner::Link(handle) | Owner::Socket(handle) => {
                Asker::Client(handle)
            }
            Owner::Check(rule, target) => Asker::Check(rule, target),
            Owner::GoneNotice(number) => Asker::GoneNotice(number),
            Owner::Filter(number) => Asker::Filter(number),
        }
    }

    /// The client that it is for.
    pub fn client(self) -> Option<RequestId> {
        match self.asker() {
            Asker::Client(handle) => Some(handle),
            Asker::Check(..) | Asker::GoneNotice(_) | Asker::Filter(_) => None,
        }
    }
}

impl Table {
    /// Whether a route checks this target.
    pub fn is_checked(&self, seat: Seat) -> bool {
        let is_its =
            |watched: &Watched| watched.check.is_some() && watched.seats.contains(&Some(seat));
        self.watched.iter().flatten().any(is_its)
    }
}

impl Source {
    /// What is known of the targets of its route.
    pub fn watched(&self) -> Option<&Watched> {
        self.table.watched.get(self.rule)?.as_ref()
    }
}

/// The target of a request, for the log.
pub(crate) fn name_of(source: &Source) -> String {
    let target = source.target().map_or("", |it| &it.name);
    let route = source.rule().map_or_else(String::new, Rule::label);
    format!("target {} of route {route}", target.escape_debug())
}

#[cfg(test)]
impl Source {
    /// A GET request that no route knows.
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
