//! Parses received bytes into events (RFC 9113, sections 4 to 6).
//!
//! Checks that need only the frame header are made at the header. DATA is passed on as it arrives. Other payloads are parsed when
//! they are complete, in place if the input contains all of them. Every split of the input therefore gives the same events.

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
use super::streams::{Gone, Place, ResetState, Writing};

/// Length of the deprecated priority field (RFC 7540, section 6.3).
const PRIORITY_BYTES: u32 = 5;

/// Arguments of one `handle` call.
struct Context<'c> {
    now_ms: u64,
    limits: &'c Limits,
    message: &'c mut Message,
    out: &'c mut Vec<u8>,
}

/// An event, no event, or a connection error.
type Outcome = Result<Option<Event<'static>>, Violation>;

impl Connection {
    /// Processes the next bytes, split at any position. Call again with the bytes that were not consumed.
    ///
    /// Appends frames that the protocol requires in response to `out`. `message` contains the head after
    /// [`Event::Request`], [`Event::Response`] and [`Event::Trailers`].
    ///
    /// # Errors
    /// The peer's violation. `out` contains GOAWAY: send it and close. Every further call returns the same error.
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
                    // A frame without missing bytes ends now, even if there is no further input.
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

    /// Handles a frame header: validates it and decides how to process the payload.
    fn begin_frame(&mut self, header: Header, c: &mut Context) -> Outcome {
        // This side announces no greater SETTINGS_MAX_FRAME_SIZE.
        if header.len > PAYLOAD_BYTES_USUAL {
            return Err(Violation::FrameTooLong);
        }
        let kind = Kind::from_number(header.kind);
        if let Some(block) = self.partial.as_ref().and_then(|p| p.block.as_ref())
            && (kind != Some(Kind::Continuation) || header.stream != block.stream)
        {
            return Err(Violation::ContinuationMissing);
        }
        // The peer's first frame must be SETTINGS (RFC 9113, section 3.4).
        if !self.settings_seen && (kind != Some(Kind::Settings) || header.has(flag::ACK)) {
            return Err(Violation::Preface);
        }
        let Some(kind) = kind else {
            self.charge(Flood::UnknownFrames, c.now_ms, c.limits)?;
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

    /// Returns true if the stream was neither opened nor skipped (RFC 9113, section 5.1).
    fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2)
            || match self.role {
                Role::Server => stream > self.peer_last,
                Role::Client => stream >= self.own_next,
            }
    }

    /// Returns how a stream without an entry was closed.
    fn gone(&self, stream: u32) -> Gone {
        match self.drain {
            // The peer may have opened these streams before it received GOAWAY. Their frames are ignored (RFC 9113, section
            // 6.8).
            Drain::Final { last } if stream > last && self.role == Role::Server => Gone::ResetHere,
            _ => self.streams.gone(stream),
        }
    }

    /// Checks that HEADERS may arrive on this stream (RFC 9113, sections 5.1 and 5.1.1).
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
            // This may be the trailers of a stream that was refused, and whose identifier is no longer stored.
            Gone::Forgotten if self.uninformed_frames > 0 => Ok(()),
            Gone::Forgotten => Err(Violation::StreamOrder),
        }
    }

    /// Collects a payload that is parsed as one piece. Returns the bytes consumed, and the outcome once the payload is
    /// complete.
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
        // The frame size bounds the length, but space is reserved only for bytes that arrived.
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

    /// Handles a complete frame other than DATA.
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

/// Checks stream, length and flags of a frame by its header (RFC 9113, section 6).
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

/// Returns the first four bytes as a number; the frame's length was checked before.
fn number(payload: &[u8]) -> u32 {
    let bytes = payload.first_chunk::<4>();
    u32::from_be_bytes(*bytes.expect("the frame's length was checked"))
}

/// Control frames.
impl Connection {
    fn rst_stream(&mut self, id: u32, code: ErrorCode, c: &mut Context) -> Outcome {
        let found = self.streams.find(id);
        self.count_reset(id, found, c)?;
        let Some(place) = found else {
            self.streams.ended_from_both(id);
            return Ok(None);
        };
        let stream = self.streams.get_mut(place);
        let is_over = !stream.can_send() && !stream.can_receive();
        stream.reset_state = ResetState::ResetByPeer;
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

    /// Counts a RST_STREAM, unless it belongs to an exchange that this side completed.
    fn count_reset(
        &mut self,
        id: u32,
        found: Option<Place>,
        c: &mut Context,
    ) -> Result<(), Violation> {
        let stream = found.map(|place| self.streams.get(place));
        if stream.is_some_and(|stream| stream.reset_state == ResetState::Open)
            && self.role == Role::Client
        {
            // A server can reset only streams that this side has opened, so their number bounds its resets.
            return Ok(());
        }
        // The client resets the stream before it has a response. Credit from responses does not cover that.
        if stream.is_some_and(|stream| stream.writing == Writing::Head) {
            return self.count(Flood::Resets, c.now_ms, c.limits);
        }
        let rate = c.limits.rate(Flood::Resets);
        let charged = self.meters.charge_reset(id, rate, c.now_ms);
        charged.map_err(Violation::Flood)
    }

    /// Handles WINDOW_UPDATE (RFC 9113, section 6.9).
    fn window_update(&mut self, id: u32, word: u32, c: &mut Context) -> Outcome {
        let increment = word & STREAM_MAX;
        if id == 0 {
            if increment == 0 {
                return Err(Violation::WindowIncrement);
            }
            self.charge(Flood::ConnectionWindowUpdates, c.now_ms, c.limits)?;
            let window = self.send_window.checked_add(increment as i32);
            self.send_window = window.ok_or(Violation::WindowTooLarge)?;
            return Ok(None);
        }
        let place = self.streams.find(id);
        // Do not count the first WINDOW_UPDATE of a stream, because Firefox sends one with each request.
        let first = place.is_some_and(|place| {
            let stream = self.streams.get_mut(place);
            !std::mem::replace(&mut stream.window_updated, true)
        });
        if !first {
            self.charge(Flood::StreamWindowUpdates, c.now_ms, c.limits)?;
        }
        let Some(place) = place else {
            return Ok(None);
        };
        let stream = self.streams.get_mut(place);
        if stream.reset_state != ResetState::Open {
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

    /// Handles SETTINGS (RFC 9113, section 6.5).
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
                // The window is negative if the peer sent more before it received the settings.
                if let Some(incoming) = self.streams.get_mut(place).incoming() {
                    incoming.window += more;
                }
            }
        }
        Ok(None)
    }

    /// Handles PING and its acknowledgement (RFC 9113, section 6.7).
    fn pinged(&mut self, header: Header, payload: &[u8], c: &mut Context) -> Outcome {
        let Some(&payload) = payload.first_chunk::<8>() else {
            return Err(Violation::FrameLength);
        };
        if !header.has(flag::ACK) {
            self.charge(Flood::Pings, c.now_ms, c.limits)?;
            frame::write_ping(c.out, flag::ACK, payload);
            return Ok(None);
        }
        if payload == DRAIN_PING && matches!(self.drain, Drain::Announced { .. }) {
            self.drain_now(c.out);
            return Ok(None);
        }
        // The acknowledgement may not belong to a PING of this side, so it counts toward the same limit.
        self.count(Flood::Pings, c.now_ms, c.limits)?;
        Ok(Some(Event::Pong(payload)))
    }

    /// Handles the deprecated PRIORITY; only the error of RFC 7540, section 5.3.1 is checked.
    fn priority_frame(&mut self, id: u32, dependency: u32, c: &mut Context) -> Outcome {
        self.charge(Flood::Priorities, c.now_ms, c.limits)?;
        if dependency != id {
            return Ok(None);
        }
        match self.streams.find(id) {
            Some(place) if self.streams.get(place).reset_state == ResetState::Open => {
                self.stream_error(place, Violation::PrioritySelf, c)
            }
            None if self.is_idle(id) => Err(Violation::PrioritySelf),
            _ => Ok(None),
        }
    }

    /// Handles PRIORITY_UPDATE (RFC 9218, section 7.1).
    fn priority_update(&mut self, payload: &[u8], c: &mut Context) -> Outcome {
        self.charge(Flood::Priorities, c.now_ms, c.limits)?;
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
