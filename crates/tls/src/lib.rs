//! TLS as an event loop driver around another one.
//!
//! [`Tls`] serves the contract of [`fermata_io::Driver`]: what it reads is decrypted, what it sends
//! is encrypted, and its owner does not notice. Descriptors accepted from a listener that was marked
//! by [`Tls::secure`] get a session; all others pass through.
//!
//! - [`driver`]: the wrapper; [`mod@session`] below it: one connection's state and buffers.
//! - [`server`]: from files to a configuration that connections share, read again on demand;
//!   [`certificate`], [`ocsp`] and [`names`] are its parts, [`ticket`] lets clients come back cheaply.
//!   `provider` is the cryptography below it.
//! - [`development`]: a certificate for localhost, made on this machine.
//! - [`client`]: the other end; [`stream`]: a connection of it without a driver.
//! - [`handle`]: what the owner of the driver may ask: figures and certificates of clients.
//!
//! A session at rest holds no buffer: incomplete records, plaintext that did not fit and ciphertext
//! that the kernel has not taken exist only while there are any. Each is bounded by a constant.
//!
//! # Inside
//!
//! The engine reads plaintext and does not know; what TLS adds to the contract is in `driver.rs` there: events the kernel
//! cannot know of are appended to `wait`, and bytes that outlive their connection are flushed by `Leaving`.
//! Workers need not talk about resumption: ticket keys follow from one secret and the clock.
//!
//! # Decisions and their price
//!
//! **TLS below the engine.** One state machine for HTTP and WebSocket, encrypted or not. Price: a copy of each byte between
//! rustls and the engine's buffers, and up to 64 KB of ciphertext per client that takes nothing, beside `queue_bytes_max`.

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
