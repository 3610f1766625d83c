use std::sync::atomic::Ordering;

use fermata_cluster::{Content, Received};
use fermata_config::LogFormat;
use fermata_hub::{IdRef, Ids};

use super::*;
use crate::channels::memory;
use crate::channels::test_ring::{CONFIG, ring, ring_in, words};

/// Creates a process with this ring.
fn process(ring: Ring) -> Process {
    let settings = Settings {
        cluster: Some("nats://127.0.0.1:1".to_owned()),
        ..Settings::default()
    };
    let owner = memory::owner(0);
    let cluster = Cluster::open(&settings, 2, owner, (None, None))
        .expect("there is memory")
        .expect("a cluster is set");
    let logger = Logger::new(LogFormat::Text, LogLevel::Warning, "test");
    let wakers = Arc::new(Vec::new());
    Process::new(cluster, ring, owner, wakers, &settings, logger).expect("there are descriptors")
}

fn event(seq: u64, data: &[u8]) -> Received {
    Received {
        place: Place { epoch: 7, seq },
        content: Content::Event,
        channel: b"c".to_vec(),
        name: None,
        data: data.to_vec(),
        except: None,
        unix_ms: 1,
    }
}

#[test]
fn rate_limits_log_lines_about_invalid_records() {
    let mut process = process(ring(&CONFIG));
    for seq in 1..500 {
        let received = Received {
            content: Content::Presence,
            ..event(seq, b"no fact")
        };
        process.publish(&received).expect("the ring is whole");
    }
    assert!(process.logger.left_out() > 0);
}

/// Regression: this event made the server discard all members and request them from all other servers.
#[test]
fn drops_an_oversized_event_and_keeps_members() {
    let mut process = process(ring(&CONFIG));
    let place = |seq| Place { epoch: 7, seq };
    process.begin(place(1)).expect("the ring is whole");
    assert!(!process.state.is_presence_known());
    process.state.set_presence_known();
    let oversized = event(2, &vec![b'x'; 2 * CONFIG.record_bytes_max]);
    process.publish(&oversized).expect("the ring is whole");
    assert!(process.state.is_presence_known());
    assert_eq!(process.ring.log_reached(), Some(log_place(place(2))));
}

#[test]
fn exits_on_a_damaged_ring() {
    let words = words(&CONFIG);
    let mut process = process(ring_in(words, &CONFIG));
    let place = Place { epoch: 7, seq: 1 };
    process.begin(place).expect("the ring is whole");
    // A lock of a process that has exited, and contradictory bounds.
    for (at, word) in words.iter().enumerate() {
        word.store((at as u64 + 1) << 40 | 0x3fff_ffff, Ordering::Relaxed);
    }
    let error = process.publish(&event(2, b"1")).expect_err("it is damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
    let error = process.begin(place).expect_err("it is damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// A client of another server may have received events that this ring does not contain yet. Events for it must wait until the ring
/// contains its last event id; otherwise the client would receive some of them twice.
#[test]
fn past_of_an_earlier_connection_ends_where_it_was_read() {
    let mut process = process(ring(&CONFIG));
    process.state.set_ready();
    let place = |seq| Place { epoch: 7, seq };
    process
        .on_log_end(place(5), None)
        .expect("the ring is whole");
    process.begin(place(3)).expect("the ring is whole");
    // The connection breaks, and the log grows until the next connection.
    process
        .on_log_end(place(9), None)
        .expect("the ring is whole");
    for seq in 4..=6 {
        process
            .publish(&event(seq, b"1"))
            .expect("the ring is whole");
        process.pass(place(seq)).expect("the ring is whole");
    }
    assert_eq!(process.ring.past_until(), None);
    let mut text = Vec::new();
    Ids::new(7).write(8, &mut text);
    assert_eq!(process.ring.parse_id(&text), IdRef::Ahead(8));
}
