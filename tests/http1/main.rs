//! HTTP/1.1 (RFC 9110, RFC 9112) as a client sees it.

mod bodies;
mod connections;
mod expect;
mod faults;
mod files;
mod headers;
mod keep_alive;
mod methods;
mod pipelining;
mod refusals;
mod routes;
mod smuggling;
mod time_outs;
mod uploads;
