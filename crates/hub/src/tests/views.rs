//! Views: parts of a channel that the encoder selects.

use super::*;
use crate::{Encode, Local, LocalConfig, PayloadSpan, SubId, view_channel};

/// Encoder in which the bytes of a record's data are the record's views.
struct ByData;

impl Encode for ByData {
    fn encode(&mut self, _: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        out.extend_from_slice(record.data());
        PayloadSpan {
            start: 0,
            end: record.data().len(),
        }
    }

    fn select(&mut self, record: &Record, views: &mut Vec<u64>) {
        views.extend(record.data().iter().map(|&byte| u64::from(byte)));
    }

    fn encode_view(&mut self, view: u64, _: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        // View 7 encodes nothing.
        if view != 7 {
            out.push(b'0' + view as u8);
        }
        PayloadSpan { start: 0, end: 1 }
    }
}

#[test]
fn views_receive_their_selected_records() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let who = worker(1);
    let mut reader = ring.worker_started(&who, 0).unwrap();
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1 << 16,
        hasher: ring.hasher(),
    });
    local.select_from(b"all");
    let first = local.subscribe(1, SubId::NONE, &view_channel(1), 0);
    let second = local.subscribe(2, SubId::NONE, &view_channel(2), 0);
    let silent = local.subscribe(3, SubId::NONE, &view_channel(7), 0);
    let plain = local.subscribe(4, SubId::NONE, b"all", 0);
    let other = local.subscribe(5, SubId::NONE, b"other", 0);
    for (channel, data) in [
        (&b"all"[..], &[1][..]),
        (b"all", &[1, 2, 7, 9]),
        (b"other", &[1, 2]),
        (b"all", &[2]),
    ] {
        ring.publish(&who, &message(channel, data), 0).unwrap();
    }
    while local.pump(&mut reader, &mut ByData, 100) {}
    let mut ready = Vec::new();
    while let Some(owner) = local.next_ready() {
        ready.push(owner);
    }
    ready.sort_unstable();
    assert_eq!(ready, [1, 2, 4, 5]);
    let got = |local: &Local, chain| local.contiguous(chain, usize::MAX).unwrap().to_vec();
    assert_eq!(got(&local, first), b"11");
    assert_eq!(got(&local, second), b"22");
    assert_eq!(got(&local, silent), b"");
    assert_eq!(got(&local, plain), [1, 1, 2, 7, 9, 2]);
    assert_eq!(got(&local, other), [1, 2]);
    // Without subscribers, the record is read but not stored.
    for chain in [first, second, silent, plain, other] {
        local.unsubscribe(chain);
    }
    ring.publish(&who, &message(b"all", &[1]), 0).unwrap();
    while local.pump(&mut reader, &mut ByData, 100) {}
    assert_eq!(local.log_bytes(), 0);
}
