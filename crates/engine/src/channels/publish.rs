//! Publishing, and reading published events.

use fermata_config::LogLevel;
use fermata_hub::{
    Backlog, ID_BYTES_MAX, IdRef, Ids, Kind, LockError, PublishError, Record, ReplayRange,
};

use super::Channels;
use crate::admin::stats::{Counter, Counts, Shared};
use crate::channels::busy::{Busy, RingWait};
use crate::channels::since::Since;
use crate::channels::stream_format::StreamFormat;
use crate::log::Log;
use crate::misuse::{Misuse, NameProblem};

/// Time in milliseconds that a publisher waits before the log reports the cause.
const BEHIND_NOTICE_MS: u64 = 100;

/// A message of the embedder.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Event name, if any: no line breaks, no NUL.
    pub name: Option<&'a [u8]>,
    /// Event data, UTF-8.
    pub data: &'a [u8],
}

/// The text of an event id: `epoch-position`, both in base 36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    text: [u8; ID_BYTES_MAX],
    len: u8,
}

impl EventId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl EventId {
    /// Id of an event whose position is not awaited.
    pub(crate) const UNKNOWN: EventId = EventId {
        text: [0; ID_BYTES_MAX],
        len: 0,
    };

    pub(crate) fn new(ids: &Ids, seq: u64) -> EventId {
        let mut text = [0; ID_BYTES_MAX];
        let len = ids.text(seq, &mut text).len() as u8;
        EventId { text, len }
    }
}

/// Why a message was not published.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishFailure {
    /// An invalid message or channel name.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The ring was not available in time.
    #[error(transparent)]
    Backpressure(#[from] Busy),
}

/// A message of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Event id.
    pub id: String,
    /// Event name, if any.
    pub name: Option<Vec<u8>>,
    /// Data.
    pub data: Vec<u8>,
    /// Time of publication, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Past {
    /// Copies a record.
    pub(crate) fn of(ids: &Ids, record: &Record) -> Past {
        let mut text = [0; ID_BYTES_MAX];
        Past {
            id: String::from_utf8_lossy(ids.of(record, &mut text)).into_owned(),
            name: record.name().map(<[u8]>::to_vec),
            data: record.data().to_vec(),
            unix_ms: record.unix_ms,
        }
    }
}

/// A user that is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// User name.
    pub user: Vec<u8>,
    /// Info given to `as()`: JSON, or empty.
    pub info: Vec<u8>,
    /// Number of connections across all workers.
    pub connections: u32,
}

/// Checks a channel name: 1 to 255 bytes of UTF-8 without control characters.
pub fn check_channel(name: &[u8]) -> Result<(), Misuse> {
    // Fast path for short printable ASCII, sixteen bytes at a time.
    let is_plain = |plain, byte: &u8| plain & (0x20..0x7f).contains(byte);
    if name.iter().fold(true, is_plain)
        && !name.is_empty()
        && name.len() <= fermata_hub::CHANNEL_BYTES_MAX
    {
        return Ok(());
    }
    let problem = match std::str::from_utf8(name) {
        _ if name.is_empty() => NameProblem::Empty,
        _ if name.len() > fermata_hub::CHANNEL_BYTES_MAX => NameProblem::Long,
        Err(_) => NameProblem::Encoding,
        Ok(text) if text.chars().any(char::is_control) => NameProblem::Control,
        Ok(_) => return Ok(()),
    };
    Err(Misuse::channel_name(name, problem))
}

/// Checks a message that becomes an event.
pub fn check_message(message: &Message<'_>) -> Result<(), Misuse> {
    if let Some(name) = message.name
        && !fermata_proto::sse::valid_field(name)
    {
        return Err(Misuse::EventName);
    }
    if !is_utf8(message.data) || !message.name.is_none_or(is_utf8) {
        return Err(Misuse::EventEncoding);
    }
    Ok(())
}

fn is_utf8(text: &[u8]) -> bool {
    text.is_ascii() || std::str::from_utf8(text).is_ok()
}

/// The state of a publisher that waits for room in the ring.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    since_ms: Option<u64>,
    was_noticed: bool,
}

/// Action of a publisher before it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// This worker has to read the ring.
    CatchUp,
    /// Another worker has to read the ring, or a process holds the lock for a moment.
    Sleep,
}

/// Parts used while a publisher waits.
pub(crate) struct Waits<'a> {
    pub now_ms: u64,
    pub unix_ms: u64,
    pub shared: &'a Shared,
    pub counts: &'a mut Counts,
    pub log: &'a mut Log,
}

impl Channels {
    /// Returns how a publisher refused with `error` waits.
    ///
    /// # Errors
    /// The error is permanent, or the time limit is reached.
    pub(crate) fn wait_for_room(
        &self,
        wait: &mut Wait,
        error: &PublishError,
        with: Waits<'_>,
    ) -> Result<Retry, PublishFailure> {
        let behind = match *error {
            PublishError::TooLarge { .. } | PublishError::ChannelName { .. } => {
                return Err(Misuse::Record(*error).into());
            }
            PublishError::Lock(LockError::Corrupt) => {
                return Err(Busy::Ring(*error).into());
            }
            PublishError::Behind { slot } => Some(slot),
            PublishError::Lock(LockError::Locked { .. }) => None,
        };
        let wait_ms = self.settings.publish_wait_ms_max;
        if wait.since_ms.is_none() {
            with.counts.add(Counter::PublishWaits, 1);
        }
        let waited_ms = with.now_ms - *wait.since_ms.get_or_insert(with.now_ms);
        if waited_ms >= wait_ms {
            let cause = self.why_publishing_waits(*error, with.shared);
            return Err(Busy::RingWait { cause, wait_ms }.into());
        }
        if waited_ms >= BEHIND_NOTICE_MS && !std::mem::replace(&mut wait.was_noticed, true) {
            let cause = self.why_publishing_waits(*error, with.shared);
            let message = format!("publishing waits: {cause}");
            with.log
                .write_limited(LogLevel::Warning, with.unix_ms, &message);
        }
        if behind == Some(u32::from(self.slot)) {
            Ok(Retry::CatchUp)
        } else {
            Ok(Retry::Sleep)
        }
    }

    fn why_publishing_waits(&self, error: PublishError, shared: &Shared) -> RingWait {
        let PublishError::Behind { slot } = error else {
            return error.into();
        };
        RingWait::Reader {
            worker: shared.worker(slot),
            bytes: self.ring.lag_bytes(slot),
        }
    }

    /// Wakes sleeping workers that have unread records.
    pub(crate) fn wake_workers(&mut self) {
        let mut slept = self.ring.wake_list();
        while let Some(slot) = slept.take() {
            if let Some(waker) = self.wakers.get(slot as usize) {
                waker.wake();
            }
        }
    }

    /// Returns the id of a record.
    pub(crate) fn event_id(&self, seq: u64) -> EventId {
        EventId::new(&self.ring.ids(), seq)
    }

    /// Returns the past events that a client receives. Returns `None` if the client wants no past
    /// events, and `Some(None)` if its last event id is unknown.
    pub(crate) fn missed_since(
        &mut self,
        channels: &[&[u8]],
        since: Since<'_>,
    ) -> Option<Option<Backlog>> {
        let missed = match since {
            Since::Now => return None,
            // In a cluster, these include the events that only the log has.
            Since::Earliest if self.outbox.is_some() => Some(Backlog::from_start_of_log(channels)),
            Since::Earliest => Some(Backlog::new(channels, 0)),
            Since::After(id) => match (self.ring.parse_id(id), self.ring.place_of_id(id)) {
                // An id of another log. While the log is unreachable or its past is being read, the
                // id may belong to the log that this server is about to read.
                (IdRef::Foreign, _) => Ids::place_of(id)
                    .filter(|_| !self.is_log_ready())
                    .map(|place| Backlog::ahead(channels, place)),
                (at, place) => Backlog::since(channels, at, place),
            },
        };
        Some(missed)
    }

    /// Returns true if a client that has received its backlog can continue with a subscription.
    pub(crate) fn is_live_at(&self, backlog: &Backlog) -> bool {
        let up_to = self.reader.read_up_to();
        backlog.is_at(up_to) && !self.ring.is_past(up_to)
    }

    /// Returns true if the next piece of a backlog depends on records that this machine has not
    /// read yet.
    pub(crate) fn is_waiting_at(&self, backlog: &Backlog) -> bool {
        let up_to = self.reader.read_up_to();
        backlog.is_waiting() || backlog.is_at(up_to) && self.ring.is_past(up_to)
    }

    /// Appends the position of a client that has everything up to `seq`.
    pub(crate) fn write_position(&mut self, format: StreamFormat, seq: u64, out: &mut Vec<u8>) {
        let mut id = [0; ID_BYTES_MAX];
        format.position(self.ring.id_text(seq, &mut id), out);
    }

    /// Returns the newest messages of a channel, oldest first, at most `count_max`. Only messages
    /// after `since` are returned. If `since` is `None` or from another ring, all retained messages
    /// are returned.
    ///
    /// # Errors
    /// The channel name is invalid.
    pub(crate) fn history(
        &mut self,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
        unix_ms: u64,
    ) -> Result<Vec<Past>, Misuse> {
        check_channel(channel)?;
        let after = match since.map(|since| self.ring.parse_id(since)) {
            Some(IdRef::Seq(seq)) => seq,
            // Events after this id have not arrived yet.
            Some(IdRef::Ahead(_)) => self.ring.newest(),
            Some(IdRef::Past(_) | IdRef::Foreign | IdRef::Invalid) | None => 0,
        };
        let up_to = self.ring.newest();
        Ok(self.past(channel, after, up_to, count_max, unix_ms))
    }

    /// Returns the newest messages of a channel that this worker has read. A client that subscribes
    /// now receives all later messages.
    ///
    /// # Errors
    /// The channel name is invalid.
    pub(crate) fn history_read(
        &mut self,
        channel: &[u8],
        count_max: usize,
        unix_ms: u64,
    ) -> Result<Vec<Past>, Misuse> {
        check_channel(channel)?;
        let up_to = self.reader.read_up_to();
        Ok(self.past(channel, 0, up_to, count_max, unix_ms))
    }

    pub(super) fn past(
        &mut self,
        channel: &[u8],
        after: u64,
        up_to: u64,
        count_max: usize,
        unix_ms: u64,
    ) -> Vec<Past> {
        let range = ReplayRange {
            after,
            up_to,
            count_max,
            bytes_max: self.settings.history_bytes_max,
            unix_ms,
        };
        let ids = self.ring.ids();
        let mut past = Vec::new();
        self.ring.replay(&[channel], &range, &mut |record| {
            if record.kind == Kind::Message {
                past.push(Past::of(&ids, record));
            }
        });
        past
    }
}
