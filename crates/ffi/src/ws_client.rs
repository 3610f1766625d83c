//! WebSocket client: `Fermata\WebSocket\Client`.
//!
//! C owns the connection. It sends the bytes of the output, reads into the input buffer and polls for received
//! messages.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use fermata_proto::response::{valid_name, valid_value};
use fermata_proto::ws::accept::KEY_BYTES;
use fermata_proto::ws::client::{Client, Received, Unsendable};
use fermata_proto::ws::handshake::reserved_name;
use fermata_proto::ws::message::Kind;
use fermata_proto::ws::opening::{self, NotOpened, Opening};

use crate::abi::{
    FM_GONE, FM_IO, FM_MISUSE, FM_PARTIAL, FM_PROTOCOL, FmError, FmHeader, FmStr, array, ask,
    guard, misuse, put,
};

/// There is nothing for the application, but the output may have bytes to send.
pub const FM_WS_RECEIVED_NOTHING: u32 = 0;
/// The handshake has succeeded.
pub const FM_WS_RECEIVED_OPEN: u32 = 1;
/// A text message.
pub const FM_WS_RECEIVED_TEXT: u32 = 2;
/// A binary message.
pub const FM_WS_RECEIVED_BINARY: u32 = 3;
/// A pong.
pub const FM_WS_RECEIVED_PONG: u32 = 4;
/// A close frame; no message follows.
pub const FM_WS_RECEIVED_CLOSE: u32 = 5;

/// Input buffer size: large enough for few reads, small enough for the CPU cache.
const INPUT_BYTES: usize = 64 * 1024;

/// A larger output buffer is freed after its bytes are sent.
const OUTPUT_BYTES_KEPT: usize = 64 * 1024;

/// Masking keys fetched per system call: one call per key would cost more than its frame.
const KEYS: usize = 64;

/// Parameters of a WebSocket handshake.
#[repr(C)]
pub struct FmWsOpening {
    /// Value of the `Host` header.
    pub host: FmStr,
    /// Path and query.
    pub target: FmStr,
    /// Subprotocols in order of preference.
    pub protocols: *const FmStr,
    /// Number of subprotocols.
    pub protocols_len: usize,
    /// Additional headers.
    pub headers: *const FmHeader,
    /// Number of additional headers.
    pub headers_len: usize,
    /// Maximum length of a received message, in bytes.
    pub message_bytes_max: usize,
    /// True if compression is offered.
    pub compression: bool,
}

/// A received message or state change.
#[repr(C)]
pub struct FmWsReceived {
    /// FM_WS_RECEIVED_*.
    pub kind: u32,
    /// Close code of a close frame (1005 for none) or of a protocol violation; HTTP status of a refused handshake.
    pub code: u16,
    /// Message, pong payload or close reason; valid until the next call.
    pub payload: FmStr,
}

impl FmWsReceived {
    fn nothing(kind: u32) -> Self {
        Self {
            kind,
            code: 0,
            payload: FmStr::lend(b""),
        }
    }
}

impl FmWsOpening {
    fn protocols_and_headers(&self) -> (&[FmStr], &[FmHeader]) {
        // SAFETY: C sets both fields of each pair: an array and its length.
        unsafe {
            (
                array(self.protocols, self.protocols_len),
                array(self.headers, self.headers_len),
            )
        }
    }
}

/// A WebSocket connection from its handshake until its close.
pub struct FmWsClient {
    key: [u8; KEY_BYTES],
    asked: Vec<Vec<u8>>,
    compression: bool,
    message_bytes_max: usize,
    /// `None` until the handshake is complete.
    client: Option<Client>,
    protocol: Option<Vec<u8>>,
    input: Vec<u8>,
    /// Received part of `input` that is not processed yet.
    pending: std::ops::Range<usize>,
    output: Vec<u8>,
    /// Payloads that C borrows and that are not in `input`.
    lent: Vec<u8>,
    keys: Keys,
}

struct Keys {
    words: [u64; KEYS / 2],
    used: usize,
}

impl Keys {
    fn draw(&mut self) -> [u8; 4] {
        if self.used == KEYS {
            self.words.fill_with(fermata_io::random::u64);
            self.used = 0;
        }
        let word = self.words[self.used / 2] >> (32 * (self.used % 2));
        self.used += 1;
        (word as u32).to_ne_bytes()
    }
}

impl FmWsClient {
    fn new(opening: &Opening<'_>, message_bytes_max: usize) -> Self {
        let mut output = Vec::new();
        opening.write(&mut output);
        Self {
            key: *opening.key,
            asked: opening.protocols.iter().map(|name| name.to_vec()).collect(),
            compression: opening.compression,
            message_bytes_max,
            client: None,
            protocol: None,
            input: Vec::new(),
            pending: 0..0,
            output,
            lent: Vec::new(),
            keys: Keys {
                words: [0; KEYS / 2],
                used: KEYS,
            },
        }
    }

    /// Returns the free part of the input buffer. It is never empty, because pending bytes are at most a frame
    /// header.
    fn room(&mut self) -> &mut [u8] {
        self.input.resize(INPUT_BYTES, 0);
        if self.pending.is_empty() {
            self.pending = 0..0;
        } else if self.pending.start > 0 {
            self.input.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        &mut self.input[self.pending.end..]
    }

    /// Reads the handshake response; returns false while it is incomplete.
    fn open(&mut self) -> Result<bool, NotOpened> {
        let asked: Vec<&[u8]> = self.asked.iter().map(Vec::as_slice).collect();
        let opening = Opening {
            host: b"",
            target: b"",
            key: &self.key,
            protocols: &asked,
            headers: &[],
            compression: self.compression,
        };
        let Some(opened) = opening.read(&self.input[self.pending.clone()])? else {
            return Ok(false);
        };
        self.protocol = opened.protocol.map(<[u8]>::to_vec);
        self.client = Some(Client::new(
            opened.compression.as_ref(),
            self.message_bytes_max,
        ));
        self.pending.start += opened.head_bytes;
        Ok(true)
    }

    fn next(&mut self) -> Result<FmWsReceived, (u32, u16, String)> {
        let nothing = FmWsReceived::nothing;
        if self.pending.is_empty() {
            return Err((FM_PARTIAL, 0, String::new()));
        }
        if self.client.is_none() {
            return match self.open() {
                Ok(true) => Ok(nothing(FM_WS_RECEIVED_OPEN)),
                Ok(false) => Err((FM_PARTIAL, 0, String::new())),
                Err(NotOpened::Refused(status)) => {
                    let text = NotOpened::Refused(status).to_string();
                    Err((FM_IO, status, text))
                }
                Err(error) => Err((FM_PROTOCOL, 1002, error.to_string())),
            };
        }
        let Some(client) = &mut self.client else {
            return Err((FM_PARTIAL, 0, String::new()));
        };
        let input = &mut self.input[self.pending.clone()];
        let handled = client.handle(input, self.keys.draw(), &mut self.output);
        let (consumed, received) =
            handled.map_err(|error| (FM_PROTOCOL, error.close_code() as u16, error.to_string()))?;
        self.pending.start += consumed;
        Ok(match received {
            // The client itself responds to pings.
            None | Some(Received::Ping(_)) => nothing(FM_WS_RECEIVED_NOTHING),
            Some(Received::Message(kind, payload)) => FmWsReceived {
                kind: match kind {
                    Kind::Text => FM_WS_RECEIVED_TEXT,
                    Kind::Binary => FM_WS_RECEIVED_BINARY,
                },
                code: 0,
                payload: FmStr::lend(payload),
            },
            Some(Received::Pong(payload)) => {
                self.lent = payload;
                FmWsReceived {
                    kind: FM_WS_RECEIVED_PONG,
                    code: 0,
                    payload: FmStr::lend(&self.lent),
                }
            }
            Some(Received::Closed { code, reason }) => {
                self.lent = reason.into_bytes();
                FmWsReceived {
                    kind: FM_WS_RECEIVED_CLOSE,
                    code,
                    payload: FmStr::lend(&self.lent),
                }
            }
        })
    }

    /// Writes to the output if the connection is open.
    fn write(
        &mut self,
        write: impl FnOnce(&mut Client, [u8; 4], &mut Vec<u8>) -> Result<(), Unsendable>,
    ) -> Result<(), (u32, String)> {
        let client = self.client.as_mut().ok_or(Unsendable::Closed);
        let key = self.keys.draw();
        let written = client.and_then(|client| write(client, key, &mut self.output));
        written.map_err(|error| {
            let code = match error {
                Unsendable::Closed => FM_GONE,
                _ => FM_MISUSE,
            };
            (code, error.to_string())
        })
    }
}

/// Creates a client after checking the parameters. Returns NULL and FM_MISUSE for invalid ones.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_new(
    opening: Option<&FmWsOpening>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> Option<Box<FmWsClient>> {
    let mut client = None;
    guard(opening, error, |asked| {
        let (protocols, headers) = asked.protocols_and_headers();
        let protocols: Vec<&[u8]> = protocols.iter().map(FmStr::bytes).collect();
        let headers: Vec<(&[u8], &[u8])> = headers.iter().map(FmHeader::line).collect();
        check(&protocols, &headers).map_err(misuse)?;
        let nonce = [fermata_io::random::u64(), fermata_io::random::u64()];
        let mut bytes = [0; opening::NONCE_BYTES];
        bytes[..8].copy_from_slice(&nonce[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&nonce[1].to_ne_bytes());
        let opening = Opening {
            host: asked.host.bytes(),
            target: asked.target.bytes(),
            key: &opening::key(bytes),
            protocols: &protocols,
            headers: &headers,
            compression: asked.compression,
        };
        let new = FmWsClient::new(&opening, asked.message_bytes_max);
        client = Some(Box::new(new));
        Ok(())
    });
    client
}

/// Reasons to reject a handshake's parameters.
#[derive(Debug, thiserror::Error)]
enum UnsayableInHandshake {
    #[error("subprotocols have to be different names without spaces")]
    Protocols,
    #[error("the header {0:?} is malformed; leave out line breaks and control characters")]
    Malformed(String),
    #[error("the header {0:?} is the client's own; leave it out")]
    Reserved(String),
}

fn check(protocols: &[&[u8]], headers: &[(&[u8], &[u8])]) -> Result<(), UnsayableInHandshake> {
    for (at, name) in protocols.iter().enumerate() {
        if !valid_name(name) || protocols[..at].contains(name) {
            return Err(UnsayableInHandshake::Protocols);
        }
    }
    for (name, value) in headers {
        let text = || String::from_utf8_lossy(name).into_owned();
        if !valid_name(name) || !valid_value(value) {
            return Err(UnsayableInHandshake::Malformed(text()));
        }
        if reserved_name(name) || name.eq_ignore_ascii_case(b"host") {
            return Err(UnsayableInHandshake::Reserved(text()));
        }
    }
    Ok(())
}

/// Frees a client.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_free(client: Option<Box<FmWsClient>>) {
    ask(client, (), |client| {
        drop(client);
    })
}

/// Returns the bytes to send. Valid until the next call for this client.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_output(client: Option<&FmWsClient>) -> FmStr {
    ask(client, FmStr::ABSENT, |client| FmStr::lend(&client.output))
}

/// Clears the output after C has sent all of it.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_flushed(client: Option<&mut FmWsClient>) {
    ask(client, (), |client| {
        client.output.clear();
        client.output.shrink_to(OUTPUT_BYTES_KEPT);
    })
}

/// Returns the free input buffer and its length; then call `fm_ws_client_filled`. NULL after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_room(
    client: Option<&mut FmWsClient>,
    len: Option<&mut MaybeUninit<usize>>,
) -> *mut c_char {
    ask(client, std::ptr::null_mut(), |client| {
        let room = client.room();
        put(len, room.len());
        room.as_mut_ptr().cast()
    })
}

/// Records that C read `bytes` bytes into the buffer, at most its length.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_filled(client: Option<&mut FmWsClient>, bytes: usize) {
    ask(client, (), |client| {
        client.pending.end = client.input.len().min(client.pending.end + bytes);
    })
}

/// Returns the next received item. FM_PARTIAL: read more. FM_IO: the server refused the handshake. FM_PROTOCOL: the
/// server violated the protocol; send the output and close. Send the output after FM_OK too.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_next(
    client: Option<&mut FmWsClient>,
    received: Option<&mut MaybeUninit<FmWsReceived>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(client, error, |client| match client.next() {
        Ok(next) => {
            put(received, next);
            Ok(())
        }
        Err((code, number, message)) => {
            let failed = FmWsReceived {
                code: number,
                ..FmWsReceived::nothing(FM_WS_RECEIVED_NOTHING)
            };
            put(received, failed);
            Err((code, message))
        }
    })
}

/// Records the end of the connection. Returns the close code for the application; 0 if a close frame already reported
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_ended(client: Option<&mut FmWsClient>) -> u16 {
    ask(client, 0, |client| {
        client
            .client
            .as_mut()
            .and_then(Client::handle_end)
            .unwrap_or(0)
    })
}

/// Adds a message to the output. FM_GONE if the connection is closed, FM_MISUSE for text that is not UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_send(
    client: Option<&mut FmWsClient>,
    binary: bool,
    data: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(client, error, |client| {
        let kind = if binary { Kind::Binary } else { Kind::Text };
        client.write(|client, key, out| client.send(kind, data.bytes(), key, out))
    })
}

/// Adds a ping to the output. FM_GONE if the connection is closed, FM_MISUSE if it is too long.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_ping(
    client: Option<&mut FmWsClient>,
    payload: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(client, error, |client| {
        client.write(|client, key, out| client.ping(payload.bytes(), key, out))
    })
}

/// Adds a close frame to the output, once. FM_MISUSE if the code or reason is not allowed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_close(
    client: Option<&mut FmWsClient>,
    code: i64,
    reason: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(client, error, |client| {
        let code = u16::try_from(code).unwrap_or(0);
        client.write(|client, key, out| client.close(code, reason.bytes(), key, out))
    })
}

/// Returns true if messages can be sent.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_can_send(client: Option<&FmWsClient>) -> bool {
    ask(client, false, |client| {
        client.client.as_ref().is_some_and(Client::can_send)
    })
}

/// Returns true if messages can still arrive.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_can_read(client: Option<&FmWsClient>) -> bool {
    ask(client, false, |client| {
        client.client.as_ref().is_some_and(Client::can_read)
    })
}

/// Returns the negotiated subprotocol; absent if there is none. Valid until the client is freed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_protocol(client: Option<&FmWsClient>) -> FmStr {
    ask(client, FmStr::ABSENT, |client| {
        FmStr::lend_option(client.protocol.as_deref())
    })
}
