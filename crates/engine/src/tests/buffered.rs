//! Tests of the bytes buffered for clients, and of their limits.

use std::net::Ipv4Addr;

use fermata_config::{Builder, Settings, Source};
use fermata_io::Peer;
use fermata_io::sys::fake::{End, FakePeer};
use fermata_proto::http2::{Limits, Rest};

use super::http2::{Client, check_empty, ok, on};
use super::{Rig, get, post, settings};
use crate::admin::stats::Counter;
use crate::id::RequestId;

/// Size of each unread response in bytes.
const BIG: usize = 300_000;

/// Connects a client with a separate address. The client requests a response and reads nothing.
fn deaf(rig: &mut Rig, nth: u8, bytes: usize) -> FakePeer {
    let address = Peer::V4(Ipv4Addr::new(10, 0, 0, nth), 1000);
    let peer = rig.fake.connect_from(rig.listener, address);
    peer.set_window(0);
    peer.write(&get(&format!("/big/{bytes}")));
    rig.run();
    peer
}

/// Checks that another client is served.
fn check_others(rig: &mut Rig) {
    let other = rig.peer(&get("/hello"));
    assert!(other.read().starts_with(b"HTTP/1.1 200"));
    other.close();
    rig.run();
}

fn dropped(rig: &Rig) -> u64 {
    rig.worker.net.counts.get(Counter::DroppedBuffered)
}

#[test]
fn postpones_http2_requests_until_the_client_reads() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_connection_bytes_max: 2 * BIG,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.takes = false;
    let streams: Vec<_> = (0..20)
        .map(|_| client.get(&format!("/big/{BIG}")))
        .collect();
    client.run(&mut rig);
    // Each stream may send one window of 65,535 bytes.
    assert!(rig.requests <= 4, "{} handlers ran", rig.requests);
    assert!(rig.worker.net.buffered.total() <= 4 * BIG);
    check_others(&mut rig);
    let before = rig.requests;
    rig.advance(1_000);
    assert_eq!(rig.requests, before);
    client.read_on(&streams);
    client.run(&mut rig);
    for stream in streams {
        assert_eq!(client.whole(stream).1.len(), BIG);
    }
    assert_eq!(rig.worker.net.buffered.total(), 0);
    assert_eq!(rig.worker.http.held_back.len(), 0);
}

#[test]
fn counts_bodies_of_waiting_requests_without_delaying_them() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_connection_bytes_max: BIG,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.takes = false;
    let first = client.get(&format!("/big/{}", 3 * BIG));
    let echoes: Vec<_> = (0..8)
        .map(|_| client.post("/echo", &[b'y'; 7_000]))
        .collect();
    client.run(&mut rig);
    assert_eq!(rig.requests, 1);
    assert!(rig.worker.net.buffered.total() >= 2 * BIG + 8 * 7_000);
    client.read_on(&[first]);
    client.run(&mut rig);
    assert_eq!(client.whole(first).1.len(), 3 * BIG);
    for stream in echoes {
        assert_eq!(client.whole(stream).1.len(), 7_000);
    }
    assert_eq!(rig.worker.net.buffered.total(), 0);
}

#[test]
fn drops_waiting_requests_with_their_connection() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_connection_bytes_max: BIG,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.takes = false;
    for _ in 0..10 {
        client.get(&format!("/big/{}", 3 * BIG));
    }
    client.run(&mut rig);
    assert_eq!((rig.requests, rig.worker.http.held_back.len()), (1, 9));
    client.peer.close();
    rig.run();
    assert_eq!((rig.requests, rig.worker.http.held_back.len()), (1, 0));
    assert_eq!(rig.worker.net.buffered.total(), 0);
    check_empty(&rig);
}

#[test]
fn closes_the_largest_and_oldest_clients_at_the_workers_limit() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_bytes_max: 4 * BIG,
            ..settings()
        },
    );
    let old = deaf(&mut rig, 1, BIG);
    rig.advance(5_000);
    let small = deaf(&mut rig, 2, 10_000);
    let young: Vec<_> = (3..6).map(|nth| deaf(&mut rig, nth, BIG)).collect();
    assert_eq!(old.end(), End::Reset);
    assert_eq!(small.end(), End::Open);
    assert!(young.iter().all(|it| it.end() == End::Open));
    assert_eq!(dropped(&rig), 1);
    for nth in 6..100 {
        deaf(&mut rig, nth, BIG);
        assert!(rig.worker.net.buffered.total() <= 4 * BIG);
    }
    assert_eq!(small.end(), End::Open);
    check_others(&mut rig);
    // A client that reads receives the complete response.
    small.set_window(1 << 20);
    rig.run();
    assert!(small.read().len() > 10_000);
}

#[test]
fn limits_bytes_per_address() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_address_bytes_max: 2 * BIG,
            ..settings()
        },
    );
    let other = deaf(&mut rig, 1, BIG);
    rig.advance(5_000);
    let crowd: Vec<_> = (0..10).map(|_| deaf(&mut rig, 2, BIG)).collect();
    assert_eq!(other.end(), End::Open);
    let open = crowd.iter().filter(|it| it.end() == End::Open).count();
    // One response is within the limit, and one more is spared.
    assert_eq!(open, 2);
    let counter = Counter::DroppedBufferedAddress;
    assert_eq!((rig.worker.net.counts.get(counter), dropped(&rig)), (8, 0));
}

/// Repeatedly opens the window of a client, and returns the bytes that it reads.
fn read_slowly(rig: &mut Rig, peer: &FakePeer, bytes: usize) -> usize {
    let mut read = 0;
    for _ in 0..200 {
        peer.set_window(bytes / 20);
        rig.advance(1_000);
        read += peer.read().len();
        if read > bytes || peer.end() != End::Open {
            break;
        }
    }
    read
}

#[test]
fn sends_a_reading_client_one_response_above_the_bound_of_its_address() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_address_bytes_max: BIG,
            ..settings()
        },
    );
    let large = deaf(&mut rig, 1, 4 * BIG);
    assert_eq!(large.end(), End::Open);
    // The limit applies to all other responses of the address.
    let others: Vec<_> = (0..3).map(|_| deaf(&mut rig, 1, BIG - 50_000)).collect();
    let open = others.iter().filter(|it| it.end() == End::Open).count();
    assert_eq!((large.end(), open), (End::Open, 1));
    assert!(rig.worker.net.buffered.total() < 5 * BIG + 50_000);
    assert!(read_slowly(&mut rig, &large, 4 * BIG) > 4 * BIG);
    rig.worker.net.buffered.check();
}

#[test]
fn cuts_a_response_above_the_bound_of_its_address_when_its_client_stops_reading() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_address_bytes_max: BIG,
            ..settings()
        },
    );
    let large = deaf(&mut rig, 1, 4 * BIG);
    for _ in 0..4 {
        rig.advance(2_000);
        check_others(&mut rig);
    }
    assert_eq!(large.end(), End::Reset);
    let counter = Counter::DroppedBufferedAddress;
    assert_eq!((rig.worker.net.counts.get(counter), dropped(&rig)), (1, 0));
    assert_eq!(rig.worker.net.buffered.total(), 0);
}

#[test]
fn cuts_a_response_above_the_bound_of_the_worker() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_address_bytes_max: BIG,
            buffered_bytes_max: 2 * BIG,
            ..settings()
        },
    );
    let large = deaf(&mut rig, 1, 4 * BIG);
    assert_eq!((large.end(), dropped(&rig)), (End::Reset, 1));
    assert_eq!(rig.worker.net.buffered.total(), 0);
}

#[test]
fn resets_the_other_streams_of_a_connection_and_not_the_one_that_is_read() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_address_bytes_max: BIG,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.takes = false;
    let large = client.get(&format!("/big/{}", 4 * BIG));
    for _ in 0..5 {
        client.get(&format!("/big/{BIG}"));
    }
    client.run(&mut rig);
    assert!(rig.worker.net.buffered.total() < 5 * BIG);
    assert!(rig.worker.net.counts.get(Counter::DroppedBufferedAddress) > 0);
    rig.worker.net.buffered.check();
    client.read_on(&[large]);
    client.run(&mut rig);
    assert_eq!(client.whole(large).1.len(), 4 * BIG);
}

/// Sends interim responses to a waiting request until one is refused. Returns the number of accepted ones.
fn flood_with_interim_responses(rig: &mut Rig, handle: RequestId) -> usize {
    let value = [b'x'; 5_000];
    let headers = [(&b"link"[..], &value[..])];
    for sent in 0..1_000 {
        let outcome = rig.worker.send_interim(handle, 103, headers.into_iter());
        if outcome != Ok(true) {
            return sent;
        }
        rig.run();
    }
    1_000
}

#[test]
fn bounds_interim_responses_that_a_client_does_not_read() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(0);
    peer.write(&get("/late?waits"));
    rig.run();
    let handle = rig.late.pop_front().expect("a request");
    assert!(flood_with_interim_responses(&mut rig, handle) < 8);
    // A client that reads again receives more interim responses, and always the final response.
    peer.set_window(1 << 20);
    rig.run();
    let sent = flood_with_interim_responses(&mut rig, handle);
    assert!((200..220).contains(&sent), "{sent}");
    rig.respond(handle, b"late");
    let before = peer.read();
    rig.run();
    assert!([before, peer.read()].concat().ends_with(b"late"));
}

#[test]
fn bounds_interim_responses_that_an_http2_client_does_not_read() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let stream = client.get("/late?waits");
    client.run(&mut rig);
    let handle = rig.late.pop_front().expect("a request");
    client.peer.set_window(0);
    assert!(flood_with_interim_responses(&mut rig, handle) < 8);
    client.peer.set_window(1 << 20);
    client.run(&mut rig);
    rig.respond(handle, b"late");
    client.run(&mut rig);
    assert_eq!(client.whole(stream), ok("late"));
}

#[test]
fn closes_clients_that_do_not_read_before_those_that_do() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_bytes_max: 5 * BIG,
            ..settings()
        },
    );
    let reading = deaf(&mut rig, 1, 2 * BIG);
    rig.advance(3_000);
    let silent = deaf(&mut rig, 2, BIG);
    for _ in 0..8 {
        reading.set_window(10_000);
        rig.advance(1_000);
        let _ = reading.read();
    }
    for nth in 3..5 {
        deaf(&mut rig, nth, BIG);
    }
    assert_eq!((reading.end(), silent.end()), (End::Open, End::Reset));
}

#[test]
fn exempts_trusted_proxies_from_the_address_limit() {
    let mut builder = Builder::new();
    let set = builder.set("trusted_proxies", "192.0.2.1", Source::Code);
    set.expect("a list of addresses");
    let of_proxies = builder.build().expect("settings");
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_per_address_bytes_max: 2 * BIG,
            buffered_bytes_max: 6 * BIG,
            trusted_proxies: of_proxies.trusted_proxies,
            ..settings()
        },
    );
    let mut crowd = Vec::new();
    for nth in 1..9 {
        let address = Peer::V4(Ipv4Addr::new(192, 0, 2, 1), 1000);
        let peer = rig.fake.connect_from(rig.listener, address);
        peer.set_window(0);
        // The rig's listener expects a PROXY header on each connection. `UNKNOWN` has no client address.
        peer.write(&[b"PROXY UNKNOWN\r\n", &get(&format!("/big/{BIG}"))[..]].concat());
        rig.run();
        crowd.push(peer);
        let open = crowd.iter().filter(|it| it.end() == End::Open).count();
        assert!(open == nth || nth > 5, "{open} of {nth}");
        assert!(rig.worker.net.buffered.total() <= 6 * BIG);
    }
    assert!(dropped(&rig) > 0);
}

#[test]
fn closes_streams_and_keeps_their_connection() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_bytes_max: 2 * BIG,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.takes = false;
    for _ in 0..10 {
        client.get(&format!("/big/{BIG}"));
    }
    client.run(&mut rig);
    assert!(rig.worker.net.buffered.total() <= 2 * BIG);
    assert!(dropped(&rig) > 0);
    client.takes = true;
    let hello = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(client.whole(hello), ok("hello"));
}

#[test]
fn counts_incomplete_bodies() {
    let mut rig = Rig::with(
        1,
        Settings {
            buffered_bytes_max: 10 * 65_536,
            ..settings()
        },
    );
    let whole = post("/echo", &"x".repeat(100_000));
    let mut answered = 0;
    for nth in 0..40 {
        let address = Peer::V4(Ipv4Addr::new(10, 0, 1, nth), 1000);
        let peer = rig.fake.connect_from(rig.listener, address);
        peer.write(&whole[..whole.len() - 1]);
        rig.run();
        assert!(rig.worker.net.buffered.total() <= 10 * 65_536);
        answered += usize::from(nth == 39);
    }
    assert_eq!((answered, rig.requests), (1, 0));
    assert!(rig.worker.net.counts.get(Counter::Refused503) > 20);
    check_others(&mut rig);
    // A complete request is answered, and no longer counted.
    let last = rig.peer(&whole[..50_000]);
    last.write(&whole[50_000..]);
    rig.run();
    assert!(last.read().starts_with(b"HTTP/1.1 200"));
}

#[test]
fn closes_a_client_below_the_minimum_rate_only() {
    let mut rig = Rig::with(
        1,
        Settings {
            write_timeout_ms: 5_000,
            write_rate_min: 1_000,
            ..settings()
        },
    );
    let trickle = deaf(&mut rig, 1, BIG);
    let slow = deaf(&mut rig, 2, BIG);
    let fast = deaf(&mut rig, 3, BIG);
    for second in 0..30 {
        trickle.set_window(100);
        slow.set_window(2_000);
        fast.set_window(20_000);
        rig.advance(1_000);
        for peer in [&trickle, &slow, &fast] {
            let _ = peer.read();
        }
        let is_open = trickle.end() == End::Open;
        assert!(is_open || second >= 4, "closed after {second} s");
        assert!(!is_open || second < 7, "open after {second} s");
    }
    assert_eq!((slow.end(), fast.end()), (End::Open, End::Open));
    assert_eq!(rig.worker.net.counts.get(Counter::DroppedWriteTimeout), 1);
}

#[test]
fn closes_streams_whose_windows_open_too_slowly() {
    let mut rig = Rig::with(
        1,
        Settings {
            write_timeout_ms: 10_000,
            write_rate_min: 16_384,
            ..on()
        },
    );
    // The client returns credit when half of a window was read.
    let small = Limits {
        stream_window_bytes: 2 * 4_096,
        ..Limits::default()
    };
    let mut client = Client::with(&rig, small);
    client.takes = false;
    let streams: Vec<_> = (0..10)
        .map(|_| client.get(&format!("/big/{BIG}")))
        .collect();
    client.run(&mut rig);
    for _ in 0..6 {
        for &stream in &streams {
            client.read_some(stream, 4_096);
        }
        client.run(&mut rig);
        rig.advance(5_000);
    }
    assert_eq!(rig.worker.net.buffered.total(), 0);
    assert_eq!(rig.worker.net.http2.streams_len(), 0);
    assert!(rig.worker.net.counts.get(Counter::DroppedWriteTimeout) >= 1);
}

#[test]
fn does_not_close_a_slow_upload_as_unread() {
    let mut rig = Rig::with(
        1,
        Settings {
            write_timeout_ms: 10_000,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    let stream = client.open("POST", "/echo", false);
    client.run(&mut rig);
    // Twice as fast as `body_rate_min`.
    for second in 0..16 {
        if second == 4 {
            // The last bytes wait for a window. They are too few to be counted, so the connection is checked each second.
            client.takes = false;
            client.get("/big/70000");
        }
        client.send(stream, &[b'x'; 32_768], Rest::Open);
        client.run(&mut rig);
        rig.advance(1_000);
    }
    client.takes = true;
    client.send(stream, b"", Rest::End);
    client.run(&mut rig);
    assert_eq!(client.whole(stream).1.len(), 16 * 32_768);
    assert_eq!(rig.worker.net.buffered.total(), 0);
}
