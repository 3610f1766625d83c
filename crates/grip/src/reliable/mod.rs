//! Reliable delivery: items in the order of their ids, each once, and recovery of clients that missed one.

mod seen;
mod sequencer;
mod session;

pub use sequencer::{Limits, Order, Sequencer, Verdict};
pub use session::{LINK_RETRIES_MAX, OnHold, OnItem, on_hold, on_item, retry_delay_ms};
