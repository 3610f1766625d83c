//! Missed events, read from the ring piece by piece.

use fermata_hub::{Backlog, Missed};

use super::Channels;
use crate::admin::stats::{Counter, Counts};
use crate::channels::stream_format::StreamFormat;

/// Size in bytes after which a piece ends. The event that reaches this size is included.
pub(crate) const PIECE_BYTES: usize = 32 * 1024;

/// The state of a held client that is not live yet.
pub(crate) struct Resume {
    pub backlog: Backlog,
    /// True while the client is in `Channels::resuming`.
    pub is_queued: bool,
}

/// Why a live or resuming client has missed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The client reads too slowly.
    Slow,
    /// The cluster log was recreated, or lost or deleted unread records.
    Log,
}

impl Loss {
    pub fn of(is_of_log: bool) -> Loss {
        if is_of_log { Loss::Log } else { Loss::Slow }
    }

    /// Returns the reason in a gap event.
    pub fn reason(self) -> &'static str {
        match self {
            Loss::Slow => "too slow",
            Loss::Log => "log lost",
        }
    }

    /// Returns the close reason of a WebSocket whose route closes on a gap.
    pub fn close_reason(self) -> &'static str {
        match self {
            Loss::Slow => "messages were missed; read faster",
            Loss::Log => {
                "the log of the cluster has lost messages; connect again and load the state"
            }
        }
    }

    /// Returns the cause for the server's log.
    pub fn cause(self) -> &'static str {
        match self {
            Loss::Slow => "the client is more than channel_log_bytes_max behind",
            Loss::Log => "the log of the cluster was recreated or has lost messages",
        }
    }

    /// Returns the counter of gap events.
    pub fn counter(self) -> Counter {
        match self {
            Loss::Slow => Counter::GapsSlow,
            Loss::Log => Counter::GapsLog,
        }
    }

    /// Returns the counter of clients closed instead.
    pub fn dropped(self) -> Counter {
        match self {
            Loss::Slow => Counter::DroppedSlow,
            Loss::Log => Counter::GapsLog,
        }
    }
}

/// Behavior when the ring has lost a part of a client's backlog.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// The client reconnected too late: send a gap event, whatever its policy is.
    TellExpired,
    /// The client reads too slowly: send a gap event.
    TellSlow,
    /// The client reads too slowly: stop writing; the caller closes it.
    Stop,
}

impl Channels {
    /// Appends the next piece of a backlog. Returns false if records are lost and `on_loss` is
    /// `Stop`.
    pub(crate) fn write_missed(
        &mut self,
        backlog: &mut Backlog,
        format: StreamFormat,
        on_loss: OnLoss,
        unix_ms: u64,
        counts: &mut Counts,
        out: &mut Vec<u8>,
    ) -> bool {
        let ids = self.encoder.ids;
        let enough = out.len() + PIECE_BYTES;
        let (mut records, mut gaps, mut log_gaps) = (0, 0, 0);
        // Before the first record, a loss means that the client reconnected too late.
        let on_loss = if backlog.has_begun() {
            on_loss
        } else {
            OnLoss::TellExpired
        };
        self.next_missed(backlog, unix_ms, &mut |_, missed| {
            match missed {
                Missed::Record(record) => {
                    records += 1;
                    format.record(&ids, record, out);
                }
                Missed::Gap { is_of_log: true } if on_loss != OnLoss::Stop => {
                    log_gaps += 1;
                    format.gap(Loss::Log.reason(), out);
                }
                Missed::Gap { .. } => {
                    gaps += 1;
                    match on_loss {
                        OnLoss::TellExpired => format.gap("expired", out),
                        OnLoss::TellSlow => format.gap("too slow", out),
                        OnLoss::Stop => return false,
                    }
                }
            }
            out.len() < enough
        });
        counts.add(Counter::Replayed, records);
        counts.add(Counter::GapsLog, log_gaps);
        match on_loss {
            OnLoss::TellExpired => counts.add(Counter::GapsExpired, gaps),
            OnLoss::TellSlow => counts.add(Counter::GapsSlow, gaps),
            OnLoss::Stop => return gaps == 0,
        }
        true
    }
}
