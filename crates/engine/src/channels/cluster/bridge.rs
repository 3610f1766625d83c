//! The bridge process: one loop over the connection to the log, the outbox and the ring.
//!
//! It may be killed at any moment: what it knows is in the ring (how far the log was read) and in the outbox (what was not
//! acknowledged).

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use fermata_cluster::{
    Address, Bridge, Content, Event, Kind as LogKind, Options, Outgoing, PastEntry, Place, Received,
};
use fermata_config::{LogLevel, Settings, mask_secrets};
use fermata_hub::{
    Consumer, Kind, LockError, LogPlace, Message, Owner, PublishError, Read, Record, Ring,
    Subscriber,
};
use fermata_io::sys::epoll::Epoll;
use fermata_io::wake::Waker;
use fermata_io::{Driver, clock, random};
use fermata_tls::{Stream, explain};

use super::access::{Access, AccessError, SERVERS};
use super::direct::{self, Direct};
use super::figures::ClusterFigures;
use super::identity::is_of;
use super::memory::{
    Answer, BEAT_MS_MAX, Cluster, MARK_BYTES, MARK_DIRECT, MARK_NOTE, MARK_WORKERS, NOBODY,
    READER_SLOT, State,
};
use super::once::Once;
use super::past::{Pages, Ticket};
use super::presence::{Members, Note};
use crate::channels::publish::{self, check_channel, check_message};
use crate::log::{Log, Logger};

/// What a small event takes in the ring. A new machine begins with as many messages of the log's past as its ring may hold, so
/// that it has what others have, within these bounds; a million takes some seconds.
const SMALL_EVENT_BYTES: u64 = 128;
const PAST_MESSAGES_MIN: u64 = 10_000;
const PAST_MESSAGES_MAX: u64 = 1_000_000;
/// How long a server is given to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2_000);
/// How long a server is given for the handshake of TLS: less than the log is waited for, which could not say what is missing.
const HANDSHAKE_MS_MAX: u64 = 4_000;
/// What a publisher may be late in giving up; an older record of the outbox is not sent any more.
const GRACE_MS: u64 = 1_000;
/// How old a record of the outbox may be in any case: the log knows for two minutes what it has had.
const EVENT_MS_MAX: u64 = 60_000;
/// Before another look at a ring without room, or at a socket that takes nothing.
const RETRY: Duration = Duration::from_micros(500);
const RETRY_MS: u64 = 1;
/// How long the ring may have no room before the log says so.
const BEHIND_NOTICE_MS: u64 = 1_000;
/// How often the process says that it lives within the time after which it counts as stuck.
const BEATS: u64 = 4;
const READ_BYTES: usize = 256 * 1024;
/// Most bytes that are read from a connection which takes none any more: what a server says before it closes.
const LAST_WORDS_BYTES_MAX: usize = 16 * 1024;

const TOKEN_OUTBOX: u64 = 0;
const TOKEN_SOCKET: u64 = 1;

/// Why there is no connection to a server of the log.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("there is no connection")]
    NoConnection,
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The handshake, as a sentence that says what to set.
    #[error("{0}")]
    Tls(String),
}

/// What the process is made of.
pub(crate) struct Process {
    bridge: Bridge,
    access: Access,
    /// The server that is or was connected to; none at first.
    server: Option<Address>,
    ring: Ring,
    owner: Owner,
    consumer: Consumer,
    state: State,
    members: Members,
    waker: Waker,
    wakers: Arc<Vec<Waker>>,
    driver: Epoll,
    stream: Option<Stream>,
    /// Until when the handshake of TLS must be complete, while there is one.
    handshake_until_ms: Option<u64>,
    logger: Log,
    /// Publishers that wait for the outcome of a record.
    publishers: HashMap<u64, u16>,
    record: Record,
    event_ms_max: u64,
    event_bytes_max: usize,
    /// Tells this server from all others.
    node: u64,
    /// What names channels have had, where an event with the same one is left out.
    once: Option<Once>,
    /// This server has not been ready yet: what others have told workers is of a past that its workers have not been in.
    is_new: bool,
    has_published: bool,
    has_unsent: bool,
    /// Workers that have an answer to read, by slot.
    answered: u64,
    pages: Pages,
    /// Requests for the past that the log has to answer.
    asked_past: Vec<Ticket>,
    /// Answers for which workers had no room in this turn.
    unheard: u64,
    /// Of this turn.
    figures: ClusterFigures,
}

impl Process {
    /// Begins in the forked process. `owner` is how it names itself to the ring's lock.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new(
        cluster: Cluster,
        mut ring: Ring,
        owner: Owner,
        wakers: Arc<Vec<Waker>>,
        settings: &Settings,
        logger: Logger,
    ) -> std::io::Result<Process> {
        let mut driver = Epoll::new()?;
        driver.add_wake(cluster.waker.fd(), TOKEN_OUTBOX)?;
        let options = Options {
            servers: cluster.servers,
            prefix: settings.cluster_prefix.clone(),
            inbox: format!("_INBOX.{:016x}", random::u64()),
            outbox: cluster.name.clone(),
            age_ms_max: settings.history_age_ms_max,
            bytes_max: settings.cluster_bytes_max,
            replicas: settings.cluster_replicas,
            events_max: settings.cluster_events_max,
            past_max: (settings.history_bytes_max as u64 / SMALL_EVENT_BYTES)
                .clamp(PAST_MESSAGES_MIN, PAST_MESSAGES_MAX),
        };
        cluster.pages.answer_again();
        let reached = ring.log_reached().map(|place| Place {
            epoch: place.epoch,
            seq: place.seq,
        });
        let reached_ms = ring.log_reached_unix_ms();
        let consumer = cluster.ring.consume(READER_SLOT);
        let tables = (cluster.members, ring.twin(), cluster.ring);
        let (lease_ms, monotonic_ms) = (settings.cluster_lease_ms, clock::monotonic_ms());
        let members = Members::new(
            tables,
            cluster.state,
            owner,
            cluster.node,
            lease_ms,
            monotonic_ms,
        );
        Ok(Process {
            bridge: Bridge::new(options, reached, reached_ms, driver.now_ms()),
            access: Access::new(settings),
            server: None,
            consumer,
            state: cluster.state,
            members,
            waker: cluster.waker,
            owner,
            wakers,
            driver,
            stream: None,
            handshake_until_ms: None,
            logger: Log::new(logger),
            publishers: HashMap::new(),
            record: Record::empty(),
            event_bytes_max: settings.event_bytes_max,
            node: cluster.node,
            event_ms_max: (settings.publish_wait_ms_max + GRACE_MS).min(EVENT_MS_MAX),
            once: cluster.once_ms.map(|window_ms| Once::new(window_ms, &ring)),
            is_new: reached.is_none(),
            has_published: false,
            has_unsent: false,
            answered: 0,
            pages: cluster.pages,
            ring,
            asked_past: Vec::new(),
            unheard: 0,
            figures: ClusterFigures::default(),
        })
    }

    /// Runs until it fails or is killed.
    pub fn run(mut self) -> std::io::Error {
        let mut events = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Err(error) = self.turn(&mut events, &mut buffer) {
                return error;
            }
        }
    }

    /// # Errors
    /// The process is of no use any more.
    fn turn(
        &mut self,
        events: &mut Vec<fermata_io::Event>,
        buffer: &mut [u8],
    ) -> std::io::Result<()> {
        let now_ms = self.driver.refresh_now();
        self.state.beat(clock::monotonic_ms());
        if self
            .handshake_until_ms
            .is_some_and(|until_ms| until_ms <= now_ms)
        {
            let cause = "TLS: the server has not answered the handshake in time; give the port at which it speaks TLS in cluster";
            self.lose(cause, now_ms)?;
        }
        if self.bridge.due_ms() <= now_ms {
            self.bridge.handle_time(now_ms);
        }
        self.take_events()?;
        self.members.turn(clock::monotonic_ms());
        self.send_outbox();
        self.ask_past();
        self.take_events()?;
        self.write()?;
        self.wake_workers();
        self.state.count(std::mem::take(&mut self.figures));
        let timeout_ms = self.timeout_ms();
        events.clear();
        self.driver.wait(events, Some(timeout_ms))?;
        for event in events.iter() {
            match event.token {
                TOKEN_OUTBOX => self.waker.drain(),
                _ => self.read(buffer)?,
            }
        }
        // Of TLS, which the kernel does not know.
        if self.stream.as_ref().is_some_and(Stream::has_more) {
            self.read(buffer)?;
        }
        Ok(())
    }

    fn timeout_ms(&mut self) -> u64 {
        let now_ms = self.driver.refresh_now();
        if self.stream.as_ref().is_some_and(Stream::has_more) {
            return 0;
        }
        if self.has_unsent {
            return RETRY_MS;
        }
        // Without room the outbox waits for acknowledgements, which come over the socket.
        if self.bridge.can_send() && !self.consumer.set_sleeping() {
            return 0;
        }
        let due_ms = self.bridge.due_ms();
        let due_ms = due_ms.min(self.handshake_until_ms.unwrap_or(u64::MAX));
        let due_ms = due_ms.saturating_sub(now_ms);
        let monotonic_ms = clock::monotonic_ms();
        let members_ms = self.members.due_ms(monotonic_ms);
        due_ms
            .min(members_ms.saturating_sub(monotonic_ms))
            .min(BEAT_MS_MAX / BEATS)
    }

    /// Asks the log for what workers need of the past.
    fn ask_past(&mut self) {
        while self.bridge.can_ask_past()
            && let Some((ticket, request)) = self.pages.next_request(&self.asked_past)
        {
            self.asked_past.push(ticket);
            let now_ms = self.driver.refresh_now();
            self.bridge.ask_past(request, now_ms);
        }
    }

    /// Gives a worker what the log has answered.
    fn answer_past(&mut self, id: u64, entries: &[PastEntry]) {
        let ticket = Ticket::from_u64(id);
        self.asked_past.retain(|it| *it != ticket);
        if let Some(slot) = self.pages.answer(ticket, entries) {
            self.answered |= 1 << slot;
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, clock::unix_ms(), message);
    }

    /// The same for a line about a record: whoever writes to the log of the cluster causes as many as records.
    fn log_limited(&mut self, level: LogLevel, message: &str) {
        self.logger.write_limited(level, clock::unix_ms(), message);
    }

    fn take_events(&mut self) -> std::io::Result<()> {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(server) => self.connect(*server),
                Event::Secure => {
                    if let Err(cause) = self.secure() {
                        let now_ms = self.driver.refresh_now();
                        self.disconnect();
                        self.bridge.handle_closed(&cause.to_string(), now_ms);
                    }
                }
                Event::Disconnect => self.disconnect(),
                Event::Begin(place) => self.begin(place)?,
                Event::Record(received) => {
                    self.figures.received += 1;
                    self.publish(&received)?;
                }
                Event::Accepted { outbox, place } => {
                    self.figures.published += 1;
                    let place = log_place(place);
                    self.answer(outbox, Answer::Accepted(place));
                }
                Event::Rejected(rejected) => {
                    self.figures.rejected += 1;
                    let message = format!("an event was not published: {}", rejected.cause);
                    self.log_limited(LogLevel::Error, &message);
                    self.answer(rejected.outbox, Answer::Refused);
                }
                Event::Released(outbox) => self.consumer.release(outbox),
                Event::Rewind => {
                    self.publishers.clear();
                    self.consumer.rewind();
                }
                Event::Past { id, entries } => self.answer_past(id, &entries),
                Event::PastLost(id) => {
                    let ticket = Ticket::from_u64(id);
                    self.asked_past.retain(|it| *it != ticket);
                }
                Event::Ready => {
                    self.is_new = false;
                    self.state.set_ready();
                    self.members.on_ready(clock::monotonic_ms());
                    let server = self.server.as_ref().map(Address::to_string);
                    let message = format!(
                        "connected to the log of the cluster at {}",
                        server.unwrap_or_default()
                    );
                    self.log(LogLevel::Info, &message);
                }
                Event::Away(cause) => {
                    self.figures.disconnects += u64::from(self.state.says_ready());
                    // Some of it may be a server's words.
                    let cause = cause.replace(char::is_control, " ");
                    self.state.set_cause(&mask_secrets(&cause));
                    self.state.set_away(clock::monotonic_ms());
                    let message = format!(
                        "the log of the cluster is not there: {cause}; publishing waits for it, then fails. It is tried again"
                    );
                    self.log(LogLevel::Warning, &message);
                }
                Event::Notice(text) => self.log_limited(LogLevel::Warning, &text),
            }
        }
        Ok(())
    }

    fn connect(&mut self, server: Address) {
        let opened = self.open(&server);
        self.server = Some(server);
        let opened = opened.and_then(|is_secured| match is_secured {
            true => self.secure(),
            false => Ok(()),
        });
        let now_ms = self.driver.refresh_now();
        match opened {
            Ok(()) if self.handshake_until_ms.is_none() => self.bridge.handle_connected(now_ms),
            Ok(()) => {}
            Err(cause) => {
                self.disconnect();
                self.bridge.handle_closed(&cause.to_string(), now_ms);
            }
        }
    }

    /// Opens a connection. Whether TLS comes first there.
    fn open(&mut self, server: &Address) -> Result<bool, ConnectError> {
        self.bridge.set_login(self.access.login()?);
        let stream = open(server).and_then(|socket| {
            let stream = Stream::new(socket)?;
            self.driver.add_wake(stream.fd(), TOKEN_SOCKET)?;
            Ok(stream)
        });
        self.stream = Some(stream?);
        Ok(server.is_tls && server.kind == LogKind::Redis)
    }

    /// Begins the handshake of TLS.
    fn secure(&mut self) -> Result<(), ConnectError> {
        let (Some(stream), Some(server)) = (&mut self.stream, &self.server) else {
            return Err(ConnectError::NoConnection);
        };
        let config = self.access.tls()?;
        stream
            .secure(config, &server.host)
            .map_err(|error| ConnectError::Tls(error.to_string()))?;
        self.handshake_until_ms = Some(self.driver.refresh_now() + HANDSHAKE_MS_MAX);
        // What comes first needs no event.
        let shaken = stream.shake_hands().map(|_| ());
        shaken.map_err(|error| ConnectError::Tls(self.trouble(&error)))
    }

    /// Goes on with the handshake.
    fn shake_hands(&mut self) -> std::io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let outcome = stream.shake_hands();
        let now_ms = self.driver.refresh_now();
        match outcome {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.handshake_until_ms = None;
                // NATS is connected to for some time by now.
                match self.server.as_ref().map(|it| it.kind) {
                    Some(LogKind::Nats) => self.bridge.handle_secured(now_ms),
                    _ => self.bridge.handle_connected(now_ms),
                }
                self.take_events()
            }
            Err(error) => {
                let cause = self.trouble(&error);
                self.lose(&cause, now_ms)
            }
        }
    }

    /// What an error of the connection means.
    fn trouble(&self, error: &std::io::Error) -> String {
        match &self.server {
            Some(server) if server.is_tls => {
                let cause = explain(error, &self.access.options, SERVERS, &server.host);
                format!("TLS: {cause}")
            }
            _ => error.to_string(),
        }
    }

    fn disconnect(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = self.driver.remove(stream.fd());
        }
        self.handshake_until_ms = None;
        self.has_unsent = false;
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        if self.handshake_until_ms.is_some() {
            self.shake_hands()?;
        }
        // What follows the handshake may be there already.
        let Some(stream) = self
            .stream
            .as_mut()
            .filter(|_| self.handshake_until_ms.is_none())
        else {
            return Ok(());
        };
        let outcome = stream.read(buffer);
        let now_ms = self.driver.refresh_now();
        match outcome {
            Ok(0) => self.lose("the server has closed the connection", now_ms),
            Ok(len) => {
                if let Some(bytes) = buffer.get(..len) {
                    self.bridge.handle_input(bytes, now_ms);
                }
                self.take_events()
            }
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => {
                let cause = self.trouble(&error);
                self.lose(&cause, now_ms)
            }
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        self.has_unsent = false;
        loop {
            let (Some(stream), out) = (&mut self.stream, self.bridge.transmit()) else {
                return Ok(());
            };
            let outcome = match out.is_empty() {
                true if stream.has_unsent() => stream.flush().map(|()| 0),
                true => return Ok(()),
                false => stream.write(out),
            };
            match outcome {
                Ok(len) => {
                    out.drain(..len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => {
                    self.has_unsent = true;
                    return Ok(());
                }
                Err(error) => {
                    // The server may have said why before it closed: an alert of TLS, or an error.
                    let mut last = vec![0; LAST_WORDS_BYTES_MAX];
                    let told = stream.read(&mut last);
                    let now_ms = self.driver.refresh_now();
                    if let Ok(len) = told {
                        self.bridge.handle_input(&last[..len], now_ms);
                        self.take_events()?;
                    }
                    let cause = match told {
                        Err(told) if !is_transient(&told) => self.trouble(&told),
                        _ => self.trouble(&error),
                    };
                    return self.lose(&cause, now_ms);
                }
            }
        }
    }

    fn lose(&mut self, cause: &str, now_ms: u64) -> std::io::Result<()> {
        self.disconnect();
        self.bridge.handle_closed(cause, now_ms);
        self.take_events()
    }

    /// Hands the log what workers have published.
    fn send_outbox(&mut self) {
        let (now_ms, unix_ms) = (self.driver.refresh_now(), clock::unix_ms());
        let mut old = 0;
        while self.bridge.can_send() {
            match self.consumer.read_next(&mut self.record) {
                Read::Record => {}
                Read::Skipped => continue,
                Read::Empty => break,
                Read::Lost => {
                    self.log(LogLevel::Error, "events were lost in the outbox");
                    continue;
                }
            }
            let record = &self.record;
            let outbox = record.seq;
            let Some((mark, name)) = record
                .name()
                .and_then(|name| name.split_at_checked(MARK_BYTES))
            else {
                self.bridge.discard(outbox, now_ms);
                continue;
            };
            if mark[2] == MARK_NOTE {
                let (channel, data) = (record.channel(), record.data());
                match self.members.fact_of(&Note { channel, data }) {
                    Some(data) => {
                        let outgoing = Outgoing {
                            outbox,
                            content: Content::Presence,
                            channel,
                            name: None,
                            data,
                            except: record.subscriber().map(|it| (it.worker, it.key)),
                        };
                        self.bridge.send(&outgoing, now_ms);
                    }
                    None => self.bridge.discard(outbox, now_ms),
                }
                continue;
            }
            let slot = u16::from_le_bytes([mark[0], mark[1]]);
            // Its publisher has given up, and has perhaps tried again. The log may have it from a connection before.
            if unix_ms.saturating_sub(record.unix_ms) > self.event_ms_max {
                old += 1;
                self.publishers.insert(outbox, slot);
                self.bridge.discard(outbox, now_ms);
                self.answer(outbox, Answer::Unknown);
                continue;
            }
            if slot != NOBODY {
                self.publishers.insert(outbox, slot);
            }
            let (content, name) = match mark[2] {
                MARK_DIRECT => (Content::Direct, None),
                MARK_WORKERS => (Content::Workers, None),
                has_name => (Content::Event, (has_name != 0).then_some(name)),
            };
            let outgoing = Outgoing {
                outbox,
                content,
                channel: record.channel(),
                name,
                data: record.data(),
                except: record.subscriber().map(|it| (it.worker, it.key)),
            };
            self.bridge.send(&outgoing, now_ms);
        }
        if old > 0 {
            let message = format!(
                "{old} events were too old to be sent to the log of the cluster; those that were sent before may be in it"
            );
            self.log(LogLevel::Warning, &message);
        }
    }

    fn answer(&mut self, outbox: u64, answer: Answer) {
        // It has ended meanwhile, or wants no answer.
        let Some(slot) = self.publishers.remove(&outbox).filter(|it| *it != NOBODY) else {
            return;
        };
        match self.state.answer(slot, outbox, answer) {
            true => self.answered |= 1 << slot,
            // The publisher gives up in its time, and says that the event may have been published.
            false => self.unheard += 1,
        }
    }

    /// What follows is from another log, or something before it is missing.
    ///
    /// # Errors
    /// The ring is damaged.
    fn begin(&mut self, place: Place) -> std::io::Result<()> {
        // A server that begins misses nothing.
        self.figures.gaps += u64::from(self.ring.log_reached().is_some());
        // In this order: a bridge that goes on after a death in between does both.
        self.try_again(|process| process.members.begin())?;
        self.leave_out(place)
    }

    /// Messages up to a place cannot be had for clients of this machine. Presence is not concerned.
    fn leave_out(&mut self, place: Place) -> std::io::Result<()> {
        let place = log_place(place);
        self.try_again(|process| process.ring.begin_log(&process.owner, place))?;
        self.has_published = true;
        Ok(())
    }

    fn try_again(
        &mut self,
        mut attempt: impl FnMut(&mut Process) -> Result<(), LockError>,
    ) -> std::io::Result<()> {
        while let Err(error) = attempt(self) {
            if error == LockError::Corrupt {
                return Err(std::io::Error::other(error));
            }
            self.log(LogLevel::Error, &format!("the ring: {error}; tried again"));
            self.state.beat(clock::monotonic_ms());
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// Brings a record of the log to this machine's clients.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish(&mut self, received: &Received) -> std::io::Result<()> {
        match received.content {
            Content::Event => {}
            Content::Presence => return self.publish_presence(received),
            Content::Direct => return self.publish_direct(received),
            Content::Workers => return self.publish_to_workers(received),
        }
        let message = publish::Message {
            name: received.name.as_deref(),
            data: &received.data,
        };
        let checked = check_channel(&received.channel).and_then(|()| check_message(&message));
        if let Err(cause) = checked {
            let message =
                format!("something else than an event is in the log, and left out: {cause}");
            self.log_limited(LogLevel::Warning, &message);
            return Ok(());
        }
        if let (Some(once), Some(name)) = (&mut self.once, message.name)
            && !once.is_first(&received.channel, name, received.unix_ms)
        {
            return Ok(());
        }
        let record = Message {
            channel: &received.channel,
            kind: Kind::Message,
            name: message.name,
            data: message.data,
        };
        self.append(received, &record)
    }

    /// Takes what servers tell each other of who is present, and tells clients who comes and who goes.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_presence(&mut self, received: &Received) -> std::io::Result<()> {
        let Received {
            place,
            channel,
            data,
            ..
        } = received;
        let now_ms = clock::monotonic_ms();
        let event = match check_channel(channel) {
            Ok(()) => self.members.take(*place, channel, data, now_ms),
            Err(cause) => Err(cause.into()),
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(()),
            Err(cause) => {
                self.members.set_applied(*place);
                self.log_limited(LogLevel::Warning, &cause.to_string());
                return Ok(());
            }
        };
        let record = Message {
            channel,
            kind: event.kind,
            name: None,
            data: &event.data,
        };
        self.append(received, &record)?;
        self.members.set_applied(*place);
        Ok(())
    }

    /// Brings a message for one socket to the worker that has it. Of those for other machines nothing is kept.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_direct(&mut self, received: &Received) -> std::io::Result<()> {
        let about = received.except.filter(|it| it.1 != Subscriber::WORKER.key);
        let (Some((worker, _)), Some(direct)) = (about, Direct::read(&received.data)) else {
            let message = "something else than a message for a socket is in the log, and left out";
            self.log_limited(LogLevel::Warning, message);
            return Ok(());
        };
        if !is_of(worker, self.node) {
            return Ok(());
        }
        if !self.fits("a socket", direct.data.len()) {
            return Ok(());
        }
        let channel = direct::channel_of(&direct);
        self.append(received, &direct::record(&channel, &direct))
    }

    /// Brings a message for the workers of all servers but its sender's to ours.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_to_workers(&mut self, received: &Received) -> std::io::Result<()> {
        let Some((sender, _)) = received.except else {
            let message = "something else than a message for workers is in the log, and left out";
            self.log_limited(LogLevel::Warning, message);
            return Ok(());
        };
        let is_for_us = !self.is_new && !is_of(sender, self.node);
        if !is_for_us || !self.fits("workers", received.data.len()) {
            return Ok(());
        }
        let record = direct::workers_record(&received.data);
        self.append_about(received, &record, Some(Subscriber::WORKER))
    }

    /// Whether a message is none too large for this server's ring.
    fn fits(&mut self, whom: &str, bytes: usize) -> bool {
        let max = self.event_bytes_max;
        if bytes > max {
            let message = format!(
                "a message of {bytes} bytes for {whom} is left out: event_bytes_max is {max} here, another machine allows more"
            );
            self.log_limited(LogLevel::Error, &message);
        }
        bytes <= max
    }

    /// # Errors
    /// The ring is damaged.
    fn append(&mut self, received: &Received, record: &Message<'_>) -> std::io::Result<()> {
        let about = received
            .except
            .map(|(worker, key)| Subscriber { worker, key });
        self.append_about(received, record, about)
    }

    /// # Errors
    /// The ring is damaged.
    fn append_about(
        &mut self,
        received: &Received,
        record: &Message<'_>,
        about: Option<Subscriber>,
    ) -> std::io::Result<()> {
        let place = log_place(received.place);
        let began_ms = self.driver.refresh_now();
        let mut is_noticed = false;
        loop {
            match self
                .ring
                .publish_logged(&self.owner, record, about, place, received.unix_ms)
            {
                Ok(_) => {
                    self.has_published = true;
                    return Ok(());
                }
                Err(PublishError::Lock(error @ LockError::Corrupt)) => {
                    return Err(std::io::Error::other(error));
                }
                Err(error @ (PublishError::TooLarge { .. } | PublishError::ChannelName { .. })) => {
                    let message = format!(
                        "{error} (event_bytes_max), another machine allows more; clients are told that messages may be missing"
                    );
                    self.log_limited(LogLevel::Error, &message);
                    return self.leave_out(received.place);
                }
                // A worker is a whole ring behind. It reads on, or its master ends it.
                Err(error) => {
                    self.has_published = true;
                    self.wake_workers();
                    self.state.beat(clock::monotonic_ms());
                    let waited_ms = self.driver.refresh_now() - began_ms;
                    if waited_ms >= BEHIND_NOTICE_MS && !std::mem::replace(&mut is_noticed, true) {
                        self.log(
                            LogLevel::Warning,
                            &format!("the log of the cluster waits: {error}"),
                        );
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn wake_workers(&mut self) {
        let mut waked = std::mem::take(&mut self.answered);
        if std::mem::take(&mut self.has_published) {
            waked |= self.ring.wake_list();
        }
        while waked != 0 {
            let slot = waked.trailing_zeros();
            waked &= waked - 1;
            if let Some(waker) = self.wakers.get(slot as usize) {
                waker.wake();
            }
        }
        let unheard = std::mem::take(&mut self.unheard);
        if unheard > 0 {
            let message = format!(
                "{unheard} answers of the log of the cluster found no room with workers that read none; their publishers give up"
            );
            self.log(LogLevel::Warning, &message);
        }
    }
}

fn log_place(place: Place) -> LogPlace {
    LogPlace {
        epoch: place.epoch,
        seq: place.seq,
    }
}

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn open(server: &Address) -> std::io::Result<TcpStream> {
    let mut last = ErrorKind::NotFound.into();
    for address in (server.host.as_str(), server.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use fermata_config::LogFormat;
    use fermata_hub::{Config, Layout};

    use super::*;
    use crate::channels::memory;

    /// A process whose ring has these words.
    fn process(words: &'static [AtomicU64], config: &Config) -> Process {
        let settings = Settings {
            cluster: Some("nats://127.0.0.1:1".to_owned()),
            ..Settings::default()
        };
        let owner = memory::owner(0);
        let ring = Ring::create(words, config, 7, 11).expect("memory of the right size");
        let cluster = Cluster::open(&settings, 2, owner, None)
            .expect("there is memory")
            .expect("a cluster is set");
        let logger = Logger::new(LogFormat::Text, LogLevel::Warning, "test");
        let wakers = Arc::new(Vec::new());
        Process::new(cluster, ring, owner, wakers, &settings, logger)
            .expect("there are descriptors")
    }

    fn words(config: &Config) -> &'static [AtomicU64] {
        let len = Layout::new(config).expect("sizes that fit").words();
        let words: Vec<AtomicU64> = (0..len).map(|_| AtomicU64::new(0)).collect();
        words.leak()
    }

    const CONFIG: Config = Config {
        ring_bytes: 1 << 16,
        index_buckets: 16,
        record_bytes_max: 1024,
        workers_max: 2,
        history_count_max: 10,
        history_age_ms_max: 1000,
        members_max: 2,
        leave_delay_ms: 0,
    };

    #[test]
    fn records_that_are_none_do_not_fill_the_log_of_the_server() {
        let mut process = process(words(&CONFIG), &CONFIG);
        for seq in 1..500 {
            let received = Received {
                place: Place { epoch: 7, seq },
                content: Content::Presence,
                channel: b"c".to_vec(),
                name: None,
                data: b"no fact".to_vec(),
                except: None,
                unix_ms: 1,
            };
            process.publish(&received).expect("the ring is whole");
        }
        assert!(process.logger.left_out() > 0);
    }

    /// All other servers were asked for their members again, and until they had answered this one was not ready and knew none:
    /// with each such event.
    #[test]
    fn an_event_that_is_too_large_here_is_left_out_and_members_stay_known() {
        let mut process = process(words(&CONFIG), &CONFIG);
        let place = |seq| Place { epoch: 7, seq };
        process.begin(place(1)).expect("the ring is whole");
        assert!(!process.state.is_presence_known());
        process.state.set_presence_known();
        let received = Received {
            place: place(2),
            content: Content::Event,
            channel: b"c".to_vec(),
            name: None,
            data: vec![b'x'; 2 * CONFIG.record_bytes_max],
            except: None,
            unix_ms: 1,
        };
        process.publish(&received).expect("the ring is whole");
        assert!(process.state.is_presence_known());
        assert_eq!(process.ring.log_reached(), Some(log_place(place(2))));
    }

    #[test]
    fn a_damaged_ring_ends_the_process_instead_of_being_waited_for() {
        let words = words(&CONFIG);
        let mut process = process(words, &CONFIG);
        let place = Place { epoch: 7, seq: 1 };
        process.begin(place).expect("the ring is whole");
        // A lock of a process that is gone, and bounds that contradict each other.
        for (at, word) in words.iter().enumerate() {
            word.store((at as u64 + 1) << 40 | 0x3fff_ffff, Ordering::Relaxed);
        }
        let received = Received {
            place: Place { epoch: 7, seq: 2 },
            content: Content::Event,
            channel: b"c".to_vec(),
            name: None,
            data: b"1".to_vec(),
            except: None,
            unix_ms: 1,
        };
        let error = process.publish(&received).expect_err("it is damaged");
        assert!(error.to_string().contains("damaged"), "{error}");
        let error = process.begin(place).expect_err("it is damaged");
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}
