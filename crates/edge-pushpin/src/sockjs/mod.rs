//! SockJS: what paths name, what frames say, and what waits for a polling client.

pub mod frame;
pub mod place;
pub mod queue;
