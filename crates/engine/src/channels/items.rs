//! Clients that receive *items*: unencoded records, which the embedder handles for each client.

use std::rc::Rc;

use fermata_hub::SubId;
use fermata_io::Driver;

use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::encode::{FORMAT_ITEMS, FORMAT_STREAM};
use crate::channels::missed::Loss;
use crate::embed::event::Left;
use crate::embed::relayed::{Items, Relayed};
use crate::embed::waiting::{WaitEvent, Waiting};
use crate::http::exchange::Stage;
use crate::id::SocketId;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::index::ExchangeIndex;

/// Maximum size of a batch of items for one client, in bytes; the rest follows.
const ITEMS_BYTES_MAX: usize = 256 * 1024;

impl Channels {
    /// Passes a client's new items to the embedder. If the client cannot accept them now, they are
    /// passed later.
    pub(crate) fn send_items<D: Driver>(&mut self, to: &mut Clients<'_, D>, index: ExchangeIndex) {
        let Some((connection, exchange)) = to.net.connections.pair(index) else {
            return missed(());
        };
        let is_polling = exchange.is_handling();
        if !is_polling && (connection.is_blocked || connection.unsent() > 0) {
            to.net.flush(to.http, index.connection());
            return;
        }
        let chain = exchange.chain;
        let gap = self.local.has_gap(chain);
        if gap {
            let loss = Loss::of(self.local.is_log_lost(chain));
            to.net.counts.add(loss.counter(), 1);
            self.local.skip_gap(chain);
        }
        let mut slices = Vec::new();
        let gathered = self
            .local
            .gather(chain, false, &mut slices, ITEMS_BYTES_MAX);
        if gathered.bytes == 0 && !gap {
            return;
        }
        let frames: Rc<[u8]> = Rc::from(slices.concat());
        let is_recorded = to.http.trace.is_recorded(index);
        let ahead = is_recorded.then(|| self.local.frames_ahead(chain));
        self.local
            .advance(chain, false, gathered.bytes, &mut self.rest);
        if let Some(ahead) = ahead {
            let left = self.local.frames_ahead(chain);
            to.http.trace.on_events(index, ahead.saturating_sub(left));
        }
        to.waiting.queue_items(to.net, index, gap, frames);
        if self.local.pending(chain) {
            to.net.mark_dirty(index.connection());
        }
    }

    /// Passes items that have no stream encoding to the embedder, for each stream, after the
    /// stream's earlier events were sent.
    pub(crate) fn queue_stream_items<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        let mut owners = Vec::new();
        for (channel, frames) in std::mem::take(&mut self.encoder.unsent) {
            owners.clear();
            self.local.owners(&channel, FORMAT_STREAM, &mut owners);
            for index in owners.drain(..).map(ExchangeIndex) {
                self.send_held(to, index);
                self.after_output(to);
                to.waiting
                    .queue_items(to.net, index, false, Rc::clone(&frames));
            }
        }
    }
}

impl Channels {
    /// Replaces the subscriptions of a client.
    pub(crate) fn subscribe_held<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        hold: &Relayed<'_>,
    ) {
        let format = if hold.takes_items {
            FORMAT_ITEMS
        } else {
            FORMAT_STREAM
        };
        let Some(exchange) = net.connections.exchange_mut(index) else {
            return missed(());
        };
        self.local.unsubscribe(exchange.chain);
        exchange.chain = SubId::NONE;
        for channel in hold.channels {
            exchange.chain = self
                .local
                .subscribe(index.0, exchange.chain, channel, format);
        }
        exchange.takes_items = hold.takes_items;
    }

    pub(crate) fn drop_subscriptions<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            self.local.unsubscribe(exchange.chain);
            exchange.chain = SubId::NONE;
            exchange.takes_items = false;
        }
    }
}

impl Waiting {
    fn queue_items<D: Driver>(
        &mut self,
        net: &Net<D>,
        index: ExchangeIndex,
        gap: bool,
        frames: Rc<[u8]>,
    ) {
        // Sending earlier events may have closed the stream.
        let Some(exchange) = net.connections.exchange(index) else {
            return;
        };
        let handle = exchange.handle(index);
        let client = match exchange.stage {
            Stage::Socket(_) => Left::Socket(SocketId::of(handle)),
            Stage::Held(_) => Left::Held(handle),
            _ => Left::Request(handle),
        };
        self.events.push_back(WaitEvent::Items(Items {
            client,
            gap,
            frames,
        }));
    }
}
