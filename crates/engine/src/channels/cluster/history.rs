//! A channel's history: events in the ring, and older ones that only the cluster log has.
//!
//! The caller requests the newest events, but the log can only be read forwards. So the log is read
//! in windows, from the start of the ring towards the past. Each window is four times as long as
//! the previous one. On a busy channel few more events are read than returned; on a quiet channel
//! the number of requests is small. Windows start at round positions, so that repeated requests
//! find replies that the worker has cached.

use fermata_hub::{ID_BYTES_MAX, Past as Next};
use fermata_hub::{IdRef, Ids, LogPlace, PAST_MS_MAX, PastRange, Record};
use fermata_io::{Driver, clock};

use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::publish::Past;
use crate::misuse::Misuse;

/// Maximum number of log positions read for one call, counting all channels of the application.
const PLACES_MAX: u64 = 50_000;
/// Length of the first window, unless more events are requested.
const WINDOW_MIN: u64 = 1024;
const WINDOW_GROWTH: u64 = 4;
/// Maximum size of names and data from the log, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The channel name is invalid.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The ring has only a part of the history, and the log did not reply in time.
    #[error(
        "this server has {found} of the events; the log of the cluster has older ones and did not reply within \
         {PAST_MS_MAX} ms; request fewer (count), or try again"
    )]
    Unanswered {
        /// Number of events found in the ring.
        found: usize,
    },
}

/// Result of starting to read history.
pub enum History {
    /// The complete history.
    Done(Vec<Past>),
    /// The log has been queried for older events.
    Pending(HistoryReader),
}

/// A history query that waits for the log.
pub struct HistoryReader {
    /// The channel.
    channels: [Box<[u8]>; 1],
    /// Events found so far, oldest first.
    found: Vec<Past>,
    count_max: usize,
    /// Size of events from the log, in bytes.
    bytes: usize,
    /// Position up to which events are not needed.
    floor: u64,
    /// End of the first window.
    end: u64,
    /// Start and length of the current window, as log positions.
    begin: u64,
    window: u64,
    /// Unread part of the window, and the events read from it.
    range: PastRange,
    given: Vec<Past>,
    /// True if earlier events are lost, or the log does not return them.
    is_cut: bool,
    until_ms: u64,
}

impl HistoryReader {
    /// Moves to the preceding window. Returns false if enough was read.
    fn next_window(&mut self) -> bool {
        let mut given = std::mem::take(&mut self.given);
        given.append(&mut self.found);
        let surplus = given.len().saturating_sub(self.count_max);
        given.drain(..surplus);
        self.found = given;
        let is_enough = self.found.len() >= self.count_max || self.bytes >= BYTES_MAX;
        if is_enough || self.is_cut || self.begin <= self.floor {
            return false;
        }
        if self.end - self.begin >= PLACES_MAX {
            return false;
        }
        self.window *= WINDOW_GROWTH;
        self.set_window(self.begin);
        true
    }

    fn set_window(&mut self, up_to: u64) {
        let longest = PLACES_MAX - (self.end - up_to);
        let window = self.window.min(longest.max(WINDOW_MIN));
        self.begin = ((up_to - 1) / window * window).max(self.floor);
        self.range.after.seq = self.begin;
        self.range.up_to = up_to;
    }
}

impl Channels {
    /// Starts to read the newest messages of a channel, oldest first, at most `count_max`. Only
    /// messages after `since` are returned; if it is `None` or from another ring, all retained
    /// ones. The caller has to wait for messages that only the log has.
    pub(crate) fn begin_history(
        &mut self,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
        unix_ms: u64,
    ) -> Result<History, Misuse> {
        let found = self.history(channel, since, count_max, unix_ms)?;
        let count_max = count_max.min(self.settings.history_count_max);
        if self.outbox.is_none() || found.len() >= count_max {
            return Ok(History::Done(found));
        }
        let floor = match since.map(|since| (self.ring.parse_id(since), since)) {
            Some((IdRef::Ahead(_), _)) => return Ok(History::Done(found)),
            Some((IdRef::Seq(_) | IdRef::Past(_), since)) => self.ring.place_of_id(since),
            Some((IdRef::Foreign | IdRef::Invalid, _)) | None => None,
        };
        let Some((_, ring)) = self.ring.oldest_of_log() else {
            return Ok(History::Done(found));
        };
        let floor = floor.filter(|it| it.epoch == ring.epoch);
        let floor = floor.map_or(0, |place| place.seq);
        let first = found.first();
        let first = first.and_then(|past| self.ring.place_of_id(past.id.as_bytes()));
        // The ring may hold some messages before the position from which it is complete.
        let end = first.map_or(ring.seq, |place| (place.seq - 1).min(ring.seq));
        if end <= floor {
            return Ok(History::Done(found));
        }
        let missing = (count_max - found.len()) as u64;
        let mut reader = HistoryReader {
            channels: [channel.into()],
            found,
            count_max,
            bytes: 0,
            floor,
            end,
            begin: end,
            window: missing.clamp(WINDOW_MIN, PLACES_MAX).next_power_of_two(),
            range: PastRange {
                after: ring,
                up_to: end,
                // Equal for all queries, so that queries share cached replies.
                count_max: self.settings.history_count_max,
                oldest_ms: unix_ms.saturating_sub(self.settings.history_age_ms_max),
            },
            given: Vec::new(),
            is_cut: false,
            until_ms: clock::monotonic_ms() + PAST_MS_MAX,
        };
        reader.set_window(end);
        Ok(History::Pending(reader))
    }

    /// Returns the complete history if the log has replied; otherwise `None`.
    pub(crate) fn end_history(
        &mut self,
        reader: &mut HistoryReader,
    ) -> Option<Result<Vec<Past>, HistoryError>> {
        let now_ms = clock::monotonic_ms();
        let outbox = self.outbox.as_mut()?;
        let mut record = Record::empty();
        loop {
            while reader.range.after.seq < reader.range.up_to {
                let range = &mut reader.range;
                match outbox.past.next_event(&reader.channels, range, &mut record) {
                    Next::Record => {
                        let place = record.log_place();
                        range.after.seq = place.map_or(range.up_to, |place| place.seq);
                        // Skip events that have expired while the reply was cached.
                        if record.unix_ms >= range.oldest_ms {
                            let past = past_of(&record, range.after);
                            reader.bytes +=
                                past.data.len() + past.name.as_ref().map_or(0, Vec::len);
                            reader.given.push(past);
                        }
                    }
                    Next::Gap { up_to } => {
                        // History has no holes: drop the older events of this window.
                        range.after.seq = up_to;
                        reader.given.clear();
                        reader.is_cut = true;
                    }
                    Next::End { up_to } => range.after.seq = up_to,
                    Next::Waiting => {
                        if outbox.past.take_news() {
                            outbox.waker.wake();
                        }
                        // Do not wait for a log that has been unreachable for the time limit
                        // already.
                        let is_away = outbox.state.away_ms(now_ms) >= PAST_MS_MAX
                            && !outbox.state.is_ready(now_ms);
                        let found = reader.found.len();
                        let is_over = is_away || now_ms >= reader.until_ms;
                        return is_over.then_some(Err(HistoryError::Unanswered { found }));
                    }
                }
            }
            if !reader.next_window() {
                return Some(Ok(std::mem::take(&mut reader.found)));
            }
        }
    }

    /// Returns history, blocking the worker while the log is queried.
    pub(crate) fn history_now<D: Driver>(
        &mut self,
        to: &mut Clients<'_, D>,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
    ) -> Result<Vec<Past>, HistoryError> {
        let unix_ms = to.net.driver.unix_ms();
        let mut reader = match self.begin_history(channel, since, count_max, unix_ms)? {
            History::Done(past) => return Ok(past),
            History::Pending(reader) => reader,
        };
        loop {
            if let Some(outcome) = self.end_history(&mut reader) {
                return outcome;
            }
            self.pause_for_log(to);
            // Cache the replies, also those for clients of this worker. They are served after this
            // call returns.
            self.take_past();
        }
    }
}

fn past_of(record: &Record, place: LogPlace) -> Past {
    let mut text = [0; ID_BYTES_MAX];
    let id = Ids::new(place.epoch).of(record, &mut text);
    Past {
        id: String::from_utf8_lossy(id).into_owned(),
        name: record.name().map(<[u8]>::to_vec),
        data: record.data().to_vec(),
        unix_ms: record.unix_ms,
    }
}
