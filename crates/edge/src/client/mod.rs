//! State of clients: requests, bodies, sessions and sockets. Nothing here depends on the running edge.

pub(crate) mod body;
pub(crate) mod clients;
pub(crate) mod delivery;
pub(crate) mod filtering;
pub(crate) mod gone;
pub(crate) mod journal;
pub(crate) mod links;
pub(crate) mod missed;
pub(crate) mod over_http;
pub(crate) mod poll;
pub(crate) mod request;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod source;
