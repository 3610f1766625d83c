//! FastCGI from the web server's side: one request at a time on a connection to PHP-FPM or a similar application.
//!
//! [`Request`] writes a request, [`Exchange`] parses its response from arbitrary pieces, and [`variables`] derives CGI
//! variables from an HTTP request. This module has no sockets.

mod exchange;
mod head;
mod record;
mod variables;

pub use exchange::{Event, Exchange, FastCgiError};
pub use head::{HEAD_BYTES_MAX, Head, HeadError};
pub use record::{Request, STDERR_BYTES_MAX};
pub use variables::{HttpRequest, Script, Variables, VariablesError, is_denied, variables};

#[cfg(test)]
mod tests;
