//! What an application is told of its channels: by HTTP POST, signed, several at once.
//!
//! [`Occupancy`] turns counts of subscriptions into what is to be told. A channel that nobody is left in is told
//! [`VACATED_DELAY_MS`] later, so that who loads a page anew does not make it vacated and occupied again.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

pub use crate::target::{Kind, Webhook};
use crate::{App, auth};

/// How long a channel is empty before that is told.
pub const VACATED_DELAY_MS: u64 = 3_000;

/// Channels of which something is known; of more, occupancy is not told.
const CHANNELS_MAX: usize = 1_000_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The channel has its first subscription.
    Occupied(String),
    /// The channel has lost its last subscription.
    Vacated(String),
    /// A user is in a presence channel.
    MemberAdded(String, String),
    /// A user is no longer.
    MemberRemoved(String, String),
    /// A subscriber of a cache channel found it empty.
    CacheMiss(String),
    /// A channel has that many subscriptions.
    SubscriptionCount(String, u64),
    /// A client said something to the others.
    ClientEvent {
        /// The channel.
        channel: String,
        /// The event's name.
        event: String,
        /// Its data.
        data: String,
        /// The connection it was sent on.
        socket_id: String,
        /// The user that is, in a presence channel.
        user_id: Option<String>,
    },
}

impl Happening {
    /// Which of the kinds it is.
    pub fn kind(&self) -> Kind {
        match self {
            Happening::Occupied(_) => Kind::ChannelOccupied,
            Happening::Vacated(_) => Kind::ChannelVacated,
            Happening::MemberAdded(..) => Kind::MemberAdded,
            Happening::MemberRemoved(..) => Kind::MemberRemoved,
            Happening::CacheMiss(_) => Kind::CacheMiss,
            Happening::SubscriptionCount(..) => Kind::SubscriptionCount,
            Happening::ClientEvent { .. } => Kind::ClientEvent,
        }
    }

    fn json(&self) -> Value {
        let name = self.kind().name();
        match self {
            Happening::Occupied(channel)
            | Happening::Vacated(channel)
            | Happening::CacheMiss(channel) => json!({"name": name, "channel": channel}),
            Happening::MemberAdded(channel, user) | Happening::MemberRemoved(channel, user) => {
                json!({"name": name, "channel": channel, "user_id": user})
            }
            Happening::SubscriptionCount(channel, count) => {
                json!({"name": name, "channel": channel, "subscription_count": count})
            }
            Happening::ClientEvent {
                channel,
                event,
                data,
                socket_id,
                user_id,
            } => {
                let mut value = json!({
                    "name": name, "channel": channel, "event": event, "data": data, "socket_id": socket_id,
                });
                if let Some(user) = user_id {
                    value["user_id"] = json!(user);
                }
                value
            }
        }
    }
}

/// The body of a webhook and its headers: `X-Pusher-Key` and `X-Pusher-Signature`.
pub fn message<'a>(
    app: &App,
    happenings: impl Iterator<Item = &'a Happening>,
    unix_ms: u64,
) -> (String, [(&'static str, String); 2]) {
    let events: Vec<Value> = happenings.map(Happening::json).collect();
    let body = json!({"time_ms": unix_ms, "events": events}).to_string();
    let signature = auth::sign(app, body.as_bytes());
    let headers = [
        ("X-Pusher-Key", app.key.clone()),
        ("X-Pusher-Signature", signature),
    ];
    (body, headers)
}

/// Which channels of an application are occupied, as it has been told.
#[derive(Debug, Default)]
pub struct Occupancy {
    /// Those that are said to be occupied.
    occupied: HashMap<String, Occupied>,
    /// Empty ones by when they became so.
    empty: VecDeque<(u64, String)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Occupied {
    Now,
    /// It may not have been sent, and the channel is known to be empty since this time.
    Doubtful(u64),
    /// Without subscriptions since this time.
    EmptySince(u64),
}

impl Occupancy {
    /// Goes on where another one was ended: these channels are said to be occupied, certainly or perhaps, and nobody is known
    /// to be in them.
    pub fn restore(channels: impl Iterator<Item = (String, bool)>, now_ms: u64) -> Occupancy {
        let channels: Vec<(String, bool)> = channels.take(CHANNELS_MAX).collect();
        let empty = channels
            .iter()
            .map(|(channel, _)| (now_ms, channel.clone()));
        let state = |is_certain| match is_certain {
            true => Occupied::EmptySince(now_ms),
            false => Occupied::Doubtful(now_ms),
        };
        Occupancy {
            empty: empty.collect(),
            occupied: channels
                .into_iter()
                .map(|(channel, is_certain)| (channel, state(is_certain)))
                .collect(),
        }
    }

    /// A channel has this many subscriptions now.
    pub fn set(&mut self, channel: &str, subscriptions: u64, now_ms: u64) -> Option<Happening> {
        let has_room = self.occupied.len() < CHANNELS_MAX;
        match (self.occupied.get_mut(channel), subscriptions) {
            (None, 0) => None,
            (None, _) if !has_room => None,
            (None, _) => {
                self.occupied.insert(channel.to_owned(), Occupied::Now);
                Some(Happening::Occupied(channel.to_owned()))
            }
            (Some(state @ Occupied::Now), 0) => {
                *state = Occupied::EmptySince(now_ms);
                self.empty.push_back((now_ms, channel.to_owned()));
                None
            }
            (Some(Occupied::EmptySince(_) | Occupied::Doubtful(_)), 0) => None,
            (Some(state), _) => {
                let before = std::mem::replace(state, Occupied::Now);
                let is_doubtful = matches!(before, Occupied::Doubtful(_));
                is_doubtful.then(|| Happening::Occupied(channel.to_owned()))
            }
        }
    }

    /// Channels that have been empty for long enough, at most so many.
    pub fn vacated(&mut self, now_ms: u64, count_max: usize) -> Vec<Happening> {
        let mut vacated = Vec::new();
        while vacated.len() < count_max
            && let Some((since_ms, _)) = self.empty.front()
            && now_ms.saturating_sub(*since_ms) >= VACATED_DELAY_MS
        {
            let Some((since_ms, channel)) = self.empty.pop_front() else {
                break;
            };
            // A client may have subscribed, and left again later.
            let (empty, doubtful) = (Occupied::EmptySince(since_ms), Occupied::Doubtful(since_ms));
            let state = self.occupied.get(&channel);
            if state == Some(&empty) || state == Some(&doubtful) {
                self.occupied.remove(&channel);
                vacated.push(Happening::Vacated(channel));
            }
        }
        vacated
    }

    /// When [`Occupancy::vacated`] has something to say; `None`: not before something happens.
    pub fn due_ms(&self) -> Option<u64> {
        self.empty
            .front()
            .map(|(since, _)| since + VACATED_DELAY_MS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_webhook_is_signed_over_its_body() {
        let app = App::new("1", "key", "secret").expect("an application");
        let happenings = [Happening::Occupied("a".to_owned())];
        let (body, headers) = message(&app, happenings.iter(), 5);
        assert_eq!(
            body,
            r#"{"events":[{"channel":"a","name":"channel_occupied"}],"time_ms":5}"#
        );
        assert!(auth::is_signed(&app, body.as_bytes(), &headers[1].1));
        assert_eq!(headers[0], ("X-Pusher-Key", "key".to_owned()));
    }

    #[test]
    fn a_page_that_is_loaded_anew_vacates_nothing() {
        let mut occupancy = Occupancy::default();
        assert_eq!(
            occupancy.set("a", 1, 0),
            Some(Happening::Occupied("a".to_owned()))
        );
        assert_eq!(occupancy.set("a", 0, 1_000), None);
        assert_eq!(occupancy.set("a", 1, 2_000), None);
        assert_eq!(occupancy.vacated(10_000, 9), []);
        assert_eq!(occupancy.set("a", 0, 11_000), None);
        assert_eq!(occupancy.due_ms(), Some(14_000));
        assert_eq!(occupancy.vacated(13_999, 9), []);
        assert_eq!(
            occupancy.vacated(14_000, 9),
            [Happening::Vacated("a".to_owned())]
        );
        assert_eq!(
            occupancy.set("a", 2, 14_001),
            Some(Happening::Occupied("a".to_owned()))
        );
    }

    #[test]
    fn the_next_one_vacates_what_nobody_is_in_any_more() {
        let channels = [("a", true), ("b", true), ("c", false), ("d", false)];
        let channels = channels.map(|(channel, is_certain)| (channel.to_owned(), is_certain));
        let mut occupancy = Occupancy::restore(channels.into_iter(), 500);
        assert_eq!(occupancy.set("b", 1, 600), None);
        assert_eq!(
            occupancy.set("c", 1, 600),
            Some(Happening::Occupied("c".to_owned()))
        );
        assert_eq!(
            occupancy.vacated(500 + VACATED_DELAY_MS, 9),
            ["a", "d"].map(|channel| Happening::Vacated(channel.to_owned()))
        );
        assert_eq!(occupancy.due_ms(), None);
    }

    #[test]
    fn kinds_are_told_by_their_names() {
        let happenings = [
            Happening::SubscriptionCount("a".to_owned(), 3),
            Happening::MemberAdded("presence-a".to_owned(), "7".to_owned()),
            Happening::ClientEvent {
                channel: "presence-a".to_owned(),
                event: "client-x".to_owned(),
                data: "{}".to_owned(),
                socket_id: "1.2".to_owned(),
                user_id: Some("7".to_owned()),
            },
        ];
        let told: Vec<Value> = happenings.iter().map(Happening::json).collect();
        assert_eq!(
            told,
            [
                json!({"name": "subscription_count", "channel": "a", "subscription_count": 3}),
                json!({"name": "member_added", "channel": "presence-a", "user_id": "7"}),
                json!({
                    "name": "client_event", "channel": "presence-a", "event": "client-x", "data": "{}",
                    "socket_id": "1.2", "user_id": "7",
                }),
            ]
        );
        for kind in Kind::ALL {
            assert!(Webhook::new("http://localhost/").wants(kind));
        }
    }

    proptest! {
        /// What is told alternates, and in the end agrees with what is.
        #[test]
        fn occupancy_is_told_in_turns(steps in proptest::collection::vec((0u64..3, 0u64..2_000), 1..80)) {
            let mut occupancy = Occupancy::default();
            let (mut now_ms, mut told, mut last) = (0, false, 0);
            let take = |happening: &Happening, told: &mut bool| {
                let is_occupied = matches!(happening, Happening::Occupied(_));
                assert_ne!(*told, is_occupied);
                *told = is_occupied;
            };
            for (count, ms) in steps {
                now_ms += ms;
                for happening in occupancy.vacated(now_ms, 9) {
                    take(&happening, &mut told);
                }
                if let Some(happening) = occupancy.set("a", count, now_ms) {
                    take(&happening, &mut told);
                }
                last = count;
            }
            for happening in occupancy.vacated(now_ms + VACATED_DELAY_MS, 9) {
                take(&happening, &mut told);
            }
            prop_assert_eq!(told, last > 0);
            prop_assert_eq!(occupancy.due_ms(), None);
        }
    }
}
