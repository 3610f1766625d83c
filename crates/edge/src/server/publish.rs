//! Writes items to the ring, and handles the control port.

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

/// Maximum number of newest records of a channel that a new worker reads to restore the channel's ids.
const PRIMED_MAX: usize = 256;

/// Maximum number of waiting items that a new worker restores after a crash.
const NOTES_MAX: usize = 10_000;

/// Interval in milliseconds at which items of other edges are read while an item waits for one of them.
const READ_ALONG_MS: u64 = 20;

/// Notice to all workers: send a request to the origin of every client that may have missed items.
const RECOVER: &[u8] = b"recover";

/// Parts of the edge that publishing needs.
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

    /// Handles a notice of another worker.
    pub(super) fn on_peer_message(&mut self) {
        let notice = self.worker.waiting.peer_message().to_vec();
        if notice == RECOVER {
            // The notice came from another edge, and the sequence exists only in the publishing worker.
            self.publishing.sequence.recover();
            self.holds().recover_clients();
        } else {
            self.on_command_message(&notice);
        }
    }

    /// Removes the last id of every channel, and requests the missed items from the origins for all clients that may have missed
    /// some. This includes the clients of all workers and, in a cluster, of all edges.
    pub(super) fn recover(&mut self) -> Result<(), PublishFailure> {
        self.publishing.sequence.recover();
        self.holds().recover_clients();
        self.worker.send_to_workers(RECOVER)?;
        self.worker.channels.send_to_servers(RECOVER).map(|_| ())
    }

    /// Handles a request to the control port.
    pub(super) fn on_control(&mut self) {
        let upload = self.worker.request().upload();
        let body = control_body(&mut self.worker, upload);
        let view = self.worker.request();
        let (handle, head_bytes) = (view.handle(), view.head_len());
        let is_known = self.policy.control_key.as_ref().is_none_or(|key| {
            let now_s = self.worker.net.unix_s();
            control::is_authorized(key, view.header(b"authorization", 0), now_s)
        });
        let (answer, action) = if is_known {
            control::answer(&Request {
                method: view.method(),
                target: view.target(),
                accept: view.header(b"accept", 0),
                origin: view.header(b"origin", 0),
                body: &body,
            })
        } else {
            (control::unauthorized(), Action::None)
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
                        // An error only means that the client has left, which is reported separately.
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

    /// Appends an item to the ring, which all workers read.
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

    /// Publishes either all items or none of them. The items are published in the order of their ids, each once.
    pub(super) fn publish(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        if self.publishing.sequence.is_behindhand() {
            // Check this before an id is recorded: otherwise a repeated publish would count as a duplicate.
            let text = "items published before wait for a worker that is behind; publish again in a second";
            return Err(Busy::Embedder(text).into());
        }
        self.take_items(items)
    }

    /// Publishes items. Items for which the ring has no room wait, so no accepted item is lost.
    pub(super) fn take_items(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        // Earlier items are published first, when their timer fires.
        let was_behindhand = self.publishing.sequence.is_behindhand();
        self.offer_items(items, 0);
        let outcome = if was_behindhand {
            Ok(())
        } else {
            self.append_backlog()
        };
        self.publishing.watch_items(self.timers, self.worker);
        outcome
    }

    /// Passes the items of a request to the sequencer, which orders them by their ids. `post` is the number of the request that
    /// waits for the items; 0 means none.
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

    /// Restores the waiting items of the worker that this one replaces.
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
        // Items that were already published are recognized by their ids.
        let _ = self.take_items(items);
    }

    /// Appends ready items until the ring is full. An item larger than the maximum size is dropped and logged.
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

    /// Publishes the items whose predecessors did not arrive in time, and the items that waited for room in the ring.
    pub(super) fn on_items_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let overdue = self.publishing.sequence.expire(now_ms);
        self.worker.net.count(Counter::EdgeItemOverdue, overdue);
        if self.publishing.is_in_cluster {
            self.on_posts_due()
        } else {
            // The publishers already have their responses, and the error is logged.
            drop(self.append_backlog())
        }
        self.publishing.watch_items(self.timers, self.worker);
    }

    /// Responds to a request to the control port.
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
        // An error only means that the client has left.
        let _ = self
            .worker
            .respond(handle, answer.status, None, headers, &answer.body);
    }
}

/// Stores an item that waits for its predecessor, so that the next worker finds it if this one crashes. The publisher receives a
/// success while the item waits.
fn note_waiting(worker: &mut Engine, note: &str) {
    if let Err(failure) = worker.keep_note(note.as_bytes()) {
        let line = format!("an item waits that would be lost with this worker: {failure}");
        worker.net.log_for_client(LogLevel::Warning, &line);
    }
}

impl Publishing {
    /// Passes a channel's earlier items to the sequencer if it does not have them: items from before this worker started, or older
    /// than the sequencer's memory.
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

    /// Handles an item that is already being published. The request waits for the result of the first publication.
    fn wait_for_first(&mut self, channel: &[u8], id: Option<Vec<u8>>, post: u64) {
        let Some(id) = id.filter(|_| self.is_in_cluster) else {
            return;
        };
        let mut pending_records = self.posts.pending_records.values_mut();
        let first = pending_records.find(|it| it.queued.is(channel, &id));
        let first = match first {
            Some(pending_record) => Some(&mut pending_record.queued),
            None => self.sequence.queued_mut(channel, &id),
        };
        // If there is no such item, the first item is in the log, or waits for its predecessor.
        if first.is_some_and(|it| it.join(post)) {
            self.posts.add_item(post);
        }
    }

    /// Sets the timer for the next item that has to be published or read.
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

/// Returns the body of the current control request, which is within the port's limit.
fn control_body(worker: &mut Engine, upload: u32) -> Vec<u8> {
    let spooled = worker.http.upload(upload);
    match spooled.and_then(|it| it.body.as_ref()) {
        // An unreadable file counts as an empty body; the response then reports the missing value.
        Some((file, _)) => std::fs::read(file.path()).unwrap_or_default(),
        None => worker.request().body().to_vec(),
    }
}
