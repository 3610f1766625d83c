//! How items get into the ring, and what plain streams are sent of them.

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;
use fermata_engine::{Busy, Message, PublishFailure, RequestId};
use fermata_grip::item::Item;

use crate::client::delivery;
use crate::client::journal::Journal;
use crate::client::source::Engine;
use crate::control;
use crate::control::{Action, Answer, Request};
use crate::publish::parts::Publishing;
use crate::publish::posts::{Refusal, Reply};
use crate::publish::sequence::{Offered, encoded};
use crate::pushpin::stats::Stats;
use crate::server::edge::Edge;
use crate::server::notices::Reports;
use crate::timers::{Timer, Timers};

/// Items of a channel that are looked at for what a new worker should know of it.
const PRIMED_MAX: usize = 256;

/// Items that waited when a worker ended and are taken over by the next.
const NOTES_MAX: usize = 10_000;

/// How soon it is looked again whether another edge has published what an item waits for.
const READ_ALONG_MS: u64 = 20;

/// What workers are told when everybody is to ask again.
const RECOVER: &[u8] = b"recover";

/// What takes items of publishers to the ring, or to the log of a cluster: nothing of clients but that they are told of it.
pub(super) struct Publications<'a> {
    pub publishing: &'a mut Publishing,
    pub journal: &'a mut Journal,
    pub stats: &'a mut Option<Box<Stats>>,
    pub timers: &'a mut Timers,
    pub worker: &'a mut Engine,
}

impl Edge {
    pub(super) fn publications(&mut self) -> Publications<'_> {
        Publications {
            publishing: &mut self.publishing,
            journal: &mut self.journal,
            stats: &mut self.pushpin.stats,
            timers: &mut self.timers,
            worker: &mut self.worker,
        }
    }

    /// Another worker has told something.
    pub(super) fn on_peer_message(&mut self) {
        let notice = self.worker.waiting.peer_message().to_vec();
        if notice == RECOVER {
            // It matters to the worker that publishes, and then another edge has told it.
            self.publishing.sequence.recover();
            self.holds().recover_clients();
        } else {
            self.on_command_message(&notice);
        }
    }

    /// Forgets every last id, and lets the clients of all workers that could have missed something ask their origins; in a
    /// cluster those of all edges.
    pub(super) fn recover(&mut self) -> Result<(), PublishFailure> {
        self.publishing.sequence.recover();
        self.holds().recover_clients();
        self.worker.send_to_workers(RECOVER)?;
        self.worker.channels.send_to_servers(RECOVER).map(|_| ())
    }

    /// A request to the control port.
    pub(super) fn on_control(&mut self) {
        let upload = self.worker.request().upload();
        let body = control_body(&mut self.worker, upload);
        let view = self.worker.request();
        let (handle, head_bytes) = (view.handle(), view.head_len());
        let is_known = self.policy.control_key.as_ref().is_none_or(|key| {
            let now_s = self.worker.net.unix_s();
            control::is_authorized(key, view.header(b"authorization", 0), now_s)
        });
        let (answer, action) = match is_known {
            true => control::answer(&Request {
                method: view.method(),
                target: view.target(),
                accept: view.header(b"accept", 0),
                origin: view.header(b"origin", 0),
                body: &body,
            }),
            false => (control::unauthorized(), Action::None),
        };
        let peer = view.peer();
        if upload != 0 {
            self.worker.http.release_upload(upload);
        }
        if !is_known {
            let line =
                format!("control: a request from {peer} without the key of control_key is refused");
            self.worker.net.log_for_client(LogLevel::Warning, &line);
        }
        if head_bytes > self.policy.control_header_bytes_max {
            let bytes_max = self.policy.control_header_bytes_max;
            self.clients.refuse_head(
                &mut self.worker,
                handle,
                "control_header_bytes_max",
                bytes_max,
            );
            return;
        }
        let done = match action {
            Action::None => Ok(()),
            Action::Recover => self.recover().map_err(|failure| Refusal::from(&failure)),
            Action::Publish(items) => {
                match self
                    .publications()
                    .post(items, || Reply::Control(handle, answer.clone()))
                {
                    Some(outcome) => outcome,
                    None => {
                        // One whose client has left is told of soon.
                        let _ = self.worker.defer(handle);
                        return;
                    }
                }
            }
        };
        self.publications().answer_control(handle, answer, done);
    }
}

impl Publications<'_> {
    pub fn reports(&mut self) -> Reports<'_> {
        Reports {
            journal: self.journal,
            stats: self.stats,
            ports: &mut self.publishing.ports,
            commands: &mut self.publishing.commands,
            timers: self.timers,
            worker: self.worker,
        }
    }

    /// Appends an item to the ring, from which every worker reads it.
    fn append(&mut self, item: &Item) -> Result<(), PublishFailure> {
        let data = encoded(item);
        let message = Message {
            name: None,
            data: data.as_bytes(),
        };
        self.worker.publish(&item.channel, message)?;
        self.reports().on_published(item);
        Ok(())
    }

    /// Publishes items, or takes none of them: in the order of their ids, each once.
    pub(super) fn publish(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        if self.publishing.sequence.is_behindhand() {
            // Before an id is remembered, or the publisher's next try would be taken for a duplicate.
            let text = "items published before wait for a worker that is behind; publish again in a second";
            return Err(Busy::Embedder(text).into());
        }
        self.take_items(items)
    }

    /// Publishes items, whatever port they came by. What the ring has no room for now waits, so nothing that is taken is lost.
    pub(super) fn take_items(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        // Those before go first, when their timer says so.
        let was_behindhand = self.publishing.sequence.is_behindhand();
        self.offer_items(items, 0);
        let outcome = match was_behindhand {
            true => Ok(()),
            false => self.append_backlog(),
        };
        self.publishing.watch_items(self.timers, self.worker);
        outcome
    }

    /// Brings items of a request into order; 0: none waits for them.
    pub(super) fn offer_items(&mut self, items: Vec<Item>, post: u64) {
        let now_ms = self.worker.net.now_ms();
        for item in items {
            let (channel, id) = (item.channel.clone(), item.id.clone());
            self.publishing.prime(self.worker, now_ms, &item);
            match self.publishing.sequence.offer(now_ms, item, post) {
                Offered::Ready => self.publishing.posts.add_item(post),
                Offered::Waiting(note) => note_waiting(self.worker, &note),
                Offered::Duplicate => {
                    self.worker.net.count(Counter::EdgeItemDuplicate, 1);
                    self.publishing.wait_for_first(&channel, id, post);
                }
                Offered::Dropped(counter, reason) => {
                    self.worker.net.count(counter, 1);
                    let line = format!(
                        "an item for {} is dropped: {reason}",
                        channel.escape_ascii()
                    );
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                }
            }
        }
    }

    /// Takes over the items that waited in the worker before this one.
    pub(super) fn restore_waiting(&mut self) {
        let unix_ms = self.worker.net.unix_s() * 1_000;
        let notes = self.worker.notes(NOTES_MAX);
        let is_in_cluster = self.publishing.is_in_cluster;
        let sequence = &self.publishing.sequence;
        let recent = notes
            .iter()
            .filter(|it| sequence.is_recent(it.unix_ms, unix_ms, is_in_cluster));
        let items: Vec<Item> = recent.filter_map(|it| delivery::read(&it.data)).collect();
        if items.is_empty() {
            return;
        }
        let line = format!(
            "looking at {} items that waited for their predecessors when this worker's own ended",
            items.len()
        );
        self.worker.net.log(LogLevel::Info, &line);
        // Those that went on meanwhile are known by their ids.
        let _ = self.take_items(items);
    }

    /// Appends what is ready, until the ring has no room. One that no ring would take is left out and told of.
    fn append_backlog(&mut self) -> Result<(), PublishFailure> {
        if self.publishing.is_in_cluster {
            self.append_to_log();
            return Ok(());
        }
        let mut outcome = Ok(());
        while let Some(queued) = self.publishing.sequence.take() {
            match self.append(&queued.item) {
                Ok(()) => {}
                Err(PublishFailure::Backpressure(reason)) => {
                    let line = format!("publishing waits: {reason}");
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                    self.publishing.sequence.put_back(queued);
                    break;
                }
                Err(failure) => {
                    let line = format!("an item is dropped: {failure}");
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                    outcome = outcome.and(Err(failure));
                }
            }
        }
        outcome
    }

    /// Publishes what has waited long enough, for its predecessor or for room.
    pub(super) fn on_items_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let overdue = self.publishing.sequence.expire(now_ms);
        self.worker.net.count(Counter::EdgeItemOverdue, overdue);
        match self.publishing.is_in_cluster {
            true => self.on_posts_due(),
            // Its publishers were answered long ago; the log has why.
            false => drop(self.append_backlog()),
        }
        self.publishing.watch_items(self.timers, self.worker);
    }

    /// Answers a request to the control port.
    pub(super) fn answer_control(
        &mut self,
        handle: RequestId,
        answer: Answer,
        done: Result<(), Refusal>,
    ) {
        let answer = match done {
            Ok(()) => answer,
            Err(Refusal { status, text }) => Answer {
                status,
                headers: vec![("Content-Type", "text/plain")],
                body: format!("{text}\n").into_bytes(),
            },
        };
        let headers = answer.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        // A client that has left needs no answer.
        let _ = self
            .worker
            .respond(handle, answer.status, None, headers, &answer.body);
    }
}

/// Keeps an item that waits for its predecessor where the next worker finds it, should this one die: its publisher is
/// told that it was taken.
fn note_waiting(worker: &mut Engine, note: &str) {
    if let Err(failure) = worker.keep_note(note.as_bytes()) {
        let line = format!("an item waits that would be lost with this worker: {failure}");
        worker.net.log_for_client(LogLevel::Warning, &line);
    }
}

impl Publishing {
    /// Tells the sequencer what a channel has had that it does not know: from another worker's life, or longer ago than it
    /// remembers.
    fn prime(&mut self, worker: &mut Engine, now_ms: u64, item: &Item) {
        if self.is_in_cluster {
            if item.id.is_some() {
                self.read_along(worker, now_ms, &item.channel);
            }
            return;
        }
        if self.sequence.knows(item) {
            return;
        }
        let Ok(records) = worker.history(&item.channel, None, PRIMED_MAX) else {
            return;
        };
        let items = records.iter().filter_map(|it| delivery::read(&it.data));
        let items: Vec<Item> = items.collect();
        self.sequence.prime(now_ms, &item.channel, &items);
    }

    /// An item is published once more: a request is answered with the one before.
    fn wait_for_first(&mut self, channel: &[u8], id: Option<Vec<u8>>, post: u64) {
        let Some(id) = id.filter(|_| self.is_in_cluster) else {
            return;
        };
        let mut flights = self.posts.flights.values_mut();
        let first = flights.find(|it| it.queued.is(channel, &id));
        let first = match first {
            Some(flight) => Some(&mut flight.queued),
            None => self.sequence.queued_mut(channel, &id),
        };
        // Others are in the log, or wait for what comes before them.
        if first.is_some_and(|it| it.join(post)) {
            self.posts.add_item(post);
        }
    }

    pub(super) fn watch_items(&self, timers: &mut Timers, worker: &mut Engine) {
        let now_ms = worker.net.now_ms();
        let mut due_ms = self.sequence.due_ms(now_ms);
        if self.is_in_cluster {
            let is_waiting = self.sequence.is_waiting();
            let again_ms = is_waiting.then(|| now_ms + READ_ALONG_MS);
            let over_ms = self.posts.due_ms(now_ms);
            due_ms = due_ms.into_iter().chain(again_ms).chain(over_ms).min();
        }
        if let Some(due_ms) = due_ms {
            timers.at(due_ms, Timer::Items);
        }
    }
}

/// The body of the current control request; no larger than its port allows.
fn control_body(worker: &mut Engine, upload: u32) -> Vec<u8> {
    let spooled = worker.http.upload(upload);
    match spooled.and_then(|it| it.body.as_ref()) {
        // A file that cannot be read is as good as an empty body: the answer says what is missing.
        Some((file, _)) => std::fs::read(file.path()).unwrap_or_default(),
        None => worker.request().body().to_vec(),
    }
}
