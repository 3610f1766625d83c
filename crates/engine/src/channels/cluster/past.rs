//! Older history: records that workers request from the cluster log, through the bridge, for
//! clients that missed more than the ring holds.
//!
//! Worker and bridge share a few pages. A worker claims a page and writes its request into it. The
//! bridge queries the log and writes the reply into the same page; the worker copies it and
//! releases the page. A page's state contains a number that each claim increments, so a late
//! process detects that it no longer owns the page. If the bridge is killed, its replacement
//! replies to the open requests. The page of a killed worker can be claimed again after
//! [`CLAIM_MS_MAX`].
//!
//! A worker caches its last replies: clients that reconnect together have mostly missed the same
//! records. A slow client whose reply was evicted requests the rest again. So clients need no
//! memory of their own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use fermata_cluster::{PastEntry, PastRequest};
use fermata_hub::{FromLog, Kind, LogPlace, Message, Past, PastRange, Record, Subscriber};
use fermata_io::{clock, shm};

/// Number of pages: concurrent requests of all workers.
const PAGES: usize = fermata_cluster::PAST_REQUESTS_MAX;
/// Maximum number of concurrent requests of one worker.
const REQUESTS_MAX: usize = 4;
/// Number of replies that a worker caches.
const ANSWERS_MAX: usize = 4;
/// Maximum length of the channel names of a request, including one length byte each.
const NAMES_BYTES_MAX: usize = 64 << 10;
/// Minimum size of a reply in bytes; one event of maximum size always fits.
const ANSWER_BYTES_MIN: usize = 1 << 20;
/// Header size of an event in a reply: kind, position, time, excluded subscriber, and the lengths
/// of the variable parts.
const ENTRY_BYTES: usize = 1 + 8 + 8 + 1 + 16 + 1 + 1 + 4 + 4;
/// Age of a claim in milliseconds after which its worker counts as crashed. Clients wait for a
/// shorter time.
const CLAIM_MS_MAX: u64 = 60_000;

/// Indexes of a page's words, which precede its text.
const STATE: usize = 0;
const SLOT: usize = 1;
const CLAIMED_MS: usize = 2;
const EPOCH: usize = 3;
const AFTER: usize = 4;
const UP_TO: usize = 5;
const OLDEST_MS: usize = 6;
const EVENTS_MAX: usize = 7;
const NAMES_LEN: usize = 8;
const ANSWER_LEN: usize = 9;
const EVENTS_ONLY: usize = 10;
const NAMES: usize = 16;
const ANSWER: usize = NAMES + NAMES_BYTES_MAX / 8;

/// Tags of a page's state. The page's number is stored in the bits above the tag.
const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const ASKED: u64 = 2;
const ANSWERING: u64 = 3;
const ANSWERED: u64 = 4;
const TAGS: u64 = 8;

/// The pages shared by workers and the bridge.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    words: &'static [AtomicU64],
    page_words: usize,
    answer_bytes_max: usize,
}

/// A claimed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket {
    page: usize,
    number: u64,
}

impl Pages {
    /// Maps the pages. A reply has room for at least one event of `record_bytes_max` bytes.
    ///
    /// # Errors
    /// No memory.
    pub fn open(record_bytes_max: usize) -> std::io::Result<Pages> {
        let answer_bytes_max =
            ANSWER_BYTES_MIN.max(record_bytes_max + ENTRY_BYTES + u8::MAX as usize);
        let page_words = ANSWER + answer_bytes_max.div_ceil(8);
        Ok(Pages {
            words: shm::Shared::anonymous(PAGES * page_words)?.words(),
            page_words,
            answer_bytes_max,
        })
    }

    fn page(&self, page: usize) -> &'static [AtomicU64] {
        &self.words[page * self.page_words..][..self.page_words]
    }

    fn state(&self, page: usize) -> (u64, u64) {
        let state = self.page(page)[STATE].load(Ordering::Acquire);
        (state / TAGS, state % TAGS)
    }

    /// Changes a page's tag from `from` to `to`. Returns false if the page has another tag, or was
    /// claimed again since the ticket was issued.
    fn go(&self, ticket: Ticket, from: u64, to: u64) -> bool {
        let Ticket { page, number } = ticket;
        let (from, to) = (number * TAGS + from, number * TAGS + to);
        self.page(page)[STATE]
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Requests a part of the log. `None` if all pages are in use, or the channel names are too
    /// long.
    fn ask(
        &self,
        slot: u16,
        channels: &[Box<[u8]>],
        range: &PastRange,
        events_only: bool,
        now_ms: u64,
    ) -> Option<Ticket> {
        let mut names = Vec::new();
        for channel in channels {
            names.push(channel.len() as u8);
            names.extend_from_slice(channel);
        }
        if names.len() > NAMES_BYTES_MAX {
            return None;
        }
        let ticket = (0..PAGES).find_map(|page| self.claim(page, now_ms))?;
        let words = self.page(ticket.page);
        for (at, value) in [
            (SLOT, u64::from(slot)),
            (CLAIMED_MS, now_ms),
            (EPOCH, range.after.epoch),
            (AFTER, range.after.seq),
            (UP_TO, range.up_to),
            (OLDEST_MS, range.oldest_ms),
            (EVENTS_MAX, range.count_max as u64),
            (NAMES_LEN, names.len() as u64),
            (EVENTS_ONLY, u64::from(events_only)),
        ] {
            words[at].store(value, Ordering::Relaxed);
        }
        put_bytes(&words[NAMES..ANSWER], &names);
        self.go(ticket, CLAIMED, ASKED).then_some(ticket)
    }

    fn claim(&self, page: usize, now_ms: u64) -> Option<Ticket> {
        let words = self.page(page);
        let (number, tag) = self.state(page);
        let since_ms = words[CLAIMED_MS].load(Ordering::Relaxed);
        // A page in state `ANSWERING` does not expire: the bridge writes a reply quickly, and its
        // replacement resets the state after a crash.
        let is_left = tag != ANSWERING && since_ms.saturating_add(CLAIM_MS_MAX) <= now_ms;
        if tag != FREE && !is_left {
            return None;
        }
        // Store the time before the state; otherwise another worker could consider the new claim
        // expired.
        words[CLAIMED_MS].store(now_ms, Ordering::Relaxed);
        let (from, to) = (number * TAGS + tag, (number + 1) * TAGS + CLAIMED);
        let claimed = words[STATE].compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        let number = number + 1;
        claimed.is_ok().then_some(Ticket { page, number })
    }

    /// Releases a page whose reply is not needed.
    fn give_back(&self, ticket: Ticket) {
        // If the bridge is writing a reply, the page stays claimed and its claim expires later.
        if !self.go(ticket, ANSWERED, FREE) {
            self.go(ticket, ASKED, FREE);
        }
    }

    /// Removes and returns the reply. `Err`: no reply yet; `None`: another worker has claimed the
    /// page.
    fn take(&self, ticket: Ticket) -> Result<Option<Vec<u8>>, ()> {
        let (number, tag) = self.state(ticket.page);
        if number != ticket.number {
            return Ok(None);
        }
        if tag != ANSWERED {
            return Err(());
        }
        let words = self.page(ticket.page);
        let len = words[ANSWER_LEN].load(Ordering::Relaxed) as usize;
        let answer = take_bytes(&words[ANSWER..], len);
        self.give_back(ticket);
        Ok(Some(answer))
    }

    /// Reopens requests whose reply a killed bridge has not completed. Called by the replacement of
    /// that bridge.
    pub fn answer_again(&self) {
        for page in 0..PAGES {
            let (number, _) = self.state(page);
            self.go(Ticket { page, number }, ANSWERING, ASKED);
        }
    }

    /// Returns a request that is not in `known`.
    pub fn next_request(&self, known: &[Ticket]) -> Option<(Ticket, PastRequest)> {
        (0..PAGES).find_map(|page| {
            let (number, tag) = self.state(page);
            let ticket = Ticket { page, number };
            if tag != ASKED || known.contains(&ticket) {
                return None;
            }
            let words = self.page(page);
            let word = |at: usize| words[at].load(Ordering::Relaxed);
            let names = take_bytes(&words[NAMES..ANSWER], word(NAMES_LEN) as usize);
            let request = PastRequest {
                id: ticket.to_u64(),
                epoch: word(EPOCH),
                after: word(AFTER),
                up_to: word(UP_TO),
                oldest_ms: word(OLDEST_MS),
                events_max: word(EVENTS_MAX) as usize,
                bytes_max: self.answer_bytes_max,
                channels: channels_in(&names),
                events_only: word(EVENTS_ONLY) != 0,
            };
            // Check that the page was not released during the read.
            (self.state(page) == (number, ASKED)).then_some((ticket, request))
        })
    }

    /// Writes a reply. Returns the slot of the worker that waits for it, if any.
    pub fn answer(&self, ticket: Ticket, entries: &[PastEntry]) -> Option<u16> {
        let answer = self.answer_text(entries);
        if !self.go(ticket, ASKED, ANSWERING) {
            return None;
        }
        let words = self.page(ticket.page);
        put_bytes(&words[ANSWER..], &answer);
        words[ANSWER_LEN].store(answer.len() as u64, Ordering::Relaxed);
        let slot = words[SLOT].load(Ordering::Relaxed);
        self.go(ticket, ANSWERING, ANSWERED);
        u16::try_from(slot).ok()
    }

    /// Encodes as many entries as fit into a page, preferring the newest. If older entries do not
    /// fit, the reply starts with a gap.
    fn answer_text(&self, entries: &[PastEntry]) -> Vec<u8> {
        let gap_bytes = ENTRY_BYTES;
        let mut bytes = 0;
        let fits = |entry: &&PastEntry| {
            bytes += entry_len(entry);
            bytes + gap_bytes <= self.answer_bytes_max
        };
        let first = entries.len() - entries.iter().rev().take_while(fits).count();
        let mut text = Vec::new();
        if let Some(last) = first.checked_sub(1).and_then(|at| entries.get(at)) {
            write_entry(&PastEntry::Gap(seq_of(last)), &mut text);
        }
        for entry in &entries[first..] {
            write_entry(entry, &mut text);
        }
        text
    }
}

impl Ticket {
    pub fn to_u64(self) -> u64 {
        self.number * PAGES as u64 + self.page as u64
    }

    pub fn from_u64(id: u64) -> Ticket {
        Ticket {
            page: (id % PAGES as u64) as usize,
            number: id / PAGES as u64,
        }
    }
}

fn put_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

fn take_bytes(words: &[AtomicU64], len: usize) -> Vec<u8> {
    let len = len.min(words.len() * 8);
    let words = words.iter().take(len.div_ceil(8));
    let mut bytes: Vec<u8> = words
        .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
        .collect();
    bytes.truncate(len);
    bytes
}

fn channels_in(names: &[u8]) -> Vec<Vec<u8>> {
    let (mut channels, mut rest) = (Vec::new(), names);
    while let Some((len, after)) = rest.split_first()
        && let Some((name, after)) = after.split_at_checked(usize::from(*len))
    {
        channels.push(name.to_vec());
        rest = after;
    }
    channels
}

fn seq_of(entry: &PastEntry) -> u64 {
    match entry {
        PastEntry::Event(received) => received.place.seq,
        PastEntry::Gap(up_to) => *up_to,
    }
}

fn entry_len(entry: &PastEntry) -> usize {
    let texts = match entry {
        PastEntry::Event(it) => {
            it.channel.len() + it.name.as_ref().map_or(0, Vec::len) + it.data.len()
        }
        PastEntry::Gap(_) => 0,
    };
    ENTRY_BYTES + texts
}

fn write_entry(entry: &PastEntry, out: &mut Vec<u8>) {
    let (is_event, unix_ms, except, channel, name, data) = match entry {
        PastEntry::Event(it) => (
            1,
            it.unix_ms,
            it.except,
            &it.channel[..],
            it.name.as_deref(),
            &it.data[..],
        ),
        PastEntry::Gap(_) => (0, 0, None, &[][..], None, &[][..]),
    };
    out.push(is_event);
    out.extend_from_slice(&seq_of(entry).to_le_bytes());
    out.extend_from_slice(&unix_ms.to_le_bytes());
    out.push(u8::from(except.is_some()));
    let (worker, key) = except.unwrap_or_default();
    out.extend_from_slice(&worker.to_le_bytes());
    out.extend_from_slice(&key.to_le_bytes());
    out.push(channel.len() as u8);
    out.push(u8::from(name.is_some()));
    let name = name.unwrap_or_default();
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(channel);
    out.extend_from_slice(name);
    out.extend_from_slice(data);
}

/// An entry of a reply, and its size in bytes.
struct Entry<'a> {
    is_event: bool,
    seq: u64,
    unix_ms: u64,
    except: Option<Subscriber>,
    message: Message<'a>,
    len: usize,
}

/// Parses an entry; `None` at the end of the reply.
fn read_entry(text: &[u8]) -> Option<Entry<'_>> {
    let (head, texts) = text.split_at_checked(ENTRY_BYTES)?;
    let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let len = |at: usize| {
        let bytes = head.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let (name_len, data_len) = (len(36)?, len(40)?);
    let (channel, rest) = texts.split_at_checked(usize::from(head[34]))?;
    let (name, rest) = rest.split_at_checked(name_len)?;
    let data = rest.get(..data_len)?;
    let (worker, key) = (number(18)?, number(26)?);
    Some(Entry {
        is_event: head[0] != 0,
        seq: number(1)?,
        unix_ms: number(9)?,
        except: (head[17] != 0).then_some(Subscriber { worker, key }),
        message: Message {
            channel,
            kind: Kind::Message,
            name: (head[35] != 0).then_some(name),
            data,
        },
        len: ENTRY_BYTES + channel.len() + name_len + data_len,
    })
}

/// A worker's open requests and cached replies.
pub(crate) struct PastReader {
    pages: Pages,
    slot: u16,
    /// True if the bridge has to be woken for a new request.
    has_news: bool,
    /// Requests without a reply, each with its time in milliseconds on the monotonic clock.
    asked: Vec<(Ticket, Part, u64)>,
    /// Cached replies, newest first; at most [`ANSWERS_MAX`].
    answers: VecDeque<Answer>,
}

/// A part of the log.
struct Part {
    channels: Box<[Box<[u8]>]>,
    after: LogPlace,
    up_to: u64,
    /// Requested for a history query, which omits joins and leaves, not for a client.
    events_only: bool,
}

struct Answer {
    part: Part,
    text: Vec<u8>,
    /// Position in the log and offset in `text` of each entry.
    entries: Vec<(u64, usize)>,
}

impl Part {
    fn has(&self, channels: &[Box<[u8]>], after: LogPlace, events_only: bool) -> bool {
        self.events_only == events_only
            && self.after.epoch == after.epoch
            && (self.after.seq..self.up_to).contains(&after.seq)
            && *self.channels == *channels
    }
}

impl PastReader {
    pub(super) fn new(pages: Pages) -> PastReader {
        PastReader {
            pages,
            slot: 0,
            has_news: false,
            asked: Vec::new(),
            answers: VecDeque::new(),
        }
    }

    /// Sets the slot of the requesting worker.
    pub fn set_slot(&mut self, slot: u16) {
        self.slot = slot;
    }

    /// Returns true if the bridge has to be woken.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Reads the bridge's replies. Returns true if there were any.
    pub fn take_answers(&mut self) -> bool {
        if self.asked.is_empty() {
            return false;
        }
        let (pages, answers) = (self.pages, &mut self.answers);
        let (before, now_ms) = (self.asked.len(), clock::monotonic_ms());
        self.asked.retain_mut(|(ticket, part, asked_ms)| {
            let text = match pages.take(*ticket) {
                Err(()) if asked_ms.saturating_add(CLAIM_MS_MAX) > now_ms => return true,
                // The bridge has not replied while the claim was valid. A client that still needs
                // the records requests them again.
                Err(()) => {
                    pages.give_back(*ticket);
                    return false;
                }
                // The claim expired, and the page went to another worker.
                Ok(None) => return false,
                Ok(Some(text)) => text,
            };
            let mut entries = Vec::new();
            let mut at = 0;
            while let Some(entry) = text.get(at..).and_then(read_entry) {
                entries.push((entry.seq, at));
                at += entry.len;
            }
            let empty = Part {
                channels: Box::default(),
                ..*part
            };
            let part = std::mem::replace(part, empty);
            answers.truncate(ANSWERS_MAX - 1);
            answers.push_front(Answer {
                part,
                text,
                entries,
            });
            false
        });
        self.asked.len() < before
    }
}

impl FromLog for PastReader {
    fn next(&mut self, channels: &[Box<[u8]>], range: &PastRange, record: &mut Record) -> Past {
        self.next_of(channels, range, false, record)
    }
}

impl PastReader {
    /// Like `next`, for history, which contains events only.
    pub(super) fn next_event(
        &mut self,
        channels: &[Box<[u8]>],
        range: &PastRange,
        record: &mut Record,
    ) -> Past {
        self.next_of(channels, range, true, record)
    }

    fn next_of(
        &mut self,
        channels: &[Box<[u8]>],
        range: &PastRange,
        events_only: bool,
        record: &mut Record,
    ) -> Past {
        let after = range.after;
        let known = self
            .answers
            .iter()
            .find(|answer| answer.part.has(channels, after, events_only));
        if let Some(answer) = known {
            let up_to = answer.part.up_to.min(range.up_to);
            let next = answer.entries.partition_point(|&(seq, _)| seq <= after.seq);
            let entry = answer
                .entries
                .get(next)
                .filter(|(seq, _)| *seq <= up_to)
                .and_then(|&(_, at)| read_entry(answer.text.get(at..)?));
            return match entry {
                None => Past::End { up_to },
                Some(entry) if entry.is_event => {
                    let place = LogPlace {
                        seq: entry.seq,
                        ..after
                    };
                    if record.become_logged(place, entry.unix_ms, &entry.message, entry.except) {
                        Past::Record
                    } else {
                        Past::Gap { up_to: entry.seq }
                    }
                }
                Some(entry) => Past::Gap { up_to: entry.seq },
            };
        }
        let is_asked = self
            .asked
            .iter()
            .any(|(_, part, _)| part.has(channels, after, events_only));
        // At the limit, or without a free page, the caller tries again later.
        if !is_asked && self.asked.len() < REQUESTS_MAX {
            let now_ms = clock::monotonic_ms();
            if let Some(ticket) = self
                .pages
                .ask(self.slot, channels, range, events_only, now_ms)
            {
                let part = Part {
                    channels: channels.into(),
                    after,
                    up_to: range.up_to,
                    events_only,
                };
                self.asked.push((ticket, part, now_ms));
                self.has_news = true;
            }
        }
        Past::Waiting
    }
}

#[cfg(test)]
mod tests {
    use fermata_cluster::{Content, Place, Received};

    use super::*;

    fn event(seq: u64, len: usize) -> PastEntry {
        PastEntry::Event(Received {
            place: Place { epoch: 7, seq },
            content: Content::Event,
            channel: b"c".to_vec(),
            name: seq.is_multiple_of(2).then(|| b"name".to_vec()),
            data: vec![seq as u8; len],
            except: seq.is_multiple_of(3).then_some((seq, 5)),
            unix_ms: 1_000 + seq,
        })
    }

    fn reader(pages: Pages, slot: u16) -> PastReader {
        let mut reader = PastReader::new(pages);
        reader.set_slot(slot);
        reader
    }

    fn range(after: u64, up_to: u64) -> PastRange {
        PastRange {
            after: LogPlace {
                epoch: 7,
                seq: after,
            },
            up_to,
            count_max: 100,
            oldest_ms: 3,
        }
    }

    fn channels(names: &[&str]) -> Vec<Box<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    /// Reads everything up to the end of the range.
    fn read(reader: &mut PastReader, mut range: PastRange) -> Vec<(bool, u64)> {
        let (mut record, mut told) = (Record::empty(), Vec::new());
        while range.after.seq < range.up_to {
            range.after.seq = match reader.next(&channels(&["c"]), &range, &mut record) {
                Past::Record => {
                    let place = record.log_place().expect("it has one");
                    let expected = event(place.seq, record.data().len());
                    let PastEntry::Event(expected) = expected else {
                        unreachable!("it is one");
                    };
                    assert_eq!(record.data(), expected.data);
                    assert_eq!(record.name(), expected.name.as_deref());
                    assert_eq!(record.unix_ms, expected.unix_ms);
                    let except = record.subscriber().map(|it| (it.worker, it.key));
                    assert_eq!(except, expected.except);
                    told.push((true, place.seq));
                    place.seq
                }
                Past::Gap { up_to } => {
                    told.push((false, up_to));
                    up_to
                }
                Past::End { up_to } => up_to,
                Past::Waiting => return told,
            };
        }
        told
    }

    #[test]
    fn shares_one_log_request_among_clients() {
        let pages = Pages::open(1000).expect("memory");
        let mut reader = reader(pages, 5);
        assert_eq!(read(&mut reader, range(10, 20)), []);
        assert!(reader.take_news());
        assert_eq!(read(&mut reader, range(12, 25)), [], "it is a part of that");
        assert!(!reader.take_news());
        let (ticket, request) = pages.next_request(&[]).expect("it is asked");
        assert_eq!(request.channels, [b"c".to_vec()]);
        assert_eq!(
            (request.after, request.up_to, request.oldest_ms),
            (10, 20, 3)
        );
        assert_eq!(Ticket::from_u64(request.id), ticket);
        assert!(pages.next_request(&[ticket]).is_none());
        let entries = [PastEntry::Gap(11), event(13, 40), event(18, 3)];
        assert_eq!(pages.answer(ticket, &entries), Some(5));
        assert!(reader.take_answers() && !reader.take_answers());
        let all = [(false, 11), (true, 13), (true, 18)];
        assert_eq!(read(&mut reader, range(10, 20)), all);
        assert_eq!(read(&mut reader, range(13, 20)), [(true, 18)]);
        assert_eq!(read(&mut reader, range(12, 15)), [(true, 13)]);
        assert!(pages.next_request(&[]).is_none());
        // The remaining records are requested separately.
        assert_eq!(read(&mut reader, range(12, 25)), [(true, 13), (true, 18)]);
        let (_, request) = pages.next_request(&[]).expect("it is asked");
        assert_eq!((request.after, request.up_to), (20, 25));
    }

    #[test]
    fn keeps_the_newest_entries_in_a_full_reply() {
        let pages = Pages::open(1000).expect("memory");
        let mut reader = reader(pages, 0);
        read(&mut reader, range(0, 2_000));
        let (ticket, _) = pages.next_request(&[]).expect("it is asked");
        let entries: Vec<PastEntry> = (1..=1_500).map(|seq| event(seq, 1_000)).collect();
        pages.answer(ticket, &entries);
        reader.take_answers();
        let told = read(&mut reader, range(0, 2_000));
        let first = told[0].1;
        assert!(first > 1 && first < 600, "{first}");
        let rest: Vec<(bool, u64)> = (first + 1..=1_500).map(|seq| (true, seq)).collect();
        assert_eq!((told[0].0, &told[1..]), (false, &rest[..]));
    }

    #[test]
    fn reclaims_pages_of_a_crashed_worker() {
        let pages = Pages::open(1000).expect("memory");
        let ask = |slot, now_ms| pages.ask(slot, &channels(&["c"]), &range(1, 2), false, now_ms);
        let tickets: Vec<Ticket> = (0..PAGES).filter_map(|_| ask(0, 1_000)).collect();
        assert_eq!(tickets.len(), PAGES);
        assert_eq!(ask(1, 1_000 + CLAIM_MS_MAX - 1), None);
        // A bridge is killed while it replies, and the next one replies.
        assert!(pages.go(tickets[0], ASKED, ANSWERING));
        assert!(pages.next_request(&tickets[1..]).is_none());
        pages.answer_again();
        assert!(pages.next_request(&tickets[1..]).is_some());
        // A worker is killed, and another one claims its page; a late reply for the old claim is
        // dropped.
        let claimed = ask(1, 1_000 + CLAIM_MS_MAX).expect("a page is left");
        assert_eq!(pages.answer(tickets[claimed.page], &[]), None);
        assert_eq!(pages.take(tickets[claimed.page]), Ok(None));
        assert_eq!(pages.take(claimed), Err(()));
        assert_eq!(pages.answer(claimed, &[PastEntry::Gap(2)]), Some(1));
        assert!(pages.take(claimed).expect("it is answered").is_some());
        assert_eq!(pages.take(claimed), Err(()));
    }

    #[test]
    fn requests_no_history_for_too_long_names() {
        let pages = Pages::open(1000).expect("memory");
        let name = "c".repeat(255);
        let channels: Vec<Box<[u8]>> = channels(&vec![&name[..]; 300]);
        assert_eq!(pages.ask(0, &channels, &range(1, 2), false, 0), None);
    }
}
