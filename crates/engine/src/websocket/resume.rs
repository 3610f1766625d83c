//! Reconnected sockets: missed messages of a channel, piece by piece as the client reads, then live
//! messages.
//!
//! As for held clients (`crate::resume`), missed messages stay in the ring until there is room for
//! them. The subscription starts when a piece reaches the worker's position. Unlike a held client,
//! the socket is already in use: the application and other channels send between two pieces.
//! Channels resume one after the other.

use std::collections::VecDeque;

use fermata_config::LogLevel;
use fermata_hub::{Encode, ID_BYTES_MAX, Missed};
use fermata_io::Driver;
use fermata_proto::ws::close::CloseCode;

use super::missing::{Missing, Resume};
use super::output::{Open, open_socket};
use super::{QueuePolicy, Socket};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::ahead::Resuming;
use crate::channels::missed::{Loss, PIECE_BYTES};
use crate::http::Http;
use crate::http::exchange::Exchange;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::index::ExchangeIndex;
use crate::websocket::Sockets;

impl Sockets {
    /// Sends the next piece of missed messages to a socket whose output is empty.
    pub(crate) fn send_missed<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        self.append_missed(net, channels, index);
        // Flush now, so that thousands of clients share one buffer; `send_held` queues the socket
        // again.
        net.flush(http, index.connection());
    }
}

impl Sockets {
    /// Starts to send a socket missed messages of a channel.
    pub(super) fn begin_resume<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
        missing: Missing,
    ) {
        let Some(Open {
            connection, socket, ..
        }) = open_socket(net.connections.pair_mut(index))
        else {
            // Unreachable: the socket has just joined.
            return missed(());
        };
        let has_room = connection.unsent() < PIECE_BYTES;
        let resume = socket.busy().resume.get_or_insert_with(|| {
            Box::new(Resume {
                waiting: VecDeque::new(),
                is_queued: false,
            })
        });
        resume.waiting.push_back(missing);
        // Usually the first piece is complete, and the client is live immediately.
        if has_room && resume.waiting.len() == 1 {
            self.append_missed(net, channels, index);
        }
    }

    fn append_missed<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
    ) {
        let exchange = net.connections.exchange(index);
        let own = exchange.and_then(|it| channels.excepted(net, it.socket_id(index)));
        // The socket may have closed, or left the last of these channels, after it was queued.
        let Some(Open { socket, .. }) = open_socket(net.connections.pair_mut(index)) else {
            return;
        };
        let Some(mut missing) = socket.next_missing() else {
            return;
        };
        let served = &self.served[socket.route()];
        // The other half of the queue is for the application's messages.
        let bytes_max = PIECE_BYTES.min(served.queue_bytes_max / 2);
        let is_slow = missing.backlog.has_begun();
        let stops = is_slow && served.queue_policy == QueuePolicy::Close;
        let mut piece = std::mem::take(&mut net.scratch);
        piece.clear();
        let (up_to, unix_ms) = (channels.reader.read_up_to(), net.driver.unix_ms());
        let is_json = channels.encoder.is_json(missing.format);
        let (mut records, mut gaps, mut plain_bytes) = (0, 0, 0);
        let mut loss = None;
        let Missing {
            channel,
            backlog,
            format,
            left_out,
        } = &mut missing;
        channels.next_missed(backlog, unix_ms, &mut |encoder, missed| {
            match missed {
                Missed::Record(record) => {
                    plain_bytes += record.data().len();
                    if !left_out.has(record, own) {
                        records += 1;
                        encoder.encode(*format, record, &mut piece);
                    }
                }
                Missed::Gap { is_of_log } => {
                    gaps += 1;
                    let cause = Loss::of(is_of_log);
                    loss = (is_slow || is_of_log).then_some(cause);
                    if stops {
                        return false;
                    }
                    let reason = loss.map_or("expired", Loss::reason);
                    let channel = Some(&channel[..]);
                    encoder.gap_frame(*format, channel, reason, &mut piece);
                }
            }
            plain_bytes.max(piece.len()) < bytes_max
        });
        net.counts.add(Counter::Replayed, records);
        if gaps > 0 && stops {
            net.scratch = piece;
            self.stop_resume(net, channels, index, loss.unwrap_or(Loss::Slow));
            return;
        }
        let counter = loss.map_or(Counter::GapsExpired, Loss::counter);
        net.counts.add(counter, gaps);
        // Skipped joins and leaves must not be sent again as live events.
        let is_past_members = up_to >= missing.left_out.members_known_up_to;
        let is_live = channels.is_live_at(&missing.backlog) && is_past_members;
        if is_live && is_json {
            let mut id = [0; ID_BYTES_MAX];
            let id = channels.ring.id_text(up_to, &mut id);
            let encoder = &mut channels.encoder;
            encoder.socket_position(&missing.channel, id, &mut piece);
        }
        self.append_frames(net, index, &piece);
        net.scratch = piece;
        if is_live {
            channels.go_live_socket(net, index, &missing.channel, missing.format);
        }
        let is_waiting = channels.is_waiting_at(&missing.backlog);
        let waits_until = missing.backlog.waits_until();
        let exchange = net.connections.exchange_mut(index);
        if let Some(socket) = exchange.and_then(Exchange::socket_mut) {
            socket.put_back((!is_live).then_some(missing));
            if is_waiting && let Some(is_queued) = socket.resume_queued() {
                // The socket waits until the ring advances.
                *is_queued = true;
                if let Some(key) = net.connections.key(index.connection()).known() {
                    let one = Resuming::Client(key);
                    channels.ahead.push(one, waits_until, &net.driver);
                }
            }
        }
    }

    /// Closes a socket, as its route specifies, because the ring has lost messages that the socket
    /// has not received.
    #[cold]
    fn stop_resume<D: Driver>(
        &self,
        net: &mut Net<D>,
        channels: &mut Channels,
        index: ExchangeIndex,
        loss: Loss,
    ) {
        let Some(connection) = net.connections.at_mut(index.connection()) else {
            return missed(());
        };
        let cause = match loss {
            Loss::Slow => "the client has caught up too slowly, history is gone",
            Loss::Log => loss.cause(),
        };
        let line = format!("{}: WebSocket closed: {cause}", connection.peer);
        net.log_for_client(LogLevel::Info, &line);
        net.counts.add(loss.dropped(), 1);
        let reason = loss.close_reason();
        self.start_close(
            net,
            channels,
            index,
            CloseCode::TryAgainLater as u16,
            reason,
        );
    }
}

impl Channels {
    /// Subscribes a socket, which receives the channel's live messages from here on.
    pub(super) fn go_live_socket<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        channel: &[u8],
        format: u8,
    ) {
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            exchange.chain = self
                .local
                .subscribe(index.0, exchange.chain, channel, format);
        }
    }
}

impl Socket {
    /// Returns true if the socket is not live yet in some channel.
    #[inline]
    pub fn is_resuming(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.resume.is_some())
    }

    /// Returns the flag for membership in `Channels::resuming`, while the socket is resuming.
    pub fn resume_queued(&mut self) -> Option<&mut bool> {
        let busy = self.busy.as_mut()?;
        busy.resume.as_mut().map(|resume| &mut resume.is_queued)
    }

    /// Returns the channels in which the socket is not live yet.
    pub fn missing_channels(&self) -> impl Iterator<Item = &[u8]> {
        let resume = self.busy.as_ref().and_then(|busy| busy.resume.as_ref());
        let waiting = resume.into_iter().flat_map(|resume| &resume.waiting);
        waiting.map(|missing| &*missing.channel)
    }

    /// Drops missed messages of a channel. Returns true if there were any.
    pub(super) fn forget_missing(&mut self, channel: &[u8]) -> bool {
        let Some(busy) = &mut self.busy else {
            return false;
        };
        let Some(resume) = &mut busy.resume else {
            return false;
        };
        let before = resume.waiting.len();
        resume
            .waiting
            .retain(|missing| *missing.channel != *channel);
        let is_found = resume.waiting.len() < before;
        busy.resume.take_if(|resume| resume.waiting.is_empty());
        is_found
    }

    /// Drops all missed messages.
    pub(super) fn end_resume(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.resume = None;
        }
    }

    pub fn next_missing(&mut self) -> Option<Missing> {
        let busy = self.busy.as_mut()?;
        busy.resume.as_mut()?.waiting.pop_front()
    }

    /// Stores the rest after a piece.
    pub fn put_back(&mut self, missing: Option<Missing>) {
        if let Some(busy) = &mut self.busy
            && let Some(resume) = &mut busy.resume
        {
            if let Some(missing) = missing {
                resume.waiting.push_front(missing);
            }
            busy.resume.take_if(|resume| resume.waiting.is_empty());
        }
    }
}
