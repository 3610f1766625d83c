//! ZeroMQ ports of publishers: items over PULL and SUB, commands over REP.
//!
//! The ports belong to the publishing worker. A malformed message is dropped and logged; a peer that violates the protocol is
//! disconnected.

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;
use fermata_engine::{WireEvent, WireId};
use fermata_grip::command::{Command, Condition, Request};
use fermata_grip::item::{Format, Item, MessageAction};
use fermata_grip::value::Value;
use fermata_grip::zmtp::Event;
use fermata_grip::{command, item, packet, zmtp};

use crate::client::source::Engine;
use crate::publish::commands::Query;
use crate::publish::port::Port;
use crate::publish::ports::{Connection, Ports, Uris};
use crate::publish::posts::Reply;
use crate::publish::stream::BACKLOG_MS;
use crate::server::edge::Edge;
use crate::server::publish::Publications;
use crate::timers::Timer;

/// Maximum number of topics per subscriber to stats.
const TOPICS_MAX: usize = 1_024;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Maximum number of bytes read from one publisher per turn.
const TURN_BYTES_MAX: usize = 256 * 1024;

/// Time in milliseconds until the next turn of a publisher with more bytes.
const TURN_MS: u64 = 1;

impl Edge {
    /// Handles an event of a port. Returns false if the event belongs to another connection.
    pub(super) fn on_port(&mut self, event: WireEvent) -> bool {
        if let Some(&port) = self.publishing.ports.listeners.get(&event.wire) {
            let (ports, worker) = (&mut self.publishing.ports, &mut self.worker);
            ports.accept_peers(worker, &mut self.timers, event.wire, port);
            return true;
        }
        // Remove the connection from the map while it is handled, so that the other ports can be used.
        let Some(mut connection) = self.publishing.ports.peers.remove(&event.wire) else {
            return false;
        };
        let stays = Ports::flush(&mut self.worker, event.wire, &mut connection)
            && (!(event.readable || event.hangup) || self.read_from(event.wire, &mut connection))
            && Ports::flush(&mut self.worker, event.wire, &mut connection);
        if stays {
            self.publishing.ports.peers.insert(event.wire, connection);
        } else {
            self.publishing.ports.end_peer(&mut self.worker, event.wire)
        }
        // Messages of this connection may have caused questions, which can now be sent on it.
        self.holds().backends().flush();
        self.on_session_packets();
        true
    }

    /// Handles closed connections of the ports, including outgoing ones and the connections to services.
    pub(super) fn on_peers_ended(&mut self) {
        for wire in std::mem::take(&mut self.publishing.ports.ended) {
            self.publishing
                .on_publisher_gone(&mut self.timers, &mut self.worker, wire);
            if self
                .pushpin
                .services
                .line
                .wire
                .take_if(|it| *it == wire)
                .is_some()
            {
                self.on_sessions_lost();
            }
        }
    }

    /// Continues to read from publishers that sent more bytes than one turn reads.
    pub(super) fn on_ports_due(&mut self) {
        for wire in std::mem::take(&mut self.publishing.ports.waiting) {
            self.on_port(WireEvent {
                readable: true,
                ..WireEvent::of(wire)
            });
        }
    }

    /// Reads from a publisher as far as its turn and the ring permit. Returns false if the connection was closed.
    fn read_from(&mut self, wire: WireId, connection: &mut Connection) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(buffer.len().max(READ_BYTES), 0);
        let mut left = TURN_BYTES_MAX;
        connection.received_ms = self.worker.net.now_ms();
        let stays = loop {
            if left == 0 || self.publishing.sequence.is_behindhand() {
                // The kernel does not report these bytes again (edge-triggered), so queue the connection.
                self.publishing.ports.waiting.insert(wire);
                let pause_ms = if self.publishing.sequence.is_behindhand() {
                    BACKLOG_MS
                } else {
                    TURN_MS
                };
                let due_ms = self.worker.net.now_ms() + pause_ms;
                self.timers.at(due_ms, Timer::Ports);
                break true;
            }
            let len = match self.worker.net.recv_wire(wire, &mut buffer) {
                Ok(None) => break true,
                Ok(Some(0)) | Err(_) => break false,
                Ok(Some(len)) => len,
            };
            left = left.saturating_sub(len);
            let mut events = Vec::new();
            let was_ready = connection.is_ready;
            let handled = connection
                .peer
                .handle(&buffer[..len], &mut connection.out, &mut events);
            if !was_ready
                && connection.peer.is_open()
                && self.publishing.ports.is_named_twice(connection)
            {
                self.worker.net.count(Counter::EdgePublisherProtocol, 1);
                let line = format!(
                    "{}: a connection is closed: another one has its name, {:?}",
                    connection.port.setting(),
                    String::from_utf8_lossy(connection.peer.identity())
                );
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                break false;
            }
            for event in events {
                self.on_peer(wire, connection, event);
            }
            if let Err(error) = handled {
                self.worker.net.count(Counter::EdgePublisherProtocol, 1);
                let line = format!(
                    "{}: a publisher's connection is closed: {error}",
                    connection.port.setting()
                );
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                break false;
            }
            if connection.out.len() > connection.port.out_bytes_max() {
                Ports::on_slow_peer(&mut self.worker, connection.port);
                break false;
            }
        };
        self.buffer = buffer;
        stays
    }

    fn on_peer(&mut self, wire: WireId, connection: &mut Connection, event: Event) {
        connection.is_ready |= matches!(event, Event::Ready(_));
        match (connection.port, event) {
            // The channels of other workers are unknown here, so subscribe to all channels.
            (Port::Sub, Event::Ready(_)) => {
                zmtp::subscription(&mut connection.out, b"", true);
                self.publishing.on_publisher_ready(&self.worker, wire);
            }
            (Port::Pull, Event::Message(parts)) => match &parts[..] {
                [payload] => self
                    .publications()
                    .take_item(payload, None, connection.port),
                _ => drop_message(&mut self.worker, connection.port, "it has several parts"),
            },
            (Port::Sub, Event::Message(parts)) => match &parts[..] {
                [channel, payload] => {
                    self.publications()
                        .take_item(payload, Some(channel), connection.port)
                }
                _ => drop_message(
                    &mut self.worker,
                    connection.port,
                    "it has not two parts, channel and item",
                ),
            },
            (Port::Rep, Event::Message(parts)) => self.on_command(wire, connection, &parts),
            (Port::Stats, Event::Subscribed(topic)) => match connection.topics.len() {
                TOPICS_MAX.. => {
                    let line = format!(
                        "zmq_stats: a subscriber has {TOPICS_MAX} topics; one more has no effect"
                    );
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                }
                _ => connection.topics.push(topic),
            },
            (Port::Stats, Event::Unsubscribed(topic)) => {
                // A peer may subscribe to a topic several times. Remove one subscription.
                if let Some(at) = connection.topics.iter().position(|it| *it == topic) {
                    connection.topics.swap_remove(at);
                }
            }
            (Port::Stats, Event::Message(_)) => {}
            (Port::Service(_), Event::Message(parts)) => {
                if let Some(answered) = self.holds().backends().on_service_message(&parts) {
                    self.on_service_answer(answered);
                }
            }
            (Port::Responses, Event::Ready(_)) => {
                let name = format!("{}.", self.pushpin.services.addresses.instance());
                zmtp::subscription(&mut connection.out, name.as_bytes(), true);
            }
            (Port::Responses, Event::Message(parts)) => match &parts[..] {
                [message] => {
                    if let Some(answered) = self.holds().backends().on_response(message) {
                        self.on_service_answer(answered);
                    }
                }
                _ => drop_message(&mut self.worker, connection.port, "it has several parts"),
            },
            // These ports expect no messages.
            (Port::Requests(_) | Port::Sessions(_), Event::Message(_)) => {}
            (Port::Questions, Event::Message(parts)) => {
                if let Some(reply) = self.holds().backends().on_worker_question(wire, parts) {
                    zmtp::message(&mut connection.out, &[b"", &reply]);
                }
            }
            (_, Event::Ready(_) | Event::Subscribed(_) | Event::Unsubscribed(_)) => {}
        }
    }

    fn on_command(&mut self, wire: WireId, connection: &mut Connection, parts: &[Vec<u8>]) {
        let envelope = zmtp::envelope_len(parts).unwrap_or(0);
        let request = match &parts[envelope..] {
            [payload] => Request::read(payload),
            _ => None,
        };
        let Some(request) = request else {
            return drop_message(&mut self.worker, connection.port, "it is no request");
        };
        let mut ask = |query| self.ask_about(wire, &parts[..envelope], &request, query);
        let outcome = match request.command.clone() {
            Ok(Command::ConnectionCheck(ids)) => ask(Query::Check(ids)),
            Ok(Command::RefreshConnection(id)) => ask(Query::Refresh(id)),
            Ok(Command::ZmqUris) => {
                let Uris { command, pull, sub } = &self.publishing.ports.uris;
                Some(Ok(command::zmq_uris(
                    command,
                    pull.as_deref(),
                    sub.as_deref(),
                )))
            }
            Ok(Command::Recover) => Some(done(self.recover())),
            Ok(Command::RefreshChannel(channel)) => {
                // Sent through the ring, because any worker may have the sockets.
                let refresh = Item {
                    channel,
                    ws_message: Some(Format::new(MessageAction::Refresh)),
                    ..Item::default()
                };
                self.publications()
                    .post_command(wire, &parts[..envelope], &request, vec![refresh])
            }
            Ok(Command::Publish(items)) => {
                self.publications()
                    .post_command(wire, &parts[..envelope], &request, items)
            }
            Err(condition) => Some(Err(condition)),
        };
        let Some(outcome) = outcome else {
            // The reply follows after the replies of the other workers or the acknowledgement of the log.
            return;
        };
        let reply = request.reply(outcome);
        let mut message: Vec<&[u8]> = parts[..envelope].iter().map(Vec::as_slice).collect();
        message.push(&reply);
        zmtp::message(&mut connection.out, &message);
    }
}

impl Publications<'_> {
    fn take_item(&mut self, payload: &[u8], channel: Option<&[u8]>, port: Port) {
        let (value, notation) = match packet::decode(payload) {
            Ok(decoded) => decoded,
            Err(error) => return drop_message(self.worker, port, &error.to_string()),
        };
        match item::parse(&value, notation, channel) {
            Ok(item) => {
                // Errors are counted and logged where the item is appended.
                let _ = self.take_items(vec![item]);
            }
            Err(error) => drop_message(self.worker, port, &error.to_string()),
        }
    }

    /// Publishes the items of a command. Returns `None` if the reply follows after the log's acknowledgement.
    fn post_command(
        &mut self,
        wire: WireId,
        envelope: &[Vec<u8>],
        request: &Request,
        items: Vec<Item>,
    ) -> Option<Result<Value, Condition>> {
        let reply = || Reply::Command(wire, envelope.to_vec(), request.clone());
        self.post(items, reply).map(done)
    }
}

fn drop_message(worker: &mut Engine, port: Port, reason: &str) {
    worker.net.count(Counter::EdgeItemMalformed, 1);
    let line = format!("{}: a message is dropped: {reason}", port.setting());
    worker.net.log_for_client(LogLevel::Warning, &line);
}

/// Returns the reply of a command without a result.
pub(super) fn done<E>(outcome: Result<(), E>) -> Result<Value, Condition> {
    match outcome {
        Ok(()) => Ok(Value::Null),
        Err(_) => Err(Condition::ProxyRequestFailed),
    }
}
