//! Publishing from handlers: immediate, or in a cluster while other handlers run.

use std::mem::MaybeUninit;

use fermata_engine::{Ack, PublishFailure, Publisher, Publishing};
use fermata_gateway::engine_id;

use crate::abi::{
    FM_BACKPRESSURE, FM_INTERNAL, Failure, FmError, FmId, FmMessage, FmPublish, FmRequest,
    FmSocket, FmStr, ask, guard, misuse, put,
};
use crate::worker::{FmWorker, id_of, lend_message};

/// A publish completes when the cluster log has stored the message.
pub const FM_ACK_CLUSTER: u32 = 0;
/// A publish completes when the message is queued for the cluster log.
pub const FM_ACK_LOCAL: u32 = 1;

fn ack_of(ack: u32) -> Ack {
    match ack {
        FM_ACK_LOCAL => Ack::Local,
        _ => Ack::Cluster,
    }
}

fn failure(failure: PublishFailure) -> Failure {
    match failure {
        PublishFailure::Misuse(cause) => misuse(cause),
        PublishFailure::Backpressure(cause) => (FM_BACKPRESSURE, cause.to_string()),
    }
}

/// Publishes a message. FM_OK: the message is in the channel's log, or in a cluster in the shared log. With FM_ACK_LOCAL the
/// message is queued for the shared log and the id is empty. The socket `except` of this worker does not receive it; 0 = no
/// exception.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    message: Option<&FmMessage>,
    except: FmSocket,
    ack: u32,
    id: Option<&mut MaybeUninit<FmId>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(message), error, |(worker, message)| {
        let message = lend_message(message);
        let published = worker
            .worker
            .publish_acknowledged(channel.bytes(), message, except.id(), ack_of(ack))
            .map_err(failure)?;
        worker.tell_doors(channel.bytes(), &message);
        put(id, id_of(published.as_str()));
        Ok(())
    })
}

/// Publishes to all clients except one Pusher client of any worker, identified by its socket id. An id of another
/// server excludes no client. In a cluster the call blocks until the log replies.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_except(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    message: Option<&FmMessage>,
    socket_id: FmStr,
    id: Option<&mut MaybeUninit<FmId>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(message), error, |(worker, message)| {
        let message = lend_message(message);
        let socket_id = std::str::from_utf8(socket_id.bytes()).unwrap_or_default();
        let except = engine_id(socket_id).unwrap_or_default();
        let published = worker
            .worker
            .publish_except_id(channel.bytes(), message, except.as_bytes())
            .map_err(failure)?;
        worker.tell_doors(channel.bytes(), &message);
        put(id, id_of(published.as_str()));
        Ok(())
    })
}

/// Sets the handle of the request whose handler publishes next, so that the publish is part of the request's trace. 0 means none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_for(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker, (), |worker| worker.worker.publish_for(request.id()));
}

/// Sends a message to the workers of all other servers of the cluster, which receive FM_EVENT_PEER_MESSAGE. Does nothing without a
/// cluster. FM_OK: the message is queued. FM_MISUSE (too large), FM_BACKPRESSURE (the log is unavailable).
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_send_to_servers(
    worker: Option<&mut FmWorker>,
    data: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let told = worker.worker.channels.send_to_servers(data.bytes());
        told.map(|_| ()).map_err(failure)
    })
}

/// Returns true if a publish may take long, so that a handler should wait for it with `fm_publish_begin`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_waits(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| {
        worker.worker.settings().cluster.is_some()
    })
}

/// Returns the maximum time of a publish in milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_wait_ms_max(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| {
        worker.worker.settings().publish_wait_ms_max
    })
}

/// Starts a publish like `fm_publish`, for a waiting handler. `began_ms` is the start of the first attempt in
/// `fm_worker_now_ms`, or 0 for a first attempt with FM_ACK_LOCAL. After FM_OK, `record` is 0 if the publish is
/// complete, or FM_PUBLISH_LATER to start it again a little later. Any other `record` is for `fm_publish_end`, after
/// `fm_publish_next` has returned `user`, which is not 0. FM_MISUSE, FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_begin(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    message: Option<&FmMessage>,
    except: FmSocket,
    ack: u32,
    user: u64,
    began_ms: u64,
    record: Option<&mut MaybeUninit<FmPublish>>,
    id: Option<&mut MaybeUninit<FmId>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(message), error, |(worker, message)| {
        let message = lend_message(message);
        let begun = worker
            .worker
            .begin_publish(
                channel.bytes(),
                message,
                except.id(),
                (ack_of(ack), Some(Publisher::Program(user)), began_ms),
            )
            .map_err(failure)?;
        // Forward the message immediately, so that the publish order is kept.
        if !matches!(begun, Publishing::Later) {
            worker.tell_doors(channel.bytes(), &message);
        }
        put(
            record,
            match begun {
                Publishing::Done(published) => {
                    put(id, id_of(published.as_str()));
                    FmPublish::NONE
                }
                Publishing::Pending(record) => record.into(),
                Publishing::Later => FmPublish::LATER,
            },
        );
        Ok(())
    })
}

/// Returns the `user` of the next publish with news from the log. Returns false if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_next(
    worker: Option<&mut FmWorker>,
    user: Option<&mut MaybeUninit<u64>>,
) -> bool {
    ask(worker, false, |worker| {
        let next = worker.worker.channels.next_published();
        if let Some(given) = next {
            put(user, given);
        }
        next.is_some()
    })
}

/// Returns the outcome of a publish that started at `began_ms`: FM_OK, FM_BACKPRESSURE. While the publish is pending, `over` is
/// false and the result is FM_OK. The publish completes or times out within `fm_publish_wait_ms_max`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_end(
    worker: Option<&mut FmWorker>,
    record: FmPublish,
    began_ms: u64,
    over: Option<&mut MaybeUninit<bool>>,
    id: Option<&mut MaybeUninit<FmId>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(over), error, |(worker, over)| {
        over.write(true);
        let record = record
            .id()
            .ok_or_else(|| (FM_INTERNAL, "no publish has this number".to_owned()))?;
        let outcome = worker.worker.end_publish(record, began_ms);
        over.write(outcome.is_some());
        if let Some(outcome) = outcome {
            put(id, id_of(outcome.map_err(failure)?.as_str()));
        }
        Ok(())
    })
}

/// Stops waiting for a publish. The message is still published.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_forget(worker: Option<&mut FmWorker>, record: FmPublish) {
    ask(worker.zip(record.id()), (), |(worker, record)| {
        worker.worker.forget_publish(record);
    })
}
