//! Converts records of the ring to the content that clients of shared streams receive.

use fermata_grip::item::StreamAction;

use crate::client::delivery;

/// Time in milliseconds after which appending to a full ring is tried again.
pub(crate) const BACKLOG_MS: u64 = 50;

/// Appends the content of a record for shared streams. Returns false if the record is an action.
pub(crate) fn stream(data: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(item) = delivery::read(data) else {
        return true;
    };
    let Some(format) = item.http_stream else {
        return true;
    };
    // Content for filters must not be sent unfiltered.
    if format.content_filters.is_some_and(|it| !it.is_empty()) {
        return true;
    }
    match format.action {
        StreamAction::Send(content) => {
            out.extend_from_slice(&content);
            true
        }
        StreamAction::Refresh => true,
        StreamAction::Hint | StreamAction::Close => false,
    }
}
