//! Server-sent events (WHATWG HTML section 9.2) as a browser receives them.

mod format;
mod from_start;
mod holding;
mod idle;
mod pushed;
mod resume;
