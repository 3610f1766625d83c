//! Temporary failures: the application may try again later.

use fermata_hub::{PresenceError, PublishError};

/// A resource that was full or not available in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The ring cannot be used.
    #[error(transparent)]
    Ring(#[from] PublishError),
    /// The ring had no room within `publish_wait_ms_max`.
    #[error("{cause}; waited for publish_wait_ms_max ({wait_ms} ms)")]
    RingWait {
        /// The cause.
        cause: RingWait,
        /// The setting, in milliseconds.
        wait_ms: u64,
    },
    /// The presence table has no room or cannot be used.
    #[error("presence: {0}")]
    Presence(PresenceError),
    /// The client reads too slowly, and its route refuses further messages.
    #[error(
        "{queued} bytes wait for the client and the message does not fit into queueBytes ({max}); wait, or use trySend()"
    )]
    Queue {
        /// Number of bytes queued for the client.
        queued: usize,
        /// The route's option, in bytes.
        max: usize,
    },
    /// A message for another server while the cluster log is unreachable.
    #[error(
        "cannot reach another server: the log of the cluster is unreachable; the message was not sent"
    )]
    NoWay,
    /// A message for another server while the outbox is full.
    #[error("the outbox is full of events that the log has not accepted; the message was not sent")]
    WayFull,
    /// An event for a cluster was published on a server without a cluster.
    #[error("there is no outbox")]
    NoOutbox,
    /// The outbox had no room within `publish_wait_ms_max`.
    #[error("{}; waited for publish_wait_ms_max ({wait_ms} ms). The event was not published", outbox_text(.cause))]
    OutboxWait {
        /// The cause.
        cause: PublishError,
        /// The setting, in milliseconds.
        wait_ms: u64,
    },
    /// The cluster log has been unreachable for longer than `publish_wait_ms_max`.
    #[error(
        "the log of the cluster is unreachable for {away_ms} ms (publish_wait_ms_max is {wait_ms} ms); the event was not published"
    )]
    LogAway {
        /// Duration of the outage in milliseconds.
        away_ms: u64,
        /// The setting, in milliseconds.
        wait_ms: u64,
    },
    /// A limit of the embedder, with its message.
    #[error("{0}")]
    Embedder(&'static str),
    /// The cluster log refused the event.
    #[error("the log of the cluster refused the event; the server's log has the reason")]
    LogRefused,
    /// The event waited too long while the cluster log was unreachable.
    #[error(
        "the event was too old to be sent to the log of the cluster again. It may still have been published"
    )]
    TooOld,
    /// The cluster log did not acknowledge the event within `publish_wait_ms_max`.
    #[error(
        "the log of the cluster has not acknowledged the event; waited for publish_wait_ms_max ({wait_ms} ms). \
         It may still have been published"
    )]
    NotAcknowledged {
        /// The setting, in milliseconds.
        wait_ms: u64,
    },
}

/// Why a publisher waits for the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingWait {
    /// The ring cannot be used now.
    #[error(transparent)]
    Error(#[from] PublishError),
    /// A worker has not read records that the publisher would overwrite.
    #[error(
        "the ring (history_bytes_max) is full of events that {} has not read, {bytes} bytes of them", reader_text(.worker)
    )]
    Reader {
        /// Index and process id of the worker; `None` if it is just starting or exiting.
        worker: Option<(u16, u32)>,
        /// Number of bytes that the worker has not read.
        bytes: u64,
    },
}

fn outbox_text(cause: &PublishError) -> String {
    match cause {
        PublishError::Behind { .. } => {
            "the outbox is full of events that the log has not accepted".to_owned()
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
