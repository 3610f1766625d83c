//! Connections to targets that speak HTTP/2: each carries the requests of many conversations.

use std::collections::HashMap;

use fermata_engine::WireId;
use fermata_proto::http2::{
    Connection, ErrorCode, Event, Limits, Message, Origin, Rate, StreamId, Violation,
};
use fermata_proto::response::{reserved_name, valid_name, valid_value};

use crate::upstream::id::TalkId;
use crate::upstream::place::Place;
use crate::upstream::response::{Head, ResponsePart, cleaned, length_of};

/// What a target may send of one response before its client has taken it.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// The same of all responses on a connection, in windows of a stream for each request that it may carry. It is given back when
/// half of it is used: with less than two, clients that take nothing could keep the others from ever using that much.
const STREAM_WINDOWS_OF_CONNECTION: u64 = 2;

/// The largest window that there is (RFC 9113, section 6.9.1).
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// A response's head, as large as one over HTTP/1 may be.
const HEAD_BYTES_MAX: u32 = 64 * 1024;
const HEADERS_COUNT_MAX: u16 = 200;

/// Control frames that a target may send. Servers measure the path with PING and open windows often, and a target is not
/// anybody on the Internet; the bound is for one that has gone wrong.
const CONTROL_FRAMES: Rate = Rate::new(10_000, 20_000);

/// How long a target is taken for one of HTTP/1 that has not agreed to HTTP/2.
const HTTP1_MS: u64 = 60_000;

/// How many places are remembered for that; with more all are forgotten, and asked again.
const HTTP1_PLACES_MAX: usize = 1_024;

/// How long a connection without requests is kept. Below what backends allow, so that they seldom close one as it is used.
const IDLE_MS: u64 = 55_000;

/// What a PING to a target holds.
const PING: [u8; 8] = *b"fm-alive";

/// The longest time between two PING. Servers of gRPC end connections with more than two within five minutes of silence.
const PING_INTERVAL_MS_MAX: u64 = 600_000;

/// Each answered PING makes the time until the next so many times as long.
const PING_INTERVAL_GROWTH: u64 = 4;

/// When a connection that says nothing is outcomes at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingTimes {
    /// Silence after which a PING is sent; 0: none is.
    pub interval_ms: u64,
    /// What the target has for its answer.
    pub timeout_ms: u64,
}

/// What became of a connection that was outcomes at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TickOutcome {
    /// It has frames to send.
    MustSend,
    /// It has failed.
    Failed(String),
    /// It carried no request for too long.
    Idle,
}

/// A connection that carries requests.
pub(crate) struct Carrier {
    pub place: Place,
    pub machine: Connection,
    /// Frames, and how much of their front the socket has taken.
    pub out: Vec<u8>,
    pub sent: usize,
    /// The conversation of each stream.
    pub talks: HashMap<StreamId, TalkId>,
    /// Only the health check that opened it uses it.
    pub is_private: bool,
    /// Requests ran out of time on it while it said nothing.
    pub is_stale: bool,
    /// It has carried a request before.
    pub has_served: bool,
    /// The target's SETTINGS have come: until then it is unknown whether it takes WebSockets.
    has_settings: bool,
    /// Requests that it takes at a time: the setting, or fewer once the target has refused one.
    pub streams_max: usize,
    /// When the target has said something.
    pub heard_ms: u64,
    /// When a PING was sent whose answer, or anything else, has not come.
    pinged_ms: Option<u64>,
    /// Silence after which the next PING is due.
    ping_interval_ms: u64,
    /// Since when it has no requests.
    pub idle_since_ms: u64,
    /// When the first of those that it has came.
    pub idle_until_ms: u64,
}

/// Whether a connection to a place can carry a WebSocket (RFC 8441).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebSocketSupport {
    /// This one takes it.
    Ready(WireId),
    /// The target has not said whether it takes any.
    Unknown,
    /// The target takes none: it is spoken to in HTTP/1.1.
    Never,
    /// There is no connection, or none with room.
    Absent,
}

/// Where a conversation's request is.
#[derive(Debug)]
pub(crate) struct OnCarrier {
    /// The connection.
    pub wire: WireId,
    pub stream: StreamId,
    /// Bytes of the response that the target may not send again yet.
    pub uncredited: usize,
    /// The end of the request was sent.
    pub has_ended: bool,
}

/// What arrived on one stream, for its conversation.
pub(crate) struct StreamInput {
    pub talk: TalkId,
    pub stream: StreamId,
    pub parts: Vec<ResponsePart>,
    pub lost: Option<StreamLoss>,
}

/// Why a stream has no more input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamLoss {
    /// The target has not outcomes at the request and takes fewer at a time.
    Refused,
    /// The target has not outcomes at the request and goes away.
    Left,
    /// The target has ended it with this code.
    Reset(ErrorCode),
    /// What the target said was no response.
    Violation(Violation),
}

/// Why a connection carries no more requests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarrierLoss {
    /// What the target says is not HTTP/2.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The target has closed it.
    #[error("the connection has ended")]
    Ended,
    /// It is broken.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is broken, and nothing tells how.
    #[error("it cannot be sent to")]
    Unsendable,
}

/// The connections of a worker.
pub(crate) struct Carriers {
    pub limits: Limits,
    streams_max: usize,
    pings: PingTimes,
    by_wire: HashMap<WireId, Box<Carrier>>,
    by_place: HashMap<Place, Vec<WireId>>,
    /// The conversation that opens a connection others wait for.
    opening: HashMap<Place, TalkId>,
    /// Targets that speak HTTP/1, and until when that is believed.
    http1: HashMap<Place, u64>,
    /// Places whose waiting conversations go on.
    settled: Vec<Place>,
    /// Connections that are broken.
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
                // A request that the target does not take runs out of its own time.
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

    /// Connections without requests.
    pub fn idle(&self) -> usize {
        let carriers = self.by_wire.values();
        carriers.filter(|carrier| carrier.talks.is_empty()).count()
    }

    pub fn get_mut(&mut self, wire: WireId) -> Option<(&mut Carrier, &Limits)> {
        let carrier = self.by_wire.get_mut(&wire)?;
        Some((carrier, &self.limits))
    }

    /// A connection that stands.
    pub fn add(&mut self, wire: WireId, place: Place, is_private: bool, now_ms: u64) {
        let mut out = Vec::new();
        let carrier = Carrier {
            machine: Connection::client(&self.limits, now_ms, &mut out),
            place: place.clone(),
            out,
            sent: 0,
            talks: HashMap::new(),
            is_private,
            is_stale: false,
            has_served: false,
            has_settings: false,
            streams_max: self.streams_max,
            heard_ms: now_ms,
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

    /// A connection to this place that takes one more request.
    pub fn with_room(&self, place: &Place) -> Option<WireId> {
        let wires = self.by_place.get(place)?.iter();
        let mut wires =
            wires.filter(|&wire| self.by_wire.get(wire).is_some_and(|it| it.has_room()));
        wires.next().copied()
    }

    /// The same for a WebSocket.
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

    /// Whether another conversation opens a connection to this place.
    pub fn is_opening(&self, place: &Place, talk: TalkId) -> bool {
        self.opening
            .get(place)
            .is_some_and(|&opener| opener != talk)
    }

    pub fn begin_opening(&mut self, place: Place, talk: TalkId) {
        self.opening.insert(place, talk);
    }

    /// The connection stands, or there will be none: who waits for it goes on.
    pub fn end_opening(&mut self, place: Place, talk: TalkId) {
        if self.opening.get(&place) == Some(&talk) {
            self.opening.remove(&place);
            self.settled.push(place);
        }
    }

    /// Conversations need not wait for this connection's SETTINGS any longer.
    pub fn settle(&mut self, place: Place) {
        self.settled.push(place);
    }

    pub fn take_settled(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.settled)
    }

    /// Whether there is something for [`Carriers::take_settled`] or [`Carriers::take_broken`].
    pub fn has_news(&self) -> bool {
        !self.settled.is_empty() || !self.broken.is_empty()
    }

    pub fn note_broken(&mut self, wire: WireId) {
        self.broken.push(wire);
    }

    pub fn take_broken(&mut self) -> Vec<WireId> {
        std::mem::take(&mut self.broken)
    }

    /// The target has chosen HTTP/1.
    pub fn note_http1(&mut self, place: Place, now_ms: u64) {
        if self.http1.len() >= HTTP1_PLACES_MAX {
            self.http1.clear();
        }
        self.http1.insert(place, now_ms + HTTP1_MS);
    }

    /// Whether it did so lately: then nobody waits for another's connection.
    pub fn is_http1(&self, place: &Place, now_ms: u64) -> bool {
        self.http1
            .get(place)
            .is_some_and(|&until_ms| now_ms < until_ms)
    }

    /// A request on this connection ran out of time.
    pub fn suspect(&mut self, wire: WireId, since_ms: u64) {
        if let Some(carrier) = self.by_wire.get_mut(&wire) {
            carrier.is_stale |= carrier.heard_ms <= since_ms;
        }
    }

    /// What the bytes of a target say.
    pub fn read(
        &mut self,
        wire: WireId,
        bytes: &[u8],
        now_ms: u64,
    ) -> (Vec<StreamInput>, Result<(), CarrierLoss>) {
        let mut inputs = Vec::new();
        let Some(carrier) = self.by_wire.get_mut(&wire) else {
            // Its last conversation has closed it meanwhile.
            return (inputs, Ok(()));
        };
        carrier.heard_ms = now_ms;
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
            note(event, &carrier.talks, message, &mut inputs);
        }
        (inputs, Ok(()))
    }

    /// Connections that have failed, those that nobody has used for long, and those that were asked for a sign of life.
    pub fn tick(&mut self, now_ms: u64) -> Vec<(WireId, TickOutcome)> {
        let mut outcomes = Vec::new();
        for (&wire, carrier) in &mut self.by_wire {
            if let Err(violation) = carrier.machine.tick(now_ms, &self.limits, &mut carrier.out) {
                outcomes.push((wire, TickOutcome::Failed(violation.to_string())));
            } else if carrier.talks.is_empty() && now_ms >= carrier.idle_since_ms + IDLE_MS {
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
    /// Asks a target that has been silent for long whether it is there, and says when it is not.
    fn ping(&mut self, now_ms: u64, times: PingTimes) -> Option<TickOutcome> {
        if let Some(pinged_ms) = self.pinged_ms {
            let is_late = now_ms >= pinged_ms + times.timeout_ms;
            return is_late.then(|| {
                let waited_ms = times.timeout_ms;
                TickOutcome::Failed(format!("no answer to a PING within {waited_ms} ms"))
            });
        }
        // Time without requests is not silence: the target has nothing to say then.
        let since_ms = self.heard_ms.max(self.idle_until_ms);
        let is_due = times.interval_ms > 0 && now_ms >= since_ms + self.ping_interval_ms;
        if !is_due || self.talks.is_empty() {
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
            && self.talks.len() < self.streams_max
            && self.machine.room() > 0
    }

    /// Whether it is of no use any more.
    pub fn is_over(&self) -> bool {
        let takes_no_more = self.is_private || self.is_stale || self.machine.is_leaving();
        self.talks.is_empty() && takes_no_more
    }

    /// Bytes that the socket has not taken.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }
}

/// Adds an event to the input of its stream.
fn note(
    event: Event<'_>,
    talks: &HashMap<StreamId, TalkId>,
    message: &Message,
    inputs: &mut Vec<StreamInput>,
) {
    let end = ResponsePart::End { is_reusable: true };
    match event {
        Event::Response {
            stream,
            end: is_end,
        } => {
            // An interim response is for this hop; what it says comes again.
            if message.status < 200 {
                return;
            }
            let headers = fields(message);
            let head = Head {
                status: message.status,
                reason: Vec::new(),
                length: length_of(&headers),
                headers: cleaned(headers),
            };
            if let Some(input) = input_of(stream, talks, inputs) {
                input.parts.push(ResponsePart::Head(head));
                input.parts.extend(is_end.then_some(end));
            }
        }
        Event::Data {
            stream,
            data,
            end: is_end,
        } => {
            if let Some(input) = input_of(stream, talks, inputs) {
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
            if let Some(input) = input_of(stream, talks, inputs) {
                input.parts.extend([ResponsePart::Trailers(trailers), end]);
            }
        }
        Event::Reset {
            stream,
            code,
            origin,
        } => {
            if let Some(input) = input_of(stream, talks, inputs) {
                input.lost = Some(match origin {
                    Origin::Here(violation) => StreamLoss::Violation(violation),
                    Origin::Peer if code == ErrorCode::REFUSED_STREAM => StreamLoss::Refused,
                    Origin::Peer => StreamLoss::Reset(code),
                });
            }
        }
        Event::GoAway { last, .. } => {
            for &stream in talks.keys().filter(|stream| stream.number() > last) {
                if let Some(input) = input_of(stream, talks, inputs) {
                    input.lost = Some(StreamLoss::Left);
                }
            }
        }
        // Those to a server, and what is the state machine's own.
        Event::Request { .. } | Event::Refused { .. } | Event::Pong(_) | Event::Settings => {}
    }
}

/// The input of a stream. `None`: its conversation has ended.
fn input_of<'a>(
    stream: StreamId,
    talks: &HashMap<StreamId, TalkId>,
    inputs: &'a mut Vec<StreamInput>,
) -> Option<&'a mut StreamInput> {
    let at = match inputs.iter().rposition(|it| it.stream == stream) {
        Some(at) => at,
        None => {
            inputs.push(StreamInput {
                talk: *talks.get(&stream)?,
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

    fn id(number: u64) -> TalkId {
        TalkId::of(number)
    }

    fn apply(event: Event<'_>, talks: &HashMap<StreamId, TalkId>, inputs: &mut Vec<StreamInput>) {
        note(event, talks, &Message::new(), inputs);
    }

    /// Numbers of streams that a connection gives.
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

    /// What a server says: its SETTINGS, or an answer to our PING.
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
        // Without requests nothing is owed.
        assert_eq!(carriers.tick(5_000), []);
        let enter = |carriers: &mut Carriers, now_ms| {
            let carrier = carriers.by_wire.get_mut(&WIRE).expect("there");
            carrier.talks.insert(stream, id(7));
            carrier.idle_until_ms = now_ms;
            carrier.out.clear();
        };
        enter(&mut carriers, 5_000);
        assert_eq!(carriers.tick(5_999), []);
        assert_eq!(carriers.tick(6_000), [(WIRE, TickOutcome::MustSend)]);
        let sent = carriers.by_wire[&WIRE].out.clone();
        assert_eq!(sent, frame_of_server(6, 0, &PING));
        assert_eq!(carriers.tick(6_400), []);
        // Answered: the next one is due four times as late.
        let pong = frame_of_server(6, 1, &PING);
        carriers.read(WIRE, &pong, 6_450).1.expect("PING");
        assert_eq!(carriers.tick(10_449), []);
        assert_eq!(carriers.tick(10_450), [(WIRE, TickOutcome::MustSend)]);
        carriers.read(WIRE, &pong, 10_451).1.expect("PING");
        // Whatever else comes makes the time what it was.
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
        carrier.talks.insert(stream, id(7));
        let times = carriers.pings;
        let carrier = carriers.by_wire.get_mut(&WIRE).expect("there");
        for _ in 0..20 {
            let due_ms = carrier.heard_ms + carrier.ping_interval_ms;
            assert_eq!(carrier.ping(due_ms, times), Some(TickOutcome::MustSend));
            carrier.heard_ms = due_ms;
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
        let talks = HashMap::from([(one, id(7)), (other, id(8))]);
        let mut all = Vec::new();
        for (stream, data, end) in [
            (one, &b"a"[..], false),
            (other, b"x", true),
            (one, b"b", false),
            (one, b"", true),
        ] {
            apply(Event::Data { stream, data, end }, &talks, &mut all);
        }
        assert_eq!(
            all.iter().map(|it| it.talk).collect::<Vec<_>>(),
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
        let talks = HashMap::from([(one, id(7)), (other, id(8))]);
        let lost = |event| {
            let mut all = Vec::new();
            apply(event, &talks, &mut all);
            let lost = all.iter().map(|it| (it.talk, it.lost));
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
