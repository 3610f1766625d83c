//! Why something was not taken that may be taken later: no mistake of the program's.

use fermata_hub::{PresenceError, PublishError};

/// What was not to be had in time, or has no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The shared log cannot be used.
    #[error(transparent)]
    Ring(#[from] PublishError),
    /// It could not be for as long as a publisher waits.
    #[error("{cause}; waited for publish_wait_ms_max ({wait_ms} ms)")]
    RingWait {
        /// What was in the way.
        cause: RingWait,
        /// The setting.
        wait_ms: u64,
    },
    /// The presence table has no room, or cannot be used.
    #[error("presence: {0}")]
    Presence(PresenceError),
    /// The client takes less than it is sent, and the route refuses what does not fit.
    #[error(
        "{queued} bytes wait for the client and the message does not fit into queueBytes ({max}); wait, or use trySend()"
    )]
    Queue {
        /// Bytes that wait.
        queued: usize,
        /// The option.
        max: usize,
    },
    /// A message for another server while there is no way to it.
    #[error(
        "it is for another server and the log of the cluster is not there; the message was not sent"
    )]
    NoWay,
    /// The way to other servers is full.
    #[error("the outbox is full of events that the log has not taken; the message was not sent")]
    WayFull,
    /// An event for a cluster that this server is not in.
    #[error("there is no outbox")]
    NoOutbox,
    /// The outbox could not take an event for as long as a publisher waits.
    #[error("{}; waited for publish_wait_ms_max ({wait_ms} ms). The event was not published", outbox_text(.cause))]
    OutboxWait {
        /// What was in the way.
        cause: PublishError,
        /// The setting.
        wait_ms: u64,
    },
    /// The log of the cluster is away for as long as a publisher waits.
    #[error(
        "the log of the cluster is not there for {away_ms} ms (publish_wait_ms_max is {wait_ms} ms); the event was not published"
    )]
    LogAway {
        /// For so long.
        away_ms: u64,
        /// The setting.
        wait_ms: u64,
    },
    /// A bound of the embedder's, which says what helps.
    #[error("{0}")]
    Embedder(&'static str),
    /// The log of the cluster has refused the event.
    #[error("the log of the cluster does not take the event; the server's log says why")]
    LogRefused,
    /// The event was kept for too long while the log was away.
    #[error(
        "the event was too old to be sent to the log of the cluster again. It may have been published all the same"
    )]
    TooOld,
    /// The log of the cluster has not answered for as long as a publisher waits.
    #[error(
        "the log of the cluster has not acknowledged the event; waited for publish_wait_ms_max ({wait_ms} ms). \
         It may have been published all the same"
    )]
    NotAcknowledged {
        /// The setting.
        wait_ms: u64,
    },
}

/// Why publishing waits for the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingWait {
    /// It cannot be used now.
    #[error(transparent)]
    Error(#[from] PublishError),
    /// A worker has not read it.
    #[error(
        "the ring (history_bytes_max) is full of events that {} has not read, {bytes} bytes of them", reader_text(.worker)
    )]
    Reader {
        /// Index and process of the worker; `None` of one that is just starting or ending.
        worker: Option<(u16, u32)>,
        /// Bytes that it has not read.
        bytes: u64,
    },
}

fn outbox_text(cause: &PublishError) -> String {
    match cause {
        PublishError::Behind { .. } => {
            "the outbox is full of events that the log has not taken".to_owned()
        }
        cause => cause.to_string(),
    }
}

fn reader_text(worker: &Option<(u16, u32)>) -> String {
    match worker {
        Some((index, pid)) => format!("worker {index} (pid {pid})"),
        None => "a worker that is just starting or ending".to_owned(),
    }
}
