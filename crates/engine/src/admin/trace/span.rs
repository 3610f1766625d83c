//! Spans: which requests are recorded, and their attributes (OpenTelemetry semantic conventions).
//!
//! Sampling is decided before anything is allocated for a request. Client-supplied text is cut and
//! escaped as in the access log. Recorded headers are Host, User-Agent and the trace headers. The
//! query is omitted, since it often contains secrets.

use std::io::Write as _;
use std::net::IpAddr;

use fermata_config::{Settings, billionths};
use fermata_io::{Peer, clock, random};
use fermata_proto::http1::{Head, Method};
use fermata_proto::traceparent::TraceParent;

use super::line::{self, Recorded};
use crate::admin::otlp::{Attributes, Outbox, Record};
use crate::http::protocol::Protocol;

/// Maximum length of a `tracestate` header: the minimum that the specification requires.
const STATE_BYTES_MAX: usize = 512;
/// Initial capacity for attributes, enough for most spans.
const ATTRIBUTES_BYTES: usize = 512;

/// Status of a request whose client disconnected before the response; a convention among servers.
pub(super) const STATUS_CLIENT_LEFT: u16 = 499;

/// Resolution of sampling ratios.
const BILLION: u64 = 1_000_000_000;

/// Kind of a span, by OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
}

/// Factory of spans.
pub(super) struct Spans {
    outbox: Outbox,
    sampler: Sampler,
    ids: Ids,
}

/// A span in progress.
pub(crate) struct Span {
    trace_id: u128,
    id: u64,
    parent_id: Option<u64>,
    kind: Kind,
    /// Method of the request if it is a registered one, for request spans.
    name: Vec<u8>,
    route: Option<Box<str>>,
    began_us: u64,
    attributes: Attributes,
    state: Vec<u8>,
    error: Option<String>,
    /// For a hold, the number of delivered events.
    events: u64,
}

/// Parent of a span started in the application.
pub(super) enum Within<'a> {
    /// The span of a request or of a hold.
    Recorded(&'a Span),
    /// A request that is not recorded.
    Unrecorded,
    /// No known parent.
    Nothing,
}

/// Client of a request, for its span.
pub(crate) struct Client {
    pub address: Option<(IpAddr, u16)>,
    pub is_secure: bool,
    pub host: Option<Vec<u8>>,
}

/// Ids of a span in lower-case hexadecimal digits.
pub struct SpanIds {
    /// Trace id.
    pub trace_id: [u8; 32],
    /// Span id.
    pub id: [u8; 16],
}

/// An upstream request and its result.
pub struct Upstream<'a> {
    /// Request method.
    pub method: &'a [u8],
    /// Target without query.
    pub path: &'a [u8],
    /// Host and port, or the path of a socket.
    pub server: &'a [u8],
    /// Response status; `None` = no response, or not examined.
    pub status: Option<u16>,
    /// True if no response arrived.
    pub is_failed: bool,
}

/// A completed response.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub now_us: u64,
    pub status: u16,
    /// Body size in bytes; `None` if the response has started but is not complete.
    pub bytes: Option<u64>,
    pub peer: Peer,
}

impl Spans {
    pub fn new(settings: &Settings, outbox: Outbox) -> Spans {
        Spans {
            sampler: Sampler::of(settings, outbox.sampling_key()),
            outbox,
            ids: Ids(random::u64()),
        }
    }

    /// Starts the span of a request whose head was parsed, if it is sampled.
    pub fn begin(
        &mut self,
        began_us: u64,
        protocol: Protocol,
        (parsed, head): (&Head, &[u8]),
    ) -> Option<Box<Span>> {
        let value = line::only(parsed, head, b"traceparent");
        let parent = value.and_then(TraceParent::parse);
        let trace_id = match &parent {
            Some(parent) => hexadecimal(parent.trace_id)?,
            None => self.ids.trace(),
        };
        let is_sampled = parent.as_ref().map(|parent| parent.is_sampled);
        if !self.sampler.decide(is_sampled, trace_id) {
            return None;
        }
        let mut state = Vec::new();
        if parent.is_some() {
            for value in line::lines(parsed, head, b"tracestate") {
                if !state.is_empty() {
                    state.push(b',');
                }
                state.extend_from_slice(value);
            }
            // A truncated value would be invalid.
            if state.len() > STATE_BYTES_MAX {
                state.clear();
            }
        }
        let method = parsed.method_span.of(head);
        let mut attributes = self.attributes(ATTRIBUTES_BYTES);
        let name = set_method(&mut attributes, method, parsed.method != Method::Other);
        attributes.text("url.path", parsed.path.of(head));
        let version: &[u8] = match protocol {
            Protocol::Http10 => b"1.0",
            Protocol::Http11 => b"1.1",
            Protocol::Http2 => b"2",
        };
        attributes.text("network.protocol.version", version);
        if let Some(agent) = line::find(parsed, head, b"user-agent") {
            attributes.text("user_agent.original", agent);
        }
        Some(Box::new(Span {
            trace_id,
            id: self.ids.span(),
            parent_id: match &parent {
                Some(parent) => Some(hexadecimal(parent.parent_id)? as u64),
                None => None,
            },
            kind: Kind::Server,
            name,
            route: None,
            began_us,
            attributes,
            state,
            error: None,
            events: 0,
        }))
    }

    /// Starts the span of a hold: from the start of the response until the client disconnects.
    pub fn begin_hold(&mut self, request: &Span, began_us: u64) -> Box<Span> {
        Box::new(Span {
            trace_id: request.trace_id,
            id: self.ids.span(),
            parent_id: Some(request.id),
            kind: Kind::Internal,
            name: b"hold".to_vec(),
            route: request.route.clone(),
            began_us,
            attributes: self.attributes(0),
            state: request.state.clone(),
            error: None,
            events: 0,
        })
    }

    /// Starts the span of an upstream request.
    pub fn begin_upstream(&mut self, request: &Span) -> Box<Span> {
        Box::new(Span {
            trace_id: request.trace_id,
            id: self.ids.span(),
            parent_id: Some(request.id),
            kind: Kind::Client,
            name: Vec::new(),
            route: None,
            began_us: clock::monotonic_us(),
            attributes: self.attributes(0),
            state: request.state.clone(),
            error: None,
            events: 0,
        })
    }

    /// Finishes the span of an upstream request.
    pub fn end_upstream(&mut self, mut span: Box<Span>, upstream: &Upstream<'_>) {
        let attributes = &mut span.attributes;
        let is_known = Method::from_bytes(upstream.method) != Method::Other;
        span.name = set_method(attributes, upstream.method, is_known);
        attributes.text("url.path", upstream.path);
        let (host, port) = host_and_port(upstream.server);
        attributes.text("server.address", host);
        if let Some(port) = port {
            attributes.number("server.port", port);
        }
        if let Some(status) = upstream.status {
            attributes.number("http.response.status_code", u64::from(status));
        }
        let error = match upstream.status {
            _ if upstream.is_failed => Some("no_answer".to_owned()),
            // For the client side, a 4xx status is an error too.
            Some(status @ 400..) => Some(status.to_string()),
            _ => None,
        };
        if let Some(error) = &error {
            attributes.text("error.type", error.as_bytes());
        }
        span.error = error;
        self.finish(&span, clock::monotonic_us());
    }

    /// Starts the span of a publish, if it is sampled.
    pub fn begin_publish(
        &mut self,
        within: &Within<'_>,
        channel: &[u8],
        data: &[u8],
    ) -> Option<Box<Span>> {
        let (trace_id, parent_id, state) = match within {
            Within::Recorded(span) => (span.trace_id, Some(span.id), span.state.clone()),
            Within::Unrecorded => return None,
            Within::Nothing => (self.ids.trace(), None, Vec::new()),
        };
        if parent_id.is_none() && !self.sampler.decide(None, trace_id) {
            return None;
        }
        let mut attributes = self.attributes(ATTRIBUTES_BYTES);
        attributes.text("messaging.system", b"fermata");
        attributes.text("messaging.operation.name", b"publish");
        attributes.text("messaging.operation.type", b"send");
        attributes.text("messaging.destination.name", channel);
        attributes.number("messaging.message.body.size", data.len() as u64);
        Some(Box::new(Span {
            trace_id,
            id: self.ids.span(),
            parent_id,
            kind: Kind::Producer,
            // Without the channel name, to limit the number of span names.
            name: b"publish".to_vec(),
            route: None,
            began_us: clock::monotonic_us(),
            attributes,
            state,
            error: None,
            events: 0,
        }))
    }

    /// Finishes the span of a publish, with the event id or the kind of failure.
    pub fn end_publish(&mut self, mut span: Box<Span>, outcome: Result<&str, &str>) {
        match outcome {
            Ok("") => {}
            Ok(id) => span.attributes.text("messaging.message.id", id.as_bytes()),
            Err(kind) => {
                span.attributes.text("error.type", kind.as_bytes());
                span.error = Some(kind.to_owned());
            }
        }
        self.finish(&span, clock::monotonic_us());
    }

    /// Finishes a span.
    pub fn end(&mut self, mut span: Box<Span>, ending: Ending) {
        span.set_end(ending);
        self.finish(&span, ending.now_us);
    }

    fn attributes(&self, bytes: usize) -> Attributes {
        Attributes::of_span(self.outbox.encoding(), bytes)
    }

    fn finish(&mut self, span: &Span, now_us: u64) {
        let now_unix_us = clock::unix_us();
        let began_unix_us = now_unix_us.saturating_sub(now_us.saturating_sub(span.began_us));
        self.outbox
            .append(|out| span.record(began_unix_us, now_unix_us).write(out));
    }

    /// Sends finished spans, if they are large or `is_due`.
    #[inline]
    pub fn flush(&mut self, is_due: bool) {
        self.outbox.flush(is_due);
    }
}

impl Span {
    /// Returns its ids, for the access log.
    pub(super) fn recorded(&self) -> Recorded {
        Recorded {
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
        }
    }

    /// Returns the `traceparent` header for an upstream request.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace_id, self.id)
    }

    /// Returns its ids as digits.
    pub(super) fn ids(&self) -> SpanIds {
        let mut ids = SpanIds {
            trace_id: [0; 32],
            id: [0; 16],
        };
        // The digits fit exactly.
        let _ = write!(&mut ids.trace_id[..], "{:032x}", self.trace_id);
        let _ = write!(&mut ids.id[..], "{:016x}", self.id);
        ids
    }

    /// Adds the known client attributes.
    pub fn set_client(&mut self, client: &Client) {
        let attributes = &mut self.attributes;
        let scheme: &[u8] = if client.is_secure { b"https" } else { b"http" };
        attributes.text("url.scheme", scheme);
        if let Some((address, _)) = client.address {
            attributes.text("client.address", address.to_string().as_bytes());
        }
        if let Some(host) = &client.host {
            let (name, port) = host_and_port(host);
            attributes.text("server.address", name);
            if let Some(port) = port {
                attributes.number("server.port", port);
            }
        }
    }

    /// Adds the route.
    pub fn set_route(&mut self, label: Option<&str>) {
        // Labels such as `GET /rooms/{id}` contain a route; other labels do not.
        let route = label.and_then(|label| Some(label.split_once(" /")?.1));
        let Some(route) = route else {
            return;
        };
        let route = format!("/{route}");
        self.attributes.text("http.route", route.as_bytes());
        self.route = Some(route.into());
    }

    /// Adds the handler's exception.
    pub fn set_failure(&mut self, exception: &str) {
        self.error = Some(exception.to_owned());
    }

    fn set_end(&mut self, ending: Ending) {
        let attributes = &mut self.attributes;
        match self.kind {
            Kind::Producer | Kind::Client => {}
            Kind::Internal => {
                attributes.number("fermata.hold.events", self.events);
                attributes.number("fermata.hold.bytes", ending.bytes.unwrap_or(0));
            }
            Kind::Server => {
                let status = ending.status;
                match ending.peer {
                    Peer::Unix => attributes.text("network.transport", b"unix"),
                    peer => {
                        let address = peer.ip().map(|ip| ip.to_string()).unwrap_or_default();
                        attributes.text("network.peer.address", address.as_bytes());
                        attributes.number("network.peer.port", u64::from(peer.port()));
                    }
                }
                if status != STATUS_CLIENT_LEFT {
                    attributes.number("http.response.status_code", u64::from(status));
                    if let Some(bytes) = ending.bytes {
                        attributes.number("http.response.body.size", bytes);
                    }
                }
                match &self.error {
                    Some(error) => attributes.text("error.type", error.as_bytes()),
                    // Not an error of the server.
                    None if status == STATUS_CLIENT_LEFT => {
                        attributes.text("error.type", b"client_left");
                    }
                    None if (500..).contains(&status) => {
                        let status = status.to_string();
                        attributes.text("error.type", status.as_bytes());
                        self.error = Some(status);
                    }
                    None => {}
                }
            }
        }
    }

    /// Adds delivered events of a held client.
    pub fn set_event_count(&mut self, count: u64) {
        self.events += count;
    }

    /// Returns the span for encoding; times are since 1970.
    fn record(&self, began_us: u64, ended_us: u64) -> Record<'_> {
        Record {
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
            is_remote: self.kind == Kind::Server,
            kind: self.kind as u32,
            name: &self.name,
            route: self.route.as_deref(),
            began_us,
            ended_us,
            attributes: &self.attributes,
            state: &self.state,
            is_error: self.error.is_some(),
        }
    }
}

/// Sampling decision.
#[derive(Clone, Copy, Debug)]
struct Sampler {
    heeds_parent: bool,
    /// Number of recorded traces out of 2⁶³.
    bound: u64,
    /// Secret, equal in all workers.
    key: u64,
}

impl Sampler {
    fn of(settings: &Settings, key: u64) -> Sampler {
        let word = &*settings.otlp_sampler;
        let own = word.strip_prefix("parentbased_");
        let billionths = match own.unwrap_or(word) {
            "always_on" => BILLION,
            "always_off" => 0,
            // Validated when the setting was read.
            _ => billionths(&settings.otlp_sampling_ratio).unwrap_or(BILLION),
        };
        Sampler {
            heeds_parent: own.is_some(),
            bound: ((u128::from(billionths) << 63) / u128::from(BILLION)) as u64,
            key,
        }
    }

    /// Decides if a trace is recorded. `parent` is the sender's decision, `None` without a parent.
    /// For a trace that starts here, the trace id decides, as in other OpenTelemetry
    /// implementations, so all of them make the same decision. A client could choose an id that is
    /// always sampled. So if clients must not decide, a secret hash of the id decides, equally for
    /// all requests of a trace.
    fn decide(self, parent: Option<bool>, trace_id: u128) -> bool {
        let number = match parent {
            Some(is_sampled) if self.heeds_parent => return is_sampled,
            Some(_) => {
                let half = Ids(self.key ^ trace_id as u64).next();
                Ids(self.key ^ half ^ (trace_id >> 64) as u64).next()
            }
            None => trace_id as u64,
        };
        number >> 1 < self.bound
    }
}

/// Unique ids, which may be predictable (SplitMix64).
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Zero is not a valid id.
    fn span(&mut self) -> u64 {
        self.next().max(1)
    }

    fn trace(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.span())
    }
}

/// Adds the method; returns the span name. Unknown methods share one name, to limit the number of
/// names.
fn set_method(attributes: &mut Attributes, method: &[u8], is_known: bool) -> Vec<u8> {
    if is_known {
        attributes.text("http.request.method", method);
        return method.to_vec();
    }
    attributes.text("http.request.method", b"_OTHER");
    attributes.text("http.request.method_original", method);
    b"HTTP".to_vec()
}

fn hexadecimal(digits: &[u8]) -> Option<u128> {
    u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Splits a `Host` header.
fn host_and_port(host: &[u8]) -> (&[u8], Option<u64>) {
    let at = host.iter().rposition(|byte| *byte == b':');
    let parts = at.map(|at| (&host[..at], &host[at + 1..]));
    let port = parts.and_then(|(name, port)| {
        let port = std::str::from_utf8(port).ok()?.parse::<u16>().ok()?;
        Some((name, Some(u64::from(port))))
    });
    port.unwrap_or((host, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::otlp::Encoding;

    fn sampler(word: &str, ratio: &str) -> Sampler {
        let settings = Settings {
            otlp_sampler: word.to_owned(),
            otlp_sampling_ratio: ratio.to_owned(),
            ..Settings::default()
        };
        Sampler::of(&settings, 7)
    }

    /// Returns the names of attributes, in order.
    fn names(span: &Span) -> Vec<String> {
        let mut json = Vec::new();
        span.record(1, 2).write(&mut json);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let list = json["attributes"].as_array().expect("a list");
        let name = |it: &serde_json::Value| it["key"].as_str().expect("text").to_owned();
        list.iter().map(name).collect()
    }

    fn span(kind: Kind) -> Box<Span> {
        Box::new(Span {
            trace_id: 1,
            id: 2,
            parent_id: None,
            kind,
            name: b"GET".to_vec(),
            route: None,
            began_us: 1,
            attributes: Attributes::of_span(Encoding::Json, 0),
            state: Vec::new(),
            error: None,
            events: 0,
        })
    }

    #[test]
    fn records_one_error_type_after_a_disconnect() {
        let mut span = span(Kind::Server);
        span.set_failure("RuntimeException");
        span.set_end(Ending {
            now_us: 2,
            status: STATUS_CLIENT_LEFT,
            bytes: Some(0),
            peer: Peer::Unix,
        });
        assert_eq!(names(&span), ["network.transport", "error.type"]);
    }

    #[test]
    fn uses_no_unknown_method_as_span_name() {
        let mut list = Attributes::of_span(Encoding::Json, 0);
        let name = set_method(&mut list, b"X1", false);
        assert_eq!(name, b"HTTP");
        assert!(String::from_utf8_lossy(list.as_bytes()).contains("\"_OTHER\""));
    }

    #[test]
    fn ignores_client_trace_ids_when_sampling() {
        let sampler = sampler("traceidratio", "0.01");
        let chosen = (1..10_000).map(|high| high << 64);
        let recorded = chosen.filter(|id| sampler.decide(Some(true), *id)).count();
        assert!((50..150).contains(&recorded), "{recorded} of 9,999");
        // Equal for all requests of a trace.
        for id in 1..1_000 {
            assert_eq!(
                sampler.decide(Some(true), id),
                sampler.decide(Some(false), id)
            );
        }
    }

    #[test]
    fn follows_the_parents_sampling_decision_if_set() {
        for (word, with, without, root) in [
            ("parentbased_always_on", true, false, true),
            ("parentbased_always_off", true, false, false),
            ("always_on", true, true, true),
            ("always_off", false, false, false),
        ] {
            let sampler = sampler(word, "1");
            assert_eq!(sampler.decide(Some(true), 1), with, "{word}");
            assert_eq!(sampler.decide(Some(false), 1), without, "{word}");
            assert_eq!(sampler.decide(None, 1), root, "{word}");
        }
    }

    #[test]
    fn samples_new_traces_by_the_ratio() {
        let mut ids = Ids(7);
        for (ratio, expected) in [("0", 0..=0), ("1", 10_000..=10_000), ("0.25", 2300..=2700)] {
            let sampler = sampler("parentbased_traceidratio", ratio);
            let count = (0..10_000).filter(|_| sampler.decide(None, ids.trace()));
            assert!(expected.contains(&count.count()), "{ratio}");
        }
        assert!(sampler("traceidratio", "1").decide(None, u128::MAX));
        assert!(!sampler("traceidratio", "0").decide(Some(true), 0));
    }

    #[test]
    fn accepts_a_host_with_a_port() {
        assert_eq!(host_and_port(b"a:80"), (&b"a"[..], Some(80)));
        assert_eq!(host_and_port(b"[::1]:80"), (&b"[::1]"[..], Some(80)));
        assert_eq!(host_and_port(b"[::1]"), (&b"[::1]"[..], None));
        assert_eq!(host_and_port(b"a"), (&b"a"[..], None));
    }
}
