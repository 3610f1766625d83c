//! Clients that come back: what they missed, piece by piece as they take it, then live events.
//!
//! While a client catches up it has no subscription, so no channel's log waits for it and none overtakes
//! it: each piece comes from the ring. It gets a gap only for what the ring itself has lost. When a piece
//! has brought it to where this worker reads, the subscription begins.

use fermata_config::LogLevel;
use fermata_hub::SubId;
use fermata_io::Driver;

use super::missed::{OnLoss, Resume};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::http::exchange::{Held, Stage};
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::Phase;
use crate::net::index::ExchangeIndex;
use crate::net::slab::Key;

/// Pieces per turn over all clients (about a millisecond), so that thousands who come back together
/// do not keep the others waiting.
const PIECES_PER_TURN: usize = 16;

impl Channels {
    /// Lists clients again that wait for what they have seen on another machine: the ring has moved on.
    pub(crate) fn look_ahead(&mut self) {
        self.resuming.extend(self.ahead.take());
    }
}

impl Channels {
    /// Gives the next pieces to clients that catch up. True when some are still waiting.
    pub(crate) fn resume_held<D: Driver>(&mut self, to: &mut Clients<'_, D>) -> bool {
        if self.ahead.due.is_due(to.net.driver.now_ms()) {
            self.look_ahead();
        }
        for _ in 0..PIECES_PER_TURN.min(self.resuming.len()) {
            let Some(key) = self.resuming.pop_front() else {
                break;
            };
            // It was closed since it was listed.
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
                // It comes back by `send_held` when its bytes are taken.
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
        let on_loss = match held.is_some_and(Held::closes_on_gap) {
            true => OnLoss::Stop,
            false => OnLoss::TellSlow,
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
        let is_live = resume.backlog.is_at(up_to);
        if is_live {
            self.write_position(format, up_to, &mut piece);
            self.go_live(to.net, index, resume.backlog.channels());
        }
        // What was given before it has to wait is sent, and it is listed again by that.
        let is_waiting = resume.backlog.is_waiting() && piece.is_empty();
        if is_waiting && let Some(key) = to.net.connections.key(index.connection()).known() {
            // Nothing is written that would list it again.
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
        // At once, so that thousands share one buffer; `send_held` lists it again.
        to.net.flush(to.http, index.connection());
    }
}

impl Channels {
    /// Subscribes a held client: it is live from here on.
    pub(crate) fn go_live<'a, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        channels: impl Iterator<Item = &'a [u8]>,
    ) {
        let Some(exchange) = net.connections.exchange_mut(index) else {
            // It was sent something just now.
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

    /// Notes that a client has taken everything so far and waits for its next piece.
    pub(crate) fn queue_resume<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let Some(key) = net.connections.key(index.connection()) else {
            return missed(());
        };
        if let Some(exchange) = net.connections.exchange_mut(index).known()
            && let Some(is_queued) = exchange.resume_queued()
            && !std::mem::replace(is_queued, true)
        {
            self.resuming.push_back(key);
        }
    }

    /// Lists a client that waits until a moment.
    pub(crate) fn queue_ahead<D: Driver>(
        &mut self,
        net: &Net<D>,
        key: Key,
        until_unix_ms: Option<u64>,
    ) {
        let wait_ms = until_unix_ms
            .unwrap_or(0)
            .saturating_sub(net.driver.unix_ms());
        let now_ms = net.driver.now_ms();
        self.ahead.push(key, wait_ms, now_ms);
    }
}

/// History is gone that a client has not got yet. It comes back, and is told then what it has missed: the head of this answer
/// has said that nothing is.
pub(super) fn close_too_slow<D: Driver>(to: &mut Clients<'_, D>, index: ExchangeIndex) {
    let Some(connection) = to.net.connections.at(index.connection()) else {
        return missed(());
    };
    let message = format!(
        "{}: the client has caught up too slowly, history is gone; closing it",
        connection.peer
    );
    let unix_ms = to.net.driver.unix_ms();
    to.net.log.write_limited(LogLevel::Info, unix_ms, &message);
    to.net.counts.add(Counter::DroppedSlow, 1);
    to.net.close(to.http, index.connection());
}
