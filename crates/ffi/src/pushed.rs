//! Streams of events that a handler makes while it goes on.

use std::mem::MaybeUninit;

use fermata_engine::PushedEvent;

use crate::abi::{FmError, FmRequest, FmStr, ask, guard, put};
use crate::body::failure;
use crate::worker::FmWorker;

/// The handler of a stream that was begun goes on: FM_EVENT_GONE tells when its client has left, and FM_EVENT_STREAM that
/// all it has pushed was taken.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_watch(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.watch_stream(request);
    })
}

/// Queues an event; `ptr` of `data`, `name` and `id` is NULL, and `retry_ms` -1, for none. `queued` is how many bytes it
/// has become. FM_GONE; FM_MISUSE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_push(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    data: FmStr,
    name: FmStr,
    id: FmStr,
    retry_ms: i64,
    queued: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        let event = PushedEvent {
            data: data.option(),
            name: name.option(),
            id: id.option(),
            retry_ms: u64::try_from(retry_ms).ok(),
        };
        let outcome = worker.worker.net.push_event(request, &event);
        put(queued, outcome.map_err(failure)?);
        Ok(())
    })
}

/// Queues a comment, as `fm_stream_push`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_comment(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    text: FmStr,
    queued: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        let outcome = worker.worker.net.push_comment(request, text.bytes());
        put(queued, outcome.map_err(failure)?);
        Ok(())
    })
}

/// Queues bytes as they are, as `fm_stream_push`: for bodies that are no streams of events.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_bytes(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    bytes: FmStr,
    queued: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        let outcome = worker.worker.net.push_bytes(request, bytes.bytes());
        put(queued, outcome.map_err(failure)?);
        Ok(())
    })
}

/// Whether the worker finishes what it has and takes nothing new.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_is_draining(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| worker.worker.net.is_draining())
}

/// The setting keep_alive_ms; 0 = no comments.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_keep_alive_ms(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| worker.worker.settings().keep_alive_ms)
}
