//! FastCGI: its records, and PHP-FPM behind a server's routes.
//!
//! [`codec`] is the protocol from the side of a web server, bytes in and bytes out; the edge speaks it as well.
//! [`FastCgi`] is a part beside a worker that answers requests of some routes by asking PHP-FPM: whoever pulls the worker's
//! events hands them to [`FastCgi::handle`] first, and takes those that it leaves.
//!
//! A request costs a connection to PHP-FPM and a `Talk` (`talk.rs`) of a few hundred bytes, no value of PHP's. What PHP-FPM
//! sends is read when the client has taken what came before, so a slow client holds back the script and no memory.
//! A [`Site`] bounds how many connections a worker has to it and how many requests wait for one.
//!
//! # Decisions and their price
//!
//! **A connection per request, unless the program says otherwise.** One that is kept occupies its child of PHP-FPM between
//! two requests, and other workers would wait for that child. Price: connecting to a Unix socket and a fresh `accept` each time.
//!
//! **Bodies are collected first, unless the program says otherwise.** CGI wants the length before the body, and a client that
//! sends slowly would occupy a child. Price: a body above [`BODY_MEMORY_BYTES_MAX`] is written to a temporary file.
//!
//! **The kernel is asked for the script's file.** With the files of the root on this machine a request costs a `stat` per
//! segment of its path, as `try_files` does.

#![forbid(unsafe_code)]

mod answer;
pub mod codec;
mod gate;
mod request;
mod site;
mod talk;
#[cfg(test)]
mod tests;

pub use gate::FastCgi;
pub use site::{Site, SiteError, add};

/// Bytes of a collected body that stay in memory.
pub const BODY_MEMORY_BYTES_MAX: usize = 256 * 1024;

/// The number of the first site's handler; no program has as many of its own.
const HANDLERS: u32 = 0x4100_0000;
