//! State of publishers: ports, commands, order of items, rate-limited deliveries. Nothing here depends on the running edge.

pub(crate) mod commands;
pub(crate) mod pacer;
pub(crate) mod parts;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod posts;
pub(crate) mod publishers;
pub(crate) mod sequence;
pub(crate) mod stream;
