//! Publishing by handlers: at once, or in a cluster while others go on.

use std::mem::MaybeUninit;

use fermata_engine::{Ack, PublishFailure, Publisher, Publishing};

use crate::abi::{
    FM_BACKPRESSURE, FM_INTERNAL, Failure, FmError, FmId, FmMessage, FmPublish, FmRequest,
    FmSocket, FmStr, ask, guard, misuse, put,
};
use crate::worker::{FmWorker, id_of, lend_message};

/// A publish is over when the log of the cluster has the message.
pub const FM_ACK_CLUSTER: u32 = 0;
/// It is over when the message is on its way there.
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

/// Publishes a message. When it returns FM_OK the message is in the channel's log; in a cluster, in the log that machines share,
/// or with FM_ACK_LOCAL on its way there, and the id is empty. The socket `except` of this worker does not get it; 0 = everybody
/// does.
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

/// Names the request whose handler is about to publish, by its handle: the publish is part of its trace. 0 = none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_for(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker, (), |worker| worker.worker.publish_for(request.id()));
}

/// Sends a message to the workers of all other servers of the cluster, which have it as FM_EVENT_PEER_MESSAGE; nothing happens without a
/// cluster. When it returns FM_OK the message is on its way. FM_MISUSE (too large), FM_BACKPRESSURE (the log is not there).
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

/// Whether a publish takes longer than a moment, so that a handler should wait for it: `fm_publish_begin`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_waits(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| {
        worker.worker.settings().cluster.is_some()
    })
}

/// How long a publish may take.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_wait_ms_max(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| {
        worker.worker.settings().publish_wait_ms_max
    })
}

/// Begins to publish as `fm_publish` does, for a handler that waits, in which it has begun at `began_ms` of `fm_worker_now_ms`,
/// 0 for one with FM_ACK_LOCAL that begins. On FM_OK `record` is 0 when it is over, FM_PUBLISH_LATER when it is to be begun
/// again a little later, and else for `fm_publish_end` when `fm_publish_next` has given `user`, which is not 0. FM_MISUSE, FM_BACKPRESSURE.
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
        // Right behind it, so that both are in the order in which they were published.
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

/// The next publish of which the log has said something: its `user`. False when there is none.
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

/// What became of a publish that began at `began_ms`: FM_OK, FM_BACKPRESSURE. `over` is false, and the answer FM_OK, while that is
/// not known; it is known when its time is over at the latest.
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

/// Stops waiting for a publish. The message is published all the same.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publish_forget(worker: Option<&mut FmWorker>, record: FmPublish) {
    ask(worker.zip(record.id()), (), |(worker, record)| {
        worker.worker.forget_publish(record);
    })
}
