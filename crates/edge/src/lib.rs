//! The GRIP edge, as far as it exists: its settings, the routes file, and FastCGI and HTTP/1.1 towards
//! backends.
//!
//! Nothing here reads files or clocks; what a file says is an argument.

#![forbid(unsafe_code)]

pub mod fastcgi;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod routes;
pub mod settings;
pub mod upstream;
