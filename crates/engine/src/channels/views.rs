//! Clients that receive a part of one channel, selected by the embedder.
//!
//! A protocol may have richer subscriptions than channel names: patterns, several names, access
//! rights. All events of such a protocol are in one channel, with one order and one position to
//! resume from. Clients with equal subscriptions share a *view*. For each event, the embedder
//! selects the views ([`Select`]), once per worker. A view is a log with a cursor per client, like
//! a channel, so a silent client costs no more than any held client.
//!
//! Cost: for a reconnecting client, every event published since its disconnect is examined, in
//! pieces of at most [`LOOKED_MAX`] events.

use std::rc::Rc;

use fermata_hub::{Backlog, IdRef, Missed, view_channel};
use fermata_io::{Deadline, Driver};

use super::Channels;
use crate::admin::stats::{Counter, Counts};
use crate::channels::ahead::Resuming;
use crate::channels::clients::Clients;
use crate::channels::encode::Select;
use crate::channels::hold::HoldError;
use crate::channels::missed::{PIECE_BYTES, Resume};
use crate::channels::pace::interval_of;
use crate::channels::presence::check_member;
use crate::channels::publish::check_channel;
use crate::channels::resume::close_too_slow;
use crate::channels::since::Since;
use crate::channels::stream_format::StreamFormat;
use crate::http::exchange::{Exchange, Held, HeldView};
use crate::id::RequestId;
use crate::missed::Known;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;

/// Clients of views receive server-sent events: see [`Select::write`].
const FORMAT: StreamFormat = StreamFormat::EventStream;

/// Maximum number of events examined for one client per piece.
const LOOKED_MAX: usize = 1024;

/// Extent of the past events that a client receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Past events were not requested.
    NotAsked,
    /// Everything since the requested event.
    Whole,
    /// All retained events; earlier events may be lost.
    Kept,
    /// No past events: this server has no event with the requested id.
    Unknown,
}

/// A response that holds a client of a view.
#[derive(Debug)]
pub struct ViewHold<'a> {
    /// Channel passed to [`Channels::select_from`].
    pub channel: &'a [u8],
    /// View. The embedder holds a `Weak` reference to detect that no client uses the view any more.
    pub view: Rc<u64>,
    /// Position after which the client receives events.
    pub since: Since<'a>,
    /// User and info (JSON) for presence in the channel, which is announced.
    pub member: Option<(&'a [u8], &'a [u8])>,
    /// Send the position immediately, so that the client can resume before its first event.
    pub tells_position: bool,
    /// Silence in milliseconds after which a comment is sent; 0 = never.
    pub keep_alive_ms: u64,
    /// Time at which the response ends, in milliseconds since 1970; `None` = open-ended.
    pub ends_unix_ms: Option<u64>,
}

impl Channels {
    /// Appends the next piece of missed events of a view's client. Returns false if some are lost.
    fn write_view_missed(
        &mut self,
        view: u64,
        backlog: &mut Backlog,
        unix_ms: u64,
        counts: &mut Counts,
        out: &mut Vec<u8>,
    ) -> bool {
        self.wait_for_log(backlog);
        let up_to = self.reader.read_up_to();
        let enough = out.len() + PIECE_BYTES;
        let (mut looked, mut records, mut gaps) = (0, 0, 0);
        let encoder = &mut self.encoder;
        self.ring
            .next_missed(backlog, up_to, unix_ms, &mut |missed| {
                match missed {
                    Missed::Record(record) => {
                        looked += 1;
                        records += u64::from(encoder.view_past(view, record, out));
                    }
                    Missed::Gap { .. } => gaps += 1,
                }
                out.len() < enough && looked < LOOKED_MAX
            });
        counts.add(Counter::Replayed, records);
        gaps == 0
    }
}

impl Channels {
    /// Distributes a channel's events to the views that `select` names. Must be called before the
    /// first client is held.
    pub fn select_from(&mut self, channel: &[u8], select: Box<dyn Select>) {
        self.local.select_from(channel);
        self.encoder.select = Some(select);
    }
}

impl Channels {
    /// See `Worker::hold_view`.
    pub(crate) fn hold_view<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        handle: RequestId,
        hold: &ViewHold<'_>,
        headers: impl FnOnce(Past) -> Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), HoldError> {
        let index = to.net.open_request(handle).map_err(|_| HoldError::Gone)?;
        check_channel(hold.channel)?;
        let (user, info) = hold.member.unzip();
        check_member(user, info)?;
        let ends_at_once = to.net.running != Running::Serving || to.net.is_head(handle);
        // Events published before this moment belong to the past.
        let newest = self.ring.newest();
        if let Some(member) = &hold.member
            && !ends_at_once
        {
            let client = to.http.client_of(to.net, handle);
            let presence = self.enter(to, &[hold.channel], member, client, true, None)?;
            if let Some(exchange) = to.net.connections.exchange_mut(index).known() {
                exchange.presence = Some(Box::new(presence));
            }
        }
        let channels = &[hold.channel];
        let (mut backlog, mut past) = match hold.since {
            Since::Now => (Backlog::from_now(channels, newest), Past::NotAsked),
            Since::Earliest => (Backlog::new(channels, 0), Past::Kept),
            Since::After(id) => match self.ring.parse_id(id) {
                IdRef::Seq(after) => (Backlog::new(channels, after), Past::Whole),
                // Events before the oldest event of the ring are missing.
                IdRef::Past(_) => (Backlog::new(channels, 0), Past::Kept),
                // The response head has to state now if the id is known. If the id later proves
                // unknown, the client is closed and receives a gap event when it reconnects.
                IdRef::Ahead(_) | IdRef::Foreign | IdRef::Invalid => {
                    match self.missed_since(channels, hold.since).flatten() {
                        Some(backlog) => (backlog, Past::Whole),
                        None => (Backlog::from_now(channels, newest), Past::Unknown),
                    }
                }
            },
        };
        let mut opening = std::mem::take(&mut to.net.scratch);
        opening.clear();
        // Some proxies and clients wait for the first byte of a body.
        FORMAT.keep_alive(&mut opening);
        if hold.tells_position && backlog.is_at(newest) {
            self.write_position(FORMAT, newest, &mut opening);
        }
        if !ends_at_once {
            let unix_ms = to.net.driver.unix_ms();
            let counts = &mut to.net.counts;
            let is_whole =
                self.write_view_missed(*hold.view, &mut backlog, unix_ms, counts, &mut opening);
            if !is_whole && past == Past::Whole {
                past = Past::Kept;
            }
        }
        let is_live = self.is_live_at(&backlog);
        let headers = headers(past);
        let headers = headers.iter().map(|(name, value)| (&name[..], &value[..]));
        if !self.open_stream(to, (index, FORMAT), headers, opening, ends_at_once)? {
            return Ok(());
        }
        let left_ms = hold
            .ends_unix_ms
            .map(|ends| ends.saturating_sub(to.net.driver.unix_ms()));
        let is_queued = false;
        let held = Held::View(Box::new(HeldView {
            keep_alive_ms: interval_of(hold.keep_alive_ms),
            view: Rc::clone(&hold.view),
            ends: left_ms.map_or(Deadline::NEVER, |left_ms| {
                Deadline::after(to.net.driver.now_ms(), left_ms)
            }),
            // `send_held` queues the client after the first bytes of the response were sent.
            resume: (!is_live).then(|| Box::new(Resume { backlog, is_queued })),
        }));
        self.begin_hold(to, index, held);
        if is_live {
            self.go_live(
                to.net,
                index,
                std::iter::once(&view_channel(*hold.view)[..]),
            );
        }
        Ok(())
    }

    /// Sends the next piece of missed events to a view's client.
    pub(crate) fn write_view_piece<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
        view: u64,
        mut resume: Box<Resume>,
    ) {
        let mut piece = std::mem::take(&mut to.net.scratch);
        piece.clear();
        let unix_ms = to.net.driver.unix_ms();
        let backlog = &mut resume.backlog;
        let counts = &mut to.net.counts;
        if !self.write_view_missed(view, backlog, unix_ms, counts, &mut piece) {
            to.net.scratch = piece;
            close_too_slow(to, index);
            return;
        }
        let is_live = self.is_live_at(&resume.backlog);
        let is_waiting = self.is_waiting_at(&resume.backlog);
        let key = to.net.connections.key(index.connection());
        if piece.is_empty()
            && is_waiting
            && let Some(key) = key
        {
            // The client waits until the ring advances.
            resume.is_queued = true;
            let until_ms = resume.backlog.waits_until();
            self.ahead
                .push(Resuming::Client(key), until_ms, &to.net.driver);
            let exchange = to.net.connections.exchange_mut(index).known();
            if let Some(rest) = exchange
                .and_then(Exchange::held_mut)
                .and_then(Held::resume_mut)
            {
                *rest = Some(resume);
            }
            to.net.scratch = piece;
            return;
        }
        if is_live {
            self.go_live(to.net, index, std::iter::once(&view_channel(view)[..]));
        }
        let is_empty = piece.is_empty();
        if let Some((connection, exchange)) = to.net.connections.pair_mut(index).known() {
            if !is_live && let Some(rest) = exchange.held_mut().and_then(Held::resume_mut) {
                *rest = Some(resume);
            }
            if !is_empty {
                let out = connection.take_buffer(&mut to.net.pool);
                exchange.protocol.write_piece(out, &piece);
            }
        }
        to.net.scratch = piece;
        match is_empty {
            // None of these events was for this client, so nothing has to be sent before the next
            // piece.
            true if !is_live => self.queue_resume(to.net, index),
            true => {}
            // Flush now, so that thousands of clients share one buffer; `send_held` queues the
            // client again.
            false => to.net.flush(to.http, index.connection()),
        }
    }
}
