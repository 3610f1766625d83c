//! The C ABI of Fermata: `ext/` pulls events from it and returns responses to it.
//!
//! Rust never calls C. The runner requests an event, runs PHP without a Rust frame on the stack, and then passes the
//! response back. So `longjmp`, exceptions, `exit()` and Fiber switches never cross Rust.
//!
//! Every function is one call of `guard` or `ask` (`abi.rs`), which check for missing objects and catch panics.
//! `scripts/header` generates `ext/fermata_core.h` from this crate.
//!
//! Strings are passed as pointer and length; the core copies them before a function returns. Returned strings point
//! into memory of the core; each function documents how long they stay valid.
//!
//! # Decisions and their price
//!
//! **Pull instead of callbacks.** `longjmp`, exceptions, `exit()` and Fiber switches cannot cross Rust. Price: a C
//! shim of a few thousand lines, compiled per PHP version.

mod abi;
mod body;
mod channel_reader;
mod companion;
mod doors;
mod fastcgi;
mod file;
mod file_call;
#[cfg(test)]
mod gate;
mod grip;
mod in_process;
mod program_figures;
mod publisher;
mod publishing;
mod pushed;
mod request;
mod server;
mod socket;
mod table;
mod upload;
mod waiting;
mod watch;
mod worker;
mod ws;
mod ws_client;

pub use abi::*;
pub use body::*;
pub use channel_reader::*;
pub use companion::*;
pub use doors::*;
pub use fastcgi::*;
pub use file::*;
pub use grip::*;
pub use in_process::*;
pub use program_figures::*;
pub use publisher::*;
pub use publishing::*;
pub use pushed::*;
pub use request::*;
pub use server::*;
pub use socket::*;
pub use table::*;
pub use upload::*;
pub use waiting::*;
pub use watch::*;
pub use worker::*;
pub use ws::*;
