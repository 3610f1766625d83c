//! The GRIP edge, as far as it exists: its settings, the routes file, and FastCGI towards backends.
//!
//! Nothing here reads files or clocks; what a file says is an argument.

#![forbid(unsafe_code)]

pub mod fastcgi;
pub mod routes;
pub mod settings;
