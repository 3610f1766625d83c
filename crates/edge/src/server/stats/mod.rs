//! The ZeroMQ stats socket: packets about clients, channels and messages in Pushpin's format.
//!
//! The publishing worker has the socket. If the socket is configured, each worker lists the clients that it holds, and sends
//! changes to the publishing worker over a Unix socket. Publishing never waits for a subscriber: packets that a subscriber does not
//! accept are dropped, counted and logged.

mod feed;

use fermata_config::LogLevel;
use fermata_edge_pushpin::stats::channel_counts::CountChange;
use fermata_edge_pushpin::stats::mode::Mode;
use fermata_edge_pushpin::stats::note::Note;
use fermata_edge_pushpin::stats::published::Published;
use fermata_engine::stats::{Counter, Figures};
use fermata_grip::item::Item;
use fermata_grip::stats::{Flow, Packet, Report, Traffic, Transport};

use crate::pushpin::stats::{Role, Stats};
use crate::routes::Routes;
use crate::routes::figures::{Count, Counts, RouteFigures};
use crate::server::figures::{connected, minutes};
use crate::server::notices::Reports;
use crate::timers::Timer;

/// Interval in milliseconds at which due packets are sent.
const TICK_MS: u64 = 1_000;

/// Returns the counters whose differences are reported: requests, minutes, received, sent.
fn totals(figures: &Figures) -> [u64; 4] {
    [
        figures.counter(Counter::Requests),
        minutes(figures),
        figures.counter(Counter::Published),
        figures.counter(Counter::Deliveries),
    ]
}

/// Returns the traffic since the last report, with the items published to clients.
fn traffic(now: Counts, last: Counts, published: &Published) -> Traffic {
    let since = |count: Count| now[count as usize].saturating_sub(last[count as usize]);
    let flow = |head, content, messages| Flow {
        header_bytes: since(head),
        content_bytes: since(content),
        messages: since(messages),
    };
    let mut client_sent = flow(
        Count::ClientHeadSent,
        Count::ClientSent,
        Count::ClientMessagesSent,
    );
    client_sent.content_bytes += published.bytes;
    client_sent.messages += published.messages;
    Traffic {
        client_received: flow(
            Count::ClientHeadReceived,
            Count::ClientReceived,
            Count::ClientMessagesReceived,
        ),
        client_sent,
        server_received: flow(
            Count::ServerHeadReceived,
            Count::ServerReceived,
            Count::ServerMessagesReceived,
        ),
        server_sent: flow(
            Count::ServerHeadSent,
            Count::ServerSent,
            Count::ServerMessagesSent,
        ),
    }
}

fn transport(mode: Mode) -> Transport {
    match mode {
        Mode::Response => Transport::HttpResponse,
        Mode::Stream => Transport::HttpStream,
        Mode::Socket => Transport::WsMessage,
    }
}

/// Converts milliseconds to seconds, rounding up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000)
}

impl Reports<'_> {
    /// Starts the timer for reports.
    pub fn begin(&mut self, figures: &RouteFigures, routes: &Routes) {
        let now_ms = self.worker.net.now_ms();
        let Some(stats) = self.stats else {
            return;
        };
        if let Role::StatsPublisher(publisher) = &mut stats.role {
            // Start from the current counts, because the replaced worker has already reported them.
            publisher.last = totals(&self.worker.figures().total);
            publisher.since_ms = now_ms;
            publisher.due_ms = now_ms + publisher.report_ms;
            publisher.routes.pass(now_ms);
            publisher.last_counts = figures.total();
            for (name, counts) in figures.by_route(routes) {
                if let Some(route) = publisher.routes.get(name.as_bytes()) {
                    route.last = counts;
                }
            }
        }
        self.timers.at(now_ms, Timer::Stats);
    }

    /// Sends packets that are due.
    pub fn on_due(&mut self, figures: &RouteFigures, routes: &Routes) {
        let now_ms = self.worker.net.now_ms();
        let (mut notes, mut changes) = (Vec::new(), Vec::new());
        let Some(stats) = self.stats else {
            return;
        };
        stats.clients.expire(now_ms, &mut notes);
        let mut tick_ms = TICK_MS;
        if let Role::StatsPublisher(publisher) = &mut stats.role {
            publisher.channel_counts.expire(now_ms, &mut changes);
            tick_ms = tick_ms.min(publisher.report_ms);
        }
        self.timers.at(now_ms + tick_ms, Timer::Stats);
        self.report_notes(notes);
        self.send_changes(changes);
        self.keep_feed();
        self.report(now_ms, figures, routes);
    }

    fn report(&mut self, now_ms: u64, route_figures: &RouteFigures, routes: &Routes) {
        let Some(Role::StatsPublisher(publisher)) = self.stats.as_mut().map(|it| &mut it.role)
        else {
            return;
        };
        let figures = self.worker.figures().total;
        publisher.connections_max = publisher.connections_max.max(connected(&figures));
        publisher.routes.pass(now_ms);
        if now_ms < publisher.due_ms {
            return;
        }
        let counts = route_figures.total();
        let last_counts = std::mem::replace(&mut publisher.last_counts, counts);
        let published = std::mem::take(&mut publisher.published);
        let totals = totals(&figures);
        let last = std::mem::replace(&mut publisher.last, totals);
        // Counters survive restarts of workers, but not of the server.
        let mut since = totals.into_iter().zip(last);
        let mut next = || since.next().map_or(0, |(now, was)| now.saturating_sub(was));
        let requests = next();
        let report = Report {
            connections: std::mem::take(&mut publisher.connections_max),
            minutes: next(),
            received: next(),
            sent: next(),
            http_response_sent: published.http_responses,
            blocks_received: published.blocks_received,
            blocks_sent: published.blocks_sent,
            duration_ms: now_ms - publisher.since_ms,
            traffic: Some(traffic(counts, last_counts, &published)),
        };
        let duration_ms = report.duration_ms;
        publisher.since_ms = now_ms;
        publisher.due_ms = now_ms + publisher.report_ms;
        self.send_stats(&Packet::Activity { count: requests }, b"");
        let counts = Packet::Counts {
            requests_received: requests,
        };
        self.send_stats(&counts, b"");
        self.send_stats(&Packet::Report(report), b"");
        self.report_routes(duration_ms, route_figures, routes);
    }

    /// Reports each route with an id that had traffic.
    fn report_routes(&mut self, duration_ms: u64, figures: &RouteFigures, routes: &Routes) {
        let by_route = figures.by_route(routes);
        for (name, counts) in by_route {
            let Some(Role::StatsPublisher(publisher)) = self.stats.as_mut().map(|it| &mut it.role)
            else {
                return;
            };
            let Some(route) = publisher.routes.get(name.as_bytes()) else {
                // The limit of routes was reached.
                continue;
            };
            let last = std::mem::replace(&mut route.last, counts);
            let connections = route.take_connections();
            let published = std::mem::take(&mut route.published);
            let report = Report {
                connections,
                minutes: route.take_minutes(),
                received: std::mem::take(&mut route.received),
                sent: std::mem::take(&mut route.sent),
                http_response_sent: published.http_responses,
                blocks_received: published.blocks_received,
                blocks_sent: published.blocks_sent,
                duration_ms,
                traffic: Some(traffic(counts, last, &published)),
            };
            if counts == last && connections == 0 && report.minutes == 0 {
                continue;
            }
            let at = Count::Requests as usize;
            let count = counts[at].saturating_sub(last[at]);
            self.send_stats(&Packet::Activity { count }, name.as_bytes());
            self.send_stats(&Packet::Report(report), name.as_bytes());
        }
    }

    /// Counts a published item, and reports it to subscribers.
    pub(super) fn stats_message(&mut self, item: &Item) {
        let Some(stats) = self.stats else {
            return;
        };
        let Role::StatsPublisher(publisher) = &mut stats.role else {
            return;
        };
        let mut counts = Vec::new();
        let mut reached: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
        let (block_bytes, mut blocks_max) = (publisher.block_bytes, None);
        for (mode, bytes) in [
            (
                Mode::Response,
                item.http_response.as_ref().map(|it| it.action.bytes()),
            ),
            (
                Mode::Stream,
                item.http_stream.as_ref().map(|it| it.action.bytes()),
            ),
            (
                Mode::Socket,
                item.ws_message.as_ref().map(|it| it.action.bytes()),
            ),
        ] {
            let Some(bytes) = bytes else {
                continue;
            };
            let count = publisher.channel_counts.count(mode, &item.channel);
            let blocks = match block_bytes {
                0 => None,
                block_bytes => Some(item.blocks(bytes, block_bytes)),
            };
            blocks_max = blocks_max.max(blocks.filter(|_| count > 0));
            publisher.published.add(mode, count, bytes, blocks);
            for (name, count) in publisher.channel_counts.by_route(mode, &item.channel) {
                let Some(route) = publisher.routes.get(name) else {
                    // The limit of routes was reached.
                    continue;
                };
                route.sent += count;
                route.published.add(mode, count, bytes, blocks);
                let known = reached.iter_mut().find(|(it, _)| it == name);
                match known {
                    Some((_, most)) => *most = (*most).max(blocks),
                    None => {
                        route.received += 1;
                        reached.push((name.to_vec(), blocks));
                    }
                }
            }
            if count > 0 {
                counts.push((mode, count, blocks));
            }
        }
        // An item counts with the size of its largest format that has receivers.
        publisher.published.receive(blocks_max);
        for (name, blocks) in &reached {
            if let Some(route) = publisher.routes.get(name) {
                route.published.receive(*blocks);
            }
        }
        for (mode, count, blocks) in counts {
            let packet = Packet::Message {
                channel: &item.channel,
                item_id: item.id.as_deref(),
                count,
                blocks,
                transport: transport(mode),
            };
            self.send_stats(&packet, b"");
        }
    }

    /// Reports changes of this worker's clients.
    pub(super) fn report_notes(&mut self, notes: Vec<Note>) {
        match self.stats.as_mut().map(|it| &mut it.role) {
            Some(Role::StatsPublisher(_)) => {
                self.take_notes(crate::pushpin::stats::feed::OWN, notes)
            }
            Some(Role::Reporter(_)) if !notes.is_empty() => self.send_notes(&notes),
            Some(Role::Reporter(_)) | None => {}
        }
    }

    /// Applies changes of a worker.
    fn take_notes(&mut self, reporter: u64, notes: Vec<Note>) {
        let now_ms = self.worker.net.now_ms();
        for note in notes {
            let Some(stats) = self.stats else {
                return;
            };
            let ttl_s = seconds(stats.connection_ttl_ms);
            let Role::StatsPublisher(publisher) = &mut stats.role else {
                return;
            };
            match note {
                Note::Subscribers {
                    mode,
                    route,
                    channel,
                    count,
                } => {
                    let mut changes = Vec::new();
                    let (part, key) = ((reporter, route), (mode, channel));
                    publisher
                        .channel_counts
                        .set(now_ms, part, key, count, &mut changes);
                    self.send_changes(changes);
                }
                Note::Connections { route, count } => {
                    publisher.routes.pass(now_ms);
                    publisher.routes.set(reporter, &route, count);
                }
                Note::Client(client) => {
                    let packet = Packet::Connection {
                        id: &client.id,
                        is_websocket: client.is_websocket,
                        peer_address: (!client.peer.is_empty()).then_some(&client.peer[..]),
                        is_tls: client.is_tls,
                        ttl_s,
                    };
                    self.send_stats(&packet, &client.route);
                }
                Note::Gone { id, route } => {
                    self.send_stats(&Packet::ConnectionGone { id: &id }, &route);
                }
            }
        }
    }

    fn send_changes(&mut self, changes: Vec<CountChange>) {
        let Some(Role::StatsPublisher(publisher)) = self.stats.as_ref().map(|it| &it.role) else {
            return;
        };
        let ttl_s = seconds(publisher.subscription_ttl_ms);
        for changes in changes {
            match changes {
                CountChange::There((mode, channel), count) => {
                    let packet = Packet::Subscription {
                        transport: transport(mode),
                        channel: &channel,
                        ttl_s,
                        subscribers: Some(count),
                    };
                    self.send_stats(&packet, b"");
                }
                CountChange::Gone((mode, channel)) => {
                    let packet = Packet::SubscriptionGone {
                        transport: transport(mode),
                        channel: &channel,
                    };
                    self.send_stats(&packet, b"");
                }
            }
        }
    }

    /// Sends a packet to the subscribers of its type. An empty `route` means no route.
    fn send_stats(&mut self, packet: &Packet<'_>, route: &[u8]) {
        let Some(Role::StatsPublisher(publisher)) = self.stats.as_ref().map(|it| &it.role) else {
            return;
        };
        if !self.ports.has_listeners_to_stats() {
            return;
        }
        let route = (!route.is_empty()).then_some(route);
        let payload = packet.encode(&publisher.from, route, publisher.notation);
        let left_out = self.ports.send_to_subscribers(self.worker, &payload);
        if left_out > 0 {
            let line = format!(
                "zmq_stats: a packet was dropped for {left_out} subscribers that read too slowly"
            );
            self.worker.net.log_for_client(LogLevel::Warning, &line);
        }
    }
}

impl Stats {
    /// Returns the number of receivers of an item; `None` in a worker that does not publish.
    pub(super) fn receivers(&self, item: &Item) -> Option<u64> {
        let Role::StatsPublisher(publisher) = &self.role else {
            return None;
        };
        let count = |is_for_it: bool, mode| {
            if is_for_it {
                publisher.channel_counts.count(mode, &item.channel)
            } else {
                0
            }
        };
        let polls = count(item.http_response.is_some(), Mode::Response);
        let streams = count(item.http_stream.is_some(), Mode::Stream);
        Some(polls + streams + count(item.ws_message.is_some(), Mode::Socket))
    }
}
