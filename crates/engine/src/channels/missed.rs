//! What a client missed of its channels, piece by piece out of the ring.

use fermata_hub::{Backlog, Missed};

use super::Channels;
use crate::admin::stats::{Counter, Counts};
use crate::channels::stream_format::StreamFormat;

/// Bytes of events after which a piece ends; the event that reaches it is the last one.
pub(crate) const PIECE_BYTES: usize = 32 * 1024;

/// The state of a held client that is not live yet.
pub(crate) struct Resume {
    pub backlog: Backlog,
    /// Listed in `Channels::resuming`.
    pub is_queued: bool,
}

/// What happens to a client when the ring has lost something of its backlog.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// It came back too late: it is told so, whatever its policy is.
    TellExpired,
    /// It reads too slowly: it is told.
    TellSlow,
    /// It reads too slowly: nothing more is written, and the caller closes it.
    Stop,
}

impl Channels {
    /// Appends the next piece of a backlog. `false` when something is lost and `on_loss` is to stop.
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
        let (mut records, mut gaps) = (0, 0);
        // What a client misses that has got nothing yet was gone when it came.
        let on_loss = match backlog.has_begun() {
            true => on_loss,
            false => OnLoss::TellExpired,
        };
        self.next_missed(backlog, unix_ms, &mut |_, missed| {
            match missed {
                Missed::Record(record) => {
                    records += 1;
                    format.record(&ids, record, out);
                }
                Missed::Gap => {
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
        match on_loss {
            OnLoss::TellExpired => counts.add(Counter::GapsExpired, gaps),
            OnLoss::TellSlow => counts.add(Counter::GapsSlow, gaps),
            OnLoss::Stop => return gaps == 0,
        }
        true
    }
}
