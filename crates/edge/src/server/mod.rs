//! The running edge: an engine whose handler is written in Rust.
//!
//! `start` binds and forks. In each worker, an [`Edge`](edge::Edge) pulls events as the PHP extension does. The state of an edge is
//! in parts that do not depend on it (`client`, `upstream`, `publish`, `pushpin`). Code that needs several parts borrows only these
//! parts: [`Outbound`](outbound::Outbound) writes and sends requests, [`Backends`](services::Backends) sends requests over ZeroMQ,
//! [`Keeper`](state::Keeper) uses the session service, [`Holds`](holds::Holds) has the held clients, [`Polling`](sockjs::Polling)
//! the polling SockJS clients, [`Publications`](publish::Publications) writes items to the ring, [`Reports`](notices::Reports)
//! reports about clients.
//!
//! Modules call only modules below them, which `scripts/modules.py` checks. `edge` dispatches events. `origin` runs an exchange by
//! a [`Turn`](turn::Turn), which borrows everything except the other exchanges. `answer` handles responses and holds clients. No
//! part calls one above it: a step of an exchange that cannot continue returns a [`Stop`](crate::upstream::exchange::Stop), and
//! `origin` tries the next target or reports the error. Requests for held clients are queued as [`Task`](tasks::Task)s, which
//! `edge` runs after the event.
//!
//! | Module | Subject |
//! |---|---|
//! | `arriving` | request bodies |
//! | `origin`, `connect`, `send`, `checks` | exchanges with origins: steps, connections, sending, health checks |
//! | `answer`, `hold` | responses, holding clients |
//! | `items`, `item`, `poll`, `stream`, `sockets` | delivery of items to each kind of client |
//! | `filtering`, `reliable`, `catch_up`, `rate` | filter queries, missed items, rate limits |
//! | `links`, `link_body`, `gone` | GRIP links |
//! | `frames` | WebSocket frames |
//! | `publish` | items on their way to the ring |
//! | `figures`, `per_route`, `stats` | metrics |
//! | `jsonp`, `sockjs` | clients by script elements, and without WebSockets |

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
