//! Clients as stats packets count them, and what workers tell each other of them.

pub mod clients;
pub mod mode;
pub mod note;
pub mod published;
pub mod tally;
