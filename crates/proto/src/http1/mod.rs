//! Strict parser for HTTP/1.0 and HTTP/1.1 request heads (RFC 9112).

mod fields;
mod head;
mod parse;
mod repeats;
mod scan;
#[cfg(test)]
mod tests;

pub use crate::{Refusal, Span};
pub use fields::valid_host;
pub use head::{Body, Head, HeaderSpan, Limits, Method};
pub use parse::{METHOD_BYTES_MAX, Parse, parse, parse_after};
pub use repeats::Repeats;
pub use scan::is_token;
pub(crate) use scan::{is_field_byte, is_token_byte, target_end, token_end, value_end};
