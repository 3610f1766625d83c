//! Publishing in a cluster: items are appended to the shared log in order, and every edge reads them from there. The worker
//! serves clients while it waits for the log.
//!
//! The edge that receives an item puts it into order first. It also reads the items of other edges. So an item may follow an item
//! of another edge, and the edge recognizes duplicates. If two edges append the same item at the same moment, both records have the
//! item's id as their name, and every edge skips the second record when it reads the log.

use std::collections::BTreeMap;

use fermata_config::LogLevel;
use fermata_engine::missed;
use fermata_engine::stats::Counter;
use fermata_engine::{Ack, Busy, Message, PublishFailure, Publisher, Publishing as Begun};
use fermata_grip::item::Item;

use crate::client::delivery;
use crate::client::source::Engine;
use crate::publish::parts::Publishing;
use crate::publish::posts::{PendingRecord, Post, Refusal, Reply, is_for_good};
use crate::publish::sequence::{Queued, encoded};
use crate::server::publish::Publications;

/// Numbers of newest records that are read for items of other edges: the next number if the last item read before is not among
/// them.
const READ: [usize; 3] = [1, 16, 256];

/// Maximum number of channels per turn that are read for predecessors of waiting items.
const WAITING_MAX: usize = 256;

impl Publications<'_> {
    /// Publishes the items of a request. Returns `None` if the response is sent to `reply` after the log's acknowledgement.
    pub(super) fn post(
        &mut self,
        items: Vec<Item>,
        reply: impl FnOnce() -> Reply,
    ) -> Option<Result<(), Refusal>> {
        if !self.publishing.is_in_cluster {
            let outcome = self.publish(items);
            return Some(outcome.map_err(|failure| Refusal::from(&failure)));
        }
        let bytes = self.publishing.sequence.backlog_bytes();
        if self.publishing.posts.is_full() || bytes > self.publishing.backlog_bytes_max {
            let text = "too many publishers wait for the log of the cluster; publish again";
            let failure = PublishFailure::from(Busy::Embedder(text));
            return Some(Err(Refusal::from(&failure)));
        }
        let number = self.publishing.posts.begin(self.worker.net.now_ms());
        self.offer_items(items, number);
        self.append_to_log();
        self.publishing.watch_items(self.timers, self.worker);
        self.publishing.posts.wait(number, reply)
    }

    /// Appends ready items to the log until the log is unavailable or full.
    pub(super) fn append_to_log(&mut self) {
        while let Some(first) = self.publishing.sequence.first() {
            let now_ms = self.worker.net.now_ms();
            // While the item waited, the log may have stored it, from an earlier attempt or from another edge.
            if first.is_late && first.item.id.is_some() {
                let channel = first.item.channel.clone();
                self.publishing.read_along(self.worker, now_ms, &channel);
            }
            let Some(mut queued) = self.publishing.sequence.take() else {
                break;
            };
            if queued.is_there {
                self.end_item(&queued, None);
                continue;
            }
            let began_ms = self.publishing.posts.began_ms(&queued.posts);
            let began_ms = began_ms.unwrap_or(now_ms);
            let data = encoded(&queued.item);
            let name = { &queued.item.id }
                .as_ref()
                .map(|id| id.escape_ascii().to_string());
            let message = Message {
                name: name.as_deref().map(str::as_bytes),
                data: data.as_bytes(),
            };
            let user = self.publishing.posts.user();
            let how = (Ack::Cluster, Some(Publisher::Beside(user)), began_ms);
            let channel = &queued.item.channel;
            match self.worker.begin_publish(channel, message, None, how) {
                Ok(Begun::Done(_)) => self.end_item(&queued, None),
                Ok(Begun::Pending(record)) => {
                    if !queued.is_late {
                        self.reports().on_published(&queued.item);
                    }
                    let pending_record = PendingRecord {
                        queued,
                        record,
                        began_ms,
                    };
                    self.publishing
                        .posts
                        .pending_records
                        .insert(user, pending_record);
                }
                Ok(Begun::Later) => {
                    self.put_back(queued);
                    break;
                }
                Err(failure) => {
                    let line = format!("publishing fails: {failure}");
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                    let is_kept = !is_for_good(&failure);
                    let refusal = Refusal::from(&failure);
                    if queued.is_owed && is_kept {
                        let posts = std::mem::take(&mut queued.posts);
                        let is_of_posts = !posts.is_empty();
                        self.end_posts(posts, Some(&refusal));
                        self.put_back(queued);
                        if is_of_posts {
                            // The time limit of the requests may have caused the failure. The item has none: try it again.
                            continue;
                        }
                        // The log would refuse later items, too.
                        self.refuse_posts(&refusal, |_| true);
                        break;
                    }
                    self.end_item(&queued, Some(&refusal));
                }
            }
        }
    }

    /// Handles acknowledgements of the log. Returns true if no item waits. The caller then reads the ports again.
    pub(super) fn on_log_answers(&mut self) -> bool {
        let mut over = Vec::new();
        while let Some(user) = self.worker.channels.next_published_beside() {
            over.push(user);
        }
        if over.is_empty() {
            return false;
        }
        over.sort_unstable();
        self.end_flights(over);
        self.append_to_log();
        self.publishing.watch_items(self.timers, self.worker);
        !self.publishing.sequence.is_behindhand()
    }

    /// Handles items that wait for the log or for items of other edges.
    pub(super) fn on_posts_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let wait_ms = self.worker.settings().publish_wait_ms_max;
        let overdue = self.publishing.posts.overdue(now_ms, wait_ms);
        self.end_flights(overdue);
        for channel in self.publishing.sequence.waiting(WAITING_MAX) {
            self.publishing.read_along(self.worker, now_ms, &channel);
        }
        self.append_to_log();
        let text = "the log of the cluster was not there for as long as a publisher waits (publish_wait_ms_max)";
        let refusal = Refusal::from(&PublishFailure::from(Busy::Embedder(text)));
        self.refuse_posts(&refusal, |began_ms| began_ms + wait_ms <= now_ms);
    }

    /// Handles the log's replies about appended items.
    fn end_flights(&mut self, users: Vec<u64>) {
        let mut again = BTreeMap::new();
        for user in users {
            let Some(pending_record) = self.publishing.posts.pending_records.get(&user) else {
                // The item was already handled.
                continue;
            };
            let (record, began_ms) = (pending_record.record, pending_record.began_ms);
            let Some(outcome) = self.worker.end_publish(record, began_ms) else {
                continue;
            };
            let Some(PendingRecord { mut queued, .. }) =
                self.publishing.posts.pending_records.remove(&user)
            else {
                missed(());
                continue;
            };
            let Err(failure) = outcome else {
                self.end_item(&queued, None);
                continue;
            };
            let line = format!("an item is not acknowledged: {failure}");
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            let is_kept = !is_for_good(&failure);
            let refusal = Refusal::from(&failure);
            // The publisher does not repeat the item, so append it again. With an id, a second record of the item is recognized as
            // a duplicate.
            if queued.is_owed && queued.item.id.is_some() && is_kept {
                self.end_posts(std::mem::take(&mut queued.posts), Some(&refusal));
                queued.is_late = true;
                again.insert(user, queued);
            } else {
                self.end_item(&queued, Some(&refusal));
            }
        }
        for queued in again.into_values().rev() {
            self.publishing.sequence.put_back(queued);
        }
    }

    /// Puts back an item that the log did not accept yet.
    fn put_back(&mut self, queued: Queued) {
        self.publishing.sequence.put_back(queued);
        if !self.worker.channels.is_log_ready() {
            self.publishing.sequence.set_late();
        }
    }

    /// Sends an error to the waiting requests for whose start time `is_over` returns true, and drops items that only these requests
    /// wait for.
    fn refuse_posts(&mut self, refusal: &Refusal, is_over: impl Fn(u64) -> bool) {
        let posts = &self.publishing.posts;
        let (items, numbers) = { &mut self.publishing.sequence }
            .take_of(|numbers| posts.began_ms(numbers).is_some_and(&is_over));
        for queued in items {
            self.end_item(&queued, Some(refusal));
        }
        self.end_posts(numbers, Some(refusal));
    }

    /// Completes an item that the log has acknowledged or refused.
    fn end_item(&mut self, queued: &Queued, refusal: Option<&Refusal>) {
        if refusal.is_some() {
            // The publisher may repeat the item.
            self.publishing.sequence.forget(&queued.item);
            if queued.is_owed {
                // The publisher receives no error.
                self.worker.net.count(Counter::EdgeItemLog, 1);
                let channel = queued.item.channel.escape_ascii();
                let line = format!(
                    "an item for {channel} is dropped: the log of the cluster has not taken it"
                );
                self.worker.net.log_for_client(LogLevel::Warning, &line);
            }
        }
        self.end_posts(queued.posts.iter().copied(), refusal);
    }

    /// Removes one item from these requests, and responds to requests that wait for no further item.
    fn end_posts(&mut self, numbers: impl IntoIterator<Item = u64>, refusal: Option<&Refusal>) {
        for number in numbers {
            if let Some(post) = self.publishing.posts.end_item(number, refusal) {
                self.answer_post(post);
            }
        }
    }

    fn answer_post(&mut self, post: Post) {
        let outcome = post.failure.map_or(Ok(()), Err);
        match post.reply {
            Some(Reply::Control(handle, answer)) => {
                self.answer_control(handle, answer, outcome);
                self.worker.http.settle_request(handle);
            }
            Some(Reply::Command(wire, envelope, request)) => {
                self.publishing.reply_command(
                    self.worker,
                    (wire, &envelope),
                    &request,
                    super::zmq::done(outcome),
                );
            }
            None => {}
        }
    }
}

impl Publishing {
    /// Reads the items that other edges published to a channel since the last call.
    pub(super) fn read_along(&mut self, worker: &mut Engine, now_ms: u64, channel: &[u8]) {
        let known = self.posts.read_up_to(channel);
        if known.is_none() && self.sequence.has_recovered() {
            // Older items do not count after a recovery.
            if let Ok(newest) = worker.history_read(channel, 1)
                && let Some(newest) = newest.into_iter().next()
            {
                self.posts.set_read(channel, newest.id);
            }
            return;
        }
        for count in READ {
            let Ok(mut records) = worker.history_read(channel, count) else {
                return;
            };
            let Some(newest) = records.last().map(|it| it.id.clone()) else {
                return;
            };
            let at = records.iter().rposition(|it| Some(it.id.as_str()) == known);
            let is_all = records.len() < count || count == READ[READ.len() - 1];
            if at.is_none() && !is_all {
                continue;
            }
            let new = records.drain(at.map_or(0, |at| at + 1)..);
            let items: Vec<Item> = new.filter_map(|it| delivery::read(&it.data)).collect();
            self.sequence.observe(now_ms, channel, &items);
            self.posts.set_read(channel, newest);
            return;
        }
    }
}
