//! What only Pushpin's users need: SockJS, services, sessions of services, stats packets, zhttp. Nothing here knows the running edge.

pub(crate) mod parts;
pub(crate) mod rendezvous;
pub(crate) mod services;
pub(crate) mod sockjs;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod zhttp;
