//! SockJS, as pusher-js falls back to it where WebSockets do not work: `xhr_streaming` and `xhr_polling`.
//!
//! A session is the client of a WebSocket in its own worker, over a pair of sockets: what an application allows, channels,
//! presence and slow clients are those of every WebSocket, and the price is two descriptors per session. What its client is
//! to get waits in a queue of bounded size; beyond that the WebSocket is not read, and its own bounds hold.
//!
//! Requests of a session may reach any worker. Its name says which one has it (`state`); the others pass them on over a
//! Unix socket and the answer back, piece by piece (`passing`). A worker that ends takes its sessions along: clients see
//! their response break off, or that their session is a new one, and connect again.

pub(crate) mod opening;
mod passing;
mod requests;
mod session_path;
mod sessions;
pub(crate) mod state;
