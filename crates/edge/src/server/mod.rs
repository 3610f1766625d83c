//! The running edge: an engine whose handler is written in Rust.
//!
//! `start` binds and forks; in each worker an [`Edge`](edge::Edge) pulls events as the PHP extension does. Its state is in
//! parts that know nothing of it (`client`, `upstream`, `publish`, `pushpin`). What needs a few of them borrows just those:
//! [`Outbound`](outbound::Outbound) writes and sends requests, [`Backends`](services::Backends) asks by ZeroMQ,
//! [`Keeper`](state::Keeper) the service of sessions, [`Holds`](holds::Holds) has clients that are held,
//! [`Polling`](sockjs::Polling) those of SockJS that poll, [`Publications`](publish::Publications) takes items to the ring,
//! [`Reports`](notices::Reports) tells of clients.
//!
//! Calls go one way, which `scripts/modules.py` sees to: `edge` hands events to those whom they concern; these have `origin` run
//! a conversation by a [`Turn`](turn::Turn), which has all but the other conversations; what comes back is looked at by `answer`,
//! which holds clients. No part calls what is above it: a step of a conversation that cannot go on returns why, a
//! [`Stop`](crate::upstream::talk::Stop), and `origin` tries the next target, or tells the asker; what is to be asked of an origin
//! for a client that is held is a [`Task`](tasks::Task), which `edge` does when the event has been handled.
//!
//! Here is what the loop does with them: `arriving` bodies of requests, `origin` conversations with origins (`connect` their
//! connections, `send` what goes there, `checks` whether targets are well), `answer` what becomes of the response, `hold`
//! who is held, `items` and `item` what published items do to them, `poll`, `stream` and `sockets` what each kind gets,
//! `filtering` what servers are asked about items, `reliable` and `catch_up` who has missed something, `rate` deliveries at a
//! rate, `links`, `link_body` and `gone` where links lead, `frames` what WebSockets say, `publish` how items get into the ring,
//! `figures`, `per_route` and `stats` what dashboards are told, `jsonp` how a script element asks, `sockjs` how a browser without
//! WebSockets does.

mod answer;
mod arriving;
mod catch_up;
mod checks;
mod commands;
mod connect;
mod cross_origin;
mod edge;
mod figures;
mod files;
mod filtering;
mod frames;
mod gone;
mod hold;
mod holds;
mod http2;
mod item;
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
mod stream;
mod tasks;
mod test_origin;
mod turn;
mod upgrade;
mod upstream_error;
mod zhttp;
mod zhttp_stream;
mod zmq;

pub use crate::error::StartError;
pub use start::run;
