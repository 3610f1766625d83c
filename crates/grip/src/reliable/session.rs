//! What a client does that may have missed an item: go on, or ask its origin.

/// How often a next link is asked again after a failure.
pub const LINK_RETRIES_MAX: u32 = 5;

/// What becomes of a hold on a channel with a `prev-id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHold {
    /// Nothing was published since: it is held.
    Held,
    /// Something was: a long poll's request, or a stream's next link, is asked at once.
    Behind,
}

/// What becomes of an item at one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnItem {
    /// It follows what the client has.
    Delivered,
    /// The client has it already: its origin's response included it.
    Known,
    /// The client misses one: its queue is dropped and its origin asked.
    Behind,
}

/// Compares what the origin's response included with what was published last.
pub fn on_hold(prev_id: Option<&[u8]>, last_id: Option<&[u8]>) -> OnHold {
    match (prev_id, last_id) {
        (Some(prev_id), Some(last_id)) if prev_id != last_id => OnHold::Behind,
        _ => OnHold::Held,
    }
}

/// Compares an item with the last one the client had, and moves that forward.
///
/// A subscription that came without `prev-id` takes everything.
pub fn on_item(had: &mut Option<Vec<u8>>, id: Option<&[u8]>, prev_id: Option<&[u8]>) -> OnItem {
    let Some(last) = had else {
        return OnItem::Delivered;
    };
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

/// How long to wait before the `retry`-th repetition, from 0. `None`: no more. `random` spreads clients over a second.
pub fn retry_delay_ms(retry: u32, random: u32) -> Option<u64> {
    (retry < LINK_RETRIES_MAX).then(|| (1_000 << retry) + u64::from(random % 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_behind_only_if_both_ids_are_known_and_differ() {
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
    fn each_item_moves_the_client_forward() {
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
