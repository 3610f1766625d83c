//! The client's end of a WebSocket: `Fermata\WebSocket\Client`.
//!
//! C owns the connection: it sends what is in the output, reads into the room it is given, and asks what came.

use std::ffi::c_char;

use fermata_proto::response::{valid_name, valid_value};
use fermata_proto::ws::accept::KEY_BYTES;
use fermata_proto::ws::client::{Client, Received, Unsendable};
use fermata_proto::ws::handshake::reserved_name;
use fermata_proto::ws::message::Kind;
use fermata_proto::ws::opening::{self, NotOpened, Opening};

use crate::abi::{
    FM_GONE, FM_IO, FM_MISUSE, FM_PARTIAL, FM_PROTOCOL, FmError, FmHeader, FmStr, array, guard,
    guard_bool, put,
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
        let nothing = |kind| FmWsReceived {
            kind,
            code: 0,
            payload: FmStr::lend(b""),
        };
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
            None => nothing(FM_WS_RECEIVED_NOTHING),
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
///
/// # Safety
/// `opening` is valid for reading with all its strings and arrays; `error` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_new(
    opening: *const FmWsOpening,
    error: *mut FmError,
) -> *mut FmWsClient {
    let mut client = std::ptr::null_mut();
    // SAFETY: pointers and strings are valid by this function's contract.
    unsafe {
        guard(error, || {
            let asked = &*opening;
            let protocols = array(asked.protocols, asked.protocols_len);
            let protocols: Vec<&[u8]> = protocols.iter().map(|name| name.bytes()).collect();
            let headers = array(asked.headers, asked.headers_len).iter();
            let headers: Vec<(&[u8], &[u8])> = headers
                .map(|header| (header.name.bytes(), header.value.bytes()))
                .collect();
            check(&protocols, &headers).map_err(|message| (FM_MISUSE, message))?;
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
            client = Box::into_raw(Box::new(new));
            Ok(())
        })
    };
    client
}

fn check(protocols: &[&[u8]], headers: &[(&[u8], &[u8])]) -> Result<(), String> {
    for (at, name) in protocols.iter().enumerate() {
        if !valid_name(name) || protocols[..at].contains(name) {
            return Err("subprotocols have to be different names without spaces".into());
        }
    }
    for (name, value) in headers {
        let text = String::from_utf8_lossy(name);
        if !valid_name(name) || !valid_value(value) {
            return Err(format!(
                "the header {text:?} is malformed; leave out line breaks and control characters"
            ));
        }
        if reserved_name(name) || name.eq_ignore_ascii_case(b"host") {
            return Err(format!(
                "the header {text:?} is the client's own; leave it out"
            ));
        }
    }
    Ok(())
}

/// Releases a client.
///
/// # Safety
/// `client` is NULL or came from `fm_ws_client_new`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_free(client: *mut FmWsClient) {
    guard_bool(|| {
        if !client.is_null() {
            // SAFETY: from `Box::into_raw` and owned by the caller, by this function's contract.
            drop(unsafe { Box::from_raw(client) });
        }
        true
    });
}

/// What is to be sent. Valid until the next call for this client.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_output(client: *const FmWsClient) -> FmStr {
    // SAFETY: valid by this function's contract, and the reference to the output ends with this line.
    FmStr::lend(unsafe { &(*client).output })
}

/// All of the output was sent.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_flushed(client: *mut FmWsClient) {
    // SAFETY: valid by this function's contract, and used by nobody else meanwhile.
    let output = unsafe { &mut (*client).output };
    output.clear();
    output.shrink_to(OUTPUT_BYTES_KEPT);
}

/// Where to put what comes, and how much at most; then say so by `fm_ws_client_filled`. NULL after a panic.
///
/// # Safety
/// `client` is valid, `len` valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_room(
    client: *mut FmWsClient,
    len: *mut usize,
) -> *mut c_char {
    let mut place = std::ptr::null_mut();
    guard_bool(|| {
        // SAFETY: valid by this function's contract, and used by nobody else meanwhile.
        let room = unsafe { (*client).room() };
        // SAFETY: valid for writing by this function's contract.
        unsafe { put(len, room.len()) };
        place = room.as_mut_ptr().cast();
        true
    });
    place
}

/// So many bytes were put into the room: at most its length.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_filled(client: *mut FmWsClient, bytes: usize) {
    // SAFETY: valid by this function's contract, and used by nobody else meanwhile.
    let client = unsafe { &mut *client };
    client.pending.end = client.input.len().min(client.pending.end + bytes);
}

/// The next thing that came. FM_PARTIAL: read more. FM_IO: the handshake was refused. FM_PROTOCOL: the server is at fault;
/// send the output and close. Send the output after FM_OK too.
///
/// # Safety
/// `client` is valid, `received` valid for writing; `error` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_next(
    client: *mut FmWsClient,
    received: *mut FmWsReceived,
    error: *mut FmError,
) -> u32 {
    // SAFETY: pointers are valid by this function's contract.
    unsafe {
        guard(error, || match (*client).next() {
            Ok(next) => {
                put(received, next);
                Ok(())
            }
            Err((code, number, message)) => {
                put(&raw mut (*received).code, number);
                Err((code, message))
            }
        })
    }
}

/// The connection has ended. The code to tell the program; 0 when a close frame has told it.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_ended(client: *mut FmWsClient) -> u16 {
    // SAFETY: valid by this function's contract, and used by nobody else meanwhile.
    let client = unsafe { &mut (*client).client };
    client.as_mut().and_then(Client::handle_end).unwrap_or(0)
}

/// Puts a message into the output. FM_GONE when the connection is closed, FM_MISUSE for text that is not UTF-8.
///
/// # Safety
/// `client` and the string are valid; `error` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_send(
    client: *mut FmWsClient,
    binary: bool,
    data: FmStr,
    error: *mut FmError,
) -> u32 {
    // SAFETY: pointers and the string are valid by this function's contract.
    unsafe {
        guard(error, || {
            let kind = if binary { Kind::Binary } else { Kind::Text };
            let client = &mut *client;
            client.write(|client, key, out| client.send(kind, data.bytes(), key, out))
        })
    }
}

/// Puts a ping into the output. FM_GONE when the connection is closed, FM_MISUSE when it is too long.
///
/// # Safety
/// `client` and the string are valid; `error` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_ping(
    client: *mut FmWsClient,
    payload: FmStr,
    error: *mut FmError,
) -> u32 {
    // SAFETY: pointers and the string are valid by this function's contract.
    unsafe {
        guard(error, || {
            let client = &mut *client;
            client.write(|client, key, out| client.ping(payload.bytes(), key, out))
        })
    }
}

/// Puts a close frame into the output, once. FM_MISUSE when code or reason cannot be sent.
///
/// # Safety
/// `client` and the string are valid; `error` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_close(
    client: *mut FmWsClient,
    code: i64,
    reason: FmStr,
    error: *mut FmError,
) -> u32 {
    // SAFETY: pointers and the string are valid by this function's contract.
    unsafe {
        guard(error, || {
            let client = &mut *client;
            let code = u16::try_from(code).unwrap_or(0);
            client.write(|client, key, out| client.close(code, reason.bytes(), key, out))
        })
    }
}

/// Whether messages can be sent.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_can_send(client: *const FmWsClient) -> bool {
    // SAFETY: valid by this function's contract.
    let client = unsafe { &(*client).client };
    client.as_ref().is_some_and(Client::can_send)
}

/// Whether messages can come.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_can_read(client: *const FmWsClient) -> bool {
    // SAFETY: valid by this function's contract.
    let client = unsafe { &(*client).client };
    client.as_ref().is_some_and(Client::can_read)
}

/// The subprotocol that was agreed on; absent when there is none. Valid as long as the client.
///
/// # Safety
/// `client` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_client_protocol(client: *const FmWsClient) -> FmStr {
    // SAFETY: valid by this function's contract.
    FmStr::lend_option(unsafe { (*client).protocol.as_deref() })
}
