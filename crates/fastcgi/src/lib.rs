//! FastCGI: its protocol, and PHP-FPM behind a server's routes.
//!
//! [`codec`] is the protocol from the web server's side, bytes in and bytes out; the edge uses it as well. [`FastCgi`] runs in a
//! worker and forwards requests of some routes to PHP-FPM. The caller that polls the worker's events passes each event to
//! [`FastCgi::handle`] first, and handles the event itself if `handle` returns false.
//!
//! A request costs a connection to PHP-FPM and a `FastCgiRequest` of a few hundred bytes, and no PHP value. A [`Site`] limits
//! the connections of a worker and the requests that wait for one. A response is read ahead of its client within the
//! limits of a [`spool::Ledger`], so a slow client does not occupy a PHP-FPM child. Beyond these limits, the child waits
//! for the client.
//!
//! # Decisions and their price
//!
//! **A connection per request, unless the application chooses otherwise.** A kept connection occupies its PHP-FPM child
//! between two requests, and other workers would wait for that child. Price: one connect to a Unix socket and one
//! `accept` per request.
//!
//! **Bodies are collected first, unless the application chooses otherwise.** CGI needs the length before the body, and
//! a slow client would occupy a child. Price: a body above [`BODY_MEMORY_BYTES_MAX`] is written to a temporary file.
//!
//! **Responses are read ahead.** Price: bytes that the client does not read soon are written to a temporary file.
//!
//! **The kernel finds the script's file.** If the root is on this machine, a request costs a `stat` per segment of its
//! path, like `try_files`.

#![forbid(unsafe_code)]

mod answer;
pub mod codec;
mod fastcgi_request;
mod gate;
mod request;
mod site;
pub mod spool;
#[cfg(test)]
mod tests;

pub use gate::FastCgi;
pub use site::{Site, SiteError, add};

/// Maximum size of a collected body in memory, in bytes.
pub const BODY_MEMORY_BYTES_MAX: usize = 256 * 1024;

/// Handler number of the first site; no application has as many handlers.
const HANDLERS: u32 = 0x4100_0000;
