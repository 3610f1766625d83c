//! Clients' WebSockets: handshake, messages and close.

use fermata_engine::missed;
use fermata_engine::websocket::{Format, Join, SendError};
use fermata_engine::{Ack, Busy, Message, PublishFailure, Publishing, RequestId, Since, SocketId};
use fermata_pusher::channel::ChannelName;
use fermata_pusher::connection::{Connection, Outcome, SignedIn, Subscribe, check_handshake};
use fermata_pusher::frame::{self, Code};
use fermata_pusher::socket_id;
use serde_json::Value;

use crate::gateway::{Gateway, Session};
use crate::names::{ring_name, user_name};
use crate::worker_counts::WorkerMessage;

/// Name under which clients receive an event without a name, as in `EventSource`.
pub(crate) const UNNAMED: &str = "message";

/// Numbers of newest events of a cache channel that are searched for an event of a publisher. The second number applies if clients
/// have sent all of the newest events: one client may send about as many per minute.
const CACHED_MAX: [usize; 2] = [8, 1024];

impl Gateway<'_> {
    /// Accepts a handshake. Errors are reported over the WebSocket, because browsers do not show scripts the HTTP response of a
    /// handshake.
    pub(crate) fn on_handshake(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let text = |bytes: Option<&[u8]>| {
            bytes
                .and_then(|it| std::str::from_utf8(it).ok())
                .map(str::to_owned)
        };
        let key = text(view.route(b"key")).unwrap_or_default();
        let origin = text(view.header(b"origin", 0));
        let query = text(view.query());
        let protocol = query.as_deref().and_then(protocol_in).map(str::to_owned);
        self.admit(handle, &key, protocol.as_deref(), origin.as_deref());
    }

    /// Accepts a handshake for an application's client.
    pub(crate) fn admit(
        &mut self,
        handle: RequestId,
        key: &str,
        protocol: Option<&str>,
        origin: Option<&str>,
    ) {
        let Ok(socket) = self.worker.accept_upgrade(handle, None, &[]) else {
            return;
        };
        let found = self.hub.settings.apps.iter().position(|app| app.key == key);
        let Some(at) = found else {
            self.refuse(
                socket,
                Code::NoApplication,
                "there is no application with this key",
            );
            return;
        };
        let app = self.app(at);
        if let Err((code, text)) = check_handshake(app, protocol, origin) {
            self.refuse(socket, code, &text);
            return;
        }
        let (id, max) = (app.id.clone(), app.limits.connections_max);
        if max.is_some_and(|max| self.hub.worker_counts.connections(&id) >= max) {
            self.refuse(
                socket,
                Code::OverQuota,
                "the application has its maximum number of connections",
            );
            return;
        }
        let secret = fermata_io::random::u64();
        let Some(socket_id) = self.socket_id(socket, secret) else {
            return;
        };
        self.hub.worker_counts.connect(&id);
        let connection = Connection::new();
        self.hub.sessions.insert(
            socket,
            Session {
                app: at,
                secret,
                connection,
            },
        );
        let established =
            frame::connection_established(socket_id, self.hub.settings.own.activity_timeout_s);
        self.send(socket, &established);
    }

    pub(crate) fn on_message(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let event = self.worker.socket_event();
        let (socket, text) = (event.socket, event.payload);
        let Some(secret) = self.hub.sessions.get(&socket).map(|it| it.secret) else {
            // The client was refused, and has sent this message before it received the error.
            return;
        };
        let Some(socket_id) = self.socket_id(socket, secret) else {
            return;
        };
        let Some(session) = self.hub.sessions.get_mut(&socket) else {
            return missed(());
        };
        let app = &self.hub.settings.apps[session.app];
        let outcome = session.connection.on_message(app, socket_id, text, now_ms);
        match outcome {
            Outcome::Nothing => {}
            Outcome::Reply(text) => self.send(socket, &text),
            Outcome::Subscribe(subscribe) => self.subscribe(socket, subscribe),
            Outcome::Unsubscribe(channel) => self.unsubscribe(socket, &channel),
            Outcome::SignedIn(signed_in) => self.sign_in(socket, signed_in),
            Outcome::Publish(event) => {
                let ring = ring_name(app, &event.channel);
                let message = Message {
                    name: Some(event.name.as_bytes()),
                    data: event.data.as_bytes(),
                };
                let now_ms = self.worker.net.now_ms();
                let published = match self.worker.channels.cluster_node() {
                    None => self
                        .worker
                        .publish_except(ring.as_bytes(), message, Some(socket))
                        .map(|_| ()),
                    // Do not wait for the acknowledgement: the event is lost if the log refuses it.
                    Some(_) => {
                        let how = (Ack::Local, None, now_ms);
                        let begun =
                            self.worker
                                .begin_publish(ring.as_bytes(), message, Some(socket), how);
                        begun.and_then(|begun| match begun {
                            Publishing::Later => Err(Busy::Embedder("there is no room").into()),
                            Publishing::Done(_) | Publishing::Pending(_) => Ok(()),
                        })
                    }
                };
                if let Err(error) = published {
                    let text = publish_error(&error);
                    self.send(socket, &frame::error(Some(Code::ClientEvent), &text));
                }
            }
            Outcome::Close(code, text) => self.refuse(socket, code, &text),
        }
    }

    pub(crate) fn on_close(&mut self) {
        let socket = self.worker.socket_event().socket;
        let Some(session) = self.hub.sessions.remove(&socket) else {
            // The client was refused before a session was created.
            return;
        };
        let settings = std::rc::Rc::clone(&self.hub.settings);
        let app = &settings.apps[session.app];
        self.hub.worker_counts.disconnect(&app.id);
        if let Some(user) = session.connection.user() {
            self.hub
                .worker_counts
                .sign_out(&user_name(&app.id, &user.id));
            self.hub.watching.end(socket);
        }
        for channel in session.connection.channels() {
            self.hub.worker_counts.unsubscribe(&ring_name(app, channel));
        }
    }

    fn sign_in(&mut self, socket: SocketId, signed_in: SignedIn) {
        self.send(socket, &frame::signin_success(&signed_in.user_data));
        let Some(session) = self.hub.sessions.get(&socket) else {
            return missed(());
        };
        let app = &self.hub.settings.apps[session.app].id;
        if signed_in.is_first
            && let Some(user) = session.connection.user()
        {
            self.hub.worker_counts.sign_in(&user_name(app, &user.id));
        }
        self.hub.watching.end(socket);
        if signed_in.watchlist.is_empty() {
            return;
        }
        let watched = signed_in.watchlist.iter();
        let watched: Vec<String> = watched.map(|user| user_name(app, user)).collect();
        let worker_counts = &self.hub.worker_counts;
        self.hub.watching.begin(socket, watched, |user_name| {
            worker_counts.is_online(user_name)
        });
        let (online, offline): (Vec<&str>, Vec<&str>) = signed_in
            .watchlist
            .iter()
            .map(String::as_str)
            .partition(|user| self.hub.watching.is_online(&user_name(app, user)));
        let text = frame::watchlist_events(&online, &offline);
        self.send(socket, &text);
    }

    /// Closes the connections of this worker on which a user has signed in or is present in a channel.
    pub(crate) fn terminate(&mut self, app: &str, user: &str) {
        let is_it = |session: &Session| {
            self.hub.settings.apps[session.app].id == app && session.connection.belongs_to(user)
        };
        let found = self
            .hub
            .sessions
            .iter()
            .filter(|(_, session)| is_it(session));
        let sockets: Vec<SocketId> = found.map(|(socket, _)| *socket).collect();
        for socket in sockets {
            self.refuse(
                socket,
                Code::Unauthorized,
                "the application has ended the connection",
            );
        }
    }

    /// Closes the connections of a user in all workers of all servers. Returns false if a worker could not be notified.
    pub(crate) fn terminate_everywhere(&mut self, app: &str, user: &str) -> bool {
        self.terminate(app, user);
        let worker_message = WorkerMessage::Terminate {
            app: app.to_owned(),
            user: user.to_owned(),
        };
        self.send_to_workers(&worker_message) && self.send_to_servers(&worker_message)
    }

    fn subscribe(&mut self, socket: SocketId, subscribe: Subscribe) {
        let Some(session) = self.hub.sessions.get(&socket) else {
            return missed(());
        };
        let at = session.app;
        let app = self.app(at);
        let (ring, members_max) = (
            ring_name(app, &subscribe.channel),
            app.limits.presence_members_max,
        );
        let info = subscribe.member.as_ref().map(|it| it.user_info.to_string());
        let formerly = subscribe.formerly.map(to_engine);
        if subscribe.member.is_some() && !self.worker.channels.is_presence_known() {
            // This server has just started. The client reconnects, possibly to another server.
            let text = "the members on other servers are not known yet; reconnect in a moment";
            self.refuse(socket, Code::OverCapacity, text);
            return;
        }
        if let Some(member) = &subscribe.member
            && self.is_full(&ring, &member.user_id, members_max)
        {
            let text = format!(
                "{} has its maximum of {members_max} members",
                subscribe.channel
            );
            self.undo(socket, &subscribe.channel, &text);
            return;
        }
        let join = Join {
            channel: ring.as_bytes(),
            user: subscribe.member.as_ref().map(|it| it.user_id.as_bytes()),
            info: info.as_ref().map(String::as_bytes),
            announces: true,
            since: Since::of(subscribe.since.as_ref().map(String::as_bytes), false),
            formerly: formerly.as_ref().map(String::as_bytes),
            format: Format::Own,
        };
        // The confirmation of a presence channel lists its members, so it follows after the join. Confirm other channels before the
        // join, because the join may send missed events.
        let is_presence = subscribe.member.is_some();
        if !is_presence {
            let text = frame::subscription_succeeded(&subscribe.channel, None);
            self.send(socket, &text);
        }
        match self.worker.join_channel(socket, &join) {
            Ok(()) => {}
            // The socket is closed. `on_close` follows and must not subtract this subscription, which was not counted yet.
            Err(SendError::Gone) => return self.forget(socket, &subscribe.channel),
            Err(refusal @ (SendError::Misuse(_) | SendError::Backpressure(_))) => {
                self.undo(socket, &subscribe.channel, &refusal.to_string());
                return;
            }
        }
        self.hub.worker_counts.subscribe(&ring);
        if is_presence {
            let mut members = self.members(&ring, members_max);
            // In a cluster, the table of members contains the client only after the join has passed the log. The list must already
            // contain the client.
            if let Some(own) = &subscribe.member
                && !members.iter().any(|(user, _)| *user == own.user_id)
            {
                members.push((own.user_id.clone(), own.user_info.clone()));
            }
            let text = frame::subscription_succeeded(&subscribe.channel, Some(&members));
            self.send(socket, &text);
        }
        if subscribe.has_gap {
            self.send(socket, &frame::gap(Some(&subscribe.channel)));
        }
        let is_cache = ChannelName::new(&subscribe.channel).is_ok_and(ChannelName::is_cache);
        if is_cache && subscribe.since.is_none() {
            self.send_cached(socket, at, &ring, &subscribe.channel);
        }
    }

    fn unsubscribe(&mut self, socket: SocketId, channel: &str) {
        let Some(session) = self.hub.sessions.get(&socket) else {
            return missed(());
        };
        let ring = ring_name(self.app(session.app), channel);
        self.hub.worker_counts.unsubscribe(&ring);
        // Ignore the result: the socket has left the channel, or is closing.
        let _ = self.worker.leave_channel(socket, ring.as_bytes());
    }

    /// Returns true if a presence channel has no room for another user.
    fn is_full(&mut self, ring: &str, user: &str, members_max: usize) -> bool {
        match self.worker.channels.member_count(ring.as_bytes()) {
            Ok(count) if count >= members_max => {
                let members = self.worker.channels.members(ring.as_bytes(), members_max);
                !members.is_ok_and(|it| it.iter().any(|member| member.user == user.as_bytes()))
            }
            _ => false,
        }
    }

    /// Returns the users in a presence channel, with their `user_info`.
    pub(crate) fn members(&mut self, ring: &str, count_max: usize) -> Vec<(String, Value)> {
        let members = self.worker.channels.members(ring.as_bytes(), count_max);
        members
            .unwrap_or_default()
            .into_iter()
            .map(|member| {
                let info = serde_json::from_slice(&member.info).unwrap_or(Value::Null);
                (String::from_utf8_lossy(&member.user).into_owned(), info)
            })
            .collect()
    }

    /// Returns name, data and id of the newest event that a publisher sent to a channel.
    pub(crate) fn cached(&mut self, ring: &str) -> Option<(String, String, String)> {
        CACHED_MAX.into_iter().find_map(|count_max| {
            let past = self.worker.history(ring.as_bytes(), None, count_max);
            past.unwrap_or_default().into_iter().rev().find_map(|past| {
                let name = past.name.unwrap_or_else(|| UNNAMED.into());
                let name = String::from_utf8(name).ok()?;
                let data = String::from_utf8(past.data).ok()?;
                let is_publishers = !name.starts_with("client-") && !frame::is_of_protocol(&name);
                is_publishers.then_some((name, data, past.id))
            })
        })
    }

    fn send_cached(&mut self, socket: SocketId, app: usize, ring: &str, channel: &str) {
        match self.cached(ring) {
            Some((name, data, id)) => {
                let mut text = Vec::new();
                frame::event(&mut text, channel, &name, &data, Some(&id));
                self.send(socket, &String::from_utf8_lossy(&text));
            }
            None => {
                self.send(socket, &frame::cache_miss(channel));
                self.report_miss(app, channel);
            }
        }
    }

    /// Reverts a subscription that the engine refused.
    fn undo(&mut self, socket: SocketId, channel: &str, text: &str) {
        self.forget(socket, channel);
        self.send(socket, &frame::error(Some(Code::OverQuota), text));
    }

    /// Removes a subscription from the session. The client has just requested it, so a session exists even if the
    /// connection is closed.
    fn forget(&mut self, socket: SocketId, channel: &str) {
        match self.hub.sessions.get_mut(&socket) {
            Some(session) => session.connection.forget(channel),
            None => missed(()),
        }
    }

    /// Sends an error and closes the connection.
    fn refuse(&mut self, socket: SocketId, code: Code, text: &str) {
        self.send(socket, &frame::error(Some(code), text));
        // Ignore the result: an error means that the socket is already closed.
        let _ = self
            .worker
            .disconnect(socket, code.number(), text.as_bytes());
    }

    pub(crate) fn send(&mut self, socket: SocketId, text: &str) {
        // Ignore the result: a closed socket is reported by `Event::Close`, and the engine closes a client that reads too slowly.
        let _ = self.worker.send(socket, false, text.as_bytes());
    }

    fn socket_id(&self, socket: SocketId, secret: u64) -> Option<socket_id::SocketId> {
        let (life, worker) = self.worker.socket_place(socket)?;
        Some(socket_id::SocketId {
            life,
            socket: socket.to_raw(),
            worker,
            secret,
        })
    }
}

/// Returns the protocol version that a query requests.
pub(crate) fn protocol_in(query: &str) -> Option<&str> {
    let mut pairs = query.split('&');
    pairs.find_map(|pair| pair.strip_prefix("protocol="))
}

/// Returns the reason why an event was not published, for its publisher.
pub(crate) fn publish_error(error: &PublishFailure) -> String {
    match error {
        PublishFailure::Misuse(cause) => cause.to_string(),
        PublishFailure::Backpressure(_) => "the server is busy; try again".to_owned(),
    }
}

/// Returns the engine's id of the client with a Pusher socket id; `None` if the text is not a socket id.
pub fn engine_id(socket_id: &str) -> Option<String> {
    socket_id::SocketId::parse(socket_id).map(to_engine)
}

/// Returns the engine's id of a socket, valid in any worker: three hexadecimal numbers.
pub(crate) fn to_engine(id: socket_id::SocketId) -> String {
    format!("{:016x}{:016x}{:x}", id.life, id.socket, id.worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_ids_match_the_engines() {
        let id = socket_id::SocketId {
            life: 0xfeed,
            socket: (3 << 32) | 7,
            worker: 11,
            secret: 5,
        };
        assert_eq!(to_engine(id), "000000000000feed0000000300000007b");
    }
}
