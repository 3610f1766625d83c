//! The thread that sends a webhook. It sends events in order and in batches, and repeats a batch until it is acknowledged.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_engine::{Followed, Follower, Logger, Published, What, is_info_change};
use fermata_io::clock;
use fermata_origin::HttpPoster;
use fermata_origin::address::Url;
use fermata_pusher::App;
use fermata_pusher::frame::RingName;
use fermata_pusher::webhook::{Occupancy, Webhook, WebhookEvent, message};

use super::inbox::{Inbox, Role};
use super::journal::OccupancyState;
use super::kept::Kept;
use crate::names;

/// Maximum number of events in one post.
const BATCH_EVENTS_MAX: usize = 50;
/// Maximum size of the client events in one post, in bytes.
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Time for which an event waits for further events.
const BATCH_WAIT: Duration = Duration::from_millis(50);
/// Maximum number of queued bytes of client events.
const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Pause after the first failed post.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Maximum pause after a failed post.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum time between two checks of the sources, if the worker sends no wake-up.
const LOOK: Duration = Duration::from_secs(60);
/// Minimum interval between log messages about a failing backend.
const LOG_AGAIN: Duration = Duration::from_secs(60);
/// Maximum number of channels in `seen`: they became occupied while another server sends, and it has not reported them yet.
const SEEN_MAX: usize = 100_000;
/// Time in milliseconds after which a vacated channel is dropped from `seen`: longer than a server may be silent.
const SEEN_MS: u64 = 60_000;
/// Maximum number of ring records read before a post.
const READ_MAX: usize = 4096;
/// Radix of numbers in event ids.
const ID_RADIX: u32 = 36;

pub(super) struct Sender {
    app: App,
    webhook: Webhook,
    poster: HttpPoster,
    /// Reader of events on the ring; `None` = the webhook does not request them.
    follower: Option<Follower>,
    /// Position up to which the ring was read.
    read_place: u64,
    /// Prefix of the application's channels on the ring.
    prefix: String,
    occupancy: Occupancy,
    role: Role,
    /// Channels that the sending server may have reported as occupied, with the expiry of each entry.
    seen: HashMap<String, Option<u64>>,
    /// Last event that another server's sender has delivered.
    acknowledged: Option<Position>,
    kept: Kept,
    inbox: Arc<Inbox>,
    queue: VecDeque<Queued>,
    queue_bytes: usize,
    began: Instant,
    failing: Option<Failing>,
    given_up: u64,
    logger: Logger,
}

struct Queued {
    webhook_event: WebhookEvent,
    /// Position of the event on the ring; 0 = the event is not from the ring.
    place: u64,
    /// Id of the event, equal on all servers of a cluster.
    id: Option<String>,
    since: Instant,
}

/// Position of an event in the log of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    epoch: u64,
    seq: u64,
}

impl Position {
    fn read(id: &str) -> Option<Position> {
        let (epoch, seq) = id.split_once('-')?;
        Some(Position {
            epoch: u64::from_str_radix(epoch, ID_RADIX).ok()?,
            seq: u64::from_str_radix(seq, ID_RADIX).ok()?,
        })
    }

    /// Returns true if the event with this id is at or before this position.
    fn covers(self, id: &str) -> bool {
        let it = Position::read(id);
        it.is_some_and(|it| it.epoch == self.epoch && it.seq <= self.seq)
    }
}

/// State of a sender whose last post has failed.
struct Failing {
    pause: Duration,
    until: Instant,
    logged_at: Instant,
}

enum Step {
    Send,
    Wait(Duration),
    End,
}

impl Sender {
    pub fn new(
        app: App,
        webhook: Webhook,
        url: Url,
        follower: Option<Follower>,
        kept: Kept,
        inbox: Arc<Inbox>,
        logger: Logger,
    ) -> Sender {
        let timeout = Duration::from_millis(webhook.timeout_ms);
        Sender {
            prefix: names::prefix(&app),
            poster: HttpPoster::new(url, timeout),
            follower,
            read_place: 0,
            occupancy: Occupancy::restore(kept.journal.occupied(), 0),
            role: inbox.role(),
            seen: HashMap::new(),
            acknowledged: None,
            kept,
            inbox,
            queue: VecDeque::new(),
            queue_bytes: 0,
            began: Instant::now(),
            failing: None,
            given_up: 0,
            logger,
            app,
            webhook,
        }
    }

    pub fn run(mut self) {
        while !self.kept.is_replaced() {
            // Read this first. If it is true, `take_in` receives everything that the worker has passed before it stopped.
            let is_over = self.inbox.is_over();
            self.take_in();
            match self.next_step(is_over) {
                Step::Send => self.send(),
                Step::Wait(duration) => thread::park_timeout(duration),
                Step::End => break,
            }
        }
    }

    fn next_step(&self, is_over: bool) -> Step {
        if self.role == Role::Waits {
            return if is_over { Step::End } else { Step::Wait(LOOK) };
        }
        let Some(first) = self.queue.front() else {
            let due_ms = self.occupancy.due_ms();
            let wait = due_ms.map(|ms| Duration::from_millis(ms.saturating_sub(self.now_ms())));
            return if is_over {
                Step::End
            } else {
                Step::Wait(wait.unwrap_or(LOOK).min(LOOK))
            };
        };
        let now = Instant::now();
        if let Some(failing) = &self.failing
            && now < failing.until
        {
            // Do not delay the exit of the worker. The next worker sends the events.
            return if is_over {
                Step::End
            } else {
                Step::Wait(failing.until - now)
            };
        }
        let waited = now.saturating_duration_since(first.since);
        if is_over || waited >= BATCH_WAIT || self.queue.len() >= BATCH_EVENTS_MAX {
            return Step::Send;
        }
        // Further events may follow, which are then sent in the same post.
        Step::Wait(BATCH_WAIT - waited)
    }

    /// Reads new events as far as there is room. Other events remain in their source.
    fn take_in(&mut self) {
        self.take_role();
        self.read_ring();
        if self.role == Role::Waits {
            self.read_along();
            if self.queue.is_empty() {
                self.kept.settle(self.read_place);
            }
            return;
        }
        let now_ms = self.now_ms();
        let waiting = self.inbox.take(self.room());
        for (channel, count) in waiting.counts {
            if let Some(webhook_event) = self.occupancy.set(&channel, count, now_ms) {
                self.push(webhook_event, 0);
            }
        }
        for webhook_event in self.occupancy.vacated(now_ms, self.room()) {
            self.push(webhook_event, 0);
        }
        for channel in waiting.misses {
            self.push(WebhookEvent::CacheMiss(channel), 0);
        }
        for (channel, count) in waiting.subscription_counts {
            self.push(WebhookEvent::SubscriptionCount(channel, count), 0);
        }
        if waiting.dropped > 0 {
            self.give_up(waiting.dropped, "the queue was full");
        }
        // Without unsent events, a replacement of this worker can start at the position that was read last.
        if self.queue.is_empty() {
            self.kept.settle(self.read_place);
        }
    }

    /// Applies a change of the role.
    fn take_role(&mut self) {
        let role = self.inbox.role();
        if role == self.role {
            if role == Role::Sends && self.inbox.take_asked() {
                for (channel, _) in self.kept.journal.occupied() {
                    self.inbox.report_occupancy(&channel, true);
                }
            }
            return;
        }
        self.role = role;
        match role {
            Role::Waits => {
                // The sending server itself detects these events.
                self.queue.retain(|queued| queued.place != 0);
                self.queue_bytes = { self.queue.iter() }
                    .map(|it| bytes_of(&it.webhook_event))
                    .sum();
                self.failing = None;
                self.log(LogLevel::Info, "is sent by another server of the cluster");
            }
            Role::Alone | Role::Sends => {
                // Apply the reports that are still in the inbox: the previous server has sent these events.
                self.learn();
                for (channel, _) in std::mem::take(&mut self.seen) {
                    self.note(&channel, OccupancyState::Doubtful);
                }
                let now_ms = self.now_ms();
                self.occupancy = Occupancy::restore(self.kept.journal.occupied(), now_ms);
                self.log(LogLevel::Info, "is sent by this server of the cluster");
            }
        }
    }

    /// Updates the state that this server needs for a takeover.
    fn read_along(&mut self) {
        self.learn();
        self.see();
    }

    /// Applies deliveries that the sending server has reported.
    fn learn(&mut self) {
        let deliveries = self.inbox.deliveries();
        for (channel, is_occupied) in deliveries.occupancies {
            self.seen.remove(&channel);
            self.note(
                &channel,
                if is_occupied {
                    OccupancyState::Occupied
                } else {
                    OccupancyState::Vacant
                },
            );
        }
        if let Some(acknowledged) = deliveries.acknowledged.as_deref().and_then(Position::read) {
            self.acknowledged = Some(acknowledged);
            let is_acknowledged = |queued: &&Queued| {
                queued
                    .id
                    .as_deref()
                    .is_some_and(|it| acknowledged.covers(it))
            };
            let count = self.queue.iter().take_while(is_acknowledged).count();
            self.settle(count);
        }
    }

    /// Records channels that the sending server may have announced. The next sender receives their counts again.
    fn see(&mut self) {
        let now_ms = self.now_ms();
        for (channel, count) in self.inbox.take(usize::MAX).counts {
            let is_known = self.kept.journal.occupancy(&channel) != OccupancyState::Vacant;
            let until_ms = (count == 0).then_some(now_ms + SEEN_MS);
            let has_room = self.seen.len() < SEEN_MAX;
            match self.seen.get_mut(&channel) {
                Some(seen) => *seen = until_ms,
                None if count > 0 && !is_known && has_room => {
                    self.seen.insert(channel, None);
                }
                None => {}
            }
        }
        self.seen
            .retain(|_, until_ms| until_ms.is_none_or(|until_ms| now_ms < until_ms));
    }

    fn read_ring(&mut self) {
        for _ in 0..READ_MAX {
            // The records stay in the ring until there is room, or until they are overwritten.
            if self.room() == 0 {
                return;
            }
            let Some(follower) = &mut self.follower else {
                return;
            };
            let (webhook_event, place, id) = match follower.next_event() {
                Followed::Event(event) => {
                    let webhook_event = read(&self.prefix, &event);
                    let id =
                        (self.role != Role::Alone && webhook_event.is_some()).then_some(event.id);
                    (webhook_event, event.place, id)
                }
                Followed::Lost => {
                    self.log_error("lost events of members and clients: the ring overwrote them before they were sent");
                    continue;
                }
                Followed::Nothing => return,
            };
            self.read_place = place;
            let is_acknowledged = self
                .acknowledged
                .zip(id.as_deref())
                .is_some_and(|(acknowledged, id)| acknowledged.covers(id));
            if let Some(webhook_event) = webhook_event.filter(|_| !is_acknowledged) {
                self.push_event(webhook_event, place, id);
            }
        }
        // More records remain: read again immediately.
        thread::current().unpark();
    }

    fn push(&mut self, webhook_event: WebhookEvent, place: u64) {
        self.push_event(webhook_event, place, None);
    }

    fn push_event(&mut self, webhook_event: WebhookEvent, place: u64, id: Option<String>) {
        if !self.webhook.wants(webhook_event.kind()) {
            // The channel's vacated event requires the recorded occupied state.
            self.note_taken(&webhook_event);
            return;
        }
        // Record this before the post: if this worker is killed after the post, its replacement still sends the vacated event.
        if let WebhookEvent::Occupied(channel) = &webhook_event {
            self.note(channel, OccupancyState::Doubtful);
        }
        self.queue_bytes += bytes_of(&webhook_event);
        self.queue.push_back(Queued {
            webhook_event,
            place,
            id,
            since: Instant::now(),
        });
    }

    /// Returns the number of further events that fit into the queue.
    fn room(&self) -> usize {
        if self.queue_bytes < QUEUE_BYTES_MAX {
            self.webhook
                .queue_events_max
                .saturating_sub(self.queue.len())
        } else {
            0
        }
    }

    fn send(&mut self) {
        let mut bytes = 0;
        // Take at least one event, also if it exceeds the size limit.
        let first = self.queue.iter().take(BATCH_EVENTS_MAX);
        let batch: Vec<&WebhookEvent> = first
            .map(|queued| &queued.webhook_event)
            .take_while(|webhook_event| {
                let is_taken = bytes < BATCH_BYTES_MAX;
                bytes += bytes_of(webhook_event);
                is_taken
            })
            .collect();
        let count = batch.len();
        let (body, headers) = message(&self.app, batch.into_iter(), clock::unix_ms());
        let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
        let failure = match self.poster.post(&headers, body.as_bytes()) {
            Ok(answer) if answer.is_success() => None,
            Ok(answer) => Some(format!("it responds {}: {}", answer.status, answer.text())),
            Err(error) => Some(error.to_string()),
        };
        // Another worker has taken over, and sends the batch as well.
        if self.kept.is_replaced() {
            return;
        }
        match failure {
            None => {
                self.settle(count);
                if self.failing.take().is_some() {
                    self.log(LogLevel::Info, "delivers events again");
                }
            }
            Some(failure) => self.on_failure(&failure, count),
        }
    }

    fn on_failure(&mut self, failure: &str, count: usize) {
        // Give up the events that have waited for `retry_s`. They are at the front of the queue.
        let retry = Duration::from_secs(self.webhook.retry_s);
        let old = self.queue.iter().take(count);
        let old = old.take_while(|queued| queued.since.elapsed() >= retry);
        let old = old.count();
        self.settle(old);
        if old > 0 {
            self.give_up(old as u64, failure);
        }
        let now = Instant::now();
        let pause = match &self.failing {
            Some(failing) => (failing.pause * 2).min(PAUSE_MAX),
            None => PAUSE_MIN,
        };
        let logged_at = match &self.failing {
            Some(failing) if now - failing.logged_at < LOG_AGAIN => failing.logged_at,
            _ => {
                self.log(
                    LogLevel::Warning,
                    &format!("cannot deliver events, retrying: {failure}"),
                );
                now
            }
        };
        let until = now + pause;
        self.failing = Some(Failing {
            pause,
            until,
            logged_at,
        });
    }

    /// Removes the first events of the queue, which were acknowledged or given up.
    fn settle(&mut self, count: usize) {
        for _ in 0..count {
            let Some(queued) = self.queue.pop_front() else {
                return;
            };
            self.queue_bytes -= bytes_of(&queued.webhook_event);
            self.kept.settle(queued.place);
            self.note_taken(&queued.webhook_event);
            if self.role == Role::Sends
                && let Some(id) = queued.id
            {
                self.acknowledged = Position::read(&id).or(self.acknowledged);
                self.inbox.report_acknowledged(id);
            }
        }
    }

    fn note_taken(&mut self, webhook_event: &WebhookEvent) {
        let (channel, occupancy) = match webhook_event {
            WebhookEvent::Occupied(channel) => (channel, OccupancyState::Occupied),
            WebhookEvent::Vacated(channel) => (channel, OccupancyState::Vacant),
            _ => return,
        };
        self.note(channel, occupancy);
        if self.role == Role::Sends {
            let is_occupied = occupancy == OccupancyState::Occupied;
            self.inbox.report_occupancy(channel, is_occupied);
        }
    }

    /// Records a backend's state of a channel for the next worker.
    fn note(&mut self, channel: &str, occupancy: OccupancyState) {
        if let Err(error) = self.kept.journal.set(channel, occupancy) {
            self.log(
                LogLevel::Warning,
                &format!("cannot store its delivery state: {error}"),
            );
        }
    }

    fn give_up(&mut self, count: u64, why: &str) {
        self.given_up += count;
        let text = format!("dropped {count} events ({} in all): {why}", self.given_up);
        self.log_error(&text);
    }

    fn log_error(&self, text: &str) {
        self.log(LogLevel::Error, text);
    }

    fn log(&self, level: LogLevel, text: &str) {
        let line = format!(
            "webhook of application {} at {}: {text}",
            self.app.id,
            self.poster.authority()
        );
        self.logger.write(level, clock::unix_ms(), &line);
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// Converts a record of the ring to a webhook event. Returns `None` if the record does not belong to the application with this
/// prefix, or the record corresponds to no webhook event.
fn read(prefix: &str, event: &Published<'_>) -> Option<WebhookEvent> {
    let channel = std::str::from_utf8(event.channel).ok()?;
    let channel = channel.strip_prefix(prefix)?.to_owned();
    match event.what {
        What::Message(name, data) => {
            let name = RingName::read(std::str::from_utf8(name?).ok()?);
            Some(WebhookEvent::ClientEvent {
                channel,
                event: name.event.to_owned(),
                data: String::from_utf8_lossy(data).into_owned(),
                socket_id: name.socket_id?.to_owned(),
                user_id: name.user_id.map(str::to_owned),
            })
        }
        // Pusher has no webhook for changed information.
        What::Join(data) if is_info_change(data) => None,
        What::Join(data) => Some(WebhookEvent::MemberAdded(channel, user_of(data)?)),
        What::Leave(data) => Some(WebhookEvent::MemberRemoved(channel, user_of(data)?)),
    }
}

fn user_of(announcement: &[u8]) -> Option<String> {
    let announcement: serde_json::Value = serde_json::from_slice(announcement).ok()?;
    Some(announcement["user"].as_str()?.to_owned())
}

fn bytes_of(webhook_event: &WebhookEvent) -> usize {
    match webhook_event {
        WebhookEvent::ClientEvent { data, .. } => data.len(),
        _ => 0,
    }
}
