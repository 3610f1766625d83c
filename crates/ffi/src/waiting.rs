//! Handlers that wait: what C tells the core about its fibers.

use std::mem::MaybeUninit;

use fermata_engine::Gone;
use fermata_engine::router::{TASK, WEBSOCKET};

use fermata_io::Deadline;

use crate::abi::{FM_GONE, FmRequest, FmSocket, ask, guard, put};
use crate::worker::FmWorker;

/// The settings that concern fibers.
#[repr(C)]
pub struct FmFibers {
    /// Fibers at most.
    pub max: u32,
    /// Fibers kept for reuse.
    pub idle_max: u32,
    /// Tasks at most that have not begun.
    pub tasks_max: u32,
    /// Milliseconds that a connection is waited for that another handler uses.
    pub shared_wait_ms: u64,
    /// Bytes of a fiber's stack.
    pub stack_bytes: usize,
    /// How long a query goes on whose client has left.
    pub abandoned_query_ms_max: u64,
    /// Handlers under way at most; 0 for no bound.
    pub handlers_max: u32,
    /// Bytes of memory for a program that sets no limit of its own; 0 for none.
    pub memory_bytes_max: usize,
}

/// The settings that concern fibers.
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
                shared_wait_ms: settings.shared_wait_timeout_ms,
                stack_bytes: settings.fiber_stack_bytes,
                abandoned_query_ms_max: settings.abandoned_query_ms_max,
                handlers_max: count(settings.handlers_max),
                memory_bytes_max: settings.worker_memory_bytes_max,
            },
        );
    })
}

fn gone(gone: Gone) -> (u32, String) {
    (FM_GONE, gone.to_string())
}

/// The handler of a request waits and will answer later. FM_EVENT_GONE tells when its client leaves
/// before. FM_GONE when it has left already, or was answered.
#[unsafe(no_mangle)]
pub extern "C" fn fm_defer(worker: Option<&mut FmWorker>, request: FmRequest) -> u32 {
    guard(worker, None, |worker| {
        let request = request.known()?;
        worker.worker.defer(request).map_err(gone)
    })
}

/// The handler of a WebSocket waits: nothing more comes from this socket until `fm_ws_resume`, except
/// FM_EVENT_GONE and its close. FM_GONE when it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_defer(worker: Option<&mut FmWorker>, socket: FmSocket) -> u32 {
    guard(worker, None, |worker| {
        let socket = socket.known()?;
        worker.worker.defer_socket(socket).map_err(gone)
    })
}

/// The handler of a WebSocket that waited has come to its end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_resume(worker: Option<&mut FmWorker>, socket: FmSocket) {
    ask(worker.zip(socket.id()), (), |(worker, socket)| {
        worker.worker.net.resume_socket(socket);
    })
}

/// Asks for one FM_EVENT_WAKE at `due_ms` of `fm_worker_now_ms`; 0 = as soon as output has gone out and
/// events were looked for, UINT64_MAX = not any more. The last call counts.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_wake_at(worker: Option<&mut FmWorker>, due_ms: u64) {
    ask(worker, (), |worker| {
        worker.wake = Deadline::at(due_ms);
        worker.worker.waiting.wake_at(worker.wake);
    })
}

/// Milliseconds of the monotonic clock.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_now_ms(worker: Option<&mut FmWorker>) -> u64 {
    ask(worker, 0, |worker| worker.worker.net.now_ms())
}

/// Whether something is under way that has no client, and should come to its end before the worker stops.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_busy(worker: Option<&mut FmWorker>, busy: bool) {
    ask(worker, (), |worker| {
        worker.worker.waiting.set_busy(busy);
    })
}

/// Whether there is no room for another handler. Meanwhile only FM_EVENT_WAKE, FM_EVENT_GONE and
/// FM_EVENT_STOP come.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_full(worker: Option<&mut FmWorker>, full: bool) {
    ask(worker, (), |worker| {
        worker.worker.set_full(full);
    })
}

/// `fm_note_handler`: added to the number of a handler of WebSockets.
pub const FM_HANDLER_WEBSOCKET: u32 = 0x8000_0000;
/// `fm_note_handler`: a task.
pub const FM_HANDLER_TASK: u32 = 0xffff_ffff;
const _: () = assert!(FM_HANDLER_WEBSOCKET == WEBSOCKET && FM_HANDLER_TASK == TASK);

/// This handler runs from now on, though no event was asked for: it has waited. For the report of what holds the loop.
#[unsafe(no_mangle)]
pub extern "C" fn fm_note_handler(worker: Option<&mut FmWorker>, handler: u32) {
    ask(worker, (), |worker| {
        worker.worker.note_resumed(handler);
    })
}

/// Whether another handler or task may go on in this turn that has waited, or another task begin; what ran has returned, or
/// waits. When not, ask for an event first, after `fm_worker_wake_at` with 0.
#[unsafe(no_mangle)]
pub extern "C" fn fm_may_resume(worker: Option<&mut FmWorker>) -> bool {
    ask(worker, false, |worker| worker.worker.may_resume())
}

/// Sends what was answered in this turn at once, while the handler that has answered goes on. Nothing that the core has lent of
/// its request is valid any more.
#[unsafe(no_mangle)]
pub extern "C" fn fm_send_answers(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| worker.worker.send_answers())
}

/// The handler of a request for which `fm_defer` was called has come to its end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_settle(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.http.settle_request(request);
    })
}

/// The program waits before it can give the next piece of the stream that answers `request`. FM_EVENT_GONE tells when
/// the client leaves before. FM_GONE when it has left already.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_defer(worker: Option<&mut FmWorker>, request: FmRequest) -> u32 {
    guard(worker, None, |worker| {
        let request = request.known()?;
        worker.worker.defer_stream(request).map_err(gone)
    })
}

/// The piece that FM_EVENT_STREAM asks for cannot be made while there is no room for another handler that waits: it is
/// asked for again after `fm_worker_full`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_later(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.http.hold_stream_back(request);
    })
}
