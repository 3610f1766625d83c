//! TLS as an event loop driver that wraps another driver.
//!
//! [`Tls`] implements [`fermata_io::Driver`]: it decrypts received bytes and encrypts sent ones, transparently for its
//! owner. Descriptors accepted from a listener marked by [`Tls::secure`] get a session; all others pass through.
//!
//! - [`driver`]: the wrapper; [`mod@session`]: state and buffers of one connection.
//! - [`server`]: loads files into a configuration that connections share, and reloads them; [`certificate`], [`ocsp`]
//!   and [`names`] are its parts. [`ticket`] lets clients resume sessions. `provider` selects the cryptography.
//! - [`development`]: a certificate for localhost, created on this machine.
//! - [`client`]: configuration of clients; [`stream`]: a client connection without a driver.
//! - [`handle`]: statistics and client certificates for the driver's owner.
//!
//! An idle session holds no buffer. Buffers for incomplete records, for plaintext that did not fit and for ciphertext
//! that the kernel has not accepted are allocated on demand. Each is bounded by a constant.
//!
//! # Inside
//!
//! The engine reads plaintext and is unaware of TLS. `driver.rs` implements what TLS adds: events that the kernel does
//! not know are appended to `wait`, and `Leaving` sends bytes that outlive their connection. Workers need no
//! communication for session resumption: ticket keys are derived from one secret and the clock.
//!
//! # Decisions and their price
//!
//! **TLS below the engine.** One state machine for HTTP and WebSocket, encrypted or not. Price: a copy of each byte
//! between rustls and the engine's buffers. A client that does not read also occupies up to 64 KB of ciphertext, in
//! addition to `queue_bytes_max`.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod development;
pub mod driver;
mod fd_map;
pub mod handle;
mod leaving;
pub mod names;
pub mod ocsp;
mod provider;
pub mod server;
mod session;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod ticket;

pub use client::{ClientNames, ClientOptions, client_config};
pub use driver::Tls;
pub use handle::{ClientCertificate, Failure, Handle};
pub use rustls::ClientConfig;
pub use rustls::pki_types::ServerName;
pub use server::{Certificates, LoadError, Loaded, Options, PairNames};
pub use session::is_about_name;
pub use stream::{SecureError, Stream, explain};
