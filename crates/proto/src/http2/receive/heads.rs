//! Header blocks (RFC 9113, 6.2, 6.10 and 8): requests, responses and trailers.

use super::{Context, Outcome, PRIORITY_BYTES, number};
use crate::Refusal;
use crate::http2::Role;
use crate::http2::connection::{Block, Connection, Drain, Event, StreamId};
use crate::http2::error::{ErrorCode, Violation};
use crate::http2::flood::Flood;
use crate::http2::frame::{self, Header, STREAM_MAX, WINDOW_INITIAL, flag};
use crate::http2::hpack;
use crate::http2::limits::Limits;
use crate::http2::message::{Allowance, Builder, Part};
use crate::http2::streams::{Gone, Place, Reading, STREAMS_MAX, Standing, Stream};
use crate::response::bodiless;

/// The numbers of the streams that a client opens before it can have seen the limit are below this one: a thousand heads, which
/// is more than a client's first flight has room for.
const UNINFORMED_STREAMS_END: u32 = 2_000;

/// Frames that each of them may have sent with its head: more DATA than the window that all of them share has room for, and
/// trailers.
const UNINFORMED_FRAMES: u16 = 4;

/// Beside the limit there may be this part of it in streams that were reset and whose handlers have not returned.
const RESET_PART: usize = 4;

/// Interim responses before a final one, as over HTTP/1: they cost no window.
const INTERIM_COUNT_MAX: u8 = 16;

impl Connection {
    pub(super) fn headers(&mut self, header: Header, payload: &[u8], c: &mut Context) -> Outcome {
        let mut fragment = payload;
        let mut padding = 0;
        if header.has(flag::PADDED) {
            padding = usize::from(fragment[0]);
            fragment = &fragment[1..];
        }
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            depends_on_itself = number(fragment) & STREAM_MAX == header.stream;
            fragment = &fragment[PRIORITY_BYTES as usize..];
        }
        let Some(len) = fragment.len().checked_sub(padding) else {
            return Err(Violation::Padding);
        };
        let fragment = &fragment[..len];
        let end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.block(header.stream, end_stream, depends_on_itself, fragment, c);
        }
        let block = Block {
            stream: header.stream,
            end_stream,
            depends_on_itself,
            continuations: 0,
            bytes: fragment.to_vec(),
        };
        check_block(&block, c.limits)?;
        self.partial.get_or_insert_default().block = Some(block);
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        header: Header,
        payload: &[u8],
        c: &mut Context,
    ) -> Outcome {
        let partial = self.partial.as_mut();
        let Some(block) = partial.and_then(|partial| partial.block.as_mut()) else {
            return Err(Violation::ContinuationUnexpected);
        };
        if block.continuations == c.limits.continuations_max {
            return Err(Violation::Flood(Flood::Continuations));
        }
        block.continuations += 1;
        block.bytes.extend_from_slice(payload);
        check_block(block, c.limits)?;
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let block = self.partial.as_mut().and_then(|p| p.block.take());
        self.drop_partial();
        let Some(block) = block else {
            return Err(Violation::ContinuationUnexpected);
        };
        let Block {
            stream,
            end_stream,
            depends_on_itself,
            bytes,
            ..
        } = block;
        self.block(stream, end_stream, depends_on_itself, &bytes, c)
    }

    /// A whole header block.
    fn block(
        &mut self,
        stream: u32,
        end: bool,
        depends_on_itself: bool,
        block: &[u8],
        c: &mut Context,
    ) -> Outcome {
        let Some(place) = self.streams.find(stream) else {
            if self.role == Role::Server && stream > self.peer_last {
                return self.request(stream, end, depends_on_itself, block, c);
            }
            self.follow(block, c)?;
            match self.gone(stream) {
                // What was on its way may end so once, and nothing goes on behind it.
                Gone::ResetHere if end => self.streams.ended_from_both(stream),
                Gone::Forgotten if end && self.uninformed_frames > 0 => self.uninformed_frames -= 1,
                _ => self.count(Flood::ResetsCaused, c.now_ms, c.limits)?,
            }
            return Ok(None);
        };
        let found = self.streams.get_mut(place);
        match (found.standing, found.reading) {
            (Standing::ResetHere, reading) => {
                if end {
                    found.end_reading();
                }
                self.follow(block, c)?;
                if !end || reading == Reading::Ended {
                    self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                }
                Ok(None)
            }
            (Standing::ResetByPeer, _) => {
                self.streams.get_mut(place).standing = Standing::ResetHere;
                self.follow(block, c)?;
                self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                frame::write_reset(c.out, stream, ErrorCode::STREAM_CLOSED);
                Ok(None)
            }
            (Standing::Open, Reading::Ended) => {
                self.follow(block, c)?;
                self.stream_error(place, Violation::StreamClosed, c)
            }
            (Standing::Open, Reading::Body) => self.trailers(place, end, block, c),
            (Standing::Open, Reading::Head { bodiless, interims }) => {
                self.response(place, (bodiless, interims), end, block, c)
            }
        }
    }

    /// Decodes a block into the message, as far as it is within the limits; all of it for the table's sake.
    #[inline]
    fn decode(
        decoder: &mut hpack::Decoder,
        block: &[u8],
        builder: &mut Builder,
    ) -> Result<(), Violation> {
        let mut at = decoder.begin(block).map_err(Violation::Compression)?;
        loop {
            let (text, store) = builder.text();
            let field = decoder.next(block, &mut at, text, store);
            match field.map_err(Violation::Compression)? {
                Some(field) => builder.take(field),
                None => return Ok(()),
            }
        }
    }

    /// Decodes a block that nobody wants (RFC 9113, 4.3).
    fn follow(&mut self, block: &[u8], c: &mut Context) -> Result<(), Violation> {
        let nothing = Allowance {
            list_bytes: 0,
            fields: 0,
        };
        let mut builder = Builder::new(c.message, Part::Trailers, c.limits, nothing);
        Self::decode(&mut self.decoder, block, &mut builder)
    }

    /// A stream begins.
    fn request(
        &mut self,
        id: u32,
        end: bool,
        depends_on_itself: bool,
        block: &[u8],
        c: &mut Context,
    ) -> Outcome {
        let stream = StreamId(id);
        self.peer_last = id;
        if matches!(self.drain, Drain::Final { last } if id > last) {
            // Ignored without an answer (RFC 9113, 6.8).
            self.follow(block, c)?;
            return Ok(None);
        }
        if !self.has_room(c.limits) {
            self.follow(block, c)?;
            // A client need not wait for SETTINGS, and until it has seen them it knows no limit (RFC 9113, 3.4 and 5.1.2).
            let is_uninformed = self.settings_sent_ms.is_some() && id < UNINFORMED_STREAMS_END;
            if is_uninformed {
                self.uninformed_frames += UNINFORMED_FRAMES;
            } else {
                self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
            }
            frame::write_reset(c.out, id, ErrorCode::REFUSED_STREAM);
            self.streams.remember(id, true);
            let refusal = Refusal::StreamsTooMany;
            return Ok(Some(Event::Refused { stream, refusal }));
        }
        let allowance = Allowance::new(c.limits);
        let mut builder = Builder::new(c.message, Part::Request, c.limits, allowance);
        Self::decode(&mut self.decoder, block, &mut builder)?;
        let left = builder.allowance();
        let length = match builder.finish(end) {
            Ok(Some(1..)) if end => Err(Refusal::ContentLengthMismatch),
            _ if depends_on_itself => Err(Refusal::PriorityInvalid),
            other => other,
        };
        let length = match length {
            Ok(length) => length,
            Err(refusal) => {
                self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                self.answer_refusal(id, end, refusal, c.out);
                return Ok(Some(Event::Refused { stream, refusal }));
            }
        };
        let reading = match end {
            true => Reading::Ended,
            false => Reading::Body,
        };
        let mut new = Stream::new(id, reading, self.peer.window, self.own_window(c.limits));
        if let Some(incoming) = new.incoming() {
            incoming.missing = length;
            incoming.list_bytes_left = left.list_bytes;
            incoming.fields_left = left.fields;
        }
        new.priority = self.early_priority(id).unwrap_or(c.message.priority);
        self.streams.add(new);
        Ok(Some(Event::Request { stream, end }))
    }

    /// Whether one more stream may begin. The client does not count those that were reset (RFC 9113, 5.1.2), and may open others
    /// in the same flight; they have room of their own until their handlers have returned.
    fn has_room(&self, limits: &Limits) -> bool {
        let max = usize::from(limits.streams_max).min(STREAMS_MAX);
        let held = self.streams.len();
        let is_open = |place: &Place| self.streams.get(*place).standing == Standing::Open;
        held < max
            || held < (max + max.div_ceil(RESET_PART)).min(STREAMS_MAX)
                && self.streams.places().filter(is_open).count() < max
    }

    /// The window with which a stream of the peer's begins: what it was told, once it has said that it knows.
    pub(in crate::http2) fn own_window(&self, limits: &Limits) -> i32 {
        match self.settings_sent_ms {
            Some(_) => WINDOW_INITIAL,
            None => i32::try_from(limits.stream_window_bytes).unwrap_or(i32::MAX),
        }
    }

    /// Answers a request that no stream comes of (RFC 9113, 8.1.1).
    fn answer_refusal(&mut self, id: u32, end: bool, refusal: Refusal, out: &mut Vec<u8>) {
        let start = self.begin_head(out);
        hpack::encode_status(out, refusal.status());
        self.end_head(out, start, id, true);
        let code = match refusal {
            Refusal::HeadTooLarge
            | Refusal::HeadersTooMany
            | Refusal::TargetTooLong
            | Refusal::MethodTooLong
            | Refusal::Connect
            | Refusal::Expectation => ErrorCode::NO_ERROR,
            _ => ErrorCode::PROTOCOL_ERROR,
        };
        let over = end && code == ErrorCode::NO_ERROR;
        if !over {
            frame::write_reset(out, id, code);
        }
        self.streams.remember(id, !over);
    }

    /// A response's head (a client's stream).
    fn response(
        &mut self,
        place: Place,
        (head_only, interims): (bool, u8),
        end: bool,
        block: &[u8],
        c: &mut Context,
    ) -> Outcome {
        let allowance = Allowance::new(c.limits);
        let mut builder = Builder::new(c.message, Part::Response, c.limits, allowance);
        Self::decode(&mut self.decoder, block, &mut builder)?;
        let left = builder.allowance();
        let Ok(length) = builder.finish(end) else {
            return self.stream_error(place, Violation::Malformed, c);
        };
        let status = c.message.status;
        let found = self.streams.get_mut(place);
        let stream = StreamId(found.id);
        if status < 200 {
            if end {
                return self.stream_error(place, Violation::MessageOrder, c);
            }
            if interims == INTERIM_COUNT_MAX {
                return self.stream_error(place, Violation::InterimTooMany, c);
            }
            found.reading = Reading::Head {
                bodiless: head_only,
                interims: interims + 1,
            };
            return Ok(Some(Event::Response { stream, end }));
        }
        let length = length.filter(|_| !head_only && !bodiless(status));
        if end && length.is_some_and(|length| length > 0) {
            return self.stream_error(place, Violation::ContentLength, c);
        }
        if end {
            found.end_reading();
            return Ok(Some(Event::Response { stream, end }));
        }
        found.reading = Reading::Body;
        if let Some(incoming) = found.incoming() {
            let has_content = !head_only && !bodiless(status);
            incoming.missing = if has_content { length } else { Some(0) };
            incoming.list_bytes_left = left.list_bytes;
            incoming.fields_left = left.fields;
        }
        Ok(Some(Event::Response { stream, end }))
    }

    fn trailers(&mut self, place: Place, end: bool, block: &[u8], c: &mut Context) -> Outcome {
        let found = self.streams.get_mut(place);
        let stream = StreamId(found.id);
        let incoming = *found.incoming().expect("the body has not ended");
        let allowance = Allowance {
            list_bytes: incoming.list_bytes_left,
            fields: incoming.fields_left,
        };
        let mut builder = Builder::new(c.message, Part::Trailers, c.limits, allowance);
        Self::decode(&mut self.decoder, block, &mut builder)?;
        let violation = match builder.finish(end) {
            _ if !end => Violation::TrailersUnfinished,
            Err(Refusal::HeadTooLarge | Refusal::HeadersTooMany) => Violation::TrailersTooLarge,
            Err(_) => Violation::Malformed,
            Ok(_) if incoming.missing.is_some_and(|missing| missing > 0) => {
                Violation::ContentLength
            }
            Ok(_) => {
                self.streams.get_mut(place).end_reading();
                return Ok(Some(Event::Trailers { stream }));
            }
        };
        self.stream_error(place, violation, c)
    }
}

fn check_block(block: &Block, limits: &Limits) -> Result<(), Violation> {
    if block.bytes.len() > limits.block_bytes_max() {
        return Err(Violation::BlockTooLarge);
    }
    Ok(())
}
