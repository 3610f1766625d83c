//! Presence of users through held clients and sockets.

use std::net::IpAddr;

use fermata_config::LogLevel;
use fermata_hub::{Departure, PresenceError, Subscriber};
use fermata_io::{Deadline, Driver};

use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::busy::Busy;
use crate::channels::clients::Clients;
use crate::channels::hold::{Hold, HoldError};
use crate::channels::presence::{Change, Presence, announcement, network_of};
use crate::http::exchange::Stage;
use crate::missed::Known;
use crate::net::Net;
use crate::net::ended::Ended;
use crate::net::index::ExchangeIndex;

impl<D: Driver> Net<D> {
    fn note_refused_member(
        &mut self,
        channel: &[u8],
        client: Option<IpAddr>,
        cause: &PresenceError,
    ) {
        let counter = match cause {
            PresenceError::Full { .. } => Counter::MembersRefused,
            PresenceError::ChannelFull { .. } => Counter::MembersRefusedChannel,
            PresenceError::SourceFull { .. } => Counter::MembersRefusedAddress,
            _ => return,
        };
        self.counts.add(counter, 1);
        let channel = String::from_utf8_lossy(channel);
        let mut message = format!("refused a user in channel {channel}: {cause}");
        if let Some(address) = client {
            message += &format!("; the client is {address}");
        }
        self.log_for_client(LogLevel::Warning, &message);
    }
}

impl Channels {
    /// Adds the client to the presence of its channels.
    pub(super) fn join<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
        hold: &Hold<'_>,
        client: Option<IpAddr>,
    ) -> Result<(), HoldError> {
        let Some(user) = hold.user else {
            return Ok(());
        };
        let member = (user, hold.info.unwrap_or_default());
        let presence = self.enter(to, hold.channels, &member, client, hold.announces, None)?;
        if let Some(exchange) = to.net.connections.exchange_mut(index).known() {
            exchange.presence = Some(Box::new(presence));
        }
        Ok(())
    }

    /// Adds a user (name and info) to the presence of all these channels, or of none. `client` is
    /// the address of the connection. In a cluster the join returns from the log; the client
    /// `except` receives no join event.
    pub(crate) fn enter<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        channels: &[&[u8]],
        &(user, info): &(&[u8], &[u8]),
        client: Option<IpAddr>,
        announces: bool,
        except: Option<Subscriber>,
    ) -> Result<Presence, HoldError> {
        let joined = announces.then(|| announcement(user, Some(info), Change::Presence));
        let changed = announces.then(|| announcement(user, Some(info), Change::Info));
        let source = client.map(network_of).unwrap_or_default();
        let unix_ms = to.net.driver.unix_ms();
        let mut presence = Presence {
            user: user.to_vec(),
            channels: Vec::with_capacity(channels.len()),
        };
        for channel in channels {
            let member = fermata_hub::Presence {
                channel,
                user,
                info,
                source: &source,
                announce: joined.as_deref(),
                announce_changed: changed.as_deref(),
            };
            let outcome = match self.check_member(channel, user) {
                Ok(()) => {
                    self.with_room(to, |ring, owner| match ring.join(owner, &member, unix_ms) {
                        Ok(_) => Ok(Ok(())),
                        Err(PresenceError::Publish(error)) => Err(error),
                        Err(error) => Ok(Err(error)),
                    })
                }
                Err(cause) => Ok(Err(cause)),
            };
            let failure = match outcome {
                Ok(Ok(())) => {
                    self.note_member(channel, user, except);
                    presence.channels.push(channel.to_vec());
                    continue;
                }
                Ok(Err(cause)) => {
                    to.net.note_refused_member(channel, client, &cause);
                    HoldError::Backpressure(Busy::Presence(cause))
                }
                Err(failure) => failure.into(),
            };
            self.leave(to.net, presence, Departure::Deliberate);
            return Err(failure);
        }
        Ok(presence)
    }
}

impl Channels {
    /// Removes a client from the presence of its channels.
    pub(crate) fn leave<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        presence: Presence,
        how: Departure,
    ) {
        let (now_ms, unix_ms) = (net.driver.now_ms(), net.driver.unix_ms());
        for channel in &presence.channels {
            if let Err(error) = self
                .ring
                .leave(&self.owner, channel, &presence.user, how, unix_ms)
            {
                let message = format!("presence: cannot remove a user: {error}");
                net.log.write_limited(LogLevel::Error, unix_ms, &message);
            }
            self.note_member(channel, &presence.user, None);
        }
        let due = match how {
            Departure::Deliberate => Deadline::at(now_ms),
            Departure::Lost => Deadline::after(now_ms, self.settings.leave_delay_ms + 1),
        };
        self.sweep = self.sweep.min(due);
    }

    /// Removes the subscriptions and presence of a closed connection.
    pub(crate) fn note_ended<D: Driver>(&mut self, net: &mut Net<D>, ended: Ended) {
        let exchange = ended.exchange;
        self.local.unsubscribe(exchange.chain);
        if let Some(presence) = exchange.presence {
            self.leave(net, *presence, Departure::Lost);
        }
        if let Stage::Socket(mut socket) = exchange.stage {
            for presence in socket.take_presences() {
                self.leave(net, presence, Departure::Lost);
            }
        }
    }
}
