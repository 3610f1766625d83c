//! Clients that somebody else holds: what a GRIP edge in front is to send first, and where it stands then.
//!
//! The edge subscribes to the channels and gets what is published from then on; what lies between the answer and its
//! subscription it finds out by the ids, and asks again.

use fermata_hub::{Backlog, IdRef, Missed, Previous, Seq};
use fermata_io::Driver;
use fermata_proto::sse;

use crate::admin::stats::Counter;
use crate::channels::encode;
use crate::channels::follow;
use crate::channels::hold::{Hold, HoldError};
use crate::http::respond::answer::Gone;
use crate::worker::Worker;

/// What the client gets first.
pub struct Opening {
    /// Events, and the position after them.
    pub body: Vec<u8>,
    /// For each channel the id of its newest event, which the body has or the client had: `None` when it is not known.
    pub newest: Vec<Option<String>>,
}

/// A channel, and the id of its last event that a client has had.
pub type Last = (Vec<u8>, Vec<u8>);

impl<D: Driver> Worker<D> {
    /// Whether a request is a HEAD, which holds nobody.
    pub fn is_head(&self, handle: u64) -> bool {
        self.open_request(handle)
            .ok()
            .and_then(|index| self.net.connections.at(index))
            .is_some_and(|connection| connection.is_head)
    }

    /// Answers a request with what its client gets first and the instruction to hold it.
    ///
    /// # Errors
    /// The request is gone.
    pub fn respond_elsewhere(
        &mut self,
        handle: u64,
        hold: &Hold<'_>,
        instruction: &[(&str, Vec<u8>)],
        body: &[u8],
    ) -> Result<(), Gone> {
        let index = self.open_request(handle)?;
        let instruction = instruction
            .iter()
            .map(|(name, value)| (name.as_bytes(), &value[..]));
        let headers: Vec<_> = hold.all_headers().chain(instruction).collect();
        self.answer(
            index,
            200,
            Some(sse::CONTENT_TYPE),
            headers.into_iter(),
            body,
        );
        Ok(())
    }

    /// What a client gets first that is held elsewhere. `lasts` is what the edge says of a client that it holds already
    /// and that misses something: then only that is wanted.
    ///
    /// # Errors
    /// As `hold`.
    pub fn opening(&mut self, hold: &Hold<'_>, lasts: &[Last]) -> Result<Opening, HoldError> {
        self.check(hold).map_err(HoldError::Misuse)?;
        let mut body = Vec::new();
        let newest = self.channels.ring.newest();
        let after = match lasts {
            [] => {
                for message in hold.with {
                    sse::event(&mut body, None, message.name, message.data);
                }
                let since = hold.since.map(|id| self.place(id));
                vec![self.begin(since, newest, &mut body); hold.channels.len()]
            }
            _ => {
                let mut after = Vec::new();
                let mut is_told = false;
                for channel in hold.channels {
                    let last = lasts.iter().find(|(name, _)| name == channel);
                    let place = last.map(|(_, id)| self.place(id));
                    let is_lost = place == Some(None);
                    let mut gap = Vec::new();
                    after.push(self.begin(place, newest, &mut gap));
                    if is_lost && !std::mem::replace(&mut is_told, true) {
                        body.append(&mut gap);
                    }
                }
                after
            }
        };
        self.write_between(hold.channels, &after, newest, &mut body);
        // A client that misses nothing keeps the position that it has.
        if lasts.is_empty() || !body.is_empty() {
            encode::position(&self.channels.encoder.ids, newest, &mut body);
        }
        let newest = hold.channels.iter().map(|channel| {
            let seq = match self.channels.ring.previous(channel, newest + 1) {
                Previous::At(seq) => seq,
                Previous::Beginning => 0,
                Previous::Unknown => return None,
            };
            Some(follow::text(&self.channels.encoder.ids, seq))
        });
        let newest = newest.collect();
        if lasts.is_empty() {
            self.net.counts.add(Counter::HoldsAtEdges, 1);
        }
        Ok(Opening { body, newest })
    }

    /// The place of an id; `None`: it is not one of ours.
    fn place(&self, id: &[u8]) -> Option<Seq> {
        match self.channels.ring.parse_id(id) {
            IdRef::Seq(seq) => Some(seq),
            IdRef::Foreign | IdRef::Invalid => None,
        }
    }

    /// After which place a client gets events. One whose id is not known is told so.
    fn begin(&mut self, place: Option<Option<Seq>>, newest: Seq, body: &mut Vec<u8>) -> Seq {
        match place {
            Some(Some(seq)) => seq,
            Some(None) => {
                self.net.counts.add(Counter::GapsUnknown, 1);
                encode::gap("unknown id", body);
                newest
            }
            None => newest,
        }
    }

    /// Appends what was published to the channels, each after its own place.
    fn write_between(
        &mut self,
        channels: &[&[u8]],
        after: &[Seq],
        newest: Seq,
        body: &mut Vec<u8>,
    ) {
        let behind = channels
            .iter()
            .zip(after)
            .filter(|(_, after)| **after < newest);
        let behind: Vec<(&[u8], Seq)> = behind.map(|(channel, after)| (*channel, *after)).collect();
        let Some(first) = behind.iter().map(|(_, after)| *after).min() else {
            return;
        };
        let names: Vec<&[u8]> = behind.iter().map(|(channel, _)| *channel).collect();
        let mut backlog = Backlog::new(&names, first);
        let (ids, unix_ms) = (self.channels.encoder.ids, self.net.driver.unix_ms());
        let (mut records, mut gaps) = (0, 0);
        self.channels
            .ring
            .next_missed(&mut backlog, newest, unix_ms, &mut |missed| {
                match missed {
                    Missed::Record(record) => {
                        let is_new = behind.iter().any(|(channel, after)| {
                            *channel == record.channel() && record.seq > *after
                        });
                        if is_new {
                            records += 1;
                            encode::event(&ids, record, body);
                        }
                    }
                    Missed::Gap => {
                        gaps += 1;
                        encode::gap("expired", body);
                    }
                }
                true
            });
        self.net.counts.add(Counter::Replayed, records);
        self.net.counts.add(Counter::GapsExpired, gaps);
    }
}
