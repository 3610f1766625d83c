//! Webhooks: events of an application's channels, sent in signed batches by HTTP POST.
//!
//! [`Occupancy`] derives events from counts of subscriptions. A vacated channel is reported after [`VACATED_DELAY_MS`],
//! so that reloading a page does not vacate and occupy its channel.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

pub use crate::target::{Kind, Webhook};
use crate::{App, auth};

/// Time for which a channel has to be empty before it is reported, in milliseconds.
pub const VACATED_DELAY_MS: u64 = 3_000;

/// Maximum number of tracked channels. Further channels have no occupancy events.
const CHANNELS_MAX: usize = 1_000_000;

/// A webhook event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookEvent {
    /// The channel has its first subscription.
    Occupied(String),
    /// The channel has lost its last subscription.
    Vacated(String),
    /// A user (second) has joined a presence channel (first).
    MemberAdded(String, String),
    /// A user (second field) has left a presence channel (first field).
    MemberRemoved(String, String),
    /// A subscriber of a cache channel found the channel empty.
    CacheMiss(String),
    /// A channel has this number of subscriptions.
    SubscriptionCount(String, u64),
    /// A client has sent an event to others.
    ClientEvent {
        /// The channel.
        channel: String,
        /// Name of the event.
        event: String,
        /// Its data.
        data: String,
        /// Socket id of the sending connection.
        socket_id: String,
        /// The sending user, in a presence channel.
        user_id: Option<String>,
    },
}

impl WebhookEvent {
    /// Returns the kind of the event.
    pub fn kind(&self) -> Kind {
        match self {
            WebhookEvent::Occupied(_) => Kind::ChannelOccupied,
            WebhookEvent::Vacated(_) => Kind::ChannelVacated,
            WebhookEvent::MemberAdded(..) => Kind::MemberAdded,
            WebhookEvent::MemberRemoved(..) => Kind::MemberRemoved,
            WebhookEvent::CacheMiss(_) => Kind::CacheMiss,
            WebhookEvent::SubscriptionCount(..) => Kind::SubscriptionCount,
            WebhookEvent::ClientEvent { .. } => Kind::ClientEvent,
        }
    }

    fn json(&self) -> Value {
        let name = self.kind().name();
        match self {
            WebhookEvent::Occupied(channel)
            | WebhookEvent::Vacated(channel)
            | WebhookEvent::CacheMiss(channel) => json!({"name": name, "channel": channel}),
            WebhookEvent::MemberAdded(channel, user)
            | WebhookEvent::MemberRemoved(channel, user) => {
                json!({"name": name, "channel": channel, "user_id": user})
            }
            WebhookEvent::SubscriptionCount(channel, count) => {
                json!({"name": name, "channel": channel, "subscription_count": count})
            }
            WebhookEvent::ClientEvent {
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

/// Returns the body of a webhook and its headers `X-Pusher-Key` and `X-Pusher-Signature`.
pub fn message<'a>(
    app: &App,
    happenings: impl Iterator<Item = &'a WebhookEvent>,
    unix_ms: u64,
) -> (String, [(&'static str, String); 2]) {
    let events: Vec<Value> = happenings.map(WebhookEvent::json).collect();
    let body = json!({"time_ms": unix_ms, "events": events}).to_string();
    let signature = auth::sign(app, body.as_bytes());
    let headers = [
        ("X-Pusher-Key", app.key.clone()),
        ("X-Pusher-Signature", signature),
    ];
    (body, headers)
}

/// Reported occupancy of an application's channels.
#[derive(Debug, Default)]
pub struct Occupancy {
    /// Channels reported as occupied.
    occupied: HashMap<String, Occupied>,
    /// Entries of empty channels, each with the time since which the channel is empty, ascending. An entry may be outdated.
    empty: VecDeque<(u64, String)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Occupied {
    /// The channel has subscriptions.
    Now,
    /// The channel has no subscriptions since this time. An earlier process may have exited before it reported the channel as
    /// occupied.
    Doubtful(u64),
    /// The channel has no subscriptions since this time.
    EmptySince(u64),
}

impl Occupancy {
    /// Continues from the state of an earlier process. The flag of a channel is true if that process has reported it as
    /// occupied, and false if it may have exited before. The present subscribers are unknown, so all channels count as empty
    /// until [`Occupancy::set`] is called for them.
    pub fn restore(channels: impl Iterator<Item = (String, bool)>, now_ms: u64) -> Occupancy {
        let channels: Vec<(String, bool)> = channels.take(CHANNELS_MAX).collect();
        let empty = channels
            .iter()
            .map(|(channel, _)| (now_ms, channel.clone()));
        let state = |is_certain| {
            if is_certain {
                Occupied::EmptySince(now_ms)
            } else {
                Occupied::Doubtful(now_ms)
            }
        };
        Occupancy {
            empty: empty.collect(),
            occupied: channels
                .into_iter()
                .map(|(channel, is_certain)| (channel, state(is_certain)))
                .collect(),
        }
    }

    /// Records a channel's number of subscriptions.
    pub fn set(&mut self, channel: &str, subscriptions: u64, now_ms: u64) -> Option<WebhookEvent> {
        let has_room = self.occupied.len() < CHANNELS_MAX;
        match (self.occupied.get_mut(channel), subscriptions) {
            (None, 0) => None,
            // Beyond the limit, a channel has no occupancy events.
            (None, _) if !has_room => None,
            (None, _) => {
                self.occupied.insert(channel.to_owned(), Occupied::Now);
                Some(WebhookEvent::Occupied(channel.to_owned()))
            }
            // Report the channel as vacated only after the delay, because its only client may be reloading the page.
            (Some(state @ Occupied::Now), 0) => {
                *state = Occupied::EmptySince(now_ms);
                self.empty.push_back((now_ms, channel.to_owned()));
                None
            }
            (Some(Occupied::EmptySince(_) | Occupied::Doubtful(_)), 0) => None,
            // The channel is occupied again before it was reported as vacated, so there is nothing to report. Only an uncertain
            // report is repeated.
            (Some(state), _) => {
                let before = std::mem::replace(state, Occupied::Now);
                let is_doubtful = matches!(before, Occupied::Doubtful(_));
                is_doubtful.then(|| WebhookEvent::Occupied(channel.to_owned()))
            }
        }
    }

    /// Returns events for channels that have been empty for [`VACATED_DELAY_MS`], at most `count_max`.
    pub fn vacated(&mut self, now_ms: u64, count_max: usize) -> Vec<WebhookEvent> {
        let mut vacated = Vec::new();
        while vacated.len() < count_max
            && let Some((since_ms, _)) = self.empty.front()
            && now_ms.saturating_sub(*since_ms) >= VACATED_DELAY_MS
        {
            let Some((since_ms, channel)) = self.empty.pop_front() else {
                break;
            };
            // The entry may be outdated: a client may have subscribed since then, and may have left again, which has added a
            // later entry.
            let (empty, doubtful) = (Occupied::EmptySince(since_ms), Occupied::Doubtful(since_ms));
            let state = self.occupied.get(&channel);
            if state == Some(&empty) || state == Some(&doubtful) {
                self.occupied.remove(&channel);
                vacated.push(WebhookEvent::Vacated(channel));
            }
        }
        vacated
    }

    /// Returns the time at which [`Occupancy::vacated`] has an event. `None`: it has no event before the next change.
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
        let happenings = [WebhookEvent::Occupied("a".to_owned())];
        let (body, headers) = message(&app, happenings.iter(), 5);
        assert_eq!(
            body,
            r#"{"events":[{"channel":"a","name":"channel_occupied"}],"time_ms":5}"#
        );
        assert!(auth::is_signed(&app, body.as_bytes(), &headers[1].1));
        assert_eq!(headers[0], ("X-Pusher-Key", "key".to_owned()));
    }

    #[test]
    fn reloaded_page_does_not_vacate_its_channel() {
        let mut occupancy = Occupancy::default();
        assert_eq!(
            occupancy.set("a", 1, 0),
            Some(WebhookEvent::Occupied("a".to_owned()))
        );
        assert_eq!(occupancy.set("a", 0, 1_000), None);
        assert_eq!(occupancy.set("a", 1, 2_000), None);
        assert_eq!(occupancy.vacated(10_000, 9), []);
        assert_eq!(occupancy.set("a", 0, 11_000), None);
        assert_eq!(occupancy.due_ms(), Some(14_000));
        assert_eq!(occupancy.vacated(13_999, 9), []);
        assert_eq!(
            occupancy.vacated(14_000, 9),
            [WebhookEvent::Vacated("a".to_owned())]
        );
        assert_eq!(
            occupancy.set("a", 2, 14_001),
            Some(WebhookEvent::Occupied("a".to_owned()))
        );
    }

    #[test]
    fn successor_vacates_empty_channels() {
        let channels = [("a", true), ("b", true), ("c", false), ("d", false)];
        let channels = channels.map(|(channel, is_certain)| (channel.to_owned(), is_certain));
        let mut occupancy = Occupancy::restore(channels.into_iter(), 500);
        assert_eq!(occupancy.set("b", 1, 600), None);
        assert_eq!(
            occupancy.set("c", 1, 600),
            Some(WebhookEvent::Occupied("c".to_owned()))
        );
        assert_eq!(
            occupancy.vacated(500 + VACATED_DELAY_MS, 9),
            ["a", "d"].map(|channel| WebhookEvent::Vacated(channel.to_owned()))
        );
        assert_eq!(occupancy.due_ms(), None);
    }

    #[test]
    fn kinds_have_their_names() {
        let happenings = [
            WebhookEvent::SubscriptionCount("a".to_owned(), 3),
            WebhookEvent::MemberAdded("presence-a".to_owned(), "7".to_owned()),
            WebhookEvent::ClientEvent {
                channel: "presence-a".to_owned(),
                event: "client-x".to_owned(),
                data: "{}".to_owned(),
                socket_id: "1.2".to_owned(),
                user_id: Some("7".to_owned()),
            },
        ];
        let told: Vec<Value> = happenings.iter().map(WebhookEvent::json).collect();
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
        /// The reported events of a channel alternate, and the last event agrees with the state.
        #[test]
        fn occupancy_events_alternate(steps in proptest::collection::vec((0u64..3, 0u64..2_000), 1..80)) {
            let mut occupancy = Occupancy::default();
            let (mut now_ms, mut told, mut last) = (0, false, 0);
            let take = |happening: &WebhookEvent, told: &mut bool| {
                let is_occupied = matches!(happening, WebhookEvent::Occupied(_));
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
