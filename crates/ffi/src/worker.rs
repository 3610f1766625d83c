//! A running worker: hands events to C and receives responses and messages.

use std::collections::HashMap;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::Duration;

use fermata_config::LogLevel;
use fermata_engine::{
    Detail, EXIT_RETIRED, Event, History, HistoryError, HistoryReader, Hold, HoldError, Member,
    MembersError, Message, Past, RequestId, RequestView, Since, StreamFormat, Worker,
};
use fermata_fastcgi::FastCgi;
use fermata_gateway::{Hub, Opening};
use fermata_io::{Deadline, Kernel};
use fermata_tls::{ClientCertificate, Tls};

use crate::abi::{
    FM_BACKPRESSURE, FM_GONE, FM_ID_BYTES, FM_MISUSE, Failure, FmError, FmHeader, FmId, FmMessage,
    FmReader, FmReading, FmRequest, FmSocket, FmStr, NOTHING, array, ask, guard, log_level, misuse,
    put,
};
use crate::grip::{FmGrip, Front, Grip};

/// `request` needs a response.
pub const FM_EVENT_REQUEST: u32 = 1;
/// The worker has stopped. Free it, and exit the process with `fm_worker_exit_code`.
pub const FM_EVENT_STOP: u32 = 2;
/// `request` is a valid WebSocket handshake: accept it with `fm_ws_accept_request`, or refuse it with `fm_respond` or
/// `fm_fail`. All fields of FM_EVENT_REQUEST are set.
pub const FM_EVENT_UPGRADE: u32 = 3;
/// `socket` is open. Only `kind`, `handler` and `socket` are set.
pub const FM_EVENT_WS_OPEN: u32 = 4;
/// `socket` received the message `body`. Only `kind`, `handler`, `socket`, `binary` and `body` are set.
pub const FM_EVENT_WS_MESSAGE: u32 = 5;
/// `socket` is closed with `code` (1005: no code, 1006: no close frame) and the reason `body`. Occurs exactly once
/// per accepted socket. Only `kind`, `handler`, `socket`, `code` and `body` are set.
pub const FM_EVENT_WS_CLOSE: u32 = 6;
/// The client of `request` or `socket` disconnected while its handler waits. The other of these two fields is 0. The event occurs
/// at most once for each. Only `kind`, `request` and `socket` are set.
pub const FM_EVENT_GONE: u32 = 7;
/// The time of `fm_worker_wake_at` is reached, or `fm_file_next` or `fm_publish_next` may have a result. Only `kind`
/// is set.
pub const FM_EVENT_WAKE: u32 = 8;
/// The response stream of `request` accepts its next piece: call `fm_stream_write`, `fm_stream_end` or
/// `fm_stream_fail`. Only `kind`, `handler` and `request` are set.
pub const FM_EVENT_STREAM: u32 = 9;
/// The client disconnected before the response stream of `request` was complete. Only `kind`, `handler` and `request`
/// are set.
pub const FM_EVENT_STREAM_END: u32 = 10;
/// The descriptor `handler`, registered by `fm_watch`, is ready for `code` (FM_WATCH_*) or has hung up. Only `kind`,
/// `handler` and `code` are set.
pub const FM_EVENT_READY: u32 = 11;

/// More of the body of `request` can be read by `fm_body_read`, or the rest will not arrive. Only `kind` and
/// `request` are set.
pub const FM_EVENT_BODY: u32 = 12;
/// A worker of another server in the cluster sent `body` by `fm_worker_send_to_servers`. Only `kind` and `body` are
/// set.
pub const FM_EVENT_PEER_MESSAGE: u32 = 13;
/// The channel of the reader `fm_reader_woken` may have further events for `fm_reader_next`. Only `kind` is set.
pub const FM_EVENT_CHANNEL: u32 = 14;

/// The held client receives server-sent events.
pub const FM_FORMAT_EVENT_STREAM: u8 = 0;

/// A slow client receives a `gap` event in place of the events it missed.
pub const FM_SLOW_GAP: u32 = 0;
/// A slow client is closed. It reconnects with its last event id.
pub const FM_SLOW_CLOSE: u32 = 1;

/// A worker process.
pub struct FmWorker {
    pub(crate) worker: Worker<Tls<Kernel>>,
    /// Request of the current event.
    pub(crate) request: Option<RequestId>,
    /// Connection to the GRIP edges. `None`: there are no edges.
    pub(crate) grip: Option<Box<Grip>>,
    /// Pusher and Mercure hubs; `None` if neither is configured.
    pub(crate) hub: Option<Box<Hub>>,
    /// Client of PHP-FPM; `None` if no route uses it.
    fastcgi: Option<Box<FastCgi>>,
    /// Wake-up time that C set by `fm_worker_wake_at`.
    pub(crate) wake: Deadline,
    members: Vec<Member>,
    members_out: Vec<FmMember>,
    past: Vec<Past>,
    past_out: Vec<FmPast>,
    /// Pending reads of history, and the number that was assigned to the last one.
    histories: HashMap<FmReading, HistoryReader>,
    last_reading: FmReading,
    /// Reader of the last FM_EVENT_CHANNEL.
    pub(crate) woken_reader: FmReader,
    pub(crate) text: Vec<u8>,
    /// Certificate of the current request's client, kept alive while C borrows it.
    pub(crate) client: Option<Rc<ClientCertificate>>,
}

impl FmWorker {
    pub(crate) fn new(
        mut worker: Worker<Tls<Kernel>>,
        front: Option<Front>,
        opening: Option<Opening>,
        fastcgi: Option<Box<FastCgi>>,
    ) -> FmWorker {
        worker.set_tables(crate::table::figures());
        FmWorker {
            grip: front.map(|front| Grip::begin(front, &mut worker)),
            hub: opening.map(|opening| Box::new(opening.begin(&mut worker))),
            fastcgi,
            wake: Deadline::NEVER,
            worker,
            request: None,
            members: Vec::new(),
            members_out: Vec::new(),
            past: Vec::new(),
            past_out: Vec::new(),
            histories: HashMap::new(),
            last_reading: FmReading::NONE,
            woken_reader: FmReader::NONE,
            text: Vec::new(),
            client: None,
        }
    }

    /// Waits for the next event that C handles.
    fn next_event(&mut self) -> Event {
        if !self.has_parts() {
            return self.worker.next_event();
        }
        loop {
            self.plan_wake();
            let event = self.worker.next_event();
            if !self.is_taken(event) {
                return event;
            }
        }
    }

    /// Like `next_event`, for a worker inside a test process. Returns `None` if nothing is left to do now.
    pub(crate) fn next_event_within(&mut self, wait: Duration) -> Option<Event> {
        if !self.has_parts() {
            return self.worker.next_event_within(wait);
        }
        loop {
            self.plan_wake();
            let event = self.worker.next_event_within(wait)?;
            if !self.is_taken(event) {
                return Some(event);
            }
        }
    }

    /// Returns true if the hub or FastCGI handles events before C.
    fn has_parts(&self) -> bool {
        self.hub.is_some() || self.fastcgi.is_some()
    }

    /// Sets the wake-up to the earliest time of C, the hub and FastCGI.
    fn plan_wake(&mut self) {
        let hub = self.hub.as_mut().map(|hub| hub.due(&mut self.worker));
        let fastcgi = self.fastcgi.as_ref().map(|it| it.due());
        let parts = hub.into_iter().chain(fastcgi);
        self.worker
            .waiting
            .wake_at(parts.fold(self.wake, Deadline::min));
    }

    /// Returns true if the hub or FastCGI handled the event.
    fn is_taken(&mut self, event: Event) -> bool {
        let FmWorker {
            worker,
            hub,
            fastcgi,
            ..
        } = self;
        if hub.as_mut().is_some_and(|it| it.handle(worker, event))
            || fastcgi.as_mut().is_some_and(|it| it.handle(worker, event))
        {
            return true;
        }
        if event == Event::Wake {
            // C sets the time again after each wake-up.
            self.wake = Deadline::NEVER;
        }
        false
    }

    /// Keeps the certificate of the current request's client so that C can borrow it.
    pub(crate) fn keep_client(&mut self) {
        self.client = self.worker.client_certificate();
    }

    /// Returns true if the client's connection is encrypted, to this server or to a trusted proxy.
    pub(crate) fn is_secure(&self) -> bool {
        self.worker.is_client_secure()
    }

    /// Returns the current request if `request` identifies it.
    pub(crate) fn view(&self, request: FmRequest) -> Option<RequestView<'_>> {
        (request.id()? == self.request?).then(|| self.worker.request())
    }
}

/// An event from `fm_next_event`.
#[repr(C)]
pub struct FmEvent {
    /// FM_EVENT_*.
    pub kind: u32,
    /// Handler number of the route.
    pub handler: u32,
    /// Handle of the request, which the response refers to.
    pub request: FmRequest,
    /// WebSocket of FM_EVENT_WS_*.
    pub socket: FmSocket,
    /// Close code of FM_EVENT_WS_CLOSE.
    pub code: u16,
    /// True if the message of FM_EVENT_WS_MESSAGE is binary. Otherwise the message is valid UTF-8.
    pub binary: bool,
    /// Status that the core would have sent without the handlers of `fm_server_fallback` and `fm_server_guard_files`. 0 for all
    /// other handlers.
    pub unrouted: u16,
    /// Content without transfer coding; for a WebSocket the message or the close reason.
    pub body: FmStr,
    /// Method as sent.
    pub method: FmStr,
    /// Path, percent-decoded.
    pub path: FmStr,
    /// Request-target as sent.
    pub target: FmStr,
    /// Query after the first `?`, as sent; `ptr` NULL without a `?`.
    pub query: FmStr,
    /// Allow header for a response with the status `unrouted`. `ptr` is NULL for none.
    pub allow: FmStr,
    /// Number of header field lines.
    pub headers_len: u32,
    /// Parts of the body outside of `body`, for `fm_upload_*`. 0 means none. Release the upload after the request.
    /// FM_UPLOAD_ARRIVING: the body is still arriving and `fm_body_read` reads it.
    pub upload: u32,
}

/// A complete response.
#[repr(C)]
pub struct FmResponse {
    /// 200 to 599.
    pub status: u32,
    /// Content-Type. `ptr` is NULL for none.
    pub content_type: FmStr,
    /// Additional field lines; each has passed `fm_header_valid`.
    pub headers: *const FmHeader,
    /// Number of `headers`.
    pub headers_len: usize,
    /// Content.
    pub body: FmStr,
    /// Reason phrase for HTTP/1. `ptr` is NULL for the standard phrase. The phrase has passed `fm_header_valid`.
    pub reason: FmStr,
}

impl FmResponse {
    pub(crate) fn lines(&self) -> &[FmHeader] {
        // SAFETY: C sets both fields: an array and its length.
        unsafe { array(self.headers, self.headers_len) }
    }

    /// Passes the reason phrase to the engine, for the next response to `request`.
    pub(crate) fn set_reason(&self, worker: &mut Worker<Tls<Kernel>>, request: RequestId) {
        if let Some(phrase) = self.reason.option() {
            worker
                .http
                .set_reason(request, u16::try_from(self.status).unwrap_or(500), phrase);
        }
    }
}

/// A response that keeps the client connected.
#[repr(C)]
pub struct FmHold {
    /// FM_FORMAT_*.
    pub format: u8,
    /// Channels to subscribe to.
    pub channels: *const FmStr,
    /// Number of `channels`.
    pub channels_len: usize,
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
    /// Milliseconds without output before a keep-alive comment; -1 = default, 0 = never.
    pub keep_alive_ms: i64,
    /// FM_SLOW_*.
    pub slow: u32,
    /// Initial events for this client only.
    pub with: *const FmMessage,
    /// Number of `with`.
    pub with_len: usize,
    /// Additional response field lines; each has passed `fm_header_valid`.
    pub headers: *const FmHeader,
    /// Number of `headers`.
    pub headers_len: usize,
    /// Data that an edge added to the request; NULL without an edge's signature.
    pub grip: *const FmGrip,
}

impl FmHold {
    fn format(&self) -> Result<StreamFormat, Failure> {
        match self.format {
            FM_FORMAT_EVENT_STREAM => Ok(StreamFormat::EventStream),
            unknown => Err(misuse(format_args!("no format has the number {unknown}"))),
        }
    }

    fn channels(&self) -> &[FmStr] {
        // SAFETY: C sets both fields: an array and its length.
        unsafe { array(self.channels, self.channels_len) }
    }

    fn with(&self) -> &[FmMessage] {
        // SAFETY: as above.
        unsafe { array(self.with, self.with_len) }
    }

    fn lines(&self) -> &[FmHeader] {
        // SAFETY: as above.
        unsafe { array(self.headers, self.headers_len) }
    }

    fn grip(&self) -> Option<&FmGrip> {
        // SAFETY: NULL or valid, like every pointer from C.
        unsafe { self.grip.as_ref() }
    }
}

/// A present user.
#[repr(C)]
pub struct FmMember {
    /// User name.
    pub user: FmStr,
    /// JSON about the user. `ptr` is NULL for none.
    pub info: FmStr,
    /// Connections over all workers.
    pub connections: u32,
}

/// A message from a channel's history.
#[repr(C)]
pub struct FmPast {
    /// Event id.
    pub id: FmStr,
    /// Event name. `ptr` is NULL for none.
    pub name: FmStr,
    /// Event data.
    pub data: FmStr,
    /// Publish time in milliseconds since 1970.
    pub time_ms: u64,
}

/// Blocks until an event needs PHP. All strings of the event and of the fm_request_* calls stay valid until the next call. `event`
/// must be initialized, at least with zeros, because most events set only a few fields.
#[unsafe(no_mangle)]
pub extern "C" fn fm_next_event(worker: Option<&mut FmWorker>, event: Option<&mut FmEvent>) -> u32 {
    guard(worker.zip(event), None, |(worker, event)| {
        worker.request = None;
        let next = worker.next_event();
        worker.hand_out(next, event);
        Ok(())
    })
}

impl FmWorker {
    /// Copies an event into the struct for C.
    #[inline]
    pub(crate) fn hand_out(&mut self, next: Event, event: &mut FmEvent) {
        event.kind = match next {
            Event::Request => return self.hand_out_request(FM_EVENT_REQUEST, event),
            Event::Upgrade => return self.hand_out_request(FM_EVENT_UPGRADE, event),
            Event::Message => self.hand_out_socket(FM_EVENT_WS_MESSAGE, event),
            Event::Open => self.hand_out_socket(FM_EVENT_WS_OPEN, event),
            Event::Close => self.hand_out_socket(FM_EVENT_WS_CLOSE, event),
            // `HeldGone` does not occur, because this crate does not call `hold_relayed`.
            Event::Gone(request) | Event::HeldGone(request) => {
                (event.request, event.socket) = (request.into(), FmSocket::NONE);
                FM_EVENT_GONE
            }
            Event::SocketGone(socket) => {
                (event.request, event.socket) = (FmRequest::NONE, socket.into());
                FM_EVENT_GONE
            }
            Event::Body(request) => {
                event.request = request.into();
                FM_EVENT_BODY
            }
            Event::Stream(request) => {
                event.handler = self.worker.http.stream_handler();
                event.request = request.into();
                FM_EVENT_STREAM
            }
            Event::StreamEnd(request) => {
                event.handler = self.worker.http.stream_handler();
                event.request = request.into();
                FM_EVENT_STREAM_END
            }
            Event::Read(reader) => {
                self.woken_reader = reader.into();
                FM_EVENT_CHANNEL
            }
            Event::Ready => {
                if let Some(ready) = self.worker.waiting.ready() {
                    event.handler = ready.fd.cast_unsigned();
                    event.code = u16::from(ready.what.bits());
                }
                FM_EVENT_READY
            }
            Event::PeerMessage => {
                event.body = FmStr::lend(self.worker.waiting.peer_message());
                FM_EVENT_PEER_MESSAGE
            }
            // FastCGI handles `Wire` events, and no code here uses items.
            Event::Wake | Event::Wire | Event::Items | Event::Ping | Event::Pong => FM_EVENT_WAKE,
            Event::Stop => {
                if let Some(grip) = &self.grip {
                    grip.finish();
                }
                FM_EVENT_STOP
            }
        };
    }

    #[inline]
    fn hand_out_request(&mut self, kind: u32, event: &mut FmEvent) {
        let view = self.worker.request();
        let handle = view.handle();
        let (unrouted, allow) = view.unrouted();
        *event = FmEvent {
            kind,
            handler: view.handler(),
            request: handle.into(),
            socket: FmSocket::NONE,
            code: 0,
            binary: false,
            unrouted,
            allow: FmStr::lend_option(allow),
            method: FmStr::lend_some(view.method()),
            path: FmStr::lend_some(view.path()),
            target: FmStr::lend_some(view.target()),
            query: FmStr::lend_option(view.query()),
            body: FmStr::lend(view.body()),
            headers_len: view.headers_len() as u32,
            upload: view.upload(),
        };
        self.request = Some(handle);
    }

    /// Fills the event of a WebSocket and returns its kind. Messages are as frequent as requests, so only the fields that they use
    /// are set.
    #[inline]
    fn hand_out_socket(&mut self, kind: u32, event: &mut FmEvent) -> u32 {
        let found = self.worker.socket_event();
        event.handler = found.handler;
        event.socket = found.socket.into();
        event.code = found.code;
        event.binary = found.is_binary;
        event.body = FmStr::lend(found.payload);
        kind
    }
}

/// Responds to a request. FM_GONE if the client disconnected or the request already has a response.
#[unsafe(no_mangle)]
pub extern "C" fn fm_respond(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    response: Option<&FmResponse>,
) -> u32 {
    guard(worker.zip(response), None, |(worker, response)| {
        let request = request.known()?;
        let headers = response.lines().iter().map(FmHeader::line);
        let status = u16::try_from(response.status).unwrap_or(500);
        let worker = &mut worker.worker;
        response.set_reason(worker, request);
        worker
            .respond(
                request,
                status,
                response.content_type.option(),
                headers,
                response.body.bytes(),
            )
            .map_err(|gone| (FM_GONE, gone.to_string()))
    })
}

/// Sends `103 Early Hints` with the header lines of `hints` immediately. `has_sent` is false if the client does not
/// support them. FM_GONE as for `fm_respond`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_early_hints(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    hints: Option<&FmResponse>,
    has_sent: Option<&mut MaybeUninit<bool>>,
) -> u32 {
    guard(worker.zip(hints), None, |(worker, hints)| {
        let request = request.known()?;
        let headers = hints.lines().iter().map(FmHeader::line);
        let sent = worker
            .worker
            .send_early_hints(request, headers)
            .map_err(|gone| (FM_GONE, gone.to_string()))?;
        put(has_sent, sent);
        Ok(())
    })
}

/// Source location and request of a log line. Strings may be absent.
#[repr(C)]
pub struct FmDetail {
    /// Handler of the route, as for `fm_note_handler`.
    pub handler: u32,
    /// Line in `file`.
    pub line: u32,
    /// Request method.
    pub method: FmStr,
    /// Class of the exception.
    pub exception: FmStr,
    /// Source file.
    pub file: FmStr,
    /// Stack trace, one call per line.
    pub trace: FmStr,
}

/// Owned texts of an [`FmDetail`].
pub(crate) struct Known {
    line: u32,
    route: String,
    method: String,
    exception: String,
    file: String,
    trace: String,
}

impl Known {
    pub(crate) fn of(worker: &Worker<Tls<Kernel>>, from: &FmDetail) -> Known {
        let text = |string: &FmStr| string.text().into_owned();
        Known {
            line: from.line,
            route: worker.http.route_of(from.handler).to_owned(),
            method: text(&from.method),
            exception: text(&from.exception),
            file: text(&from.file),
            trace: text(&from.trace),
        }
    }

    pub(crate) fn detail(&self) -> Detail<'_> {
        Detail {
            method: &self.method,
            route: &self.route,
            exception: &self.exception,
            file: &self.file,
            line: self.line,
            trace: &self.trace,
        }
    }
}

/// Responds to a request whose handler failed: sends `status` (500, or 400 if the request is at fault) and logs
/// `message` with its details.
#[unsafe(no_mangle)]
pub extern "C" fn fm_fail(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    status: u32,
    message: FmStr,
    detail: Option<&FmDetail>,
) -> u32 {
    guard(worker.zip(detail), None, |(worker, detail)| {
        let request = request.known()?;
        let status = u16::try_from(status).unwrap_or(500);
        let worker = &mut worker.worker;
        let known = Known::of(worker, detail);
        worker
            .fail(request, status, &message.text(), &known.detail())
            .map_err(|gone| (FM_GONE, gone.to_string()))
    })
}

/// Counts a failed handler to whose client the application itself responds.
#[unsafe(no_mangle)]
pub extern "C" fn fm_note_failure(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.net.note_failure();
    })
}

/// Retires a worker after a fatal error. It accepts no more requests, requests a replacement, finishes its output and
/// closes held clients in an orderly way. FM_EVENT_STOP follows.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_retire(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.retire();
    })
}

/// Drains a worker whose application cannot start another request. A replacement starts, and requests that no handler
/// has started go to another worker or to the replacement. FM_EVENT_STOP follows.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_replace(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.replace();
    })
}

/// Returns the exit code of the process after FM_EVENT_STOP.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_exit_code(worker: Option<&FmWorker>) -> i32 {
    ask(worker, EXIT_RETIRED, |worker| worker.worker.exit_code())
}

/// Returns true if `fm_hold` needs the data that edges add to requests.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_has_edges(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| worker.grip.is_some())
}

/// Responds with an event stream and holds the client, or delegates the hold to the edge that signed the request.
/// After an error (FM_MISUSE, FM_BACKPRESSURE, FM_GONE) the request is still open.
#[unsafe(no_mangle)]
pub extern "C" fn fm_hold(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    hold: Option<&FmHold>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(hold), error, |(worker, hold)| {
        let request = request.known()?;
        let grip = hold.grip();
        let channels: Vec<&[u8]> = hold.channels().iter().map(FmStr::bytes).collect();
        let with: Vec<Message<'_>> = hold.with().iter().map(lend_message).collect();
        let headers: Vec<(&[u8], &[u8])> = hold.lines().iter().map(FmHeader::line).collect();
        let hold = Hold {
            format: hold.format()?,
            channels: &channels,
            user: hold.user.option(),
            info: hold.info.option(),
            announces: hold.announce,
            since: Since::of(hold.since.option(), hold.from_start),
            keep_alive_ms: u64::try_from(hold.keep_alive_ms).ok(),
            closes_on_gap: hold.slow == FM_SLOW_CLOSE,
            with: &with,
            headers: &headers,
        };
        let instructed = grip.and_then(|grip| {
            let edges = worker.grip.as_mut()?;
            edges.instruct(&mut worker.worker, request, &hold, grip)
        });
        let held = instructed.unwrap_or_else(|| worker.worker.hold(request, &hold));
        held.map_err(|error| {
            let code = match &error {
                HoldError::Gone => FM_GONE,
                HoldError::Misuse(_) => FM_MISUSE,
                HoldError::Backpressure(_) => FM_BACKPRESSURE,
            };
            (code, error.to_string())
        })
    })
}

/// Checks a channel name. FM_MISUSE if it is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn fm_channel_name_check(
    channel: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(NOTHING, error, |()| {
        fermata_engine::check_channel(channel.bytes()).map_err(misuse)
    })
}

/// Checks an event's name and data. FM_MISUSE if they cannot be sent.
#[unsafe(no_mangle)]
pub extern "C" fn fm_message_check(
    message: Option<&FmMessage>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(message, error, |message| {
        fermata_engine::check_message(&lend_message(message)).map_err(misuse)
    })
}

fn members_failure(error: MembersError) -> (u32, String) {
    let code = match error {
        MembersError::Misuse(_) => FM_MISUSE,
        MembersError::Backpressure(_) | MembersError::Unknown => FM_BACKPRESSURE,
    };
    (code, error.to_string())
}

/// Counts the users that are present in a channel. This is the number of users that `fm_members` returns without a limit.
/// FM_MISUSE, FM_BACKPRESSURE (the presence table is unavailable).
#[unsafe(no_mangle)]
pub extern "C" fn fm_member_count(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    count: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let found = worker.worker.channels.member_count(channel.bytes());
        put(count, found.map_err(members_failure)?);
        Ok(())
    })
}

/// Returns at most `count_max` users present in a channel, the latest first. The array stays valid until the next
/// call of this function. FM_MISUSE, FM_BACKPRESSURE as for `fm_member_count`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_members(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    count_max: usize,
    first: Option<&mut MaybeUninit<*const FmMember>>,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        worker.members = worker
            .worker
            .channels
            .members(channel.bytes(), count_max)
            .map_err(members_failure)?;
        worker.members_out.clear();
        worker
            .members_out
            .extend(worker.members.iter().map(|member| FmMember {
                user: FmStr::lend(&member.user),
                info: FmStr::lend_option(Some(&member.info[..]).filter(|info| !info.is_empty())),
                connections: member.connections,
            }));
        put(first, worker.members_out.as_ptr());
        put(len, worker.members_out.len());
        Ok(())
    })
}

/// Returns the newest messages of a channel after `since` (`ptr` NULL: all), oldest first. The array stays valid
/// until the next call of this function or `fm_history_next`. With `reading` the call does not wait for the cluster
/// log: `reading` receives 0, or a number to pass to `fm_history_next` while the log has not replied. FM_MISUSE,
/// FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_history(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    since: FmStr,
    count_max: usize,
    reading: Option<&mut MaybeUninit<FmReading>>,
    first: Option<&mut MaybeUninit<*const FmPast>>,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let (channel, since) = (channel.bytes(), since.option());
        let past = match reading {
            None => worker.worker.history(channel, since, count_max),
            Some(reading) => {
                let begun = worker.worker.begin_history(channel, since, count_max);
                match begun.map_err(misuse)? {
                    History::Done(past) => {
                        reading.write(FmReading::NONE);
                        Ok(past)
                    }
                    History::Pending(reader) => {
                        worker.last_reading = worker.last_reading.next();
                        worker.histories.insert(worker.last_reading, reader);
                        reading.write(worker.last_reading);
                        return Ok(());
                    }
                }
            }
        };
        worker.lend_past(past.map_err(history_failure)?, first, len);
        Ok(())
    })
}

/// Continues a read of history from the cluster log. While the log has not replied, `over` is false and the result
/// FM_OK. After `over` is true the number is invalid. FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_history_next(
    worker: Option<&mut FmWorker>,
    reading: FmReading,
    over: Option<&mut MaybeUninit<bool>>,
    first: Option<&mut MaybeUninit<*const FmPast>>,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(over), error, |(worker, over)| {
        over.write(true);
        let outcome = match worker.histories.get_mut(&reading) {
            Some(reader) => worker.worker.end_history(reader),
            None => Some(Ok(Vec::new())),
        };
        let Some(outcome) = outcome else {
            over.write(false);
            return Ok(());
        };
        worker.histories.remove(&reading);
        worker.lend_past(outcome.map_err(history_failure)?, first, len);
        Ok(())
    })
}

/// Cancels a read of history.
#[unsafe(no_mangle)]
pub extern "C" fn fm_history_forget(worker: Option<&mut FmWorker>, reading: FmReading) {
    ask(worker, (), |worker| {
        worker.histories.remove(&reading);
    })
}

fn history_failure(error: HistoryError) -> (u32, String) {
    let code = match error {
        HistoryError::Misuse(_) => FM_MISUSE,
        HistoryError::Unanswered { .. } => FM_BACKPRESSURE,
    };
    (code, error.to_string())
}

impl FmWorker {
    fn lend_past(
        &mut self,
        past: Vec<Past>,
        first: Option<&mut MaybeUninit<*const FmPast>>,
        len: Option<&mut MaybeUninit<usize>>,
    ) {
        self.past = past;
        self.past_out.clear();
        self.past_out.extend(self.past.iter().map(FmPast::lend));
        put(first, self.past_out.as_ptr());
        put(len, self.past_out.len());
    }

    /// Lends one event until the next one is lent.
    pub(crate) fn lend_event(&mut self, event: Past) -> FmPast {
        self.past_out.clear();
        self.past.clear();
        self.past.push(event);
        FmPast::lend(&self.past[0])
    }
}

impl FmPast {
    fn lend(past: &Past) -> FmPast {
        FmPast {
            id: FmStr::lend(past.id.as_bytes()),
            name: FmStr::lend_option(past.name.as_deref()),
            data: FmStr::lend(&past.data),
            time_ms: past.unix_ms,
        }
    }

    /// Returns an event without id and name.
    pub(crate) fn of_text(text: &'static str) -> FmPast {
        FmPast {
            id: FmStr::lend_option(None),
            name: FmStr::lend_option(None),
            data: FmStr::lend(text.as_bytes()),
            time_ms: 0,
        }
    }
}

/// Writes a log line; `level` from 0 (error) to 3 (debug).
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_log(worker: Option<&mut FmWorker>, level: u32, message: FmStr) {
    guard(worker, None, |worker| {
        let level = log_level(level)?;
        let worker = &mut worker.worker;
        // Errors come from the application and are always logged. Clients can trigger all other lines, for example by
        // requests that a handler refuses, so those are rate-limited to protect the disk.
        if level == LogLevel::Error {
            worker.net.log(level, &message.text());
        } else {
            worker.net.log_for_client(level, &message.text());
        }
        Ok(())
    });
}

/// Writes a log line about the application's code. `is_bounded` limits the lines per second, and is meant for lines that clients
/// can trigger at will.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_log_at(
    worker: Option<&mut FmWorker>,
    level: u32,
    is_bounded: bool,
    message: FmStr,
    detail: Option<&FmDetail>,
) {
    guard(worker.zip(detail), None, |(worker, detail)| {
        let level = log_level(level)?;
        let worker = &mut worker.worker;
        let known = Known::of(worker, detail);
        if is_bounded {
            worker
                .net
                .log_detailed_for_client(level, &message.text(), &known.detail());
        } else {
            worker
                .net
                .log_detailed(level, &message.text(), &known.detail());
        }
        Ok(())
    });
}

/// Logs a line that the application wrote to standard error, regardless of `log_level`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_log_text(worker: Option<&mut FmWorker>, line: FmStr) {
    ask(worker, (), |worker| {
        worker.worker.net.log_text(&line.text());
    })
}

/// Frees a worker after FM_EVENT_STOP.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_free(worker: Option<Box<FmWorker>>) {
    ask(worker, (), |worker| {
        drop(worker);
    })
}

pub(crate) fn lend_message(message: &FmMessage) -> Message<'_> {
    Message {
        name: message.name.option(),
        data: message.data.bytes(),
    }
}

pub(crate) fn id_of(text: &str) -> FmId {
    let mut id = FmId {
        len: 0,
        text: [0; FM_ID_BYTES],
    };
    for (place, byte) in id.text.iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
        id.len += 1;
    }
    id
}
