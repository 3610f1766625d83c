//! Every figure a worker keeps, declared once: counters that only grow, gauges that come and go.
//!
//! Names in JSON, names and help texts for Prometheus and the places in shared memory come from here.

/// Upper bounds of the histogram's buckets in microseconds, in the order of `Counter::Latency…`.
pub(crate) const LATENCY_BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things or bytes: shown as it is.
    Plain,
    /// Milliseconds: Prometheus gets seconds.
    Milliseconds,
}

/// How the figures of several workers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// They add up.
    Sum,
    /// The largest one counts.
    Max,
}

/// What is known about a counter or gauge.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its key in JSON. Neighbours with the same key are one object, keyed by `label`.
    pub key: &'static str,
    /// What tells it from its neighbours with the same key: name and value of a label.
    pub label: Option<(&'static str, &'static str)>,
    /// Its name for Prometheus, without `fermata_`.
    pub metric: &'static str,
    /// One sentence for people; the same for all neighbours with the same key.
    pub help: &'static str,
    /// What it is measured in.
    pub unit: Unit,
    /// How workers are taken together.
    pub merge: Merge,
}

macro_rules! figures {
    (
        $(#[$doc:meta])* $name:ident;
        $($key:literal $metric:literal $unit:ident $merge:ident $help:literal
            { $($variant:ident $(($label:literal $value:literal))?),+ $(,)? })+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name {
            $($(
                #[doc = $help]
                $variant,
            )+)+
        }

        impl $name {
            /// All of them, in the order of the variants.
            pub const TABLE: &'static [Figure] = &[
                $($(
                    Figure {
                        key: $key,
                        label: figures!(@label $($label $value)?),
                        metric: $metric,
                        help: $help,
                        unit: Unit::$unit,
                        merge: Merge::$merge,
                    },
                )+)+
            ];

            /// Number of variants.
            pub const LEN: usize = $name::TABLE.len();
        }
    };
    (@label) => { None };
    (@label $label:literal $value:literal) => { Some(($label, $value)) };
}

figures! {
    /// A count since the worker's first start.
    Counter;
    "accepted" "connections_accepted_total" Plain Sum
    "Connections accepted on the public listener." { Accepted }
    "connections_moved" "connections_moved_total" Plain Sum
    "Idle connections handed to a worker that had fewer; counted where they come from." { Moved }
    "connections_refused" "connections_refused_total" Plain Sum
    "Connections not taken: at which limit, because the kernel had no descriptor or memory left, or because they did not begin with the header of a trusted proxy." {
        RefusedConnections("reason" "connections_max"),
        RefusedPerAddress("reason" "connections_per_address_max"),
        RefusedAccept("reason" "accept_failed"),
        RefusedProxy("reason" "proxy_protocol"),
    }
    "connections_dropped" "connections_dropped_total" Plain Sum
    "Connections closed against the client's will: too slow for its channel with the policy close, nothing taken for write_timeout_ms, or not finished at drain_timeout_ms." {
        DroppedSlow("reason" "slow"),
        DroppedWriteTimeout("reason" "write_timeout"),
        DroppedDrain("reason" "drain_timeout"),
    }
    "http2_connections" "http2_connections_total" Plain Sum
    "Connections that have begun to speak HTTP/2." { Http2Connections }
    "http2_streams" "http2_streams_total" Plain Sum
    "Requests begun on connections of HTTP/2." { Http2Streams }
    "http2_closed" "http2_closed_total" Plain Sum
    "Connections of HTTP/2 closed because their clients broke the protocol, or sent too much of what costs the server more than them." {
        Http2Violations("reason" "violation"),
        Http2FloodResets("reason" "flood_resets"),
        Http2FloodResetsCaused("reason" "flood_resets_caused"),
        Http2FloodPings("reason" "flood_pings"),
        Http2FloodSettings("reason" "flood_settings"),
        Http2FloodEmptyData("reason" "flood_empty_data"),
        Http2FloodConnectionWindowUpdates("reason" "flood_connection_window_updates"),
        Http2FloodStreamWindowUpdates("reason" "flood_stream_window_updates"),
        Http2FloodPriorities("reason" "flood_priorities"),
        Http2FloodUnknownFrames("reason" "flood_unknown_frames"),
        Http2FloodContinuations("reason" "flood_continuations"),
    }
    "http2_streams_refused" "http2_streams_refused_total" Plain Sum
    "Requests over HTTP/2 refused by a limit: 429 because their client's address had streams_per_address_max, 503 because the worker had connections_max of them." {
        Http2RefusedPerAddress("reason" "streams_per_address_max"),
        Http2RefusedConnections("reason" "connections_max"),
    }
    "proxy_headers_ignored" "proxy_headers_ignored_total" Plain Sum
    "Requests of trusted proxies with Forwarded and X-Forwarded headers that proxy_headers does not name: no header was believed." {
        ProxyHeadersIgnored
    }
    "requests" "requests_total" Plain Sum
    "Requests read completely on the public listener." { Requests }
    // The order of the classes is that of their first digit.
    "responses" "responses_total" Plain Sum
    "Responses begun on the public listener, by class of status; holds are 2xx." {
        ResponsesOther("class" "other"),
        Responses1xx("class" "1xx"),
        Responses2xx("class" "2xx"),
        Responses3xx("class" "3xx"),
        Responses4xx("class" "4xx"),
        Responses5xx("class" "5xx"),
    }
    "requests_refused" "requests_refused_total" Plain Sum
    "Requests refused by the server itself and not by a route, by status: 400 and 417 and 501 and 505 malformed, 408 header_timeout_ms or body_timeout_ms, 413 body_bytes_max, 414 target_bytes_max, 431 header_bytes_max or headers_count_max, 503 worker restarting." {
        Refused400("status" "400"),
        Refused408("status" "408"),
        Refused413("status" "413"),
        Refused414("status" "414"),
        Refused417("status" "417"),
        Refused431("status" "431"),
        Refused501("status" "501"),
        Refused503("status" "503"),
        Refused505("status" "505"),
        RefusedOther("status" "other"),
    }
    "handler_failures" "handler_failures_total" Plain Sum
    "Handlers that threw, exited or returned nonsense; their clients got an error response, or close code 1011 on a WebSocket." { HandlerFailures }
    "handlers_waited" "handlers_waited_total" Plain Sum
    "Handlers of requests and WebSockets that waited for something at least once." { HandlersWaited }
    "fibers_exhausted" "fibers_exhausted_total" Plain Sum
    "Times that all fibers_max fibers were waiting, so that new requests and messages had to wait, too." { FibersExhausted }
    "tasks" "tasks_total" Plain Sum
    "Tasks that have ended: of async(), all() and race(), runs of every(), of defer(), turns of onMessage()." {
        TasksAsync("kind" "async"),
        TasksEvery("kind" "every"),
        TasksDeferred("kind" "defer"),
        TasksMessages("kind" "messages"),
    }
    "tasks_failed" "tasks_failed_total" Plain Sum
    "Tasks that have ended by an exception other than a CancelledException." {
        TasksFailedAsync("kind" "async"),
        TasksFailedEvery("kind" "every"),
        TasksFailedDeferred("kind" "defer"),
        TasksFailedMessages("kind" "messages"),
    }
    "every_skipped" "every_skipped_total" Plain Sum
    "Runs of every() left out because the one before had not ended, or the worker was late." { EverySkipped }
    // In the order of `JobEnd`.
    "jobs" "jobs_total" Plain Sum
    "Calls of Jobs::run() that have ended: with a result, an exception of the job, the death of its process, by timeoutMs, with the wait of the caller, refused because the queue was full or there was no room." {
        JobsDone("outcome" "done"),
        JobsFailed("outcome" "failed"),
        JobsCrashed("outcome" "crashed"),
        JobsTimedOut("outcome" "timeout"),
        JobsCancelled("outcome" "cancelled"),
        JobsRejected("outcome" "rejected"),
    }
    "bytes_received" "received_bytes_total" Plain Sum
    "Bytes read from public connections." { BytesReceived }
    "bytes_sent" "sent_bytes_total" Plain Sum
    "Bytes the kernel has taken for public connections." { BytesSent }
    "control_requests" "control_requests_total" Plain Sum
    "Requests on the control socket." { ControlRequests }
    "holds" "holds_total" Plain Sum
    "Clients held, each time one was." { Holds }
    "holds_at_edges" "holds_at_edges_total" Plain Sum
    "Clients that a GRIP edge in front was told to hold." { HoldsAtEdges }
    "events_at_edges" "events_at_edges_total" Plain Sum
    "Events told to the edges of grip_url, each edge counted: taken, refused for good; lost counts the times that an edge took nothing for longer than the ring keeps events." {
        EdgeTaken("outcome" "taken"),
        EdgeRefused("outcome" "refused"),
        EdgeLost("outcome" "lost"),
    }
    "published" "published_total" Plain Sum
    "Messages appended for handlers and the control socket of this worker." { Published }
    "publish_failures" "publish_failures_total" Plain Sum
    "Messages not appended: unacceptable, or no room within publish_wait_ms_max." {
        PublishMisuse("reason" "misuse"),
        PublishBackpressure("reason" "backpressure"),
    }
    "publish_waits" "publish_waits_total" Plain Sum
    "Appends that had to wait for a worker a whole ring behind, or for the lock." { PublishWaits }
    "records_read" "records_read_total" Plain Sum
    "Records each worker has read from the ring: messages, joins and leaves of all channels." { RecordsRead }
    "deliveries" "deliveries_total" Plain Sum
    "Live events put up for subscribers: records times subscribers. A gap tells that some were not taken." { Deliveries }
    "replayed" "replayed_total" Plain Sum
    "Events of the past sent to clients that came back." { Replayed }
    "gaps" "gaps_total" Plain Sum
    "Gap events: the client was too slow for its channel (or the log of the cluster had a gap for its server), came back later than history reaches, or with an id of another history." {
        GapsSlow("reason" "too_slow"),
        GapsExpired("reason" "expired"),
        GapsUnknown("reason" "unknown_id"),
    }
    "members_refused" "members_refused_total" Plain Sum
    "Holds and joins of users that were refused because as many are present as there may be: in all channels, in one, from one address." {
        MembersRefused("reason" "members_max"),
        MembersRefusedChannel("reason" "members_per_channel_max"),
        MembersRefusedAddress("reason" "members_per_address_max"),
    }
    "blocked" "blocked_total" Plain Sum
    "Writes the kernel took only a part of: the client's buffer was full." { Blocked }
    "keep_alives" "keep_alives_total" Plain Sum
    "Comments sent to silent held clients." { KeepAlives }
    "tls_handshakes" "tls_handshakes_total" Plain Sum
    "TLS handshakes completed, in full or shortened by a session ticket." {
        TlsFull("kind" "full"),
        TlsResumed("kind" "resumed"),
    }
    "tls_handshakes_failed" "tls_handshakes_failed_total" Plain Sum
    "TLS handshakes not completed: HTTP without TLS, nothing in common, client certificate missing or not acceptable, refused by the client (usually it does not trust ours), protocol broken, client left or took longer than header_timeout_ms." {
        TlsPlainHttp("reason" "plain_http"),
        TlsIncompatible("reason" "incompatible"),
        TlsCertificate("reason" "client_certificate"),
        TlsAlert("reason" "client_alert"),
        TlsProtocol("reason" "protocol"),
        TlsAbandoned("reason" "abandoned"),
    }
    "websocket_upgrades" "websocket_upgrades_total" Plain Sum
    "WebSockets opened." { WebSocketUpgrades }
    "websocket_refused" "websocket_refused_total" Plain Sum
    "WebSocket handshakes refused by the server: no handshake at all or another version, a page of an origin that may not connect, malformed." {
        WebSocketRefusedVersion("reason" "upgrade_required"),
        WebSocketRefusedOrigin("reason" "origin"),
        WebSocketRefusedMalformed("reason" "malformed"),
    }
    "websocket_messages" "websocket_messages_total" Plain Sum
    "Messages of WebSockets: received, and sent to one socket. What channels bring counts as deliveries." {
        WebSocketReceived("direction" "received"),
        WebSocketSent("direction" "sent"),
    }
    "websocket_bytes" "websocket_payload_bytes_total" Plain Sum
    "Bytes in those messages." {
        WebSocketReceivedBytes("direction" "received"),
        WebSocketSentBytes("direction" "sent"),
    }
    "websocket_pings" "websocket_pings_total" Plain Sum
    "Pings of WebSockets: received from clients, sent to silent ones." {
        WebSocketPingsReceived("direction" "received"),
        WebSocketPingsSent("direction" "sent"),
    }
    "websocket_closed" "websocket_closed_total" Plain Sum
    "WebSockets that have ended, by close code: 1000, 1001 and none; 1006, cut off; 1002, 1003, 1007, 1009 and 1010; other ones below 3000; 3000 and more." {
        WebSocketClosedNormal("code" "normal"),
        WebSocketClosedAbnormal("code" "abnormal"),
        WebSocketClosedProtocol("code" "protocol"),
        WebSocketClosedServer("code" "server"),
        WebSocketClosedApplication("code" "application"),
    }
    "websocket_timeouts" "websocket_timeouts_total" Plain Sum
    "WebSockets ended by a time-out: no answer to a ping, no message, no answer to a close frame." {
        WebSocketTimeoutPong("reason" "pong_timeout"),
        WebSocketTimeoutIdle("reason" "idle_timeout"),
        WebSocketTimeoutClose("reason" "close_timeout"),
    }
    "websocket_queue_full" "websocket_queue_full_total" Plain Sum
    "Messages for one socket that met a full queue: refused, older ones dropped for it, the socket closed with 1013." {
        WebSocketQueueRefused("outcome" "refused"),
        WebSocketQueueDropped("outcome" "dropped"),
        WebSocketQueueClosed("outcome" "closed"),
    }
    // In the order of `LATENCY_BOUNDS_US`.
    "request_duration" "request_duration_seconds" Plain Sum
    "Requests by the time from when they were read to their answer, by upper bound in seconds; counted while metrics_listen is set. Holds and WebSockets count until they are accepted." {
        Latency0("le" "0.00005"),
        Latency1("le" "0.0001"),
        Latency2("le" "0.00025"),
        Latency3("le" "0.0005"),
        Latency4("le" "0.001"),
        Latency5("le" "0.0025"),
        Latency6("le" "0.005"),
        Latency7("le" "0.01"),
        Latency8("le" "0.025"),
        Latency9("le" "0.05"),
        Latency10("le" "0.1"),
        Latency11("le" "0.25"),
        Latency12("le" "0.5"),
        Latency13("le" "1"),
        Latency14("le" "2.5"),
        Latency15("le" "10"),
        LatencyInf("le" "+Inf"),
    }
    "request_duration_us" "request_duration_seconds_sum" Plain Sum
    "The sum of those times, in JSON in microseconds." { LatencySumUs }
    "blocking_callbacks" "blocking_callbacks_total" Plain Sum
    "Handlers that held the event loop for blocking_call_ms or longer; the log names them." { BlockingCallbacks }
    "access_log_dropped" "access_log_dropped_total" Plain Sum
    "Lines of the access log that were left out because the disk or the reader did not take them." { AccessLogDropped }
    "turns" "turns_total" Plain Sum
    "Turns of the event loop." { Turns }
    "lookups_missed" "lookups_missed_total" Plain Sum
    "Things that had to be there and were not: a fault of the server's, which has gone on. Please report it." { Missed }
    "slow_turns" "slow_turns_total" Plain Sum
    "Turns of the event loop that took 100 ms or longer: everybody else waited." { SlowTurns }
    "busy_ms" "busy_seconds_total" Milliseconds Sum
    "Time in turns, that is not waiting for events; includes waiting inside handlers." { BusyMs }
    "connected_ms" "connected_seconds_total" Milliseconds Sum
    "Time that clients have been connected, added up: held, as WebSocket, or with a request or answer on its way. A worker that sleeps adds its part when it wakes." { ConnectedMs }
    "fastcgi_requests" "fastcgi_requests_total" Plain Sum
    "Requests of routes behind PHP-FPM, by how they have ended: answered, refused with 503 because the queue was full, failed with 502 because PHP-FPM was not reached or broke off, timed out with 504, over because the client had left or its request could not be passed on." {
        FastCgiAnswered("outcome" "answered"),
        FastCgiQueueFull("outcome" "queue_full"),
        FastCgiFailed("outcome" "failed"),
        FastCgiTimedOut("outcome" "timeout"),
        FastCgiLeft("outcome" "left"),
    }
    "fastcgi_ms" "fastcgi_seconds_total" Milliseconds Sum
    "Time of such requests added up: in the queue until there was a connection to PHP-FPM, and from then on until the request was over. Divided by requests it is their mean." {
        FastCgiQueuedMs("phase" "queued"),
        FastCgiRunningMs("phase" "running"),
    }
    // Those of a GRIP edge: shown where there is one (`EDGE`).
    "edge_items_dropped" "edge_items_dropped_total" Plain Sum
    "Items of publishers that a GRIP edge did not take: the channel had their id within id_cache_ttl_ms, another one waits for the same predecessor, too many or too large ones wait (message_wait_bytes_max), no item at all, the publisher's connection broken or refused, the log of the cluster does not take it and nobody is answered." {
        EdgeItemDuplicate("reason" "duplicate"),
        EdgeItemRival("reason" "rival"),
        EdgeItemOverflow("reason" "waiting_full"),
        EdgeItemMalformed("reason" "malformed"),
        EdgeItemLog("reason" "log"),
    }
    "edge_items_overdue" "edge_items_overdue_total" Plain Sum
    "Items given out though their predecessor did not come within message_wait_ms." { EdgeItemOverdue }
    "edge_deliveries_dropped" "edge_deliveries_dropped_total" Plain Sum
    "Items that one client of a GRIP edge did not get: more than message_hwm waited for message_rate, more waited for its next link than a client may have, a filter failed, the item is for other content filters, a message of the origin has no prefix." {
        EdgeDroppedRate("reason" "message_hwm"),
        EdgeDroppedQueue("reason" "link_queue"),
        EdgeDroppedFilter("reason" "filter_failed"),
        EdgeDroppedContentFilters("reason" "content_filters"),
        EdgeDroppedUnprefixed("reason" "unprefixed"),
    }
    "edge_filtered" "edge_filtered_total" Plain Sum
    "Items that a filter has kept from one client, as it is there to do." { EdgeFiltered }
    "edge_subscriptions_refused" "edge_subscriptions_refused_total" Plain Sum
    "Subscriptions that a GRIP edge has left out: beyond subscriptions_max, or the name is none." {
        EdgeSubscriptionsMax("reason" "subscriptions_max"),
        EdgeSubscriptionName("reason" "name"),
    }
    "edge_catch_ups" "edge_catch_ups_total" Plain Sum
    "Clients of a GRIP edge that had missed items, by where these came from: the edge's own history, the next link, the whole request once more." {
        EdgeCaughtUpHistory("from" "history"),
        EdgeCaughtUpLink("from" "link"),
        EdgeCaughtUpRequest("from" "request"),
    }
    "edge_links_failed" "edge_links_failed_total" Plain Sum
    "Next links that were no use, by what followed: another try, the stream ended." {
        EdgeLinkTriedAgain("then" "retry"),
        EdgeLinkEnded("then" "ended"),
    }
    "edge_gone_links" "edge_gone_links_total" Plain Sum
    "Origins told by a gone link that a client has left: it was taken, it was not." {
        EdgeGoneTold("outcome" "told"),
        EdgeGoneFailed("outcome" "failed"),
    }
    "edge_publishers_refused" "edge_publishers_refused_total" Plain Sum
    "ZeroMQ connections that a GRIP edge has closed: too many of them, no handshake in time, the protocol broken, replies not taken." {
        EdgePublishersMax("reason" "too_many"),
        EdgePublisherSilent("reason" "handshake"),
        EdgePublisherProtocol("reason" "protocol"),
        EdgePublisherSlow("reason" "slow"),
    }
}

figures! {
    /// A state at this moment.
    Gauge;
    "connections" "connections" Plain Sum
    "Open connections: with a request or answer on its way, without, held as event stream, WebSocket, on the control socket. Each request at a time over HTTP/2 counts as the connection that it would be over HTTP/1, and what carries them is http2." {
        HttpActive("kind" "http_active"),
        HttpIdle("kind" "http_idle"),
        Sse("kind" "sse"),
        WebSocket("kind" "websocket"),
        Control("kind" "control"),
        Http2("kind" "http2"),
    }
    "tls_connections" "tls_connections" Plain Sum
    "Open connections that are encrypted." { TlsOpen }
    "connections_blocked" "connections_blocked" Plain Sum
    "Connections whose client takes nothing right now." { BlockedNow }
    "channels" "channels" Plain Sum
    "Channels with subscribers; one with subscribers in several workers counts in each." { Channels }
    "subscriptions" "subscriptions" Plain Sum
    "Subscriptions of held clients and WebSockets." { Subscriptions }
    "fibers_waiting" "fibers_waiting" Plain Sum
    "Handlers and tasks that wait." { FibersWaiting }
    "tasks_queued" "tasks_queued" Plain Sum
    "Tasks that have not begun because all fibers_max fibers wait." { TasksQueued }
    "jobs_pending" "jobs_pending" Plain Sum
    "Calls of Jobs::run() that have not ended: queued or running." { JobsPending }
    "fastcgi_open" "fastcgi_open" Plain Sum
    "Requests for PHP-FPM that are not over: with a connection to it, in the queue for one." {
        FastCgiRunning("state" "running"),
        FastCgiQueued("state" "queued"),
    }
    "edge_open" "edge_open" Plain Sum
    "What a GRIP edge has open: requests to backends, connections that such requests and WebSockets use, connections that wait for the next request, sessions (clients that are held one by one, WebSockets, SockJS), and bodies of requests." {
        EdgeRequests("kind" "request"),
        EdgeConnections("kind" "connection"),
        EdgeIdle("kind" "idle_connection"),
        EdgeSessions("kind" "session"),
        EdgeBodies("kind" "body"),
    }
    "longest_turn_ms" "longest_turn_seconds" Milliseconds Max
    "Longest turn of the event loop in the last 10 to 20 seconds of activity: the worst that an event has waited." { LongestTurnMs }
    // From here on the reader finds out, not the worker: it works for a stuck worker as well.
    "ring_lag_bytes" "ring_lag_bytes" Plain Max
    "Bytes of records in the ring that the worker has not read." { RingLagBytes }
    "handler_ms" "handler_seconds" Milliseconds Max
    "How long the handler that runs now has been running: the lag of the event loop at this moment." { HandlerMs }
    "rss_bytes" "resident_memory_bytes" Plain Sum
    "Resident memory, what is shared with other workers included." { RssBytes }
    "cpu_ms" "cpu_seconds" Milliseconds Sum
    "Processor time of the running process, kernel included; begins anew with a restart." { CpuMs }
}

/// The figures whose names start so are one histogram for Prometheus.
pub(super) const HISTOGRAM: &str = "request_duration_seconds";

/// What keys of figures begin with that only a GRIP edge has.
pub(super) const EDGE: &str = "edge_";

impl Gauge {
    /// Gauges that workers write themselves: the first ones.
    pub(super) const WRITTEN: usize = Gauge::RingLagBytes as usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        for (table, is_counter) in [(Counter::TABLE, true), (Gauge::TABLE, false)] {
            for figure in table {
                if figure.metric.starts_with(HISTOGRAM) {
                    continue;
                }
                assert_eq!(figure.metric.ends_with("_total"), is_counter, "{figure:?}");
                let is_seconds = figure.metric.contains("seconds");
                assert_eq!(is_seconds, figure.unit == Unit::Milliseconds, "{figure:?}");
                let is_word = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
                assert!(figure.metric.chars().all(is_word), "{figure:?}");
            }
        }
    }

    #[test]
    fn figures_of_one_key_stand_together_and_are_told_apart() {
        for table in [Counter::TABLE, Gauge::TABLE] {
            let mut keys: Vec<_> = table.iter().map(|figure| figure.key).collect();
            keys.dedup();
            let mut unique = keys.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(keys.len(), unique.len());
            for pair in table.windows(2) {
                if pair[0].key == pair[1].key {
                    assert_eq!(pair[0].metric, pair[1].metric);
                    assert!(pair[0].label.is_some() && pair[0].label != pair[1].label);
                }
            }
        }
    }
}
