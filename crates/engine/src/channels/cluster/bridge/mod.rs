//! The bridge process: one loop over the cluster log's connection, the outbox and the ring.
//!
//! It may be killed at any moment. Its state is in the ring (the position read in the log) and in
//! the outbox (unacknowledged records).

mod connection;
mod receiving;
mod sending;

use std::collections::HashMap;
use std::sync::Arc;

use fermata_cluster::{Address, Bridge, Event, Options, PastEntry, Place};
use fermata_config::{LogLevel, Settings, mask_secrets};
use fermata_hub::{Consumer, LogPlace, Owner, Record, Ring, Slots};
use fermata_io::sys::epoll::Epoll;
use fermata_io::wake::Waker;
use fermata_io::{Deadline, Driver, clock, random};
use fermata_tls::Stream;

use super::access::Access;
use super::figures::ClusterFigures;
use super::memory::{Cluster, READER_SLOT};
use super::once::EventDeduplicator;
use super::past::{Pages, Ticket};
use super::presence::{Members, Rings};
use super::state::{Answer, BEAT_MS_MAX, State};
use crate::log::{Log, Logger};

/// Size of a small event in the ring, in bytes. A new machine loads as many past messages of the
/// log as its ring may hold, within the bounds below; a million takes some seconds.
const SMALL_EVENT_BYTES: u64 = 128;
const PAST_MESSAGES_MIN: u64 = 10_000;
const PAST_MESSAGES_MAX: u64 = 1_000_000;
/// Time in milliseconds that is added to `publish_wait_ms_max`. A record of the outbox older than
/// the sum is not sent, because its publisher has reported a failure.
const GRACE_MS: u64 = 1_000;
/// Maximum age in milliseconds of a record that is sent, whatever `publish_wait_ms_max` is. The log
/// detects duplicates for two minutes, so a record that is sent again later could be stored twice.
const EVENT_MS_MAX: u64 = 60_000;
/// Pause in milliseconds after which the rest of a partial write is tried again.
const RETRY_MS: u64 = 1;
/// Number of heartbeats within the time after which the process counts as stuck.
const BEATS: u64 = 4;
const READ_BYTES: usize = 256 * 1024;

const TOKEN_OUTBOX: u64 = 0;
const TOKEN_SOCKET: u64 = 1;

/// The state of the process.
pub(crate) struct Process {
    bridge: Bridge,
    access: Access,
    /// The current or last server; `None` before the first connection.
    server: Option<Address>,
    ring: Ring,
    owner: Owner,
    /// Reader of the outbox.
    consumer: Consumer,
    state: State,
    members: Members,
    /// Wakes this process.
    waker: Waker,
    /// Wakers of the workers, by slot.
    wakers: Arc<Vec<Waker>>,
    driver: Epoll,
    stream: Option<Stream>,
    /// Deadline of the TLS handshake; `None` if none is in progress.
    handshake_until: Option<Deadline>,
    logger: Log,
    /// Slots of publishers that wait for a record's result, by position in the outbox.
    publishers: HashMap<u64, u16>,
    record: Record,
    /// Maximum age of a record that is sent, in milliseconds.
    event_ms_max: u64,
    event_bytes_max: usize,
    /// Identifies this server in the cluster.
    node: u64,
    /// Recent event names per channel, if duplicates are dropped.
    once: Option<EventDeduplicator>,
    /// Position of the log's last message when the connection started, and the time at which the
    /// log stored this message.
    log_end: Option<(Place, Option<u64>)>,
    /// True if sleeping workers have to be woken, because the ring has changed in this turn.
    has_published: bool,
    /// True if the socket has not accepted all output.
    has_unsent: bool,
    /// Slots of workers with unread replies.
    answered: Slots,
    pages: Pages,
    /// Requests for past records to which the log has not replied.
    asked_past: Vec<Ticket>,
    /// Number of replies dropped in this turn because a worker's queue was full.
    unheard: u64,
    /// Counters of this turn.
    figures: ClusterFigures,
}

impl Process {
    /// Starts in the forked process. `owner` identifies it to the ring's lock.
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
            zero_unix_ms: driver.unix_ms().saturating_sub(driver.now_ms()),
            age_ms_max: settings.history_age_ms_max,
            bytes_max: settings.cluster_bytes_max,
            replicas: settings.cluster_replicas,
            events_max: settings.cluster_events_max,
            application: cluster.application.clone(),
            past_max: (settings.history_bytes_max as u64 / SMALL_EVENT_BYTES)
                .clamp(PAST_MESSAGES_MIN, PAST_MESSAGES_MAX),
        };
        // A previous bridge may have been killed while it waited.
        cluster.state.set_blocked(None);
        cluster.pages.answer_again();
        let reached = ring.log_reached().map(|place| Place {
            epoch: place.epoch,
            seq: place.seq,
        });
        let reached_ms = ring.log_reached_unix_ms();
        let consumer = cluster.ring.consume(READER_SLOT);
        let rings = Rings {
            table: cluster.members,
            local: ring.twin(),
            outbox: cluster.ring,
        };
        let (lease_ms, monotonic_ms) = (settings.cluster_lease_ms, clock::monotonic_ms());
        let members = Members::new(
            rings,
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
            handshake_until: None,
            logger: Log::new(logger),
            publishers: HashMap::new(),
            record: Record::empty(),
            event_bytes_max: settings.event_bytes_max,
            node: cluster.node,
            event_ms_max: (settings.publish_wait_ms_max + GRACE_MS).min(EVENT_MS_MAX),
            once: cluster
                .once_ms
                .map(|window_ms| EventDeduplicator::new(window_ms, &ring)),
            log_end: None,
            has_published: false,
            has_unsent: false,
            answered: Slots::default(),
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

    /// Runs one turn of the loop: due work, then one wait for events.
    ///
    /// # Errors
    /// The process cannot continue.
    fn turn(
        &mut self,
        events: &mut Vec<fermata_io::Event>,
        buffer: &mut [u8],
    ) -> std::io::Result<()> {
        let now_ms = self.driver.refresh_now();
        self.state.beat(clock::monotonic_ms());
        if self.handshake_until.is_some_and(|it| it.is_due(now_ms)) {
            let cause = "TLS: the server did not reply to the handshake in time; give the port at which it speaks TLS in cluster";
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
        // TLS may hold decrypted bytes that the kernel does not report.
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
        // While the log accepts no more records, unread records of the outbox must not prevent the
        // wait. It ends when an acknowledgement arrives on the socket.
        if self.bridge.can_send() && !self.consumer.set_sleeping() {
            return 0;
        }
        let monotonic_ms = clock::monotonic_ms();
        let due = Deadline::at(self.bridge.due_ms());
        let until = self.handshake_until.unwrap_or(Deadline::NEVER);
        let members = self.members.due(monotonic_ms);
        let left_ms = [
            due.left_ms(now_ms),
            until.left_ms(now_ms),
            members.left_ms(monotonic_ms),
        ];
        let longest_ms = BEAT_MS_MAX / BEATS;
        left_ms.into_iter().flatten().fold(longest_ms, u64::min)
    }

    /// Requests the past records that workers need from the log.
    fn ask_past(&mut self) {
        while self.bridge.can_ask_past()
            && let Some((ticket, request)) = self.pages.next_request(&self.asked_past)
        {
            self.asked_past.push(ticket);
            let now_ms = self.driver.refresh_now();
            self.bridge.ask_past(request, now_ms);
        }
    }

    /// Passes the log's reply to a worker.
    fn answer_past(&mut self, id: u64, entries: &[PastEntry]) {
        let ticket = Ticket::from_u64(id);
        self.asked_past.retain(|it| *it != ticket);
        if let Some(slot) = self.pages.answer(ticket, entries) {
            self.answered.insert(slot.into());
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, clock::unix_ms(), message);
    }

    /// Logs a line about a record, rate-limited: anyone who writes to the cluster log can cause one
    /// per record.
    fn log_limited(&mut self, level: LogLevel, message: &str) {
        self.logger.write_limited(level, clock::unix_ms(), message);
    }

    fn take_events(&mut self) -> std::io::Result<()> {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(server) => self.connect(*server),
                Event::Secure => self.begin_tls(),
                Event::Disconnect => self.disconnect(),
                Event::LogEnd { place, stored_ms } => self.on_log_end(place, stored_ms)?,
                Event::Begin(place) => self.begin(place)?,
                Event::Passed(place) => self.pass(place)?,
                Event::Record(received) => {
                    self.figures.received += 1;
                    self.publish(&received)?;
                    self.pass(received.place)?;
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
                    let answer = match rejected.too_large {
                        Some((bytes, max)) => Answer::TooLarge { bytes, max },
                        None => Answer::Refused,
                    };
                    self.answer(rejected.outbox, answer);
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
                    self.reach_log_end()?;
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
                    // The cause may contain text from a server.
                    let cause = cause.replace(char::is_control, " ");
                    self.state.set_cause(&mask_secrets(&cause));
                    self.state.set_away(clock::monotonic_ms());
                    let message = format!(
                        "the log of the cluster is unreachable: {cause}; publishing waits for it, then fails. Reconnecting"
                    );
                    self.log(LogLevel::Warning, &message);
                }
                Event::Notice(text) => self.log_limited(LogLevel::Warning, &text),
                Event::Intruder(text) => self.log_limited(LogLevel::Error, &text),
            }
        }
        Ok(())
    }

    fn wake_workers(&mut self) {
        let mut waked = std::mem::take(&mut self.answered);
        if std::mem::take(&mut self.has_published) {
            waked.extend(self.ring.wake_list());
        }
        while let Some(slot) = waked.take() {
            if let Some(waker) = self.wakers.get(slot as usize) {
                waker.wake();
            }
        }
        let unheard = std::mem::take(&mut self.unheard);
        if unheard > 0 {
            let message = format!(
                "dropped {unheard} replies of the log of the cluster: their workers read none; the publishers time out"
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

#[cfg(test)]
mod tests;
