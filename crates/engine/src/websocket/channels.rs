//! Sockets in channels: joining and leaving, presence, missed messages, messages by id.
//!
//! A socket's subscription resembles a held client's: a cursor in the channel's log, which contains
//! complete frames. So SSE and WebSocket clients of a channel receive the same messages.

use fermata_hub::{
    Backlog, Departure, ID_BYTES_MAX, Kind, Message as Record, Seq, SubId, Subscriber,
};
use fermata_io::Driver;
use fermata_proto::ws::utf8;

use super::missing::{LeftOut, Missing};
use super::output::{Open, open_socket};
use super::{SendError, Socket, Sockets};
use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::encode::{FORMAT_WS_DATA, FORMAT_WS_JSON, FORMAT_WS_OWN, WriteMessage};
use crate::channels::presence::Presence;
use crate::channels::presence::check_member;
use crate::channels::private_channel;
use crate::channels::publish::{PublishFailure, check_channel};
use crate::channels::since::Since;
use crate::embed::waiting::WaitEvent;
use crate::id::SocketId;
use crate::missed::missed;
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::index::ExchangeIndex;

/// Number of digits of each number in a socket id.
const ID_DIGITS: usize = 16;

/// Format of a channel's events for a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The data of messages, each as a text message.
    #[default]
    Data,
    /// Messages, joins, leaves and gaps as JSON: `channel`, `id`, `event` and `data`.
    Json,
    /// The embedder's format: [`Channels::write_messages`]. A socket receives neither the join
    /// event of its own user nor earlier joins and leaves: the embedder sends the list of members.
    Own,
}

/// A socket's request to join a channel.
#[derive(Clone, Copy, Debug)]
pub struct Join<'a> {
    /// Channel name.
    pub channel: &'a [u8],
    /// User of the socket for the channel's presence.
    pub user: Option<&'a [u8]>,
    /// Info about the user: a JSON value.
    pub info: Option<&'a [u8]>,
    /// Publish `join` and `leave` events of the user.
    pub announces: bool,
    /// Start of its events. Past events are sent first.
    pub since: Since<'a>,
    /// Id of the client's previous socket. Messages that excluded that socket as their sender are
    /// skipped.
    pub formerly: Option<&'a [u8]>,
    /// Event format.
    pub format: Format,
}

impl Channels {
    /// Sets the encoder for sockets in [`Format::Own`]. Must be called before the first socket
    /// joins in this format.
    pub fn write_messages(&mut self, write: WriteMessage) {
        self.encoder.message = Some(write);
    }
}

impl Channels {
    /// See `Worker::join_channel`.
    pub(crate) fn join_channel<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        socket: SocketId,
        join: &Join<'_>,
    ) -> Result<(), SendError> {
        let id = socket;
        check_channel(join.channel)?;
        check_member(join.user, join.info)?;
        self.check_join(to.net, id, join.channel)?;
        // Events published before this moment are past events, which the client receives only if
        // `since` is set.
        let mut newest = self.ring.newest();
        if let Some(user) = join.user {
            self.join_presence(to, id, join, user)?;
        }
        if join.format == Format::Own {
            // The socket does not receive its own join event either.
            newest = self.ring.newest();
        }
        // Waiting for room for the announcement may have closed the socket.
        let Some(Open { socket, .. }) = open_socket(to.net.connections.socket_mut(id)) else {
            return Err(SendError::Gone);
        };
        let format = self.frame_format(to.sockets, socket, join.format);
        let missed = self.missed_since(&[join.channel], join.since);
        if let Some(Some(backlog)) = missed {
            let formerly = join.formerly.and_then(parse_id);
            let missing = Missing {
                channel: join.channel.into(),
                backlog,
                format,
                left_out: LeftOut {
                    formerly: formerly.map(|(_, subscriber)| subscriber),
                    members_known_up_to: match join.format {
                        Format::Own => newest,
                        Format::Data | Format::Json => 0,
                    },
                },
            };
            to.sockets
                .begin_resume(to.net, self, id.exchange(), missing);
        } else {
            let is_unknown = missed.is_some();
            self.begin_after(to, id.exchange(), join, format, newest, is_unknown);
        }
        to.net.mark_dirty(id.exchange().connection());
        Ok(())
    }

    /// Checks that a socket may join a channel.
    fn check_join<D: Driver>(
        &self,
        net: &mut Net<D>,
        id: SocketId,
        channel: &[u8],
    ) -> Result<(), SendError> {
        let Some(open) = open_socket(net.connections.socket_mut(id)) else {
            return Err(SendError::Gone);
        };
        let (chain, missing) = (*open.chain, open.socket.missing_channels());
        let (mut count, mut is_known) = (0, false);
        for joined in self.local.channels_of(chain).chain(missing) {
            count += 1;
            is_known |= joined == channel;
        }
        let max = net.settings.channels_per_hold_max;
        if !is_known && count < max {
            return Ok(());
        }
        let channel = String::from_utf8_lossy(channel).into_owned();
        Err(if is_known {
            Misuse::Joined(channel).into()
        } else {
            Misuse::SocketChannels { max, channel }.into()
        })
    }

    /// Adds a socket's user to the presence of a channel.
    fn join_presence<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        id: SocketId,
        join: &Join<'_>,
        user: &[u8],
    ) -> Result<(), SendError> {
        let client = to.sockets.socket_client(to.net, id.exchange());
        let member = (user, join.info.unwrap_or_default());
        let except = match join.format {
            // Do not send the socket its own join event.
            Format::Own => self.excepted(to.net, id),
            Format::Data | Format::Json => None,
        };
        let presence = self.enter(to, &[join.channel], &member, client, join.announces, except)?;
        match open_socket(to.net.connections.socket_mut(id)) {
            Some(open) => open.socket.busy().presences.push(presence),
            // Waiting for room for the announcement has closed the socket.
            None => self.leave(to.net, presence, Departure::Lost),
        }
        Ok(())
    }

    /// Returns the format of frames for a socket; compressed frames are shared by all sockets with
    /// the same parameters.
    fn frame_format(&mut self, sockets: &Sockets, socket: &Socket, format: Format) -> u8 {
        let plain = match format {
            Format::Data => FORMAT_WS_DATA,
            Format::Json => FORMAT_WS_JSON,
            Format::Own => return FORMAT_WS_OWN,
        };
        let compresses = socket.compresses;
        match sockets.served[socket.route()].compression {
            Some(how) if compresses.is_agreed() && !compresses.refers_back() => {
                let bits = compresses.window_bits();
                self.encoder.compressed_format(plain, &how, bits)
            }
            _ => plain,
        }
    }

    /// Sends a socket the events after `newest`. With `is_unknown`, sends a gap event first,
    /// because the client's last event id is unknown.
    fn begin_after<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
        join: &Join<'_>,
        format: u8,
        newest: Seq,
        is_unknown: bool,
    ) {
        let channel = join.channel;
        let mut opening = std::mem::take(&mut to.net.scratch);
        opening.clear();
        if is_unknown {
            to.net.counts.add(Counter::GapsUnknown, 1);
            let encoder = &mut self.encoder;
            encoder.gap_frame(format, Some(channel), "unknown id", &mut opening);
        }
        if join.format == Format::Json {
            let mut id = [0; ID_BYTES_MAX];
            let id = self.ring.id_text(newest, &mut id);
            self.encoder.socket_position(channel, id, &mut opening);
        }
        to.sockets.append_frames(to.net, index, &opening);
        to.net.scratch = opening;
        if self.reader.read_up_to() < newest || self.ring.is_past(newest) {
            // Records between this worker's position and `newest` are also past. The socket is live
            // after them, when the current fan-out has reached that position.
            let missing = Missing {
                channel: channel.into(),
                backlog: Backlog::from_now(&[channel], newest),
                format,
                left_out: LeftOut::default(),
            };
            to.sockets.begin_resume(to.net, self, index, missing);
        } else {
            self.go_live_socket(to.net, index, channel, format);
        }
    }

    /// See `Worker::leave_channel`.
    pub(crate) fn leave_channel<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        socket: SocketId,
        channel: &[u8],
    ) -> Result<(), SendError> {
        let open = open_socket(net.connections.socket_mut(socket));
        let Some(Open { chain, socket, .. }) = open else {
            return Err(SendError::Gone);
        };
        if let Some(rest) = self.local.leave(*chain, channel) {
            *chain = rest;
        } else if !socket.forget_missing(channel) {
            return Ok(());
        }
        let presence = socket.busy.as_mut().and_then(|busy| {
            let is_it = |presence: &Presence| presence.channels.iter().any(|is| is == channel);
            let at = busy.presences.iter().position(is_it)?;
            Some(busy.presences.swap_remove(at))
        });
        if let Some(presence) = presence {
            self.leave(net, presence, Departure::Deliberate);
        }
        Ok(())
    }

    /// See `Worker::socket_id`.
    pub(crate) fn socket_id(&self, socket: SocketId) -> String {
        let key = socket.to_raw();
        format!("{:016x}{key:016x}{:x}", self.identity, self.slot)
    }

    /// See `Worker::socket_place`.
    pub(crate) fn socket_place(&self) -> (u64, u16) {
        (self.identity, self.slot)
    }

    /// See `Worker::send_to`.
    pub(crate) fn send_to<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        id: &[u8],
        is_binary: bool,
        data: &[u8],
    ) -> Result<(), SendError> {
        let Some((slot, subscriber)) = parse_id(id) else {
            return Err(Misuse::socket_id(id).into());
        };
        if !is_binary && !utf8::valid(data) {
            return Err(Misuse::TextEncoding.into());
        }
        let (bytes, max) = (data.len(), to.net.settings.event_bytes_max);
        if bytes > max {
            return Err(Misuse::SocketMessageBytes { bytes, max }.into());
        }
        if subscriber.worker == self.identity {
            // Zero is not a socket.
            let Some(socket) = SocketId::from_raw(subscriber.key) else {
                return Ok(());
            };
            let sent = to
                .sockets
                .send(to.net, to.http, self, socket, is_binary, data);
            return match sent {
                Err(SendError::Misuse(cause)) => Err(SendError::Misuse(cause)),
                // Delivery is not reported, as for sockets of other workers.
                _ => Ok(()),
            };
        }
        let sent = if self.is_elsewhere(subscriber) {
            self.send_elsewhere(slot, subscriber, is_binary, data)
        } else {
            self.send_to_worker(to, slot, subscriber, is_binary, data)
        };
        Ok(sent?)
    }

    /// Sends to a socket of another worker of this machine.
    fn send_to_worker<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        slot: u16,
        subscriber: Subscriber,
        is_binary: bool,
        data: &[u8],
    ) -> Result<(), PublishFailure> {
        let channel = private_channel(slot);
        let record = Record {
            channel: &channel,
            kind: Kind::Direct,
            name: is_binary.then_some(&b"b"[..]),
            data,
        };
        self.put(to, &record, Some(subscriber)).map(|_| ())
    }

    /// Queues messages of other workers for sockets of this worker.
    pub(crate) fn deliver_directs<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        for direct in self.local.take_directs() {
            if direct.key == Subscriber::WORKER.key {
                to.waiting
                    .events
                    .push_back(WaitEvent::PeerMessage(direct.data));
                continue;
            }
            // Errors are ignored: the id is invalid, the socket has closed, or its queue policy
            // applies.
            if let Some(socket) = SocketId::from_raw(direct.key) {
                let data = &direct.data;
                let _ = to
                    .sockets
                    .send(to.net, to.http, self, socket, direct.has_name, data);
            }
        }
    }
}

impl Channels {
    /// Ends the subscriptions and presence of a socket that sends no more.
    pub(super) fn leave_channels<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        how: Departure,
    ) {
        let Some(exchange) = net.connections.exchange_mut(index) else {
            return missed(());
        };
        let chain = std::mem::replace(&mut exchange.chain, SubId::NONE);
        self.local.unsubscribe(chain);
        let presences = exchange.socket_mut().map_or_else(Vec::new, |socket| {
            socket.end_resume();
            socket.take_presences()
        });
        for presence in presences {
            self.leave(net, presence, how);
        }
    }

    /// Returns the subscriber that a record excludes for a socket of this worker, if it is open.
    pub(crate) fn excepted<D: Driver>(&self, net: &Net<D>, socket: SocketId) -> Option<Subscriber> {
        let (_, exchange) = net.connections.socket(socket)?;
        exchange.socket()?;
        Some(Subscriber {
            worker: self.identity,
            key: socket.to_raw(),
        })
    }
}

/// Parses a socket id into slot and subscriber.
pub(crate) fn parse_id(id: &[u8]) -> Option<(u16, Subscriber)> {
    let text = std::str::from_utf8(id).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let worker = text.get(..ID_DIGITS)?;
    let key = text.get(ID_DIGITS..2 * ID_DIGITS)?;
    let slot = text.get(2 * ID_DIGITS..)?;
    let slot = u16::from_str_radix(slot, 16).ok()?;
    let subscriber = Subscriber {
        worker: u64::from_str_radix(worker, 16).ok()?,
        key: u64::from_str_radix(key, 16).ok()?,
    };
    // This key marks messages between workers, which a client-supplied id must not forge.
    (subscriber.key != Subscriber::WORKER.key).then_some((slot, subscriber))
}
