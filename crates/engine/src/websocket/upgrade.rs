//! The handshake: checked by the engine, optionally by the application, then accepted with 101 or
//! refused.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::response::{valid_name, valid_value};
use fermata_proto::ws::handshake;
use fermata_proto::ws::handshake::Refused;

use super::handshake::{AcceptError, Accepted, Upgrade};
use super::{PROTOCOL_NONE, PROTOCOL_OWN, Socket, Sockets};
use crate::admin::stats::Counter;
use crate::admin::trace::End;
use crate::channels::Channels;
use crate::embed::event::Event;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::exchange::Stage;
use crate::http::router::WEBSOCKET;
use crate::id::{RequestId, SocketId};
use crate::missed::Known;
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::connection::Origin;
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;

impl Sockets {
    /// Handles the current request, which was routed to a WebSocket. Returns `Some` if the
    /// application decides.
    pub(crate) fn begin_upgrade<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        waiting: &mut Waiting,
        index: ExchangeIndex,
        route: u16,
    ) -> Option<Event> {
        if net.running != Running::Serving {
            http.refuse(net, index, 503, "The server is stopping; connect again.\n");
            return None;
        }
        let served = self.served.get(usize::from(route))?;
        if http.trace.is_recorded(index) {
            let label = http.router.label(served.handler | WEBSOCKET);
            http.trace.on_route(index, label);
        }
        let head = http.request.view(&net.input.bytes).head;
        let check = if http.request.is_connect {
            handshake::check_connect
        } else {
            handshake::check
        };
        let outcome = check(
            &http.request.head,
            head,
            served.origins(),
            served.policy.as_ref(),
        );
        let handshake = match outcome {
            Ok(handshake) => handshake,
            Err(refused) => {
                http.refuse_upgrade(net, index, refused);
                return None;
            }
        };
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            exchange.has_handshake = true;
        }
        http.note_socket_client(net, self, index);
        let served = self.served.get(usize::from(route))?;
        let head = http.request.view(&net.input.bytes).head;
        let supported = served.protocols.iter().map(Vec::as_slice);
        let chosen = handshake::choose_protocol(&http.request.head, head, supported);
        let place = |chosen: &[u8]| served.protocols.iter().position(|is| is == chosen);
        let protocol = chosen
            .and_then(place)
            .and_then(|at| u8::try_from(at).ok())
            .unwrap_or(PROTOCOL_NONE);
        if !served.callbacks.upgrade {
            let accepted = Accepted {
                route,
                handshake: &handshake,
                protocol,
                own: None,
                headers: &[],
            };
            self.open_socket(net, http, channels, waiting, index, &accepted);
            return None;
        }
        let offered = handshake::protocols(&http.request.head, head).map(Box::from);
        let upgrade = Upgrade {
            handle: http.request.handle,
            route,
            handshake,
            protocol,
            offered: offered.collect(),
        };
        http.request.handler = served.handler;
        self.upgrades.insert(index, upgrade);
        Some(Event::Upgrade)
    }

    /// Removes and returns the handshake of a request that the application accepts with `protocol`
    /// and these headers.
    ///
    /// # Errors
    /// An argument is invalid, or the request is not open.
    pub(crate) fn take_upgrade<D: Driver>(
        &mut self,
        net: &Net<D>,
        handle: RequestId,
        protocol: Option<&[u8]>,
        headers: &[(&[u8], &[u8])],
    ) -> Result<(ExchangeIndex, Upgrade), AcceptError> {
        let index = net.open_request(handle).map_err(|_| AcceptError::Gone)?;
        let upgrade = self.upgrades.get(&index);
        let Some(upgrade) = upgrade.filter(|upgrade| upgrade.handle == handle) else {
            return Err(Misuse::NoHandshake.into());
        };
        if let Some(protocol) = protocol
            && !upgrade.offered.iter().any(|offer| **offer == *protocol)
        {
            return Err(Misuse::subprotocol(protocol).into());
        }
        for (name, value) in headers {
            if handshake::reserved_name(name) {
                let shown = String::from_utf8_lossy(name).into_owned();
                return Err(Misuse::ReservedHeader(shown).into());
            }
            if !valid_name(name) || !valid_value(value) {
                return Err(Misuse::header(name).into());
            }
        }
        let Some(upgrade) = self.upgrades.remove(&index) else {
            return Err(AcceptError::Gone);
        };
        Ok((index, upgrade))
    }

    /// Queues the 101 response. From here on the connection is a WebSocket.
    pub(crate) fn open_socket<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        http: &mut Http,
        channels: &mut Channels,
        waiting: &mut Waiting,
        index: ExchangeIndex,
        accepted: &Accepted<'_>,
    ) -> Option<SocketId> {
        let Accepted {
            route,
            handshake,
            protocol,
            own,
            headers,
        } = *accepted;
        waiting.wake_reader(net, index);
        let served = self.served.get(usize::from(route))?;
        let (connection, exchange) = net.connections.pair_mut(index)?;
        let id = exchange.socket_id(index);
        let listed = |name: &[u8]| served.protocols.iter().position(|is| is == name);
        let protocol = match own {
            None => protocol,
            Some(own) => listed(own)
                .and_then(|at| u8::try_from(at).ok())
                .unwrap_or(PROTOCOL_OWN),
        };
        let mut socket = Socket::new(route, protocol, handshake.compression.as_ref());
        if protocol == PROTOCOL_OWN {
            socket.busy().protocol = own.map(Box::from);
        }
        let name = match protocol {
            PROTOCOL_OWN => own,
            at => served.protocols.get(usize::from(at)).map(Vec::as_slice),
        };
        let headers = headers.iter().copied();
        let status = match connection.line.stream() {
            None => {
                let out = connection.take_buffer(&mut net.pool);
                handshake::write_accepted(out, handshake, name, headers);
                101
            }
            Some(place) => {
                let write = |block: &mut Vec<u8>| {
                    handshake::write_accepted_block(block, handshake, name, headers);
                };
                net.http2.send_head(place, 200, false, write);
                200
            }
        };
        net.gauges.end_active(connection);
        net.gauges.sockets += 1;
        if connection.origin == Origin::Own {
            // From here on the connection counts once, as a WebSocket like any other.
            connection.origin = Origin::Public;
            net.gauges.control -= 1;
        }
        net.counts.response(status);
        net.counts.add(Counter::WebSocketUpgrades, 1);
        socket.message_s = (net.driver.now_ms() / 1000) as u32;
        // The bytes queued so far are not a frame.
        let queued = connection.out.len();
        socket.busy().unsent_frame = queued;
        exchange.stage = Stage::Socket(socket);
        exchange.is_deferred = false;
        let is_late = net
            .input
            .current
            .is_none_or(|current| current.index != index.connection());
        if connection.has_hung_up {
            waiting.forget_left(id.handshake());
        }
        let goes_on = is_late || connection.has_unread || connection.has_hung_up;
        if served.callbacks.open {
            self.events.open(id, served.handler);
        }
        http.trace.on_head(index, connection, status);
        http.trace.on_answer(index, End::Closed, net);
        net.restart_deadline(index.connection());
        net.mark_settled(index.connection());
        net.mark_dirty(index.connection());
        if goes_on {
            // Input has arrived in the meantime.
            net.go_on(index.connection());
        }
        if net.running != Running::Serving {
            self.drain_socket(net, http, channels, index);
        }
        Some(id)
    }
}

impl Http {
    /// Responds to a request that is not an acceptable handshake. The connection continues with HTTP.
    fn refuse_upgrade<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        refused: Refused,
    ) {
        let counter = match refused {
            Refused::Origin => Counter::WebSocketRefusedOrigin,
            Refused::Method | Refused::UpgradeRequired | Refused::Version => {
                Counter::WebSocketRefusedVersion
            }
            _ => Counter::WebSocketRefusedMalformed,
        };
        net.counts.add(counter, 1);
        let view = self.request.view(&net.input.bytes);
        let mut line = format!(
            "{}: WebSocket {} refused with {}: {refused}",
            view.peer(),
            String::from_utf8_lossy(view.path()).escape_debug(),
            refused.status()
        );
        if refused == Refused::Origin
            && let Some(origin) = view.header(b"origin", 0)
        {
            let shown = String::from_utf8_lossy(origin);
            line += &format!(" (Origin: {})", shown.escape_debug());
        }
        net.log_for_client(LogLevel::Info, &line);
        let keeps_alive = net
            .connections
            .at(index.connection())
            .is_some_and(|connection| connection.keeps_alive);
        // If the connection closes, `Connection: close` is already written.
        let headers = refused.headers().iter().copied();
        let headers =
            headers.filter(|(name, _)| keeps_alive || !name.eq_ignore_ascii_case(b"connection"));
        let body = format!("{refused}.\n");
        self.answer(
            net,
            index,
            refused.status(),
            Some(b"text/plain; charset=utf-8"),
            headers,
            body.as_bytes(),
        );
    }
}
