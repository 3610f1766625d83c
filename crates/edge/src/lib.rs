//! The GRIP edge: stands in front of any HTTP or FastCGI backend and holds its clients.
//!
//! [`server`] is what runs. Everything else reads no files and no clocks; what a file says is an argument: the settings,
//! the routes file, and what is spoken to backends.

#![forbid(unsafe_code)]

pub mod control;
pub mod fastcgi;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod routes;
pub mod server;
pub mod settings;
pub mod upstream;
pub mod zhttp;
