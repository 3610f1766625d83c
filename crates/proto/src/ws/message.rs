//! Assembles received bytes into complete messages and control frames (RFC 6455, sections 5.4 and 5.5).
//!
//! A message that is complete in the input is unmasked in place and borrowed, without a copy. Only messages split
//! across reads are buffered, so a reader between messages holds one pointer. Text is validated as it arrives: the
//! first byte that cannot be UTF-8 closes the connection.

use std::borrow::Cow;

use super::close;
use super::frame::{self, CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, Opcode, Parse, Reserved};
use super::utf8::{self, Validator};
use super::{Role, Violation, mask};

/// Minimum space for a message that arrives in pieces. The space grows only with the received bytes, at most doubling.
const ROOM_BYTES_MIN: usize = 4096;

/// Requirements for received messages. All calls of one [`Reader`] must use the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Requirements for each header, including the maximum frame length.
    pub frame: frame::Rules,
    /// Maximum bytes of one message over all frames; [`Violation::MessageTooLarge`] above it.
    ///
    /// For a compressed message this limits the received bytes; decompression applies the same limit to its output.
    pub message_bytes_max: usize,
}

impl Rules {
    /// Returns the rules for messages that `role` receives. `compression` is true if permessage-deflate was negotiated.
    #[must_use]
    pub fn new(
        role: Role,
        frame_bytes_max: u64,
        message_bytes_max: usize,
        compression: bool,
    ) -> Self {
        let mut frame = frame::Rules::for_role(role, frame_bytes_max);
        if compression {
            frame.reserved = Reserved::RSV1;
        }
        Self {
            frame,
            message_bytes_max,
        }
    }
}

/// Message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// Any bytes.
    Binary,
}

/// A message or control frame of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A complete message. Text is valid UTF-8 unless it is compressed.
    Message {
        /// Message type.
        kind: Kind,
        /// True if the caller must decompress the payload and then validate a text (RFC 7692, section 6.2).
        compressed: bool,
        /// Borrowed from the input if it was complete there.
        payload: Cow<'a, [u8]>,
    },
    /// Ping: answer with a pong of the same payload, at most [`CONTROL_BYTES_MAX`] bytes.
    Ping(Cow<'a, [u8]>),
    /// Pong: the answer to a ping, or unsolicited.
    Pong(Cow<'a, [u8]>),
    /// Close frame; see [`super::close::Closing::handle_close`]. No frame follows.
    Close {
        /// Close code; `None` if the frame is empty.
        code: Option<u16>,
        /// Reason; may be empty.
        reason: Cow<'a, str>,
    },
}

/// Result of one call of [`Reader::handle`].
#[derive(Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes of the input that were processed; all of them if there is no event.
    pub consumed: usize,
    /// The event; call again with the rest of the input.
    pub event: Option<Event<'a>>,
}

/// Reads one peer's frames. Holds only a pointer and a flag between messages.
#[derive(Debug, Default)]
pub struct Reader {
    partial: Option<Box<Partial>>,
    /// True after a Close frame: further input is ignored (RFC 6455, section 5.5.1).
    closed: bool,
}

/// The received part of an incomplete frame or message.
#[derive(Debug, Default)]
struct Partial {
    /// First bytes of a header. Invariant: `header_len` is zero while `frame` is `Some`.
    header: [u8; HEADER_BYTES_MAX],
    header_len: usize,
    frame: Option<Frame>,
    /// Payload of a control frame, which may arrive within a message.
    control: Vec<u8>,
    message: Option<Message>,
}

/// A frame whose payload is incomplete.
#[derive(Clone, Copy, Debug)]
struct Frame {
    header: Header,
    /// Received payload bytes; at most `header.payload_len`.
    received: u64,
}

/// A message whose last frame is incomplete.
#[derive(Debug)]
struct Message {
    kind: Kind,
    compressed: bool,
    payload: Vec<u8>,
    text: Validator,
}

impl Reader {
    /// Creates a reader at the first byte after the handshake.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes the next bytes, split at any position. Call again with the bytes that were not consumed. Unmasks
    /// payloads in place.
    ///
    /// # Errors
    /// The peer's violation, as soon as it is certain. The reader must not be used again.
    pub fn handle<'a>(
        &mut self,
        input: &'a mut [u8],
        rules: &Rules,
    ) -> Result<Step<'a>, Violation> {
        if self.closed {
            return Ok(Step {
                consumed: input.len(),
                event: None,
            });
        }
        if self.partial.is_none()
            && let Some((header, header_bytes, end)) = whole_frame(input, rules)?
            && (header.fin || header.opcode.is_control())
        {
            check_order(&header, None, rules)?;
            let payload = &mut input[header_bytes..end];
            if let Some(key) = header.mask {
                mask::apply(payload, key, 0);
            }
            let event = event(&header, Cow::Borrowed(payload))?;
            self.closed = header.opcode == Opcode::Close;
            return Ok(Step {
                consumed: end,
                event: Some(event),
            });
        }
        self.resume(input, rules)
    }

    /// Returns true if nothing is buffered, because the last byte ended a message, or ended a control frame outside of a message.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.partial.is_none()
    }

    /// Returns the number of buffered bytes of an incomplete message.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let message = self
            .partial
            .as_ref()
            .and_then(|partial| partial.message.as_ref());
        message.map_or(0, |message| message.payload.len())
    }

    /// Continues an incomplete frame or message up to the next event or the end of the input.
    fn resume<'a>(&mut self, input: &[u8], rules: &Rules) -> Result<Step<'a>, Violation> {
        let partial = self.partial.get_or_insert_default();
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let frame = match partial.frame {
                Some(frame) => frame,
                None => {
                    let (taken, header) = partial.take_header(rest, rules)?;
                    consumed += taken;
                    let Some(header) = header else {
                        break;
                    };
                    check_order(&header, partial.message.as_ref(), rules)?;
                    partial.begin(header)
                }
            };
            let taken = partial.take_payload(frame, &input[consumed..], rules)?;
            consumed += taken;
            if partial.frame.is_some() {
                break;
            }
            if let Some(event) = partial.finish(&frame.header)? {
                self.closed = frame.header.opcode == Opcode::Close;
                if partial.is_empty() {
                    self.partial = None;
                }
                return Ok(Step {
                    consumed,
                    event: Some(event),
                });
            }
        }
        if partial.is_empty() {
            self.partial = None;
        }
        Ok(Step {
            consumed,
            event: None,
        })
    }
}

impl Partial {
    /// Returns the number of bytes consumed, and the header once it is complete.
    fn take_header(
        &mut self,
        input: &[u8],
        rules: &Rules,
    ) -> Result<(usize, Option<Header>), Violation> {
        let kept = self.header_len;
        let taken = input.len().min(HEADER_BYTES_MAX - kept);
        self.header[kept..kept + taken].copy_from_slice(&input[..taken]);
        match Header::parse(&self.header[..kept + taken], &rules.frame)? {
            Parse::Partial => {
                // The header is incomplete, so it is shorter than the buffer, which therefore has the complete input.
                self.header_len = kept + taken;
                Ok((taken, None))
            }
            Parse::Complete {
                header,
                header_bytes,
            } => {
                self.header_len = 0;
                Ok((header_bytes - kept, Some(header)))
            }
        }
    }

    /// Starts the payload of a validated header.
    fn begin(&mut self, header: Header) -> Frame {
        if !header.opcode.is_control() && self.message.is_none() {
            self.message = Some(Message {
                kind: kind(header.opcode),
                compressed: is_compressed(&header),
                payload: Vec::new(),
                text: Validator::new(),
            });
        }
        let frame = Frame {
            header,
            received: 0,
        };
        self.frame = Some(frame);
        frame
    }

    /// Stores the available payload of `frame` and returns its length. Clears `self.frame` once the payload is complete.
    fn take_payload(
        &mut self,
        frame: Frame,
        input: &[u8],
        rules: &Rules,
    ) -> Result<usize, Violation> {
        let Frame { header, received } = frame;
        let missing = header.payload_len - received;
        let taken =
            usize::try_from(missing).map_or(input.len(), |missing| missing.min(input.len()));
        let input = &input[..taken];
        match &mut self.message {
            Some(message) if !header.opcode.is_control() => {
                let start = message.payload.len();
                // The last frame of a message states how much is missing. Before it, the message may grow to its maximum
                // length.
                let most = if header.fin {
                    missing as usize
                } else {
                    rules.message_bytes_max - start
                };
                make_room(&mut message.payload, taken, most);
                append(&mut message.payload, input, &frame);
                if message.kind == Kind::Text && !message.compressed {
                    let fed = message.text.feed(&message.payload[start..]);
                    fed.map_err(|_| Violation::TextNotUtf8)?;
                }
            }
            _ => append(&mut self.control, input, &frame),
        }
        let received = received + taken as u64;
        self.frame = (received < header.payload_len).then_some(Frame { header, received });
        Ok(taken)
    }

    /// Handles a complete frame. Returns an event unless the message continues in another frame.
    fn finish(&mut self, header: &Header) -> Result<Option<Event<'static>>, Violation> {
        if header.opcode.is_control() {
            let payload = std::mem::take(&mut self.control);
            return event(header, Cow::Owned(payload)).map(Some);
        }
        let Some(message) = self.message.take_if(|_| header.fin) else {
            return Ok(None);
        };
        if !message.text.is_complete() {
            return Err(Violation::TextNotUtf8);
        }
        Ok(Some(Event::Message {
            kind: message.kind,
            compressed: message.compressed,
            payload: Cow::Owned(message.payload),
        }))
    }

    fn is_empty(&self) -> bool {
        self.header_len == 0 && self.frame.is_none() && self.message.is_none()
    }
}

/// Returns the header of a frame that is complete in `input`, the header's length, and the end of the frame.
#[inline]
fn whole_frame(input: &[u8], rules: &Rules) -> Result<Option<(Header, usize, usize)>, Violation> {
    let Parse::Complete {
        header,
        header_bytes,
    } = Header::parse(input, &rules.frame)?
    else {
        return Ok(None);
    };
    let follows = (input.len() - header_bytes) as u64;
    // The value is at most the length of the input, so it fits into `usize`.
    let end = header_bytes + header.payload_len.min(follows) as usize;
    Ok((header.payload_len <= follows).then_some((header, header_bytes, end)))
}

/// Checks that the frame is allowed at this position (RFC 6455, section 5.4; RFC 7692, section 6.1) and that the
/// message stays within its limit.
#[inline]
fn check_order(header: &Header, message: Option<&Message>, rules: &Rules) -> Result<(), Violation> {
    if header.opcode.is_control() {
        return Ok(());
    }
    let so_far = match (header.opcode, message) {
        (Opcode::Continuation, None) => return Err(Violation::ContinuationUnexpected),
        (Opcode::Continuation, Some(message)) => {
            if is_compressed(header) {
                return Err(Violation::ReservedBits);
            }
            message.payload.len()
        }
        (_, Some(_)) => return Err(Violation::ContinuationMissing),
        (_, None) => 0,
    };
    if header.payload_len > rules.message_bytes_max.saturating_sub(so_far) as u64 {
        return Err(Violation::MessageTooLarge);
    }
    Ok(())
}

/// Returns the event of a complete, unmasked frame that is a control frame or a message by itself.
#[inline]
fn event<'a>(header: &Header, payload: Cow<'a, [u8]>) -> Result<Event<'a>, Violation> {
    Ok(match header.opcode {
        Opcode::Ping => Event::Ping(payload),
        Opcode::Pong => Event::Pong(payload),
        Opcode::Close => close_event(payload)?,
        Opcode::Continuation | Opcode::Text | Opcode::Binary => {
            let (kind, compressed) = (kind(header.opcode), is_compressed(header));
            if kind == Kind::Text && !compressed && !utf8::valid(&payload) {
                return Err(Violation::TextNotUtf8);
            }
            Event::Message {
                kind,
                compressed,
                payload,
            }
        }
    })
}

fn close_event(payload: Cow<'_, [u8]>) -> Result<Event<'_>, Violation> {
    let (code, reason) = match payload {
        Cow::Borrowed(payload) => {
            let close = close::parse(payload)?;
            (close.code, Cow::Borrowed(close.reason))
        }
        Cow::Owned(payload) => {
            let close = close::parse(&payload)?;
            (close.code, Cow::Owned(close.reason.to_owned()))
        }
    };
    Ok(Event::Close { code, reason })
}

fn kind(opcode: Opcode) -> Kind {
    if opcode == Opcode::Text {
        Kind::Text
    } else {
        Kind::Binary
    }
}

fn is_compressed(header: &Header) -> bool {
    header.reserved.contains(Reserved::RSV1)
}

/// Appends the next bytes of the frame's payload, unmasked.
fn append(to: &mut Vec<u8>, input: &[u8], frame: &Frame) {
    let start = to.len();
    to.extend_from_slice(input);
    if let Some(key) = frame.header.mask {
        mask::apply(&mut to[start..], key, frame.received);
    }
}

/// Reserves space for `more` bytes. At most doubles the length, and reserves no more than `most` bytes.
///
/// So a header that announces gigabytes reserves little memory, and a message in tiny pieces is not copied for each piece.
fn make_room(to: &mut Vec<u8>, more: usize, most: usize) {
    if to.capacity() - to.len() < more {
        let room = to.len().max(ROOM_BYTES_MIN).min(most).max(more);
        to.reserve_exact(room);
    }
}

const _: () = assert!(CONTROL_BYTES_MAX < ROOM_BYTES_MIN);

#[cfg(test)]
mod tests;
