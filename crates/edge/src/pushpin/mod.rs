//! Features that only Pushpin users need: SockJS, services, sessions, stats packets, ZHTTP. This code does not depend on the
//! running edge.

pub(crate) mod parts;
pub(crate) mod rendezvous;
pub(crate) mod services;
pub(crate) mod sockjs;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod zhttp;
