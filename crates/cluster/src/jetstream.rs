//! Requests and responses of the JetStream API in JSON, and the reply subject of delivered messages.
//!
//! <https://docs.nats.io/reference/reference-protocols/nats_api_reference>

use serde::Deserialize;
use serde_json::json;

use crate::decimal;
use crate::epoch::epoch_of;
use crate::rfc3339;

/// Subject of an API call for a stream or its consumers.
pub(crate) fn api(verb: &str, stream: &str) -> String {
    format!("$JS.API.{verb}.{stream}")
}

/// Configuration of a stream to create. Times in nanoseconds.
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

/// Configuration of an ordered consumer: the server pushes every message from a sequence on, once, without acknowledgements.
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

/// An error of the API.
#[derive(Debug, Deserialize)]
pub(crate) struct ApiError {
    pub code: u16,
    #[serde(default)]
    pub description: String,
}

/// Response to STREAM.INFO, CREATE and UPDATE.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamAnswer {
    pub error: Option<ApiError>,
    #[serde(default)]
    pub created: String,
    /// The complete configuration is kept, because an update replaces all of it.
    #[serde(default)]
    config: serde_json::Value,
    #[serde(default)]
    pub state: StreamState,
    #[serde(default)]
    cluster: Copies,
}

/// Other servers of the stream, as reported by its leader.
#[derive(Debug, Default, Deserialize)]
struct Copies {
    #[serde(default)]
    replicas: Option<Vec<Replica>>,
}

#[derive(Debug, Deserialize)]
struct Replica {
    /// Nanoseconds since the leader last received a message of this copy.
    #[serde(default)]
    active: u64,
    #[serde(default)]
    offline: bool,
}

/// Silence after which a copy does not count for the majority. Copies respond to the leader once a second.
const REPLICA_SILENCE_NS_MAX: u64 = 3_000_000_000;

/// Greatest epoch that a stream's description may have. The limit leaves room for later epochs, and every JSON number type can
/// represent it.
const EPOCH_MAX: u64 = 1 << 53;

/// Text before the epoch in the description of a stream that has lost messages.
const EPOCH_MARK: &str = "fermata epoch ";

impl StreamAnswer {
    /// Epoch of the log. It changes when the stream is recreated, and after each loss of messages. `None`: the response has no
    /// creation time.
    pub fn epoch(&self) -> Option<u64> {
        let created = epoch_of(rfc3339::unix_ns(&self.created)?);
        Some(self.marked_epoch().unwrap_or(created))
    }

    /// Returns a configuration that sets the epoch. Returns `None` if the response has no configuration.
    pub fn config_of_epoch(&self, epoch: u64) -> Option<Vec<u8>> {
        let mut config = self.config.clone();
        let own = self.description().split(EPOCH_MARK).next()?.trim_end();
        let separator = if own.is_empty() { "" } else { " " };
        let description = format!("{own}{separator}{EPOCH_MARK}{epoch}");
        config
            .as_object_mut()?
            .insert("description".to_owned(), description.into());
        Some(config.to_string().into_bytes())
    }

    /// Returns true if any copy may return stored messages, not only the leader.
    pub fn allows_direct(&self) -> bool {
        let allowed = self.config.get("allow_direct");
        allowed.is_some_and(|it| it == true)
    }

    /// Returns true if several servers have the stream and elect a leader.
    pub fn is_replicated(&self) -> bool {
        !self.replicas().is_empty()
    }

    /// Returns true if the leader reaches a majority of the stream's servers. A leader that is cut off from the others resigns only
    /// after ten seconds, and lacks the messages that its successor stores meanwhile.
    pub fn has_majority(&self) -> bool {
        let replicas = self.replicas();
        let is_there = |it: &&Replica| !it.offline && it.active <= REPLICA_SILENCE_NS_MAX;
        let there = 1 + replicas.iter().filter(is_there).count();
        there * 2 > replicas.len() + 1
    }

    fn replicas(&self) -> &[Replica] {
        self.cluster.replicas.as_deref().unwrap_or_default()
    }

    fn marked_epoch(&self) -> Option<u64> {
        let (_, number) = self.description().split_once(EPOCH_MARK)?;
        let number = number.trim().parse().ok();
        number.filter(|epoch| (1..=EPOCH_MAX).contains(epoch))
    }

    fn description(&self) -> &str {
        let description = self.config.get("description");
        description.and_then(|it| it.as_str()).unwrap_or_default()
    }
}

/// Messages of a stream.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamState {
    pub first_seq: u64,
    pub last_seq: u64,
    /// When the last message was stored (RFC 3339).
    #[serde(default)]
    pub last_ts: String,
    /// Number of deleted messages between the first and the last one.
    #[serde(default)]
    pub num_deleted: u64,
}

/// Response to CONSUMER.CREATE.
#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerAnswer {
    pub error: Option<ApiError>,
    /// Number of messages that are not delivered yet.
    pub num_pending: Option<u64>,
    #[serde(default)]
    pub delivered: Delivered,
}

/// Deliveries of a consumer.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Delivered {
    pub consumer_seq: u64,
}

/// Response to a publish.
#[derive(Debug, Deserialize)]
pub(crate) struct PublishAnswer {
    pub error: Option<ApiError>,
    #[serde(default)]
    pub seq: u64,
    /// True if the stream already had the message, at `seq`.
    #[serde(default)]
    pub duplicate: bool,
}

impl PublishAnswer {
    /// Reads the usual response, `{"stream":"S", "seq":42}`, without a JSON parser. Returns `None` for any other response.
    pub fn seq_of(json: &[u8]) -> Option<u64> {
        let rest = json.strip_prefix(b"{\"stream\":\"")?;
        let (_, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let rest = rest.strip_prefix(b"\",")?.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"seq\":")?.trim_ascii_start();
        decimal::read(rest.strip_suffix(b"}")?)
    }
}

/// INFO of a server.
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
    /// Name of the server's cluster. Empty for a standalone server.
    #[serde(default)]
    pub cluster: String,
    /// Lame-duck mode: the server stops soon, and closes its clients one by one.
    #[serde(default)]
    pub ldm: bool,
}

/// First version of NATS that returns many stored messages per request.
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

/// Maximum number of fields after `$JS.ACK`, in the longer of its two forms.
const FIELDS_MAX: usize = 9;

/// Position of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Sequence in the stream.
    pub stream_seq: u64,
    /// Sequence among the deliveries of the consumer.
    pub consumer_seq: u64,
    /// Time when the stream stored the message, in Unix nanoseconds.
    pub unix_ns: u64,
    /// Number of messages that follow.
    pub pending: u64,
}

impl Delivery {
    pub fn unix_ms(&self) -> u64 {
        self.unix_ns / 1_000_000
    }

    /// Parses `$JS.ACK.stream.consumer.count.stream seq.consumer seq.time.pending`, or `$JS.ACK.domain.account.` with the same
    /// fields and further fields after them.
    pub fn read(reply: &[u8]) -> Option<Delivery> {
        let text = reply.strip_prefix(b"$JS.ACK.")?;
        let mut fields = [&text[..0]; FIELDS_MAX];
        let mut count = 0;
        for field in text.split(|byte| *byte == b'.') {
            // Newer servers append fields.
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
    fn parses_both_forms_of_deliveries() {
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
    fn reads_usual_publish_response_without_json() {
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
    fn new_epoch_changes_only_the_description() {
        let text = r#"{"created":"2026-11-22T14:00:00.25Z","config":{"name":"S","max_age":7,"description":"ours"},"state":{"first_seq":1,"last_seq":2}}"#;
        let first: StreamAnswer = serde_json::from_str(text).unwrap();
        assert_eq!(first.epoch(), Some(1_795_356_000_250 * 64));
        let mut answer = first;
        for epoch in [1 << 47, 1 << 48, 7] {
            answer.config =
                serde_json::from_slice(&answer.config_of_epoch(epoch).unwrap()).unwrap();
            assert_eq!(answer.epoch(), Some(epoch));
            assert_eq!(
                answer.config["description"],
                format!("ours fermata epoch {epoch}")
            );
            assert_eq!(
                (&answer.config["name"], &answer.config["max_age"]),
                (&"S".into(), &7.into())
            );
        }
    }
}
