//! Waiting handlers: the core's view of C's fibers.

use std::mem::MaybeUninit;

use fermata_engine::Gone;
use fermata_engine::router::{TASK, WEBSOCKET};

use fermata_io::Deadline;

use crate::abi::{FM_GONE, FmRequest, FmSocket, ask, guard, put};
use crate::worker::FmWorker;

/// Settings about fibers.
#[repr(C)]
pub struct FmFibers {
    /// Maximum number of fibers.
    pub max: u32,
    /// Maximum number of idle fibers kept for reuse.
    pub idle_max: u32,
    /// Maximum number of tasks that have not started.
    pub tasks_max: u32,
    /// Maximum number of tasks per request.
    pub tasks_per_request_max: u32,
    /// Maximum time to wait for a connection that another handler uses, in milliseconds.
    pub shared_wait_ms: u64,
    /// Stack size of a fiber in bytes.
    pub stack_bytes: usize,
    /// Maximum time that a query continues after its client disconnected.
    pub abandoned_query_ms_max: u64,
    /// Maximum time that a handler may wait in `shield()` after its client disconnected.
    pub abandoned_wait_ms_max: u64,
    /// Maximum number of running handlers; 0 for no limit.
    pub handlers_max: u32,
    /// Memory limit in bytes for an application that sets none; 0 for none.
    pub memory_bytes_max: usize,
    /// Maximum time that one handler may block the worker in callbacks that must not wait, in milliseconds.
    pub callback_wait_ms_max: u64,
    /// True if such a wait throws an exception.
    pub callback_wait_throws: bool,
}

/// Returns the settings about fibers.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_fibers(
    worker: Option<&FmWorker>,
    fibers: Option<&mut MaybeUninit<FmFibers>>,
) {
    ask(worker, (), |worker| {
        let settings = worker.worker.settings();
        let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        put(
            fibers,
            FmFibers {
                max: count(settings.fibers_max),
                idle_max: count(settings.fibers_idle_max),
                tasks_max: count(settings.tasks_queue_max),
                tasks_per_request_max: count(settings.tasks_per_request_max),
                shared_wait_ms: settings.shared_wait_timeout_ms,
                stack_bytes: settings.fiber_stack_bytes,
                abandoned_query_ms_max: settings.abandoned_query_ms_max,
                abandoned_wait_ms_max: settings.abandoned_wait_ms_max,
                handlers_max: count(settings.handlers_max),
                memory_bytes_max: settings.worker_memory_bytes_max,
                callback_wait_ms_max: settings.callback_wait_ms_max,
                callback_wait_throws: settings.callback_wait == "throw",
            },
        );
    })
}

fn gone(gone: Gone) -> (u32, String) {
    (FM_GONE, gone.to_string())
}

/// Marks the handler of a request as waiting. The handler responds later. FM_EVENT_GONE reports that the client disconnected before
/// the response. FM_GONE if the client is already gone, or the request has a response.
#[unsafe(no_mangle)]
pub extern "C" fn fm_defer(worker: Option<&mut FmWorker>, request: FmRequest) -> u32 {
    guard(worker, None, |worker| {
        let request = request.known()?;
        worker.worker.defer(request).map_err(gone)
    })
}

/// Marks the handler of a WebSocket as waiting. Until `fm_ws_resume`, the socket causes only FM_EVENT_GONE and its close event.
/// FM_GONE if the socket is closed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_defer(worker: Option<&mut FmWorker>, socket: FmSocket) -> u32 {
    guard(worker, None, |worker| {
        let socket = socket.known()?;
        worker.worker.defer_socket(socket).map_err(gone)
    })
}

/// Marks a waiting WebSocket handler as finished.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_resume(worker: Option<&mut FmWorker>, socket: FmSocket) {
    ask(worker.zip(socket.id()), (), |(worker, socket)| {
        worker.worker.net.resume_socket(socket);
    })
}

/// Requests one FM_EVENT_WAKE at `due_ms` of `fm_worker_now_ms`. 0 means after the next output and poll for events. UINT64_MAX
/// means never. The last call replaces earlier ones.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_wake_at(worker: Option<&mut FmWorker>, due_ms: u64) {
    ask(worker, (), |worker| {
        worker.wake = Deadline::at(due_ms);
        worker.worker.waiting.wake_at(worker.wake);
    })
}

/// Returns the monotonic clock in milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_now_ms(worker: Option<&mut FmWorker>) -> u64 {
    ask(worker, 0, |worker| worker.worker.net.now_ms())
}

/// Sets the busy flag: work without a client is running, and should finish before the worker stops.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_busy(worker: Option<&mut FmWorker>, busy: bool) {
    ask(worker, (), |worker| {
        worker.worker.waiting.set_busy(busy);
    })
}

/// Sets the flag that the worker is full, so that no further handler can start. While the flag is set, only FM_EVENT_WAKE,
/// FM_EVENT_GONE and FM_EVENT_STOP occur.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_full(worker: Option<&mut FmWorker>, full: bool) {
    ask(worker, (), |worker| {
        worker.worker.set_full(full);
    })
}

/// `fm_note_handler`: flag added to the number of a WebSocket handler.
pub const FM_HANDLER_WEBSOCKET: u32 = 0x8000_0000;
/// `fm_note_handler`: number that means a task.
pub const FM_HANDLER_TASK: u32 = 0xffff_ffff;
const _: () = assert!(FM_HANDLER_WEBSOCKET == WEBSOCKET && FM_HANDLER_TASK == TASK);

/// Records that this handler resumes after a wait, without an event, for reports about blocked workers.
#[unsafe(no_mangle)]
pub extern "C" fn fm_note_handler(worker: Option<&mut FmWorker>, handler: u32) {
    ask(worker, (), |worker| {
        worker.worker.note_resumed(handler);
    })
}

/// Returns true if another waiting handler or task may resume, or another task may start, in this turn. The previous one must have
/// returned or be waiting. If the result is false, fetch an event first, after `fm_worker_wake_at` with 0.
#[unsafe(no_mangle)]
pub extern "C" fn fm_may_resume(worker: Option<&mut FmWorker>) -> bool {
    ask(worker, false, |worker| worker.worker.may_resume())
}

/// Sends this turn's responses immediately, while the handler that responded keeps running. Invalidates all strings
/// that the core lent for its request.
#[unsafe(no_mangle)]
pub extern "C" fn fm_send_answers(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| worker.worker.send_answers())
}

/// Marks the handler of a request after `fm_defer` as finished.
#[unsafe(no_mangle)]
pub extern "C" fn fm_settle(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.http.settle_request(request);
    })
}

/// Marks the response stream of `request` as waiting for the application's next piece. FM_EVENT_GONE reports that the client
/// disconnected before that piece. FM_GONE if the client has already disconnected.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_defer(worker: Option<&mut FmWorker>, request: FmRequest) -> u32 {
    guard(worker, None, |worker| {
        let request = request.known()?;
        worker.worker.defer_stream(request).map_err(gone)
    })
}

/// Postpones the piece that FM_EVENT_STREAM requested, because no other handler can wait. FM_EVENT_STREAM occurs
/// again after `fm_worker_full`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_later(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.http.hold_stream_back(request);
    })
}
