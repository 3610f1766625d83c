//! Channels: publishing, held clients, what they missed, fan-out and presence.

pub(crate) mod encode;
pub(crate) mod follow;
pub(crate) mod gather;
pub(crate) mod hold;
pub(crate) mod memory;
pub(crate) mod notes;
pub(crate) mod opening;
pub(crate) mod pace;
pub(crate) mod publish;
pub(crate) mod resume;
