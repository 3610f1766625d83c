//! The thread that sends a webhook: in order, several events at once, and again until they are taken.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_engine::{Followed, Follower, Logger, Published, What};
use fermata_io::clock;
use fermata_origin::Poster;
use fermata_origin::address::Url;
use fermata_pusher::App;
use fermata_pusher::frame::RingName;
use fermata_pusher::webhook::{Happening, Occupancy, Webhook, message};

use super::inbox::{Inbox, Role};
use super::journal::Belief;
use super::kept::Kept;
use crate::names;

/// Events of one post, and bytes of what clients have sent in it.
const BATCH_EVENTS_MAX: usize = 50;
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// How long an event waits for others.
const BATCH_WAIT: Duration = Duration::from_millis(50);
/// Bytes of what clients have sent that wait.
const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a backend that takes nothing is left alone, first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A thread that is told of nothing looks by itself so often.
const LOOK: Duration = Duration::from_secs(60);
/// How often it is said that a backend takes nothing.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// Channels that were seen occupied while another server sends, and that it has said nothing of.
const SEEN_MAX: usize = 100_000;
/// How long that is remembered of those that nobody is in any more: for as long as a server may be silent, and a while.
const SEEN_MS: u64 = 60_000;
/// Records of the ring that are read before something is sent.
const READ_MAX: usize = 4096;
/// Numbers in ids.
const ID_RADIX: u32 = 36;

pub(super) struct Sender {
    app: App,
    webhook: Webhook,
    poster: Poster,
    /// For events that are on the ring; `None`: none of them is wanted.
    follower: Option<Follower>,
    /// The ring is read up to there.
    read_place: u64,
    /// What the names of the application's channels begin with.
    prefix: String,
    occupancy: Occupancy,
    role: Role,
    /// While another server sends: channels that it may have told as occupied, and until when that is remembered.
    seen: HashMap<String, Option<u64>>,
    /// How far the other server has told, when it was not this one.
    told: Option<Position>,
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
    happening: Happening,
    /// Its place in the ring; 0: it is not from there.
    place: u64,
    /// What it is called on all servers of a cluster.
    id: Option<String>,
    since: Instant,
}

/// The place of an event in the log of a cluster.
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

    /// Whether an event with this id stands there or before it.
    fn covers(self, id: &str) -> bool {
        let it = Position::read(id);
        it.is_some_and(|it| it.epoch == self.epoch && it.seq <= self.seq)
    }
}

/// The backend takes nothing.
struct Failing {
    pause: Duration,
    until: Instant,
    said: Instant,
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
            poster: Poster::new(url, timeout),
            follower,
            read_place: 0,
            occupancy: Occupancy::restore(kept.journal.occupied(), 0),
            role: inbox.role(),
            seen: HashMap::new(),
            told: None,
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
            return match is_over {
                true => Step::End,
                false => Step::Wait(LOOK),
            };
        }
        let Some(first) = self.queue.front() else {
            let due_ms = self.occupancy.due_ms();
            let wait = due_ms.map(|ms| Duration::from_millis(ms.saturating_sub(self.now_ms())));
            return match is_over {
                true => Step::End,
                false => Step::Wait(wait.unwrap_or(LOOK).min(LOOK)),
            };
        };
        let now = Instant::now();
        if let Some(failing) = &self.failing
            && now < failing.until
        {
            return match is_over {
                true => Step::End,
                false => Step::Wait(failing.until - now),
            };
        }
        let waited = now.saturating_duration_since(first.since);
        if is_over || waited >= BATCH_WAIT || self.queue.len() >= BATCH_EVENTS_MAX {
            return Step::Send;
        }
        Step::Wait(BATCH_WAIT - waited)
    }

    /// Takes what has happened, as far as there is room for it. What there is no room for stays where it is.
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
            if let Some(happening) = self.occupancy.set(&channel, count, now_ms) {
                self.push(happening, 0);
            }
        }
        for happening in self.occupancy.vacated(now_ms, self.room()) {
            self.push(happening, 0);
        }
        for channel in waiting.misses {
            self.push(Happening::CacheMiss(channel), 0);
        }
        for (channel, count) in waiting.told {
            self.push(Happening::SubscriptionCount(channel, count), 0);
        }
        if waiting.dropped > 0 {
            self.give_up(waiting.dropped, "there was no room for them");
        }
        if self.queue.is_empty() {
            self.kept.settle(self.read_place);
        }
    }

    /// Notes whether this server sends now.
    fn take_role(&mut self) {
        let role = self.inbox.role();
        if role == self.role {
            if role == Role::Sends && self.inbox.take_asked() {
                for (channel, _) in self.kept.journal.occupied() {
                    self.inbox.report_belief(&channel, true);
                }
            }
            return;
        }
        self.role = role;
        match role {
            Role::Waits => {
                // Another server finds that by itself.
                self.queue.retain(|queued| queued.place != 0);
                self.queue_bytes = { self.queue.iter() }
                    .map(|it| bytes_of(&it.happening))
                    .sum();
                self.failing = None;
                self.log(LogLevel::Info, "is sent by another server of the cluster");
            }
            Role::Alone | Role::Sends => {
                // Counts that are there already are for the one that sends.
                self.learn();
                for (channel, _) in std::mem::take(&mut self.seen) {
                    self.note(&channel, Belief::Doubtful);
                }
                let now_ms = self.now_ms();
                self.occupancy = Occupancy::restore(self.kept.journal.occupied(), now_ms);
                self.log(LogLevel::Info, "is sent by this server of the cluster");
            }
        }
    }

    /// Keeps what this server needs for going on in the place of the one that sends.
    fn read_along(&mut self) {
        self.learn();
        self.see();
    }

    /// Takes what the server that sends has told.
    fn learn(&mut self) {
        let heard = self.inbox.heard();
        for (channel, is_occupied) in heard.beliefs {
            self.seen.remove(&channel);
            self.note(
                &channel,
                match is_occupied {
                    true => Belief::Occupied,
                    false => Belief::Vacant,
                },
            );
        }
        if let Some(told) = heard.told.as_deref().and_then(Position::read) {
            self.told = Some(told);
            let is_told = |queued: &&Queued| queued.id.as_deref().is_some_and(|it| told.covers(it));
            let count = self.queue.iter().take_while(is_told).count();
            self.settle(count);
        }
    }

    /// Remembers channels that the server that sends may have told. Their counts are told anew to whoever sends next.
    fn see(&mut self) {
        let now_ms = self.now_ms();
        for (channel, count) in self.inbox.take(usize::MAX).counts {
            let is_known = self.kept.journal.belief(&channel) != Belief::Vacant;
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
            if self.room() == 0 {
                return;
            }
            let Some(follower) = &mut self.follower else {
                return;
            };
            let (happening, place, id) = match follower.next_event() {
                Followed::Event(event) => {
                    let happening = read(&self.prefix, &event);
                    let id = (self.role != Role::Alone && happening.is_some()).then_some(event.id);
                    (happening, event.place, id)
                }
                Followed::Lost => {
                    self.say("events of members and clients were gone before they could be sent");
                    continue;
                }
                Followed::Nothing => return,
            };
            self.read_place = place;
            let is_told = self
                .told
                .zip(id.as_deref())
                .is_some_and(|(told, id)| told.covers(id));
            if let Some(happening) = happening.filter(|_| !is_told) {
                self.push_event(happening, place, id);
            }
        }
        // There is more: it is looked at again at once.
        thread::current().unpark();
    }

    fn push(&mut self, happening: Happening, place: u64) {
        self.push_event(happening, place, None);
    }

    fn push_event(&mut self, happening: Happening, place: u64, id: Option<String>) {
        if !self.webhook.wants(happening.kind()) {
            // Of a channel that is to be vacated it has to be known that it was occupied.
            self.note_taken(&happening);
            return;
        }
        if let Happening::Occupied(channel) = &happening {
            self.note(channel, Belief::Doubtful);
        }
        self.queue_bytes += bytes_of(&happening);
        self.queue.push_back(Queued {
            happening,
            place,
            id,
            since: Instant::now(),
        });
    }

    /// Events that there is room for.
    fn room(&self) -> usize {
        match self.queue_bytes < QUEUE_BYTES_MAX {
            true => self
                .webhook
                .queue_events_max
                .saturating_sub(self.queue.len()),
            false => 0,
        }
    }

    fn send(&mut self) {
        let mut bytes = 0;
        let first = self.queue.iter().take(BATCH_EVENTS_MAX);
        let batch: Vec<&Happening> = first
            .map(|queued| &queued.happening)
            .take_while(|happening| {
                let is_taken = bytes < BATCH_BYTES_MAX;
                bytes += bytes_of(happening);
                is_taken
            })
            .collect();
        let count = batch.len();
        let (body, headers) = message(&self.app, batch.into_iter(), clock::unix_ms());
        let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
        let failure = match self.poster.post(&headers, body.as_bytes()) {
            Ok(answer) if answer.is_success() => None,
            Ok(answer) => Some(format!("it answers {}: {}", answer.status, answer.text())),
            Err(error) => Some(error.to_string()),
        };
        // Another worker has begun meanwhile, and sends it as well.
        if self.kept.is_replaced() {
            return;
        }
        match failure {
            None => {
                self.settle(count);
                if self.failing.take().is_some() {
                    self.log(LogLevel::Info, "is taken again");
                }
            }
            Some(failure) => self.on_failure(&failure, count),
        }
    }

    fn on_failure(&mut self, failure: &str, count: usize) {
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
        let said = match &self.failing {
            Some(failing) if now - failing.said < SAY_AGAIN => failing.said,
            _ => {
                self.log(
                    LogLevel::Warning,
                    &format!("is not taken, and sent again later: {failure}"),
                );
                now
            }
        };
        let until = now + pause;
        self.failing = Some(Failing { pause, until, said });
    }

    /// The first ones are taken, or given up.
    fn settle(&mut self, count: usize) {
        for _ in 0..count {
            let Some(queued) = self.queue.pop_front() else {
                return;
            };
            self.queue_bytes -= bytes_of(&queued.happening);
            self.kept.settle(queued.place);
            self.note_taken(&queued.happening);
            if self.role == Role::Sends
                && let Some(id) = queued.id
            {
                self.told = Position::read(&id).or(self.told);
                self.inbox.report_told(id);
            }
        }
    }

    fn note_taken(&mut self, happening: &Happening) {
        let (channel, belief) = match happening {
            Happening::Occupied(channel) => (channel, Belief::Occupied),
            Happening::Vacated(channel) => (channel, Belief::Vacant),
            _ => return,
        };
        self.note(channel, belief);
        if self.role == Role::Sends {
            let is_occupied = belief == Belief::Occupied;
            self.inbox.report_belief(channel, is_occupied);
        }
    }

    /// Remembers for the next worker what the backend believes.
    fn note(&mut self, channel: &str, belief: Belief) {
        if let Err(error) = self.kept.journal.set(channel, belief) {
            self.log(LogLevel::Warning, &format!("cannot be remembered: {error}"));
        }
    }

    fn give_up(&mut self, count: u64, why: &str) {
        self.given_up += count;
        let text = format!(
            "{count} events are given up ({} in all): {why}",
            self.given_up
        );
        self.say(&text);
    }

    fn say(&self, text: &str) {
        self.log(LogLevel::Error, text);
    }

    fn log(&self, level: LogLevel, text: &str) {
        let line = format!(
            "the webhook of application {} at {}: {text}",
            self.app.id,
            self.poster.authority()
        );
        self.logger.write(level, clock::unix_ms(), &line);
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// What a record of the ring is to a webhook of the application whose channels' names begin so.
fn read(prefix: &str, event: &Published<'_>) -> Option<Happening> {
    let channel = std::str::from_utf8(event.channel).ok()?;
    let channel = channel.strip_prefix(prefix)?.to_owned();
    match event.what {
        What::Message(name, data) => {
            let name = RingName::read(std::str::from_utf8(name?).ok()?);
            Some(Happening::ClientEvent {
                channel,
                event: name.event.to_owned(),
                data: String::from_utf8_lossy(data).into_owned(),
                socket_id: name.socket_id?.to_owned(),
                user_id: name.user_id.map(str::to_owned),
            })
        }
        What::Join(data) => Some(Happening::MemberAdded(channel, user_of(data)?)),
        What::Leave(data) => Some(Happening::MemberRemoved(channel, user_of(data)?)),
    }
}

fn user_of(announcement: &[u8]) -> Option<String> {
    let announcement: serde_json::Value = serde_json::from_slice(announcement).ok()?;
    Some(announcement["user"].as_str()?.to_owned())
}

fn bytes_of(happening: &Happening) -> usize {
    match happening {
        Happening::ClientEvent { data, .. } => data.len(),
        _ => 0,
    }
}
