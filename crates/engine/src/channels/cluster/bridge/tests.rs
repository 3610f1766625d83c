use std::sync::atomic::Ordering;

use fermata_cluster::{Content, Received};
use fermata_config::LogFormat;

use super::*;
use crate::channels::memory;
use crate::channels::test_ring::{CONFIG, ring, ring_in, words};

/// A process with this ring.
fn process(ring: Ring) -> Process {
    let settings = Settings {
        cluster: Some("nats://127.0.0.1:1".to_owned()),
        ..Settings::default()
    };
    let owner = memory::owner(0);
    let cluster = Cluster::open(&settings, 2, owner, None)
        .expect("there is memory")
        .expect("a cluster is set");
    let logger = Logger::new(LogFormat::Text, LogLevel::Warning, "test");
    let wakers = Arc::new(Vec::new());
    Process::new(cluster, ring, owner, wakers, &settings, logger).expect("there are descriptors")
}

#[test]
fn records_that_are_none_do_not_fill_the_log_of_the_server() {
    let mut process = process(ring(&CONFIG));
    for seq in 1..500 {
        let received = Received {
            place: Place { epoch: 7, seq },
            content: Content::Presence,
            channel: b"c".to_vec(),
            name: None,
            data: b"no fact".to_vec(),
            except: None,
            unix_ms: 1,
        };
        process.publish(&received).expect("the ring is whole");
    }
    assert!(process.logger.left_out() > 0);
}

/// All other servers were asked for their members again, and until they had answered this one was not ready and knew none:
/// with each such event.
#[test]
fn an_event_that_is_too_large_here_is_left_out_and_members_stay_known() {
    let mut process = process(ring(&CONFIG));
    let place = |seq| Place { epoch: 7, seq };
    process.begin(place(1)).expect("the ring is whole");
    assert!(!process.state.is_presence_known());
    process.state.set_presence_known();
    let received = Received {
        place: place(2),
        content: Content::Event,
        channel: b"c".to_vec(),
        name: None,
        data: vec![b'x'; 2 * CONFIG.record_bytes_max],
        except: None,
        unix_ms: 1,
    };
    process.publish(&received).expect("the ring is whole");
    assert!(process.state.is_presence_known());
    assert_eq!(process.ring.log_reached(), Some(log_place(place(2))));
}

#[test]
fn a_damaged_ring_ends_the_process_instead_of_being_waited_for() {
    let words = words(&CONFIG);
    let mut process = process(ring_in(words, &CONFIG));
    let place = Place { epoch: 7, seq: 1 };
    process.begin(place).expect("the ring is whole");
    // A lock of a process that is gone, and bounds that contradict each other.
    for (at, word) in words.iter().enumerate() {
        word.store((at as u64 + 1) << 40 | 0x3fff_ffff, Ordering::Relaxed);
    }
    let received = Received {
        place: Place { epoch: 7, seq: 2 },
        content: Content::Event,
        channel: b"c".to_vec(),
        name: None,
        data: b"1".to_vec(),
        except: None,
        unix_ms: 1,
    };
    let error = process.publish(&received).expect_err("it is damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
    let error = process.begin(place).expect_err("it is damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
}
