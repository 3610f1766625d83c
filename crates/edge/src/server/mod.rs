//! The running edge: an engine whose handler is written in Rust.
//!
//! `start` binds and forks; in each worker an [`Edge`](edge::Edge) pulls events as the PHP extension does. Its state is in
//! parts that know nothing of it (`client`, `upstream`, `publish`, `pushpin`). What needs a few of them borrows just those:
//! [`Outbound`](outbound::Outbound) writes and sends requests, [`Backends`](services::Backends) asks by ZeroMQ,
//! [`Keeper`](state::Keeper) the service of sessions, [`Sockets`](sockets::Sockets) has clients' WebSockets,
//! [`Polling`](sockjs::Polling) those of SockJS that poll, [`Publications`](publish::Publications) takes items to the ring,
//! [`Reports`](notices::Reports) tells of clients. What they find is returned, and the `Edge` does what follows of it: who is
//! called in which order is its own.
//!
//! Here is what the loop does with them: `arriving` bodies of requests, `origin` conversations with origins (`connect` their
//! connections, `send` what goes there, `checks` whether targets are well), `answer` what becomes of the response, `hold` and
//! `poll` who is held, `items` what published items do, `filtering` what servers are asked about them, `publish` how they get into the
//! ring, `reliable` who has missed something, `rate` deliveries at a rate, `links`, `link_body` and `gone` where links lead,
//! `figures`, `per_route` and `stats` what dashboards are told, `jsonp` how a script element asks, `sockjs` how a browser without
//! WebSockets does.

mod answer;
mod arriving;
mod checks;
mod commands;
mod connect;
mod cross_origin;
mod edge;
mod figures;
mod files;
mod filtering;
mod gone;
mod hold;
mod http2;
mod items;
mod journal;
mod jsonp;
mod link_body;
mod links;
mod notices;
mod origin;
mod outbound;
mod over_http;
mod per_route;
mod policy;
mod poll;
mod posts;
mod publish;
mod publishers;
mod rate;
mod reliable;
mod reload;
mod routing;
mod send;
mod services;
mod sharing;
mod sockets;
mod sockjs;
mod start;
mod state;
mod stats;
mod test_origin;
mod upgrade;
mod upstream_error;
mod zhttp;
mod zhttp_stream;
mod zmq;

pub use crate::error::StartError;
pub use start::run;
