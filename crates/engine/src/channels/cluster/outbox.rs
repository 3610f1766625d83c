//! Publishing to the cluster log: a record goes into the outbox, and its publisher waits for the
//! log's reply. A handler that can wait leaves the worker free; any other publisher blocks it.

use std::time::Duration;

use fermata_hub::{
    Backlog, FromLog, Ids, Message as Record, Missed, PresenceError, PublishError, Subscriber,
};
use fermata_io::{Driver, clock};

use super::facts::{Note, member_note, put_note};
use super::figures::ClusterFigures;
use super::memory::{MARK_BYTES, NOBODY, Outbox, READER_SLOT};
use super::pending::Publisher;
use super::state::Answer;
use crate::channels::Channels;
use crate::channels::busy::Busy;
use crate::channels::clients::Clients;
use crate::channels::encode::Encoder;
use crate::channels::publish::{EventId, Message, PublishFailure};
use crate::http::Http;
use crate::id::PublishId;
use crate::misuse::Misuse;
use crate::net::Net;

/// Polling interval of a publisher that blocks the worker. A reply takes at least 200 µs.
const LOOK: Duration = Duration::from_micros(50);

/// Part of the ring that a waiting worker may leave unread, as a divisor: the bridge needs room.
const UNREAD_PART: u64 = 4;

/// Acknowledgement that a publisher waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// The log has stored the event.
    Cluster,
    /// The event is in the outbox. It is lost if the log stays unreachable or refuses it.
    Local,
}

/// Result of starting to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishing {
    /// Published.
    Done(EventId),
    /// Waiting for the log's reply: pass this id to [`Worker::end_publish`].
    Pending(PublishId),
    /// The log is unreachable or full: try again shortly.
    Later,
}

/// Result of writing to the outbox.
enum Put {
    InOutbox(PublishId),
    Later(PublishError),
}

impl Channels {
    /// Returns the counters of the bridge; `None` without a cluster.
    pub(crate) fn cluster_figures(&self) -> Option<ClusterFigures> {
        let outbox = self.outbox.as_ref()?;
        Some(outbox.state.figures(clock::monotonic_ms()))
    }

    /// Returns true if published events reach all subscribers of the cluster.
    pub fn is_log_ready(&self) -> bool {
        self.outbox
            .as_ref()
            .is_none_or(|outbox| outbox.state.is_ready(clock::monotonic_ms()))
    }

    /// Returns why clients of this server do not receive events of the log; `None` if they do.
    pub(crate) fn log_trouble(&self) -> Option<String> {
        let state = self.outbox.as_ref()?.state;
        if !state.says_ready() {
            let away = "the log of the cluster is unreachable";
            return Some(match state.cause() {
                Some(cause) => format!("{away}: {cause}"),
                None => away.to_owned(),
            });
        }
        if let Some(ms) = state.stuck_ms(clock::monotonic_ms()) {
            return Some(format!(
                "the bridge process, which reads the log of the cluster, is stuck for {ms} ms"
            ));
        }
        let slot = state.blocked_by()?;
        let error = PublishError::Behind { slot };
        Some(format!("cannot read the log of the cluster: {error}"))
    }

    /// Returns true if all members are known; always true without a cluster.
    pub fn is_presence_known(&self) -> bool {
        self.outbox
            .as_ref()
            .is_none_or(|outbox| outbox.state.is_presence_known())
    }

    /// Restarts the waiting time of a client whose last event id has not reached this machine,
    /// while the log is unreachable or not read completely.
    pub(crate) fn wait_for_log(&self, backlog: &mut Backlog) {
        if backlog.is_waiting() && !self.is_log_ready() {
            backlog.wait_anew();
        }
    }

    /// Passes missed records to `each`, including those that only the log has.
    pub(crate) fn next_missed(
        &mut self,
        backlog: &mut Backlog,
        unix_ms: u64,
        each: &mut dyn FnMut(&mut Encoder, Missed<'_>) -> bool,
    ) {
        self.wait_for_log(backlog);
        let up_to = self.reader.read_up_to();
        let log = self.outbox.as_mut().map(Outbox::past);
        let log = log.map(|log| -> &mut dyn FromLog { log });
        let encoder = &mut self.encoder;
        self.ring
            .next_missed_of_log(backlog, log, (up_to, unix_ms), &mut |missed| {
                each(encoder, missed)
            });
        if let Some(outbox) = &mut self.outbox
            && outbox.past.take_news()
        {
            outbox.waker.wake();
        }
    }

    /// Reads replies with past records. Returns true if there were any.
    pub(crate) fn take_past(&mut self) -> bool {
        self.outbox
            .as_mut()
            .is_some_and(|outbox| outbox.past.take_answers())
    }

    /// Reads replies of the bridge. Returns true if a handler waits for one of them.
    pub(crate) fn take_log_answers(&mut self) -> bool {
        let Some(outbox) = &mut self.outbox else {
            return false;
        };
        if outbox.state.has_answers(self.slot) {
            outbox.pending.take_answers(outbox.state, self.slot);
        }
        outbox.pending.has_news()
    }

    /// Checks that the cluster has room for a user of a channel. Machines that admit users
    /// concurrently may exceed the limit.
    pub(crate) fn check_member(
        &mut self,
        channel: &[u8],
        user: &[u8],
    ) -> Result<(), PresenceError> {
        let owner = self.owner;
        match &mut self.outbox {
            Some(outbox) => outbox.members().check_room(&owner, (channel, user)),
            None => Ok(()),
        }
    }

    /// Notifies other machines that a user's number of connections has changed. The client `except`
    /// receives no join event for this change.
    pub(crate) fn note_member(&mut self, channel: &[u8], user: &[u8], except: Option<Subscriber>) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        outbox.state.use_presence();
        let data = member_note(user);
        let data = &data[..];
        if !put_note(
            &mut outbox.ring,
            &self.owner,
            &Note { channel, data },
            except,
        ) {
            // The bridge detects the change by comparing tables.
            outbox.state.want_compare();
        }
        if outbox.ring.wake_list().contains(READER_SLOT) {
            outbox.waker.wake();
        }
    }

    /// Returns true if handlers wait for the log.
    pub(crate) fn has_pending_publishes(&self) -> bool {
        let outbox = self.outbox.as_ref();
        outbox.is_some_and(|outbox| !outbox.pending.is_empty())
    }

    /// Writes a record to the outbox.
    fn put_in_outbox(
        &mut self,
        record: &Record<'_>,
        except: Option<Subscriber>,
        ack: Ack,
        publisher: Option<Publisher>,
    ) -> Result<Put, PublishFailure> {
        let Some(outbox) = &mut self.outbox else {
            return Err(Busy::NoOutbox.into());
        };
        let slot = match ack {
            Ack::Cluster => self.slot,
            Ack::Local => NOBODY,
        };
        let name = &mut outbox.name;
        name.clear();
        let [low, high] = slot.to_le_bytes();
        let mark: [u8; MARK_BYTES] = [low, high, u8::from(record.name.is_some())];
        name.extend_from_slice(&mark);
        name.extend_from_slice(record.name.unwrap_or_default());
        let record = Record {
            name: Some(name),
            ..*record
        };
        let put = outbox
            .ring
            .publish_about(&self.owner, &record, except, clock::unix_ms());
        match put {
            Ok(seq) => {
                let id = PublishId::new(seq);
                if ack == Ack::Cluster {
                    outbox.pending.add(id, publisher);
                }
                if outbox.ring.wake_list().contains(READER_SLOT) {
                    outbox.waker.wake();
                }
                Ok(Put::InOutbox(id))
            }
            Err(error @ (PublishError::TooLarge { .. } | PublishError::ChannelName { .. })) => {
                Err(Misuse::Record(error).into())
            }
            Err(error) => Ok(Put::Later(error)),
        }
    }

    /// Returns true if a publisher that started at `began_ms` may continue, and false if it has to
    /// wait.
    ///
    /// # Errors
    /// The publisher has waited for `publish_wait_ms_max`.
    fn may_publish(&self, began_ms: u64, now_ms: u64) -> Result<bool, PublishFailure> {
        let wait_ms = self.settings.publish_wait_ms_max;
        let (Some(outbox), monotonic_ms) = (&self.outbox, clock::monotonic_ms()) else {
            return Ok(true);
        };
        if outbox.state.is_ready(monotonic_ms) {
            return Ok(true);
        }
        // Fail immediately if the log has been unreachable for `publish_wait_ms_max` already.
        // Otherwise every publisher would wait for this time during an outage.
        let away_ms = outbox.state.away_ms(monotonic_ms);
        if away_ms >= wait_ms || now_ms - began_ms >= wait_ms {
            return Err(Busy::LogAway { away_ms, wait_ms }.into());
        }
        Ok(false)
    }

    /// Checks that a publisher that finds no room in the outbox may continue to wait.
    ///
    /// # Errors
    /// The publisher has waited for `publish_wait_ms_max`.
    fn check_room(
        &self,
        &cause: &PublishError,
        began_ms: u64,
        now_ms: u64,
    ) -> Result<(), PublishFailure> {
        let wait_ms = self.settings.publish_wait_ms_max;
        if now_ms - began_ms < wait_ms {
            return Ok(());
        }
        Err(Busy::OutboxWait { cause, wait_ms }.into())
    }

    /// Returns the result of a record; `None` if it is not known yet.
    fn outcome(
        &mut self,
        id: PublishId,
        began_ms: u64,
        now_ms: u64,
    ) -> Option<Result<EventId, PublishFailure>> {
        let wait_ms = self.settings.publish_wait_ms_max;
        self.take_log_answers();
        let pending = &mut self.outbox.as_mut()?.pending;
        let failure = match pending.take(id) {
            Some(Answer::Accepted(place)) => {
                return Some(Ok(EventId::new(&Ids::new(place.epoch), place.seq)));
            }
            Some(Answer::Refused) => Busy::LogRefused,
            Some(Answer::TooLarge { bytes, max }) => {
                return Some(Err(Misuse::LogEventBytes { bytes, max }.into()));
            }
            Some(Answer::Unknown) => Busy::TooOld,
            None if now_ms - began_ms >= wait_ms => {
                // The bridge may still send the record; its reply is then dropped.
                pending.forget(id);
                Busy::NotAcknowledged { wait_ms }
            }
            None => return None,
        };
        Some(Err(failure.into()))
    }
}

impl Channels {
    /// Returns the next [`Publisher::Program`] whose record has a result.
    pub fn next_published(&mut self) -> Option<u64> {
        self.outbox
            .as_mut()?
            .pending
            .next_over(Publisher::of_program)
    }

    /// Returns the next [`Publisher::Beside`] whose record has a result.
    pub fn next_published_beside(&mut self) -> Option<u64> {
        self.outbox
            .as_mut()?
            .pending
            .next_over(Publisher::beside_program)
    }

    /// Returns the number that identifies this server in its cluster; `None` without a cluster.
    pub fn cluster_node(&self) -> Option<u64> {
        self.outbox.as_ref().map(|outbox| outbox.node)
    }
}

impl Channels {
    /// See `Worker::begin_publish`.
    pub(crate) fn begin_publish<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        channel: &[u8],
        message: Message<'_>,
        except: Option<Subscriber>,
        (ack, publisher, began_ms): (Ack, Option<Publisher>, u64),
    ) -> Result<Publishing, PublishFailure> {
        if self.outbox.is_none() {
            let id = self.publish_counted(to, channel, message, except, ack)?;
            return Ok(Publishing::Done(id));
        }
        let span = to.http.begin_publish_span(to.net, channel, &message);
        let begun = self.record(channel, message).and_then(|record| {
            self.begin_in_log(to.net, &record, except, (ack, publisher, began_ms))
        });
        match &begun {
            Ok(Publishing::Done(id)) => {
                to.http.trace.end_publish(span, Ok(id));
                to.net.count_published(None);
            }
            Ok(Publishing::Pending(record)) => to.http.trace.await_publish(*record, span),
            Ok(Publishing::Later) => {}
            Err(failure) => {
                to.http.trace.end_publish(span, Err(failure));
                to.net.count_published(Some(failure));
            }
        }
        begun
    }

    /// See `Worker::end_publish`.
    pub(crate) fn end_publish<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        record: PublishId,
        began_ms: u64,
    ) -> Option<Result<EventId, PublishFailure>> {
        let now_ms = to.net.driver.refresh_now();
        let outcome = self.outcome(record, began_ms, now_ms)?;
        let span = to.http.trace.take_publish(record);
        to.http.trace.end_publish(span, outcome.as_ref());
        to.net.count_published(outcome.as_ref().err());
        Some(outcome)
    }

    /// See `Worker::forget_publish`.
    pub(crate) fn forget_publish(&mut self, http: &mut Http, record: PublishId) {
        http.trace.take_publish(record);
        if let Some(outbox) = &mut self.outbox {
            outbox.pending.forget(record);
        }
    }

    /// Publishes to the log, and blocks the worker until the log has replied.
    pub(crate) fn put_in_log<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        record: &Record<'_>,
        except: Option<Subscriber>,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let began_ms = to.net.driver.refresh_now();
        let outbox = loop {
            match self.begin_in_log(to.net, record, except, (ack, None, began_ms))? {
                Publishing::Done(id) => return Ok(id),
                Publishing::Pending(outbox) => break outbox,
                Publishing::Later => self.pause_for_log(to),
            }
        };
        loop {
            let now_ms = to.net.driver.refresh_now();
            if let Some(outcome) = self.outcome(outbox, began_ms, now_ms) {
                return outcome;
            }
            self.pause_for_log(to);
        }
    }

    /// Pauses so that the bridge can continue. First reads the ring if the bridge may wait for this
    /// worker.
    pub(super) fn pause_for_log<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        let ring = &self.ring;
        if ring.lag_bytes(u32::from(to.net.slot)) > ring.bytes() / UNREAD_PART {
            self.catch_up(to);
        }
        // This worker waits for the log. Send a heartbeat, so that the master does not count the
        // worker as stalled.
        to.net.handover.shared.beat(to.net.slot);
        std::thread::sleep(LOOK);
    }
}

impl Channels {
    fn begin_in_log<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        record: &Record<'_>,
        except: Option<Subscriber>,
        (ack, publisher, began_ms): (Ack, Option<Publisher>, u64),
    ) -> Result<Publishing, PublishFailure> {
        self.check_event_size(net, record)?;
        let channels = self;
        // `Ack::Local` does not wait for the log, so it needs no clock while the outbox has room.
        if ack == Ack::Cluster {
            let now_ms = net.driver.refresh_now();
            if !channels.may_publish(began_ms, now_ms)? {
                return Ok(Publishing::Later);
            }
            let outbox = channels.outbox.as_ref();
            if outbox.is_some_and(|outbox| outbox.pending.is_full()) {
                let error = PublishError::Behind { slot: READER_SLOT };
                channels.check_room(&error, began_ms, now_ms)?;
                return Ok(Publishing::Later);
            }
        }
        match channels.put_in_outbox(record, except, ack, publisher)? {
            Put::InOutbox(outbox) if ack == Ack::Cluster => Ok(Publishing::Pending(outbox)),
            Put::InOutbox(_) => Ok(Publishing::Done(EventId::UNKNOWN)),
            Put::Later(error) => {
                // 0: the publisher has not waited yet, so the clock was not read.
                if began_ms > 0 {
                    channels.check_room(&error, began_ms, net.driver.refresh_now())?;
                }
                Ok(Publishing::Later)
            }
        }
    }

    fn check_event_size<D: Driver>(
        &self,
        net: &Net<D>,
        record: &Record<'_>,
    ) -> Result<(), PublishFailure> {
        let bytes = record.data.len() + record.name.map_or(0, <[u8]>::len);
        let max = net.settings.event_bytes_max;
        if bytes > max {
            let error = PublishError::TooLarge { bytes, max };
            return Err(Misuse::Record(error).into());
        }
        Ok(())
    }
}
