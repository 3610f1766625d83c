//! Clients as counted in stats packets, and their exchange between workers.

pub mod channel_counts;
pub mod clients;
pub mod mode;
pub mod note;
pub mod published;
