//! Compares the fan-out with lists. For any order of subscribing, pumping, partial sends and unsubscribing, every owner
//! receives each record once and in order, or a gap.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::{Direct, Encode, Kind, Local, LocalConfig, PayloadSpan, SubId, Subscriber};

const CHANNELS: usize = 4;
const OWNERS: usize = 5;

/// The worker's own number.
const WORKER: u64 = 77;

/// Frames look like `<seq:data>`; the part inside the brackets is the payload. Format 1 doubles the brackets.
struct Brackets;

impl Encode for Brackets {
    fn encode(&mut self, format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let frame = frame(format, record.seq, record.data(), false);
        out.extend_from_slice(&frame);
        let edge = usize::from(format) + 1;
        PayloadSpan {
            start: edge,
            end: frame.len().saturating_sub(edge),
        }
    }
}

/// Returns a frame. Empty for data that starts with a zero, because such records have no frame.
fn frame(format: u8, seq: Seq, data: &[u8], raw: bool) -> Vec<u8> {
    if data.first() == Some(&0) {
        return Vec::new();
    }
    let edge = if raw { 0 } else { usize::from(format) + 1 };
    let mut out = vec![b'<'; edge];
    out.extend_from_slice(seq.to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(data);
    out.extend(std::iter::repeat_n(b'>', edge));
    out
}

#[derive(Clone, Debug)]
enum Op {
    Subscribe {
        owner: usize,
        channel: usize,
    },
    Unsubscribe {
        owner: usize,
    },
    Leave {
        owner: usize,
        channel: usize,
    },
    Publish {
        channel: usize,
        data: Vec<u8>,
        /// The owner that must not receive the record. A number without an owner means no exception.
        except: usize,
    },
    Pump {
        budget: usize,
    },
    /// Sends at most `window` bytes of one gather.
    Send {
        owner: usize,
        bytes_max: usize,
        window: usize,
    },
    /// Visits ready owners; each accepts `window` bytes, some leave.
    Visit {
        count: usize,
        window: usize,
        leaving: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let data = proptest::collection::vec(0..4u8, 0..30);
    prop_oneof![
        3 => (0..OWNERS, 0..CHANNELS).prop_map(|(owner, channel)| Op::Subscribe { owner, channel }),
        1 => (0..OWNERS).prop_map(|owner| Op::Unsubscribe { owner }),
        1 => (0..OWNERS, 0..CHANNELS).prop_map(|(owner, channel)| Op::Leave { owner, channel }),
        8 => (0..CHANNELS, data, 0..OWNERS * 2)
            .prop_map(|(channel, data, except)| Op::Publish { channel, data, except }),
        5 => (0..8usize).prop_map(|budget| Op::Pump { budget }),
        4 => (0..OWNERS, 0..200usize, 0..250usize)
            .prop_map(|(owner, bytes_max, window)| Op::Send { owner, bytes_max, window }),
        3 => (0..12usize, 0..300usize, 0..8usize)
            .prop_map(|(count, window, leaving)| Op::Visit { count, window, leaving }),
    ]
}

/// One owner, with its expected and received frames.
struct Client {
    chain: SubId,
    format: u8,
    raw: bool,
    channels: Vec<usize>,
    /// Expected frames, in order: number, bytes and channel.
    expected: VecDeque<(Seq, Vec<u8>, usize)>,
    /// Rest of a partially sent frame.
    rest: Vec<u8>,
    received: Vec<u8>,
}

impl Client {
    /// Removes completely received frames from the front of the expected frames.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        while let Some((_, front, _)) = self.expected.front() {
            let seen = self.received.len().min(front.len());
            prop_assert_eq!(&self.received[..seen], &front[..seen]);
            if seen < front.len() {
                return Ok(());
            }
            self.received.drain(..seen);
            self.expected.pop_front();
        }
        prop_assert!(self.received.is_empty());
        Ok(())
    }
}

/// Makes one write of at most `window` bytes.
fn send(
    local: &mut Local,
    client: &mut Client,
    bytes_max: usize,
    window: usize,
) -> Result<(), TestCaseError> {
    if !client.rest.is_empty() {
        let sent = window.min(client.rest.len());
        client.received.extend(client.rest.drain(..sent));
        return client.settle();
    }
    local.skip_excepts(client.chain);
    let mut slices = Vec::new();
    let gathered = local.gather(client.chain, client.raw, &mut slices, bytes_max);
    let together: Vec<u8> = slices.concat();
    prop_assert_eq!(together.len(), gathered.bytes);
    if !client.raw
        && let Some(slice) = local.contiguous(client.chain, bytes_max)
    {
        prop_assert_eq!(&together, slice);
    }
    if gathered.gap {
        prop_assert!(local.pending(client.chain) && slices.is_empty());
        local.skip_gap(client.chain);
        // Only the newest frames are left in the logs. Gather without a limit to determine them.
        let mut slices = Vec::new();
        local.gather(client.chain, true, &mut slices, usize::MAX);
        let left: Vec<Vec<u8>> = slices.iter().map(|slice| slice.to_vec()).collect();
        client.expected.retain(|(_, frame, _)| {
            let edge = if client.raw {
                0
            } else {
                usize::from(client.format) + 1
            };
            left.iter()
                .any(|payload| payload[..] == frame[edge..frame.len() - edge])
        });
        prop_assert_eq!(client.expected.len(), left.len());
        return Ok(());
    }
    let waiting = client.expected.iter().any(|(seq, _, _)| *seq != 0);
    prop_assert!(gathered.bytes > 0 || !local.pending(client.chain) || client.raw);
    prop_assert!(waiting || gathered.bytes == 0);
    let first = client
        .expected
        .front()
        .map_or(0, |(_, frame, _)| frame.len());
    prop_assert!(gathered.bytes <= bytes_max.max(first));
    let sent = window.min(gathered.bytes);
    client.received.extend_from_slice(&together[..sent]);
    local.advance(client.chain, client.raw, sent, &mut client.rest);
    client.settle()
}

fn name(channel: usize) -> [u8; 1] {
    [b'a' + channel as u8]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_owner_receives_every_frame_once(ops in proptest::collection::vec(op(), 1..150), log_bytes_max in 1..400usize) {
        let config = Config { ring_bytes: 1 << 16, ..small() };
        let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        let mut local = Local::new(LocalConfig { log_bytes_max, hasher: ring.hasher() });
        let mut clients: Vec<Client> = (0..OWNERS)
            .map(|owner| Client {
                chain: SubId::NONE,
                format: (owner % 2) as u8,
                raw: owner == 3,
                channels: Vec::new(),
                expected: VecDeque::new(),
                rest: Vec::new(),
                received: Vec::new(),
            })
            .collect();
        local.receive_directs(WORKER, b"direct");
        let mut unpumped: VecDeque<(Seq, usize, Vec<u8>, usize)> = VecDeque::new();
        for op in ops {
            match op {
                Op::Subscribe { owner, channel } => {
                    let client = &mut clients[owner];
                    if !client.channels.contains(&channel) {
                        client.chain = local.subscribe(owner as u32, client.chain, &name(channel), client.format);
                        client.channels.push(channel);
                    }
                }
                Op::Unsubscribe { owner } => leave(&mut local, &mut clients[owner]),
                Op::Leave { owner, channel } => {
                    let client = &mut clients[owner];
                    let chain = local.leave(client.chain, &name(channel));
                    prop_assert_eq!(chain.is_some(), client.channels.contains(&channel));
                    if let Some(chain) = chain {
                        client.chain = chain;
                        client.channels.retain(|is| *is != channel);
                        // A partially sent frame is still completed.
                        let begun = usize::from(!client.rest.is_empty());
                        let mut place = 0;
                        client.expected.retain(|(_, _, of)| {
                            place += 1;
                            place <= begun || *of != channel
                        });
                    }
                }
                Op::Publish { channel, data, except } => {
                    // An owner with this number in another worker is a different owner.
                    let worker_number = if data.len() % 4 == 3 { WORKER + 1 } else { WORKER };
                    let subscriber = Subscriber { worker: worker_number, key: 1 << 40 | except as u64 };
                    let text = name(channel);
                    let message = message(&text, &data);
                    let seq = ring.publish_about(&worker(0), &message, Some(subscriber), 0).unwrap();
                    let except = if worker_number == WORKER { except } else { OWNERS };
                    unpumped.push_back((seq, channel, data, except));
                }
                Op::Pump { budget } => {
                    let more = local.pump(&mut reader, &mut Brackets, budget);
                    let read = unpumped.iter().take_while(|record| record.0 <= reader.read_up_to()).count();
                    prop_assert!(read <= budget && (read > 0 || budget == 0 || unpumped.is_empty()));
                    for (seq, channel, data, except) in unpumped.drain(..read) {
                        for (owner, client) in clients.iter_mut().enumerate() {
                            if owner == except || !client.channels.contains(&channel) {
                                continue;
                            }
                            let frame = frame(client.format, seq, &data, client.raw);
                            if !frame.is_empty() {
                                client.expected.push_back((seq, frame, channel));
                            }
                        }
                    }
                    prop_assert_eq!(more, !unpumped.is_empty());
                }
                Op::Send { owner, bytes_max, window } => send(&mut local, &mut clients[owner], bytes_max, window)?,
                Op::Visit { count, window, leaving } => {
                    for _ in 0..count {
                        let Some(owner) = local.next_ready() else { break };
                        let client = &mut clients[owner as usize];
                        prop_assert!(local.pending(client.chain));
                        local.skip_excepts(client.chain);
                        send(&mut local, client, usize::MAX, window)?;
                        if let Some(client) = clients.get_mut(leaving) {
                            leave(&mut local, client);
                        }
                    }
                }
            }
        }
        // Pump and visit all owners once with an open window: every owner then has all frames.
        while local.pump(&mut reader, &mut Brackets, 100) {}
        for (seq, channel, data, except) in unpumped {
            for (owner, client) in clients.iter_mut().enumerate() {
                if owner == except || !client.channels.contains(&channel) {
                    continue;
                }
                let frame = frame(client.format, seq, &data, client.raw);
                if !frame.is_empty() {
                    client.expected.push_back((seq, frame, channel));
                }
            }
        }
        while let Some(owner) = local.next_ready() {
            let client = &mut clients[owner as usize];
            while !client.rest.is_empty() || local.pending(client.chain) {
                send(&mut local, client, usize::MAX, usize::MAX)?;
            }
        }
        for client in &mut clients {
            while !client.rest.is_empty() || local.pending(client.chain) {
                send(&mut local, client, usize::MAX, usize::MAX)?;
            }
            prop_assert!(client.expected.is_empty(), "{:?}", client.expected);
            leave(&mut local, client);
        }
        prop_assert_eq!((local.subscriptions(), local.channels()), (0, 0));
    }
}

fn leave(local: &mut Local, client: &mut Client) {
    local.unsubscribe(std::mem::replace(&mut client.chain, SubId::NONE));
    client.channels.clear();
    client.expected.clear();
    client.rest.clear();
    client.received.clear();
}

#[test]
fn one_round_visits_every_subscriber_with_news_once() {
    let config = Config {
        ring_bytes: 1 << 16,
        ..small()
    };
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1000,
        hasher: ring.hasher(),
    });
    let chains: Vec<SubId> = (0..100)
        .map(|owner| local.subscribe(owner, SubId::NONE, b"c", 0))
        .collect();
    local.subscribe(100, SubId::NONE, b"other", 0);
    ring.publish(&worker(0), &message(b"c", b"x"), 0).unwrap();
    assert!(!local.pump(&mut reader, &mut Brackets, 10));
    let mut visited: Vec<u32> = std::iter::from_fn(|| local.next_ready()).collect();
    visited.sort_unstable();
    assert_eq!(visited, (0..100).collect::<Vec<_>>());
    assert_eq!(local.next_ready(), None);
    for chain in chains {
        let bytes = local.contiguous(chain, usize::MAX).unwrap().len();
        local.advance(chain, false, bytes, &mut Vec::new());
        assert!(!local.pending(chain));
    }
}

#[test]
fn burst_longer_than_the_log_reaches_prompt_readers() {
    let config = Config {
        ring_bytes: 1 << 16,
        ..small()
    };
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 300,
        hasher: ring.hasher(),
    });
    let chain = local.subscribe(0, SubId::NONE, b"c", 0);
    let (mut got, mut rest) = (0, Vec::new());
    for _ in 0..20 {
        ring.publish(&worker(0), &message(b"c", &[1; 40]), 0)
            .unwrap();
    }
    loop {
        let more = local.pump(&mut reader, &mut Brackets, 100);
        while let Some(owner) = local.next_ready() {
            assert_eq!(owner, 0);
            let bytes = local
                .contiguous(chain, usize::MAX)
                .expect("no gap for who keeps up")
                .len();
            local.advance(chain, false, bytes, &mut rest);
            got += bytes;
        }
        if !more {
            break;
        }
    }
    assert!(got > 2 * 300, "the burst was to be longer than the log");
    assert!(rest.is_empty() && !local.pending(chain));
}

#[test]
fn lost_reader_is_a_gap_for_every_subscriber() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&doomed(0), 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1000,
        hasher: ring.hasher(),
    });
    let chain = local.subscribe(0, SubId::NONE, b"c", 0);
    for _ in 0..100 {
        ring.publish(&worker(1), &message(b"c", &[1; 40]), 0)
            .unwrap();
    }
    local.pump(&mut reader, &mut Brackets, 1);
    assert_eq!(local.next_ready(), Some(0));
    assert!(local.contiguous(chain, usize::MAX).is_none());
    assert!(local.gather(chain, false, &mut Vec::new(), usize::MAX).gap);
    local.skip_gap(chain);
    assert!(!local.pending(chain));
    while local.pump(&mut reader, &mut Brackets, 1) {}
    assert!(!local.contiguous(chain, usize::MAX).unwrap().is_empty());
}

#[test]
fn slow_subscriber_respects_the_log_limit() {
    let config = Config {
        ring_bytes: 1 << 16,
        ..small()
    };
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1000,
        hasher: ring.hasher(),
    });
    let slow = local.subscribe(0, SubId::NONE, b"c", 0);
    let quick = local.subscribe(1, SubId::NONE, b"c", 0);
    for _ in 0..2000 {
        ring.publish(&worker(0), &message(b"c", &[1; 40]), 0)
            .unwrap();
        local.pump(&mut reader, &mut Brackets, 10);
        let bytes = local.contiguous(quick, usize::MAX).unwrap().len();
        local.advance(quick, false, bytes, &mut Vec::new());
        assert!(local.log_bytes() <= 1500 + 64, "{}", local.log_bytes());
    }
    assert!(local.gather(slow, false, &mut Vec::new(), usize::MAX).gap);
    local.skip_gap(slow);
    let bytes = local.contiguous(slow, usize::MAX).unwrap().len();
    assert!((900..=1000).contains(&bytes), "{bytes}");
    local.advance(slow, false, bytes, &mut Vec::new());
    assert_eq!(
        local.log_bytes(),
        0,
        "nothing is kept once everybody has read everything"
    );
}

#[test]
fn idle_structures_stay_small() {
    let (subscription, stream) = Local::sizes();
    assert!(subscription <= 24, "{subscription}");
    assert!(stream <= 96, "{stream}");
}

#[test]
fn visit_continues_when_most_subscribers_leave() {
    let config = Config {
        ring_bytes: 1 << 16,
        ..small()
    };
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1000,
        hasher: ring.hasher(),
    });
    let mut chains: Vec<SubId> = (0..10)
        .map(|owner| local.subscribe(owner, SubId::NONE, b"c", 0))
        .collect();
    ring.publish(&worker(0), &message(b"c", b"x"), 0).unwrap();
    local.pump(&mut reader, &mut Brackets, 10);
    assert_eq!(local.next_ready(), Some(9));
    for chain in chains.drain(2..) {
        local.unsubscribe(chain);
    }
    assert_eq!(
        (local.next_ready(), local.next_ready(), local.next_ready()),
        (Some(1), Some(0), None)
    );
    // A channel is removed during its visit, and another one reuses its index.
    ring.publish(&worker(0), &message(b"c", b"x"), 0).unwrap();
    local.pump(&mut reader, &mut Brackets, 10);
    assert_eq!(local.next_ready(), Some(1));
    for chain in chains.drain(..) {
        local.unsubscribe(chain);
    }
    local.subscribe(20, SubId::NONE, b"d", 0);
    assert_eq!(local.next_ready(), None);
    ring.publish(&worker(0), &message(b"d", b"x"), 0).unwrap();
    local.pump(&mut reader, &mut Brackets, 10);
    assert_eq!((local.next_ready(), local.next_ready()), (Some(20), None));
}

#[test]
fn direct_records_reach_only_their_worker_process() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1000,
        hasher: ring.hasher(),
    });
    local.receive_directs(WORKER, b"\0w0");
    for (channel, worker_number, key, name) in [
        (&b"\0w0"[..], WORKER, 5, None),
        (b"\0w0", WORKER, 5, Some(&b"b"[..])),
        // A record from a previous worker in the same slot.
        (b"\0w0", WORKER + 1, 5, None),
        // A record for another slot.
        (b"\0w1", WORKER, 5, None),
        // Neither for a subscriber of this worker nor a message between workers.
        (b"\0w0", WORKER, Subscriber::WORKER.key, None),
    ] {
        let message = Message {
            channel,
            kind: Kind::Direct,
            name,
            data: b"hello",
        };
        let subscriber = Subscriber {
            worker: worker_number,
            key,
        };
        ring.publish_about(&worker(0), &message, Some(subscriber), 0)
            .unwrap();
    }
    assert!(!local.pump(&mut reader, &mut Brackets, 10));
    let direct = |has_name| Direct {
        key: 5,
        has_name,
        data: Box::from(&b"hello"[..]),
    };
    assert_eq!(local.take_directs(), [direct(false), direct(true)]);
    assert!(local.take_directs().is_empty());
}
