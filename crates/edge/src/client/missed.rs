//! What clients have missed, and who asks for it when.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fermata_grip::item::Item;

/// Entries of clients that have left which may wait among those of the clients that there are.
const LEFT_MAX: usize = 1_024;

/// Clients that are to ask their origin again, when it is their turn.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    pub(crate) waiting: VecDeque<(u64, u64)>,
    /// How many may go before the next turn, and when that is.
    pub(crate) left: u32,
    pub(crate) turn_ms: u64,
}

impl Updates {
    /// One more waits for its turn. Those who have left go, once they are more than the `held` clients may be.
    pub(crate) fn add(
        &mut self,
        client: (u64, u64),
        held: usize,
        is_held: impl Fn(u64, u64) -> bool,
    ) {
        self.waiting.push_back(client);
        if self.waiting.len() > LEFT_MAX + 2 * held {
            self.waiting
                .retain(|&(handle, serial)| is_held(handle, serial));
        }
    }
}

/// Channels that have been subscribed to not long ago, though nothing is known of their ids.
#[derive(Debug, Default)]
pub(crate) struct FirstSubscriptions {
    pub(crate) since_ms: HashMap<Vec<u8>, u64>,
    /// Who catches up when.
    pub(crate) due: VecDeque<(u64, u64, u64)>,
}

/// What the ring says about what a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing was published since, or ids do not matter.
    UpToDate,
    /// Something was.
    Behind,
    /// The ring does not know.
    Unknown,
}

/// Items after the one with this id, or those of which the first follows it. `None`: they are not all here.
pub(crate) fn after(items: Vec<Item>, prev_id: &[u8]) -> Option<Vec<Rc<Item>>> {
    // What waits for nothing is no predecessor, and what has no id follows nothing.
    let has_order = |item: &Item| item.id.is_some() && !item.no_seq;
    let found = items
        .iter()
        .rposition(|it| has_order(it) && it.id.as_deref() == Some(prev_id));
    let begin = match found {
        Some(at) => at + 1,
        None => items
            .iter()
            .position(|it| has_order(it) && it.prev_id.as_deref() == Some(prev_id))?,
    };
    let rest = items.into_iter().skip(begin).filter(|it| it.id.is_some());
    let rest: Vec<Rc<Item>> = rest.map(Rc::new).collect();
    let mut last = prev_id;
    for item in &rest {
        if item.prev_id.as_deref().is_some_and(|it| it != last) && !item.no_seq {
            // One before it was never published here.
            return None;
        }
        last = match (&item.id, item.no_seq) {
            (Some(id), false) => id,
            _ => last,
        };
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(id: &str, prev_id: Option<&str>) -> Item {
        Item {
            id: (!id.is_empty()).then(|| id.into()),
            prev_id: prev_id.map(Into::into),
            ..Item::default()
        }
    }

    fn ids(items: Vec<Item>, prev_id: &str) -> Option<String> {
        let found = after(items, prev_id.as_bytes())?;
        let ids = found.iter().filter_map(|it| it.id.clone()).flatten();
        Some(ids.map(char::from).collect())
    }

    #[test]
    fn what_follows_an_id_is_found_where_it_is_all_there() {
        let history = || {
            vec![
                item("b", Some("a")),
                item("", None),
                item("c", Some("b")),
                item("d", None),
            ]
        };
        for (prev_id, expected) in [
            ("a", Some("bcd")),
            ("b", Some("cd")),
            ("d", Some("")),
            ("x", None),
        ] {
            assert_eq!(ids(history(), prev_id).as_deref(), expected, "{prev_id}");
        }
        // One between them was never published here.
        let broken = vec![item("b", Some("a")), item("d", Some("c"))];
        assert_eq!(ids(broken.clone(), "b"), None);
        assert_eq!(ids(broken, "c").as_deref(), Some("d"));
        let overtaking = Item {
            no_seq: true,
            ..item("x", Some("?"))
        };
        let history = vec![item("a", None), overtaking, item("b", Some("a"))];
        assert_eq!(ids(history.clone(), "a").as_deref(), Some("xb"));
        assert_eq!(ids(history, "x"), None);
    }

    #[test]
    fn clients_that_have_left_do_not_wait_for_their_turn() {
        let mut updates = Updates::default();
        updates.add((0, 0), 1, |_, _| true);
        for serial in 1..20_000 {
            let is_held = |handle, of| handle == 0 || of == serial;
            updates.add((7, serial), 2, is_held);
        }
        assert!(updates.waiting.len() <= LEFT_MAX + 4);
        assert_eq!(updates.waiting.front(), Some(&(0, 0)));
        assert_eq!(updates.waiting.back(), Some(&(7, 19_999)));
    }

    proptest! {
        /// Of a whole chain what is missed is what stands behind, wherever the ring has forgotten the beginning.
        #[test]
        fn a_chain_is_continued(len in 1..30usize, from in 0..30usize, had in 0..30usize) {
            let chain: Vec<Item> = (from..from + len)
                .map(|at| item(&at.to_string(), Some(&(at.wrapping_sub(1) as i64).to_string())))
                .collect();
            let found = after(chain, had.to_string().as_bytes());
            let is_known = had + 1 >= from && had < from + len;
            prop_assert_eq!(found.map(|it| it.len()), is_known.then(|| from + len - had - 1));
        }
    }
}
