//! Held clients: start, live events, presence and end of a hold. Missed events are in `resume`.
//!
//! A held client consists of its `Connection` and one subscription per channel. Live events are
//! sent directly from the channel's log without a buffer. If the kernel accepts only a part of an
//! event, the rest is buffered, so that events are never cut.

use std::io::{self, IoSlice};

use fermata_config::{LogLevel, Settings};
use fermata_hub::{Backlog, Local, Seq, SubId};
use fermata_io::{Deadline, Driver};
use fermata_proto::http2::Rest;

use crate::admin::stats::Counter;
use crate::admin::trace::End;
use crate::channels::Channels;
use crate::channels::busy::Busy;
use crate::channels::clients::Clients;
use crate::channels::missed::{Loss, OnLoss, Resume};
use crate::channels::pace::interval_of;
use crate::channels::presence::check_member;
use crate::channels::publish::{Message, PublishFailure, check_channel, check_message};
use crate::channels::since::Since;
use crate::channels::stream_format::StreamFormat;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::exchange::{Exchange, Held, Stage};
use crate::http::protocol::BodyLength;
use crate::id::RequestId;
use crate::missed::missed;
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::connection::{Phase, Writing};
use crate::net::http2::Http2;
use crate::net::index::ExchangeIndex;
use crate::net::line::{Carries, Line};
use crate::net::running::Running;
use crate::websocket::Socket;

/// Maximum number of bytes sent to a held client per turn, so that a client with many missed events
/// does not delay other clients.
const SEND_BYTES_MAX: usize = 128 * 1024;

/// A response that holds the client.
pub struct Hold<'a> {
    /// Format of events.
    pub format: StreamFormat,
    /// Channels, in any order.
    pub channels: &'a [&'a [u8]],
    /// User for presence in all channels.
    pub user: Option<&'a [u8]>,
    /// Info about the user: a JSON value.
    pub info: Option<&'a [u8]>,
    /// Publish `join` and `leave` events of the user.
    pub announces: bool,
    /// Start of the client's events. Past events are sent first.
    pub since: Since<'a>,
    /// Interval of keep-alive comments on a silent stream; `None` = setting `keep_alive_ms`, 0 =
    /// never.
    pub keep_alive_ms: Option<u64>,
    /// Close a client that falls behind the channel's log, instead of sending a `gap` event.
    pub closes_on_gap: bool,
    /// Events for this client only, sent first.
    pub with: &'a [Message<'a>],
    /// Further response fields, checked as for `respond`.
    pub headers: &'a [(&'a [u8], &'a [u8])],
}

impl<'a> Hold<'a> {
    /// Checks the arguments.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Misuse> {
        let channels_max = settings.channels_per_hold_max;
        if self.channels.is_empty() || self.channels.len() > channels_max {
            return Err(Misuse::HoldChannels {
                count: self.channels.len(),
                max: channels_max,
            });
        }
        for (at, channel) in self.channels.iter().enumerate() {
            check_channel(channel)?;
            if self.channels[..at].contains(channel) {
                let name = String::from_utf8_lossy(channel);
                return Err(Misuse::HoldChannelTwice(name.into_owned()));
            }
        }
        for message in self.with {
            check_message(message)?;
        }
        check_member(self.user, self.info)
    }

    /// Returns the headers of the hold, and the default headers of event streams.
    pub(crate) fn all_headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let given = self.headers;
        let is_given = move |name: &[u8]| {
            given
                .iter()
                .any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        // `no-store` disables caches; `X-Accel-Buffering` disables buffering in nginx.
        let defaults = [
            (&b"Cache-Control"[..], &b"no-store"[..]),
            (&b"X-Accel-Buffering"[..], &b"no"[..]),
        ];
        let defaults = defaults
            .into_iter()
            .filter(move |(name, _)| !is_given(name));
        defaults.chain(given.iter().copied())
    }
}

/// Why a client was not held. The request is still open and needs a response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// See `Gone`.
    #[error("the request is gone: its client has left or it has been answered")]
    Gone,
    /// An invalid argument.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The presence table is full or unavailable.
    #[error(transparent)]
    Backpressure(Busy),
}

impl From<PublishFailure> for HoldError {
    fn from(failure: PublishFailure) -> HoldError {
        match failure {
            PublishFailure::Misuse(cause) => HoldError::Misuse(cause),
            PublishFailure::Backpressure(cause) => HoldError::Backpressure(cause),
        }
    }
}

impl Channels {
    /// See `Worker::hold`.
    pub(crate) fn hold<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        handle: RequestId,
        hold: &Hold<'_>,
    ) -> Result<(), HoldError> {
        let index = to.net.open_request(handle).map_err(|_| HoldError::Gone)?;
        hold.check(&to.net.settings)?;
        let ends_at_once = to.net.running != Running::Serving
            || to
                .net
                .connections
                .exchange(index)
                .is_some_and(|it| it.is_head);
        // Events published before this moment are past events, which the client receives only if
        // `since` is set.
        let newest = self.ring.newest();
        if !ends_at_once {
            self.join(to, index, hold, to.http.client_of(to.net, handle))?;
        }
        let mut opening = std::mem::take(&mut to.net.scratch);
        opening.clear();
        let backlog = self.write_opening(to.net, hold, newest, !ends_at_once, &mut opening);
        let headers = hold.all_headers();
        if !self.open_stream(to, (index, hold.format), headers, opening, ends_at_once)? {
            return Ok(());
        }
        let keep_alive_ms = hold.keep_alive_ms.unwrap_or(to.net.settings.keep_alive_ms);
        let (is_queued, is_live) = (false, backlog.is_none());
        let held = Held::Events {
            format: hold.format,
            keep_alive_ms: interval_of(keep_alive_ms),
            closes_on_gap: hold.closes_on_gap,
            // `send_held` queues the client after the first bytes of the response were sent.
            resume: backlog.map(|backlog| Box::new(Resume { backlog, is_queued })),
        };
        self.begin_hold(to, index, held);
        if is_live {
            self.go_live(to.net, index, hold.channels.iter().copied());
        }
        Ok(())
    }

    /// Writes the head of a response that stays open, and its first bytes. Returns false if the
    /// response is already complete.
    pub(super) fn open_stream<'h, D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        (index, format): (ExchangeIndex, StreamFormat),
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        opening: Vec<u8>,
        ends_at_once: bool,
    ) -> Result<bool, HoldError> {
        let (content_type, length) = (Some(format.content_type()), BodyLength::Unknown);
        to.http
            .write_head(to.net, index, 200, content_type, headers, length);
        let Some((connection, exchange)) = to.net.connections.pair_mut(index) else {
            return Err(missed(HoldError::Gone));
        };
        let is_head = exchange.is_head;
        if !is_head {
            exchange.protocol.write_piece(&mut connection.out, &opening);
        }
        if opening.capacity() <= SEND_BYTES_MAX {
            to.net.scratch = opening;
        }
        if is_head {
            to.http.finish_answer(to.net, index);
        } else if ends_at_once {
            to.http.trace.on_answer(index, End::Closed, to.net);
            self.finish_hold(to.net, to.waiting, index, Some(format));
        }
        Ok(!is_head && !ends_at_once)
    }

    /// Makes the client held. The caller has already written the response head and the opening.
    pub(crate) fn begin_hold<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
        held: Held,
    ) {
        to.waiting.wake_reader(to.net, index);
        let Some((connection, exchange)) = to.net.connections.pair_mut(index) else {
            // Unreachable: the head was written to this connection above.
            return missed(());
        };
        to.net.gauges.end_active(connection);
        to.net.gauges.held += 1;
        to.net.counts.add(Counter::Holds, 1);
        exchange.stage = Stage::Held(held);
        exchange.is_deferred = false;
        let has_unread = connection.has_unread || connection.has_hung_up;
        // The keep-alive timer starts when the opening is sent.
        connection.deadline = Deadline::NEVER;
        to.http.trace.on_answer(index, End::Closed, to.net);
        to.net.mark_settled(index.connection());
        to.net.mark_dirty(index.connection());
        if has_unread {
            to.net.go_on(index.connection());
        }
    }

    /// Sends a held client new events from its channels' logs.
    pub(crate) fn send_held<D: Driver>(&mut self, to: &mut Clients<'_, D>, index: ExchangeIndex) {
        // Serving an earlier client in the list may have closed this one.
        let Some((mut connection, mut exchange)) = to.net.connections.pair_mut(index) else {
            return;
        };
        if exchange.takes_items {
            self.send_items(to, index);
            return;
        }
        let is_subscriber = exchange.is_held() || exchange.is_socket();
        if !is_subscriber || connection.phase != Phase::Open {
            return;
        }
        if connection.is_blocked {
            // Close a blocked client now, not when it reads again.
            let closes_on_gap = exchange.held().is_some_and(Held::closes_on_gap);
            if closes_on_gap && self.local.has_gap(exchange.chain) {
                self.on_gap(to, index);
            }
            return;
        }
        if connection.unsent() > 0 {
            // Send the head or the replayed events first; `flush` calls this function again.
            to.net.flush(to.http, index.connection());
            return;
        }
        if exchange.held().is_some_and(Held::is_resuming) {
            self.queue_resume(to.net, index);
            return;
        }
        if exchange.socket().is_some_and(Socket::is_resuming) {
            self.queue_resume(to.net, index);
            // The socket's other channels continue while one channel resumes.
            let Some(again) = to.net.connections.pair_mut(index) else {
                // Unreachable: the socket was queued above, and nothing was sent.
                return missed(());
            };
            (connection, exchange) = again;
        }
        let (chain, is_raw, line) = (
            exchange.chain,
            !exchange.protocol.is_chunked(),
            connection.line,
        );
        self.local.skip_excepts(chain);
        if exchange.socket().is_some_and(Socket::refers_back) {
            to.sockets.send_compressed(to.net, to.http, self, index);
            return;
        }
        // At least the size that one read of the ring adds; otherwise the log would overtake a
        // client that keeps up.
        let bytes_max = SEND_BYTES_MAX.max(to.net.settings.channel_log_bytes_max);
        let by = (&mut to.net.driver, &mut to.net.http2);
        let (wanted, sent) = match send_log(&self.local, (chain, is_raw), bytes_max, line, by) {
            LogSend::Nothing => return,
            LogSend::Gap => return self.on_gap(to, index),
            LogSend::Tried { wanted, sent } => (wanted, sent),
        };
        if let Ok(Some(sent)) = sent {
            if !line.is_stream() {
                to.net.counts.add(Counter::BytesSent, sent as u64);
            }
            to.http.trace.on_sent(index, sent);
        }
        // A client whose send failed is closed below and then has no chain.
        let is_counted = matches!(sent, Ok(Some(_))) && to.http.trace.is_recorded(index);
        let ahead = is_counted.then(|| self.local.frames_ahead(chain));
        match sent {
            Ok(Some(sent)) if sent == wanted => {
                self.local.advance(chain, is_raw, sent, &mut self.rest);
                if exchange.is_held() {
                    to.net.restart_deadline(index.connection());
                }
                if self.local.pending(chain) {
                    to.net.mark_dirty(index.connection());
                }
            }
            Ok(Some(sent)) => {
                self.local.advance(chain, is_raw, sent, &mut self.rest);
                if !self.rest.is_empty() {
                    let mut out = to.net.pool.take();
                    out.extend_from_slice(&self.rest);
                    self.rest.clear();
                    connection.out = out;
                    connection.out_sent = 0;
                    if let Some(socket) = exchange.socket_mut() {
                        socket.on_rest(connection.out.len());
                    }
                }
                to.net.block(index.connection(), sent);
            }
            Ok(None) => to.net.block(index.connection(), 0),
            Err(error) => to.net.close_broken(to.http, index.connection(), &error),
        }
        if let Some(ahead) = ahead {
            let left = self.local.frames_ahead(chain);
            to.http.trace.on_events(index, ahead.saturating_sub(left));
        }
    }

    /// Handles a slow client that the channel's log has overtaken.
    fn on_gap<D: Driver>(&mut self, to: &mut Clients<'_, D>, index: ExchangeIndex) {
        let Some((connection, exchange)) = to.net.connections.pair_mut(index) else {
            // Unreachable: the client's cursor was read above.
            return missed(());
        };
        let closes_on_gap = exchange.held().is_some_and(Held::closes_on_gap);
        let loss = Loss::of(self.local.is_log_lost(exchange.chain));
        let message = format!(
            "{}: {}; {}",
            connection.peer,
            loss.cause(),
            if exchange.is_socket() {
                "its queue policy decides"
            } else if closes_on_gap {
                "closing it"
            } else {
                "it is told by a gap event"
            }
        );
        to.net
            .log
            .write_limited(LogLevel::Info, to.net.driver.unix_ms(), &message);
        if exchange.is_socket() {
            to.sockets.on_socket_gap(to.net, self, index);
            return;
        }
        if closes_on_gap {
            to.net.counts.add(loss.dropped(), 1);
            to.net.close(to.http, index.connection());
            return;
        }
        to.net.counts.add(loss.counter(), 1);
        self.local.skip_gap(exchange.chain);
        let out = connection.take_buffer(&mut to.net.pool);
        let format = exchange.held().and_then(Held::format).unwrap_or_default();
        let write = |out: &mut Vec<u8>| format.gap(loss.reason(), out);
        exchange.protocol.write_piece_with(out, write);
        to.net.mark_dirty(index.connection());
    }

    /// Sends a keep-alive comment to a silent client.
    pub(crate) fn keep_alive<D: Driver>(
        &self,
        net: &mut Net<D>,
        http: &mut Http,
        index: ExchangeIndex,
    ) {
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        let Stage::Held(held) = &exchange.stage else {
            return;
        };
        let own = match held {
            Held::Own { keep_alive, .. } => keep_alive.as_deref(),
            Held::Events { .. } | Held::View(_) => None,
        };
        let format = held.format();
        let must_send = (own.is_some() || format.is_some()) && connection.unsent() == 0;
        if must_send {
            net.counts.add(Counter::KeepAlives, 1);
            let out = connection.take_buffer(&mut net.pool);
            if let Some(data) = own {
                exchange.protocol.write_piece(out, data);
            } else if let Some(format) = format {
                let write = |out: &mut Vec<u8>| format.keep_alive(out);
                exchange.protocol.write_piece_with(out, write);
            }
        }
        if exchange.keeps_interval() {
            let deadline = connection.deadline;
            net.set_deadline(index.connection(), deadline);
        } else {
            net.restart_deadline(index.connection());
        }
        if must_send {
            // Flush now, so that thousands of clients with new events share one buffer. This is the
            // last step, because it closes a disconnected client.
            net.flush(http, index.connection());
        }
    }
}

impl Channels {
    /// Ends a held response cleanly. Event streams get a retry time; the client resumes with its
    /// last event id.
    pub(crate) fn end_hold<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        index: ExchangeIndex,
    ) {
        let exchange = net.connections.exchange(index);
        let format = exchange.and_then(Exchange::held).and_then(Held::format);
        self.finish_hold(net, waiting, index, format);
    }

    /// Finishes a held response, or a response that ends after its opening.
    pub(crate) fn finish_hold<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        index: ExchangeIndex,
        format: Option<StreamFormat>,
    ) {
        // Drop the unsent events: the client resumes after the last event that it received.
        self.drop_subscriptions(net, index);
        waiting.wake_reader(net, index);
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        net.gauges.held -= u64::from(exchange.is_held());
        exchange.stage = Stage::Handling(None);
        let out = connection.take_buffer(&mut net.pool);
        if !exchange.is_head {
            if let Some(format) = format {
                let retry_ms = net.settings.retry_ms;
                let write = |out: &mut Vec<u8>| format.retry(retry_ms, out);
                exchange.protocol.write_piece_with(out, write);
            }
            exchange.protocol.end(out);
        }
        connection.writing = Writing::Linger;
        net.mark_dirty(index.connection());
    }
}

impl Channels {
    /// Writes the first bytes for a held client: its own events, the first piece of missed events,
    /// and its position. Returns `Some` if more missed events precede live ones.
    fn write_opening<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        hold: &Hold<'_>,
        newest: Seq,
        is_past_wanted: bool,
        out: &mut Vec<u8>,
    ) -> Option<Backlog> {
        for message in hold.with {
            hold.format.event(None, message.name, message.data, out);
        }
        let missed = self.missed_since(hold.channels, hold.since);
        let missed = match missed {
            // The client resumes from its position on another worker.
            Some(Some(_)) if !is_past_wanted => return None,
            Some(None) => {
                net.counts.add(Counter::GapsUnknown, 1);
                hold.format.gap("unknown id", out);
                None
            }
            missed => missed.flatten(),
        };
        let has_past = missed.is_some();
        if !has_past {
            self.write_position(hold.format, newest, out);
            // Usually this worker has read the complete ring.
            if self.reader.read_up_to() == newest && !self.ring.is_past(newest) {
                return None;
            }
        }
        let mut backlog = missed.unwrap_or_else(|| Backlog::from_now(hold.channels, newest));
        self.write_missed(
            &mut backlog,
            hold.format,
            OnLoss::TellExpired,
            net.driver.unix_ms(),
            &mut net.counts,
            out,
        );
        if !self.is_live_at(&backlog) {
            return Some(backlog);
        }
        let up_to = self.reader.read_up_to();
        if has_past {
            self.write_position(hold.format, up_to, out);
        }
        None
    }
}

/// Result of sending new events of a subscriber.
enum LogSend {
    /// No new events exist.
    Nothing,
    /// The channel logs have overtaken the client.
    Gap,
    /// `wanted` bytes were passed to the kernel or the HTTP/2 stream, with this result.
    Tried {
        wanted: usize,
        sent: io::Result<Option<usize>>,
    },
}

/// Sends the next events from the channel logs to a client, whose subscriptions are in `chain`. Uses
/// one slice if the events are contiguous, and a list of slices otherwise.
#[inline]
fn send_log<D: Driver>(
    local: &Local,
    (chain, is_raw): (SubId, bool),
    bytes_max: usize,
    line: Line,
    (driver, http2): (&mut D, &mut Http2),
) -> LogSend {
    if !is_raw
        && let Some(events) = local.contiguous(chain, bytes_max)
        && let Some(fd) = line.socket()
    {
        return match events.len() {
            0 => LogSend::Nothing,
            wanted => LogSend::Tried {
                wanted,
                sent: driver.send_one(fd, events),
            },
        };
    }
    let mut slices = Vec::new();
    let gathered = local.gather(chain, is_raw, &mut slices, bytes_max);
    if gathered.gap {
        return LogSend::Gap;
    }
    if gathered.bytes == 0 {
        return LogSend::Nothing;
    }
    let sent = match line.carries() {
        Carries::Socket(fd) => {
            let slices: Vec<IoSlice<'_>> = slices.into_iter().map(IoSlice::new).collect();
            driver.send(fd, &slices)
        }
        Carries::Stream(place) => http2.send(place, &slices, Rest::Open),
    };
    LogSend::Tried {
        wanted: gathered.bytes,
        sent,
    }
}
