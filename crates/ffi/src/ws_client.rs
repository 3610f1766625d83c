//! The client's end of a WebSocket: `Fermata\WebSocket\Client`.
//!
//! C owns the connection: it sends what is in the output, reads into the room it is given, and asks what came.

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

/// Nothing that came needs the program; there may be output to send.
pub const FM_WS_RECEIVED_NOTHING: u32 = 0;
/// The handshake has succeeded.
pub const FM_WS_RECEIVED_OPEN: u32 = 1;
/// A text message.
pub const FM_WS_RECEIVED_TEXT: u32 = 2;
/// A binary message.
pub const FM_WS_RECEIVED_BINARY: u32 = 3;
/// The answer to a ping.
pub const FM_WS_RECEIVED_PONG: u32 = 4;
/// A close frame; nothing follows.
pub const FM_WS_RECEIVED_CLOSE: u32 = 5;

/// Room for input: large enough that reads are few, small enough to stay in the cache.
const INPUT_BYTES: usize = 64 * 1024;

/// An output that has grown beyond this is given back once it is sent.
const OUTPUT_BYTES_KEPT: usize = 64 * 1024;

/// Masking keys drawn from the kernel at a time: a system call for each would cost more than its frame.
const KEYS: usize = 64;

/// What a client asks for.
#[repr(C)]
pub struct FmWsOpening {
    /// The value of `Host`.
    pub host: FmStr,
    /// Path and query.
    pub target: FmStr,
    /// Subprotocols, the favourite first.
    pub protocols: *const FmStr,
    /// Number of subprotocols.
    pub protocols_len: usize,
    /// Further headers.
    pub headers: *const FmHeader,
    /// Number of further headers.
    pub headers_len: usize,
    /// The longest message that is accepted.
    pub message_bytes_max: usize,
    /// Whether compression is offered.
    pub compression: bool,
}

/// What has come.
#[repr(C)]
pub struct FmWsReceived {
    /// FM_WS_RECEIVED_*.
    pub kind: u32,
    /// Of a close frame its code, 1005 for none; of a refused handshake the status; of a violation the close code.
    pub code: u16,
    /// The message, the pong's payload or the close frame's reason, until the next call.
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
        // SAFETY: C sets both fields of each: an array, and how many values it has.
        unsafe {
            (
                array(self.protocols, self.protocols_len),
                array(self.headers, self.headers_len),
            )
        }
    }
}

/// A connection, from the handshake to the end.
pub struct FmWsClient {
    key: [u8; KEY_BYTES],
    asked: Vec<Vec<u8>>,
    compression: bool,
    message_bytes_max: usize,
    /// `None` while the handshake is not over.
    client: Option<Client>,
    protocol: Option<Vec<u8>>,
    input: Vec<u8>,
    /// What of `input` came and was not looked at.
    pending: std::ops::Range<usize>,
    output: Vec<u8>,
    /// Payloads that are not in `input`.
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

    /// Room behind the input that is not used up: there is some, since what is pending is at most a head.
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

    /// Reads the answer to the handshake; `false` while it is not whole.
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
            // Pings are answered by the client itself.
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

    /// Lets an open connection write to the output.
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

/// Checks what is asked for. NULL with an error: FM_MISUSE.
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

/// What the program wants to say in its handshake and may not.
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

/// Releases a client.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_free(client: Option<Box<FmWsClient>>) {
    ask(client, (), |client| {
        drop(client);
    })
}

/// What is to be sent. Valid until the next call for this client.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_output(client: Option<&FmWsClient>) -> FmStr {
    ask(client, FmStr::ABSENT, |client| FmStr::lend(&client.output))
}

/// All of the output was sent.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_flushed(client: Option<&mut FmWsClient>) {
    ask(client, (), |client| {
        client.output.clear();
        client.output.shrink_to(OUTPUT_BYTES_KEPT);
    })
}

/// Where to put what comes, and how much at most; then say so by `fm_ws_client_filled`. NULL after a panic.
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

/// So many bytes were put into the room: at most its length.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_filled(client: Option<&mut FmWsClient>, bytes: usize) {
    ask(client, (), |client| {
        client.pending.end = client.input.len().min(client.pending.end + bytes);
    })
}

/// The next thing that came. FM_PARTIAL: read more. FM_IO: the handshake was refused. FM_PROTOCOL: the server is at fault;
/// send the output and close. Send the output after FM_OK too.
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

/// The connection has ended. The code to tell the program; 0 when a close frame has told it.
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

/// Puts a message into the output. FM_GONE when the connection is closed, FM_MISUSE for text that is not UTF-8.
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

/// Puts a ping into the output. FM_GONE when the connection is closed, FM_MISUSE when it is too long.
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

/// Puts a close frame into the output, once. FM_MISUSE when code or reason cannot be sent.
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

/// Whether messages can be sent.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_can_send(client: Option<&FmWsClient>) -> bool {
    ask(client, false, |client| {
        client.client.as_ref().is_some_and(Client::can_send)
    })
}

/// Whether messages can come.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_can_read(client: Option<&FmWsClient>) -> bool {
    ask(client, false, |client| {
        client.client.as_ref().is_some_and(Client::can_read)
    })
}

/// The subprotocol that was agreed on; absent when there is none. Valid as long as the client.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_client_protocol(client: Option<&FmWsClient>) -> FmStr {
    ask(client, FmStr::ABSENT, |client| {
        FmStr::lend_option(client.protocol.as_deref())
    })
}
