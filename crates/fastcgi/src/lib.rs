//! FastCGI: its records, and PHP-FPM behind a server's routes.
//!
//! [`codec`] is the protocol from the side of a web server, bytes in and bytes out; the edge speaks it as well.

#![forbid(unsafe_code)]

pub mod codec;
