//! Subscriptions: their announcement to others, and the API that lists them.
//!
//! Each topic of a subscriber is a subscription with its own URL. That URL is also the topic of the private updates
//! that announce its start and end.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::PATH;
use crate::form;
use crate::matcher::{matcher, split};
use crate::resource::EVENT;
use crate::update::write_event;

const CONTEXT: &str = "https://mercure.rocks/";

/// Media type of responses of the API.
pub const CONTENT_TYPE: &str = "application/ld+json";

/// Media type of responses in the draft.
pub const DRAFT_CONTENT_TYPE: &str = "application/json";

/// Public data of a subscriber, as JSON of at most [`INFO_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Selectors of the subscriber.
    #[serde(rename = "t")]
    pub topics: Vec<String>,
    /// Payload of the subscriber's token.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Payloads per topic, in the draft; may be empty.
    #[serde(rename = "q", default, skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<Value>,
    /// The topics are matchers of the draft.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_draft: bool,
}

/// Maximum length of [`Info`] as JSON, in bytes.
pub const INFO_BYTES_MAX: usize = 1024;

/// Subscriptions that a request selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// List only subscriptions to this topic. `None`: to all topics.
    pub topic: Option<String>,
    /// List only subscriptions of this subscriber. `None`: of all subscribers.
    pub subscriber: Option<String>,
}

/// A subscriber that is connected, or has just left.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscriber {
    /// Its id.
    pub id: String,
    /// Public data of the subscriber.
    pub info: Info,
}

impl Filter {
    /// Parses the path after `/subscriptions`. `None`: there is no such resource.
    pub(crate) fn parse(rest: &str) -> Option<Filter> {
        let mut filter = Filter::default();
        if rest.is_empty() {
            return Some(filter);
        }
        let mut segments = rest.strip_prefix('/')?.split('/');
        let mut next = || segments.next().map(|it| form::decode(it.as_bytes(), false));
        filter.topic = Some(next()??).filter(|it| !it.is_empty());
        filter.topic.as_ref()?;
        filter.subscriber = match next() {
            Some(subscriber) => Some(subscriber?),
            None => None,
        };
        next().is_none().then_some(filter)
    }

    /// Parses the path in the form of the draft, which has a matcher type before the matcher.
    pub(crate) fn parse_typed(rest: &str) -> Option<Filter> {
        if rest.is_empty() {
            return Some(Filter::default());
        }
        let (kind, rest) = rest.strip_prefix('/')?.split_once('/')?;
        let mut filter = Filter::parse(&format!("/{rest}"))?;
        filter.topic = Some(matcher(kind, filter.topic.as_deref()?)?);
        Some(filter)
    }
}

impl Info {
    /// Returns the JSON of the subscriber. `None`: the JSON is too long.
    pub fn to_json(&self) -> Option<String> {
        let text = serde_json::to_string(self).ok()?;
        (text.len() <= INFO_BYTES_MAX).then_some(text)
    }
}

impl Subscriber {
    /// Parses `{"user": …, "info": …}`, the format of presence announcements.
    pub fn from_announcement(data: &[u8]) -> Option<Subscriber> {
        #[derive(Deserialize)]
        struct Announcement {
            user: String,
            info: Info,
        }
        let announcement: Announcement = serde_json::from_slice(data).ok()?;
        Some(Subscriber {
            id: announcement.user,
            info: announcement.info,
        })
    }

    /// Returns the URLs of the subscriptions, in the order of the subscriber's topics.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.info.topics.iter().map(|topic| self.url(topic))
    }

    /// Appends the updates for the subscriptions whose index `wants` selects. `id` is the common id of these updates.
    pub fn write(
        &self,
        is_active: bool,
        id: &str,
        wants: impl Fn(usize) -> bool,
        out: &mut Vec<u8>,
    ) {
        let wanted: Vec<usize> = (0..self.info.topics.len())
            .filter(|&at| wants(at))
            .collect();
        for (place, &at) in wanted.iter().enumerate() {
            let mut document = self.document(at, is_active);
            let kind = if self.info.is_draft {
                Some(EVENT)
            } else {
                document["@context"] = CONTEXT.into();
                None
            };
            // Only the last update has the id. A client that disconnects earlier then resumes before all of these updates, and
            // misses none.
            let id = if place + 1 == wanted.len() { id } else { "" };
            write_event(id, kind, None, &document.to_string(), out);
        }
    }

    fn document(&self, at: usize, is_active: bool) -> Value {
        let topic = self.info.topics[at].as_str();
        if self.info.is_draft {
            let (kind, matcher) = split(topic);
            let mut document = json!({
                "id": self.url(topic),
                "type": "subscription",
                "match_type": kind,
                "match": matcher,
                "subscriber": self.id,
                "active": is_active,
            });
            if let Some(payload) = self.info.payloads.get(at).filter(|it| !it.is_null()) {
                document["payload"] = payload.clone();
            }
            return document;
        }
        let mut document = json!({
            "id": self.url(topic),
            "type": "Subscription",
            "subscriber": self.id,
            "topic": topic,
            "active": is_active,
        });
        if let Some(payload) = &self.info.payload {
            document["payload"] = payload.clone();
        }
        document
    }

    fn url(&self, topic: &str) -> String {
        let mut url = format!("{PATH}/subscriptions/");
        let mut rest = topic;
        if self.info.is_draft {
            let (kind, matcher) = split(topic);
            url.push_str(kind);
            url.push('/');
            rest = matcher;
        }
        form::encode(rest, &mut url);
        url.push('/');
        form::encode(&self.id, &mut url);
        url
    }
}

/// Returns the response of the subscription API. `None`: there is no subscription with that URL. `path` is the requested path.
/// `last_id` is the id of the newest update; the draft sends this id in a header field instead of the body.
pub fn answer(
    filter: &Filter,
    path: &str,
    last_id: &str,
    subscribers: &[Subscriber],
    is_draft: bool,
) -> Option<String> {
    let mut found = Vec::new();
    for subscriber in subscribers {
        if filter
            .subscriber
            .as_ref()
            .is_some_and(|it| *it != subscriber.id)
        {
            continue;
        }
        for (at, topic) in subscriber.info.topics.iter().enumerate() {
            if filter.topic.as_ref().is_none_or(|it| it == topic) {
                found.push(subscriber.document(at, true));
            }
        }
    }
    if filter.subscriber.is_some() {
        let mut one = found.into_iter().next()?;
        if is_draft {
            return Some(one.to_string());
        }
        one["@context"] = CONTEXT.into();
        one["lastEventID"] = last_id.into();
        return Some(one.to_string());
    }
    if is_draft {
        let collection = json!({"id": path, "type": "subscriptions", "subscriptions": found});
        return Some(collection.to_string());
    }
    let collection = json!({
        "@context": CONTEXT,
        "id": path,
        "type": "Subscriptions",
        "lastEventID": last_id,
        "subscriptions": found,
    });
    Some(collection.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriber() -> Subscriber {
        Subscriber {
            id: "urn:uuid:1".to_owned(),
            info: Info {
                topics: vec!["https://a/{b}".to_owned(), "c".to_owned()],
                payload: Some(json!({"name": "Ada"})),
                payloads: Vec::new(),
                is_draft: false,
            },
        }
    }

    const URL: &str = "/.well-known/mercure/subscriptions/https%3A%2F%2Fa%2F%7Bb%7D/urn%3Auuid%3A1";

    #[test]
    fn announces_start_and_end() {
        let text = json!({"user": "urn:uuid:1", "info": subscriber().info}).to_string();
        let read = Subscriber::from_announcement(text.as_bytes()).expect("a subscriber");
        assert_eq!(read, subscriber());
        assert_eq!(read.urls().next().as_deref(), Some(URL));
        let mut out = Vec::new();
        read.write(false, "9", |_| true, &mut out);
        let text = String::from_utf8(out).expect("text");
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), 2);
        assert!(events[1].starts_with("id: 9\ndata: "), "{text}");
        let document: Value = serde_json::from_str(&events[0]["data: ".len()..]).expect("JSON");
        assert_eq!(
            document,
            json!({
                "@context": "https://mercure.rocks/", "id": URL, "type": "Subscription",
                "subscriber": "urn:uuid:1", "topic": "https://a/{b}", "active": false,
                "payload": {"name": "Ada"},
            })
        );
    }

    #[test]
    fn parses_filters_in_paths() {
        let parse = Filter::parse;
        assert_eq!(parse(""), Some(Filter::default()));
        let one = parse(&URL["/.well-known/mercure/subscriptions".len()..]).expect("a path");
        assert_eq!(one.topic.as_deref(), Some("https://a/{b}"));
        assert_eq!(one.subscriber.as_deref(), Some("urn:uuid:1"));
        for nowhere in ["x", "/", "/a/b/c", "/%zz", "/a/%f"] {
            assert_eq!(parse(nowhere), None, "{nowhere}");
        }
        let all = [subscriber()];
        let read = |filter: &Filter| -> Option<Value> {
            answer(filter, "/p", "7", &all, false)
                .map(|it| serde_json::from_str(&it).expect("JSON"))
        };
        let document = read(&one).expect("it is there");
        assert_eq!(document["id"], URL);
        assert_eq!(document["lastEventID"], "7");
        let collection = read(&parse("/c").expect("a path")).expect("a list");
        assert_eq!(
            collection["subscriptions"].as_array().map(Vec::len),
            Some(1)
        );
        assert_eq!(read(&parse("/c/other").expect("a path")), None);
        let everything = read(&Filter::default()).expect("a list");
        assert_eq!(
            everything["subscriptions"].as_array().map(Vec::len),
            Some(2)
        );
    }

    #[test]
    fn draft_announces_types_and_payloads_per_topic() {
        let subscriber = Subscriber {
            id: "urn:uuid:1".to_owned(),
            info: Info {
                topics: vec!["urlpattern:https://a/:b".to_owned(), "exact:c".to_owned()],
                payload: None,
                payloads: vec![json!({"n": 1}), Value::Null],
                is_draft: true,
            },
        };
        let url =
            "/.well-known/mercure/subscriptions/urlpattern/https%3A%2F%2Fa%2F%3Ab/urn%3Auuid%3A1";
        let first = json!({
            "id": url, "type": "subscription", "match_type": "urlpattern", "match": "https://a/:b",
            "subscriber": "urn:uuid:1", "active": true, "payload": {"n": 1},
        });
        let mut out = Vec::new();
        subscriber.write(true, "#9", |_| true, &mut out);
        let text = String::from_utf8(out).expect("text");
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert!(
            events[1].starts_with("event: mercure\nid: #9\ndata: "),
            "{text}"
        );
        let document: Value =
            serde_json::from_str(&events[0]["event: mercure\ndata: ".len()..]).expect("JSON");
        assert_eq!(document, first);
        let filter = Filter::parse_typed("/urlpattern/https%3A%2F%2Fa%2F%3Ab/urn%3Auuid%3A1")
            .expect("a place");
        let one = answer(&filter, url, "#9", std::slice::from_ref(&subscriber), true).expect("it");
        assert_eq!(serde_json::from_str::<Value>(&one).expect("JSON"), first);
        let all = answer(&Filter::default(), "/x", "#9", &[subscriber], true).expect("all");
        let all: Value = serde_json::from_str(&all).expect("JSON");
        assert_eq!(all["type"], "subscriptions");
        assert_eq!(all["subscriptions"][1]["match"], "c");
        assert!(all["subscriptions"][1].get("payload").is_none() && all.get("@context").is_none());
    }
}
