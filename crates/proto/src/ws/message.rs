//! Received bytes to whole messages and control frames (RFC 6455, 5.4 and 5.5).
//!
//! A message that lies whole in the input is unmasked there and lent out, without a copy; only what a read has cut
//! is kept, so a reader between messages holds one pointer. Text is checked as it comes, and the first byte that
//! cannot be UTF-8 ends the connection, not the end of its message.

use std::borrow::Cow;

use super::close;
use super::frame::{self, CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, Opcode, Parse, Reserved};
use super::utf8::{self, Validator};
use super::{Role, Violation, mask};

/// The least room made for a message that comes in pieces. More is made only as bytes come: at most as many again.
const ROOM_BYTES_MIN: usize = 4096;

/// What received messages must keep to. The same for all calls of one [`Reader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What each header must keep to, with the limit of one frame.
    pub frame: frame::Rules,
    /// Bytes of one message over all its frames. Above it [`Violation::MessageTooLarge`].
    ///
    /// Of a compressed message this bounds what was received; decompression has the same limit of its own.
    pub message_bytes_max: usize,
}

impl Rules {
    /// For what `role` receives. `compression` is whether permessage-deflate was negotiated.
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

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// Something the peer has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole message. A text is valid UTF-8 unless it is compressed.
    Message {
        /// What it holds.
        kind: Kind,
        /// Whether it has to be decompressed, and a text then checked (RFC 7692, 6.2).
        compressed: bool,
        /// Lent from the input when it lay there whole.
        payload: Cow<'a, [u8]>,
    },
    /// Answer with a pong of the same payload, at most [`CONTROL_BYTES_MAX`] bytes.
    Ping(Cow<'a, [u8]>),
    /// The answer to a ping, or a sign of life.
    Pong(Cow<'a, [u8]>),
    /// The peer closes; see [`super::close::Closing::handle_close`]. Nothing follows.
    Close {
        /// The code, when there is one.
        code: Option<u16>,
        /// The reason; may be empty.
        reason: Cow<'a, str>,
    },
}

/// What one call of [`Reader::handle`] came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes of the input that are done with. All of them when there is no event.
    pub consumed: usize,
    /// What they held; call again with the rest.
    pub event: Option<Event<'a>>,
}

/// Reads what one peer sends. Small: a pointer and a flag between messages.
#[derive(Debug, Default)]
pub struct Reader {
    partial: Option<Box<Partial>>,
    /// A Close frame came: what follows is ignored (RFC 6455, 5.5.1).
    closed: bool,
}

/// What has come of a frame or message that is not whole yet.
#[derive(Debug, Default)]
struct Partial {
    /// The first bytes of a header. Invariant: `header_len` is zero while `frame` is there.
    header: [u8; HEADER_BYTES_MAX],
    header_len: usize,
    frame: Option<Frame>,
    /// The payload of a control frame, which may come inside a message.
    control: Vec<u8>,
    message: Option<Message>,
}

/// A frame whose payload is coming.
#[derive(Clone, Copy, Debug)]
struct Frame {
    header: Header,
    /// Bytes of payload that came; at most `header.payload_len`.
    received: u64,
}

/// A message whose last frame has not ended.
#[derive(Debug)]
struct Message {
    kind: Kind,
    compressed: bool,
    payload: Vec<u8>,
    text: Validator,
}

impl Reader {
    /// At the first byte behind the handshake.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, in any split. Call it with what it has not consumed until all is; payloads are unmasked in place.
    ///
    /// # Errors
    /// What the peer did wrong, as early as it is certain. The reader must not be used afterwards.
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

    /// Whether nothing is kept: the last byte ended a message or a control frame outside of one.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.partial.is_none()
    }

    /// Bytes kept of an unfinished message.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let message = self
            .partial
            .as_ref()
            .and_then(|partial| partial.message.as_ref());
        message.map_or(0, |message| message.payload.len())
    }

    /// Goes on with what was cut, until an event or the end of the input.
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
    /// Bytes taken of `input`, and the header once it is whole.
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
                // No header is longer than the room for it, so all of the input was taken.
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

    /// A header has passed all checks: its payload comes next.
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

    /// Keeps what there is of the frame's payload and returns how much that was. `frame` is gone once it is whole.
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
                // What may still come of the message bounds the room; of the last frame it is known.
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

    /// The frame is whole. An event unless the message goes on in another frame.
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

/// The header of a frame that lies whole in `input`, the header's length, and where the frame ends.
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
    // What follows bounds the length, so it fits.
    let end = header_bytes + header.payload_len.min(follows) as usize;
    Ok((header.payload_len <= follows).then_some((header, header_bytes, end)))
}

/// Whether the frame may stand here (RFC 6455, 5.4; RFC 7692, 6.1), and the message does not grow too long.
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

/// What a whole frame says that is a message by itself or a control frame. The payload is unmasked.
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

/// Makes room for `more` bytes, and for up to as many again as are there, but never for more than `most`.
///
/// So a header that promises gigabytes costs nothing, and a message in tiny pieces is not copied for each.
fn make_room(to: &mut Vec<u8>, more: usize, most: usize) {
    if to.capacity() - to.len() < more {
        let room = to.len().max(ROOM_BYTES_MIN).min(most).max(more);
        to.reserve_exact(room);
    }
}

const _: () = assert!(CONTROL_BYTES_MAX < ROOM_BYTES_MIN);

#[cfg(test)]
mod tests;
