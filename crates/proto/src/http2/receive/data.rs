//! DATA frames (RFC 9113, section 6.1): passed to the caller as they arrive, and counted against the windows.

use super::{Context, Outcome};
use crate::http2::connection::{Connection, Data, Event, Input, StreamId, connection_window};
use crate::http2::error::{ErrorCode, Violation};
use crate::http2::flood::Flood;
use crate::http2::frame::{self, Header, flag};
use crate::http2::limits::Limits;
use crate::http2::streams::{Gone, Place, Reading, ResetState};

impl Connection {
    pub(super) fn begin_data(&mut self, header: Header, c: &mut Context) -> Outcome {
        let id = header.stream;
        if self.is_idle(id) {
            return Err(Violation::StreamIdle);
        }
        let len = header.len as i32;
        if len > self.receive_window {
            return Err(Violation::WindowExceeded);
        }
        self.receive_window -= len;
        let Some(place) = self.streams.find(id) else {
            let gone = self.gone(id);
            self.skip_data(header.len, c);
            // The client opened this stream before it knew the limit of streams. This side may have refused more of them than
            // it stores identifiers. The client may read SETTINGS before the refusals, so this frame can also arrive after its
            // acknowledgement of SETTINGS.
            if gone == Gone::Forgotten && self.uninformed_frames > 0 {
                self.uninformed_frames -= 1;
                if !header.has(flag::END_STREAM) {
                    // More frames of the stream follow, so store its identifier again.
                    self.streams.remember(id, true);
                }
                return Ok(None);
            }
            if gone != Gone::ResetHere {
                self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                frame::write_reset(c.out, id, ErrorCode::STREAM_CLOSED);
                self.streams.remember(id, true);
                return Ok(None);
            }
            if header.has(flag::END_STREAM) {
                self.streams.ended_from_both(id);
            } else if header.len == 0 {
                self.charge(Flood::EmptyData, c.now_ms, c.limits)?;
            }
            return Ok(None);
        };
        let stream = self.streams.get_mut(place);
        let window = stream.incoming().map_or(0, |incoming| incoming.window);
        let violation = match (stream.reset_state, stream.reading) {
            (ResetState::ResetHere, reading) => {
                if header.has(flag::END_STREAM) {
                    stream.end_reading();
                }
                self.skip_data(header.len, c);
                if reading == Reading::Ended {
                    self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                } else if header.len == 0 && !header.has(flag::END_STREAM) {
                    self.charge(Flood::EmptyData, c.now_ms, c.limits)?;
                }
                return Ok(None);
            }
            (ResetState::ResetByPeer, _) => {
                stream.reset_state = ResetState::ResetHere;
                self.skip_data(header.len, c);
                self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
                frame::write_reset(c.out, id, ErrorCode::STREAM_CLOSED);
                return Ok(None);
            }
            (ResetState::Open, Reading::Ended) => Violation::StreamClosed,
            (ResetState::Open, Reading::Head { .. }) => Violation::MessageOrder,
            (ResetState::Open, Reading::Body) if len > window => Violation::WindowExceeded,
            (ResetState::Open, Reading::Body) => {
                if let Some(incoming) = stream.incoming() {
                    incoming.window -= len;
                }
                let data = Data {
                    stream: id,
                    missing: header.len,
                    padding: (!header.has(flag::PADDED)).then_some(0),
                    end: header.has(flag::END_STREAM),
                };
                self.input = Input::Data(data);
                if data.padding.is_some() {
                    return self.check_content(place, data, c);
                }
                return Ok(None);
            }
        };
        self.skip_data(header.len, c);
        self.stream_error(place, violation, c)
    }

    /// Skips the rest of the frame, and returns its bytes to the connection's window.
    fn skip_data(&mut self, missing: u32, c: &mut Context) {
        self.credit_connection(missing, c.limits, c.out);
        self.input = Input::Skip(missing);
    }

    /// Compares the length of the frame's content, when it is known, with `content-length`.
    fn check_content(&mut self, place: Place, data: Data, c: &mut Context) -> Outcome {
        let content = data.missing - u32::from(data.padding.unwrap_or(0));
        if content > 0 {
            self.meters.earn(0);
        } else if !data.end {
            self.charge(Flood::EmptyData, c.now_ms, c.limits)?;
        }
        let stream = self.streams.get_mut(place);
        if let Some(missing) = stream
            .incoming()
            .and_then(|incoming| incoming.missing.as_mut())
        {
            let left = missing.checked_sub(u64::from(content));
            if left.is_none_or(|left| data.end && left > 0) {
                self.skip_data(data.missing, c);
                return self.stream_error(place, Violation::ContentLength, c);
            }
            *missing -= u64::from(content);
        }
        Ok(None)
    }

    /// Passes the available part of a DATA frame to the caller.
    pub(super) fn take_data<'a>(
        &mut self,
        mut data: Data,
        rest: &'a [u8],
        c: &mut Context,
    ) -> Result<(usize, Option<Event<'a>>), Violation> {
        let place = self.streams.find(data.stream);
        let Some(place) = place.filter(|&place| self.streams.get(place).can_receive()) else {
            // The caller reset or released the stream after the frame started.
            self.skip_data(data.missing, c);
            return Ok((0, None));
        };
        let stream = StreamId(data.stream);
        let Some(padding) = data.padding else {
            // The byte exists: `missing` was not 0, and the caller checked that `rest` is not empty.
            let padding = rest[0];
            if u32::from(padding) >= data.missing {
                return Err(Violation::Padding);
            }
            data.missing -= 1;
            data.padding = Some(padding);
            self.input = Input::Data(data);
            let event = self.check_content(place, data, c)?;
            if event.is_none() {
                let of_no_use = u32::from(padding) + 1;
                self.credit_connection(of_no_use, c.limits, c.out);
                self.credit_stream(place, of_no_use, c.limits, c.out);
            } else {
                self.credit_connection(1, c.limits, c.out);
            }
            return Ok((1, event));
        };
        let content = data.missing - u32::from(padding);
        if content > 0 {
            let taken = rest.len().min(content as usize);
            data.missing -= taken as u32;
            let end = data.end && data.missing == 0;
            if let Some(incoming) = self.streams.get_mut(place).incoming() {
                incoming.unconsumed += taken as u32;
            }
            self.input = Input::Data(data);
            if data.missing == 0 {
                self.end_data(place, data.end);
            }
            let data = &rest[..taken];
            return Ok((taken, Some(Event::Data { stream, data, end })));
        }
        let taken = rest.len().min(data.missing as usize);
        data.missing -= taken as u32;
        data.padding = Some(data.missing as u8);
        self.input = Input::Data(data);
        if data.missing > 0 {
            return Ok((taken, None));
        }
        self.end_data(place, data.end);
        let event = data.end.then_some(Event::Data {
            stream,
            data: &[],
            end: true,
        });
        Ok((taken, event))
    }

    fn end_data(&mut self, place: Place, end: bool) {
        self.expect_header();
        if end {
            self.streams.get_mut(place).end_reading();
        }
    }

    /// Returns bytes to the connection's window. Sends a WINDOW_UPDATE for half a window at a time.
    pub(in crate::http2) fn credit_connection(
        &mut self,
        bytes: u32,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) {
        self.unreported += bytes;
        let window = connection_window(limits);
        if self.unreported >= (window / 2) as u32 && !self.has_failed() {
            frame::write_window_update(out, 0, self.unreported);
            self.receive_window += self.unreported as i32;
            self.unreported = 0;
        }
    }

    /// Returns bytes to a stream's window, if the peer may still send on it. Sends a WINDOW_UPDATE for half a window at a
    /// time.
    pub(in crate::http2) fn credit_stream(
        &mut self,
        place: Place,
        bytes: u32,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) {
        let stream = self.streams.get_mut(place);
        if !stream.can_receive() {
            return;
        }
        let id = stream.id;
        let Some(incoming) = stream.incoming() else {
            return;
        };
        incoming.unreported += bytes;
        if incoming.unreported >= (limits.stream_window_bytes / 2).max(1) {
            frame::write_window_update(out, id, incoming.unreported);
            incoming.window += incoming.unreported as i32;
            incoming.unreported = 0;
        }
    }

    /// Resets a stream because of the peer's violation, and counts it (CVE-2025-8671).
    pub(super) fn stream_error(
        &mut self,
        place: Place,
        violation: Violation,
        c: &mut Context,
    ) -> Outcome {
        self.count(Flood::ResetsCaused, c.now_ms, c.limits)?;
        Ok(Some(self.reset_here(place, violation, c.out)))
    }
}
