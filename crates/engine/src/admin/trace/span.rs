//! Spans: which requests get one, and what it says (names of OpenTelemetry's semantic conventions).
//!
//! Whether a request is recorded is decided before anything is allocated for it. What clients have sent is cut and escaped as
//! in the access log; of its headers only Host, User-Agent and those of the trace are written, and of its address no query,
//! which often holds secrets.

use std::io::Write as _;
use std::net::IpAddr;

use fermata_config::{Settings, billionths};
use fermata_io::{Peer, clock, random};
use fermata_proto::http1::{Head, Method};
use fermata_proto::traceparent::TraceParent;

use super::line::{self, Recorded};
use crate::admin::otlp::{Attributes, Outbox, Record};
use crate::http::protocol::Protocol;

/// Bytes of a `tracestate` header that are kept: what the specification asks for at least.
const STATE_BYTES_MAX: usize = 512;
/// Bytes of attributes that most spans need.
const ATTRIBUTES_BYTES: usize = 512;

/// Status of a request whose client has left before the answer; servers agree on the number.
pub(super) const STATUS_CLIENT_LEFT: u16 = 499;

/// Parts of a ratio.
const BILLION: u64 = 1_000_000_000;

/// What a span is to other spans, by OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
}

/// What makes spans.
pub(super) struct Spans {
    outbox: Outbox,
    sampler: Sampler,
    ids: Ids,
}

/// A span that has not ended.
pub(crate) struct Span {
    trace_id: u128,
    id: u64,
    parent_id: Option<u64>,
    kind: Kind,
    /// Of a request its method; a known one.
    name: Vec<u8>,
    route: Option<Box<str>>,
    began_us: u64,
    attributes: Attributes,
    state: Vec<u8>,
    error: Option<String>,
    /// Of a hold: what its channels have given it.
    events: u64,
}

/// What a span that begins within the program stands below.
pub(super) enum Within<'a> {
    /// Below the span of a request, or of the time for which its client is held.
    Recorded(&'a Span),
    /// Below one that is not recorded.
    Unrecorded,
    /// Nothing that is known.
    Nothing,
}

/// What is told of a request's client.
pub(crate) struct Client {
    pub address: Option<(IpAddr, u16)>,
    pub is_secure: bool,
    pub host: Option<Vec<u8>>,
}

/// The ids of a span in lower-case hexadecimal digits.
pub struct SpanIds {
    /// Its trace.
    pub trace_id: [u8; 32],
    /// The span.
    pub id: [u8; 16],
}

/// What was asked, and what became of it.
pub struct Upstream<'a> {
    /// The method of the request.
    pub method: &'a [u8],
    /// Its target without a query.
    pub path: &'a [u8],
    /// Host and port, or the path of a socket.
    pub server: &'a [u8],
    /// The status of the answer; `None` = there was none, or it was not looked at.
    pub status: Option<u16>,
    /// There was no answer.
    pub is_failed: bool,
}

/// When an answer is complete, and how it was.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub now_us: u64,
    pub status: u16,
    /// Of the body; `None` where it has only begun.
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

    /// The span of a request whose head was read, when it is to be recorded.
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
            // A part of it would be another one.
            if state.len() > STATE_BYTES_MAX {
                state.clear();
            }
        }
        let method = parsed.method_span.of(head);
        let mut attributes = self.attributes(ATTRIBUTES_BYTES);
        let name = tell_method(&mut attributes, method, parsed.method != Method::Other);
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

    /// The answer of a request has begun and goes on for as long as its client stays: that time is a span of its own.
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

    /// The span of what another server is asked for a request.
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

    /// That server has answered, or will not.
    pub fn end_upstream(&mut self, mut span: Box<Span>, upstream: &Upstream<'_>) {
        let attributes = &mut span.attributes;
        let is_known = Method::from_bytes(upstream.method) != Method::Other;
        span.name = tell_method(attributes, upstream.method, is_known);
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
            // For who asks, a refusal is an error as well.
            Some(status @ 400..) => Some(status.to_string()),
            _ => None,
        };
        if let Some(error) = &error {
            attributes.text("error.type", error.as_bytes());
        }
        span.error = error;
        self.finish(&span, clock::monotonic_us());
    }

    /// The span of a publish, when it is to be recorded.
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
            // Not with the channel's name, of which there may be any number.
            name: b"publish".to_vec(),
            route: None,
            began_us: clock::monotonic_us(),
            attributes,
            state,
            error: None,
            events: 0,
        }))
    }

    /// A publish is over: with the event's id, or with what has failed.
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

    /// A span is over.
    pub fn end(&mut self, mut span: Box<Span>, ending: Ending) {
        span.tell_end(ending);
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

    /// Hands over what has ended, when that is worth it or `is_due`.
    #[inline]
    pub fn flush(&mut self, is_due: bool) {
        self.outbox.flush(is_due);
    }
}

impl Span {
    /// Its ids, for the access log.
    pub(super) fn recorded(&self) -> Recorded {
        Recorded {
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
        }
    }

    /// The header `traceparent` for who is asked below it.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace_id, self.id)
    }

    /// Its ids in digits.
    pub(super) fn ids(&self) -> SpanIds {
        let mut ids = SpanIds {
            trace_id: [0; 32],
            id: [0; 16],
        };
        // They have as many digits as there is room for.
        let _ = write!(&mut ids.trace_id[..], "{:032x}", self.trace_id);
        let _ = write!(&mut ids.id[..], "{:016x}", self.id);
        ids
    }

    /// Adds the client, as far as it is known.
    pub fn tell_client(&mut self, client: &Client) {
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

    /// What answers it.
    pub fn tell_route(&mut self, label: Option<&str>) {
        // `GET /rooms/{id}`; what else has a label is no route.
        let route = label.and_then(|label| Some(label.split_once(" /")?.1));
        let Some(route) = route else {
            return;
        };
        let route = format!("/{route}");
        self.attributes.text("http.route", route.as_bytes());
        self.route = Some(route.into());
    }

    /// What its handler has thrown.
    pub fn tell_failure(&mut self, exception: &str) {
        self.error = Some(exception.to_owned());
    }

    fn tell_end(&mut self, ending: Ending) {
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
                    // No error of the server's.
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

    /// A held client was sent events of its channels.
    pub fn tell_events(&mut self, count: u64) {
        self.events += count;
    }

    /// What is written of it; times since 1970.
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

/// Which traces are recorded.
#[derive(Clone, Copy, Debug)]
struct Sampler {
    heeds_parent: bool,
    /// Of 2⁶³ traces.
    bound: u64,
    /// Unknown to clients; the same in all workers.
    key: u64,
}

impl Sampler {
    fn of(settings: &Settings, key: u64) -> Sampler {
        let word = &*settings.otlp_sampler;
        let own = word.strip_prefix("parentbased_");
        let billionths = match own.unwrap_or(word) {
            "always_on" => BILLION,
            "always_off" => 0,
            // Was checked when it was read.
            _ => billionths(&settings.otlp_sampling_ratio).unwrap_or(BILLION),
        };
        Sampler {
            heeds_parent: own.is_some(),
            bound: ((u128::from(billionths) << 63) / u128::from(BILLION)) as u64,
            key,
        }
    }

    /// `parent` is whether the sender records it; `None` = there is none. A trace that begins here is decided by its id, as other
    /// programs decide, so that they agree. An id that a client has chosen could be one that is always recorded: where clients
    /// have no say, a secret decides, of all requests of a trace alike.
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

/// Ids that differ from those of all others, although they can be guessed (SplitMix64).
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Zero is no id.
    fn span(&mut self) -> u64 {
        self.next().max(1)
    }

    fn trace(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.span())
    }
}

/// Tells a method, and says by which name its span goes: not by one that a client has made up, of which there may be any number.
fn tell_method(attributes: &mut Attributes, method: &[u8], is_known: bool) -> Vec<u8> {
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

/// The parts of a `Host` header.
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

    /// Names of attributes, in their order.
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
    fn a_failure_behind_which_the_client_has_left_is_told_once() {
        let mut span = span(Kind::Server);
        span.tell_failure("RuntimeException");
        span.tell_end(Ending {
            now_us: 2,
            status: STATUS_CLIENT_LEFT,
            bytes: Some(0),
            peer: Peer::Unix,
        });
        assert_eq!(names(&span), ["network.transport", "error.type"]);
    }

    #[test]
    fn a_method_that_a_client_has_made_up_is_no_name_of_a_span() {
        let mut list = Attributes::of_span(Encoding::Json, 0);
        let name = tell_method(&mut list, b"X1", false);
        assert_eq!(name, b"HTTP");
        assert!(String::from_utf8_lossy(list.as_bytes()).contains("\"_OTHER\""));
    }

    #[test]
    fn a_client_cannot_choose_a_trace_that_is_always_recorded() {
        let sampler = sampler("traceidratio", "0.01");
        let chosen = (1..10_000).map(|high| high << 64);
        let recorded = chosen.filter(|id| sampler.decide(Some(true), *id)).count();
        assert!((50..150).contains(&recorded), "{recorded} of 9,999");
        // All requests of a trace alike.
        for id in 1..1_000 {
            assert_eq!(
                sampler.decide(Some(true), id),
                sampler.decide(Some(false), id)
            );
        }
    }

    #[test]
    fn the_decision_of_a_parent_is_heeded_where_the_word_says_so() {
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
    fn a_ratio_records_that_part_of_the_traces_that_begin_here() {
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
    fn a_host_may_have_a_port() {
        assert_eq!(host_and_port(b"a:80"), (&b"a"[..], Some(80)));
        assert_eq!(host_and_port(b"[::1]:80"), (&b"[::1]"[..], Some(80)));
        assert_eq!(host_and_port(b"[::1]"), (&b"[::1]"[..], None));
        assert_eq!(host_and_port(b"a"), (&b"a"[..], None));
    }
}
