//! Decides how an item is delivered to a subscription.

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;
use fermata_grip::filter::Filters;
use fermata_grip::item;
use fermata_grip::item::{Item, StreamAction};
use fermata_grip::packet::Notation;
use fermata_grip::reliable::{OnItem, on_item};
use fermata_grip::value::Value;

use crate::client::session::{Session, Subscription};
use crate::client::source::Engine;

/// Bytes queued for one client above which further items count as missed.
pub(crate) const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Decodes an item from the ring. Returns `None` for foreign data, which only another application could have written.
pub(crate) fn read(data: &[u8]) -> Option<Item> {
    let json: serde_json::Value = serde_json::from_slice(data).ok()?;
    item::parse(&Value::from(json), Notation::Json, None).ok()
}

/// How a subscription delivers an item.
#[derive(Debug)]
pub(crate) enum Delivery {
    Nothing,
    /// No delivery: a filter or the format of the subscription excludes the item.
    Filtered(Counter),
    Content(Vec<u8>),
    Act(StreamAction),
    /// The client has missed an item before this one.
    Behind,
    Failed(String),
}

/// Drops an item that the client's filters failed to convert, with a log line.
pub(crate) fn drop_item(worker: &mut Engine, reason: &str) {
    worker.net.count(Counter::EdgeDroppedFilter, 1);
    let line = format!("an item is dropped: {reason}");
    worker.net.log_for_client(LogLevel::Warning, &line);
}

/// Returns the reason why an item is not for this client, if any.
pub(crate) fn excluded_by(
    session: &Session,
    filters: &Filters,
    content_filters: &Option<Vec<Vec<u8>>>,
    item: &Item,
) -> Option<Counter> {
    let is_for_it = content_filters
        .as_ref()
        .is_none_or(|expected| filters.are_content_filters(expected));
    if !is_for_it {
        return Some(Counter::EdgeDroppedContentFilters);
    }
    (!filters.delivers(session, &item.meta)).then_some(Counter::EdgeFiltered)
}

impl Subscription {
    /// Returns true if the client has received this item already, as a missed item from the ring.
    pub fn has_had(&mut self, item: &Item) -> bool {
        if let Some(id) = &item.id
            && !self.ahead.is_empty()
        {
            match self.ahead.iter().position(|it| it == id) {
                Some(at) => {
                    self.ahead.drain(..=at);
                    return true;
                }
                // The item is newer than all items delivered from the ring, so the list is not needed any more.
                None if !item.no_seq => self.ahead.clear(),
                None => {}
            }
        }
        false
    }

    /// Compares an item with those that the client already received.
    pub fn judge(&mut self, item: &Item) -> OnItem {
        if self.has_had(item) {
            return OnItem::Known;
        }
        on_item(
            &mut self.prev_id,
            item.id.as_deref(),
            item.prev_id.as_deref(),
        )
    }
}
