//! Items that the shared log has not acknowledged, and the requests that wait for them.
//!
//! A publisher receives its response after the acknowledgement, as with the server's own `publish()`. The edge repeats the append
//! of items from ports without responses until the log accepts them.

use std::collections::{BTreeMap, HashMap};

use fermata_engine::{Busy, PublishFailure, PublishId, RequestId, WireId};
use fermata_grip::command;

use super::sequence::Queued;
use crate::control::Answer;

/// Maximum number of waiting requests; more are refused immediately.
const POSTS_MAX: usize = 1_024;

/// Interval at which requests are checked for time-outs.
const LOOK_MS: u64 = 100;

/// Maximum number of channels with a read position. Above it, the table is cleared, and channels are read again.
const CHANNELS_MAX: usize = 100_000;

/// Destination of a response.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The control port: the request, and the response to it on success.
    Control(RequestId, Answer),
    /// ZeroMQ: the connection, the envelope and the request.
    Command(WireId, Vec<Vec<u8>>, command::Request),
}

/// Reason why items were not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub text: String,
}

/// A publish request.
#[derive(Debug)]
pub(crate) struct Post {
    /// Destination of the response; `None` while the request is being handled.
    pub reply: Option<Reply>,
    /// Number of the request's items without an acknowledgement.
    pub left: usize,
    pub began_ms: u64,
    pub failure: Option<Refusal>,
}

/// An item without an acknowledgement.
#[derive(Debug)]
pub(crate) struct PendingRecord {
    pub queued: Queued,
    /// Id of the record in the outbox.
    pub record: PublishId,
    pub began_ms: u64,
}

/// Requests and items of the publishing worker.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    pub posts: HashMap<u64, Post>,
    /// Items by their `user` number, in the order of appending.
    pub pending_records: BTreeMap<u64, PendingRecord>,
    last: u64,
    /// Position by channel up to which items of other edges were read.
    read: HashMap<Vec<u8>, String>,
}

impl Posts {
    /// Returns true if the limit of requests is reached.
    pub fn is_full(&self) -> bool {
        self.posts.len() >= POSTS_MAX
    }

    /// Adds a request and returns its number.
    pub fn begin(&mut self, began_ms: u64) -> u64 {
        self.last += 1;
        let post = Post {
            reply: None,
            left: 0,
            began_ms,
            failure: None,
        };
        self.posts.insert(self.last, post);
        self.last
    }

    /// Returns the `user` number of the next item.
    pub fn user(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Counts a further item of a request.
    pub fn add_item(&mut self, number: u64) {
        if let Some(post) = self.posts.get_mut(&number) {
            post.left += 1;
        }
    }

    /// Ends an item of a request, with a failure if it was refused. Returns the request if this was its last item and a response is
    /// due.
    pub fn end_item(&mut self, number: u64, failure: Option<&Refusal>) -> Option<Post> {
        let post = self.posts.get_mut(&number)?;
        post.left = post.left.saturating_sub(1);
        post.failure = post.failure.take().or(failure.cloned());
        if post.left == 0 && post.reply.is_some() {
            self.posts.remove(&number)
        } else {
            None
        }
    }

    /// Registers the destination of a response. Returns the result if the request already ended.
    pub fn wait(
        &mut self,
        number: u64,
        reply: impl FnOnce() -> Reply,
    ) -> Option<Result<(), Refusal>> {
        let post = self.posts.get_mut(&number)?;
        if post.left > 0 {
            post.reply = Some(reply());
            return None;
        }
        let post = self.posts.remove(&number)?;
        Some(post.failure.map_or(Ok(()), Err))
    }

    /// Returns the earliest start time of these requests.
    pub fn began_ms(&self, numbers: &[u64]) -> Option<u64> {
        let posts = numbers.iter().filter_map(|it| self.posts.get(it));
        posts.map(|it| it.began_ms).min()
    }

    /// Returns the time of the next check for time-outs.
    pub fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let is_empty = self.pending_records.is_empty() && self.posts.is_empty();
        (!is_empty).then_some(now_ms + LOOK_MS)
    }

    /// Returns the items that timed out, by `user` number.
    pub fn overdue(&self, now_ms: u64, wait_ms: u64) -> Vec<u64> {
        let pending_records = self.pending_records.iter();
        pending_records
            .filter(|(_, it)| it.began_ms + wait_ms <= now_ms)
            .map(|(user, _)| *user)
            .collect()
    }

    /// Returns the last event of a channel that was read.
    pub fn read_up_to(&self, channel: &[u8]) -> Option<&str> {
        self.read.get(channel).map(String::as_str)
    }

    /// Sets the last event of a channel that was read.
    pub fn set_read(&mut self, channel: &[u8], id: String) {
        match self.read.get_mut(channel) {
            Some(read) => *read = id,
            None => {
                if self.read.len() >= CHANNELS_MAX {
                    self.read.clear();
                }
                self.read.insert(channel.to_vec(), id);
            }
        }
    }
}

/// Returns true if a repetition of the item would be refused for the same reason.
pub(crate) fn is_for_good(failure: &PublishFailure) -> bool {
    match failure {
        PublishFailure::Misuse(_) | PublishFailure::Backpressure(Busy::LogRefused) => true,
        PublishFailure::Backpressure(_) => false,
    }
}

impl From<&PublishFailure> for Refusal {
    fn from(failure: &PublishFailure) -> Self {
        let status = if is_for_good(failure) { 400 } else { 503 };
        Self {
            status,
            text: failure.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> Reply {
        Reply::Control(crate::ids::request(7), crate::control::unauthorized())
    }

    #[test]
    fn a_request_is_over_with_its_last_item() {
        let mut posts = Posts::default();
        let number = posts.begin(10);
        posts.add_item(number);
        posts.add_item(number);
        assert!(posts.end_item(number, None).is_none());
        assert_eq!(posts.wait(number, reply), None);
        assert_eq!(posts.due_ms(100), Some(100 + LOOK_MS));
        let refusal = Refusal {
            status: 503,
            text: "no".to_owned(),
        };
        let post = posts.end_item(number, Some(&refusal)).expect("it is over");
        assert_eq!(post.failure, Some(refusal));
        assert_eq!((posts.posts.len(), posts.due_ms(100)), (0, None));
    }

    #[test]
    fn what_the_log_refuses_for_good_is_no_try_later() {
        let wait_ms = 7;
        let refused = PublishFailure::from(Busy::LogRefused);
        let silent = PublishFailure::from(Busy::NotAcknowledged { wait_ms });
        let old = PublishFailure::from(Busy::TooOld);
        let status = |it| Refusal::from(it).status;
        assert_eq!([&refused, &silent, &old].map(status), [400, 503, 503]);
        assert_eq!(
            [&refused, &silent, &old].map(is_for_good),
            [true, false, false]
        );
    }

    #[test]
    fn a_request_that_is_over_at_once_does_not_wait() {
        let mut posts = Posts::default();
        let number = posts.begin(10);
        assert_eq!(posts.wait(number, reply), Some(Ok(())));
        let number = posts.begin(10);
        posts.add_item(number);
        assert!(posts.end_item(number, None).is_none());
        assert_eq!(posts.wait(number, reply), Some(Ok(())));
        assert!(posts.posts.is_empty());
    }

    #[test]
    fn so_many_channels_are_remembered() {
        let mut posts = Posts::default();
        for at in 0..=CHANNELS_MAX {
            posts.set_read(at.to_string().as_bytes(), "id".to_owned());
        }
        assert_eq!((posts.read.len(), posts.read_up_to(b"0")), (1, None));
    }
}
