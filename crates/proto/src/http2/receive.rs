//! Received bytes to events (RFC 9113, 4 to 6).
//!
//! What a frame's header decides is decided there; DATA then passes through, and other payloads are looked at once they
//! are whole, in the input where they lie whole in it. So any split of the input gives the same events.

mod data;
mod heads;

use super::Role;
use super::connection::{
    Connection, DRAIN_PING, Drain, EARLY_PRIORITIES, Event, Input, Origin, Step, StreamId,
};
use super::error::{ErrorCode, Violation};
use super::flood::Flood;
use super::frame::{
    self, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_USUAL, PREFACE, STREAM_MAX, WINDOW_INITIAL,
    flag,
};
use super::limits::Limits;
use super::message::Message;
use super::priority::Priority;
use super::streams::{Gone, Standing};

/// A WINDOW_UPDATE for so many bytes sent is what a client owes; those beyond that count as a flood.
///
/// A rate alone would end fast downloads: a client opens both windows each time it has taken half of one.
const BYTES_PER_UPDATE: u32 = 1024;

/// Bytes of the deprecated priority (RFC 7540, 6.3).
const PRIORITY_BYTES: u32 = 5;

/// What is the same for all that one call of `handle` does.
struct Context<'c> {
    now_ms: u64,
    limits: &'c Limits,
    message: &'c mut Message,
    out: &'c mut Vec<u8>,
}

/// An event, nothing, or the end of the connection.
type Outcome = Result<Option<Event<'static>>, Violation>;

impl Connection {
    /// Takes the next bytes, in any split. Call it with what it has not consumed until all is.
    ///
    /// Answers that the protocol itself asks for are appended to `out`. `message` holds the head after
    /// [`Event::Request`], [`Event::Response`] and [`Event::Trailers`].
    ///
    /// # Errors
    /// What the peer did wrong. GOAWAY is in `out`: send it and close. Every further call gives the same.
    pub fn handle<'a>(
        &mut self,
        input: &'a [u8],
        now_ms: u64,
        limits: &Limits,
        message: &mut Message,
        out: &mut Vec<u8>,
    ) -> Result<Step<'a>, Violation> {
        if let Input::Failed(violation) = self.input {
            return Err(violation);
        }
        let mut context = Context {
            now_ms,
            limits,
            message,
            out,
        };
        self.run(input, &mut context)
            .map_err(|violation| self.fail(violation, context.out))
    }

    fn run<'a>(&mut self, input: &'a [u8], c: &mut Context) -> Result<Step<'a>, Violation> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let event = match &mut self.input {
                Input::Failed(violation) => return Err(*violation),
                Input::Header(bytes, have) => {
                    let header = if let Some(whole) = rest.first_chunk::<HEADER_BYTES>()
                        && *have == 0
                    {
                        consumed += HEADER_BYTES;
                        Header::parse(whole)
                    } else {
                        let kept = usize::from(*have);
                        let taken = rest.len().min(HEADER_BYTES - kept);
                        bytes[kept..kept + taken].copy_from_slice(&rest[..taken]);
                        *have += taken as u8;
                        consumed += taken;
                        if usize::from(*have) < HEADER_BYTES {
                            break;
                        }
                        Header::parse(bytes)
                    };
                    self.begin_frame(header, c)?
                }
                Input::Payload(header) => {
                    let header = *header;
                    match self.take_payload(header, rest, c)? {
                        (taken, Some(event)) => {
                            consumed += taken;
                            event
                        }
                        (taken, None) => {
                            consumed += taken;
                            break;
                        }
                    }
                }
                Input::Data(data) => {
                    let data = *data;
                    if rest.is_empty() && data.missing > 0 {
                        break;
                    }
                    let (taken, event) = self.take_data(data, rest, c)?;
                    consumed += taken;
                    event
                }
                Input::Skip(missing) => {
                    let taken = rest.len().min(*missing as usize);
                    consumed += taken;
                    *missing -= taken as u32;
                    if *missing > 0 {
                        break;
                    }
                    self.expect_header();
                    None
                }
                Input::Preface(matched) => {
                    let kept = usize::from(*matched);
                    let taken = rest.len().min(PREFACE.len() - kept);
                    if rest[..taken] != PREFACE[kept..kept + taken] {
                        return Err(Violation::Preface);
                    }
                    consumed += taken;
                    *matched += taken as u8;
                    if usize::from(*matched) < PREFACE.len() {
                        break;
                    }
                    self.expect_header();
                    None
                }
            };
            if event.is_some() {
                return Ok(Step { consumed, event });
            }
        }
        Ok(Step {
            consumed,
            event: None,
        })
    }

    fn expect_header(&mut self) {
        self.input = Input::Header([0; HEADER_BYTES], 0);
    }

    /// A frame's header is there: decides what its payload is to this connection.
    fn begin_frame(&mut self, header: Header, c: &mut Context) -> Outcome {
        if header.len > PAYLOAD_BYTES_USUAL {
            return Err(Violation::FrameTooLong);
        }
        let kind = Kind::from_number(header.kind);
        if let Some(block) = self.partial.as_ref().and_then(|p| p.block.as_ref())
            && (kind != Some(Kind::Continuation) || header.stream != block.stream)
        {
            return Err(Violation::ContinuationMissing);
        }
        if !self.settings_seen && (kind != Some(Kind::Settings) || header.has(flag::ACK)) {
            return Err(Violation::Preface);
        }
        let Some(kind) = kind else {
            self.count(Flood::UnknownFrames, c.now_ms, c.limits)?;
            self.input = Input::Skip(header.len);
            return Ok(None);
        };
        check_frame(kind, header, self.role)?;
        match kind {
            Kind::Data => return self.begin_data(header, c),
            Kind::Headers => self.check_headers(header.stream)?,
            Kind::RstStream | Kind::WindowUpdate
                if header.stream != 0 && self.is_idle(header.stream) =>
            {
                return Err(Violation::StreamIdle);
            }
            Kind::Continuation if self.partial.as_ref().is_none_or(|p| p.block.is_none()) => {
                return Err(Violation::ContinuationUnexpected);
            }
            _ => {}
        }
        self.input = Input::Payload(header);
        Ok(None)
    }

    /// Whether a stream was neither opened nor passed over (RFC 9113, 5.1).
    fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2)
            || match self.role {
                Role::Server => stream > self.peer_last,
                Role::Client => stream >= self.own_next,
            }
    }

    /// How a stream went that has no place.
    fn gone(&self, stream: u32) -> Gone {
        match self.drain {
            // Those above the last of GOAWAY are ignored, however many there are (RFC 9113, 6.8).
            Drain::Final { last } if stream > last && self.role == Role::Server => Gone::ResetHere,
            _ => self.streams.gone(stream),
        }
    }

    /// Whether HEADERS may come on this stream at all (RFC 9113, 5.1 and 5.1.1).
    fn check_headers(&self, stream: u32) -> Result<(), Violation> {
        if self.role == Role::Client {
            return match () {
                () if stream.is_multiple_of(2) => Err(Violation::StreamNumber),
                () if self.is_idle(stream) => Err(Violation::StreamIdle),
                () => Ok(()),
            };
        }
        if stream.is_multiple_of(2) {
            return Err(Violation::StreamNumber);
        }
        if stream > self.peer_last || self.streams.find(stream).is_some() {
            return Ok(());
        }
        match self.gone(stream) {
            Gone::ResetHere => Ok(()),
            Gone::Closed => Err(Violation::StreamClosed),
            // Trailers of one that was refused with more others than are remembered.
            Gone::Forgotten if self.uninformed_frames > 0 => Ok(()),
            Gone::Forgotten => Err(Violation::StreamOrder),
        }
    }

    /// Takes what there is of a payload that is needed whole: bytes taken, and the outcome once it is.
    #[inline]
    fn take_payload(
        &mut self,
        header: Header,
        rest: &[u8],
        c: &mut Context,
    ) -> Result<(usize, Option<Option<Event<'static>>>), Violation> {
        let len = header.len as usize;
        let kept = self.partial.as_ref().map_or(0, |p| p.payload.len());
        if kept == 0 && rest.len() >= len {
            self.expect_header();
            return Ok((len, Some(self.frame(header, &rest[..len], c)?)));
        }
        let partial = self.partial.get_or_insert_default();
        let taken = rest.len().min(len - kept);
        // What the header says is bounded by the size of frames, but it is not made room for before it comes.
        partial.payload.extend_from_slice(&rest[..taken]);
        if kept + taken < len {
            return Ok((taken, None));
        }
        let payload = std::mem::take(&mut partial.payload);
        self.drop_partial();
        self.expect_header();
        Ok((taken, Some(self.frame(header, &payload, c)?)))
    }

    fn drop_partial(&mut self) {
        self.partial
            .take_if(|partial| partial.block.is_none() && partial.payload.is_empty());
    }

    /// A whole frame other than DATA.
    fn frame(&mut self, header: Header, payload: &[u8], c: &mut Context) -> Outcome {
        let stream = header.stream;
        match Kind::from_number(header.kind) {
            Some(Kind::Headers) => self.headers(header, payload, c),
            Some(Kind::Continuation) => self.continuation(header, payload, c),
            Some(Kind::WindowUpdate) => self.window_update(stream, number(payload), c),
            Some(Kind::RstStream) => self.rst_stream(stream, ErrorCode(number(payload)), c),
            Some(Kind::Settings) => self.settings(header, payload, c),
            Some(Kind::Ping) => self.pinged(header, payload, c),
            Some(Kind::Priority) => self.priority_frame(stream, number(payload) & STREAM_MAX, c),
            Some(Kind::PriorityUpdate) => self.priority_update(payload, c),
            Some(Kind::GoAway) => {
                if std::mem::replace(&mut self.peer_leaves, true) {
                    self.count(Flood::UnknownFrames, c.now_ms, c.limits)?;
                }
                Ok(Some(Event::GoAway {
                    last: number(payload) & STREAM_MAX,
                    code: ErrorCode(number(&payload[4..])),
                }))
            }
            Some(Kind::PushPromise) => Err(Violation::PushPromise),
            Some(Kind::Data) | None => Ok(None),
        }
    }
}

/// Streams, lengths and flags that a kind of frame must have, by its header alone (RFC 9113, 6).
fn check_frame(kind: Kind, header: Header, role: Role) -> Result<(), Violation> {
    let of_connection = matches!(
        kind,
        Kind::Settings | Kind::Ping | Kind::GoAway | Kind::PriorityUpdate
    );
    if kind != Kind::WindowUpdate && of_connection != (header.stream == 0) {
        return Err(Violation::FrameStream);
    }
    let len = header.len;
    let padded = u32::from(header.has(flag::PADDED));
    let fits = match kind {
        Kind::Data => len >= padded,
        Kind::Headers if header.has(flag::PRIORITY) => len >= PRIORITY_BYTES + padded,
        Kind::Headers => len >= padded,
        Kind::Priority => len == PRIORITY_BYTES,
        Kind::RstStream | Kind::WindowUpdate => len == 4,
        Kind::Settings if header.has(flag::ACK) => len == 0,
        Kind::Settings => len.is_multiple_of(6),
        Kind::Ping => len == 8,
        Kind::GoAway => len >= 8,
        Kind::PriorityUpdate => len >= 4,
        Kind::Continuation | Kind::PushPromise => true,
    };
    match (kind, role) {
        (Kind::PushPromise, _) => Err(Violation::PushPromise),
        (Kind::PriorityUpdate, Role::Client) => Err(Violation::PriorityUpdate),
        _ if !fits => Err(Violation::FrameLength),
        _ => Ok(()),
    }
}

/// The first four bytes, which the length of the frame was checked for.
fn number(payload: &[u8]) -> u32 {
    let bytes = payload.first_chunk::<4>();
    u32::from_be_bytes(*bytes.expect("the frame's length was checked"))
}

/// Frames of control.
impl Connection {
    fn rst_stream(&mut self, id: u32, code: ErrorCode, c: &mut Context) -> Outcome {
        self.count(Flood::Resets, c.now_ms, c.limits)?;
        let Some(place) = self.streams.find(id) else {
            self.streams.ended_from_both(id);
            return Ok(None);
        };
        let stream = self.streams.get_mut(place);
        let is_over = !stream.can_send() && !stream.can_receive();
        stream.standing = Standing::ResetByPeer;
        if is_over {
            return Ok(None);
        }
        self.streams.requeue(place);
        Ok(Some(Event::Reset {
            stream: StreamId(id),
            code,
            origin: Origin::Peer,
        }))
    }

    /// RFC 9113, 6.9.
    fn window_update(&mut self, id: u32, word: u32, c: &mut Context) -> Outcome {
        let increment = word & STREAM_MAX;
        if id == 0 {
            if increment == 0 {
                return Err(Violation::WindowIncrement);
            }
            match self.connection_credit.checked_sub(BYTES_PER_UPDATE) {
                Some(left) => self.connection_credit = left,
                None => self.count(Flood::ConnectionWindowUpdates, c.now_ms, c.limits)?,
            }
            let window = self.send_window.checked_add(increment as i32);
            self.send_window = window.ok_or(Violation::WindowTooLarge)?;
            return Ok(None);
        }
        let place = self.streams.find(id);
        // The first of a stream is a matter of course: Firefox sends one with each request.
        let first = place.is_some_and(|place| {
            let stream = self.streams.get_mut(place);
            !std::mem::replace(&mut stream.window_updated, true)
        });
        match self.stream_credit.checked_sub(BYTES_PER_UPDATE) {
            _ if first => {}
            Some(left) => self.stream_credit = left,
            None => self.count(Flood::StreamWindowUpdates, c.now_ms, c.limits)?,
        }
        let Some(place) = place else {
            return Ok(None);
        };
        let stream = self.streams.get_mut(place);
        if stream.standing != Standing::Open {
            return Ok(None);
        }
        if increment == 0 {
            return self.stream_error(place, Violation::WindowIncrement, c);
        }
        let Some(window) = stream.send_window.checked_add(increment as i32) else {
            return self.stream_error(place, Violation::WindowTooLarge, c);
        };
        stream.send_window = window;
        self.streams.requeue(place);
        Ok(None)
    }

    /// RFC 9113, 6.5.
    fn settings(&mut self, header: Header, payload: &[u8], c: &mut Context) -> Outcome {
        if header.has(flag::ACK) {
            return self.settings_acknowledged(c.limits);
        }
        self.count(Flood::Settings, c.now_ms, c.limits)?;
        let before = self.peer;
        self.peer.apply(payload, self.role)?;
        self.settings_seen = true;
        frame::write(c.out, Kind::Settings, flag::ACK, 0, &[]);
        if self.peer.header_table_bytes < before.header_table_bytes && !self.size_update_sent {
            self.size_update_due = true;
        }
        let more = i64::from(self.peer.window) - i64::from(before.window);
        if more != 0 {
            for nth in 0..self.streams.len() {
                let Some(place) = self.streams.nth(nth) else {
                    break;
                };
                let stream = self.streams.get_mut(place);
                let window = i32::try_from(i64::from(stream.send_window) + more);
                stream.send_window = window.map_err(|_| Violation::SettingWindow)?;
                self.streams.requeue(place);
            }
        }
        Ok(Some(Event::Settings))
    }

    fn settings_acknowledged(&mut self, limits: &Limits) -> Outcome {
        if self.settings_sent_ms.take().is_none() {
            return Err(Violation::SettingsAcknowledgement);
        }
        self.decoder.set_size_max(limits.header_table_bytes);
        let more = self.own_window(limits) - WINDOW_INITIAL;
        for nth in 0..self.streams.len() {
            if let Some(place) = self.streams.nth(nth) {
                // Below zero when the peer has sent more before it knew.
                if let Some(incoming) = self.streams.get_mut(place).incoming() {
                    incoming.window += more;
                }
            }
        }
        Ok(None)
    }

    /// RFC 9113, 6.7.
    fn pinged(&mut self, header: Header, payload: &[u8], c: &mut Context) -> Outcome {
        let Some(&payload) = payload.first_chunk::<8>() else {
            return Err(Violation::FrameLength);
        };
        if !header.has(flag::ACK) {
            self.count(Flood::Pings, c.now_ms, c.limits)?;
            frame::write_ping(c.out, flag::ACK, payload);
            return Ok(None);
        }
        if payload == DRAIN_PING && matches!(self.drain, Drain::Announced { .. }) {
            self.drain_now(c.out);
            return Ok(None);
        }
        // A PONG need not answer a PING of ours, so it counts toward the same bound.
        self.count(Flood::Pings, c.now_ms, c.limits)?;
        Ok(Some(Event::Pong(payload)))
    }

    /// Deprecated; only what RFC 7540, 5.3.1 forbids is looked at.
    fn priority_frame(&mut self, id: u32, dependency: u32, c: &mut Context) -> Outcome {
        self.count(Flood::Priorities, c.now_ms, c.limits)?;
        if dependency != id {
            return Ok(None);
        }
        match self.streams.find(id) {
            Some(place) if self.streams.get(place).standing == Standing::Open => {
                self.stream_error(place, Violation::PrioritySelf, c)
            }
            None if self.is_idle(id) => Err(Violation::PrioritySelf),
            _ => Ok(None),
        }
    }

    /// RFC 9218, 7.1.
    fn priority_update(&mut self, payload: &[u8], c: &mut Context) -> Outcome {
        self.count(Flood::Priorities, c.now_ms, c.limits)?;
        let id = number(payload) & STREAM_MAX;
        if id.is_multiple_of(2) {
            return Err(Violation::PriorityUpdate);
        }
        let priority = Priority::parse(&payload[4..]);
        if let Some(place) = self.streams.find(id) {
            self.streams.set_priority(place, priority);
        } else if id > self.peer_last {
            self.early[id as usize / 2 % EARLY_PRIORITIES] = (id, priority);
        }
        Ok(None)
    }

    fn early_priority(&self, id: u32) -> Option<Priority> {
        let (early, priority) = self.early[id as usize / 2 % EARLY_PRIORITIES];
        (early == id).then_some(priority)
    }
}
