//! Event streams that a running handler writes to.

use std::mem::MaybeUninit;

use fermata_engine::PushedEvent;

use crate::abi::{FmError, FmRequest, FmStr, ask, guard, put};
use crate::body::failure;
use crate::worker::FmWorker;

/// Marks a started stream whose handler keeps running. FM_EVENT_GONE then reports that its client disconnected, and
/// FM_EVENT_STREAM that all pushed bytes were sent.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_watch(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.watch_stream(request);
    })
}

/// Queues an event; `ptr` NULL for no `data`, `name` or `id`, `retry_ms` -1 for none. `queued` receives the encoded
/// size in bytes. FM_GONE; FM_MISUSE.
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
        let accepted = outcome.map_err(failure)?;
        worker.worker.send_large(request, accepted);
        put(queued, accepted);
        Ok(())
    })
}

/// Queues a comment, like `fm_stream_push`.
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
        let accepted = outcome.map_err(failure)?;
        worker.worker.send_large(request, accepted);
        put(queued, accepted);
        Ok(())
    })
}

/// Queues raw bytes, like `fm_stream_push`, for bodies that are not event streams.
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
        let accepted = outcome.map_err(failure)?;
        worker.worker.send_large(request, accepted);
        put(queued, accepted);
        Ok(())
    })
}

/// Counts `bytes` as buffered. PHP holds these bytes back for a slow client, and they may cause the client to be closed. Pass 0
/// when PHP holds none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_hold(worker: Option<&mut FmWorker>, request: FmRequest, bytes: usize) {
    guard(worker, None, |worker| {
        worker.worker.net.hold_piece(request.known()?, bytes);
        Ok(())
    });
}

/// Returns true if the worker is draining.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_is_draining(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| worker.worker.net.is_draining())
}

/// Returns the setting keep_alive_ms; 0 = no comments.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_keep_alive_ms(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| worker.worker.settings().keep_alive_ms)
}
