//! The GRIP edge, as far as it exists: its settings, the routes file, FastCGI and HTTP/1.1 towards
//! backends, and what publishers say and are answered.
//!
//! Nothing here reads files or clocks; what a file says is an argument.

#![forbid(unsafe_code)]

pub mod control;
pub mod fastcgi;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod routes;
pub mod settings;
pub mod upstream;
