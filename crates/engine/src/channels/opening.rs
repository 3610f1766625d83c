//! Clients held by a GRIP edge in front: the first bytes for the client, and its position.
//!
//! The edge subscribes to the channels and receives events from then on. By the event ids, the edge
//! detects events that were published between the response and its subscription, and requests them.

use fermata_hub::{Backlog, IdRef, Missed, Previous, Ring, Seq};

use super::Channels;
use crate::admin::stats::{Counter, Counts};
use crate::channels::follow;
use crate::channels::hold::{Hold, HoldError};
use crate::channels::since::Since;
use crate::channels::stream_format::StreamFormat;
use crate::misuse::Misuse;

/// The start of a response that an edge holds.
pub struct Opening {
    /// Events, and the position after them.
    pub body: Vec<u8>,
    /// Newest event id of each channel, which the client has received or the body contains; `None`
    /// if unknown.
    pub newest: Vec<Option<String>>,
}

/// A client's position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    At(Seq),
    /// The request precedes every event that this machine has.
    Before,
}

/// A channel, and the last event id that a client has received on it.
pub type Last = (Vec<u8>, Vec<u8>);

impl Channels {
    /// Builds the first bytes for a client held by an edge. An edge that already holds the client
    /// and misses events sends `lasts`; the result then contains only the missed events.
    ///
    /// # Errors
    /// As for `hold`.
    pub(crate) fn opening(
        &mut self,
        hold: &Hold<'_>,
        lasts: &[Last],
        unix_ms: u64,
        counts: &mut Counts,
    ) -> Result<Opening, HoldError> {
        hold.check(&self.settings)?;
        if !hold.format.is_of_edges() {
            return Err(Misuse::EdgeFormat.into());
        }
        let mut body = Vec::new();
        // An edge that already holds the client has sent them.
        for message in hold.with.iter().filter(|_| lasts.is_empty()) {
            StreamFormat::EventStream.event(None, message.name, message.data, &mut body);
        }
        let own_len = body.len();
        let newest = self.ring.newest();
        let after = match lasts {
            [] => {
                let since = match hold.since {
                    Since::Now => None,
                    Since::Earliest => {
                        Some(Some(place_of_start(&self.ring, self.outbox.is_some())))
                    }
                    Since::After(id) => Some(self.place(id)),
                };
                vec![begin(since, newest, counts, &mut body); hold.channels.len()]
            }
            _ => {
                let mut after = Vec::new();
                let mut is_told = false;
                for channel in hold.channels {
                    let last = lasts.iter().find(|(name, _)| name == channel);
                    let place = last.map(|(_, id)| self.place(id));
                    let is_lost = matches!(place, Some(None | Some(Place::Before)));
                    let mut gap = Vec::new();
                    after.push(begin(place, newest, counts, &mut gap));
                    if is_lost && !std::mem::replace(&mut is_told, true) {
                        body.append(&mut gap);
                    }
                }
                after
            }
        };
        let is_told = body.len() > own_len && after.contains(&0);
        self.write_between(
            hold.channels,
            &after,
            (newest, unix_ms),
            is_told,
            counts,
            &mut body,
        );
        // A client that misses nothing keeps its position. While the log's past is being read, the
        // body lacks events before the present position.
        let has_past = !lasts.is_empty() || hold.since != Since::Now;
        let is_behind = has_past && self.ring.is_past(newest);
        if !is_behind && (lasts.is_empty() || !body.is_empty()) {
            self.write_position(StreamFormat::EventStream, newest, &mut body);
        }
        let newest = hold.channels.iter().map(|channel| {
            let id = match self.ring.previous(channel, newest + 1) {
                Previous::At(seq) => self.ring.id_at(seq),
                Previous::Beginning => Some(self.ring.id_of_beginning()),
                Previous::Unknown => None,
            };
            id.map(follow::text)
        });
        let newest = newest.collect();
        if lasts.is_empty() {
            counts.add(Counter::HoldsAtEdges, 1);
        }
        Ok(Opening { body, newest })
    }

    /// Returns the position of an id; `None` if it is not from this ring.
    fn place(&mut self, id: &[u8]) -> Option<Place> {
        match self.ring.parse_id(id) {
            IdRef::Seq(seq) => Some(Place::At(seq)),
            IdRef::Past(_) => Some(Place::Before),
            IdRef::Ahead(_) | IdRef::Foreign | IdRef::Invalid => None,
        }
    }

    /// Appends events of the channels. Each channel starts after its own position.
    fn write_between(
        &mut self,
        channels: &[&[u8]],
        after: &[Seq],
        (newest, unix_ms): (Seq, u64),
        mut is_gap_told: bool,
        counts: &mut Counts,
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
        let ids = self.encoder.ids;
        let (mut records, mut gaps) = (0, 0);
        self.ring
            .next_missed(&mut backlog, newest, unix_ms, &mut |missed| {
                match missed {
                    Missed::Record(record) => {
                        let is_new = behind.iter().any(|(channel, after)| {
                            *channel == record.channel() && record.seq > *after
                        });
                        if is_new {
                            records += 1;
                            StreamFormat::EventStream.record(&ids, record, body);
                        }
                    }
                    Missed::Gap { .. } if std::mem::take(&mut is_gap_told) => {}
                    Missed::Gap { .. } => {
                        gaps += 1;
                        StreamFormat::EventStream.gap("expired", body);
                    }
                }
                true
            });
        counts.add(Counter::Replayed, records);
        counts.add(Counter::GapsExpired, gaps);
    }
}

/// Returns the position before all stored events. Those that only the log has are not sent through
/// an edge.
fn place_of_start(ring: &Ring, has_log: bool) -> Place {
    if has_log && (ring.has_no_log() || ring.id_of_beginning().1 > 0) {
        Place::Before
    } else {
        Place::At(0)
    }
}

/// Returns the position after which the client receives events. Appends a gap event if the client's
/// last event id is unknown.
fn begin(
    place: Option<Option<Place>>,
    newest: Seq,
    counts: &mut Counts,
    body: &mut Vec<u8>,
) -> Seq {
    match place {
        Some(Some(Place::At(seq))) => seq,
        Some(Some(Place::Before)) => {
            counts.add(Counter::GapsExpired, 1);
            StreamFormat::EventStream.gap("expired", body);
            0
        }
        Some(None) => {
            counts.add(Counter::GapsUnknown, 1);
            StreamFormat::EventStream.gap("unknown id", body);
            newest
        }
        None => newest,
    }
}
