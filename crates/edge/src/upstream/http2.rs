//! Connections to targets that speak HTTP/2: each carries the requests of many conversations.

use std::collections::HashMap;

use fermata_proto::http2::{Connection, ErrorCode, Event, Limits, Message, Origin, Rate, StreamId};
use fermata_proto::response::{reserved_name, valid_name, valid_value};

use crate::upstream::place::Place;
use crate::upstream::response::{Head, Said, cleaned, length_of};

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

/// A connection that carries requests.
pub(crate) struct Carrier {
    pub place: Place,
    pub machine: Connection,
    /// Frames, and how much of their front the socket has taken.
    pub out: Vec<u8>,
    pub sent: usize,
    /// The conversation of each stream.
    pub talks: HashMap<StreamId, u64>,
    /// Nobody but who has opened it uses it: a check.
    pub is_private: bool,
    /// Requests ran out of time on it while it said nothing.
    pub is_stale: bool,
    /// It has carried a request before.
    pub has_served: bool,
    /// Requests that it takes at a time: the setting, or fewer once the target has refused one.
    pub streams_max: usize,
    /// When the target has said something.
    pub heard_ms: u64,
    /// Since when it has no requests.
    pub idle_since_ms: u64,
}

/// Where a conversation's request is.
#[derive(Debug)]
pub(crate) struct OnCarrier {
    /// The connection.
    pub wire: u64,
    pub stream: StreamId,
    /// Bytes of the response that the target may not send again yet.
    pub uncredited: usize,
    /// The end of the request was sent.
    pub has_ended: bool,
}

/// What a target has said to one conversation.
pub(crate) struct Told {
    pub talk: u64,
    pub stream: StreamId,
    pub said: Vec<Said>,
    pub lost: Option<Lost>,
}

/// Why nothing more comes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The target has not looked at the request and takes fewer at a time.
    Refused,
    /// The target has not looked at the request and goes away.
    Left,
    /// The target has ended it with this code.
    Reset(ErrorCode),
    /// What the target said was no response.
    Violation(fermata_proto::http2::Violation),
}

/// The connections of a worker.
pub(crate) struct Carriers {
    pub limits: Limits,
    streams_max: usize,
    by_wire: HashMap<u64, Box<Carrier>>,
    by_place: HashMap<Place, Vec<u64>>,
    /// The conversation that opens a connection others wait for.
    opening: HashMap<Place, u64>,
    /// Targets that speak HTTP/1, and until when that is believed.
    http1: HashMap<Place, u64>,
    /// Places whose waiting conversations go on.
    settled: Vec<Place>,
    /// Connections that are broken.
    broken: Vec<u64>,
    message: Message,
}

impl Carriers {
    pub fn new(streams_max: u64) -> Self {
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

    pub fn get_mut(&mut self, wire: u64) -> Option<(&mut Carrier, &Limits)> {
        let carrier = self.by_wire.get_mut(&wire)?;
        Some((carrier, &self.limits))
    }

    /// A connection that stands.
    pub fn add(&mut self, wire: u64, place: Place, is_private: bool, now_ms: u64) {
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
            streams_max: self.streams_max,
            heard_ms: now_ms,
            idle_since_ms: now_ms,
        };
        self.by_wire.insert(wire, Box::new(carrier));
        self.by_place.entry(place).or_default().push(wire);
    }

    pub fn remove(&mut self, wire: u64) -> Option<Box<Carrier>> {
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
    pub fn with_room(&self, place: &Place) -> Option<u64> {
        let wires = self.by_place.get(place)?.iter();
        let mut wires =
            wires.filter(|&wire| self.by_wire.get(wire).is_some_and(|it| it.has_room()));
        wires.next().copied()
    }

    /// Whether another conversation opens a connection to this place.
    pub fn is_opening(&self, place: &Place, talk: u64) -> bool {
        self.opening
            .get(place)
            .is_some_and(|&opener| opener != talk)
    }

    pub fn begin_opening(&mut self, place: Place, talk: u64) {
        self.opening.insert(place, talk);
    }

    /// The connection stands, or there will be none: who waits for it goes on.
    pub fn end_opening(&mut self, place: Place, talk: u64) {
        if self.opening.get(&place) == Some(&talk) {
            self.opening.remove(&place);
            self.settled.push(place);
        }
    }

    pub fn take_settled(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.settled)
    }

    /// Whether there is something for [`Carriers::take_settled`] or [`Carriers::take_broken`].
    pub fn has_news(&self) -> bool {
        !self.settled.is_empty() || !self.broken.is_empty()
    }

    pub fn note_broken(&mut self, wire: u64) {
        self.broken.push(wire);
    }

    pub fn take_broken(&mut self) -> Vec<u64> {
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
    pub fn suspect(&mut self, wire: u64, since_ms: u64) {
        if let Some(carrier) = self.by_wire.get_mut(&wire) {
            carrier.is_stale |= carrier.heard_ms <= since_ms;
        }
    }

    /// What the bytes of a target say. `Err`: why the connection is over.
    pub fn read(
        &mut self,
        wire: u64,
        bytes: &[u8],
        now_ms: u64,
    ) -> (Vec<Told>, Result<(), String>) {
        let mut told = Vec::new();
        let Some(carrier) = self.by_wire.get_mut(&wire) else {
            return (told, Ok(()));
        };
        carrier.heard_ms = now_ms;
        let mut at = 0;
        while at < bytes.len() {
            let (message, out) = (&mut self.message, &mut carrier.out);
            let step = carrier
                .machine
                .handle(&bytes[at..], now_ms, &self.limits, message, out);
            let step = match step {
                Ok(step) => step,
                Err(violation) => return (told, Err(violation.to_string())),
            };
            at += step.consumed;
            let Some(event) = step.event else {
                continue;
            };
            note(event, &carrier.talks, message, &mut told);
        }
        (told, Ok(()))
    }

    /// Connections that have failed, and those that nobody has used for long.
    pub fn tick(&mut self, now_ms: u64) -> Vec<(u64, Option<String>)> {
        let mut over = Vec::new();
        for (&wire, carrier) in &mut self.by_wire {
            let (machine, out) = (&mut carrier.machine, &mut carrier.out);
            if let Err(violation) = machine.tick(now_ms, &self.limits, out) {
                over.push((wire, Some(violation.to_string())));
            } else if carrier.talks.is_empty() && now_ms >= carrier.idle_since_ms + IDLE_MS {
                machine.abort(ErrorCode::NO_ERROR, out);
                over.push((wire, None));
            }
        }
        over
    }
}

impl Carrier {
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

/// Adds what an event says to what its conversation is told.
fn note(event: Event<'_>, talks: &HashMap<StreamId, u64>, message: &Message, told: &mut Vec<Told>) {
    let end = Said::End { is_reusable: true };
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
            if let Some(told) = told_to(stream, talks, told) {
                told.said.push(Said::Head(head));
                told.said.extend(is_end.then_some(end));
            }
        }
        Event::Data {
            stream,
            data,
            end: is_end,
        } => {
            if let Some(told) = told_to(stream, talks, told) {
                match told.said.last_mut() {
                    Some(Said::Body(body)) => body.extend_from_slice(data),
                    _ if data.is_empty() => {}
                    _ => told.said.push(Said::Body(data.to_vec())),
                }
                told.said.extend(is_end.then_some(end));
            }
        }
        Event::Trailers { stream } => {
            let mut trailers = cleaned(fields(message));
            trailers.retain(|(name, value)| {
                valid_name(name) && valid_value(value) && !reserved_name(name)
            });
            if let Some(told) = told_to(stream, talks, told) {
                told.said.extend([Said::Trailers(trailers), end]);
            }
        }
        Event::Reset {
            stream,
            code,
            origin,
        } => {
            if let Some(told) = told_to(stream, talks, told) {
                told.lost = Some(match origin {
                    Origin::Here(violation) => Lost::Violation(violation),
                    Origin::Peer if code == ErrorCode::REFUSED_STREAM => Lost::Refused,
                    Origin::Peer => Lost::Reset(code),
                });
            }
        }
        Event::GoAway { last, .. } => {
            for &stream in talks.keys().filter(|stream| stream.number() > last) {
                if let Some(told) = told_to(stream, talks, told) {
                    told.lost = Some(Lost::Left);
                }
            }
        }
        // Those to a server, and what is the state machine's own.
        Event::Request { .. } | Event::Refused { .. } | Event::Pong(_) | Event::Settings => {}
    }
}

/// What the conversation of a stream is told. `None`: it has left.
fn told_to<'a>(
    stream: StreamId,
    talks: &HashMap<StreamId, u64>,
    told: &'a mut Vec<Told>,
) -> Option<&'a mut Told> {
    let at = match told.iter().rposition(|it| it.stream == stream) {
        Some(at) => at,
        None => {
            told.push(Told {
                talk: *talks.get(&stream)?,
                stream,
                said: Vec::new(),
                lost: None,
            });
            told.len() - 1
        }
    };
    told.get_mut(at)
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

    fn told(event: Event<'_>, talks: &HashMap<StreamId, u64>, told: &mut Vec<Told>) {
        note(event, talks, &Message::new(), told);
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

    #[test]
    fn what_comes_at_once_is_told_at_once() {
        let [one, other] = streams();
        let talks = HashMap::from([(one, 7), (other, 8)]);
        let mut all = Vec::new();
        for (stream, data, end) in [
            (one, &b"a"[..], false),
            (other, b"x", true),
            (one, b"b", false),
            (one, b"", true),
        ] {
            told(Event::Data { stream, data, end }, &talks, &mut all);
        }
        assert_eq!(all.iter().map(|it| it.talk).collect::<Vec<_>>(), [7, 8]);
        let [Said::Body(body), Said::End { .. }] = &all[0].said[..] else {
            panic!("one piece and its end: {:?}", all[0].said);
        };
        assert_eq!(body, b"ab");
    }

    #[test]
    fn what_was_not_looked_at_is_told_from_what_was() {
        let [one, other] = streams();
        let talks = HashMap::from([(one, 7), (other, 8)]);
        let lost = |event| {
            let mut all = Vec::new();
            told(event, &talks, &mut all);
            let lost = all.iter().map(|it| (it.talk, it.lost));
            lost.collect::<Vec<_>>()
        };
        let code = ErrorCode::NO_ERROR;
        let last = one.number();
        assert_eq!(lost(Event::GoAway { last, code }), [(8, Some(Lost::Left))]);
        let reset = |code, origin| Event::Reset {
            stream: one,
            code,
            origin,
        };
        let refused = ErrorCode::REFUSED_STREAM;
        let failed = ErrorCode::INTERNAL_ERROR;
        for (event, expected) in [
            (reset(refused, Origin::Peer), Lost::Refused),
            (reset(failed, Origin::Peer), Lost::Reset(failed)),
            (
                reset(refused, Origin::Here(Violation::ContentLength)),
                Lost::Violation(Violation::ContentLength),
            ),
        ] {
            assert_eq!(lost(event), [(7, Some(expected))]);
        }
    }
}
