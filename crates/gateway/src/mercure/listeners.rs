//! Selects the subscribers of this worker for each update, and translates ids of updates.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::slice::from_ref;

use fermata_engine::{ChannelEvent, Select};
use fermata_mercure::Hub;
use fermata_mercure::audience::Audience;
use fermata_mercure::subscription::Subscriber;
use fermata_mercure::topic::Topic;
use fermata_mercure::update::{EARLIEST, Update};

/// Maximum number of publisher-chosen ids from which clients can resume; the newest are stored.
pub(super) const GIVEN_MAX: usize = 16_384;

pub(super) struct Listeners {
    pub audience: Audience,
    /// Protocol settings.
    hub: Hub,
    /// Engine id by publisher-chosen id. If several updates have the same id, the earliest one is
    /// stored.
    given: HashMap<Rc<str>, Box<str>>,
    /// Publisher-chosen ids in order of arrival.
    given_order: VecDeque<Rc<str>>,
    /// The engine's id of the newest update, and its Mercure id.
    newest: Option<(String, String)>,
    /// The last event parsed, cached because several views receive it.
    at_hand: AtHand,
}

#[derive(Default)]
struct AtHand {
    /// The engine's id of the event.
    place: Vec<u8>,
    what: What,
}

#[derive(Default)]
enum What {
    /// An event that no subscriber receives.
    #[default]
    Nothing,
    Update {
        topics: Vec<Topic>,
        is_private: bool,
        bytes: Vec<u8>,
    },
    Subscriber {
        subscriber: Subscriber,
        urls: Vec<Topic>,
        is_active: bool,
    },
}

impl Listeners {
    pub fn new(templates_max: usize, templates_per_address_max: usize, hub: Hub) -> Listeners {
        let audience = Audience::new(templates_max, hub.syntax());
        Listeners {
            audience: audience.with_templates_per_address(templates_per_address_max),
            hub,
            given: HashMap::new(),
            given_order: VecDeque::new(),
            newest: None,
            at_hand: AtHand::default(),
        }
    }

    /// Records the id of an update. `name` is the metadata stored with its data.
    pub fn note(&mut self, place: &str, name: &[u8]) {
        let Some(given) = given_id(name) else {
            self.newest = Some((place.to_owned(), self.hub.id_of(place)));
            return;
        };
        self.newest = Some((place.to_owned(), given.clone()));
        if self.given.contains_key(given.as_str()) {
            return;
        }
        if self.given_order.len() == GIVEN_MAX
            && let Some(oldest) = self.given_order.pop_front()
        {
            self.given.remove(&oldest);
        }
        let given: Rc<str> = given.into();
        self.given_order.push_back(Rc::clone(&given));
        self.given.insert(given, place.into());
    }

    /// Returns the engine's id of an update with a publisher-chosen id.
    pub fn place_of(&self, given: &str) -> Option<String> {
        self.given.get(given).map(|place| place.to_string())
    }

    /// Returns the engine's id of the newest update read.
    pub fn newest_place(&self) -> Option<String> {
        self.newest.as_ref().map(|(place, _)| place.clone())
    }

    /// Returns the Mercure id of the newest update.
    pub fn newest_id(&self) -> String {
        match &self.newest {
            Some((_, id)) => id.clone(),
            None => EARLIEST.to_owned(),
        }
    }

    /// Parses an event into the cache, unless the cache already contains it.
    fn take(&mut self, event: &ChannelEvent<'_>) {
        let place = match event {
            ChannelEvent::Message { id, .. }
            | ChannelEvent::Join { id, .. }
            | ChannelEvent::Leave { id, .. } => *id,
            ChannelEvent::Gap { .. } => b"",
        };
        if !place.is_empty() && self.at_hand.place == place {
            return;
        }
        self.at_hand.place.clear();
        self.at_hand.place.extend_from_slice(place);
        let id = std::str::from_utf8(place).unwrap_or_default();
        self.at_hand.what = match event {
            ChannelEvent::Message { name, data, .. } => {
                match Update::from_kept(name.unwrap_or_default(), data) {
                    Some(update) => {
                        let mut bytes = Vec::new();
                        let given = update.id.clone();
                        update.write(&given.unwrap_or_else(|| self.hub.id_of(id)), &mut bytes);
                        What::Update {
                            topics: update.topics.into_iter().map(Topic::new).collect(),
                            is_private: update.is_private,
                            bytes,
                        }
                    }
                    None => What::Nothing,
                }
            }
            ChannelEvent::Join { data, .. } => subscriber(data, true),
            ChannelEvent::Leave { data, .. } => subscriber(data, false),
            ChannelEvent::Gap { .. } => What::Nothing,
        };
    }
}

fn subscriber(data: &[u8], is_active: bool) -> What {
    match Subscriber::from_announcement(data) {
        Some(subscriber) => What::Subscriber {
            urls: subscriber.urls().map(Topic::new).collect(),
            subscriber,
            is_active,
        },
        None => What::Nothing,
    }
}

/// Returns the publisher-chosen id in the metadata stored with an update's data.
pub(super) fn given_id(name: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Id {
        i: Option<String>,
    }
    serde_json::from_slice::<Id>(name).ok()?.i
}

/// Adapter that lets the engine query the listeners.
pub(super) struct Listening(pub Rc<RefCell<Listeners>>);

impl Select for Listening {
    fn select(&mut self, event: &ChannelEvent<'_>, views: &mut Vec<u64>) {
        let mut listeners = self.0.borrow_mut();
        let listeners = &mut *listeners;
        match event {
            ChannelEvent::Message { id, name, .. } => {
                let place = std::str::from_utf8(id).unwrap_or_default();
                listeners.note(place, name.unwrap_or_default());
            }
            ChannelEvent::Join { id, .. } | ChannelEvent::Leave { id, .. } => {
                let place = std::str::from_utf8(id).unwrap_or_default();
                listeners.note(place, b"");
            }
            ChannelEvent::Gap { .. } => {}
        }
        listeners.take(event);
        match &listeners.at_hand.what {
            What::Nothing => {}
            What::Update {
                topics, is_private, ..
            } => listeners.audience.select(topics, *is_private, views),
            What::Subscriber { urls, .. } => {
                for url in urls {
                    listeners.audience.select(from_ref(url), true, views);
                }
                views.sort_unstable();
                views.dedup();
            }
        }
    }

    fn selects(&mut self, view: u64, event: &ChannelEvent<'_>) -> bool {
        let mut listeners = self.0.borrow_mut();
        listeners.take(event);
        match &listeners.at_hand.what {
            What::Nothing => false,
            What::Update {
                topics, is_private, ..
            } => listeners.audience.selects(view, topics, *is_private),
            What::Subscriber { urls, .. } => urls
                .iter()
                .any(|url| listeners.audience.selects(view, from_ref(url), true)),
        }
    }

    fn write(&mut self, view: u64, event: &ChannelEvent<'_>, out: &mut Vec<u8>) {
        let mut listeners = self.0.borrow_mut();
        listeners.take(event);
        match &listeners.at_hand.what {
            What::Nothing => {}
            What::Update { bytes, .. } => out.extend_from_slice(bytes),
            What::Subscriber {
                subscriber,
                urls,
                is_active,
            } => {
                let place = std::str::from_utf8(&listeners.at_hand.place).unwrap_or_default();
                let wants = |at: usize| listeners.audience.selects(view, from_ref(&urls[at]), true);
                subscriber.write(*is_active, &listeners.hub.id_of(place), wants, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_earliest_update_of_an_id_and_drops_old_ids() {
        let mut listeners = Listeners::new(1, 1, Hub::default());
        assert_eq!(listeners.newest_id(), EARLIEST);
        let name = |id: &str| format!("{{\"t\":[\"a\"],\"i\":\"{id}\"}}").into_bytes();
        listeners.note("e-1", &name("x"));
        listeners.note("e-2", &name("x"));
        listeners.note("e-3", b"{\"t\":[\"a\"]}");
        assert_eq!(listeners.place_of("x").as_deref(), Some("e-1"));
        assert_eq!(listeners.newest_id(), "e-3");
        for at in 0..GIVEN_MAX {
            listeners.note("e-4", &name(&format!("y{at}")));
        }
        assert_eq!(listeners.place_of("x"), None);
        assert_eq!(listeners.given.len(), GIVEN_MAX);
        assert_eq!(listeners.newest_id(), format!("y{}", GIVEN_MAX - 1));
    }
}
