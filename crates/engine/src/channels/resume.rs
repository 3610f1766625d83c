//! Clients that come back: what they missed, piece by piece as they take it, then live events.
//!
//! While a client catches up it has no subscription, so no channel's log waits for it and none overtakes
//! it: each piece comes from the ring. It gets a gap only for what the ring itself has lost. When a piece
//! has brought it to where this worker reads, the subscription begins.

use fermata_config::LogLevel;
use fermata_hub::{Backlog, Missed, SubId};
use fermata_io::Driver;
use fermata_proto::chunk;

use crate::admin::stats::Counter;
use crate::channels::encode::{self, FORMAT_SSE};
use crate::net::connection::Reading;
use crate::worker::Worker;

/// Bytes of events after which a piece ends; the event that reaches it is the last one.
pub(crate) const PIECE_BYTES: usize = 32 * 1024;

/// Pieces per turn over all clients (about a millisecond), so that thousands who come back together
/// do not keep the others waiting.
const PIECES_PER_TURN: usize = 16;

/// The state of a held client that is not live yet.
pub(crate) struct Resume {
    pub backlog: Backlog,
    /// Listed in `Worker::resuming`.
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

impl<D: Driver> Worker<D> {
    /// Appends the next piece of a backlog. `false` when something is lost and `on_loss` is to stop.
    pub(crate) fn write_missed(
        &mut self,
        backlog: &mut Backlog,
        on_loss: OnLoss,
        out: &mut Vec<u8>,
    ) -> bool {
        let (up_to, unix_ms) = (self.channels.reader.read_up_to(), self.net.driver.unix_ms());
        let ids = self.channels.encoder.ids;
        let enough = out.len() + PIECE_BYTES;
        let (mut records, mut gaps) = (0, 0);
        self.channels
            .ring
            .next_missed(backlog, up_to, unix_ms, &mut |missed| {
                match missed {
                    Missed::Record(record) => {
                        records += 1;
                        encode::event(&ids, record, out);
                    }
                    Missed::Gap => {
                        gaps += 1;
                        match on_loss {
                            OnLoss::TellExpired => encode::gap("expired", out),
                            OnLoss::TellSlow => encode::gap("too slow", out),
                            OnLoss::Stop => return false,
                        }
                    }
                }
                out.len() < enough
            });
        self.net.counts.add(Counter::Replayed, records);
        match on_loss {
            OnLoss::TellExpired => self.net.counts.add(Counter::GapsExpired, gaps),
            OnLoss::TellSlow => self.net.counts.add(Counter::GapsSlow, gaps),
            OnLoss::Stop => return gaps == 0,
        }
        true
    }

    /// Subscribes a held client: it is live from here on.
    pub(crate) fn go_live<'a>(&mut self, index: u32, channels: impl Iterator<Item = &'a [u8]>) {
        let mut chain = SubId::NONE;
        for channel in channels {
            chain = self
                .channels
                .local
                .subscribe(index, chain, channel, FORMAT_SSE);
        }
        if let Some(connection) = self.net.connections.at_mut(index) {
            connection.chain = chain;
        }
    }

    /// Notes that a client has taken everything so far and waits for its next piece.
    pub(crate) fn queue_resume(&mut self, index: u32) {
        let Some(key) = self.net.connections.key(index) else {
            return;
        };
        if let Some(connection) = self.net.connections.at_mut(index)
            && let Some(is_queued) = connection.resume_queued()
            && !std::mem::replace(is_queued, true)
        {
            self.channels.resuming.push_back(key);
        }
    }

    /// Gives the next pieces to clients that catch up. True when some are still waiting.
    pub(crate) fn resume_held(&mut self) -> bool {
        for _ in 0..PIECES_PER_TURN.min(self.channels.resuming.len()) {
            let Some(key) = self.channels.resuming.pop_front() else {
                break;
            };
            let Some(connection) = self.net.connections.get_mut(key) else {
                continue;
            };
            let is_ready = matches!(connection.reading, Reading::Held | Reading::WebSocket)
                && !connection.is_blocked
                && connection.unsent() == 0;
            if let Some(is_queued) = connection.resume_queued() {
                *is_queued = false;
            }
            if !is_ready {
                // It comes back by `send_held` when its bytes are taken.
                continue;
            }
            if let Some(resume) = connection.resume.take() {
                self.write_piece(key.index, resume);
            } else if connection.socket.is_some() {
                self.send_missed(key.index);
            }
        }
        !self.channels.resuming.is_empty()
    }

    fn write_piece(&mut self, index: u32, mut resume: Box<Resume>) {
        let Some(connection) = self.net.connections.at_mut(index) else {
            return;
        };
        let (is_raw, peer) = (connection.is_http10, connection.peer);
        let on_loss = if connection.closes_on_gap {
            OnLoss::Stop
        } else {
            OnLoss::TellSlow
        };
        let mut piece = std::mem::take(&mut self.scratch);
        piece.clear();
        if !self.write_missed(&mut resume.backlog, on_loss, &mut piece) {
            let message =
                format!("{peer}: the client has caught up too slowly, history is gone; closing it");
            let unix_ms = self.net.driver.unix_ms();
            self.log.write_limited(LogLevel::Info, unix_ms, &message);
            self.net.counts.add(Counter::DroppedSlow, 1);
            self.close(index);
            return;
        }
        let up_to = self.channels.reader.read_up_to();
        let is_live = resume.backlog.is_at(up_to);
        if is_live {
            encode::position(&self.channels.encoder.ids, up_to, &mut piece);
            self.go_live(index, resume.backlog.channels());
        }
        if let Some(connection) = self.net.connections.at_mut(index) {
            if !is_live {
                connection.resume = Some(resume);
            }
            if connection.out.capacity() == 0 {
                connection.out = self.net.pool.take();
            }
            if is_raw {
                connection.out.extend_from_slice(&piece);
            } else if !piece.is_empty() {
                chunk::wrap(&mut connection.out, &piece);
            }
        }
        self.scratch = piece;
        // At once, so that thousands share one buffer; `send_held` lists it again.
        self.flush(index);
    }
}
