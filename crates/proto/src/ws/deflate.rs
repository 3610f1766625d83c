//! permessage-deflate (RFC 7692, section 7): compresses and decompresses complete messages.
//!
//! One [`Compressor`] and one [`Decompressor`] serve all connections of a worker. Without context takeover, a
//! connection stores nothing between messages. With it, a connection stores the end of its previous messages, which
//! becomes the dictionary of the shared stream before each message.
//!
//! A stream per connection would cost about 400 KiB; a [`Context`] costs at most [`CONTEXT_BYTES_MAX`]. A message that
//! does not shrink can be sent uncompressed, because no stream state has to be rolled back. The price is CPU time in
//! proportion to the stored bytes, mainly when sending; therefore at most [`SENT_BYTES_MAX`] sent bytes are stored.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::extension::{Agreed, WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use super::frame::{self, Header, Opcode, Reserved};
use super::message::Kind;
use super::{Role, Violation, mask, utf8};

/// Maximum bytes of sent messages to store, even if the window is larger. Each KiB costs about a microsecond per
/// message, and more history makes few messages smaller.
pub const SENT_BYTES_MAX: usize = 8 * 1024;

/// Maximum bytes that a connection with context takeover in both directions stores between messages.
pub const CONTEXT_BYTES_MAX: usize = SENT_BYTES_MAX + (1 << WINDOW_BITS_MAX);

/// Approximate memory of a [`Compressor`] for each window size in use.
pub const COMPRESSOR_BYTES: usize = 384 * 1024;

/// Approximate memory of a [`Decompressor`].
pub const DECOMPRESSOR_BYTES: usize = 48 * 1024;

/// Compression levels, from fastest to smallest output.
pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=9;

/// End of every flushed block, which messages omit (RFC 7692, section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The tail, and an empty final block. The decompressor reaches the end of the stream only if the message stops between two
/// blocks, which detects a truncated message.
const TAIL_AND_END: [u8; 6] = [0, 0, 0xff, 0xff, 3, 0];

/// Maximum number of DEFLATE streams in one message: after a final block, another stream may follow (RFC 7692, section
/// 7.2.3.4).
///
/// One stream is usual, and two occur. Each stream copies a window, so without a limit a small message could cost seconds.
const STREAMS_MAX: usize = 4;

/// Maximum growth in bytes of a small message that is compressed only so that later messages can refer to it.
const INVESTED_BYTES_MAX: usize = 4;

/// Maximum length of a message that is compressed even if it grows, by up to `INVESTED_BYTES_MAX`. Longer text shrinks;
/// other data rarely helps later messages.
const INVESTED_MESSAGE_BYTES_MAX: usize = 256;

/// Minimum output space to reserve at a time. Space grows only with the output, at most doubling it.
const ROOM_BYTES_MIN: usize = 1024;

/// Expected compression ratio.
const RATIO_EXPECTED: usize = 4;

const WINDOW_SIZES: usize = (WINDOW_BITS_MAX - WINDOW_BITS_MIN + 1) as usize;

/// History of one connection, the dictionary for its next messages.
///
/// Allocates nothing before the first compressed message, and never if [`Agreed::keeps_context`] is false; then every
/// message can use a new context.
#[derive(Clone, Debug)]
pub struct Context {
    sent: Window,
    received: Window,
}

/// History of one direction.
#[derive(Clone, Debug)]
struct Window {
    /// Invariant: at most `bytes_max`.
    bytes: Vec<u8>,
    /// Maximum length of `bytes`. Zero if no history is needed.
    bytes_max: usize,
    bits: u8,
}

impl Context {
    /// Creates the context of a new connection on which this side is `role`.
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
            // If 8 bits were agreed, zlib nevertheless compresses with 9 (`deflateInit2`). Store enough history for that.
            received: Window::new(
                received.0.max(WINDOW_BITS_MIN),
                if received.1 { 0 } else { usize::MAX },
            ),
        }
    }

    /// Returns the number of allocated bytes; at most [`CONTEXT_BYTES_MAX`].
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

    /// Returns the maximum compressed length of `message`: less than its length, or slightly more if it is stored for
    /// later messages.
    fn compressed_bytes_max(&self, message: &[u8]) -> usize {
        if self.bytes_max > 0 && message.len() <= INVESTED_MESSAGE_BYTES_MAX {
            message.len() + INVESTED_BYTES_MAX
        } else {
            message.len().saturating_sub(1)
        }
    }

    /// Appends the end of `said` and drops the oldest bytes that no longer fit.
    fn push(&mut self, said: &[u8]) {
        let size = self.bytes_max;
        let said = &said[said.len().saturating_sub(size)..];
        let forgotten = (self.bytes.len() + said.len()).saturating_sub(size);
        self.bytes.drain(..forgotten);
        if self.bytes.capacity() - self.bytes.len() < said.len() {
            // Double the capacity, up to the window's size.
            let room = said
                .len()
                .max(self.bytes.len())
                .min(size - self.bytes.len());
            self.bytes.reserve_exact(room);
        }
        self.bytes.extend_from_slice(said);
    }
}

/// Compresses sent messages of any number of connections.
#[derive(Debug)]
pub struct Compressor {
    level: Compression,
    message_bytes_min: usize,
    /// Indexed by window size, created on first use.
    streams: [Option<Compress>; WINDOW_SIZES],
}

impl Compressor {
    /// Creates a compressor with a level of [`LEVELS`]. Messages shorter than `message_bytes_min` are never compressed.
    #[must_use]
    pub fn new(level: u8, message_bytes_min: usize) -> Self {
        debug_assert!(LEVELS.contains(&level), "the caller checks settings");
        Self {
            level: Compression::new(u32::from(level)),
            // Compression would make an empty message longer.
            message_bytes_min: message_bytes_min.max(1),
            streams: [const { None }; WINDOW_SIZES],
        }
    }

    /// Appends `message` as one frame. Compresses the message if that makes this message or later messages smaller.
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

    /// Appends `message` as one server frame that many connections can share. Compresses it if that makes it smaller.
    ///
    /// The connections must have agreed to compression with a server window of at least `window_bits` and without server
    /// context takeover.
    pub fn write_shared(&mut self, window_bits: u8, kind: Kind, message: &[u8], out: &mut Vec<u8>) {
        let window = Window::new(window_bits, 0);
        let _ = self.write_with(&window, kind, message, None, out);
    }

    /// Returns true if the message was compressed.
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
        // A peer can agree to an 8-bit window, but zlib cannot compress with it.
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

    /// Appends `message` compressed to at most `bytes_max` bytes. Returns false if it does not fit; the appended bytes
    /// are then invalid.
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
        // Continue to the end even if the output is already too long: zlib-rs 0.6 fails when a stream with pending output
        // is reused. The cost is small, because DEFLATE adds at most an eighth.
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

    /// Drops a stream whose state is undefined after an error.
    fn forget_stream(&mut self, bits: u8) {
        *self.place(bits) = None;
    }

    fn place(&mut self, bits: u8) -> &mut Option<Compress> {
        let bits = bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX);
        &mut self.streams[usize::from(bits - WINDOW_BITS_MIN)]
    }
}

/// Writes the header before the compressed payload at `payload`; the header's space begins at `start`.
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

/// Decompresses received messages of any number of connections.
#[derive(Debug)]
pub struct Decompressor {
    /// Decompression stream with the largest window, which can decode messages of all smaller windows. Created on first use.
    stream: Option<Decompress>,
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Decompressor {
    /// Creates a decompressor; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { stream: None }
    }

    /// Appends the decompressed `payload` of a complete message, at most `message_bytes_max` bytes.
    ///
    /// # Errors
    /// The payload is not valid compressed data, the message is too long (reported as soon as it exceeds the limit), or a
    /// text is not UTF-8. The appended bytes are then invalid.
    pub fn read(
        &mut self,
        context: &mut Context,
        kind: Kind,
        payload: &[u8],
        message_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let start = out.len();
        // An empty payload contains no block, so the decompressor would refuse it. Some implementations send it for an empty
        // message, and it can have no other meaning.
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

/// State while decompressing one message.
struct Inflating<'a> {
    stream: &'a mut Decompress,
    remembered: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Start of the message in `out`.
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
        // A payload that ends with a final block is complete. Any other payload needs the tail that its sender has removed.
        if self.take(payload)? || self.take(&TAIL_AND_END)? {
            Ok(())
        } else {
            Err(Violation::CompressionInvalid)
        }
    }

    /// Starts a stream whose dictionary is the connection's history and the message so far.
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

    /// Decompresses `input`. Returns true if it ends with the end of a stream.
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
                // The output had space left, so decompression stopped for lack of input.
                return if input.is_empty() {
                    Ok(false)
                } else {
                    Err(Violation::CompressionInvalid)
                };
            }
        }
    }

    /// Doubles the output space, up to one byte above the limit: that byte distinguishes a message that reaches the limit
    /// from one that exceeds it.
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
