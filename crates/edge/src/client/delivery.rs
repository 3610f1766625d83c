//! What an item is to a subscription.

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

/// Bytes that may wait for one client before what was published since counts as missed.
pub(crate) const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An item of the ring. `None`: it is none, which only another program that writes to the ring could cause.
pub(crate) fn read(data: &[u8]) -> Option<Item> {
    let json: serde_json::Value = serde_json::from_slice(data).ok()?;
    item::parse(&Value::from(json), Notation::Json, None).ok()
}

/// How one subscription delivers an item.
#[derive(Debug)]
pub(crate) enum Delivery {
    Nothing,
    /// Nothing: a filter, or the kind of content that the subscription takes, excludes the item.
    Filtered(Counter),
    Content(Vec<u8>),
    Act(StreamAction),
    /// The client misses an item before this one.
    Behind,
    Failed(String),
}

/// An item could not be made what a client's filters want.
pub(crate) fn drop_item(worker: &mut Engine, reason: &str) {
    worker.net.count(Counter::EdgeDroppedFilter, 1);
    let line = format!("an item is dropped: {reason}");
    worker.net.log_for_client(LogLevel::Warning, &line);
}

/// Why an item is not for this client, if it is not.
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
    /// Whether its client has got an item from the ring before its log brings it.
    pub fn has_had(&mut self, item: &Item) -> bool {
        if let Some(id) = &item.id
            && !self.ahead.is_empty()
        {
            match self.ahead.iter().position(|it| it == id) {
                Some(at) => {
                    self.ahead.drain(..=at);
                    return true;
                }
                // Whatever comes behind those is newer.
                None if !item.no_seq => self.ahead.clear(),
                None => {}
            }
        }
        false
    }

    /// What an item is to somebody who has had those before.
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
