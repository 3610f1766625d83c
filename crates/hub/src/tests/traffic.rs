//! Counters of a reader's traffic.

use super::*;
use crate::{Encode, Local, LocalConfig, PayloadSpan, SubId, Traffic};

/// The data without framing.
struct Plain;

impl Encode for Plain {
    fn encode(&mut self, _format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        out.extend_from_slice(record.data());
        PayloadSpan {
            start: 0,
            end: record.data().len(),
        }
    }
}

/// Returns channel, subscribers, records, records times subscribers.
fn new_traffic(local: &mut Local) -> Vec<(Vec<u8>, u64, u64, u64)> {
    let mut found = Vec::new();
    local.take_tally(&mut |channel, subscribers, records, deliveries| {
        found.push((channel.to_vec(), subscribers, records, deliveries));
    });
    found.sort();
    found
}

#[test]
fn counts_traffic_lag_and_tally() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let who = worker(1);
    let mut reader = ring.worker_started(&who, 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1 << 16,
        hasher: ring.hasher(),
    });
    let one = local.subscribe(1, SubId::NONE, b"a", 0);
    let two = local.subscribe(2, SubId::NONE, b"a", 0);
    let other = local.subscribe(2, two, b"b", 0);

    assert_eq!(ring.lag_bytes(1), 0);
    for channel in [b"a", b"a", b"b", b"c"] {
        ring.publish(&who, &message(channel, b"12345"), 0).unwrap();
    }
    let lag = ring.lag_bytes(1);
    assert!(lag > 0 && lag < ring.bytes(), "{lag}");
    assert_eq!(ring.lag_bytes(2), 0, "nobody has this slot");
    assert_eq!(ring.lag_bytes(u32::MAX), 0);

    local.begin_tally();
    while local.pump(&mut reader, &mut Plain, 100) {}
    assert_eq!(ring.lag_bytes(1), 0);
    let traffic = Traffic {
        records_read: 4,
        deliveries: 2 + 2 + 1,
    };
    assert_eq!(local.traffic(), traffic);
    let expected = vec![(b"a".to_vec(), 2, 2, 4), (b"b".to_vec(), 1, 1, 1)];
    assert_eq!(new_traffic(&mut local), expected);
    assert_eq!(new_traffic(&mut local), [], "each time what is new");

    assert_eq!(local.behind(one), (&b"a"[..], 10));
    assert_eq!(local.behind(other), (&b"a"[..], 15));
    assert_eq!(local.behind(SubId::NONE), (&b""[..], 0));

    // A removed channel loses its count, even if another channel reuses its index.
    ring.publish(&who, &message(b"b", b"12345"), 0).unwrap();
    while local.pump(&mut reader, &mut Plain, 100) {}
    local.unsubscribe(other);
    local.subscribe(3, SubId::NONE, b"d", 0);
    assert_eq!(new_traffic(&mut local), []);
    local.end_tally();
    ring.publish(&who, &message(b"a", b"12345"), 0).unwrap();
    while local.pump(&mut reader, &mut Plain, 100) {}
    assert_eq!(new_traffic(&mut local), []);
}
