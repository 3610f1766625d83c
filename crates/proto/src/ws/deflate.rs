//! permessage-deflate (RFC 7692, 7): whole messages compressed and decompressed.
//!
//! One [`Compressor`] and one [`Decompressor`] serve all connections of a worker. Without context takeover a connection
//! keeps nothing at all between messages. With it, all that has to be remembered is what was said: the end of the
//! messages themselves, which is put into the shared stream before each message. Streams of its own would cost a
//! connection some 400 KiB; a [`Context`] costs [`CONTEXT_BYTES_MAX`] at most, and a message that does not shrink can be
//! sent as it is, because nothing has to be unsaid. The price is CPU in proportion to what is remembered, mainly for what
//! is sent, so of that no more is than [`SENT_BYTES_MAX`].

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::extension::{Agreed, WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use super::frame::{self, Header, Opcode, Reserved};
use super::message::Kind;
use super::{Role, Violation, mask, utf8};

/// How much of what was sent is remembered, however large the window: each KiB costs a message about a microsecond, and
/// beyond this it makes few messages smaller.
pub const SENT_BYTES_MAX: usize = 8 * 1024;

/// The most a connection with context takeover in both directions keeps between messages.
pub const CONTEXT_BYTES_MAX: usize = SENT_BYTES_MAX + (1 << WINDOW_BITS_MAX);

/// About what a [`Compressor`] allocates for each window size that it has used.
pub const COMPRESSOR_BYTES: usize = 384 * 1024;

/// About what a [`Decompressor`] allocates.
pub const DECOMPRESSOR_BYTES: usize = 48 * 1024;

/// Fast and a little larger, to small and slow.
pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=9;

/// What ends every flushed block, and is left out of messages (RFC 7692, 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The tail, and a last block without data: only a message that has ended between two blocks comes to the stream's end with it.
const TAIL_AND_END: [u8; 6] = [0, 0, 0xff, 0xff, 3, 0];

/// Streams in one message: a block may say that it is the last, and another stream then follows (RFC 7692, 7.2.3.4).
///
/// One is usual and two happen. Each costs a window to copy, so without a bound a small message could cost seconds.
const STREAMS_MAX: usize = 4;

/// By how much a small message may grow so that the next ones can refer to it: alone they would never shrink.
const INVESTED_BYTES_MAX: usize = 4;

/// Longest message that may grow. A longer one that does not shrink is no text.
const INVESTED_MESSAGE_BYTES_MAX: usize = 256;

/// The least room made for output at a time. More is made only as it comes: at most as much again.
const ROOM_BYTES_MIN: usize = 1024;

/// How many times shorter a compressed message is expected to be.
const RATIO_EXPECTED: usize = 4;

const WINDOW_SIZES: usize = (WINDOW_BITS_MAX - WINDOW_BITS_MIN + 1) as usize;

/// What one connection remembers of earlier messages.
///
/// It allocates nothing until a message was compressed, and never when [`Agreed::keeps_context`] is false; then a new
/// one does as well for every message.
#[derive(Clone, Debug)]
pub struct Context {
    sent: Window,
    received: Window,
}

/// The end of what was said in one direction.
#[derive(Clone, Debug)]
struct Window {
    /// Invariant: at most `bytes_max`.
    bytes: Vec<u8>,
    /// Zero when nothing has to be remembered.
    bytes_max: usize,
    bits: u8,
}

impl Context {
    /// Of a connection on which nothing was said yet, and where we are `role`.
    #[must_use]
    pub fn new(role: Role, agreed: &Agreed) -> Self {
        let server = (
            agreed.server_window_bits(),
            agreed.server_no_context_takeover,
        );
        let client = (
            agreed.client_window_bits(),
            agreed.client_no_context_takeover,
        );
        let (sent, received) = match role {
            Role::Server => (server, client),
            Role::Client => (client, server),
        };
        Self {
            sent: Window::new(sent.0, if sent.1 { 0 } else { SENT_BYTES_MAX }),
            // An implementation that agrees to 8 bits and uses zlib compresses with 9; see its deflateInit2.
            received: Window::new(
                received.0.max(WINDOW_BITS_MIN),
                if received.1 { 0 } else { usize::MAX },
            ),
        }
    }

    /// Bytes allocated; at most [`CONTEXT_BYTES_MAX`].
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.sent.bytes.capacity() + self.received.bytes.capacity()
    }
}

impl Window {
    fn new(bits: u8, bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            bytes_max: bytes_max.min(1 << bits),
            bits,
        }
    }

    /// How long `message` may be compressed: shorter than it is, or nearly so where it is remembered.
    fn compressed_bytes_max(&self, message: &[u8]) -> usize {
        if self.bytes_max > 0 && message.len() <= INVESTED_MESSAGE_BYTES_MAX {
            message.len() + INVESTED_BYTES_MAX
        } else {
            message.len().saturating_sub(1)
        }
    }

    /// Remembers the end of `said`, and of what was there before as much as still fits.
    fn push(&mut self, said: &[u8]) {
        let size = self.bytes_max;
        let said = &said[said.len().saturating_sub(size)..];
        let forgotten = (self.bytes.len() + said.len()).saturating_sub(size);
        self.bytes.drain(..forgotten);
        if self.bytes.capacity() - self.bytes.len() < said.len() {
            // Twice as much each time, and never more than a window.
            let room = said
                .len()
                .max(self.bytes.len())
                .min(size - self.bytes.len());
            self.bytes.reserve_exact(room);
        }
        self.bytes.extend_from_slice(said);
    }
}

/// Compresses what is sent, for any number of connections.
#[derive(Debug)]
pub struct Compressor {
    level: Compression,
    message_bytes_min: usize,
    /// By window size, made when first needed.
    streams: [Option<Compress>; WINDOW_SIZES],
}

impl Compressor {
    /// With a level of [`LEVELS`]. Messages below `message_bytes_min` are never compressed.
    #[must_use]
    pub fn new(level: u8, message_bytes_min: usize) -> Self {
        debug_assert!(LEVELS.contains(&level), "the caller checks settings");
        Self {
            level: Compression::new(u32::from(level)),
            // An empty message is shortest as it is.
            message_bytes_min: message_bytes_min.max(1),
            streams: [const { None }; WINDOW_SIZES],
        }
    }

    /// Appends `message` as one frame, compressed if that makes it smaller or helps to make the next ones smaller.
    pub fn write(
        &mut self,
        context: &mut Context,
        kind: Kind,
        message: &[u8],
        mask: Option<[u8; 4]>,
        out: &mut Vec<u8>,
    ) {
        if self.write_with(&context.sent, kind, message, mask, out) {
            context.sent.push(message);
        }
    }

    /// Appends `message` as one frame of a server, compressed if that makes it smaller, for any number of connections:
    /// all that have agreed to compression, whose server window is at least `window_bits`, and which the server has
    /// promised no context takeover.
    pub fn write_shared(&mut self, window_bits: u8, kind: Kind, message: &[u8], out: &mut Vec<u8>) {
        let window = Window::new(window_bits, 0);
        let _ = self.write_with(&window, kind, message, None, out);
    }

    /// Whether it was compressed.
    fn write_with(
        &mut self,
        window: &Window,
        kind: Kind,
        message: &[u8],
        mask: Option<[u8; 4]>,
        out: &mut Vec<u8>,
    ) -> bool {
        let opcode = match kind {
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        };
        let start = out.len();
        // A window of 8 bits can be agreed on, and only be read.
        if message.len() >= self.message_bytes_min && window.bits >= WINDOW_BITS_MIN {
            let bytes_max = window.compressed_bytes_max(message);
            let payload = start + Header::encoded_len(bytes_max as u64, mask.is_some());
            out.resize(payload, 0);
            if self.compress(window, message, bytes_max, out) {
                finish_frame(out, start, payload, opcode, mask);
                return true;
            }
            out.truncate(start);
        }
        frame::write(out, opcode, true, Reserved::NONE, mask, message);
        false
    }

    /// Appends `message` compressed to at most `bytes_max`. Where that does not do it says false, and what was appended is of no use.
    fn compress(
        &mut self,
        window: &Window,
        message: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let stream = self.stream(window.bits);
        stream.reset();
        if !window.bytes.is_empty() && stream.set_dictionary(&window.bytes).is_err() {
            debug_assert!(false, "a raw stream takes a dictionary at its start");
            self.forget_stream(window.bits);
            return false;
        }
        let start = out.len();
        let mut room = (bytes_max / RATIO_EXPECTED).max(ROOM_BYTES_MIN);
        // To the end even when it has grown too long already: zlib-rs 0.6 does not survive that a stream which still
        // holds output is used again, and the end is near, since nothing grows by more than an eighth.
        loop {
            out.reserve(room);
            let full = out.capacity();
            let taken = stream.total_in() as usize;
            let status = stream.compress_vec(&message[taken..], out, FlushCompress::Sync);
            if status.is_err() {
                self.forget_stream(window.bits);
                return false;
            }
            if out.len() < full {
                break;
            }
            room = out.len() - start;
        }
        let ends = out.len() - TAIL.len().min(out.len() - start);
        let done = stream.total_in() == message.len() as u64 && out[ends..] == TAIL;
        out.truncate(ends);
        done && ends - start <= bytes_max
    }

    fn stream(&mut self, bits: u8) -> &mut Compress {
        let bits = bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX);
        let level = self.level;
        self.place(bits)
            .get_or_insert_with(|| Compress::new_with_window_bits(level, false, bits))
    }

    /// After an error nobody knows what state it is in.
    fn forget_stream(&mut self, bits: u8) {
        *self.place(bits) = None;
    }

    fn place(&mut self, bits: u8) -> &mut Option<Compress> {
        let bits = bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX);
        &mut self.streams[usize::from(bits - WINDOW_BITS_MIN)]
    }
}

/// Puts the header in front of the compressed payload that starts at `payload`, with room for it since `start`.
fn finish_frame(
    out: &mut Vec<u8>,
    start: usize,
    payload: usize,
    opcode: Opcode,
    mask: Option<[u8; 4]>,
) {
    let header = Header {
        fin: true,
        reserved: Reserved::RSV1,
        opcode,
        mask,
        payload_len: (out.len() - payload) as u64,
    };
    let (bytes, header_bytes) = header.encode();
    if let Some(key) = mask {
        mask::apply(&mut out[payload..], key, 0);
    }
    out.copy_within(payload.., start + header_bytes);
    out.truncate(out.len() - (payload - start - header_bytes));
    out[start..start + header_bytes].copy_from_slice(&bytes[..header_bytes]);
}

/// Decompresses what is received, for any number of connections.
#[derive(Debug)]
pub struct Decompressor {
    /// With the largest window, which reads all others too. Made when first needed.
    stream: Option<Decompress>,
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Decompressor {
    /// Allocates nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { stream: None }
    }

    /// Appends what was compressed to `payload`, which is that of all frames of the message: at most `message_bytes_max` bytes.
    ///
    /// # Errors
    /// When it is not compressed data; as soon as it grows too long; when a text is not UTF-8. What was appended is then of no use.
    pub fn read(
        &mut self,
        context: &mut Context,
        kind: Kind,
        payload: &[u8],
        message_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let start = out.len();
        // Nothing at all is no block. Some send it for an empty message, and it can mean nothing else.
        if !payload.is_empty() {
            let stream = self
                .stream
                .get_or_insert_with(|| Decompress::new_with_window_bits(false, WINDOW_BITS_MAX));
            let remembered = &context.received.bytes[..];
            Inflating::new(stream, remembered, out, message_bytes_max).message(payload)?;
        }
        let message = &out[start..];
        if kind == Kind::Text && !utf8::valid(message) {
            return Err(Violation::TextNotUtf8);
        }
        context.received.push(message);
        Ok(())
    }
}

/// One message being decompressed.
struct Inflating<'a> {
    stream: &'a mut Decompress,
    remembered: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Where the message starts in `out`.
    start: usize,
    bytes_max: usize,
    streams: usize,
}

impl<'a> Inflating<'a> {
    fn new(
        stream: &'a mut Decompress,
        remembered: &'a [u8],
        out: &'a mut Vec<u8>,
        bytes_max: usize,
    ) -> Self {
        let start = out.len();
        Self {
            stream,
            remembered,
            out,
            start,
            bytes_max,
            streams: 0,
        }
    }

    fn message(mut self, payload: &[u8]) -> Result<(), Violation> {
        let expected = payload.len().saturating_mul(RATIO_EXPECTED);
        self.out
            .reserve_exact(expected.clamp(ROOM_BYTES_MIN, self.bytes_max.max(ROOM_BYTES_MIN)));
        self.begin()?;
        // A last block at the very end leaves nothing for the tail to complete.
        if self.take(payload)? || self.take(&TAIL_AND_END)? {
            Ok(())
        } else {
            Err(Violation::CompressionInvalid)
        }
    }

    /// Starts a stream that knows what was said so far.
    fn begin(&mut self) -> Result<(), Violation> {
        self.streams += 1;
        if self.streams > STREAMS_MAX {
            return Err(Violation::CompressionInvalid);
        }
        self.stream.reset(false);
        let message = &self.out[self.start..];
        let window: &[u8] = if message.is_empty() {
            self.remembered
        } else {
            let both = [self.remembered, message].concat();
            let from = both.len().saturating_sub(1 << WINDOW_BITS_MAX);
            return set(self.stream, &both[from..]);
        };
        set(self.stream, window)
    }

    /// Whether `input` ended with the end of a stream.
    fn take(&mut self, mut input: &[u8]) -> Result<bool, Violation> {
        loop {
            self.make_room();
            let before = self.stream.total_in();
            let room = self.out.capacity();
            let status = self
                .stream
                .decompress_vec(input, self.out, FlushDecompress::None)
                .map_err(|_| Violation::CompressionInvalid)?;
            input = &input[(self.stream.total_in() - before) as usize..];
            if self.out.len() - self.start > self.bytes_max {
                return Err(Violation::MessageTooLarge);
            }
            if status == Status::StreamEnd {
                if input.is_empty() {
                    return Ok(true);
                }
                self.begin()?;
            } else if self.out.len() < room {
                // There was room, so it has stopped for want of input.
                return if input.is_empty() {
                    Ok(false)
                } else {
                    Err(Violation::CompressionInvalid)
                };
            }
        }
    }

    /// Makes room for as much again as there is, and for one byte above the limit: it tells a message that has reached it from one that goes on.
    fn make_room(&mut self) {
        if self.out.len() == self.out.capacity() {
            let written = self.out.len() - self.start;
            let most = (self.bytes_max - written).saturating_add(1);
            self.out
                .reserve_exact(written.max(ROOM_BYTES_MIN).min(most));
        }
    }
}

fn set(stream: &mut Decompress, window: &[u8]) -> Result<(), Violation> {
    if window.is_empty() {
        return Ok(());
    }
    let set = stream.set_dictionary(window);
    set.map(drop).map_err(|_| Violation::CompressionInvalid)
}

#[cfg(test)]
mod tests;
