//! Statistics for dashboards that were made for Pushpin: packets of the stats socket, and metric names for Prometheus.

use crate::packet::{self, Notation};
use crate::value::Value;

/// A client's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Long polls.
    HttpResponse,
    /// Streams.
    HttpStream,
    /// WebSockets.
    WsMessage,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::HttpResponse => "http-response",
            Self::HttpStream => "http-stream",
            Self::WsMessage => "ws-message",
        }
    }

    /// Returns the name of the transport in subscription packets.
    fn mode(self) -> &'static str {
        match self {
            Self::HttpResponse => "response",
            Self::HttpStream => "stream",
            Self::WsMessage => "ws",
        }
    }
}

/// Counts of ten seconds, for one route or for all routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Maximum number of simultaneous connections.
    pub connections: u64,
    /// Minutes of connections, rounded up for each.
    pub minutes: u64,
    /// Messages from publishers.
    pub received: u64,
    /// Messages to clients.
    pub sent: u64,
    /// Responses to long polls, which `sent` includes.
    pub http_response_sent: u64,
    /// Blocks from publishers; `None`: blocks are not counted.
    pub blocks_received: Option<u64>,
    /// Blocks to clients; `None`: blocks are not counted.
    pub blocks_sent: Option<u64>,
    /// Milliseconds that the report covers.
    pub duration_ms: u64,
    /// Traffic of connections; `None`: it is not counted.
    pub traffic: Option<Traffic>,
}

/// Traffic of connections with clients and with backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Traffic from clients.
    pub client_received: Flow,
    /// To clients.
    pub client_sent: Flow,
    /// Traffic from backends.
    pub server_received: Flow,
    /// To backends.
    pub server_sent: Flow,
}

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes of heads: method, target, status, reason, and the names and values of headers.
    pub header_bytes: u64,
    /// Bytes of bodies and WebSocket messages.
    pub content_bytes: u64,
    /// WebSocket messages.
    pub messages: u64,
}

/// A packet of the stats socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Requests, keep-alives and similar activity.
    Activity {
        /// Number of activities.
        count: u64,
    },
    /// A published item.
    Message {
        /// Its channel.
        channel: &'a [u8],
        /// Its id.
        item_id: Option<&'a [u8]>,
        /// Number of recipients.
        count: u64,
        /// Number of blocks of the item. `None`: blocks are not counted.
        blocks: Option<u64>,
        /// The recipients' transport.
        transport: Transport,
    },
    /// A connection exists, for the next `ttl_s` seconds.
    Connection {
        /// Id of the connection.
        id: &'a [u8],
        /// True if the connection is a WebSocket.
        is_websocket: bool,
        /// Address of the client.
        peer_address: Option<&'a [u8]>,
        /// True if the connection is encrypted.
        is_tls: bool,
        /// Time for which the connection counts without another packet, in seconds.
        ttl_s: u64,
    },
    /// A connection was closed.
    ConnectionGone {
        /// Id of the connection.
        id: &'a [u8],
    },
    /// A channel has subscribers, for the next `ttl_s` seconds.
    Subscription {
        /// Transport of the subscribers.
        transport: Transport,
        /// The channel.
        channel: &'a [u8],
        /// Time for which the subscription is valid without another packet, in seconds.
        ttl_s: u64,
        /// Number of subscribers.
        subscribers: Option<u64>,
    },
    /// A channel has no subscribers any more.
    SubscriptionGone {
        /// Transport of the former subscribers.
        transport: Transport,
        /// The channel.
        channel: &'a [u8],
    },
    /// Counts of one interval.
    Report(Report),
    /// Requests since the last packet of this type.
    Counts {
        /// Number of requests.
        requests_received: u64,
    },
}

impl Packet<'_> {
    /// Returns the type of the packet. Subscribers of the stats socket filter by it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Activity { .. } => "activity",
            Self::Message { .. } => "message",
            Self::Connection { .. } | Self::ConnectionGone { .. } => "conn",
            Self::Subscription { .. } | Self::SubscriptionGone { .. } => "sub",
            Self::Report(_) => "report",
            Self::Counts { .. } => "counts",
        }
    }

    /// Encodes the payload of a message as type, space and fields. `from` is the sending process. `route` is the route's id, if the
    /// route has one.
    pub fn encode(&self, from: &[u8], route: Option<&[u8]>, notation: Notation) -> Vec<u8> {
        let mut fields = Fields(vec![(b"from".to_vec(), Value::Bytes(from.to_vec()))]);
        fields.optional_bytes("route", route);
        match *self {
            Self::Activity { count } => fields.number("count", count),
            Self::Message {
                channel,
                item_id,
                count,
                blocks,
                transport,
            } => {
                fields.optional_bytes("channel", Some(channel));
                fields.optional_bytes("item-id", item_id);
                fields.number("count", count);
                fields.optional_number("blocks", blocks);
                fields.text("transport", transport.name());
            }
            Self::Connection {
                id,
                is_websocket,
                peer_address,
                is_tls,
                ttl_s,
            } => {
                fields.optional_bytes("id", Some(id));
                fields.text("type", if is_websocket { "ws" } else { "http" });
                fields.optional_bytes("peer-address", peer_address);
                if is_tls {
                    fields.value("ssl", Value::Bool(true));
                }
                fields.number("ttl", ttl_s);
            }
            Self::ConnectionGone { id } => {
                fields.optional_bytes("id", Some(id));
                fields.value("unavailable", Value::Bool(true));
            }
            Self::Subscription {
                transport,
                channel,
                ttl_s,
                subscribers,
            } => {
                fields.text("mode", transport.mode());
                fields.optional_bytes("channel", Some(channel));
                fields.number("ttl", ttl_s);
                fields.optional_number("subscribers", subscribers);
            }
            Self::SubscriptionGone { transport, channel } => {
                fields.text("mode", transport.mode());
                fields.optional_bytes("channel", Some(channel));
                fields.value("unavailable", Value::Bool(true));
            }
            Self::Report(report) => {
                fields.number("connections", report.connections);
                fields.number("minutes", report.minutes);
                fields.number("received", report.received);
                fields.number("sent", report.sent);
                fields.number("http-response-sent", report.http_response_sent);
                fields.optional_number("blocks-received", report.blocks_received);
                fields.optional_number("blocks-sent", report.blocks_sent);
                fields.number("duration", report.duration_ms);
                if let Some(traffic) = report.traffic {
                    for (side, way, flow) in [
                        ("client", "received", traffic.client_received),
                        ("client", "sent", traffic.client_sent),
                        ("server", "received", traffic.server_received),
                        ("server", "sent", traffic.server_sent),
                    ] {
                        for (what, number) in [
                            ("header-bytes", flow.header_bytes),
                            ("content-bytes", flow.content_bytes),
                            ("messages", flow.messages),
                        ] {
                            fields.number(&format!("{side}-{what}-{way}"), number);
                        }
                    }
                }
            }
            Self::Counts { requests_received } => {
                fields.number("requests-received", requests_received)
            }
        }
        let mut payload = self.kind().as_bytes().to_vec();
        payload.push(b' ');
        packet::encode(&mut payload, &Value::Map(fields.0), notation);
        payload
    }
}

struct Fields(Vec<(Vec<u8>, Value)>);

impl Fields {
    fn value(&mut self, name: &str, value: Value) {
        self.0.push((name.into(), value));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.value(name, text.into());
    }

    fn number(&mut self, name: &str, number: u64) {
        self.value(
            name,
            Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
        );
    }

    fn optional_number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    fn optional_bytes(&mut self, name: &str, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.value(name, Value::Bytes(bytes.to_vec()));
        }
    }
}

/// A metric for Prometheus, with Pushpin's name. A configured prefix is written before the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Requests received.
    RequestReceived,
    /// Connections that are open now.
    ConnectionConnected,
    /// Minutes for which connections were open, summed up.
    ConnectionMinute,
    /// Messages from publishers.
    MessageReceived,
    /// Messages to clients.
    MessageSent,
}

impl Figure {
    /// All metrics.
    pub const ALL: [Self; 5] = [
        Self::RequestReceived,
        Self::ConnectionConnected,
        Self::ConnectionMinute,
        Self::MessageReceived,
        Self::MessageSent,
    ];

    /// Returns the name of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "request_received",
            Self::ConnectionConnected => "connection_connected",
            Self::ConnectionMinute => "connection_minute",
            Self::MessageReceived => "message_received",
            Self::MessageSent => "message_sent",
        }
    }

    /// Appends the lines of the metric in the text format of Prometheus.
    pub fn write(self, out: &mut String, prefix: &str, value: u64) {
        let kind = match self {
            Self::ConnectionConnected => "gauge",
            _ => "counter",
        };
        let name = self.name();
        out.push_str(&format!(
            "# TYPE {prefix}{name} {kind}\n{prefix}{name} {value}\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_type_and_fields() {
        let report = Packet::Report(Report {
            connections: 1_000_004,
            minutes: 166_216,
            duration_ms: 9_998,
            ..Report::default()
        });
        let payload = report.encode(b"edge_1", Some(b"r"), Notation::Json);
        let json = payload
            .strip_prefix(b"report J")
            .expect("type, space, letter");
        let json: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({"from": "edge_1", "route": "r", "connections": 1_000_004, "minutes": 166_216,
                "received": 0, "sent": 0, "http-response-sent": 0, "duration": 9_998})
        );
        let gone = Packet::ConnectionGone { id: b"7" }.encode(b"e", None, Notation::Tnetstring);
        assert_eq!(
            gone,
            b"conn T42:4:from,1:e,2:id,1:7,11:unavailable,4:true!}"
        );
    }

    #[test]
    fn every_packet_round_trips() {
        let packets = [
            Packet::Activity { count: 1 },
            Packet::Message {
                channel: b"c",
                item_id: Some(b"1"),
                count: 2,
                blocks: Some(3),
                transport: Transport::WsMessage,
            },
            Packet::Connection {
                id: b"1",
                is_websocket: true,
                peer_address: Some(b"::1"),
                is_tls: true,
                ttl_s: 120,
            },
            Packet::Subscription {
                transport: Transport::HttpStream,
                channel: b"c",
                ttl_s: 60,
                subscribers: Some(5),
            },
            Packet::SubscriptionGone {
                transport: Transport::HttpResponse,
                channel: b"c",
            },
            Packet::Counts {
                requests_received: u64::MAX,
            },
        ];
        for packet in packets {
            for notation in [Notation::Json, Notation::Tnetstring] {
                let payload = packet.encode(b"e", None, notation);
                let fields = &payload[packet.kind().len() + 1..];
                let (value, _) = packet::decode(fields).expect("own packet");
                assert_eq!(value.get("from"), Some(&"e".into()), "{packet:?}");
            }
        }
    }

    #[test]
    fn metric_names_match_pushpin() {
        let mut text = String::new();
        for figure in Figure::ALL {
            figure.write(&mut text, "pushpin_", 7);
        }
        assert!(text.contains(
            "# TYPE pushpin_connection_connected gauge\npushpin_connection_connected 7\n"
        ));
        assert!(text.contains("# TYPE pushpin_message_sent counter\n"));
        assert_eq!(text.lines().count(), 10);
    }
}
