//! A node: a bridge, and the events of its clients.

use std::collections::{HashMap, VecDeque};

use fermata_cluster::{Bridge, Content, Event, Options, Outgoing, PastEntry, PastRequest, Place};
use fermata_testkit::Random;

use super::server::Server;
use super::{Log, below, options};

/// An item that a node delivered to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Gap(Place),
    Event(Place, Vec<u8>),
}

pub(super) struct Node {
    pub(super) bridge: Bridge,
    pub(super) lives: u32,
    /// Records that are not released, the newest last, and the number that was sent.
    pub(super) outbox: VecDeque<(u64, Vec<u8>)>,
    pub(super) handed: usize,
    pub(super) written: u64,
    pub(super) accepted: HashMap<u64, Place>,
    pub(super) delivered: Vec<Delivered>,
    /// Stored time of the last record.
    pub(super) reached_ms: Option<u64>,
    pub(super) is_ready: bool,
    /// Requests for older messages without a result, the number of all requests, and of results with events.
    pub(super) asked: HashMap<u64, PastRequest>,
    pub(super) questions: u64,
    pub(super) answers: u64,
    pub(super) log: Log,
}

/// Channels of the records. They are used in turn.
pub(super) const CHANNELS: [&[u8]; 2] = [b"a room.of *", b"another"];

pub(super) fn channel_of(outbox: u64) -> &'static [u8] {
    CHANNELS[(outbox % 2) as usize]
}

/// Returns the channel of an event with this data.
pub(super) fn channel_of_data(data: &[u8]) -> &'static [u8] {
    let text = std::str::from_utf8(data).unwrap();
    let (_, outbox) = text.split_once(':').unwrap();
    channel_of(outbox.parse().unwrap())
}

pub(super) fn options(node: usize, life: u32) -> Options {
    Options {
        inbox: format!("_INBOX.{node}x{life}"),
        outbox: format!("n{node}"),
        events_max: 100_000,
        ..options::options("nats://a,nats://b")
    }
}

impl Node {
    pub(super) fn new(node: usize, log: Log) -> Node {
        Node {
            asked: HashMap::new(),
            questions: 0,
            answers: 0,
            log,
            bridge: Bridge::new(options(node, 0), None, None, 0),
            lives: 1,
            outbox: VecDeque::new(),
            handed: 0,
            written: 0,
            accepted: HashMap::new(),
            delivered: Vec::new(),
            reached_ms: None,
            is_ready: false,
        }
    }

    pub(super) fn reached(&self) -> Option<Place> {
        self.delivered.last().map(|it| match it {
            Delivered::Gap(place) | Delivered::Event(place, _) => *place,
        })
    }

    /// Kills and restarts the process: only shared memory remains.
    pub(super) fn kill(&mut self, node: usize, now_ms: u64) {
        self.bridge = Bridge::new(
            options(node, self.lives),
            self.reached(),
            self.reached_ms,
            now_ms,
        );
        self.lives += 1;
        self.handed = 0;
        self.is_ready = false;
        self.asked.clear();
    }

    /// Requests a part of the events that were delivered before.
    pub(super) fn ask_past(&mut self, random: &mut Random, now_ms: u64) {
        let Some(reached) = self.reached().filter(|_| self.bridge.can_ask_past()) else {
            return;
        };
        let up_to = below(random, reached.seq + 1);
        let request = PastRequest {
            id: self.questions,
            epoch: reached.epoch ^ u64::from(below(random, 20) == 0),
            // The range is small enough that messages can be returned one by one in time.
            after: up_to - below(random, up_to.min(200) + 1),
            up_to,
            oldest_ms: 0,
            events_max: [5, 100_000][below(random, 2) as usize],
            bytes_max: 1 << 20,
            channels: [&CHANNELS[..], &CHANNELS[1..]][below(random, 2) as usize]
                .iter()
                .map(|name| name.to_vec())
                .collect(),
            events_only: below(random, 2) == 0,
        };
        self.questions += 1;
        self.asked.insert(request.id, request.clone());
        self.bridge.ask_past(request, now_ms);
    }

    /// Checks a result. Each requested event must be in the result or in a gap.
    pub(super) fn check_past(&mut self, id: u64, entries: &[PastEntry]) {
        let request = self.asked.remove(&id).expect("it was asked for");
        let (mut at, mut gap, mut events) = (request.after, 0, HashMap::new());
        for entry in entries {
            let seq = match entry {
                PastEntry::Gap(up_to) => {
                    gap = *up_to;
                    *up_to
                }
                PastEntry::Event(received) => {
                    assert_eq!(received.place.epoch, request.epoch);
                    assert_eq!(received.channel, channel_of_data(&received.data));
                    assert!(request.channels.contains(&received.channel));
                    events.insert(received.place.seq, &received.data);
                    received.place.seq
                }
            };
            assert!(at < seq && seq <= request.up_to, "{request:?}: {entries:?}");
            at = seq;
        }
        assert!(events.len() <= request.events_max);
        let (mut count, mut told) = (0, HashMap::new());
        for delivered in &self.delivered {
            if let Delivered::Event(place, data) = delivered
                && place.epoch == request.epoch
            {
                told.insert(place.seq, data);
            }
        }
        for (seq, data) in told {
            let is_wanted = request
                .channels
                .iter()
                .any(|it| it == channel_of_data(data));
            if !(request.after < seq && seq <= request.up_to && is_wanted) {
                continue;
            }
            count += 1;
            // With `HasBadCopy`, this message may come from the bad copy, and the log may have a different one at this position.
            let given = events.get(&seq);
            assert!(
                given.is_none_or(|given| *given == data) || self.log == Log::HasBadCopy,
                "{seq}: {request:?}"
            );
            assert!(
                given.is_some() || seq <= gap || self.log == Log::HasBadCopy,
                "{seq} is left out in silence: {request:?}: {entries:?}"
            );
        }
        // The log has all events, so there is no gap.
        let is_of_this_log = self.reached().is_some_and(|it| it.epoch == request.epoch);
        if matches!(self.log, Log::Keeps | Log::Refuses)
            && is_of_this_log
            && count <= request.events_max
        {
            assert!(gap == 0, "{request:?}: {entries:?}");
        }
        self.answers += u64::from(!events.is_empty());
    }

    pub(super) fn publish(&mut self, node: usize) {
        self.written += 1;
        let data = format!("{node}:{}", self.written).into_bytes();
        self.outbox.push_back((self.written, data));
    }

    pub(super) fn hand_over(&mut self, now_ms: u64) {
        while self.bridge.can_send() && self.handed < self.outbox.len() {
            let (outbox, data) = &self.outbox[self.handed];
            self.handed += 1;
            let record = Outgoing {
                outbox: *outbox,
                content: Content::Event,
                channel: channel_of(*outbox),
                name: None,
                data,
                except: Some((7, *outbox)),
            };
            self.bridge.send(&record, now_ms);
        }
    }

    pub(super) fn take_events(
        &mut self,
        node: usize,
        server: &mut Server,
        is_reachable: bool,
        now_ms: u64,
    ) {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(_) if is_reachable => {
                    server.open(node);
                    self.bridge.handle_connected(now_ms);
                }
                Event::Connect(_) => self.bridge.handle_closed("refused", now_ms),
                Event::Disconnect => {
                    server.connections.remove(&node);
                }
                Event::Begin(place) => {
                    self.delivered.push(Delivered::Gap(place));
                    self.reached_ms = None;
                }
                Event::Record(record) => {
                    assert_eq!(record.channel, channel_of_data(&record.data));
                    assert_eq!(record.except.map(|it| it.0), Some(7));
                    self.delivered
                        .push(Delivered::Event(record.place, record.data));
                    self.reached_ms = Some(record.unix_ms);
                }
                Event::Accepted { outbox, place } => {
                    let before = self.accepted.insert(outbox, place);
                    assert!(
                        before.is_none_or(|before| before == place || before.epoch != place.epoch)
                    );
                }
                Event::Rejected(rejected) => panic!("{rejected:?}"),
                Event::Released(outbox) => {
                    while self.outbox.front().is_some_and(|(it, _)| *it <= outbox) {
                        self.outbox.pop_front();
                        self.handed -= 1;
                    }
                }
                Event::Rewind => self.handed = 0,
                Event::Ready => self.is_ready = true,
                Event::Away(_) => self.is_ready = false,
                Event::Past { id, entries } => self.check_past(id, &entries),
                Event::PastLost(id) => {
                    self.asked.remove(&id).expect("it was asked for");
                }
                Event::Secure
                | Event::LogEnd { .. }
                | Event::Passed(_)
                | Event::Intruder(_)
                | Event::Notice(_) => {}
            }
        }
    }
}
