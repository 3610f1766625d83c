//! Reconnected clients: missed events, piece by piece as the client reads, then live events.
//!
//! A resuming client has no subscription, so no channel log waits for it or overtakes it: each
//! piece is read from the ring. The client receives a gap event only if the ring has lost records.
//! The subscription starts when a piece reaches the worker's position in the ring.
//!
//! Handlers that read a channel (`readers`) receive their events in the same way.

use fermata_config::LogLevel;
use fermata_hub::{Backlog, Kind, Missed, SubId};
use fermata_io::Driver;

use super::ahead::Resuming;
use super::missed::{Loss, OnLoss, Resume};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::publish::{Past, check_channel};
use crate::channels::readers::READERS_MAX;
use crate::channels::since::Since;
use crate::http::exchange::{Held, Stage};
use crate::id::ReaderId;
use crate::missed::{Known, missed};
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::connection::Phase;
use crate::net::index::ExchangeIndex;

/// Maximum number of pieces per turn for all clients (about one millisecond), so that thousands of
/// reconnecting clients do not delay others.
const PIECES_PER_TURN: usize = 16;

impl Channels {
    /// Queues clients again that wait for records of another machine, since the ring has advanced.
    pub(crate) fn look_ahead(&mut self) {
        self.resuming.extend(self.ahead.take());
    }
}

impl Channels {
    /// Sends the next pieces to resuming clients. Returns true if some still wait.
    pub(crate) fn resume_held<D: Driver>(&mut self, to: &mut Clients<'_, D>) -> bool {
        if !self.ahead.is_empty() {
            let turn = self.ring.log_turn();
            let has_turned = std::mem::replace(&mut self.log_turn, turn) != turn;
            if has_turned || self.ahead.due.is_due(to.net.driver.now_ms()) {
                self.look_ahead();
            }
        }
        for _ in 0..PIECES_PER_TURN.min(self.resuming.len()) {
            let key = match self.resuming.pop_front() {
                Some(Resuming::Client(key)) => key,
                Some(Resuming::Reader(id)) => {
                    self.readers.wake(to.waiting, id);
                    continue;
                }
                None => break,
            };
            // The client's connection was closed after it was queued.
            let Some((connection, exchange)) = to.net.connections.get_mut(key) else {
                continue;
            };
            let is_ready = connection.phase == Phase::Open
                && !connection.is_blocked
                && connection.unsent() == 0;
            if let Some(is_queued) = exchange.resume_queued() {
                *is_queued = false;
            }
            if !is_ready {
                // `send_held` queues the client again when its bytes are sent.
                continue;
            }
            match &mut exchange.stage {
                Stage::Held(held) => {
                    let view = held.view();
                    let resume = held.resume_mut().and_then(Option::take);
                    match (resume, view) {
                        (Some(resume), Some(view)) => {
                            self.write_view_piece(to, key.exchange(), view, resume);
                        }
                        (Some(resume), None) => self.write_piece(to, key.exchange(), resume),
                        (None, _) => {}
                    }
                }
                Stage::Socket(_) => to
                    .sockets
                    .send_missed(to.net, to.http, self, key.exchange()),
                _ => {}
            }
        }
        !self.resuming.is_empty()
    }

    fn write_piece<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
        mut resume: Box<Resume>,
    ) {
        let Some(exchange) = to.net.connections.exchange(index) else {
            return missed(());
        };
        let held = exchange.held();
        let format = held.and_then(Held::format).unwrap_or_default();
        let on_loss = if held.is_some_and(Held::closes_on_gap) {
            OnLoss::Stop
        } else {
            OnLoss::TellSlow
        };
        let mut piece = std::mem::take(&mut to.net.scratch);
        piece.clear();
        if !self.write_missed(
            &mut resume.backlog,
            format,
            on_loss,
            to.net.driver.unix_ms(),
            &mut to.net.counts,
            &mut piece,
        ) {
            to.net.scratch = piece;
            close_too_slow(to, index);
            return;
        }
        let up_to = self.reader.read_up_to();
        let is_live = self.is_live_at(&resume.backlog);
        if is_live {
            self.write_position(format, up_to, &mut piece);
            self.go_live(to.net, index, resume.backlog.channels());
        }
        // A piece that is not empty is sent, and `send_held` then queues the client again. After an
        // empty one, the client is queued here.
        let is_waiting = self.is_waiting_at(&resume.backlog) && piece.is_empty();
        if is_waiting && let Some(key) = to.net.connections.key(index.connection()).known() {
            // No output follows that would queue the client again.
            resume.is_queued = true;
            let until_ms = resume.backlog.waits_until();
            self.ahead
                .push(Resuming::Client(key), until_ms, &to.net.driver);
        }
        if let Some((connection, exchange)) = to.net.connections.pair_mut(index).known() {
            if !is_live && let Some(rest) = exchange.held_mut().and_then(Held::resume_mut) {
                *rest = Some(resume);
            }
            if is_waiting {
                to.net.scratch = piece;
                return;
            }
            let out = connection.take_buffer(&mut to.net.pool);
            exchange.protocol.write_piece(out, &piece);
        }
        to.net.scratch = piece;
        // Flush now, so that thousands of clients share one buffer; `send_held` queues the client
        // again.
        to.net.flush(to.http, index.connection());
    }
}

impl Channels {
    /// Subscribes a held client, which receives live events from now on.
    pub(crate) fn go_live<'a, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        channels: impl Iterator<Item = &'a [u8]>,
    ) {
        let Some(exchange) = net.connections.exchange_mut(index) else {
            // Unreachable: bytes were sent to this client above.
            return missed(());
        };
        let format = exchange.held().and_then(Held::format).unwrap_or_default();
        let mut chain = SubId::NONE;
        for channel in channels {
            chain = self
                .local
                .subscribe(index.0, chain, channel, format.number());
        }
        exchange.chain = chain;
    }

    /// Queues a client that has received everything so far, to receive its next piece.
    pub(crate) fn queue_resume<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let Some(key) = net.connections.key(index.connection()) else {
            return missed(());
        };
        if let Some(exchange) = net.connections.exchange_mut(index).known()
            && let Some(is_queued) = exchange.resume_queued()
            && !std::mem::replace(is_queued, true)
        {
            self.resuming.push_back(Resuming::Client(key));
        }
    }
}

/// Result of reading a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadNext {
    /// The next event.
    Event(Past),
    /// Events before the next one are missing, for this reason.
    Gap(&'static str),
    /// All events were read. `Event::Read` follows when there may be more.
    Wait,
}

impl Channels {
    /// Opens a reader of a channel.
    ///
    /// # Errors
    /// The channel name is invalid, or [`READERS_MAX`] is reached.
    pub(crate) fn open_reader(
        &mut self,
        channel: &[u8],
        since: Since<'_>,
    ) -> Result<ReaderId, Misuse> {
        check_channel(channel)?;
        if self.readers.len() >= READERS_MAX {
            return Err(Misuse::TooManyReaders { max: READERS_MAX });
        }
        let newest = self.ring.newest();
        let missed = self.missed_since(&[channel], since);
        let is_unknown = matches!(missed, Some(None));
        let backlog = missed.flatten();
        let backlog = backlog.unwrap_or_else(|| Backlog::from_now(&[channel], newest));
        Ok(self.readers.insert(backlog, is_unknown))
    }

    /// Reads the next event of a reader's channel; `None` if the reader was closed. If there is
    /// none, the reader waits.
    pub(crate) fn read_next<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        id: ReaderId,
    ) -> Option<ReadNext> {
        if self.readers.take_unknown(id) {
            net.counts.add(Counter::GapsUnknown, 1);
            return Some(ReadNext::Gap("unknown id"));
        }
        let (local, ring) = (&mut self.local, &mut self.ring);
        let read_up_to = self.reader.read_up_to();
        let mut backlog = self.readers.take_backlog(id, local, ring, read_up_to)?;
        let has_begun = backlog.has_begun();
        let mut next = None;
        self.next_missed(
            &mut backlog,
            net.driver.unix_ms(),
            &mut |encoder, missed| {
                next = match missed {
                    Missed::Record(record) if record.kind == Kind::Message => {
                        Some(ReadNext::Event(Past::of(&encoder.ids, record)))
                    }
                    // A join or a leave.
                    Missed::Record(_) => None,
                    Missed::Gap { is_of_log } => {
                        let (counter, reason) = match Loss::of(is_of_log) {
                            // Before the first record, a loss means that the position was too old.
                            Loss::Slow if !has_begun => (Counter::GapsExpired, "expired"),
                            loss => (loss.counter(), loss.reason()),
                        };
                        net.counts.add(counter, 1);
                        Some(ReadNext::Gap(reason))
                    }
                };
                next.is_none()
            },
        );
        if next.is_some() {
            self.readers.put_back(id, backlog);
            return next;
        }
        if self.is_waiting_at(&backlog) {
            // The log has not replied, or is not connected: read again when it has advanced.
            let until_ms = backlog.waits_until();
            self.readers.wait(id, backlog, None);
            self.ahead.push(Resuming::Reader(id), until_ms, &net.driver);
        } else {
            self.readers.wait(id, backlog, Some(&mut self.local));
        }
        Some(ReadNext::Wait)
    }
}

/// Closes a slow client for which the ring has lost events. Its response head announced complete
/// history. The client reconnects and then receives a gap event.
pub(super) fn close_too_slow<D: Driver>(to: &mut Clients<'_, D>, index: ExchangeIndex) {
    let Some(connection) = to.net.connections.at(index.connection()) else {
        return missed(());
    };
    let message = format!(
        "{}: closed: the ring has lost events that the client had not received",
        connection.peer
    );
    let unix_ms = to.net.driver.unix_ms();
    to.net.log.write_limited(LogLevel::Info, unix_ms, &message);
    to.net.counts.add(Counter::DroppedSlow, 1);
    to.net.close(to.http, index.connection());
}
