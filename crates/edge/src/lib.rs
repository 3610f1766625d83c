//! The GRIP edge, as far as it exists: the routes file, and the settings.
//!
//! Nothing here reads files or clocks; what a file says is an argument.

#![forbid(unsafe_code)]

pub mod routes;
pub mod settings;
