//! HTTP/1.1 (RFC 9110, RFC 9112) from the client's perspective.

mod bodies;
mod connections;
mod disk_full;
mod encoding;
mod exhaustion;
mod expect;
mod fastcgi;
mod faults;
mod files;
mod headers;
mod keep_alive;
mod methods;
mod pipelining;
mod ranges;
mod refusals;
mod resets;
mod routes;
mod smuggling;
mod streams;
mod time_outs;
mod unread;
mod uploads;
