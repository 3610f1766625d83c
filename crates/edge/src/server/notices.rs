//! Reports about clients and channels: log lines, stats packets, and replies to queries about connections.

use std::rc::Rc;

use fermata_edge_pushpin::stats::clients::Held;
use fermata_edge_pushpin::stats::mode::Mode;
use fermata_engine::{RequestId, WireEvent};
use fermata_grip::item::Item;

use crate::client::journal::Journal;
use crate::client::source::{Engine, Source};
use crate::publish::commands::Commands;
use crate::publish::ports::Ports;
use crate::pushpin::stats::Stats;
use crate::server::edge::Edge;
use crate::timers::Timers;

/// Parts of the edge that report about clients.
pub(super) struct Reports<'a> {
    pub journal: &'a mut Journal,
    /// State of the stats socket; `None` without a stats socket.
    pub stats: &'a mut Option<Box<Stats>>,
    pub ports: &'a mut Ports,
    pub commands: &'a mut Commands,
    pub timers: &'a mut Timers,
    pub worker: &'a mut Engine,
}

impl Edge {
    /// Handles an event of a connection between workers. Returns false if the event belongs to another connection.
    pub(super) fn on_feed(&mut self, event: WireEvent) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let is_feed = self.holds().reports().on_feed(event, &mut buffer);
        self.buffer = buffer;
        is_feed
    }

    /// Sends stats packets that are due.
    pub(super) fn on_stats_due(&mut self) {
        let (table, figures) = (Rc::clone(&self.routing.table), self.route_figures);
        self.holds().reports().on_due(&figures, &table.routes);
    }
}

impl Reports<'_> {
    /// Reports a client that is now held, or whose WebSocket has opened. `id` is the client's id from its origin.
    pub fn on_entered(
        &mut self,
        handle: RequestId,
        source: &Source,
        mode: Mode,
        id: Option<Vec<u8>>,
    ) {
        let now_ms = self.worker.net.now_ms();
        if let Some(id) = &id {
            self.commands.name_socket(handle, id.clone());
        }
        let route = source.rule().and_then(|rule| rule.id.as_deref());
        let held = Held {
            id: id.as_deref(),
            peer: source.request.peer.ip(),
            route: route.unwrap_or_default().as_bytes(),
            is_websocket: mode == Mode::Socket,
            is_tls: source.request.is_tls,
        };
        let mut notes = Vec::new();
        if let Some(stats) = self.stats {
            stats
                .clients
                .enter(now_ms, handle.to_raw(), held, &mut notes);
            self.report_notes(notes);
        }
    }

    /// Reports a subscription.
    pub fn on_subscribed(
        &mut self,
        handle: RequestId,
        source: &Source,
        channel: &[u8],
        mode: Mode,
    ) {
        let is_socket = mode == Mode::Socket;
        self.log_subscription("subscribe", source, is_socket, channel);
        let mut notes = Vec::new();
        if let Some(stats) = self.stats {
            stats
                .clients
                .subscribe(handle.to_raw(), mode, channel, &mut notes);
            self.report_notes(notes);
        }
    }

    /// Reports the end of a WebSocket's subscription.
    pub fn on_unsubscribed(&mut self, handle: RequestId, source: &Source, channel: &[u8]) {
        self.log_subscription("unsubscribe", source, true, channel);
        let mut notes = Vec::new();
        if let Some(stats) = self.stats {
            stats
                .clients
                .unsubscribe(handle.to_raw(), channel, &mut notes);
            self.report_notes(notes);
        }
    }

    /// Reports an item that was published.
    pub fn on_published(&mut self, item: &Item) {
        if self.journal.is_on {
            let receivers = self.stats.as_ref().and_then(|it| it.receivers(item));
            self.journal
                .log_published(receivers, self.timers, self.worker, item);
        }
        self.stats_message(item);
    }

    fn log_subscription(&mut self, word: &str, source: &Source, is_socket: bool, channel: &[u8]) {
        let (timers, worker) = (&mut *self.timers, &mut *self.worker);
        self.journal
            .log_subscription(timers, worker, word, source, is_socket, channel);
    }

    /// Reports that the channels of a held stream changed.
    pub fn on_replaced(&mut self, handle: RequestId, channels: &[&[u8]]) {
        let mut notes = Vec::new();
        if let Some(stats) = self.stats {
            let clients = &mut stats.clients;
            for old in clients.channels(handle.to_raw()) {
                if !channels.contains(&&old[..]) {
                    clients.unsubscribe(handle.to_raw(), &old, &mut notes);
                }
            }
            for channel in channels {
                clients.subscribe(handle.to_raw(), Mode::Stream, channel, &mut notes);
            }
            self.report_notes(notes);
        }
    }

    /// Reports a client that is no longer held.
    pub fn on_left(&mut self, handle: RequestId) {
        let mut notes = Vec::new();
        if let Some(stats) = self.stats
            && stats.clients.is_known(handle.to_raw())
        {
            stats.clients.leave(handle.to_raw(), &mut notes);
            self.report_notes(notes);
        }
    }
}
