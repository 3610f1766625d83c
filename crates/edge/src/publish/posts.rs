//! Items that the log of a cluster has not acknowledged, and the requests that wait for that.
//!
//! A publisher is answered when the log has its items, as with the server's own `publish()`. What comes by ports without
//! answers waits for nobody, and is handed over until the log takes it.

use std::collections::{BTreeMap, HashMap};

use fermata_engine::{Busy, PublishFailure, PublishId, RequestId, WireId};
use fermata_grip::command;

use super::sequence::Queued;
use crate::control::Answer;

/// Requests of publishers that wait; more are refused at once.
const POSTS_MAX: usize = 1_024;

/// How often requests are looked through for those whose time is over.
const LOOK_MS: u64 = 100;

/// Channels of which is remembered how far they were read; with more all are forgotten, and read once more.
const CHANNELS_MAX: usize = 100_000;

/// Where a request is answered in the end.
#[derive(Debug)]
pub(crate) enum Reply {
    /// At the control port: the request, and what it is answered when all is well.
    Control(RequestId, Answer),
    /// By ZeroMQ: the connection, the envelope and the request.
    Command(WireId, Vec<Vec<u8>>, command::Request),
}

/// Why items were not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub text: String,
}

/// What one request publishes.
#[derive(Debug)]
pub(crate) struct Post {
    /// `None` as long as it is still looked at.
    pub reply: Option<Reply>,
    /// Its items that the log has not acknowledged.
    pub left: usize,
    pub began_ms: u64,
    pub failure: Option<Refusal>,
}

/// An item that the log has not acknowledged.
#[derive(Debug)]
pub(crate) struct Flight {
    pub queued: Queued,
    /// Its place in the outbox.
    pub record: PublishId,
    pub began_ms: u64,
}

/// Those of the worker that publishes.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    pub posts: HashMap<u64, Post>,
    /// By the `user` of each, in the order in which they were handed over.
    pub flights: BTreeMap<u64, Flight>,
    last: u64,
    /// The event of each channel up to which it was read for items of other edges.
    read: HashMap<Vec<u8>, String>,
}

impl Posts {
    /// Whether one more would be too many.
    pub fn is_full(&self) -> bool {
        self.posts.len() >= POSTS_MAX
    }

    /// A request publishes; returns its number.
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

    /// What the engine calls the next item that is handed over.
    pub fn user(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// One more item of a request is on its way.
    pub fn add_item(&mut self, number: u64) {
        if let Some(post) = self.posts.get_mut(&number) {
            post.left += 1;
        }
    }

    /// An item of a request is acknowledged, or it is known why not. Returns the request when it is over and waits for that.
    pub fn end_item(&mut self, number: u64, failure: Option<&Refusal>) -> Option<Post> {
        let post = self.posts.get_mut(&number)?;
        post.left = post.left.saturating_sub(1);
        post.failure = post.failure.take().or(failure.cloned());
        match post.left == 0 && post.reply.is_some() {
            true => self.posts.remove(&number),
            false => None,
        }
    }

    /// Has a request be answered later, unless it is over already: then what became of it.
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

    /// Since when the first of these requests waits.
    pub fn began_ms(&self, numbers: &[u64]) -> Option<u64> {
        let posts = numbers.iter().filter_map(|it| self.posts.get(it));
        posts.map(|it| it.began_ms).min()
    }

    /// When it is to be looked for those whose time is over.
    pub fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let is_empty = self.flights.is_empty() && self.posts.is_empty();
        (!is_empty).then_some(now_ms + LOOK_MS)
    }

    /// The items whose time is over at a moment, each by its `user`.
    pub fn overdue(&self, now_ms: u64, wait_ms: u64) -> Vec<u64> {
        let flights = self.flights.iter();
        flights
            .filter(|(_, it)| it.began_ms + wait_ms <= now_ms)
            .map(|(user, _)| *user)
            .collect()
    }

    /// The event up to which a channel was read.
    pub fn read_up_to(&self, channel: &[u8]) -> Option<&str> {
        self.read.get(channel).map(String::as_str)
    }

    /// Remembers up to which event a channel was read.
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

/// Whether an item that was refused so would be refused each time.
pub(crate) fn is_for_good(failure: &PublishFailure) -> bool {
    match failure {
        PublishFailure::Misuse(_) | PublishFailure::Backpressure(Busy::LogRefused) => true,
        PublishFailure::Backpressure(_) => false,
    }
}

impl From<&PublishFailure> for Refusal {
    fn from(failure: &PublishFailure) -> Self {
        let status = match is_for_good(failure) {
            true => 400,
            false => 503,
        };
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
