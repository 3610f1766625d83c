//! Clients as stats packets count them, and what workers tell each other of them.

pub mod channel_counts;
pub mod clients;
pub mod mode;
pub mod note;
pub mod published;
