//! The thread that sends a webhook: in order, several events at once, and again until they are taken.

use std::collections::VecDeque;
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

use super::inbox::Inbox;
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
/// Records of the ring that are read before something is sent.
const READ_MAX: usize = 4096;

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
    since: Instant,
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
        self.read_ring();
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

    fn read_ring(&mut self) {
        for _ in 0..READ_MAX {
            if self.room() == 0 {
                return;
            }
            let Some(follower) = &mut self.follower else {
                return;
            };
            let (happening, place) = match follower.next_event() {
                Followed::Event(event) => (read(&self.prefix, &event), event.place),
                Followed::Lost => {
                    self.say("events of members and clients were gone before they could be sent");
                    continue;
                }
                Followed::Nothing => return,
            };
            self.read_place = place;
            if let Some(happening) = happening {
                self.push(happening, place);
            }
        }
        // There is more: it is looked at again at once.
        thread::current().unpark();
    }

    fn push(&mut self, happening: Happening, place: u64) {
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
        }
    }

    fn note_taken(&mut self, happening: &Happening) {
        match happening {
            Happening::Occupied(channel) => self.note(channel, Belief::Occupied),
            Happening::Vacated(channel) => self.note(channel, Belief::Vacant),
            _ => {}
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
