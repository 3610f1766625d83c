//! The edge of one worker: its state, and the loop that dispatches events.

use std::rc::Rc;

use fermata_engine::stats::{Counter, EdgeOpen};
use fermata_engine::{ARRIVING, Event, RequestId, WireEvent};
use fermata_fastcgi::spool::Ledger;
use fermata_grip::sig;

use super::policy::EdgePolicy;
use super::routing::Routing;
use super::tasks::{Task, Tasks};
use crate::client::body::PIECE_BYTES_MAX;
use crate::client::clients::Clients;
use crate::client::journal::Journal;
use crate::client::request::ClientRequest;
use crate::client::source::{
    Engine, ExchangeKey, HANDLER_CONTROL, HANDLER_SESSIONS, HANDLER_WORKERS, Source,
};
use crate::prepared::Prepared;
use crate::publish::parts::Publishing;
use crate::pushpin::parts::Pushpin;
use crate::pushpin::sockjs;
use crate::pushpin::sockjs::workers;
use crate::routes::figures::{Count, RouteFigures};
use crate::routes::unserved::Parts;
use crate::routes::{Proto, Request};
use crate::timers::{Timer, Timers};
use crate::upstream::connections::WireUse;
use crate::upstream::exchanges::UpstreamExchanges;
use crate::upstream::parts::Upstream;

/// Maximum number of bytes per read from an origin. The edge sends them to the client in one piece, see [`PIECE_BYTES_MAX`].
const READ_BYTES: usize = PIECE_BYTES_MAX;

/// Interval in milliseconds at which exchanges are checked for time-outs.
const EXCHANGES_MS: u64 = 1_000;

/// The edge of one worker. Each part has its own state.
pub(super) struct Edge {
    pub worker: Box<Engine>,
    /// Settings, which do not change.
    pub policy: EdgePolicy,
    /// Current routes.
    pub routing: Routing,
    pub upstream: Upstream,
    pub exchanges: UpstreamExchanges,
    pub clients: Clients,
    pub publishing: Publishing,
    /// State of features that only Pushpin applications use.
    pub pushpin: Pushpin,
    pub route_figures: RouteFigures,
    pub timers: Timers,
    pub parts: Parts,
    pub journal: Journal,
    /// Follow-up work of handled events.
    pub tasks: Tasks,
    pub buffer: Vec<u8>,
}

/// Properties of a request that arrived.
struct Arrival {
    handle: RequestId,
    /// Another worker has forwarded the request, because this worker has its SockJS session.
    is_of_worker: bool,
    /// The request's body has not arrived completely.
    is_arriving: bool,
}

impl Edge {
    pub fn new(mut worker: Box<Engine>, prepared: &Prepared) -> Self {
        let settings = &prepared.settings;
        let mut edge = Self {
            policy: EdgePolicy::new(prepared),
            routing: Routing::new(prepared, worker.net.now_ms()),
            upstream: Upstream::new(prepared, Ledger::new(worker.settings())),
            exchanges: UpstreamExchanges::default(),
            clients: Clients::new(settings),
            publishing: Publishing::new(settings, worker.channels.cluster_node().is_some()),
            pushpin: Pushpin::new(prepared, worker.index()),
            route_figures: prepared.route_figures,
            timers: Timers::default(),
            parts: Parts::new(settings),
            journal: Journal::new(settings, worker.net.logger()),
            tasks: Tasks::default(),
            buffer: vec![0; READ_BYTES],
            worker,
        };
        let (table, figures) = (Rc::clone(&edge.routing.table), edge.route_figures);
        edge.holds().reports().begin(&figures, &table.routes);
        let (upstream, timers) = (&mut edge.upstream, &mut edge.timers);
        edge.routing
            .begin(upstream, edge.parts, timers, &mut edge.worker);
        upstream.begin_checks(&edge.routing.table, timers, &mut edge.worker);
        edge
    }

    /// Serves until the worker stops. Returns the exit status of the process.
    pub fn run(&mut self) -> i32 {
        loop {
            self.finish_tasks();
            // Finishing tasks may close further peers. Each peer closes once, so the loop terminates.
            while !self.publishing.ports.ended.is_empty() {
                self.on_peers_ended();
                self.finish_tasks();
            }
            self.worker.waiting.wake_at(self.timers.next());
            self.worker.reporter.set_edge_open(self.count_open());
            match self.worker.next_event() {
                Event::Request => match self.worker.request().handler() {
                    HANDLER_CONTROL => self.on_control(),
                    HANDLER_SESSIONS => self.on_session_handshake(),
                    _ => self.on_request(),
                },
                Event::Wire => {
                    if let Some(event) = self.worker.waiting.wire()
                        && !self.on_port(event)
                        && !self.on_feed(event)
                    {
                        self.on_wire(event);
                    }
                }
                Event::Items => {
                    let items = self.worker.waiting.items();
                    self.holds().on_items(&items);
                }
                Event::Stream(handle) => self.on_stream_wanted(handle),
                Event::StreamEnd(handle) | Event::Gone(handle) | Event::HeldGone(handle) => {
                    self.on_left(handle);
                }
                // A close event follows.
                Event::SocketGone(_) => {}
                Event::PeerMessage => self.on_peer_message(),
                Event::Wake => {
                    // Ports are not read while items wait; without delay if the log is connected.
                    if self.publications().on_log_answers() {
                        self.on_ports_due();
                    }
                    self.on_timers();
                }
                Event::Message => self.on_client_message(),
                Event::Ping => self.on_client_control(true),
                Event::Pong => self.on_client_control(false),
                Event::Close => self.on_client_close(),
                Event::Body(handle) => self.on_body_arrived(handle),
                Event::Ready | Event::Upgrade | Event::Open | Event::Read(_) => {}
                Event::Stop => {
                    self.journal.flush_journal(&self.worker);
                    return self.worker.exit_code();
                }
            }
        }
    }

    /// Runs queued tasks.
    fn finish_tasks(&mut self) {
        while let Some(task) = self.tasks.next() {
            match task {
                Task::Ask(ask) => self.ask(ask),
                Task::Share(handle, source) => self.ask_or_share(handle, source),
                Task::Abandon(key) => self.abandon(key),
                Task::Filter(handle) => self.holds().resume_filtering(handle),
                Task::FilterTurns => self.holds().give_turns(),
            }
        }
    }

    /// Handles an event of a connection.
    fn on_wire(&mut self, event: WireEvent) {
        match self.upstream.connections.user(event.wire) {
            Some(&WireUse::UpstreamExchange(id)) => {
                let mut was_connected = true;
                self.with_exchange(id, |turn, exchange| {
                    was_connected = exchange.is_connected;
                    turn.on_wire_event(exchange, event)
                });
                // An HTTP/2 target may send first. The event was consumed as the end of connecting and is not repeated.
                if !was_connected
                    && let Some(WireUse::Carrier) = self.upstream.connections.user(event.wire)
                {
                    self.on_carrier(WireEvent {
                        readable: true,
                        ..event
                    });
                }
            }
            Some(WireUse::Carrier) => self.on_carrier(event),
            Some(WireUse::Names) => self.on_names(event.wire),
            // An idle connection can only end. Writability is ignored.
            Some(WireUse::Idle(_)) if event.readable || event.hangup => {
                self.upstream
                    .connections
                    .end_idle(&mut self.worker, event.wire);
            }
            Some(&WireUse::Session(id)) => self.polling().on_wire(id, event),
            Some(WireUse::Idle(_)) | None => {}
        }
    }

    fn count_open(&self) -> EdgeOpen {
        let idle_carriers = self.upstream.carriers.idle();
        let exchanges = self.exchanges.len().max(self.upstream.exchange_keys.len());
        EdgeOpen {
            requests: exchanges + self.upstream.sharing.len(),
            connections: self.upstream.connections.busy() - idle_carriers,
            idle: self.upstream.connections.idle() + idle_carriers,
            sessions: self.clients.sessions.len() + self.pushpin.sockjs.len(),
            bodies: self.clients.bodies.len(),
        }
    }

    /// Handles a request.
    fn on_request(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let head_bytes = view.head_len();
        let arrival = Arrival {
            handle,
            is_of_worker: view.handler() == HANDLER_WORKERS,
            is_arriving: view.upload() == ARRIVING,
        };
        let request = self
            .clients
            .read_request(&self.policy, &mut self.worker, &arrival);
        if head_bytes > self.policy.header_bytes_max {
            self.clients.refuse_head(
                &mut self.worker,
                handle,
                "header_bytes_max",
                self.policy.header_bytes_max,
            );
            return;
        }
        let rule = self.routing.find_rule(&self.policy, &request);
        let is_trusted =
            rule.is_some() && self.policy.is_trusted(&request, self.worker.net.unix_s());
        let source = Source {
            request: Rc::new(request),
            table: Rc::clone(&self.routing.table),
            rule: rule.unwrap_or(usize::MAX),
            target: 0,
            is_trusted,
            is_sockjs: false,
            session_id: None,
        };
        if rule.is_none() {
            self.journal
                .log_unrouted(&self.policy, &mut self.timers, &mut self.worker, &source);
            self.clients
                .answer_text(&mut self.worker, handle, 502, "Route not found");
            return;
        }
        let head_bytes = source.request.words_bytes();
        let counted = [
            (Count::Requests, 1),
            (Count::ClientHeadReceived, head_bytes),
        ];
        self.route_figures
            .count_route(&self.worker, &source, &counted);
        self.begin_request(&arrival, source);
    }

    /// Continues with a request that has a route.
    fn begin_request(&mut self, arrival: &Arrival, mut source: Source) {
        let &Arrival {
            handle,
            is_of_worker,
            is_arriving,
        } = arrival;
        // Refuse a handshake with a body now, before the body would be collected.
        if source.request.is_websocket() && (is_arriving || source.request.body.bytes() > 0) {
            self.clients.answer_text(
                &mut self.worker,
                handle,
                400,
                "A WebSocket handshake has no body.",
            );
            return;
        }
        if let Some(at) = sockjs::base_bytes(&source) {
            if !is_arriving {
                self.begin_sockjs(handle, source, at, is_of_worker);
            } else if self.worker.defer(handle).is_ok() {
                self.collect(handle, source, Some(at));
            }
            return;
        }
        if is_of_worker {
            // The routes changed after the other worker forwarded the request.
            self.clients
                .answer_text(&mut self.worker, handle, 404, "Not Found");
            return;
        }
        if source.request.is_websocket() {
            self.begin_socket(handle, source);
            return;
        }
        match self
            .clients
            .read_jsonp(&self.policy, handle, &source, &source.request)
        {
            Ok(Some(meant)) => source.request = Rc::new(meant),
            Ok(None) => {}
            Err(text) => {
                self.clients
                    .answer_text(&mut self.worker, handle, 400, text);
                return;
            }
        }
        // Refuse WebSocket events that a client has made up, also on other routes: another route may lead to the same origin, and
        // an origin that checks signatures would accept the events, because the edge signs the complete request.
        let now_s = self.worker.net.unix_s();
        let takes_events = source.table.routes.has_over_http()
            || source.rule().is_some_and(|rule| {
                !rule.no_grip && self.upstream.signatures.get(rule, now_s).is_some()
            });
        if takes_events && !source.is_trusted && source.request.has_events() {
            let text = "Client not allowed to send WebSocket events directly.";
            self.clients
                .answer_text(&mut self.worker, handle, 403, text);
            return;
        }
        if self.worker.defer(handle).is_err() {
            self.clients.forget_request(&mut self.worker, handle);
            return;
        }
        if is_arriving {
            self.collect(handle, source, None)
        } else {
            self.ask_with_session(handle, source)
        }
    }

    /// Cleans up after a client that has left.
    fn on_left(&mut self, handle: RequestId) {
        self.clients.sessions.remove(&handle);
        self.timers.forget(Timer::Poll(handle));
        self.timers.forget(Timer::Link(handle));
        self.polling().on_pending_left(handle);
        self.pushpin.services.forget_of_client(handle);
        self.timers.forget(Timer::Body(handle));
        self.clients.bodies.stop_collecting(handle);
        self.holds().notify_gone(handle);
        self.holds().on_no_longer_held(handle);
        self.upstream.leave_shared(&mut self.exchanges, handle);
        self.abandon(ExchangeKey::Client(handle));
        self.clients.forget_request(&mut self.worker, handle);
    }

    fn on_timers(&mut self) {
        if self.worker.waiting.take_reload() {
            let (upstream, timers) = (&mut self.upstream, &mut self.timers);
            self.routing
                .on_reload(upstream, self.parts, timers, &mut self.worker);
        }
        let now_ms = self.worker.net.now_ms();
        while let Some(timer) = self.timers.take(now_ms) {
            self.finish_tasks();
            match timer {
                Timer::UpstreamExchanges => {
                    self.check_streams(now_ms);
                    self.check_exchanges(now_ms);
                    self.check_carriers(now_ms);
                    if !self.exchanges.is_empty() || !self.upstream.carriers.is_empty() {
                        watch_exchanges(&mut self.timers, now_ms);
                    }
                }
                Timer::Pool => self
                    .upstream
                    .connections
                    .expire(&mut self.worker, &mut self.timers),
                Timer::Carriers => self.on_carriers_due(),
                Timer::Check(rule, target) => self.on_check_due(rule, target),
                Timer::TargetSlots => {
                    let table = &self.routing.table;
                    self.upstream
                        .on_target_slots_due(table, &mut self.timers, &mut self.worker);
                }
                Timer::Room => self.on_room(),
                Timer::Body(handle) => self.on_body_arrived(handle),
                Timer::Ahead(handle) => self.on_ahead(handle),
                Timer::Holding(handle) => self.on_holding(handle),
                Timer::Poll(handle) => self.holds().on_poll_due(handle),
                Timer::Session(id) => self.polling().on_due(id),
                Timer::Items => self.publications().on_items_due(),
                Timer::Ports => self.on_ports_due(),
                Timer::Publishers => self
                    .publishing
                    .connect_publishers(&mut self.timers, &mut self.worker),
                Timer::Peers => self
                    .publishing
                    .ports
                    .on_peers_due(&mut self.worker, &mut self.timers),
                Timer::Commands => self
                    .publishing
                    .on_commands_due(&mut self.timers, &mut self.worker),
                Timer::Journal => self.journal.flush_journal(&self.worker),
                Timer::Rate => self.holds().on_rate_due(),
                Timer::LinkBody(handle) => self.on_link_body_due(handle),
                Timer::Updates => self.holds().on_updates_due(),
                Timer::FirstSubscriptions => self.holds().on_first_subscriptions_due(),
                Timer::Stats => self.on_stats_due(),
                Timer::State => {
                    let ports = &mut self.publishing.ports;
                    let sessions = self.clients.sessions.values();
                    let names = sessions.filter_map(|it| it.source.session_id.clone());
                    if let Some(mut keeper) =
                        self.pushpin
                            .keeper(ports, &mut self.timers, &mut self.worker)
                    {
                        keeper.on_due(names);
                    }
                }
                Timer::Streams => self.on_streams_due(),
                Timer::Services => self.on_services_due(),
                Timer::Link(handle) => self.holds().on_link_due(handle),
                Timer::Socket(handle) => self.holds().on_socket_due(handle),
                Timer::Paused(handle) => self.on_pause_over(handle),
                Timer::Events(handle) => self.holds().on_events_due(handle),
                Timer::Routes => self.routing.look(
                    &mut self.upstream,
                    self.parts,
                    &mut self.timers,
                    &mut self.worker,
                ),
            }
        }
    }
}

/// Starts the timer that checks exchanges for time-outs.
pub(super) fn watch_exchanges(timers: &mut Timers, now_ms: u64) {
    timers.at(now_ms + EXCHANGES_MS, Timer::UpstreamExchanges);
}

impl Clients {
    /// Copies a request from the engine, with its body or the file of its body.
    fn read_request(
        &mut self,
        policy: &EdgePolicy,
        worker: &mut Engine,
        arrival: &Arrival,
    ) -> ClientRequest {
        let view = worker.request();
        let upload = if arrival.is_arriving {
            0
        } else {
            view.upload()
        };
        let spooled = worker
            .http
            .upload(upload)
            .and_then(|it| it.body.as_ref())
            .map(|(file, bytes)| (file.path().to_owned(), *bytes));
        if upload != 0 {
            self.bodies.keep_upload(arrival.handle, upload);
        }
        let mut request = ClientRequest::new(&view, spooled, worker.is_secure());
        if arrival.is_of_worker {
            workers::unpack(&mut request);
        }
        if policy.accepts_forwarded_proto {
            let scheme = request
                .header("x-forwarded-proto")
                .or(request.header("x-forwarded-protocol"));
            request.is_tls |= scheme.is_some_and(|it| matches!(it.trim_ascii(), b"https" | b"wss"));
        }
        request
    }

    /// Refuses a head that exceeds the limit of its port. The engine has one limit for all ports.
    pub(super) fn refuse_head(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        setting: &str,
        bytes_max: usize,
    ) {
        worker.net.count(Counter::Refused431, 1);
        let text = format!("The head of the request is larger than {bytes_max} bytes ({setting}).");
        self.answer_text(worker, handle, 431, &text);
    }

    /// Drops the state of a request and its body, and closes its connection if no response was sent.
    pub(super) fn forget_request(&mut self, worker: &mut Engine, handle: RequestId) {
        worker.drop_request(handle);
        self.scripts.remove(&handle);
        self.bodies.forget(worker, handle);
    }
}

impl EdgePolicy {
    /// Returns true if the client is an edge with a valid signature.
    fn is_trusted(&self, request: &ClientRequest, unix_s: u64) -> bool {
        let Some(key) = &self.upstream_key else {
            return false;
        };
        let token = request.header("grip-sig");
        token.is_some_and(|token| sig::verify(key, token, unix_s, None).is_ok())
    }
}

impl Routing {
    fn find_rule(&self, policy: &EdgePolicy, request: &ClientRequest) -> Option<usize> {
        let routes = &self.table.routes;
        let path = request.path();
        let named = if policy.accepts_pushpin_route {
            request.header("pushpin-route")
        } else {
            None
        };
        let rule = match named {
            Some(id) => routes.find_id(std::str::from_utf8(id).ok()?, path),
            None => routes.find(&Request {
                host: &request.host_name(),
                path,
                proto: if request.is_websocket() {
                    Proto::Ws
                } else {
                    Proto::Http
                },
                is_tls: request.is_tls,
            }),
        };
        let rule = rule?;
        routes.rules().iter().position(|it| std::ptr::eq(it, rule))
    }
}
