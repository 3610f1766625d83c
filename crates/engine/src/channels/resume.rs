//! Reconnected clients: missed events, piece by piece as the client reads, then live events.
//!
//! A resuming client has no subscription, so no channel log waits for it or overtakes it: each
//! piece is read from the ring. The client receives a gap event only if the ring has lost records.
//! The subscription starts when a piece reaches the worker's position in the ring.

use fermata_config::LogLevel;
use fermata_hub::SubId;
use fermata_io::Driver;

use super::missed::{OnLoss, Resume};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::readers::ReaderId;
use crate::http::exchange::{Held, Stage};
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::Phase;
use crate::net::index::ExchangeIndex;
use crate::net::slab::Key;

/// Maximum number of pieces per turn for all clients (about one millisecond), so that thousands of
/// reconnecting clients do not delay others.
const PIECES_PER_TURN: usize = 16;

/// A client, or a reader, that continues in the next turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resuming {
    /// A held client or WebSocket.
    Client(Key),
    /// A handler that reads a channel.
    Reader(ReaderId),
}

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
                    self.wake_reader(to.waiting, id);
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
            self.queue_ahead(to.net, key, resume.backlog.waits_until());
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

    /// Registers a client that waits until a given time.
    pub(crate) fn queue_ahead<D: Driver>(
        &mut self,
        net: &Net<D>,
        key: Key,
        until_unix_ms: Option<u64>,
    ) {
        self.push_ahead(net, Resuming::Client(key), until_unix_ms);
    }

    /// Registers a reader that waits until a given time.
    pub(crate) fn queue_reader_ahead<D: Driver>(
        &mut self,
        net: &Net<D>,
        id: ReaderId,
        until_unix_ms: Option<u64>,
    ) {
        self.push_ahead(net, Resuming::Reader(id), until_unix_ms);
    }

    fn push_ahead<D: Driver>(&mut self, net: &Net<D>, one: Resuming, until_unix_ms: Option<u64>) {
        let wait_ms = until_unix_ms
            .unwrap_or(0)
            .saturating_sub(net.driver.unix_ms());
        let now_ms = net.driver.now_ms();
        self.ahead.push(one, wait_ms, now_ms);
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
