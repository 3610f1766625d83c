//! Declarations of all statistics: counters, which only grow, and gauges.
//!
//! JSON names, Prometheus names and help texts, and positions in shared memory are derived from
//! this table.

/// Upper bounds of the histogram's buckets in microseconds, in the order of `Counter::Latency…`.
pub(crate) const LATENCY_BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Count or bytes; shown unchanged.
    Plain,
    /// Milliseconds; converted to seconds for Prometheus.
    Milliseconds,
}

/// How the values of several workers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Sum.
    Sum,
    /// Maximum.
    Max,
}

/// Description of a counter or gauge.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// JSON key. Adjacent entries with the same key form one object, keyed by `label`.
    pub key: &'static str,
    /// Name and value of a label, which distinguishes entries with the same key.
    pub label: Option<(&'static str, &'static str)>,
    /// Prometheus name, without `fermata_`.
    pub metric: &'static str,
    /// Help text: one sentence, equal for all entries with the same key.
    pub help: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Combination across workers.
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
            /// All entries, in the order of the variants.
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
    /// A counter since the worker's first start.
    Counter;
    "accepted" "connections_accepted_total" Plain Sum
    "Connections accepted on the public listener." { Accepted }
    "connections_moved" "connections_moved_total" Plain Sum
    "Idle connections moved to a worker with fewer connections, counted by the worker they leave." { Moved }
    "connections_refused" "connections_refused_total" Plain Sum
    "Refused connections: by limit, because the kernel had no descriptor or memory, or because the PROXY protocol header of a trusted proxy was missing." {
        RefusedConnections("reason" "connections_max"),
        RefusedPerAddress("reason" "connections_per_address_max"),
        RefusedAccept("reason" "accept_failed"),
        RefusedProxy("reason" "proxy_protocol"),
    }
    "connections_dropped" "connections_dropped_total" Plain Sum
    "Connections closed by the server: too slow for a channel with the policy close, nothing or too little read for write_timeout_ms, largest and oldest unread output at buffered_bytes_max or buffered_per_address_bytes_max, unfinished at drain_timeout_ms." {
        DroppedSlow("reason" "slow"),
        DroppedWriteTimeout("reason" "write_timeout"),
        DroppedBuffered("reason" "buffered_bytes_max"),
        DroppedBufferedAddress("reason" "buffered_per_address_bytes_max"),
        DroppedDrain("reason" "drain_timeout"),
    }
    "http2_connections" "http2_connections_total" Plain Sum
    "Connections that started HTTP/2." { Http2Connections }
    "http2_streams" "http2_streams_total" Plain Sum
    "Requests started over HTTP/2." { Http2Streams }
    "http2_closed" "http2_closed_total" Plain Sum
    "HTTP/2 connections closed because the client violated the protocol, or sent too many frames that cost the server more than the client." {
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
    "HTTP/2 requests refused by a limit: 429 at streams_per_address_max, 503 at connections_max." {
        Http2RefusedPerAddress("reason" "streams_per_address_max"),
        Http2RefusedConnections("reason" "connections_max"),
    }
    "proxy_headers_ignored" "proxy_headers_ignored_total" Plain Sum
    "Requests of trusted proxies with both Forwarded and X-Forwarded headers, of which proxy_headers names one kind: neither was trusted." {
        ProxyHeadersIgnored
    }
    "requests" "requests_total" Plain Sum
    "Requests read completely on the public listener." { Requests }
    // The classes are ordered by their first digit.
    "responses" "responses_total" Plain Sum
    "Responses started on the public listener, by class of status; holds are 2xx." {
        ResponsesOther("class" "other"),
        Responses1xx("class" "1xx"),
        Responses2xx("class" "2xx"),
        Responses3xx("class" "3xx"),
        Responses4xx("class" "4xx"),
        Responses5xx("class" "5xx"),
    }
    "requests_refused" "requests_refused_total" Plain Sum
    "Requests refused by the server and not by a route, by status: 400, 417, 501 and 505 malformed, 408 header_timeout_ms or body_timeout_ms, 413 body_bytes_max, 414 target_bytes_max, 431 header_bytes_max or headers_count_max, 503 worker restarting." {
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
    "Handlers that threw, exited or returned an invalid value; their clients got an error response, or close code 1011 on a WebSocket." { HandlerFailures }
    "handlers_waited" "handlers_waited_total" Plain Sum
    "Handlers of requests and WebSockets that waited at least once." { HandlersWaited }
    "fibers_exhausted" "fibers_exhausted_total" Plain Sum
    "Times that all fibers_max fibers were waiting, so that new requests and messages waited, too." { FibersExhausted }
    "tasks" "tasks_total" Plain Sum
    "Finished tasks: of async(), all() and race(), runs of every(), of defer(), calls of onMessage()." {
        TasksAsync("kind" "async"),
        TasksEvery("kind" "every"),
        TasksDeferred("kind" "defer"),
        TasksMessages("kind" "messages"),
    }
    "tasks_failed" "tasks_failed_total" Plain Sum
    "Tasks that ended with an exception other than a CancelledException." {
        TasksFailedAsync("kind" "async"),
        TasksFailedEvery("kind" "every"),
        TasksFailedDeferred("kind" "defer"),
        TasksFailedMessages("kind" "messages"),
    }
    "every_skipped" "every_skipped_total" Plain Sum
    "Runs of every() skipped because the previous one had not ended, or the worker was late." { EverySkipped }
    // In the order of `JobEnd`.
    "jobs" "jobs_total" Plain Sum
    "Finished calls of Jobs::run(): with a result, an exception of the job, a crash of its process, by timeoutMs, cancelled with the caller's wait, refused because the queue was full." {
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
    "Bytes that the kernel accepted for public connections." { BytesSent }
    "control_requests" "control_requests_total" Plain Sum
    "Requests on the control socket." { ControlRequests }
    "holds" "holds_total" Plain Sum
    "Holds of clients." { Holds }
    "holds_at_edges" "holds_at_edges_total" Plain Sum
    "Holds passed to a GRIP edge in front." { HoldsAtEdges }
    "events_at_edges" "events_at_edges_total" Plain Sum
    "Events sent to the edges of grip_url, counted per edge: accepted, rejected; lost counts the times that an edge was unavailable for longer than the ring stores events." {
        EdgeTaken("outcome" "taken"),
        EdgeRefused("outcome" "refused"),
        EdgeLost("outcome" "lost"),
    }
    "published" "published_total" Plain Sum
    "Messages published by handlers and the control socket of this worker." { Published }
    "publish_failures" "publish_failures_total" Plain Sum
    "Messages not published: invalid, or no room within publish_wait_ms_max." {
        PublishMisuse("reason" "misuse"),
        PublishBackpressure("reason" "backpressure"),
    }
    "publish_waits" "publish_waits_total" Plain Sum
    "Publishes that waited for a worker a complete ring behind, or for the lock." { PublishWaits }
    "records_read" "records_read_total" Plain Sum
    "Records each worker has read from the ring: messages, joins and leaves of all channels." { RecordsRead }
    "deliveries" "deliveries_total" Plain Sum
    "Live events queued for subscribers: records times subscribers. A gap reports events that a client did not read in time." { Deliveries }
    "replayed" "replayed_total" Plain Sum
    "Stored events sent to clients that reconnected." { Replayed }
    "gaps" "gaps_total" Plain Sum
    "Gap events: the client was too slow for its channel, the log of the cluster was recreated or lost or removed messages (also if the client is closed for that), the client reconnected later than history reaches, or with an id of another history." {
        GapsSlow("reason" "too_slow"),
        GapsLog("reason" "log_lost"),
        GapsExpired("reason" "expired"),
        GapsUnknown("reason" "unknown_id"),
    }
    "members_refused" "members_refused_total" Plain Sum
    "Holds and joins of users refused by the limit of present users: in all channels, in one, from one address." {
        MembersRefused("reason" "members_max"),
        MembersRefusedChannel("reason" "members_per_channel_max"),
        MembersRefusedAddress("reason" "members_per_address_max"),
    }
    "blocked" "blocked_total" Plain Sum
    "Writes that the kernel accepted only partly, because the client's buffer was full." { Blocked }
    "keep_alives" "keep_alives_total" Plain Sum
    "Comments sent to silent held clients." { KeepAlives }
    "tls_handshakes" "tls_handshakes_total" Plain Sum
    "TLS handshakes completed, in full or shortened by a session ticket." {
        TlsFull("kind" "full"),
        TlsResumed("kind" "resumed"),
    }
    "tls_handshakes_failed" "tls_handshakes_failed_total" Plain Sum
    "Failed TLS handshakes: HTTP without TLS, no common parameters, client certificate missing or invalid, refused by the client (usually an untrusted certificate), protocol violated, client left or exceeded header_timeout_ms." {
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
    "WebSocket handshakes refused by the server: no handshake or another version, an origin that may not connect, malformed." {
        WebSocketRefusedVersion("reason" "upgrade_required"),
        WebSocketRefusedOrigin("reason" "origin"),
        WebSocketRefusedMalformed("reason" "malformed"),
    }
    "websocket_messages" "websocket_messages_total" Plain Sum
    "WebSocket messages received, and sent to one socket. Events of channels count as deliveries." {
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
    "Closed WebSockets, by close code: 1000, 1001 and none; 1006, disconnected; 1002, 1003, 1007, 1009 and 1010; others below 3000; 3000 and above." {
        WebSocketClosedNormal("code" "normal"),
        WebSocketClosedAbnormal("code" "abnormal"),
        WebSocketClosedProtocol("code" "protocol"),
        WebSocketClosedServer("code" "server"),
        WebSocketClosedApplication("code" "application"),
    }
    "websocket_timeouts" "websocket_timeouts_total" Plain Sum
    "WebSockets closed by a time-out: no pong, no message, no answer to a close frame." {
        WebSocketTimeoutPong("reason" "pong_timeout"),
        WebSocketTimeoutIdle("reason" "idle_timeout"),
        WebSocketTimeoutClose("reason" "close_timeout"),
    }
    "websocket_queue_full" "websocket_queue_full_total" Plain Sum
    "Messages for one socket whose queue was full: refused, older ones dropped, socket closed with 1013." {
        WebSocketQueueRefused("outcome" "refused"),
        WebSocketQueueDropped("outcome" "dropped"),
        WebSocketQueueClosed("outcome" "closed"),
    }
    // In the order of `LATENCY_BOUNDS_US`.
    "request_duration" "request_duration_seconds" Plain Sum
    "Requests by the time from reading them to their response, by upper bound in seconds; counted if metrics_listen is set. Holds and WebSockets count until they are accepted." {
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
    "Handlers that blocked the event loop for blocking_call_ms or longer; the log names them." { BlockingCallbacks }
    "access_log_dropped" "access_log_dropped_total" Plain Sum
    "Lines of the access log that were dropped because the disk or the reader was too slow." { AccessLogDropped }
    "turns" "turns_total" Plain Sum
    "Turns of the event loop." { Turns }
    "lookups_missed" "lookups_missed_total" Plain Sum
    "Internal errors from which the server continued. Please report them." { Missed }
    "slow_turns" "slow_turns_total" Plain Sum
    "Turns of the event loop that took 100 ms or longer, while other clients waited." { SlowTurns }
    "busy_ms" "busy_seconds_total" Milliseconds Sum
    "Time in turns, that is, not waiting for events; includes blocking inside handlers." { BusyMs }
    "connected_ms" "connected_seconds_total" Milliseconds Sum
    "Total time that clients were connected: held, as WebSocket, or with a request in progress. A sleeping worker adds its part when it wakes." { ConnectedMs }
    "fastcgi_requests" "fastcgi_requests_total" Plain Sum
    "Requests of routes behind PHP-FPM, by result: answered, 503 because the queue was full, 502 because PHP-FPM was unreachable or broke off, 504 by time-out, ended because the client left or the request could not be passed on." {
        FastCgiAnswered("outcome" "answered"),
        FastCgiQueueFull("outcome" "queue_full"),
        FastCgiFailed("outcome" "failed"),
        FastCgiTimedOut("outcome" "timeout"),
        FastCgiLeft("outcome" "left"),
    }
    "fastcgi_ms" "fastcgi_seconds_total" Milliseconds Sum
    "Total time of such requests: in the queue for a connection to PHP-FPM, and from then on. Divided by the requests it is their mean." {
        FastCgiQueuedMs("phase" "queued"),
        FastCgiRunningMs("phase" "running"),
    }
    // Statistics of a GRIP edge, only shown there (`EDGE`).
    "edge_items_dropped" "edge_items_dropped_total" Plain Sum
    "Items that a GRIP edge dropped: id seen within id_cache_ttl_ms, another item waits for the same predecessor, too many or too large items wait (message_wait_bytes_max), malformed, refused by the log of the cluster without a response to the publisher." {
        EdgeItemDuplicate("reason" "duplicate"),
        EdgeItemRival("reason" "rival"),
        EdgeItemOverflow("reason" "waiting_full"),
        EdgeItemMalformed("reason" "malformed"),
        EdgeItemLog("reason" "log"),
    }
    "edge_items_overdue" "edge_items_overdue_total" Plain Sum
    "Items delivered although their predecessor did not arrive within message_wait_ms." { EdgeItemOverdue }
    "edge_deliveries_dropped" "edge_deliveries_dropped_total" Plain Sum
    "Items that one client of a GRIP edge did not receive: more than message_hwm waited for message_rate, too many waited for its next link, a filter failed, the item is for other content filters, a message of the origin has no prefix." {
        EdgeDroppedRate("reason" "message_hwm"),
        EdgeDroppedQueue("reason" "link_queue"),
        EdgeDroppedFilter("reason" "filter_failed"),
        EdgeDroppedContentFilters("reason" "content_filters"),
        EdgeDroppedUnprefixed("reason" "unprefixed"),
    }
    "edge_filtered" "edge_filtered_total" Plain Sum
    "Items that a filter dropped for one client." { EdgeFiltered }
    "edge_subscriptions_refused" "edge_subscriptions_refused_total" Plain Sum
    "Subscriptions that a GRIP edge ignored: over subscriptions_max, or an invalid name." {
        EdgeSubscriptionsMax("reason" "subscriptions_max"),
        EdgeSubscriptionName("reason" "name"),
    }
    "edge_catch_ups" "edge_catch_ups_total" Plain Sum
    "Clients of a GRIP edge that missed items, by their source: the edge's history, the next link, the repeated request." {
        EdgeCaughtUpHistory("from" "history"),
        EdgeCaughtUpLink("from" "link"),
        EdgeCaughtUpRequest("from" "request"),
    }
    "edge_links_failed" "edge_links_failed_total" Plain Sum
    "Failed next links, by consequence: retried, stream closed." {
        EdgeLinkTriedAgain("then" "retry"),
        EdgeLinkEnded("then" "ended"),
    }
    "edge_gone_links" "edge_gone_links_total" Plain Sum
    "Gone links sent to origins: accepted, failed." {
        EdgeGoneTold("outcome" "told"),
        EdgeGoneFailed("outcome" "failed"),
    }
    "edge_publishers_refused" "edge_publishers_refused_total" Plain Sum
    "ZeroMQ connections that a GRIP edge closed: too many, no handshake in time, protocol violated, replies not read." {
        EdgePublishersMax("reason" "too_many"),
        EdgePublisherSilent("reason" "handshake"),
        EdgePublisherProtocol("reason" "protocol"),
        EdgePublisherSlow("reason" "slow"),
    }
}

figures! {
    /// A gauge.
    Gauge;
    "connections" "connections" Plain Sum
    "Open connections: with a request in progress, idle, held as event stream, WebSocket, on the control socket. Each concurrent HTTP/2 request counts like an HTTP/1 connection, and its connection as http2." {
        HttpActive("kind" "http_active"),
        HttpIdle("kind" "http_idle"),
        Sse("kind" "sse"),
        WebSocket("kind" "websocket"),
        Control("kind" "control"),
        Http2("kind" "http2"),
    }
    "tls_connections" "tls_connections" Plain Sum
    "Open TLS connections." { TlsOpen }
    "connections_blocked" "connections_blocked" Plain Sum
    "Connections whose client is not reading at the moment." { BlockedNow }
    "buffered_bytes" "buffered_bytes" Plain Sum
    "Bytes buffered for clients: unread output, and incomplete bodies and messages." { BufferedBytes }
    "channels" "channels" Plain Sum
    "Channels with subscribers; one with subscribers in several workers counts in each." { Channels }
    "subscriptions" "subscriptions" Plain Sum
    "Subscriptions of held clients, WebSockets and waiting readers of channels." { Subscriptions }
    "fibers_waiting" "fibers_waiting" Plain Sum
    "Waiting handlers and tasks." { FibersWaiting }
    "tasks_queued" "tasks_queued" Plain Sum
    "Tasks that have not started because all fibers_max fibers wait." { TasksQueued }
    "jobs_pending" "jobs_pending" Plain Sum
    "Unfinished calls of Jobs::run(): queued or running." { JobsPending }
    "fastcgi_open" "fastcgi_open" Plain Sum
    "Unfinished requests for PHP-FPM: with a connection to it, in the queue for one." {
        FastCgiRunning("state" "running"),
        FastCgiQueued("state" "queued"),
    }
    "edge_open" "edge_open" Plain Sum
    "Open objects of a GRIP edge: requests to backends, connections in use by requests and WebSockets, idle connections, sessions (clients held individually, WebSockets, SockJS), request bodies." {
        EdgeRequests("kind" "request"),
        EdgeConnections("kind" "connection"),
        EdgeIdle("kind" "idle_connection"),
        EdgeSessions("kind" "session"),
        EdgeBodies("kind" "body"),
    }
    "longest_turn_ms" "longest_turn_seconds" Milliseconds Max
    "Longest turn of the event loop in the last 10 to 20 seconds of activity, the longest wait of an event." { LongestTurnMs }
    // The process that reads the statistics determines the following values, so they are correct
    // for a stuck worker too.
    "ring_lag_bytes" "ring_lag_bytes" Plain Max
    "Bytes of records in the ring that the worker has not read." { RingLagBytes }
    "handler_ms" "handler_seconds" Milliseconds Max
    "Time for which the current handler has been running, the present lag of the event loop." { HandlerMs }
    "rss_bytes" "resident_memory_bytes" Plain Sum
    "Resident memory, including memory shared with other workers." { RssBytes }
    "cpu_ms" "cpu_seconds_total" Milliseconds Sum
    "CPU time of the running process, including the kernel; restarts with the process." { CpuMs }
}

/// Prometheus name of the histogram.
pub(super) const HISTOGRAM: &str = "request_duration_seconds";

/// Prefix of JSON keys that only a GRIP edge has.
pub(super) const EDGE: &str = "edge_";

impl Gauge {
    /// Number of gauges that workers write themselves. These are the first gauges.
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
                // Processor time grows like a counter, and is read from the kernel like a gauge.
                let is_counter = is_counter || figure.key == "cpu_ms";
                assert_eq!(figure.metric.ends_with("_total"), is_counter, "{figure:?}");
                let is_seconds = figure.metric.contains("seconds");
                assert_eq!(is_seconds, figure.unit == Unit::Milliseconds, "{figure:?}");
                let is_word = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
                assert!(figure.metric.chars().all(is_word), "{figure:?}");
            }
        }
    }

    #[test]
    fn groups_figures_by_key_with_distinct_labels() {
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
