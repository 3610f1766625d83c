//! Handlers that wait: what C tells the core about its fibers.

use fermata_engine::Gone;
use fermata_engine::router::{TASK, WEBSOCKET};

use crate::abi::{FM_GONE, guard, put};
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
///
/// # Safety
/// `worker` is a live worker; `fibers` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_fibers(worker: *const FmWorker, fibers: *mut FmFibers) {
    // SAFETY: pointers are valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            let settings = (*worker).worker.settings();
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
            Ok(())
        });
    }
}

fn gone(gone: Gone) -> (u32, String) {
    (FM_GONE, gone.to_string())
}

/// The handler of a request waits and will answer later. FM_EVENT_GONE tells when its client leaves
/// before. FM_GONE when it has left already, or was answered.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_defer(worker: *mut FmWorker, request: u64) -> u32 {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.defer(request).map_err(gone)
        })
    }
}

/// The handler of a WebSocket waits: nothing more comes from this socket until `fm_ws_resume`, except
/// FM_EVENT_GONE and its close. FM_GONE when it has ended.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_defer(worker: *mut FmWorker, socket: u64) -> u32 {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.defer_socket(socket).map_err(gone)
        })
    }
}

/// The handler of a WebSocket that waited has come to its end.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_resume(worker: *mut FmWorker, socket: u64) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.resume_socket(socket);
            Ok(())
        });
    }
}

/// Asks for one FM_EVENT_WAKE at `due_ms` of `fm_worker_now_ms`; 0 = as soon as output has gone out and
/// events were looked for, UINT64_MAX = not any more. The last call counts.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_wake_at(worker: *mut FmWorker, due_ms: u64) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.wake_at(due_ms);
            Ok(())
        });
    }
}

/// Milliseconds of the monotonic clock.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_now_ms(worker: *mut FmWorker) -> u64 {
    let mut now_ms = 0;
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            now_ms = (*worker).worker.now_ms();
            Ok(())
        });
    }
    now_ms
}

/// Whether something is under way that has no client, and should come to its end before the worker stops.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_busy(worker: *mut FmWorker, busy: bool) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.set_busy(busy);
            Ok(())
        });
    }
}

/// Whether there is no room for another handler. Meanwhile only FM_EVENT_WAKE, FM_EVENT_GONE and
/// FM_EVENT_STOP come.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_full(worker: *mut FmWorker, full: bool) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.set_full(full);
            Ok(())
        });
    }
}

/// `fm_note_handler`: added to the number of a handler of WebSockets.
pub const FM_HANDLER_WEBSOCKET: u32 = 0x8000_0000;
/// `fm_note_handler`: a task.
pub const FM_HANDLER_TASK: u32 = 0xffff_ffff;
const _: () = assert!(FM_HANDLER_WEBSOCKET == WEBSOCKET && FM_HANDLER_TASK == TASK);

/// This handler runs from now on, though no event was asked for: it has waited. For the report of what holds the loop.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_note_handler(worker: *mut FmWorker, handler: u32) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.note_resumed(handler);
            Ok(())
        });
    }
}

/// The handler of a request for which `fm_defer` was called has come to its end.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_settle(worker: *mut FmWorker, request: u64) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.settle_request(request);
            Ok(())
        });
    }
}

/// The program waits before it can give the next piece of the stream that answers `request`. FM_EVENT_GONE tells when
/// the client leaves before. FM_GONE when it has left already.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_stream_defer(worker: *mut FmWorker, request: u64) -> u32 {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.defer_stream(request).map_err(gone)
        })
    }
}

/// The piece that FM_EVENT_STREAM asks for cannot be made while there is no room for another handler that waits: it is
/// asked for again after `fm_worker_full`.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_stream_later(worker: *mut FmWorker, request: u64) {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            (*worker).worker.hold_stream_back(request);
            Ok(())
        });
    }
}
