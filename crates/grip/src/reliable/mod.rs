//! Reliable delivery. Items are delivered in the order of their ids, each once. Clients that missed an item recover.

mod seen;
mod sequencer;
mod session;

pub use sequencer::{Limits, Order, Sequencer, Verdict};
pub use session::{LINK_RETRIES_MAX, OnHold, OnItem, on_hold, on_item, retry_delay_ms};
