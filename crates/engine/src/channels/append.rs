//! Appending to the ring, for publishers that can wait for room.

use std::time::Duration;

use fermata_hub::{Kind, Message as Record, Owner, PublishError, Ring, Subscriber};
use fermata_io::Driver;

use crate::admin::stats::Counter;
use crate::admin::trace::Span;
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::cluster::Ack;
use crate::channels::notes::note;
use crate::channels::publish::{
    EventId, Message, PublishFailure, Retry, Wait, Waits, check_channel, check_message,
};
use crate::http::Http;
use crate::net::Net;

/// Pause of a publisher while a worker is behind: short, because that worker is running.
const BEHIND_WAIT: Duration = Duration::from_micros(500);

impl<D: Driver> Net<D> {
    /// Counts a completed publish.
    pub(crate) fn count_published(&mut self, failure: Option<&PublishFailure>) {
        let counter = match failure {
            None => Counter::Published,
            Some(PublishFailure::Misuse(_)) => Counter::PublishMisuse,
            Some(PublishFailure::Backpressure(_)) => Counter::PublishBackpressure,
        };
        self.counts.add(counter, 1);
    }
}

impl Channels {
    /// Publishes to all subscribers except `except`, and counts the publish.
    pub(crate) fn publish_counted<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        channel: &[u8],
        message: Message<'_>,
        except: Option<Subscriber>,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let span = to.http.begin_publish_span(to.net, channel, &message);
        let outcome = self.append(to, channel, message, except, ack);
        to.http.trace.end_publish(span, outcome.as_ref());
        to.net.count_published(outcome.as_ref().err());
        outcome
    }

    /// Builds the record of a message, or returns why the message is invalid.
    pub(crate) fn record<'a>(
        &self,
        channel: &'a [u8],
        message: Message<'a>,
    ) -> Result<Record<'a>, PublishFailure> {
        check_channel(channel)?;
        check_message(&message)?;
        let Message { name, data } = message;
        Ok(Record {
            channel,
            kind: Kind::Message,
            name,
            data,
        })
    }

    fn append<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        channel: &[u8],
        message: Message<'_>,
        except: Option<Subscriber>,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let record = self.record(channel, message)?;
        if self.outbox.is_some() {
            return self.put_in_log(to, &record, except, ack);
        }
        let seq = self.put(to, &record, except)?;
        Ok(self.event_id(seq))
    }

    /// Appends a record about a subscriber, waiting for room.
    pub(crate) fn put<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        record: &Record<'_>,
        about: Option<Subscriber>,
    ) -> Result<u64, PublishFailure> {
        let unix_ms = to.net.driver.unix_ms();
        self.with_room(to, |ring, owner| {
            ring.publish_about(owner, record, about, unix_ms)
        })
    }

    /// Appends to the ring by `attempt`, waits for room while a worker is behind, and wakes the
    /// workers that have to read it.
    pub(crate) fn with_room<T, D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        mut attempt: impl FnMut(&mut Ring, &Owner) -> Result<T, PublishError>,
    ) -> Result<T, PublishFailure> {
        let mut wait = Wait::default();
        loop {
            let error = match attempt(&mut self.ring, &self.owner) {
                Ok(value) => {
                    self.wake_workers();
                    return Ok(value);
                }
                Err(error) => error,
            };
            let with = Waits {
                now_ms: to.net.driver.refresh_now(),
                unix_ms: to.net.driver.unix_ms(),
                shared: &to.net.handover.shared,
                counts: &mut to.net.counts,
                log: &mut to.net.log,
            };
            match self.wait_for_room(&mut wait, &error, with)? {
                Retry::CatchUp => self.catch_up(to),
                Retry::Sleep => {
                    self.wake_workers();
                    // This worker waits for a stalled worker. Send a heartbeat, so that the master
                    // does not count this one as stalled too.
                    to.net.handover.shared.beat(to.net.slot);
                    std::thread::sleep(BEHIND_WAIT);
                }
            }
        }
    }

    /// See `Worker::send_to_workers`.
    pub(crate) fn send_to_workers<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        data: &[u8],
    ) -> Result<usize, PublishFailure> {
        let others = self.other_workers(&to.net.handover.shared);
        for channel in &others {
            let record = Record {
                channel,
                kind: Kind::Direct,
                name: None,
                data,
            };
            self.put(to, &record, Some(Subscriber::WORKER))?;
        }
        Ok(others.len())
    }

    /// See `Worker::keep_note`.
    pub(crate) fn keep_note<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        data: &[u8],
    ) -> Result<(), PublishFailure> {
        self.put(to, &note(data), None)?;
        Ok(())
    }
}

impl Http {
    /// Starts the span of a publish: a child of its request's span, or a separate one. `None` if it
    /// is not recorded.
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
        let request = handle.and_then(|handle| self.recorded(net, handle));
        self.trace.begin_publish(request, channel, message.data)
    }
}
