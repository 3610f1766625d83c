//! Clients that get a part of one channel, which the embedder selects.
//!
//! A protocol may subscribe clients to more than a channel's name: patterns, several names, and what a client is allowed to
//! see. All that is published is then in one channel, so it has one order and one position to resume from, and clients that
//! get the same have one *view*. The embedder says per event which views get it ([`Select`]), once per worker; a view is a
//! log with a cursor for each of its clients, like a channel, so a client that is silent costs no more than any held client.
//!
//! The price: whoever comes back is sent its part out of everything that was published since, in pieces of at most
//! [`LOOKED_MAX`] events looked at.

use std::rc::Rc;

use fermata_hub::{Backlog, IdRef, Missed, view_channel};
use fermata_io::{Deadline, Driver};

use super::Channels;
use crate::admin::stats::{Counter, Counts};
use crate::channels::clients::Clients;
use crate::channels::encode::Select;
use crate::channels::hold::HoldError;
use crate::channels::missed::{PIECE_BYTES, Resume};
use crate::channels::pace::interval_of;
use crate::channels::presence::check_member;
use crate::channels::publish::check_channel;
use crate::channels::resume::close_too_slow;
use crate::channels::stream_format::StreamFormat;
use crate::http::exchange::{Held, HeldView};
use crate::id::RequestId;
use crate::missed::Known;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;

/// What clients of views get is server-sent events: see [`Select::write`].
const FORMAT: StreamFormat = StreamFormat::EventStream;

/// Events looked at for one client at once.
const LOOKED_MAX: usize = 1024;

/// Since when a client wants events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since<'a> {
    /// From now on.
    Now,
    /// Everything that is kept.
    Earliest,
    /// What came after the event with this id.
    After(&'a [u8]),
}

/// What a client gets of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Nothing, as it has asked for nothing.
    NotAsked,
    /// Everything since the event that it has named.
    Whole,
    /// Everything that is kept; before that, something may be gone.
    Kept,
    /// Nothing: the id that it has named is none of this server's.
    Unknown,
}

/// How a client is held that gets a view.
#[derive(Debug)]
pub struct ViewHold<'a> {
    /// The channel that was given to [`Channels::select_from`].
    pub channel: &'a [u8],
    /// The view. The embedder knows by a `Weak` of it whether a client still has it.
    pub view: Rc<u64>,
    /// Since when it wants events.
    pub since: Since<'a>,
    /// As who the client is present in the channel, which is announced, and what is told about it: JSON.
    pub member: Option<(&'a [u8], &'a [u8])>,
    /// Whether it is sent its position at once, so that it can resume before it got anything.
    pub tells_position: bool,
    /// Silence after which a comment is sent; 0 = never.
    pub keep_alive_ms: u64,
    /// When its response ends by itself: milliseconds since 1970.
    pub ends_unix_ms: Option<u64>,
}

impl Channels {
    /// Appends the next piece of what a client of a view has missed. False: something of it is gone.
    fn write_view_missed(
        &mut self,
        view: u64,
        backlog: &mut Backlog,
        unix_ms: u64,
        counts: &mut Counts,
        out: &mut Vec<u8>,
    ) -> bool {
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
                    Missed::Gap => gaps += 1,
                }
                out.len() < enough && looked < LOOKED_MAX
            });
        counts.add(Counter::Replayed, records);
        gaps == 0
    }
}

impl Channels {
    /// Has what is published to a channel go to the views that `select` names. To be called before the first is held.
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
        // What was published before this moment is the past, and not news.
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
        let (after, mut past) = match hold.since {
            Since::Now => (newest, Past::NotAsked),
            Since::Earliest => (0, Past::Kept),
            Since::After(id) => match self.ring.parse_id(id) {
                IdRef::Seq(after) => (after, Past::Whole),
                // What another machine is ahead by is not waited for: it is told as unknown.
                // What lies before what this machine has is missing.
                IdRef::Past(_) => (0, Past::Kept),
                IdRef::Ahead(_) | IdRef::Foreign | IdRef::Invalid => (newest, Past::Unknown),
            },
        };
        let mut opening = std::mem::take(&mut to.net.scratch);
        opening.clear();
        // Some proxies and clients wait for the first byte of a body.
        FORMAT.keep_alive(&mut opening);
        if hold.tells_position && after == newest {
            self.write_position(FORMAT, newest, &mut opening);
        }
        let mut backlog = Backlog::new(&[hold.channel], after);
        if !ends_at_once {
            let unix_ms = to.net.driver.unix_ms();
            let counts = &mut to.net.counts;
            let is_whole =
                self.write_view_missed(*hold.view, &mut backlog, unix_ms, counts, &mut opening);
            if !is_whole && past == Past::Whole {
                past = Past::Kept;
            }
        }
        let is_live = backlog.is_at(self.reader.read_up_to());
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
            // `send_held` lists it when the opening is sent.
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

    /// Sends a client of a view the next piece of what it has missed.
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
        let is_live = resume.backlog.is_at(self.reader.read_up_to());
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
            // Nothing of these was for it: nothing has to leave before the next.
            true if !is_live => self.queue_resume(to.net, index),
            true => {}
            // At once, so that thousands share one buffer; `send_held` lists it again.
            false => to.net.flush(to.http, index.connection()),
        }
    }
}
