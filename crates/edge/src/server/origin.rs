//! Conversations with origins: a connection, the request on it, what comes back, and the next target when one fails.
//!
//! A conversation owns its connection until the response is complete; then the connection waits in the pool for the next
//! one. What is read and when follows from whoever takes the response: see `answer`.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::WireEvent;
use fermata_proto::ws::accept::KEY_BYTES;

use super::answer::Phase;
use super::edge::{Edge, Owner, Source, WireUse};
use super::forward::{Forwarded, Hop};
use super::over_http::OverHttp;
use super::request::{Body, without_port};
use super::sockjs;
use super::test_origin;
use crate::fastcgi::{self, Script};
use crate::routes::{Origin, Target};
use crate::upstream::{self, Failure, Sent, may_retry};

/// Piece of a body in a file that is read at once.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// Which connections are interchangeable: target, and who its certificate has to be for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    generation: u32,
    rule: usize,
    target: usize,
    name: Option<Rc<str>>,
}

/// What a conversation is for.
pub(super) enum Purpose {
    /// A response.
    Plain,
    /// A WebSocket, with this key.
    Upgrade([u8; KEY_BYTES]),
    /// What another worker's SockJS session answers.
    Worker,
    /// Events of a WebSocket; while it is being opened, with the state it will have.
    Events(Option<Box<OverHttp>>),
}

/// A request to an origin, and its response.
pub(super) struct Talk {
    id: u64,
    pub owner: Owner,
    pub purpose: Purpose,
    /// The client's socket waits for its origin to take more.
    pub has_deferred: bool,
    pub source: Source,
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub phase: Phase,
    /// Its connection; 0: none.
    pub wire: u64,
    codec: Codec,
    out: Vec<u8>,
    sent: usize,
    /// What is left of a body in a file.
    file: Option<File>,
    /// Addresses of the target that have not been tried.
    addresses: Vec<SocketAddr>,
    is_connected: bool,
    can_read: bool,
    has_hung_up: bool,
    is_reused: bool,
    has_response: bool,
    /// When it takes too long.
    pub due_ms: u64,
    /// Why targets have failed, for the log.
    failures: Vec<String>,
}

enum Codec {
    Http(upstream::Exchange),
    FastCgi(Box<fastcgi::Exchange>),
}

/// A response without its body.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub status: u16,
    pub reason: Vec<u8>,
    /// Without those of one hop.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// What it says of its body.
    pub length: Option<u64>,
}

/// What an origin says.
#[derive(Debug)]
pub(super) enum Said {
    Head(Head),
    Body(Vec<u8>),
    End {
        is_reusable: bool,
    },
    /// Bytes of another protocol.
    Upgraded(Vec<u8>),
}

/// Whether a conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Goes,
    /// Nothing is left to do, and its connection is no longer its own.
    Over,
}

impl Talk {
    fn new(
        id: u64,
        owner: Owner,
        source: Source,
        last_ids: Vec<(Vec<u8>, Vec<u8>)>,
        purpose: Purpose,
    ) -> Box<Self> {
        Box::new(Self {
            id,
            owner,
            purpose,
            has_deferred: false,
            source,
            last_ids,
            phase: Phase::Asked,
            wire: 0,
            codec: Codec::Http(upstream::Exchange::new(false, false)),
            out: Vec::new(),
            sent: 0,
            file: None,
            addresses: Vec::new(),
            is_connected: false,
            can_read: false,
            has_hung_up: false,
            is_reused: false,
            has_response: false,
            due_ms: u64::MAX,
            failures: Vec::new(),
        })
    }

    fn place(&self) -> Place {
        let target = self.source.target();
        Place {
            generation: self.source.table.generation,
            rule: self.source.rule,
            target: self.source.target,
            name: target
                .filter(|target| target.is_tls && !target.trust_connect_host)
                .map(|target| Rc::from(certified_name(&self.source, target))),
        }
    }

    fn is_sent(&self) -> bool {
        self.sent == self.out.len() && self.file.is_none()
    }

    /// Whether the origin cannot have acted on the request: it has not got all of it, and has said nothing.
    pub fn may_be_unheard(&self) -> bool {
        let is_heard = self.has_response || (self.is_connected && self.is_sent());
        !is_heard
    }

    /// Whether the whole response is here.
    fn has_ended(&self) -> bool {
        matches!(
            self.phase,
            Phase::Streaming {
                has_ended: true,
                ..
            }
        )
    }

    /// Adds bytes of a connection that has become a WebSocket.
    pub fn queue(&mut self, bytes: &[u8]) {
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        self.out.extend_from_slice(bytes);
    }

    /// Bytes that wait for the origin.
    pub fn queued(&self) -> usize {
        self.out.len() - self.sent
    }
}

impl Talk {
    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Edge {
    /// Asks the origin of `source` and gives the response to `owner`.
    pub(super) fn ask(&mut self, owner: Owner, source: Source, last_ids: Vec<(Vec<u8>, Vec<u8>)>) {
        self.ask_for(owner, source, last_ids, Purpose::Plain);
    }

    /// The same for something else than a response.
    pub(super) fn ask_for(
        &mut self,
        owner: Owner,
        source: Source,
        last_ids: Vec<(Vec<u8>, Vec<u8>)>,
        purpose: Purpose,
    ) {
        self.talks_last += 1;
        let id = self.talks_last;
        let mut talk = Talk::new(id, owner, source, last_ids, purpose);
        if self.open(&mut talk, true) == Step::Goes {
            self.keep(id, talk);
        }
    }

    fn keep(&mut self, id: u64, talk: Box<Talk>) {
        if talk.wire != 0 {
            self.wires.insert(talk.wire, WireUse::Talk(id));
        }
        self.asking.insert(talk.owner.handle(), id);
        if self.talks.is_empty() {
            self.watch_talks();
        }
        self.talks.insert(id, talk);
    }

    /// Runs a conversation that is under way, and keeps it unless it is over.
    pub(super) fn with_talk(&mut self, id: u64, run: impl FnOnce(&mut Self, &mut Talk) -> Step) {
        let Some(mut talk) = self.talks.remove(&id) else {
            return;
        };
        if run(self, &mut talk) == Step::Goes {
            self.keep(id, talk);
        } else {
            self.drop_wire(&mut talk);
            let handle = talk.owner.handle();
            if self.asking.get(&handle) == Some(&id) {
                self.asking.remove(&handle);
            }
        }
    }

    /// Whoever asked has gone: the origin is not waited for.
    pub(super) fn abandon(&mut self, handle: u64) {
        if let Some(id) = self.asking.remove(&handle) {
            self.with_talk(id, |_, _| Step::Over);
        }
    }

    /// Sends the request to the target, on a connection that waits or on a new one; to the next target when that fails.
    fn open(&mut self, talk: &mut Talk, may_reuse: bool) -> Step {
        let mut may_reuse = may_reuse;
        loop {
            let table = Rc::clone(&talk.source.table);
            let Some(rule) = table.routes.rules().get(talk.source.rule) else {
                return self.fail(talk, 502, "the route is gone");
            };
            let Some(target) = rule.targets.get(talk.source.target) else {
                let failures = talk.failures.join("; ");
                return self.fail(talk, 502, &failures);
            };
            if target.origin == Origin::Test {
                match talk.purpose {
                    Purpose::Upgrade(_) => return self.open_test_socket(talk, &rule.path_beg),
                    Purpose::Events(_) => {}
                    _ => return self.ask_test(talk, &rule.path_beg),
                }
            }
            let opened = self.open_target(talk, target, may_reuse);
            match opened {
                Ok(()) => return self.pump(talk),
                Err(reason) => {
                    talk.failures.push(reason);
                    talk.source.target += 1;
                    talk.addresses.clear();
                    may_reuse = true;
                }
            }
        }
    }

    /// Asks the built-in origin, which answers at once.
    fn ask_test(&mut self, talk: &mut Talk, start: &str) -> Step {
        let (path, query) = test_origin::parts(&talk.source.request.target, start);
        let (head, body) = test_origin::answer(path, query);
        let end = Said::End { is_reusable: false };
        self.take(talk, vec![Said::Head(head), Said::Body(body), end])
    }

    fn open_target(
        &mut self,
        talk: &mut Talk,
        target: &Target,
        may_reuse: bool,
    ) -> Result<(), String> {
        self.write_request(talk, target)?;
        talk.is_connected = false;
        talk.can_read = false;
        talk.has_hung_up = false;
        talk.has_response = false;
        let now_ms = self.worker.now_ms();
        if may_reuse && let Some(wire) = self.take_idle(talk) {
            talk.wire = wire;
            talk.is_reused = true;
            talk.is_connected = true;
            talk.due_ms = now_ms + self.limits.response_ms;
            return Ok(());
        }
        talk.is_reused = false;
        talk.due_ms = now_ms + self.limits.connect_ms;
        talk.wire = match &target.origin {
            Origin::Host { host, port } | Origin::FastCgiHost { host, port } => {
                if talk.addresses.is_empty() {
                    talk.addresses = self.resolver.find(host, *port, now_ms)?;
                    talk.addresses.reverse();
                }
                self.connect_any(talk, target, host)?
            }
            Origin::Unix(path) | Origin::FastCgiUnix(path) => {
                // A connection over a Unix socket stands at once.
                talk.is_connected = true;
                talk.due_ms = now_ms + self.limits.response_ms;
                self.worker
                    .connect_unix(Path::new(path))
                    .map_err(|error| format!("{path}: {error}"))?
            }
            Origin::Zhttp(spec) | Origin::ZhttpReq(spec) => {
                return Err(format!("zhttp/{spec}: ZHTTP is not spoken here"));
            }
            Origin::Test => return Err("the built-in origin speaks no WebSocket".to_owned()),
        };
        Ok(())
    }

    /// A connection that waits for another request, and on which the origin has said nothing since: what it may have said,
    /// or that it has closed, would be taken for the answer.
    fn take_idle(&mut self, talk: &Talk) -> Option<u64> {
        let (now_ms, place) = (self.worker.now_ms(), talk.place());
        while let Some(wire) = self.pool.take(now_ms, &place) {
            if let Ok(None) = self.worker.recv_wire(wire, &mut [0]) {
                return Some(wire);
            }
            self.wires.remove(&wire);
            self.worker.close_wire(wire);
        }
        None
    }

    /// Begins to connect to the first address that does not refuse at once.
    fn connect_any(&mut self, talk: &mut Talk, target: &Target, host: &str) -> Result<u64, String> {
        let mut reason = String::new();
        while let Some(address) = talk.addresses.pop() {
            if !target.is_trusted && is_internal(address.ip()) {
                reason = "Origin host/IP blocked".to_owned();
                continue;
            }
            let wire = match target.is_tls {
                false => self.worker.connect(address),
                true => self.connect_tls(talk, target, host, address),
            };
            match wire {
                Ok(wire) => return Ok(wire),
                Err(error) => reason = format!("{address}: {error}"),
            }
        }
        self.resolver.failed(host);
        Err(reason)
    }

    fn connect_tls(
        &mut self,
        talk: &Talk,
        target: &Target,
        host: &str,
        address: SocketAddr,
    ) -> std::io::Result<u64> {
        let config = self.tls_config(target.insecure)?;
        let name = match target.trust_connect_host {
            true => host.to_owned(),
            false => certified_name(&talk.source, target),
        };
        let name = fermata_tls::ServerName::try_from(name).map_err(|error| {
            std::io::Error::other(format!("the host cannot be checked: {error}"))
        })?;
        self.worker.connect_tls(address, config, name)
    }

    fn write_request(&mut self, talk: &mut Talk, target: &Target) -> Result<(), String> {
        let source = &talk.source;
        if let Purpose::Worker = talk.purpose {
            talk.codec = Codec::Http(upstream::Exchange::new(false, false));
            talk.out.clear();
            talk.sent = 0;
            sockjs::pack(&source.request, &mut talk.out);
            return Ok(());
        }
        let Some(rule) = source.table.routes.rules().get(source.rule) else {
            return Err("the route is gone".to_owned());
        };
        let signature = match source.is_foreign() {
            // It would be good at our own origins as well.
            true => None,
            false => self.signatures.get(rule, self.worker.unix_s()),
        };
        let hop = Hop {
            rule,
            target,
            rewriting: &self.rewriting,
            is_trusted: source.is_trusted,
            is_events: matches!(talk.purpose, Purpose::Events(_)),
            signature: signature.as_deref(),
            session_id: source.session_id.as_deref(),
            last_ids: &talk.last_ids,
        };
        let forwarded = Forwarded::new(&source.request, &hop);
        talk.out.clear();
        talk.sent = 0;
        talk.file = match &source.request.body {
            Body::File { path, .. } => {
                Some(File::open(path).map_err(|error| format!("{}: {error}", path.display()))?)
            }
            _ => None,
        };
        if matches!(
            target.origin,
            Origin::FastCgiHost { .. } | Origin::FastCgiUnix(_)
        ) {
            let root = target.root.as_deref().unwrap_or_default();
            let script = match &target.script {
                Some(name) => Script::Fixed { root, name },
                None => Script::Path { root },
            };
            let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
            talk.codec = Codec::FastCgi(Box::default());
            forwarded
                .write_fastcgi(&source.request, script, server, &mut talk.out)
                .map_err(|error| error.to_string())
        } else {
            let key = match &talk.purpose {
                Purpose::Upgrade(key) => Some(key),
                Purpose::Plain | Purpose::Worker | Purpose::Events(_) => None,
            };
            let is_head = source.request.is_head();
            talk.codec = Codec::Http(upstream::Exchange::new(is_head, key.is_some()));
            match key {
                None => forwarded.write_http(&source.request, &mut talk.out),
                Some(key) => forwarded.write_upgrade(key, !source.is_plain(), &mut talk.out),
            }
            Ok(())
        }
    }

    /// Something has happened on a connection.
    pub(super) fn on_wire(&mut self, event: WireEvent) {
        match self.wires.get(&event.wire) {
            Some(&WireUse::Talk(id)) => self.with_talk(id, |edge, talk| edge.on_talk(talk, event)),
            // An idle connection has nothing to say but its end. That it can be written to is no news.
            Some(WireUse::Idle(place)) if event.readable || event.hangup => {
                let place = place.clone();
                self.pool.remove(&place, &event.wire);
                self.wires.remove(&event.wire);
                self.worker.close_wire(event.wire);
            }
            Some(&WireUse::Session(id)) => self.on_session_wire(id, event),
            Some(WireUse::Idle(_)) | None => {}
        }
    }

    fn on_talk(&mut self, talk: &mut Talk, event: WireEvent) -> Step {
        talk.can_read |= event.readable || event.hangup;
        talk.has_hung_up |= event.hangup;
        if !talk.is_connected {
            if event.hangup {
                let reason = self.why_unconnected(talk);
                return self.retry(talk, Failure::Connect, &reason);
            }
            if event.writable {
                talk.is_connected = true;
                talk.due_ms = self.worker.now_ms() + self.limits.response_ms;
            }
        }
        self.pump(talk)
    }

    fn why_unconnected(&mut self, talk: &mut Talk) -> String {
        let mut byte = [0];
        match self.worker.recv_wire(talk.wire, &mut byte) {
            Err(error) => format!("no connection: {error}"),
            Ok(_) => "no connection".to_owned(),
        }
    }

    /// Sends and reads what can be sent and read.
    pub(super) fn pump(&mut self, talk: &mut Talk) -> Step {
        if talk.wire == 0 || !talk.is_connected {
            return Step::Goes;
        }
        if self.flush_talk(talk) == Step::Over {
            return Step::Over;
        }
        while talk.wire != 0 && talk.can_read && talk.phase.wants_more() {
            let mut buffer = std::mem::take(&mut self.buffer);
            let received = self.worker.recv_wire(talk.wire, &mut buffer);
            let step = match received {
                Ok(None) => {
                    talk.can_read = false;
                    Step::Goes
                }
                Ok(Some(0)) => self.on_origin_end(talk, None),
                Ok(Some(read)) => {
                    // A short read has emptied the socket, but for an end behind it.
                    talk.can_read = read == buffer.len() || talk.has_hung_up;
                    talk.has_response = true;
                    // A WebSocket that is being closed has its time, whatever the origin goes on saying.
                    let is_socket = matches!(talk.phase, Phase::Socket { .. });
                    if talk.due_ms != u64::MAX && !is_socket {
                        talk.due_ms = self.worker.now_ms() + self.limits.idle_ms;
                    }
                    self.on_bytes(talk, &buffer[..read])
                }
                Err(error) => self.on_origin_end(talk, Some(error.to_string())),
            };
            self.buffer = buffer;
            if step == Step::Over {
                return Step::Over;
            }
        }
        Step::Goes
    }

    /// Sends what waits, as far as the origin takes it.
    pub(super) fn flush_talk(&mut self, talk: &mut Talk) -> Step {
        if talk.wire == 0 || talk.is_sent() {
            return Step::Goes;
        }
        let (out_bytes, sent) = (talk.out.len(), talk.sent);
        let outcome = self.send_request(talk);
        let has_gone_on = talk.sent != sent || talk.out.len() != out_bytes || talk.is_sent();
        if has_gone_on && !talk.has_response && talk.due_ms != u64::MAX {
            // The origin's time to answer begins when it has the request.
            let patience_ms = match talk.is_sent() {
                true => self.limits.response_ms,
                false => self.limits.idle_ms,
            };
            talk.due_ms = self.worker.now_ms() + patience_ms;
        }
        if outcome.is_err() {
            // What the origin has said before it closed counts, so it is read first.
            talk.can_read = true;
        }
        if talk.has_deferred && talk.is_sent() {
            talk.has_deferred = false;
            self.worker.resume_socket(talk.owner.handle());
        }
        Step::Goes
    }

    fn send_request(&mut self, talk: &mut Talk) -> std::io::Result<()> {
        loop {
            while talk.sent < talk.out.len() {
                match self.worker.send_wire(talk.wire, &talk.out[talk.sent..])? {
                    Some(sent) => talk.sent += sent,
                    None => return Ok(()),
                }
            }
            let Some(file) = &mut talk.file else {
                return Ok(());
            };
            let mut piece = vec![0; FILE_PIECE_BYTES];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            talk.out.clear();
            talk.sent = 0;
            match (&talk.codec, read) {
                (Codec::Http(_), _) => talk.out = piece,
                (Codec::FastCgi(_), 0) => fastcgi::Request::body_end(&mut talk.out),
                (Codec::FastCgi(_), _) => fastcgi::Request::body(&mut talk.out, &piece),
            }
            if read == 0 {
                talk.file = None;
            }
        }
    }

    fn on_bytes(&mut self, talk: &mut Talk, bytes: &[u8]) -> Step {
        let mut said = Vec::new();
        let outcome = match &mut talk.codec {
            Codec::Http(exchange) => {
                let mut events = Vec::new();
                let outcome = exchange.handle(bytes, &mut events);
                said.extend(events.into_iter().filter_map(of_http));
                outcome.map_err(|error| error.to_string())
            }
            Codec::FastCgi(exchange) => {
                let mut events = Vec::new();
                let outcome = exchange.handle(bytes, &mut events);
                for event in events {
                    if let fastcgi::Event::Stderr(text) = &event {
                        let text = String::from_utf8_lossy(text);
                        let line = format!("FastCGI: {}", text.trim_end().escape_debug());
                        self.worker.log_for_client(LogLevel::Warning, &line);
                    }
                    said.extend(of_fastcgi(event));
                }
                outcome.map_err(|error| error.to_string())
            }
        };
        if self.take(talk, said) == Step::Over {
            return Step::Over;
        }
        match outcome {
            Ok(()) => Step::Goes,
            // The response is complete, and its tail waits for the client: what comes behind it costs the connection alone.
            Err(_) if talk.has_ended() => {
                self.drop_wire(talk);
                Step::Goes
            }
            Err(reason) => self.retry(talk, Failure::Response, &reason),
        }
    }

    /// The origin has closed its side, or the connection is broken.
    fn on_origin_end(&mut self, talk: &mut Talk, error: Option<String>) -> Step {
        talk.can_read = false;
        if let Phase::Socket { .. } = talk.phase {
            return self.on_frames_end(talk);
        }
        let mut events = Vec::new();
        let outcome = match &mut talk.codec {
            Codec::Http(exchange) if error.is_none() => exchange
                .finish(&mut events)
                .map_err(|error| error.to_string()),
            Codec::FastCgi(exchange) if error.is_none() => {
                exchange.finish().map_err(|error| error.to_string())
            }
            _ => Err(error.unwrap_or_default()),
        };
        let said: Vec<Said> = events.into_iter().filter_map(of_http).collect();
        if self.take(talk, said) == Step::Over {
            return Step::Over;
        }
        match outcome {
            Ok(()) => Step::Goes,
            Err(reason) if talk.has_response => self.retry(talk, Failure::Response, &reason),
            Err(reason) => self.retry(talk, Failure::NoResponse, &reason),
        }
    }

    /// Tries once more where that can do no harm; otherwise the client is told.
    fn retry(&mut self, talk: &mut Talk, failure: Failure, reason: &str) -> Step {
        let sent = Sent {
            // An idle connection that ends without a byte was closed before it had the request, as good as always; events
            // are worth more than the rest of that doubt, and the next connection is a fresh one.
            is_idempotent: talk.source.request.is_idempotent()
                || matches!(talk.purpose, Purpose::Events(None)),
            is_reused: talk.is_reused,
            is_replayable: true,
        };
        self.drop_wire(talk);
        if let Phase::Socket { .. } = talk.phase {
            return self.on_frames_end(talk);
        }
        if !may_retry(failure, sent) {
            let status = if failure == Failure::TimeOut {
                504
            } else {
                502
            };
            return self.fail(talk, status, reason);
        }
        talk.failures.push(reason.to_owned());
        // An idle connection that was just closed says nothing about the target; no connection does.
        if failure == Failure::Connect && talk.addresses.is_empty() {
            talk.source.target += 1;
        }
        self.open(talk, failure == Failure::Connect)
    }

    /// The response is complete: its connection may serve another request.
    pub(super) fn release_wire(&mut self, talk: &mut Talk, is_reusable: bool) {
        // A FastCGI program's process serves one connection: it would wait here for the next request of this worker while
        // others wait for a process.
        let is_fastcgi = matches!(talk.codec, Codec::FastCgi(_));
        if is_fastcgi || !is_reusable || talk.has_hung_up || !talk.is_sent() {
            self.drop_wire(talk);
            return;
        }
        let wire = std::mem::take(&mut talk.wire);
        let now_ms = self.worker.now_ms();
        let place = talk.place();
        if self.pool.is_empty() {
            self.watch_pool(now_ms);
        }
        match self.pool.put(now_ms, &place, wire) {
            None => {
                self.wires.insert(wire, WireUse::Idle(place));
            }
            Some(surplus) => {
                self.wires.remove(&surplus);
                self.worker.close_wire(surplus);
            }
        }
    }

    pub(super) fn drop_wire(&mut self, talk: &mut Talk) {
        let wire = std::mem::take(&mut talk.wire);
        if wire != 0 {
            self.wires.remove(&wire);
            self.worker.close_wire(wire);
        }
    }

    /// Ends conversations in which nothing happens.
    pub(super) fn check_talks(&mut self, now_ms: u64) {
        let late: Vec<u64> = self
            .talks
            .iter()
            .filter(|(_, talk)| talk.due_ms <= now_ms && talk.wire != 0 && talk.phase.wants_more())
            .map(|(&id, _)| id)
            .collect();
        for id in late {
            self.with_talk(id, |edge, talk| {
                if talk.is_connected {
                    edge.retry(talk, Failure::TimeOut, "the origin does not answer in time")
                } else {
                    edge.retry(talk, Failure::Connect, "no connection in time")
                }
            });
        }
    }
}

/// Whom a target's certificate has to be for: the host that the target sees.
fn certified_name(source: &Source, target: &Target) -> String {
    let rule = source.rule();
    let named = target
        .host
        .as_deref()
        .or(rule.and_then(|it| it.as_host.as_deref()));
    let name = match named {
        Some(host) => without_port(host).to_owned(),
        None => source.request.host_name(),
    };
    // An address has brackets in a URI alone.
    name.trim_matches(['[', ']']).to_owned()
}

/// Headers of a response that belong to one hop. Its length is told apart.
const REMOVED: [&[u8]; 8] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"upgrade",
    b"transfer-encoding",
    b"content-length",
];

fn cleaned(headers: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of_hop: Vec<Vec<u8>> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(|token| token.trim_ascii().to_vec())
        .collect();
    headers
        .into_iter()
        .filter(|(name, value)| {
            // What is not encoded need not say so; what is has to, or nobody could read it.
            let is_identity = name.eq_ignore_ascii_case(b"content-encoding")
                && value.trim_ascii().eq_ignore_ascii_case(b"identity");
            !is_identity
                && !REMOVED.iter().any(|it| name.eq_ignore_ascii_case(it))
                && !of_hop.iter().any(|it| name.eq_ignore_ascii_case(it))
        })
        .collect()
}

fn length_of(headers: &[(Vec<u8>, Vec<u8>)]) -> Option<u64> {
    let (_, value) = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
    let first = value.split(|&byte| byte == b',').next()?;
    fermata_proto::number::parse_decimal(first.trim_ascii())
}

pub(super) fn of_http(event: upstream::Event) -> Option<Said> {
    match event {
        // An interim response is for this hop; what it says comes again.
        upstream::Event::Interim(_) => None,
        upstream::Event::Upgraded(bytes) => Some(Said::Upgraded(bytes)),
        upstream::Event::Head(head) => Some(Said::Head(Head {
            status: head.status,
            reason: head.reason,
            length: length_of(&head.headers),
            headers: cleaned(head.headers),
        })),
        upstream::Event::Body(piece) => Some(Said::Body(piece)),
        upstream::Event::End { is_reusable } => Some(Said::End { is_reusable }),
    }
}

fn of_fastcgi(event: fastcgi::Event) -> Option<Said> {
    match event {
        fastcgi::Event::Stderr(_) => None,
        fastcgi::Event::Head(head) => Some(Said::Head(Head {
            status: head.status,
            reason: head.reason,
            // A program's length is a promise that nobody checks; the body ends with its record.
            length: None,
            headers: cleaned(head.headers),
        })),
        fastcgi::Event::Body(piece) => Some(Said::Body(piece)),
        fastcgi::Event::End { .. } => Some(Said::End { is_reusable: true }),
    }
}

/// Addresses that an origin which is not trusted must not have.
fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            // 0.0.0.0 is this machine, too, and 100.64.0.0/10 is behind a provider's translation.
            let is_shared = first == 100 && (64..128).contains(&second);
            first == 0
                || is_shared
                || v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            // IPv4 in IPv6, mapped, compatible (:: and ::1 among them) or translated (RFC 6052).
            let translated = (segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0]).then(|| {
                Ipv4Addr::from_bits(u32::from(segments[6]) << 16 | u32::from(segments[7]))
            });
            match v6.to_ipv4().or(translated) {
                Some(v4) => is_internal(IpAddr::V4(v4)),
                // 64:ff9b:1::/48 is for translation within a network.
                None => {
                    segments[..3] == [0x64, 0xff9b, 1]
                        || v6.is_unique_local()
                        || v6.is_unicast_link_local()
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_network_are_internal() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("10.1.2.3", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("169.254.169.254", true),
            ("93.184.216.34", false),
            ("::", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:93.184.216.34", false),
            ("64:ff9b::7f00:1", true),
            ("64:ff9b::5db8:d822", false),
            ("64:ff9b:1::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2606:2800::1", false),
        ] {
            let parsed = address.parse().expect("an address");
            assert_eq!(is_internal(parsed), expected, "{address}");
        }
    }
}
