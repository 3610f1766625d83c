//! What is kept of publishers: ports, commands, the order of items, deliveries at a rate. Nothing here knows the running edge.

pub(crate) mod commands;
pub(crate) mod pacer;
pub(crate) mod parts;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod posts;
pub(crate) mod publishers;
pub(crate) mod sequence;
pub(crate) mod stream;
