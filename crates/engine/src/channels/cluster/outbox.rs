//! Publishing to the log: a record goes into the outbox, and the worker waits for what the log says.

use std::time::Duration;

use fermata_hub::{Ids, Message as Record, PublishError, Subscriber};
use fermata_io::Driver;

use super::memory::{Answer, MARK_BYTES, READER_SLOT};
use crate::channels::Channels;
use crate::channels::publish::{EventId, PublishFailure};
use crate::worker::Worker;

/// From one look for the log's answer to the next. It takes a fifth of a millisecond at best.
const LOOK: Duration = Duration::from_micros(50);

/// The part of the ring that a worker leaves unread while it waits: the bridge must find room.
const UNREAD_PART: u64 = 4;

impl Channels {
    /// Whether what is published reaches all for whom it is.
    pub fn is_log_ready(&self) -> bool {
        self.outbox
            .as_ref()
            .is_none_or(|outbox| outbox.state.is_ready())
    }
}

impl<D: Driver> Worker<D> {
    /// Publishes to the log. When it returns, the log has the record.
    pub(crate) fn put_in_log(
        &mut self,
        record: &Record<'_>,
        except: Option<Subscriber>,
    ) -> Result<EventId, PublishFailure> {
        let bytes = record.data.len() + record.name.map_or(0, <[u8]>::len);
        let max = self.settings.event_bytes_max;
        if bytes > max {
            let error = PublishError::TooLarge { bytes, max };
            return Err(PublishFailure::Misuse(format!("{error} (event_bytes_max)")));
        }
        let began_ms = self.net.driver.refresh_now();
        self.wait_for_log(began_ms)?;
        let outbox = self.put_in_outbox(record, except, began_ms)?;
        loop {
            let (slot, wait_ms) = (self.slot, self.settings.publish_wait_ms_max);
            let state = self.channels.outbox.as_ref().map(|outbox| outbox.state);
            match state.and_then(|state| state.answer_of(slot, outbox)) {
                Some(Answer::Accepted(place)) => {
                    return Ok(EventId::new(&Ids::new(place.epoch), place.seq));
                }
                Some(Answer::Refused) => {
                    let cause =
                        "the log of the cluster does not take the event; the server's log says why";
                    return Err(PublishFailure::Backpressure(cause.to_owned()));
                }
                None if self.net.driver.refresh_now() - began_ms >= wait_ms => {
                    return Err(PublishFailure::Backpressure(format!(
                        "the log of the cluster has not acknowledged the event; waited for publish_wait_ms_max ({wait_ms} ms). \
                         It may have been published all the same"
                    )));
                }
                None => self.pause_for_log(),
            }
        }
    }

    /// Waits until the log is there; not at all when it has been gone for as long as a publisher waits.
    fn wait_for_log(&mut self, began_ms: u64) -> Result<(), PublishFailure> {
        let wait_ms = self.settings.publish_wait_ms_max;
        loop {
            let now_ms = self.net.driver.refresh_now();
            let away_ms = match &self.channels.outbox {
                Some(outbox) if !outbox.state.is_ready() => {
                    outbox.state.away_ms(fermata_io::clock::monotonic_ms())
                }
                _ => return Ok(()),
            };
            if away_ms >= wait_ms || now_ms - began_ms >= wait_ms {
                return Err(PublishFailure::Backpressure(format!(
                    "the log of the cluster is not there for {away_ms} ms (publish_wait_ms_max is {wait_ms} ms); the event was \
                     not published"
                )));
            }
            self.pause_for_log();
        }
    }

    fn put_in_outbox(
        &mut self,
        record: &Record<'_>,
        except: Option<Subscriber>,
        began_ms: u64,
    ) -> Result<u64, PublishFailure> {
        let mut name = Vec::with_capacity(MARK_BYTES + record.name.map_or(0, <[u8]>::len));
        name.extend_from_slice(&self.slot.to_le_bytes());
        name.push(u8::from(record.name.is_some()));
        name.extend_from_slice(record.name.unwrap_or_default());
        let record = Record {
            name: Some(&name),
            ..*record
        };
        let unix_ms = fermata_io::clock::unix_ms();
        loop {
            let (channels, wait_ms) = (&mut self.channels, self.settings.publish_wait_ms_max);
            let Some(outbox) = &mut channels.outbox else {
                let cause = "there is no outbox";
                return Err(PublishFailure::Backpressure(cause.to_owned()));
            };
            let error = match outbox
                .ring
                .publish_about(&channels.owner, &record, except, unix_ms)
            {
                Ok(seq) => {
                    if outbox.ring.wake_list() & 1 << READER_SLOT != 0 {
                        outbox.waker.wake();
                    }
                    return Ok(seq);
                }
                Err(error @ (PublishError::TooLarge { .. } | PublishError::ChannelName { .. })) => {
                    return Err(PublishFailure::Misuse(error.to_string()));
                }
                Err(error) => error,
            };
            if self.net.driver.refresh_now() - began_ms >= wait_ms {
                let cause = match error {
                    PublishError::Behind { .. } => {
                        "the outbox is full of events that the log has not taken".to_owned()
                    }
                    error => error.to_string(),
                };
                return Err(PublishFailure::Backpressure(format!(
                    "{cause}; waited for publish_wait_ms_max ({wait_ms} ms). The event was not published"
                )));
            }
            self.pause_for_log();
        }
    }

    /// A moment in which the bridge goes on. This worker must not be who it waits for.
    fn pause_for_log(&mut self) {
        let ring = &self.channels.ring;
        if ring.lag_bytes(u32::from(self.slot)) > ring.bytes() / UNREAD_PART {
            self.catch_up();
        }
        // Whoever waits for the log is not stalled itself.
        self.reporter.shared.beat(self.slot);
        std::thread::sleep(LOOK);
    }
}
