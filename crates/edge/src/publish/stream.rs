//! Items as the ring and its subscribers have them.

use fermata_grip::item::StreamAction;

use crate::client::delivery;

/// How soon the ring is tried again that had no room.
pub(crate) const BACKLOG_MS: u64 = 50;

/// What the ring's records are to streams without wishes: content as it was published. False: it is no content.
pub(crate) fn stream(data: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(item) = delivery::read(data) else {
        return true;
    };
    let Some(format) = item.http_stream else {
        return true;
    };
    // Content that filters were to change must not be seen unchanged.
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
