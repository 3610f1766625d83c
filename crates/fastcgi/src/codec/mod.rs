//! FastCGI, the side of the web server: one request at a time on a connection to PHP-FPM or its like.
//!
//! [`Request`] writes a request, [`Exchange`] reads its answer from any pieces, and [`variables`] is what CGI
//! makes of an HTTP request. No socket is in here.

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
