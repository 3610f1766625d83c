//! Decides what to do with a client that may have missed an item: continue, or poll its origin.

/// Maximum number of retries of a failed request for a next link.
pub const LINK_RETRIES_MAX: u32 = 5;

/// Result for a hold on a channel with a `prev-id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHold {
    /// No item was published since the client's last item, so hold the client.
    Held,
    /// An item was published since: immediately repeat a long poll's request, or request a stream's next link.
    Behind,
}

/// Result for an item of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnItem {
    /// The item follows the client's last item.
    Delivered,
    /// The client already has the item, because the origin's response included it.
    Known,
    /// The client has missed an item. Drop the client's queue and poll its origin.
    Behind,
}

/// Compares the origin's response with the last published item.
pub fn on_hold(prev_id: Option<&[u8]>, last_id: Option<&[u8]>) -> OnHold {
    match (prev_id, last_id) {
        (Some(prev_id), Some(last_id)) if prev_id != last_id => OnHold::Behind,
        // Without both ids, nothing shows that the client is behind.
        _ => OnHold::Held,
    }
}

/// Compares an item with the client's last item, and updates the last item.
///
/// A subscription without `prev-id` accepts everything.
pub fn on_item(had: &mut Option<Vec<u8>>, id: Option<&[u8]>, prev_id: Option<&[u8]>) -> OnItem {
    let Some(last) = had else {
        return OnItem::Delivered;
    };
    // The origin's response already included the item, and its `prev-id` names it.
    if id.is_some_and(|id| id == last) {
        return OnItem::Known;
    }
    if prev_id.is_some_and(|prev_id| prev_id != last) {
        return OnItem::Behind;
    }
    if let Some(id) = id {
        id.clone_into(last);
    }
    OnItem::Delivered
}

/// Returns the delay before retry number `retry`, counted from 0, in milliseconds. `None`: there are no more retries. `random`
/// spreads clients over a second.
pub fn retry_delay_ms(retry: u32, random: u32) -> Option<u64> {
    (retry < LINK_RETRIES_MAX).then(|| (1_000 << retry) + u64::from(random % 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_is_behind_only_if_both_ids_exist_and_differ() {
        for (prev_id, last_id, expected) in [
            (None, None, OnHold::Held),
            (Some("1"), None, OnHold::Held),
            (None, Some("1"), OnHold::Held),
            (Some("1"), Some("1"), OnHold::Held),
            (Some("1"), Some("2"), OnHold::Behind),
        ] {
            assert_eq!(
                on_hold(prev_id.map(str::as_bytes), last_id.map(str::as_bytes)),
                expected
            );
        }
    }

    #[test]
    fn each_item_updates_the_last_id() {
        let mut had = Some(b"1".to_vec());
        assert_eq!(on_item(&mut had, Some(b"2"), Some(b"1")), OnItem::Delivered);
        assert_eq!(on_item(&mut had, Some(b"3"), None), OnItem::Delivered);
        assert_eq!(on_item(&mut had, None, Some(b"3")), OnItem::Delivered);
        assert_eq!(on_item(&mut had, Some(b"3"), Some(b"2")), OnItem::Known);
        assert_eq!(on_item(&mut had, Some(b"5"), Some(b"4")), OnItem::Behind);
        assert_eq!(had.as_deref(), Some(&b"3"[..]));
        assert_eq!(
            on_item(&mut None, Some(b"5"), Some(b"4")),
            OnItem::Delivered
        );
    }

    #[test]
    fn retries_back_off_and_end() {
        let delays: Vec<_> = (0..7).map(|retry| retry_delay_ms(retry, 1_500)).collect();
        let expected = [1_500, 2_500, 4_500, 8_500, 16_500].map(Some);
        assert_eq!(delays[..5], expected);
        assert_eq!(delays[5..], [None, None]);
    }
}
