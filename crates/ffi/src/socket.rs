//! WebSockets of the server: routes, the handshake, messages and channels.
//!
//! A socket's handle is never 0 and identifies one connection of this worker. It is valid until the `fm_next_event`
//! after its FM_EVENT_WS_CLOSE. Functions return FM_GONE for the handle of a closed socket.

use std::io::Write as _;
use std::mem::MaybeUninit;

use fermata_engine::Since;
use fermata_engine::websocket::{
    AcceptError, Callbacks, Compression, Format, Join, OriginPolicy, QueuePolicy, Route, SendError,
};

use crate::abi::{
    FM_BACKPRESSURE, FM_GONE, FM_MISUSE, FmError, FmHeader, FmId, FmRequest, FmSocket, FmStr,
    array, ask, guard, misuse, put,
};
use crate::server::FmServer;
use crate::worker::{FmDetail, FmWorker, Known, id_of};

/// A handshake callback exists: deliver FM_EVENT_UPGRADE.
pub const FM_WS_ON_UPGRADE: u32 = 1;
/// An open callback exists: deliver FM_EVENT_WS_OPEN.
pub const FM_WS_ON_OPEN: u32 = 2;
/// A message callback exists: deliver FM_EVENT_WS_MESSAGE.
pub const FM_WS_ON_MESSAGE: u32 = 4;
/// A close callback exists: deliver FM_EVENT_WS_CLOSE.
pub const FM_WS_ON_CLOSE: u32 = 8;

/// Refuses a message that exceeds the queue with FM_BACKPRESSURE.
pub const FM_WS_REFUSE: u32 = 0;
/// Drops the oldest messages that are completely unsent.
pub const FM_WS_DROP_OLDEST: u32 = 1;
/// Closes the socket with code 1013.
pub const FM_WS_CLOSE_SLOW: u32 = 2;

/// Sends the data of each channel message as a text message.
pub const FM_WS_FORMAT_DATA: u32 = 0;
/// Sends messages, joins, leaves and gaps as JSON with channel, id, event and data.
pub const FM_WS_FORMAT_JSON: u32 = 1;

/// WebSocket route. For bytes and milliseconds, -1 means the setting of the same name with the prefix `websocket_`. 0 disables a
/// time.
#[repr(C)]
pub struct FmWsRoute {
    /// Handler number, set in every event.
    pub handler: u32,
    /// FM_WS_ON_*; events without a callback are not delivered.
    pub callbacks: u32,
    /// Allowed origins, `scheme://host` or `scheme://host:port`. NULL allows only the origin of the same host.
    pub origins: *const FmStr,
    /// Number of `origins`.
    pub origins_len: usize,
    /// True if all origins are allowed.
    pub any_origin: bool,
    /// Subprotocols in order of preference.
    pub protocols: *const FmStr,
    /// Number of `protocols`.
    pub protocols_len: usize,
    /// Maximum size of a message, in bytes.
    pub message_bytes_max: i64,
    /// Maximum size of a frame, in bytes. 0 means the same as for a message.
    pub frame_bytes_max: i64,
    /// Maximum number of bytes that are queued for one socket.
    pub queue_bytes_max: i64,
    /// Idle time before a ping.
    pub ping_interval_ms: i64,
    /// Time to wait for any input after a ping. After this time, the connection is closed.
    pub pong_timeout_ms: i64,
    /// Time without a message before the socket is closed.
    pub idle_timeout_ms: i64,
    /// FM_WS_REFUSE, FM_WS_DROP_OLDEST or FM_WS_CLOSE_SLOW.
    pub queue_policy: u32,
    /// True if permessage-deflate is negotiated. The fields below apply only then.
    pub compresses: bool,
    /// True to keep the compression window between sent messages.
    pub server_takeover: bool,
    /// True if clients may keep the compression window between their messages.
    pub client_takeover: bool,
    /// Window size as a power of two, 9 to 15.
    pub window_bits: u8,
    /// Compression level, 1 (fast) to 9 (small).
    pub level: u8,
    /// Shorter messages are sent uncompressed.
    pub compress_bytes_min: u32,
}

impl FmWsRoute {
    fn origins(&self) -> &[FmStr] {
        // SAFETY: C sets both fields: an array and its length.
        unsafe { array(self.origins, self.origins_len) }
    }

    fn protocols(&self) -> &[FmStr] {
        // SAFETY: as above.
        unsafe { array(self.protocols, self.protocols_len) }
    }
}

/// A subscription of a socket to a channel.
#[repr(C)]
pub struct FmWsJoin {
    /// Channel name.
    pub channel: FmStr,
    /// User for presence. `ptr` is NULL for none.
    pub user: FmStr,
    /// JSON about the user. `ptr` is NULL for none.
    pub info: FmStr,
    /// True if `join` and `leave` events are published.
    pub announce: bool,
    /// Last event id that the client received. `ptr` is NULL for none.
    pub since: FmStr,
    /// True if a client without an id receives all stored events.
    pub from_start: bool,
    /// FM_WS_FORMAT_*.
    pub format: u32,
}

/// State of a socket.
#[repr(C)]
pub struct FmWsInfo {
    /// True if messages can be sent.
    pub open: bool,
    /// Bytes queued for the client.
    pub queued_bytes: usize,
    /// Subprotocol. `ptr` is NULL for none. Valid until the next `fm_next_event`.
    pub protocol: FmStr,
}

/// Opens WebSockets at paths that match `pattern`. FM_MISUSE for an invalid or duplicate pattern (a WebSocket route
/// counts as a GET route) and for options that cannot work.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_websocket(
    server: Option<&mut FmServer>,
    pattern: FmStr,
    route: Option<&FmWsRoute>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server.zip(route), error, |(server, route)| {
        let texts = |all: &[FmStr]| all.iter().map(|text| text.bytes().to_vec()).collect();
        let has = |callback| route.callbacks & callback != 0;
        let own = |value| u64::try_from(value).ok();
        let origins = if route.any_origin {
            OriginPolicy::Any
        } else if route.origins.is_null() {
            OriginPolicy::SameHost
        } else {
            OriginPolicy::Listed(texts(route.origins()))
        };
        let route = Route {
            handler: route.handler,
            callbacks: Callbacks {
                upgrade: has(FM_WS_ON_UPGRADE),
                open: has(FM_WS_ON_OPEN),
                message: has(FM_WS_ON_MESSAGE),
                control: false,
                close: has(FM_WS_ON_CLOSE),
            },
            origins,
            protocols: texts(route.protocols()),
            message_bytes_max: own(route.message_bytes_max),
            frame_bytes_max: own(route.frame_bytes_max),
            queue_bytes_max: own(route.queue_bytes_max),
            ping_interval_ms: own(route.ping_interval_ms),
            pong_timeout_ms: own(route.pong_timeout_ms),
            pong_timeout_close: None,
            idle_timeout_ms: own(route.idle_timeout_ms),
            queue_policy: match route.queue_policy {
                FM_WS_REFUSE => QueuePolicy::Refuse,
                FM_WS_DROP_OLDEST => QueuePolicy::DropOldest,
                _ => QueuePolicy::Close,
            },
            compression: route.compresses.then_some(Compression {
                server_takeover: route.server_takeover,
                client_takeover: route.client_takeover,
                window_bits: route.window_bits,
                level: route.level,
                bytes_min: route.compress_bytes_min,
            }),
        };
        server
            .server
            .websocket(&pattern.text(), route)
            .map_err(|error| (FM_MISUSE, error.to_string()))
    })
}

/// Accepts the handshake of FM_EVENT_UPGRADE with the handle `request`. With `protocol.ptr` NULL it selects the first
/// of the route's subprotocols that the client offers. After an error (FM_MISUSE, FM_GONE) the request is still open.
/// Each header has passed `fm_header_valid`.
///
/// # Safety
/// The contract at the head of the header: bytes and arrays have the documented sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_accept_request(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    protocol: FmStr,
    headers: *const FmHeader,
    headers_len: usize,
    socket: Option<&mut MaybeUninit<FmSocket>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        // SAFETY: C passes both: an array and its length.
        let headers = unsafe { array(headers, headers_len) };
        let headers: Vec<(&[u8], &[u8])> = headers.iter().map(FmHeader::line).collect();
        let worker = &mut worker.worker;
        let opened = worker
            .accept_upgrade(request, protocol.option(), &headers)
            .map_err(|error| match error {
                AcceptError::Gone => (FM_GONE, error.to_string()),
                AcceptError::Misuse(cause) => misuse(cause),
            })?;
        put(socket, opened.into());
        Ok(())
    })
}

/// Queues a message for a socket. FM_GONE, FM_BACKPRESSURE (policy FM_WS_REFUSE), FM_MISUSE (text that is not UTF-8).
/// `payload` may be the payload of the current FM_EVENT_WS_MESSAGE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_send(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    binary: bool,
    data: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let socket = socket.known()?;
        let worker = &mut worker.worker;
        worker.send(socket, binary, data.bytes()).map_err(code_of)
    })
}

/// Sends a message to a socket of any worker, identified by the text of `fm_ws_id`. FM_MISUSE, FM_BACKPRESSURE (no
/// space in the shared log). FM_OK does not confirm delivery: the socket may be closed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_send_to(
    worker: Option<&mut FmWorker>,
    id: FmStr,
    binary: bool,
    data: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let worker = &mut worker.worker;
        worker
            .send_to(id.bytes(), binary, data.bytes())
            .map_err(code_of)
    })
}

/// Starts to close a socket. No message can be sent afterwards. FM_EVENT_WS_CLOSE follows after the client's close frame or a
/// timeout. FM_GONE, FM_MISUSE (code or reason).
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_disconnect(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    code: u16,
    reason: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let socket = socket.known()?;
        let worker = &mut worker.worker;
        worker
            .disconnect(socket, code, reason.bytes())
            .map_err(code_of)
    })
}

/// Closes a socket with code 1011 after its handler failed, logs `message` and counts a failed handler.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_fail(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    message: FmStr,
    detail: Option<&FmDetail>,
) {
    ask(
        worker.zip(socket.id()).zip(detail),
        (),
        |((worker, socket), detail)| {
            let worker = &mut worker.worker;
            let known = Known::of(worker, detail);
            worker.fail_socket(socket, &message.text(), &known.detail());
        },
    )
}

/// Subscribes a socket to a channel. FM_GONE, FM_MISUSE, FM_BACKPRESSURE (presence is full).
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_join(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    join: Option<&FmWsJoin>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(join), error, |(worker, join)| {
        let socket = socket.known()?;
        let join = Join {
            channel: join.channel.bytes(),
            user: join.user.option(),
            info: join.info.option(),
            announces: join.announce,
            since: Since::of(join.since.option(), join.from_start),
            formerly: None,
            format: match join.format {
                FM_WS_FORMAT_JSON => Format::Json,
                _ => Format::Data,
            },
        };
        let worker = &mut worker.worker;
        worker.join_channel(socket, &join).map_err(code_of)
    })
}

/// Ends a subscription. Does nothing if there is none. FM_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_leave(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    channel: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let socket = socket.known()?;
        let worker = &mut worker.worker;
        worker
            .leave_channel(socket, channel.bytes())
            .map_err(code_of)
    })
}

/// Fills `info` with the state of a socket. Returns false if the socket is closed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_info(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    info: Option<&mut MaybeUninit<FmWsInfo>>,
) -> bool {
    ask(worker.zip(socket.id()), false, |(worker, socket)| {
        let Some(found) = worker.worker.socket_info(socket) else {
            return false;
        };
        put(
            info,
            FmWsInfo {
                open: found.is_open,
                queued_bytes: found.queued_bytes,
                protocol: FmStr::lend_option(found.protocol),
            },
        );
        true
    })
}

/// Returns the text by which any worker can send to the socket. FM_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_id(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    id: Option<&mut MaybeUninit<FmId>>,
) -> u32 {
    guard(worker, None, |worker| {
        let socket = socket.known()?;
        let text = worker.worker.socket_id(socket);
        let text = text.ok_or_else(|| code_of(SendError::Gone))?;
        put(id, id_of(&text));
        Ok(())
    })
}

/// Returns the client's address (without port; `unix` for a Unix socket) and port. The address is valid until the
/// next call of this function or of `fm_request_remote`. False if the socket is closed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_socket_remote(
    worker: Option<&mut FmWorker>,
    socket: FmSocket,
    address: Option<&mut MaybeUninit<FmStr>>,
    port: Option<&mut MaybeUninit<u16>>,
) -> bool {
    ask(worker.zip(socket.id()), false, |(worker, socket)| {
        let Some(peer) = worker.worker.socket_peer(socket) else {
            return false;
        };
        let text = &mut worker.text;
        text.clear();
        let _ = match peer.ip() {
            Some(ip) => write!(text, "{ip}"),
            None => write!(text, "unix"),
        };
        put(address, FmStr::lend(text));
        put(port, peer.port());
        true
    })
}

fn code_of(error: SendError) -> (u32, String) {
    let code = match &error {
        SendError::Gone => FM_GONE,
        SendError::Backpressure(_) => FM_BACKPRESSURE,
        SendError::Misuse(_) => FM_MISUSE,
    };
    (code, error.to_string())
}
