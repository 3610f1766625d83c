//! What is asked of JetStream and what it answers: JSON, and the subject that a delivered message is acknowledged by.
//!
//! <https://docs.nats.io/reference/reference-protocols/nats_api_reference>

use serde::Deserialize;
use serde_json::json;

use crate::decimal;
use crate::epoch::epoch_of;

/// The subject of the API call for a stream or its consumers.
pub(crate) fn api(verb: &str, stream: &str) -> String {
    format!("$JS.API.{verb}.{stream}")
}

/// What a stream is to be when it is not there yet. Times in nanoseconds.
pub(crate) struct NewStream<'a> {
    pub name: &'a str,
    pub subjects: &'a str,
    pub age_ns_max: u64,
    pub bytes_max: u64,
    pub replicas: u16,
    pub duplicates_ns: u64,
}

impl NewStream<'_> {
    pub fn to_json(&self) -> Vec<u8> {
        json!({
            "name": self.name,
            "subjects": [self.subjects],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_age": self.age_ns_max,
            "max_bytes": self.bytes_max,
            "num_replicas": self.replicas,
            "duplicate_window": self.duplicates_ns,
            "allow_direct": true,
        })
        .to_string()
        .into_bytes()
    }
}

/// An ordered consumer: one that is pushed every message from a place on, once, and acknowledges none.
pub(crate) fn ordered_consumer(
    stream: &str,
    deliver_to: &str,
    from: u64,
    heartbeat_ns: u64,
) -> Vec<u8> {
    json!({
        "stream_name": stream,
        "config": {
            "deliver_subject": deliver_to,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": from,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": true,
            "idle_heartbeat": heartbeat_ns,
            "replay_policy": "instant",
            "num_replicas": 1,
            "mem_storage": true,
        },
    })
    .to_string()
    .into_bytes()
}

/// What went wrong.
#[derive(Debug, Deserialize)]
pub(crate) struct ApiError {
    pub code: u16,
    #[serde(default)]
    pub description: String,
}

/// The answer to a question about a stream, and to one that makes it.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamAnswer {
    pub error: Option<ApiError>,
    #[serde(default)]
    pub created: String,
    /// All of it is written again when a part of it changes.
    #[serde(default)]
    config: serde_json::Value,
    #[serde(default)]
    pub state: StreamState,
    #[serde(default)]
    cluster: Copies,
}

/// Where else the stream is, as its leader says.
#[derive(Debug, Default, Deserialize)]
struct Copies {
    #[serde(default)]
    replicas: Option<Vec<Replica>>,
}

#[derive(Debug, Deserialize)]
struct Replica {
    /// How long the leader has not heard of it, in nanoseconds.
    #[serde(default)]
    active: u64,
    #[serde(default)]
    offline: bool,
}

/// A copy that the leader of its stream has not heard of for so long does not count. Copies answer once a second.
const REPLICA_SILENCE_NS_MAX: u64 = 3_000_000_000;

/// Stands in the stream's description before the number of its epochs.
const EPOCH_MARK: &str = "fermata epoch ";

impl StreamAnswer {
    /// Tells this log from others of its name, and from itself before it has lost messages.
    pub fn epoch(&self) -> u64 {
        match self.generation() {
            0 => epoch_of(&self.created),
            generation => epoch_of(&format!("{} {generation}", self.created)),
        }
    }

    /// What the stream is to be so that its next epoch begins; `None` when the answer does not say what it is.
    pub fn config_of_next_epoch(&self) -> Option<Vec<u8>> {
        let mut config = self.config.clone();
        let own = self.description().split(EPOCH_MARK).next()?.trim_end();
        let separator = if own.is_empty() { "" } else { " " };
        let generation = self.generation() + 1;
        let description = format!("{own}{separator}{EPOCH_MARK}{generation}");
        config
            .as_object_mut()?
            .insert("description".to_owned(), description.into());
        Some(config.to_string().into_bytes())
    }

    /// Whether its messages are given by any copy, not by the leader alone.
    pub fn allows_direct(&self) -> bool {
        let allowed = self.config.get("allow_direct");
        allowed.is_some_and(|it| it == true)
    }

    /// Whether several servers have the stream and elect a leader.
    pub fn is_replicated(&self) -> bool {
        !self.replicas().is_empty()
    }

    /// Whether the leader hears of most of the servers that have the stream. One that is cut off takes itself for the leader for
    /// ten seconds more, and does not know what is stored meanwhile.
    pub fn has_majority(&self) -> bool {
        let replicas = self.replicas();
        let is_there = |it: &&Replica| !it.offline && it.active <= REPLICA_SILENCE_NS_MAX;
        let there = 1 + replicas.iter().filter(is_there).count();
        there * 2 > replicas.len() + 1
    }

    fn replicas(&self) -> &[Replica] {
        self.cluster.replicas.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> u64 {
        let mark = self.description().split_once(EPOCH_MARK);
        mark.and_then(|(_, number)| number.trim().parse().ok())
            .unwrap_or(0)
    }

    fn description(&self) -> &str {
        let description = self.config.get("description");
        description.and_then(|it| it.as_str()).unwrap_or_default()
    }
}

/// What a stream has.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamState {
    pub first_seq: u64,
    pub last_seq: u64,
    /// When the last message was stored, as text.
    #[serde(default)]
    pub last_ts: String,
    /// Messages that are gone between the two.
    #[serde(default)]
    pub num_deleted: u64,
}

/// The answer to the making of a consumer.
#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerAnswer {
    pub error: Option<ApiError>,
    /// How many messages are left to be given.
    pub num_pending: Option<u64>,
    #[serde(default)]
    pub delivered: Delivered,
}

/// What a consumer has given.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Delivered {
    pub consumer_seq: u64,
}

/// The answer to a publish.
#[derive(Debug, Deserialize)]
pub(crate) struct PublishAnswer {
    pub error: Option<ApiError>,
    #[serde(default)]
    pub seq: u64,
}

impl PublishAnswer {
    /// What the answer of every day says, which is all that most of them are: `{"stream":"S", "seq":42}`. `None` for any other.
    pub fn seq_of(json: &[u8]) -> Option<u64> {
        let rest = json.strip_prefix(b"{\"stream\":\"")?;
        let (_, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let rest = rest.strip_prefix(b"\",")?.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"seq\":")?.trim_ascii_start();
        decimal::read(rest.strip_suffix(b"}")?)
    }
}

/// What a server says of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Info {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub headers: bool,
    #[serde(default)]
    pub jetstream: bool,
    #[serde(default)]
    pub tls_required: bool,
    #[serde(default)]
    pub tls_available: bool,
    #[serde(default)]
    pub nonce: String,
    #[serde(default)]
    pub max_payload: u64,
}

/// The first version that gives many messages for one question.
const BATCHED_GETS: (u32, u32) = (2, 11);

impl Info {
    pub fn has_batched_gets(&self) -> bool {
        let mut numbers = self.version.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= BATCHED_GETS,
            _ => false,
        }
    }
}

/// Fields behind `$JS.ACK` that are looked at, in the longer of its two forms.
const FIELDS_MAX: usize = 9;

/// Where a delivered message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Among all messages of the stream.
    pub stream_seq: u64,
    /// Among those that this consumer was given.
    pub consumer_seq: u64,
    /// When the stream stored it.
    pub unix_ns: u64,
    /// How many are left behind it.
    pub pending: u64,
}

impl Delivery {
    pub fn unix_ms(&self) -> u64 {
        self.unix_ns / 1_000_000
    }

    /// `$JS.ACK.stream.consumer.count.stream seq.consumer seq.time.pending`, or the same behind `$JS.ACK.domain.account` and
    /// with more at its end.
    pub fn read(reply: &[u8]) -> Option<Delivery> {
        let text = reply.strip_prefix(b"$JS.ACK.")?;
        let mut fields = [&text[..0]; FIELDS_MAX];
        let mut count = 0;
        for field in text.split(|byte| *byte == b'.') {
            // What a newer server has behind these is not read.
            if let Some(place) = fields.get_mut(count) {
                *place = field;
            }
            count += 1;
        }
        let first = match count {
            7 => 3,
            FIELDS_MAX.. => 5,
            _ => return None,
        };
        let number = |at: usize| decimal::read(fields[first + at]);
        Some(Delivery {
            stream_seq: number(0)?,
            consumer_seq: number(1)?,
            unix_ns: number(2)?,
            pending: number(3)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_read_in_both_forms() {
        let delivery = Delivery {
            stream_seq: 42,
            consumer_seq: 7,
            unix_ns: 1_700,
            pending: 3,
        };
        for reply in [
            "$JS.ACK.S.C.1.42.7.1700.3",
            "$JS.ACK.d.h.S.C.1.42.7.1700.3",
            "$JS.ACK._.h.S.C.1.42.7.1700.3.x",
        ] {
            assert_eq!(Delivery::read(reply.as_bytes()), Some(delivery), "{reply}");
        }
        for reply in [
            "",
            "$JS.FC.S.C.x",
            "$JS.ACK.S.C.1.42.7.1700",
            "$JS.ACK.S.C.1.x.7.1700.0",
        ] {
            assert_eq!(Delivery::read(reply.as_bytes()), None, "{reply}");
        }
    }

    #[test]
    fn short_answers_to_publishes_are_read_without_a_parser() {
        for (text, seq) in [
            (r#"{"stream":"S", "seq":42}"#, Some(42)),
            (r#"{"stream":"S","seq": 7}"#, Some(7)),
            (r#"{"stream":"S", "seq":42,"duplicate": true}"#, None),
            (r#"{"stream":"S\",", "seq":42}"#, None),
            (r#"{"error":{"code":503},"stream":"S","seq":0}"#, None),
            ("", None),
        ] {
            assert_eq!(PublishAnswer::seq_of(text.as_bytes()), seq, "{text}");
        }
    }

    #[test]
    fn a_next_epoch_is_another_one_and_leaves_the_rest_alone() {
        let text = r#"{"created":"2026","config":{"name":"S","max_age":7,"description":"ours"},"state":{"first_seq":1,"last_seq":2}}"#;
        let first: StreamAnswer = serde_json::from_str(text).unwrap();
        assert_eq!(first.epoch(), epoch_of("2026"));
        let mut answer = first;
        let mut epochs = std::collections::HashSet::from([answer.epoch()]);
        for generation in 1..4 {
            answer.config =
                serde_json::from_slice(&answer.config_of_next_epoch().unwrap()).unwrap();
            assert!(epochs.insert(answer.epoch()));
            assert_eq!(
                answer.config["description"],
                format!("ours fermata epoch {generation}")
            );
            assert_eq!(
                (&answer.config["name"], &answer.config["max_age"]),
                (&"S".into(), &7.into())
            );
        }
    }
}
