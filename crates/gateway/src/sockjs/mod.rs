//! SockJS, the fallback of pusher-js where WebSockets do not work: `xhr_streaming` and `xhr_polling`.
//!
//! A session is the client of a WebSocket in its own worker, over a socket pair. Permissions, channels, presence and limits for
//! slow clients are therefore those of every WebSocket. The cost is two descriptors per session. Messages for the session's client
//! wait in a bounded queue. While it is full, the session does not read from the WebSocket, and the engine's limits apply.
//!
//! Requests of a session may reach any worker. The session's name determines its worker (`state`). Other workers forward requests
//! to that worker over a Unix socket and stream the response back (`passing`). A worker that exits ends its sessions: the response
//! breaks off, or the next request creates a new session, and clients reconnect.

pub(crate) mod opening;
mod passing;
mod requests;
mod session_path;
mod sessions;
pub(crate) mod state;
