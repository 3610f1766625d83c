//! Header blocks (RFC 9113, sections 6.2, 6.10 and 8): requests, responses and trailers.

use super::{Context, Outcome, PRIORITY_BYTES, number};
use crate::Refusal;
use crate::http2::Role;
use crate::http2::connection::{Block, Connection, Drain, Event, StreamId};
use crate::http2::error::{ErrorCode, Violation};
use crate::http2::flood::Flood;
use crate::http2::frame::{self, Header, PAYLOAD_BYTES_USUAL, STREAM_MAX, WINDOW_INITIAL, flag};
use crate::http2::hpack;
use crate::http2::limits::Limits;
use crate::http2::message::{Allowance, Builder, Part};
use crate::http2::streams::{Gone, Place, Reading, ResetState, STREAMS_MAX, Stream};
use crate::response::bodiless;

/// Identifier from which a stream counts as opened by a client that knows the limit of streams. Before a client receives
/// SETTINGS, it can send fewer heads than the thousand below this identifier.
const UNINFORMED_STREAMS_END: u32 = 2_000;

/// Number of frames after the head of such a stream that do not count as a flood if the stream is refused. They cover trailers,
/// and more DATA frames than fit into the window that these streams share.
const UNINFORMED_FRAMES: u16 = 4;

/// Reset streams whose handlers have not returned may exceed the limit of streams by this part of it: a quarter.
const RESET_PART: usize = 4;

/// Maximum number of interim responses before a final one, as for HTTP/1. They use no window.
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
        // Count only small frames. The number of full frames is bounded by the size of the block, which `check_block` limits.
        if (payload.len() as u32) < PAYLOAD_BYTES_USUAL {
            if block.continuations == c.limits.continuations_max {
                return Err(Violation::Flood(Flood::Continuations));
            }
            block.continuations += 1;
        }
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

    /// Handles a complete header block.
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
                // Trailers that were in flight when this side reset the stream may end it once. Nothing may follow them.
                Gone::ResetHere if end => self.streams.ended_from_both(stream),
                Gone::Forgotten if end && self.uninformed_frames > 0 => self.uninformed_frames -= 1,
                _ => self.count(Flood::ResetsCaused, c.now_ms, c.limits)?,
            }
            return Ok(None);
        };
        let found = self.streams.get_mut(place);
        match (found.reset_state, found.reading) {
            (ResetState::ResetHere, reading) => {
                if end {
                    found.end_reading();
                }
                self.follow(block, c)?;
                if !end || reading == Reading::Ended {
                    self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                }
                Ok(None)
            }
            (ResetState::ResetByPeer, _) => {
                self.streams.get_mut(place).reset_state = ResetState::ResetHere;
                self.follow(block, c)?;
                self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                frame::write_reset(c.out, stream, ErrorCode::STREAM_CLOSED);
                Ok(None)
            }
            (ResetState::Open, Reading::Ended) => {
                self.follow(block, c)?;
                self.stream_error(place, Violation::StreamClosed, c)
            }
            (ResetState::Open, Reading::Body) => self.trailers(place, end, block, c),
            (ResetState::Open, Reading::Head { bodiless, interims }) => {
                self.response(place, (bodiless, interims), end, block, c)
            }
        }
    }

    /// Decodes a block into the message, up to the limits. Always decodes the complete block, so that the table stays equal to the
    /// peer's.
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

    /// Decodes a block without using its fields, so that the table stays equal to the peer's (RFC 9113, section 4.3).
    fn follow(&mut self, block: &[u8], c: &mut Context) -> Result<(), Violation> {
        let nothing = Allowance {
            list_bytes: 0,
            fields: 0,
        };
        let mut builder = Builder::new(c.message, Part::Trailers, c.limits, nothing);
        Self::decode(&mut self.decoder, block, &mut builder)
    }

    /// Handles a request, which opens a stream.
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
            // The client sent this request before it received GOAWAY, and may send it again on another connection (RFC 9113,
            // section 6.8). Decode the block, so that the header table stays equal to the peer's.
            self.follow(block, c)?;
            return Ok(None);
        }
        if !self.has_room(c.limits) {
            self.follow(block, c)?;
            // A client may open streams without waiting for SETTINGS, and does not know the limit before they arrive (RFC 9113,
            // sections 3.4 and 5.1.2).
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
        let reading = if end { Reading::Ended } else { Reading::Body };
        let mut new = Stream::new(id, reading, self.peer.window, self.own_window(c.limits));
        if let Some(incoming) = new.incoming() {
            incoming.missing = length;
            incoming.list_bytes_left = left.list_bytes;
            incoming.fields_left = left.fields;
        }
        new.priority = self.early_priority(id).unwrap_or(c.message.priority);
        self.streams.add(new);
        self.meters.earn(0);
        Ok(Some(Event::Request { stream, end }))
    }

    /// Returns true if another stream may be opened. The client does not count streams that were reset (RFC 9113, section
    /// 5.1.2) and may open others in the same flight. Reset streams therefore use a separate reserve until their handlers
    /// return.
    fn has_room(&self, limits: &Limits) -> bool {
        let max = usize::from(limits.streams_max).min(STREAMS_MAX);
        let held = self.streams.len();
        let is_open = |place: &Place| self.streams.get(*place).reset_state == ResetState::Open;
        held < max
            || held < (max + max.div_ceil(RESET_PART)).min(STREAMS_MAX)
                && self.streams.places().filter(is_open).count() < max
    }

    /// Returns the initial receive window of a peer's stream. The announced window applies after the peer acknowledged SETTINGS.
    pub(in crate::http2) fn own_window(&self, limits: &Limits) -> i32 {
        match self.settings_sent_ms {
            Some(_) => WINDOW_INITIAL,
            None => i32::try_from(limits.stream_window_bytes).unwrap_or(i32::MAX),
        }
    }

    /// Answers a rejected request that opens no stream (RFC 9113, section 8.1.1).
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

    /// Handles the head of a response, on a client.
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
        self.meters.earn(0);
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
