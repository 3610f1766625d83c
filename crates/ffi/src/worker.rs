//! A running worker: events out, answers and messages in.

use std::collections::HashMap;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::Duration;

use fermata_config::LogLevel;
use fermata_engine::{
    Detail, EXIT_RETIRED, Event, History, HistoryError, HistoryReader, Hold, HoldError, Member,
    MembersError, Message, Past, RequestId, RequestView, StreamFormat, Worker,
};
use fermata_fastcgi::FastCgi;
use fermata_gateway::{Hub, Opening};
use fermata_io::{Deadline, Kernel};
use fermata_tls::{ClientCertificate, Tls};

use crate::abi::{
    FM_BACKPRESSURE, FM_GONE, FM_ID_BYTES, FM_MISUSE, Failure, FmError, FmHeader, FmId, FmMessage,
    FmReading, FmRequest, FmSocket, FmStr, NOTHING, array, ask, guard, log_level, misuse, put,
};
use crate::grip::{FmGrip, Front, Grip};

/// `request` is to be answered.
pub const FM_EVENT_REQUEST: u32 = 1;
/// The worker has stopped; free it and end the process with `fm_worker_exit_code`.
pub const FM_EVENT_STOP: u32 = 2;
/// `request` is a WebSocket handshake that can be accepted: answer it with `fm_ws_accept_request`, or
/// refuse it with `fm_respond` or `fm_fail`. All fields of FM_EVENT_REQUEST are set.
pub const FM_EVENT_UPGRADE: u32 = 3;
/// `socket` is open. Only `kind`, `handler` and `socket` are set.
pub const FM_EVENT_WS_OPEN: u32 = 4;
/// `socket` has received `body`. Only `kind`, `handler`, `socket`, `binary` and `body` are set.
pub const FM_EVENT_WS_MESSAGE: u32 = 5;
/// `socket` has ended with `code` (1005: none was given, 1006: cut off) and the reason `body`: exactly once
/// for each socket that was accepted. Only `kind`, `handler`, `socket`, `code` and `body` are set.
pub const FM_EVENT_WS_CLOSE: u32 = 6;
/// The client of `request` or `socket`, the other of which is 0, has left while its handler waits; at most
/// once for each. Only `kind`, `request` and `socket` are set.
pub const FM_EVENT_GONE: u32 = 7;
/// It is the time of `fm_worker_wake_at`, or `fm_file_next` or `fm_publish_next` has something to say. Only `kind` is set.
pub const FM_EVENT_WAKE: u32 = 8;
/// The stream that answers `request` wants its next piece: `fm_stream_write`, `fm_stream_end` or
/// `fm_stream_fail`. Only `kind`, `handler` and `request` are set.
pub const FM_EVENT_STREAM: u32 = 9;
/// The stream that answers `request` has ended before its end: its client has left. Only `kind`, `handler` and
/// `request` are set.
pub const FM_EVENT_STREAM_END: u32 = 10;
/// The descriptor `handler` is ready for `code` (FM_WATCH_*), or has hung up; `fm_watch` has asked for it. Only
/// `kind`, `handler` and `code` are set.
pub const FM_EVENT_READY: u32 = 11;

/// More of the body of `request` can be read by `fm_body_read`, or the rest of it cannot be had. Only `kind` and
/// `request` are set.
pub const FM_EVENT_BODY: u32 = 12;
/// A worker of another server of the cluster has sent `body` by `fm_worker_send_to_servers`. Only `kind` and `body` are set.
pub const FM_EVENT_PEER_MESSAGE: u32 = 13;

/// A held client gets server-sent events.
pub const FM_FORMAT_EVENT_STREAM: u8 = 0;

/// A slow client is told by a `gap` event what it has missed.
pub const FM_SLOW_GAP: u32 = 0;
/// A slow client is closed; it comes back with its last event id.
pub const FM_SLOW_CLOSE: u32 = 1;

/// One worker process.
pub struct FmWorker {
    pub(crate) worker: Worker<Tls<Kernel>>,
    /// The current request.
    pub(crate) request: Option<RequestId>,
    /// Edges in front; `None` = there are none.
    pub(crate) grip: Option<Box<Grip>>,
    /// Clients of Pusher and Mercure; `None` = neither is spoken.
    pub(crate) hub: Option<Box<Hub>>,
    /// PHP-FPM behind some routes; `None` = behind none.
    fastcgi: Option<Box<FastCgi>>,
    /// When C wants to be woken, as it has said to `fm_worker_wake_at`.
    pub(crate) wake: Deadline,
    members: Vec<Member>,
    members_out: Vec<FmMember>,
    past: Vec<Past>,
    past_out: Vec<FmPast>,
    /// History that handlers wait for, and how many there have been.
    histories: HashMap<FmReading, HistoryReader>,
    last_reading: FmReading,
    pub(crate) text: Vec<u8>,
    /// What was lent of the current request's client.
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
            text: Vec::new(),
            client: None,
        }
    }

    /// The next event that is C's.
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

    /// The same for a worker in the process of a test; `None` when nothing is left to do at this time.
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

    /// Whether there are parts that take events before C.
    fn has_parts(&self) -> bool {
        self.hub.is_some() || self.fastcgi.is_some()
    }

    /// Has the worker wake for the first that is due.
    fn plan_wake(&mut self) {
        let hub = self.hub.as_mut().map(|hub| hub.due(&mut self.worker));
        let fastcgi = self.fastcgi.as_ref().map(|it| it.due());
        let parts = hub.into_iter().chain(fastcgi);
        self.worker
            .waiting
            .wake_at(parts.fold(self.wake, Deadline::min));
    }

    /// Whether an event was a part's and not C's.
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
            // C asks anew after each.
            self.wake = Deadline::NEVER;
        }
        false
    }

    /// Keeps the certificate of the current request's client for lending it.
    pub(crate) fn keep_client(&mut self) {
        self.client = self.worker.client_certificate();
    }

    /// Whether the current request came encrypted, as far as its client is concerned.
    pub(crate) fn is_secure(&self) -> bool {
        self.worker.is_client_secure()
    }

    /// The current request, if `request` is it.
    pub(crate) fn view(&self, request: FmRequest) -> Option<RequestView<'_>> {
        (request.id()? == self.request?).then(|| self.worker.request())
    }
}

/// What `fm_next_event` hands out.
#[repr(C)]
pub struct FmEvent {
    /// FM_EVENT_*.
    pub kind: u32,
    /// The number the route was added with.
    pub handler: u32,
    /// The handle that the answer names.
    pub request: FmRequest,
    /// The WebSocket of FM_EVENT_WS_*.
    pub socket: FmSocket,
    /// The close code of FM_EVENT_WS_CLOSE.
    pub code: u16,
    /// Whether the message of FM_EVENT_WS_MESSAGE is binary; otherwise it is valid UTF-8.
    pub binary: bool,
    /// The status that the core would have answered with, for the handlers of `fm_server_fallback` and
    /// `fm_server_guard_files`; else 0.
    pub unrouted: u16,
    /// Content, transfer coding removed; of a WebSocket the message, or the reason of its close.
    pub body: FmStr,
    /// Method as sent.
    pub method: FmStr,
    /// Path, percent-decoded.
    pub path: FmStr,
    /// Request-target as sent.
    pub target: FmStr,
    /// What follows the first `?`, as sent; `ptr` NULL without a `?`.
    pub query: FmStr,
    /// The Allow header that belongs to `unrouted`; `ptr` NULL for none.
    pub allow: FmStr,
    /// Number of header field lines.
    pub headers_len: u32,
    /// What the body has left outside of `body`, for `fm_upload_*`; 0 for nothing. To be released when the request is over.
    /// FM_UPLOAD_ARRIVING: the body has not arrived, and `fm_body_read` gives it.
    pub upload: u32,
}

/// A complete response.
#[repr(C)]
pub struct FmResponse {
    /// 200 to 599.
    pub status: u32,
    /// Content-Type; `ptr` NULL for none.
    pub content_type: FmStr,
    /// Further field lines; each has passed `fm_header_valid`.
    pub headers: *const FmHeader,
    /// Their number.
    pub headers_len: usize,
    /// Content.
    pub body: FmStr,
    /// What stands behind the status in HTTP/1; `ptr` NULL for the standard phrase. It has passed `fm_header_valid`.
    pub reason: FmStr,
}

impl FmResponse {
    pub(crate) fn lines(&self) -> &[FmHeader] {
        // SAFETY: C sets both fields: an array, and how many values it has.
        unsafe { array(self.headers, self.headers_len) }
    }

    /// Has the engine know the phrase, which the answer that comes next takes.
    pub(crate) fn set_reason(&self, worker: &mut Worker<Tls<Kernel>>, request: RequestId) {
        if let Some(phrase) = self.reason.option() {
            worker
                .http
                .set_reason(request, u16::try_from(self.status).unwrap_or(500), phrase);
        }
    }
}

/// An answer that keeps the client.
#[repr(C)]
pub struct FmHold {
    /// FM_FORMAT_*.
    pub format: u8,
    /// Channels.
    pub channels: *const FmStr,
    /// Their number.
    pub channels_len: usize,
    /// The user that the client counts as; `ptr` NULL for none.
    pub user: FmStr,
    /// JSON about the user; `ptr` NULL for none.
    pub info: FmStr,
    /// Whether `join` and `leave` are published.
    pub announce: bool,
    /// Last event id of the client; `ptr` NULL for none.
    pub since: FmStr,
    /// Milliseconds of silence before a comment; -1 = default, 0 = never.
    pub keep_alive_ms: i64,
    /// FM_SLOW_*.
    pub slow: u32,
    /// Events for this client alone.
    pub with: *const FmMessage,
    /// Their number.
    pub with_len: usize,
    /// Further response field lines; each has passed `fm_header_valid`.
    pub headers: *const FmHeader,
    /// Their number.
    pub headers_len: usize,
    /// What an edge has said with the request; NULL when none has signed it.
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
        // SAFETY: C sets both fields: an array, and how many values it has.
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
        // SAFETY: NULL or valid, as every pointer of C's.
        unsafe { self.grip.as_ref() }
    }
}

/// A user who is present.
#[repr(C)]
pub struct FmMember {
    /// The user.
    pub user: FmStr,
    /// JSON about the user; `ptr` NULL for none.
    pub info: FmStr,
    /// Connections over all workers.
    pub connections: u32,
}

/// A message of the past.
#[repr(C)]
pub struct FmPast {
    /// Its event id.
    pub id: FmStr,
    /// Its name; `ptr` NULL for none.
    pub name: FmStr,
    /// Its data.
    pub data: FmStr,
    /// When it was published, milliseconds since 1970.
    pub time_ms: u64,
}

/// Blocks until there is something for PHP to do. All strings of the event and of the fm_request_*
/// calls stay valid until the next call. `event` holds one already, if only of zeros: few of its fields are set.
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
    /// Fills what C is given of an event.
    #[inline]
    pub(crate) fn hand_out(&mut self, next: Event, event: &mut FmEvent) {
        event.kind = match next {
            Event::Request => return self.hand_out_request(FM_EVENT_REQUEST, event),
            Event::Upgrade => return self.hand_out_request(FM_EVENT_UPGRADE, event),
            Event::Message => self.hand_out_socket(FM_EVENT_WS_MESSAGE, event),
            Event::Open => self.hand_out_socket(FM_EVENT_WS_OPEN, event),
            Event::Close => self.hand_out_socket(FM_EVENT_WS_CLOSE, event),
            // Nothing is held for the embedder here.
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
            // Wires are FastCgi's, and nobody here takes items.
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

    /// A message is as frequent as a request, and fills few of the fields. Returns the kind.
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

/// Answers a request. FM_GONE when its client has left or it was answered before.
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

/// Sends `103 Early Hints` with the header lines of `hints` at once. `has_sent` tells whether the client understands them.
/// FM_GONE as for `fm_respond`.
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

/// What is known of the code that a log line is about. Strings may be absent.
#[repr(C)]
pub struct FmDetail {
    /// The handler of the route, as for `fm_note_handler`.
    pub handler: u32,
    /// The line in `file`.
    pub line: u32,
    /// Method of the request.
    pub method: FmStr,
    /// The class of what was thrown.
    pub exception: FmStr,
    /// Where.
    pub file: FmStr,
    /// The calls that have led there, one a line.
    pub trace: FmStr,
}

/// The texts of an [`FmDetail`].
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

/// Answers a request whose handler failed: `status` (500; 400 when the request is to blame) to the
/// client, `message` and what is known to the log.
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

/// Counts a handler that has failed, whose client the program itself answers.
#[unsafe(no_mangle)]
pub extern "C" fn fm_note_failure(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.net.note_failure();
    })
}

/// After a fatal error: the worker takes no more requests, has a replacement started, finishes its
/// writes, ends its held clients in order, and FM_EVENT_STOP follows.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_retire(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.retire();
    })
}

/// What the process should exit with after FM_EVENT_STOP.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_exit_code(worker: Option<&FmWorker>) -> i32 {
    ask(worker, EXIT_RETIRED, |worker| worker.worker.exit_code())
}

/// Whether `fm_hold` has to be told what an edge has said.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_has_edges(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| worker.grip.is_some())
}

/// Answers a request by an event stream and keeps the client, or has the edge keep it that has
/// signed the request. On an error (FM_MISUSE, FM_BACKPRESSURE, FM_GONE) the request is still open.
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
            since: hold.since.option(),
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

/// Checks a channel's name. FM_MISUSE when it is none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_channel_name_check(
    channel: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(NOTHING, error, |()| {
        fermata_engine::check_channel(channel.bytes()).map_err(misuse)
    })
}

/// Checks an event's name and data. FM_MISUSE when they cannot be sent.
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

/// How many users are present in a channel: the length that `fm_members` would give without a bound.
/// FM_MISUSE, FM_BACKPRESSURE (the presence table is not to be had).
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

/// Users present in a channel, at most `count_max` of them, the latest first. The array stays
/// valid until the next call of this function. FM_MISUSE, FM_BACKPRESSURE as `fm_member_count`.
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

/// The newest messages of a channel after `since` (`ptr` NULL: all), oldest first. The array stays
/// valid until the next call of this function or `fm_history_next`. With `reading` the log of a cluster is not waited for: what is
/// written there is 0, or a number for `fm_history_next` while there is nothing yet. FM_MISUSE, FM_BACKPRESSURE.
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

/// Goes on with history that the log is asked for. `over` is false, and the answer FM_OK, while it has not answered; when it is
/// true, the number is of no more use. FM_BACKPRESSURE.
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

/// Stops waiting for history.
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
        self.past_out.extend(self.past.iter().map(|past| FmPast {
            id: FmStr::lend(past.id.as_bytes()),
            name: FmStr::lend_option(past.name.as_deref()),
            data: FmStr::lend(&past.data),
            time_ms: past.unix_ms,
        }));
        put(first, self.past_out.as_ptr());
        put(len, self.past_out.len());
    }
}

/// Writes a log line; `level` from 0 (error) to 3 (debug).
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_log(worker: Option<&mut FmWorker>, level: u32, message: FmStr) {
    guard(worker, None, |worker| {
        let level = log_level(level)?;
        let worker = &mut worker.worker;
        // An error is the program's and always worth its line. All else (a request that the handler
        // refused) is up to the client, who must not be able to fill the disk.
        if level == LogLevel::Error {
            worker.net.log(level, &message.text());
        } else {
            worker.net.log_for_client(level, &message.text());
        }
        Ok(())
    });
}

/// Writes a log line about the program's code. `is_bounded`: clients can cause it at will, so that only so many are
/// written per second.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_tell(
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
