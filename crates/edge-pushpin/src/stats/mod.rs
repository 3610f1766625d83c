//! Counts of clients for stats packets, and the exchange of these counts between workers.

pub mod channel_counts;
pub mod clients;
pub mod mode;
pub mod note;
pub mod published;
