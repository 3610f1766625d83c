//! What an embedder does with channels: publishing, history, notices to other workers, and clients that an edge holds.

use std::time::Duration;

use fermata_hub::{Kind, Message as Record, Owner, PublishError, Ring, Subscriber};
use fermata_io::Driver;
use fermata_proto::sse;

use crate::admin::stats::Counter;
use crate::admin::trace::Span;
use crate::channels::cluster::Ack;
use crate::channels::hold::{Hold, HoldError};
use crate::channels::notes::note;
use crate::channels::opening::{Last, Opening};
use crate::channels::publish::{
    EventId, Message, Past, PublishFailure, Retry, Wait, Waits, check_channel, check_message,
};
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::respond::Gone;
use crate::net::Net;
use crate::websocket::parse_id;
use crate::worker::Worker;

/// Waits of a publisher for a worker that is behind: short, because that worker is running.
const BEHIND_WAIT: Duration = Duration::from_micros(500);

impl<D: Driver> Net<D> {
    /// Counts a publish that is over.
    pub(crate) fn count_published(&mut self, failure: Option<&PublishFailure>) {
        let counter = match failure {
            None => Counter::Published,
            Some(PublishFailure::Misuse(_)) => Counter::PublishMisuse,
            Some(PublishFailure::Backpressure(_)) => Counter::PublishBackpressure,
        };
        self.counts.add(counter, 1);
    }
}

impl<D: Driver> Net<D> {
    /// Whether a request is a HEAD, which holds nobody.
    pub fn is_head(&self, handle: u64) -> bool {
        self.open_request(handle)
            .ok()
            .and_then(|index| self.connections.exchange(index))
            .is_some_and(|it| it.is_head)
    }
}

impl Waiting {
    /// What another worker has told, of the last `Event::Told`.
    pub fn told(&self) -> &[u8] {
        &self.told
    }
}

impl<D: Driver> Worker<D> {
    /// Appends a message to a channel. When it returns, the message has been appended: every
    /// subscriber in every worker gets it, or a gap event.
    pub fn publish(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
    ) -> Result<EventId, PublishFailure> {
        self.publish_except(channel, message, 0)
    }

    /// The same for all subscribers but one: a socket of this worker, by its handle; 0 = nobody.
    pub fn publish_except(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: u64,
    ) -> Result<EventId, PublishFailure> {
        let except = self.channels.excepted(&self.net, except);
        self.publish_counted(channel, message, except, Ack::Cluster)
    }

    /// The same where the caller says what is waited for, which makes a difference only in a cluster. Without waiting the id is
    /// empty there.
    pub fn publish_acknowledged(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: u64,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let except = self.channels.excepted(&self.net, except);
        self.publish_counted(channel, message, except, ack)
    }

    /// The same for all subscribers but a socket of any worker, by its id; nobody is left out when it is no id.
    pub fn publish_except_id(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        id: &[u8],
    ) -> Result<EventId, PublishFailure> {
        let except = parse_id(id).map(|(_, subscriber)| subscriber);
        self.publish_counted(channel, message, except, Ack::Cluster)
    }

    fn publish_counted(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: Option<Subscriber>,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let span = self.http.begin_publish_span(&self.net, channel, &message);
        let outcome = self.append(channel, message, except, ack);
        self.http.trace.end_publish(span, outcome.as_ref());
        self.net.count_published(outcome.as_ref().err());
        outcome
    }

    /// Names the request whose handler is about to publish; 0 = none. Without it that is the one that was handed out last, which
    /// is another one where handlers wait.
    pub fn publish_for(&mut self, handle: u64) {
        if self.http.trace.has_spans() {
            self.http.publisher = Some(handle);
        }
    }

    /// The record of a message, if it is one.
    pub(crate) fn record<'a>(
        &self,
        channel: &'a [u8],
        message: Message<'a>,
    ) -> Result<Record<'a>, PublishFailure> {
        check_channel(channel).map_err(PublishFailure::Misuse)?;
        check_message(&message).map_err(PublishFailure::Misuse)?;
        let Message { name, data } = message;
        Ok(Record {
            channel,
            kind: Kind::Message,
            name,
            data,
        })
    }

    fn append(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: Option<Subscriber>,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let record = self.record(channel, message)?;
        if self.channels.outbox.is_some() {
            return self.put_in_log(&record, except, ack);
        }
        let seq = self.put(&record, except)?;
        Ok(self.channels.event_id(seq))
    }

    /// Appends a record that is about a subscriber, when there is room.
    pub(crate) fn put(
        &mut self,
        record: &Record<'_>,
        about: Option<Subscriber>,
    ) -> Result<u64, PublishFailure> {
        let unix_ms = self.net.driver.unix_ms();
        self.with_room(|ring, owner| ring.publish_about(owner, record, about, unix_ms))
    }

    /// Appends to the ring by `attempt`, waiting for room while a worker is behind, and wakes who
    /// has to read it.
    pub(crate) fn with_room<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Ring, &Owner) -> Result<T, PublishError>,
    ) -> Result<T, PublishFailure> {
        let mut wait = Wait::default();
        loop {
            let channels = &mut self.channels;
            let error = match attempt(&mut channels.ring, &channels.owner) {
                Ok(value) => {
                    channels.wake_workers();
                    return Ok(value);
                }
                Err(error) => error,
            };
            let with = Waits {
                now_ms: self.net.driver.refresh_now(),
                unix_ms: self.net.driver.unix_ms(),
                shared: &self.reporter.shared,
                counts: &mut self.net.counts,
                log: &mut self.net.log,
            };
            match channels.wait_for_room(&mut wait, &error, with)? {
                Retry::CatchUp => self.catch_up(),
                Retry::Sleep => {
                    channels.wake_workers();
                    // Whoever waits for a stalled worker is not stalled itself.
                    self.reporter.shared.beat(self.net.slot);
                    std::thread::sleep(BEHIND_WAIT);
                }
            }
        }
    }

    /// The newest messages of a channel, oldest first: those after `since` (all that are kept when
    /// it is `None` or of another server's life), at most `count_max`.
    pub fn history(
        &mut self,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
    ) -> Result<Vec<Past>, String> {
        let unix_ms = self.net.driver.unix_ms();
        self.channels.history(channel, since, count_max, unix_ms)
    }

    /// The newest messages of a channel as far as this worker has read the ring: what comes later still comes to whoever
    /// subscribes now.
    pub fn history_read(&mut self, channel: &[u8], count_max: usize) -> Result<Vec<Past>, String> {
        let unix_ms = self.net.driver.unix_ms();
        self.channels.history_read(channel, count_max, unix_ms)
    }

    /// Tells all other workers something: each has it as [`Event::Told`](crate::Event::Told). Returns how many they are.
    ///
    /// # Errors
    /// The ring has no room; those before may have been told.
    pub fn tell_workers(&mut self, data: &[u8]) -> Result<usize, PublishFailure> {
        let others = self.channels.other_workers(&self.reporter.shared);
        for channel in &others {
            let record = Record {
                channel,
                kind: Kind::Direct,
                name: None,
                data,
            };
            self.put(&record, Some(Subscriber::WORKER))?;
        }
        Ok(others.len())
    }

    /// Keeps something for the worker that comes after this one.
    ///
    /// # Errors
    /// The ring has no room, or the note is larger than `event_bytes_max`.
    pub fn keep_note(&mut self, data: &[u8]) -> Result<(), PublishFailure> {
        self.put(&note(data), None)?;
        Ok(())
    }

    /// The newest notes, oldest first.
    pub fn notes(&mut self, count_max: usize) -> Vec<Past> {
        self.channels.notes(count_max, self.net.driver.unix_ms())
    }

    /// What a client gets first that is held elsewhere. `lasts` is what the edge says of a client that it holds already
    /// and that misses something: then only that is wanted.
    ///
    /// # Errors
    /// As `hold`.
    pub fn opening(&mut self, hold: &Hold<'_>, lasts: &[Last]) -> Result<Opening, HoldError> {
        let unix_ms = self.net.driver.unix_ms();
        let counts = &mut self.net.counts;
        self.channels.opening(hold, lasts, unix_ms, counts)
    }
}

impl Http {
    /// Answers a request with what its client gets first and the instruction to hold it.
    ///
    /// # Errors
    /// The request is gone.
    pub fn respond_elsewhere<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: u64,
        hold: &Hold<'_>,
        instruction: &[(&str, Vec<u8>)],
        body: &[u8],
    ) -> Result<(), Gone> {
        let index = net.open_request(handle)?;
        let instruction = instruction
            .iter()
            .map(|(name, value)| (name.as_bytes(), &value[..]));
        let headers: Vec<_> = hold.all_headers().chain(instruction).collect();
        self.answer(
            net,
            index,
            200,
            Some(sse::CONTENT_TYPE),
            headers.into_iter(),
            body,
        );
        Ok(())
    }
}

impl Http {
    /// The span of a publish, when it is recorded: as its request is, or by itself.
    pub(crate) fn begin_publish_span<D: Driver>(
        &mut self,
        net: &Net<D>,
        channel: &[u8],
        message: &Message<'_>,
    ) -> Option<Box<Span>> {
        if !self.trace.has_spans() {
            return None;
        }
        let handle = self.publisher.take().unwrap_or(self.lent);
        let request = self.recorded(net, handle);
        self.trace.begin_publish(request, channel, message.data)
    }
}
