//! The C ABI of Fermata: what `ext/` pulls events from and hands answers to.
//!
//! Rust never calls C. The runner asks for an event, gets one, runs PHP while no frame of ours is on
//! the stack, and hands the answer back; so `longjmp`, exceptions and Fiber switches cannot cross
//! Rust. Every function is a call of `guard` or `ask` (`abi.rs`), which look whether the objects it needs are there and
//! catch panics. `ext/fermata_core.h` is made from this crate by `scripts/header`.
//!
//! Strings come as pointer and length and are copied before a function returns. Strings that go out
//! point into memory of ours; each function says how long they stay valid.
//!
//! # Decisions and their price
//!
//! **Pull instead of call-backs.** Longjmp, exceptions, `exit()` and Fiber switches cannot cross Rust. Price: a C shim of a
//! few thousand lines, compiled per PHP version.

mod abi;
mod body;
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
