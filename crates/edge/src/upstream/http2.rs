//! HTTP/2 connections to targets. Each carries the requests of many exchanges.
//!
//! A worker opens one connection per place, and a second one only if the first has no free stream. While one exchange opens a
//! connection, other exchanges with the same place wait for it. A silent connection with requests is pinged, so that a dead target
//! costs one time-out and not one per request.

use std::collections::HashMap;

use fermata_engine::WireId;
use fermata_proto::http2::{
    Connection, ErrorCode, Event, Limits, Message, Origin, Rate, StreamId, Violation,
};
use fermata_proto::response::{reserved_name, valid_name, valid_value};

use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::place::Place;
use crate::upstream::response::{Head, ResponsePart, cleaned, interim, length_of};

/// Flow-control window of one response in bytes: the number of bytes that a target may send before the client has received them.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Window of a connection, as a number of stream windows per request that it may carry. Credit is returned when half of the window
/// is used. With a factor below two, clients that do not read could occupy so much of the window that the other streams never use
/// up half of it.
const STREAM_WINDOWS_OF_CONNECTION: u64 = 2;

/// Largest flow-control window (RFC 9113, section 6.9.1).
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Maximum size of a response head in bytes, the same as over HTTP/1.
const HEAD_BYTES_MAX: u32 = 64 * 1024;
const HEADERS_COUNT_MAX: u16 = 200;

/// Rate limit for control frames of a target. Servers measure the path with PING and send WINDOW_UPDATE often, and a target is not
/// an anonymous client. So the limit is high: it only stops a target that malfunctions.
const CONTROL_FRAMES: Rate = Rate::new(10_000, 20_000);

/// Time in milliseconds for which a target that did not negotiate HTTP/2 is assumed to support only HTTP/1.
const HTTP1_MS: u64 = 60_000;

/// Maximum number of places stored as HTTP/1-only. Above it, the table is cleared, and each place negotiates again.
const HTTP1_PLACES_MAX: usize = 1_024;

/// Idle time in milliseconds after which a connection is closed. It is shorter than the usual keep-alive time of backends, so that
/// a backend rarely closes a connection while a request is sent on it.
const IDLE_MS: u64 = 55_000;

/// Payload of a PING to a target.
const PING: [u8; 8] = *b"fm-alive";

/// Longest interval between two PINGs. gRPC servers close connections with more than two within five minutes of silence.
const PING_INTERVAL_MS_MAX: u64 = 600_000;

/// Factor by which each acknowledged PING lengthens the interval to the next.
const PING_INTERVAL_GROWTH: u64 = 4;

/// Times of a silent connection: when the edge pings it, and when the edge closes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingTimes {
    /// Silence in milliseconds after which a PING is sent; 0 = never.
    pub interval_ms: u64,
    /// Time in milliseconds within which the target has to acknowledge the PING.
    pub timeout_ms: u64,
}

/// Result of checking a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TickOutcome {
    /// Frames are queued and have to be sent.
    MustSend,
    /// The connection failed.
    Failed(String),
    /// The connection carried no request for [`IDLE_MS`].
    Idle,
}

/// A connection that carries requests as streams.
pub(crate) struct Carrier {
    pub place: Place,
    pub machine: Connection,
    /// Encoded frames; the socket has accepted the first `sent` bytes.
    pub out: Vec<u8>,
    pub sent: usize,
    /// Exchange of each open stream.
    pub exchanges: HashMap<StreamId, UpstreamExchangeId>,
    /// Reserved for the health check that opened the connection.
    pub is_private: bool,
    /// A request timed out on the connection while the target was silent. No further request uses the connection.
    pub is_stale: bool,
    /// The connection has carried at least one request.
    pub has_served: bool,
    /// The target's SETTINGS were received. Before that, its support for WebSockets is unknown.
    has_settings: bool,
    /// Maximum number of concurrent requests: the setting, or less after the target refused a request.
    pub streams_max: usize,
    /// Time of the last bytes from the target.
    pub received_ms: u64,
    /// Time of the last PING, if nothing was received since; otherwise `None`.
    pinged_ms: Option<u64>,
    /// Silence in milliseconds after which the next PING is due. It grows with each acknowledged PING.
    ping_interval_ms: u64,
    /// Time at which the last request ended.
    pub idle_since_ms: u64,
    /// Time at which the last idle period ended. Silence is measured from this time.
    pub idle_until_ms: u64,
}

/// Support of a place for WebSockets over HTTP/2 (RFC 8441).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebSocketSupport {
    /// This connection can carry a further WebSocket.
    Ready(WireId),
    /// The target's SETTINGS have not arrived.
    Unknown,
    /// The target does not support WebSockets over HTTP/2: the request is sent over HTTP/1.1.
    Never,
    /// No connection has a free stream.
    Absent,
}

/// The stream that carries the request of an exchange.
#[derive(Debug)]
pub(crate) struct OnCarrier {
    /// The connection.
    pub wire: WireId,
    pub stream: StreamId,
    /// Response bytes for which no WINDOW_UPDATE was sent, because the client has not received them.
    pub uncredited: usize,
    /// END_STREAM was sent.
    pub has_ended: bool,
}

/// Parts of a response that arrived together on one stream.
pub(crate) struct StreamInput {
    pub exchange: UpstreamExchangeId,
    pub stream: StreamId,
    pub parts: Vec<ResponsePart>,
    pub lost: Option<StreamLoss>,
}

/// Reason why a stream was closed before its response was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamLoss {
    /// REFUSED_STREAM: unprocessed; the target accepts fewer streams.
    Refused,
    /// GOAWAY: the target did not process the request.
    Left,
    /// RST_STREAM with this code.
    Reset(ErrorCode),
    /// The target's response was malformed.
    Violation(Violation),
}

/// Reason why a connection was lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarrierLoss {
    /// The target violated HTTP/2.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The target closed the connection.
    #[error("the connection has ended")]
    Ended,
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Writing failed without an error code.
    #[error("it cannot be sent to")]
    Unsendable,
}

/// HTTP/2 connections of a worker, by number and by place.
pub(crate) struct Carriers {
    pub limits: Limits,
    streams_max: usize,
    pings: PingTimes,
    by_wire: HashMap<WireId, Box<Carrier>>,
    by_place: HashMap<Place, Vec<WireId>>,
    /// Exchange that opens a connection to a place while others wait for it.
    opening: HashMap<Place, UpstreamExchangeId>,
    /// Places that support only HTTP/1, with the time until which this is assumed.
    http1: HashMap<Place, u64>,
    /// Places whose waiting exchanges can continue.
    settled: Vec<Place>,
    /// Connections on which a write failed.
    broken: Vec<WireId>,
    message: Message,
}

impl Carriers {
    pub fn new(streams_max: u64, pings: PingTimes) -> Self {
        let connection_window_bytes =
            streams_max * STREAM_WINDOWS_OF_CONNECTION * u64::from(STREAM_WINDOW_BYTES);
        Self {
            limits: Limits {
                header_list_bytes_max: HEAD_BYTES_MAX,
                headers_count_max: HEADERS_COUNT_MAX,
                stream_window_bytes: STREAM_WINDOW_BYTES,
                connection_window_bytes: u32::try_from(connection_window_bytes)
                    .unwrap_or(u32::MAX)
                    .min(WINDOW_BYTES_MAX),
                // Each request has a time-out of its own.
                write_timeout_ms: u32::MAX,
                resets: CONTROL_FRAMES,
                resets_caused: CONTROL_FRAMES,
                pings: CONTROL_FRAMES,
                settings: CONTROL_FRAMES,
                empty_data: CONTROL_FRAMES,
                connection_window_updates: CONTROL_FRAMES,
                stream_window_updates: CONTROL_FRAMES,
                priorities: CONTROL_FRAMES,
                unknown_frames: CONTROL_FRAMES,
                ..Limits::default()
            },
            streams_max: usize::try_from(streams_max).unwrap_or(usize::MAX),
            pings,
            by_wire: HashMap::new(),
            by_place: HashMap::new(),
            opening: HashMap::new(),
            http1: HashMap::new(),
            settled: Vec::new(),
            broken: Vec::new(),
            message: Message::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_wire.is_empty()
    }

    /// Returns the number of connections without requests.
    pub fn idle(&self) -> usize {
        let carriers = self.by_wire.values();
        carriers
            .filter(|carrier| carrier.exchanges.is_empty())
            .count()
    }

    pub fn get_mut(&mut self, wire: WireId) -> Option<(&mut Carrier, &Limits)> {
        let carrier = self.by_wire.get_mut(&wire)?;
        Some((carrier, &self.limits))
    }

    /// Adds an established connection.
    pub fn add(&mut self, wire: WireId, place: Place, is_private: bool, now_ms: u64) {
        let mut out = Vec::new();
        let carrier = Carrier {
            machine: Connection::client(&self.limits, now_ms, &mut out),
            place: place.clone(),
            out,
            sent: 0,
            exchanges: HashMap::new(),
            is_private,
            is_stale: false,
            has_served: false,
            has_settings: false,
            streams_max: self.streams_max,
            received_ms: now_ms,
            pinged_ms: None,
            ping_interval_ms: self.pings.interval_ms,
            idle_since_ms: now_ms,
            idle_until_ms: now_ms,
        };
        self.by_wire.insert(wire, Box::new(carrier));
        self.by_place.entry(place).or_default().push(wire);
    }

    pub fn remove(&mut self, wire: WireId) -> Option<Box<Carrier>> {
        let carrier = self.by_wire.remove(&wire)?;
        if let Some(wires) = self.by_place.get_mut(&carrier.place) {
            wires.retain(|&other| other != wire);
            if wires.is_empty() {
                self.by_place.remove(&carrier.place);
            }
        }
        Some(carrier)
    }

    /// Returns a connection to this place with a free stream.
    pub fn with_room(&self, place: &Place) -> Option<WireId> {
        let wires = self.by_place.get(place)?.iter();
        let mut wires =
            wires.filter(|&wire| self.by_wire.get(wire).is_some_and(|it| it.has_room()));
        wires.next().copied()
    }

    /// Like [`Self::with_room`] for a WebSocket.
    pub fn room_for_socket(&self, place: &Place) -> WebSocketSupport {
        let wires = self.by_place.get(place).map_or(&[][..], Vec::as_slice);
        let known = wires
            .iter()
            .filter_map(|wire| Some((*wire, self.by_wire.get(wire)?)));
        let mut room = WebSocketSupport::Absent;
        for (wire, carrier) in known.filter(|(_, carrier)| carrier.has_room()) {
            if !carrier.has_settings {
                room = WebSocketSupport::Unknown;
            } else if carrier.machine.peer_takes_connect_protocol() {
                return WebSocketSupport::Ready(wire);
            } else {
                return WebSocketSupport::Never;
            }
        }
        room
    }

    /// Returns true if another exchange is opening a connection to this place.
    pub fn is_opening(&self, place: &Place, exchange: UpstreamExchangeId) -> bool {
        self.opening
            .get(place)
            .is_some_and(|&opener| opener != exchange)
    }

    pub fn begin_opening(&mut self, place: Place, exchange: UpstreamExchangeId) {
        self.opening.insert(place, exchange);
    }

    /// Notes that the connection is established or has failed. Exchanges that wait for it can continue.
    pub fn end_opening(&mut self, place: Place, exchange: UpstreamExchangeId) {
        if self.opening.get(&place) == Some(&exchange) {
            self.opening.remove(&place);
            self.settled.push(place);
        }
    }

    /// Resumes the exchanges that wait for this place, for example after its SETTINGS arrived.
    pub fn settle(&mut self, place: Place) {
        self.settled.push(place);
    }

    pub fn take_settled(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.settled)
    }

    /// Returns true if [`Carriers::take_settled`] or [`Carriers::take_broken`] would return a value.
    pub fn has_changes(&self) -> bool {
        !self.settled.is_empty() || !self.broken.is_empty()
    }

    pub fn note_broken(&mut self, wire: WireId) {
        self.broken.push(wire);
    }

    pub fn take_broken(&mut self) -> Vec<WireId> {
        std::mem::take(&mut self.broken)
    }

    /// Records that a target has negotiated HTTP/1.
    pub fn note_http1(&mut self, place: Place, now_ms: u64) {
        if self.http1.len() >= HTTP1_PLACES_MAX {
            self.http1.clear();
        }
        self.http1.insert(place, now_ms + HTTP1_MS);
    }

    /// Returns true if the place recently negotiated HTTP/1. Each exchange then opens its own connection without waiting.
    pub fn is_http1(&self, place: &Place, now_ms: u64) -> bool {
        self.http1
            .get(place)
            .is_some_and(|&until_ms| now_ms < until_ms)
    }

    /// Marks a connection stale after a time-out, if nothing was received since the request was sent.
    pub fn suspect(&mut self, wire: WireId, since_ms: u64) {
        if let Some(carrier) = self.by_wire.get_mut(&wire) {
            carrier.is_stale |= carrier.received_ms <= since_ms;
        }
    }

    /// Decodes bytes of a target into response parts per stream. After an error, the parts decoded before it are also returned.
    pub fn read(
        &mut self,
        wire: WireId,
        bytes: &[u8],
        now_ms: u64,
    ) -> (Vec<StreamInput>, Result<(), CarrierLoss>) {
        let mut inputs = Vec::new();
        let Some(carrier) = self.by_wire.get_mut(&wire) else {
            // The connection's last exchange has closed it in the same turn.
            return (inputs, Ok(()));
        };
        carrier.received_ms = now_ms;
        carrier.pinged_ms = None;
        let mut at = 0;
        while at < bytes.len() {
            let (message, out) = (&mut self.message, &mut carrier.out);
            let step = carrier
                .machine
                .handle(&bytes[at..], now_ms, &self.limits, message, out);
            let step = match step {
                Ok(step) => step,
                Err(violation) => return (inputs, Err(violation.into())),
            };
            at += step.consumed;
            let Some(event) = step.event else {
                continue;
            };
            if !matches!(event, Event::Pong(_)) {
                carrier.ping_interval_ms = self.pings.interval_ms;
            }
            if event == Event::Settings && !std::mem::replace(&mut carrier.has_settings, true) {
                self.settled.push(carrier.place.clone());
            }
            note(event, &carrier.exchanges, message, &mut inputs);
        }
        (inputs, Ok(()))
    }

    /// Checks every connection. Returns the connections that failed, were idle too long, or have a PING to send.
    pub fn tick(&mut self, now_ms: u64) -> Vec<(WireId, TickOutcome)> {
        let mut outcomes = Vec::new();
        for (&wire, carrier) in &mut self.by_wire {
            if let Err(violation) = carrier.machine.tick(now_ms, &self.limits, &mut carrier.out) {
                outcomes.push((wire, TickOutcome::Failed(violation.to_string())));
            } else if carrier.exchanges.is_empty() && now_ms >= carrier.idle_since_ms + IDLE_MS {
                carrier.machine.abort(ErrorCode::NO_ERROR, &mut carrier.out);
                outcomes.push((wire, TickOutcome::Idle));
            } else if let Some(outcome) = carrier.ping(now_ms, self.pings) {
                outcomes.push((wire, outcome));
            }
        }
        outcomes
    }
}

impl Carrier {
    /// Sends a PING when the target has been silent too long; fails the connection when a PING was not acknowledged in time.
    fn ping(&mut self, now_ms: u64, times: PingTimes) -> Option<TickOutcome> {
        if let Some(pinged_ms) = self.pinged_ms {
            let is_late = now_ms >= pinged_ms + times.timeout_ms;
            return is_late.then(|| {
                let waited_ms = times.timeout_ms;
                TickOutcome::Failed(format!("no answer to a PING within {waited_ms} ms"))
            });
        }
        // A target without requests has no reason to send bytes, so idle time does not count as silence.
        let since_ms = self.received_ms.max(self.idle_until_ms);
        let is_due = times.interval_ms > 0 && now_ms >= since_ms + self.ping_interval_ms;
        if !is_due || self.exchanges.is_empty() {
            return None;
        }
        self.machine.ping(PING, &mut self.out);
        self.pinged_ms = Some(now_ms);
        let longest_ms = PING_INTERVAL_MS_MAX.max(times.interval_ms);
        self.ping_interval_ms = (self.ping_interval_ms * PING_INTERVAL_GROWTH).min(longest_ms);
        Some(TickOutcome::MustSend)
    }

    fn has_room(&self) -> bool {
        !self.is_private
            && !self.is_stale
            && self.exchanges.len() < self.streams_max
            && self.machine.room() > 0
    }

    /// Returns true if the connection carries no request and accepts no further one.
    pub fn is_over(&self) -> bool {
        let takes_no_more = self.is_private || self.is_stale || self.machine.is_leaving();
        self.exchanges.is_empty() && takes_no_more
    }

    /// Returns the number of bytes that the socket has not accepted.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }
}

/// Adds an event to the input of the event's stream.
fn note(
    event: Event<'_>,
    exchanges: &HashMap<StreamId, UpstreamExchangeId>,
    message: &Message,
    inputs: &mut Vec<StreamInput>,
) {
    let end = ResponsePart::End { is_reusable: true };
    match event {
        Event::Response {
            stream,
            end: is_end,
        } => {
            let headers = fields(message);
            if message.status < 200 {
                if let Some(input) = input_of(stream, exchanges, inputs) {
                    input.parts.extend(interim(message.status, headers));
                }
                return;
            }
            let head = Head {
                status: message.status,
                reason: Vec::new(),
                length: length_of(&headers),
                headers: cleaned(headers),
            };
            if let Some(input) = input_of(stream, exchanges, inputs) {
                input.parts.push(ResponsePart::Head(head));
                input.parts.extend(is_end.then_some(end));
            }
        }
        Event::Data {
            stream,
            data,
            end: is_end,
        } => {
            if let Some(input) = input_of(stream, exchanges, inputs) {
                match input.parts.last_mut() {
                    Some(ResponsePart::Body(body)) => body.extend_from_slice(data),
                    _ if data.is_empty() => {}
                    _ => input.parts.push(ResponsePart::Body(data.to_vec())),
                }
                input.parts.extend(is_end.then_some(end));
            }
        }
        Event::Trailers { stream } => {
            let mut trailers = cleaned(fields(message));
            trailers.retain(|(name, value)| {
                valid_name(name) && valid_value(value) && !reserved_name(name)
            });
            if let Some(input) = input_of(stream, exchanges, inputs) {
                input.parts.extend([ResponsePart::Trailers(trailers), end]);
            }
        }
        Event::Reset {
            stream,
            code,
            origin,
        } => {
            if let Some(input) = input_of(stream, exchanges, inputs) {
                input.lost = Some(match origin {
                    Origin::Here(violation) => StreamLoss::Violation(violation),
                    Origin::Peer if code == ErrorCode::REFUSED_STREAM => StreamLoss::Refused,
                    Origin::Peer => StreamLoss::Reset(code),
                });
            }
        }
        Event::GoAway { last, .. } => {
            for &stream in exchanges.keys().filter(|stream| stream.number() > last) {
                if let Some(input) = input_of(stream, exchanges, inputs) {
                    input.lost = Some(StreamLoss::Left);
                }
            }
        }
        // Requests are only received by servers. The state machine itself handles PING and SETTINGS.
        Event::Request { .. } | Event::Refused { .. } | Event::Pong(_) | Event::Settings => {}
    }
}

/// Returns the input of a stream; `None` after the stream's exchange ended.
fn input_of<'a>(
    stream: StreamId,
    exchanges: &HashMap<StreamId, UpstreamExchangeId>,
    inputs: &'a mut Vec<StreamInput>,
) -> Option<&'a mut StreamInput> {
    let at = match inputs.iter().rposition(|it| it.stream == stream) {
        Some(at) => at,
        None => {
            inputs.push(StreamInput {
                exchange: *exchanges.get(&stream)?,
                stream,
                parts: Vec::new(),
                lost: None,
            });
            inputs.len() - 1
        }
    };
    inputs.get_mut(at)
}

fn fields(message: &Message) -> Vec<(Vec<u8>, Vec<u8>)> {
    let fields = message.headers();
    fields
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use fermata_proto::http2::Violation;

    use super::*;
    use crate::ids::wire;

    const WIRE: WireId = wire(1);

    fn id(number: u64) -> UpstreamExchangeId {
        UpstreamExchangeId::of(number)
    }

    fn apply(
        event: Event<'_>,
        exchanges: &HashMap<StreamId, UpstreamExchangeId>,
        inputs: &mut Vec<StreamInput>,
    ) {
        note(event, exchanges, &Message::new(), inputs);
    }

    /// Two stream ids of a real connection.
    fn streams() -> [StreamId; 2] {
        let (limits, mut out) = (Limits::default(), Vec::new());
        let mut connection = Connection::client(&limits, 0, &mut out);
        let opening = fermata_proto::http2::Opening {
            method: b"GET",
            scheme: b"http",
            authority: b"localhost",
            path: b"/",
            protocol: None,
        };
        [(); 2].map(|()| {
            let fields = std::iter::empty();
            let opened = connection.open(&opening, fields, true, &limits, &mut out);
            opened.expect("there is room")
        })
    }

    fn carriers() -> Carriers {
        let pings = PingTimes {
            interval_ms: 1_000,
            timeout_ms: 500,
        };
        let mut carriers = Carriers::new(10, pings);
        carriers.add(WIRE, Place::any(), false, 0);
        carriers
    }

    /// A frame of a server: SETTINGS, or the acknowledgement of a PING.
    fn frame_of_server(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = payload.len() as u8;
        [&[0, 0, len, kind, flags, 0, 0, 0, 0][..], payload].concat()
    }

    #[test]
    fn a_silent_connection_with_requests_is_asked_whether_it_is_there() {
        let [stream, _] = streams();
        let mut carriers = carriers();
        let hello = [frame_of_server(4, 0, b""), frame_of_server(4, 1, b"")].concat();
        carriers.read(WIRE, &hello, 0).1.expect("SETTINGS");
        // An idle connection is not pinged.
        assert_eq!(carriers.tick(5_000), []);
        let enter = |carriers: &mut Carriers, now_ms| {
            let carrier = carriers.by_wire.get_mut(&WIRE).expect("there");
            carrier.exchanges.insert(stream, id(7));
            carrier.idle_until_ms = now_ms;
            carrier.out.clear();
        };
        enter(&mut carriers, 5_000);
        assert_eq!(carriers.tick(5_999), []);
        assert_eq!(carriers.tick(6_000), [(WIRE, TickOutcome::MustSend)]);
        let sent = carriers.by_wire[&WIRE].out.clone();
        assert_eq!(sent, frame_of_server(6, 0, &PING));
        assert_eq!(carriers.tick(6_400), []);
        // Acknowledged: the next interval is four times as long.
        let pong = frame_of_server(6, 1, &PING);
        carriers.read(WIRE, &pong, 6_450).1.expect("PING");
        assert_eq!(carriers.tick(10_449), []);
        assert_eq!(carriers.tick(10_450), [(WIRE, TickOutcome::MustSend)]);
        carriers.read(WIRE, &pong, 10_451).1.expect("PING");
        // Any other frame resets the interval to its first value.
        carriers
            .read(WIRE, &frame_of_server(4, 0, b""), 11_000)
            .1
            .expect("SETTINGS");
        assert_eq!(carriers.tick(12_000), [(WIRE, TickOutcome::MustSend)]);
        assert_eq!(carriers.tick(12_499), []);
        let [(WIRE, TickOutcome::Failed(reason))] = &carriers.tick(12_500)[..] else {
            panic!("it is not there");
        };
        assert_eq!(reason, "no answer to a PING within 500 ms");
    }

    #[test]
    fn the_time_between_pings_is_bounded_and_there_may_be_none() {
        let [stream, _] = streams();
        let mut carriers = carriers();
        let carrier = carriers.by_wire.get_mut(&WIRE).expect("there");
        carrier.exchanges.insert(stream, id(7));
        let times = carriers.pings;
        let carrier = carriers.by_wire.get_mut(&WIRE).expect("there");
        for _ in 0..20 {
            let due_ms = carrier.received_ms + carrier.ping_interval_ms;
            assert_eq!(carrier.ping(due_ms, times), Some(TickOutcome::MustSend));
            carrier.received_ms = due_ms;
            carrier.pinged_ms = None;
        }
        assert_eq!(carrier.ping_interval_ms, PING_INTERVAL_MS_MAX);
        let never = PingTimes {
            interval_ms: 0,
            ..times
        };
        assert_eq!(carrier.ping(u64::MAX / 2, never), None);
    }

    #[test]
    fn what_arrives_together_is_passed_on_together() {
        let [one, other] = streams();
        let exchanges = HashMap::from([(one, id(7)), (other, id(8))]);
        let mut all = Vec::new();
        for (stream, data, end) in [
            (one, &b"a"[..], false),
            (other, b"x", true),
            (one, b"b", false),
            (one, b"", true),
        ] {
            apply(Event::Data { stream, data, end }, &exchanges, &mut all);
        }
        assert_eq!(
            all.iter().map(|it| it.exchange).collect::<Vec<_>>(),
            [id(7), id(8)]
        );
        let [ResponsePart::Body(body), ResponsePart::End { .. }] = &all[0].parts[..] else {
            panic!("one piece and its end: {:?}", all[0].parts);
        };
        assert_eq!(body, b"ab");
    }

    #[test]
    fn unprocessed_streams_differ_from_processed_ones() {
        let [one, other] = streams();
        let exchanges = HashMap::from([(one, id(7)), (other, id(8))]);
        let lost = |event| {
            let mut all = Vec::new();
            apply(event, &exchanges, &mut all);
            let lost = all.iter().map(|it| (it.exchange, it.lost));
            lost.collect::<Vec<_>>()
        };
        let code = ErrorCode::NO_ERROR;
        let last = one.number();
        assert_eq!(
            lost(Event::GoAway { last, code }),
            [(id(8), Some(StreamLoss::Left))]
        );
        let reset = |code, origin| Event::Reset {
            stream: one,
            code,
            origin,
        };
        let refused = ErrorCode::REFUSED_STREAM;
        let failed = ErrorCode::INTERNAL_ERROR;
        for (event, expected) in [
            (reset(refused, Origin::Peer), StreamLoss::Refused),
            (reset(failed, Origin::Peer), StreamLoss::Reset(failed)),
            (
                reset(refused, Origin::Here(Violation::ContentLength)),
                StreamLoss::Violation(Violation::ContentLength),
            ),
        ] {
            assert_eq!(lost(event), [(id(7), Some(expected))]);
        }
    }
}
