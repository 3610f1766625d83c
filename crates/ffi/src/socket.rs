//! WebSockets of the server: routes, the handshake, messages, channels.
//!
//! A socket's handle is never 0, names one connection of this worker and is valid until its
//! FM_EVENT_WS_CLOSE has been handled, that is until the `fm_next_event` after it. A function that is
//! given a handle of a socket that has ended returns FM_GONE.

use std::io::Write as _;
use std::mem::MaybeUninit;

use fermata_engine::websocket::{
    AcceptError, Callbacks, Compression, Format, Join, OriginPolicy, QueuePolicy, Route, SendError,
};

use crate::abi::{
    FM_BACKPRESSURE, FM_GONE, FM_MISUSE, FmError, FmHeader, FmId, FmRequest, FmSocket, FmStr,
    array, ask, guard, misuse, put,
};
use crate::server::FmServer;
use crate::worker::{FmDetail, FmWorker, Known, id_of};

/// There is a callback for handshakes: FM_EVENT_UPGRADE is handed out.
pub const FM_WS_ON_UPGRADE: u32 = 1;
/// There is a callback for open sockets: FM_EVENT_WS_OPEN is handed out.
pub const FM_WS_ON_OPEN: u32 = 2;
/// There is a callback for messages: FM_EVENT_WS_MESSAGE is handed out.
pub const FM_WS_ON_MESSAGE: u32 = 4;
/// There is a callback for sockets that have ended: FM_EVENT_WS_CLOSE is handed out.
pub const FM_WS_ON_CLOSE: u32 = 8;

/// A message that does not fit into the queue is refused with FM_BACKPRESSURE.
pub const FM_WS_REFUSE: u32 = 0;
/// Older messages of which nothing was sent yet make room.
pub const FM_WS_DROP_OLDEST: u32 = 1;
/// The socket is closed with code 1013.
pub const FM_WS_CLOSE_SLOW: u32 = 2;

/// The data of a channel's messages, each as a text message.
pub const FM_WS_FORMAT_DATA: u32 = 0;
/// Messages, joins, leaves and gaps as JSON: channel, id, event and data.
pub const FM_WS_FORMAT_JSON: u32 = 1;

/// The WebSockets of one path. Numbers of bytes and milliseconds: -1 = the setting of that name after
/// `websocket_`; 0 turns a time off.
#[repr(C)]
pub struct FmWsRoute {
    /// Handed out with every event.
    pub handler: u32,
    /// FM_WS_ON_*: events without a callback are not handed out.
    pub callbacks: u32,
    /// Pages that may connect, `scheme://host` or `scheme://host:port`; NULL = those of the same host.
    pub origins: *const FmStr,
    /// Their number.
    pub origins_len: usize,
    /// All pages may connect.
    pub any_origin: bool,
    /// Subprotocols, the preferred one first.
    pub protocols: *const FmStr,
    /// Their number.
    pub protocols_len: usize,
    /// Bytes of a message.
    pub message_bytes_max: i64,
    /// Bytes of a frame; 0 = as many as a message.
    pub frame_bytes_max: i64,
    /// Bytes that may wait for one socket.
    pub queue_bytes_max: i64,
    /// Silence after which a ping is sent.
    pub ping_interval_ms: i64,
    /// Silence after a ping after which the connection is cut off.
    pub pong_timeout_ms: i64,
    /// Time without a message after which the socket is closed.
    pub idle_timeout_ms: i64,
    /// FM_WS_REFUSE, FM_WS_DROP_OLDEST or FM_WS_CLOSE_SLOW.
    pub queue_policy: u32,
    /// Whether permessage-deflate is negotiated; what follows counts only then.
    pub compresses: bool,
    /// Keep the window from message to message for what is sent.
    pub server_takeover: bool,
    /// Let clients keep it for what they send.
    pub client_takeover: bool,
    /// 9 to 15: the window is as large as this power of two.
    pub window_bits: u8,
    /// 1 (fast) to 9 (small).
    pub level: u8,
    /// Shorter messages are sent as they are.
    pub compress_bytes_min: u32,
}

impl FmWsRoute {
    fn origins(&self) -> &[FmStr] {
        // SAFETY: C sets both fields: an array, and how many values it has.
        unsafe { array(self.origins, self.origins_len) }
    }

    fn protocols(&self) -> &[FmStr] {
        // SAFETY: as above.
        unsafe { array(self.protocols, self.protocols_len) }
    }
}

/// A channel for a socket.
#[repr(C)]
pub struct FmWsJoin {
    /// The channel.
    pub channel: FmStr,
    /// The user that the socket counts as; `ptr` NULL for none.
    pub user: FmStr,
    /// JSON about the user; `ptr` NULL for none.
    pub info: FmStr,
    /// Whether `join` and `leave` are published.
    pub announce: bool,
    /// Last event id of the client; `ptr` NULL for none.
    pub since: FmStr,
    /// FM_WS_FORMAT_*.
    pub format: u32,
}

/// What can be said about a socket.
#[repr(C)]
pub struct FmWsInfo {
    /// Whether something can be sent.
    pub open: bool,
    /// Bytes that wait for the client.
    pub queued_bytes: usize,
    /// The subprotocol; `ptr` NULL for none. Valid until the next `fm_next_event`.
    pub protocol: FmStr,
}

/// Opens WebSockets at paths that match `pattern`. FM_MISUSE for a bad or a taken pattern (a WebSocket
/// takes the place of a GET route) and for options that cannot work.
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

/// Accepts the handshake of FM_EVENT_UPGRADE: `request` is its handle. With `protocol.ptr` NULL the
/// first of the route's subprotocols that the client offers is taken. On an error (FM_MISUSE, FM_GONE)
/// the request is still open. Each header has passed `fm_header_valid`.
///
/// # Safety
/// What the header says of pointers: those of bytes and arrays have as much room as is said above.
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
        // SAFETY: C gives both: an array, and how many values it has.
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

/// Queues a message for a socket. FM_GONE, FM_BACKPRESSURE (policy FM_WS_REFUSE), FM_MISUSE (text that
/// is not UTF-8). The payload of the current FM_EVENT_WS_MESSAGE may be handed back as it is.
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

/// Sends a message to a socket of any worker, by the text that `fm_ws_id` gave. FM_MISUSE, FM_BACKPRESSURE
/// (no room in the shared log). FM_OK does not say that it has arrived: the socket may have left.
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

/// Begins to close a socket; nothing can be sent from here on. FM_EVENT_WS_CLOSE follows when the client
/// has answered or its time is over. FM_GONE, FM_MISUSE (code or reason).
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

/// Ends a socket whose handler failed: close code 1011 to the client, `message` to the log. Counted
/// as a failure of a handler.
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
            since: join.since.option(),
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

/// Ends a subscription; nothing happens when there is none. FM_GONE.
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

/// What can be said about a socket. False when it has ended.
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

/// The text by which any worker can send to a socket. FM_GONE.
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

/// A socket's client: its address (without port; `unix` for a Unix socket) and port. The address is valid
/// until the next call of this function or of `fm_request_remote`. False when the socket has ended.
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
