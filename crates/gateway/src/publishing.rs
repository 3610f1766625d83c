//! Publishing in a cluster. The log acknowledges an event later, and the worker serves other clients until then.
//!
//! The events of a request are passed to the engine in order, without waiting for acknowledgements in between. The response is sent
//! when the log has accepted all of them or has refused one.

use std::collections::VecDeque;

use fermata_config::LogLevel;
use fermata_engine::missed;
use fermata_engine::{
    Ack, Busy, EventId, Message, PublishFailure, Publisher, Publishing, RequestId,
};

use crate::gateway::Gateway;
use crate::posts::{PendingRecord, Post, Publication, Reply};

/// Maximum number of waiting posts of a worker. Further posts are refused immediately.
const POSTS_MAX: usize = 1024;
/// Delay in milliseconds before an event that found no room is tried again.
const RETRY_MS: u64 = 5;

impl Gateway<'_> {
    /// Returns true if publications have to wait for a cluster's log.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.worker.channels.cluster_node().is_some()
    }

    /// Publishes events, and responds to the request when all of them are complete.
    pub(crate) fn post(&mut self, reply: Reply, left: VecDeque<Publication>) {
        let began_ms = self.worker.net.now_ms();
        let mut post = Post {
            reply,
            left,
            pending: 0,
            began_ms,
            is_deferred: false,
            id: None,
            failure: None,
        };
        if self.hub.posts.posts.len() >= POSTS_MAX {
            let cause = "too many publishers wait for the log of the cluster; publish again";
            if let Reply::Nothing = post.reply {
                let line = format!("cannot publish an event to its shared channel: {cause}");
                self.worker.net.log(LogLevel::Warning, &line);
            }
            post.failure = Some(Busy::Embedder(cause).into());
            self.answer_post(post);
            return;
        }
        let number = self.hub.posts.number();
        self.hub.posts.posts.insert(number, post);
        self.hand_over(number);
    }

    /// Handles acknowledgements of the log, and retries events that found no room.
    pub(crate) fn go_on_publishing(&mut self) {
        while let Some(user) = self.worker.channels.next_published_beside() {
            self.end_pending_record(user);
        }
        let now_ms = self.worker.net.now_ms();
        if self.hub.posts.due_ms.is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        self.hub.posts.due_ms = None;
        let waiting: Vec<u64> = self.hub.posts.pending_records.keys().copied().collect();
        for user in waiting {
            self.end_pending_record(user);
        }
        let mut posts: Vec<u64> = self.hub.posts.posts.keys().copied().collect();
        // Retry posts in the order of their arrival.
        posts.sort_unstable();
        for number in posts {
            self.hand_over(number);
        }
    }

    /// Handles a client that has left. Returns false if its request does not wait here.
    pub(crate) fn forget_publisher(&mut self, handle: RequestId) -> bool {
        let post =
            { self.hub.posts.posts.values_mut() }.find(|post| post.reply.request() == Some(handle));
        let Some(post) = post.filter(|post| post.is_deferred) else {
            return false;
        };
        // Keep the post: its events are still published, but no response is sent.
        post.reply = Reply::Nothing;
        post.is_deferred = false;
        self.worker.drop_request(handle);
        true
    }

    /// Passes the remaining events of a post to the engine, until one finds no room.
    fn hand_over(&mut self, number: u64) {
        let wait_ms = self.worker.settings().publish_wait_ms_max;
        loop {
            let user = self.hub.posts.number();
            let Some(post) = self.hub.posts.posts.get_mut(&number) else {
                return missed(());
            };
            let Some(publication) = post.left.pop_front() else {
                break;
            };
            let message = Message {
                name: publication.name.as_deref().map(str::as_bytes),
                data: publication.data.as_bytes(),
            };
            let is_first = post.id.is_none() && post.pending == 0;
            let began = self.worker.begin_publish_except_id(
                publication.channel.as_bytes(),
                message,
                publication.except.as_bytes(),
                (Ack::Cluster, Some(Publisher::Beside(user)), post.began_ms),
            );
            match began {
                Ok(Publishing::Done(id)) => note_id(post, is_first, &id),
                Ok(Publishing::Pending(record)) => {
                    post.pending += 1;
                    let until_ms = post.began_ms + wait_ms;
                    let pending_record = PendingRecord {
                        post: number,
                        record,
                        is_first,
                        is_essential: publication.is_essential,
                    };
                    self.hub.posts.pending_records.insert(user, pending_record);
                    self.hub.posts.look_at(until_ms);
                }
                Ok(Publishing::Later) => {
                    post.left.push_front(publication);
                    let now_ms = self.worker.net.now_ms();
                    self.hub.posts.look_at(now_ms + RETRY_MS);
                    break;
                }
                Err(failure) => self.note_failure(number, publication.is_essential, failure),
            }
        }
        self.settle_post(number);
    }

    /// Completes a record if the log has acknowledged or refused it, or if its wait has timed out.
    fn end_pending_record(&mut self, user: u64) {
        let posts = &mut self.hub.posts;
        let Some(pending_record) = posts.pending_records.get(&user) else {
            // An earlier check has already completed the record.
            return;
        };
        let (number, is_first) = (pending_record.post, pending_record.is_first);
        let Some(post) = posts.posts.get_mut(&number) else {
            return missed(());
        };
        let Some(outcome) = self
            .worker
            .end_publish(pending_record.record, post.began_ms)
        else {
            let until_ms = post.began_ms + self.worker.settings().publish_wait_ms_max;
            posts.look_at(until_ms);
            return;
        };
        post.pending -= 1;
        let is_essential = pending_record.is_essential;
        posts.pending_records.remove(&user);
        match outcome {
            Ok(id) => note_id(post, is_first, &id),
            Err(failure) => self.note_failure(number, is_essential, failure),
        }
        self.settle_post(number);
    }

    fn note_failure(&mut self, number: u64, is_essential: bool, failure: PublishFailure) {
        let Some(post) = self.hub.posts.posts.get_mut(&number) else {
            return missed(());
        };
        if is_essential && !matches!(post.reply, Reply::Nothing) {
            post.left.clear();
            post.failure = Some(failure);
            return;
        }
        let line = format!("cannot publish an event to its shared channel: {failure}");
        self.worker.net.log(LogLevel::Warning, &line);
    }

    /// Responds if the post is complete; otherwise defers the request.
    fn settle_post(&mut self, number: u64) {
        let Some(post) = self.hub.posts.posts.get_mut(&number) else {
            return missed(());
        };
        if post.left.is_empty() && post.pending == 0 {
            if let Some(post) = self.hub.posts.posts.remove(&number) {
                self.answer_post(post);
            }
            return;
        }
        if let Some(request) = post.reply.request()
            && !std::mem::replace(&mut post.is_deferred, true)
        {
            // An error means that the client has left, which `Event::Gone` reports.
            let _ = self.worker.defer(request);
        }
    }

    fn answer_post(&mut self, post: Post) {
        let failure = post.failure;
        let handle = match post.reply {
            Reply::Nothing => return,
            Reply::Events {
                request,
                app,
                events,
                is_batch,
            } => {
                self.answer_events(request, app, &events, is_batch, failure);
                request
            }
            Reply::Update {
                request,
                given,
                headers,
            } => {
                let id = post.id.unwrap_or_default();
                let own = |id: String| match &self.hub.mercure {
                    Some(mercure_hub) => mercure_hub.id_of(&id),
                    None => id,
                };
                let id = given.unwrap_or_else(|| own(id));
                self.answer_update(request, failure.map_or(Ok(id), Err), headers);
                request
            }
        };
        if post.is_deferred {
            self.worker.http.settle_request(handle);
        }
    }
}

fn note_id(post: &mut Post, is_first: bool, id: &EventId) {
    if is_first {
        post.id = Some(id.as_str().to_owned());
    }
}
