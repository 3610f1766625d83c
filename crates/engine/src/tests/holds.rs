//! Tests of held clients: order, replay, gaps, presence, end.

use fermata_config::Settings;
use fermata_io::sys::fake::{End, FakePeer, Faults};
use proptest::prelude::*;

use super::client::{answers, data, events, last_id};
use super::{Rig, get, settings};

fn hold_since(path: &str, id: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\nLast-Event-ID: {id}\r\n\r\n").into_bytes()
}

#[test]
fn messages_of_several_channels_arrive_in_the_order_of_publishing() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/hold/a,b,c"));
    let mut expected = Vec::new();
    for n in 0..60 {
        rig.publish(["a", "b", "c", "d"][n % 4], &n.to_string());
        if n % 4 != 3 {
            expected.push(n.to_string());
        }
        if n % 7 == 0 {
            rig.run();
        }
    }
    rig.run();
    assert_eq!(data(&peer.read()), expected);
}

#[test]
fn sends_no_gap_to_a_client_that_keeps_up_with_a_large_burst() {
    let mut settings = settings();
    settings.channel_log_bytes_max = 8192;
    let mut rig = Rig::with(1, settings);
    let peers: Vec<FakePeer> = (0..5).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.set_window(1 << 20);
        peer.write(&get("/hold/a,b"));
    }
    rig.run();
    for n in 0..200 {
        rig.publish(if n % 3 == 0 { "a" } else { "b" }, &format!("{n:0500}"));
    }
    rig.run();
    for peer in &peers {
        assert_eq!(data(&peer.read()).len(), 200);
    }
}

#[test]
fn sends_a_gap_to_or_closes_a_slow_client() {
    let mut settings = settings();
    settings.channel_log_bytes_max = 4096;
    for closes in [false, true] {
        let mut rig = Rig::with(1, settings.clone());
        let peer = rig.peer(&get(if closes { "/hold/a?close" } else { "/hold/a" }));
        let quick = rig.peer(&get("/hold/a"));
        let mut got = peer.read();
        peer.set_window(300);
        for n in 0..100 {
            rig.publish("a", &format!("{n:0200}"));
            rig.run();
        }
        assert_eq!(data(&quick.read()).len(), 100, "others do not notice");
        peer.set_window(1 << 20);
        for _ in 0..10 {
            got.extend(peer.read());
            rig.run();
        }
        got.extend(peer.read());
        let received = events(&got);
        let gaps = received
            .iter()
            .filter(|event| event.name.as_deref() == Some("gap"))
            .count();
        if closes {
            assert_eq!(gaps, 0);
            assert_ne!(peer.end(), End::Open);
            assert_eq!(rig.worker.net.sockets_len(), 1);
        } else {
            assert_eq!(gaps, 1);
            let numbers: Vec<u64> = data(&got)
                .iter()
                .map(|n| n.parse().expect("digits"))
                .collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice");
            assert_eq!(numbers.last(), Some(&99));
            assert!(numbers.len() < 100);
        }
    }
}

#[test]
fn sends_exactly_the_missed_events_to_a_reconnecting_client() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/hold/a,b"));
    rig.publish("a", "one");
    rig.publish("b", "two");
    rig.run();
    let got = peer.read();
    assert_eq!(data(&got), ["one", "two"]);
    peer.close();
    rig.run();
    rig.publish("a", "three");
    rig.publish("other", "not for us");
    rig.publish("b", "four");
    let peer = rig.peer(&hold_since("/hold/a,b", &last_id(&got)));
    rig.publish("a", "five");
    rig.run();
    assert_eq!(data(&peer.read()), ["three", "four", "five"]);
}

#[test]
fn sends_a_gap_for_an_id_of_another_ring() {
    for id in ["zz-5", "nonsense", "7-zzzzzzzz"] {
        let mut rig = Rig::new(1);
        rig.publish("a", "old");
        let peer = rig.peer(&hold_since("/hold/a", id));
        rig.publish("a", "new");
        rig.run();
        let received = events(&peer.read());
        assert_eq!(received[0].name.as_deref(), Some("gap"), "{id}");
        assert_eq!(
            received.last().and_then(|it| it.data.as_deref()),
            Some("new")
        );
    }
}

#[test]
fn sends_a_gap_for_lost_history() {
    let mut settings = settings();
    settings.history_count_max = 5;
    let mut rig = Rig::with(1, settings);
    let first = rig.publish("a", "0");
    for n in 1..20 {
        rig.publish("a", &n.to_string());
    }
    let peer = rig.peer(&hold_since("/hold/a", &first));
    let got = peer.read();
    assert_eq!(events(&got)[0].name.as_deref(), Some("gap"));
    assert_eq!(data(&got), ["15", "16", "17", "18", "19"]);
}

#[test]
fn ends_streams_cleanly_on_drain() {
    let mut rig = Rig::new(1);
    let old = rig.connect();
    old.write(b"GET /hold/a HTTP/1.0\r\n\r\n");
    let peer = rig.peer(&get("/hold/a?keep=0"));
    rig.publish("a", "last words");
    rig.run();
    rig.worker.begin_drain(false);
    rig.run();
    let got = peer.read();
    assert_eq!(data(&got), ["last words"]);
    let stream = &answers(&got, &[])[0];
    assert!(stream.is_whole && stream.body.ends_with(b"retry: 1000\n\n"));
    let old_got = old.read();
    assert!(old_got.ends_with(b"retry: 1000\n\n"));
    assert_eq!(data(&old_got), ["last words"]);
    assert_eq!((peer.end(), old.end()), (End::Finished, End::Finished));
    assert!(!rig.is_stopped, "the peers have not closed yet");
    peer.close();
    old.close();
    rig.run();
    assert!(rig.is_stopped);
}

#[test]
fn completes_started_requests_and_drops_others_on_drain() {
    let mut rig = Rig::new(1);
    let idle = rig.peer(&get("/hello"));
    let fresh = rig.peer(b"");
    let begun = rig.peer(b"GET /hello HTTP/1.1\r\n");
    let body = rig.peer(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\na");
    let late = rig.peer(&get("/late"));
    let _ = idle.read();
    // Two connections with an unread request: one after a response, one new.
    let unread = rig.peer(&get("/hello"));
    let _ = unread.read();
    unread.write(&get("/hello"));
    let waiting = rig.connect();
    waiting.write(&get("/hello"));
    rig.worker.begin_drain(false);
    rig.run();
    assert_eq!((idle.end(), fresh.end()), (End::Finished, End::Finished));
    for peer in [&waiting, &unread] {
        let answer = &answers(&peer.read(), &[])[0];
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["connection"], "close");
    }
    begun.write(b"Host: t\r\n\r\n");
    body.write(b"bc");
    rig.run();
    let handle = rig.late.pop_front().expect("it was asked for");
    rig.respond(handle, b"late");
    rig.run();
    for peer in [&begun, &body, &late] {
        let answer = &answers(&peer.read(), &[])[0];
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["connection"], "close");
    }
    // If the client may have sent more, the connection lingers.
    rig.advance(3_000);
    assert!(rig.is_stopped);
}

#[test]
fn stops_when_the_drain_timeout_is_over() {
    let mut rig = Rig::new(1);
    let stuck = rig.connect();
    stuck.set_window(100);
    stuck.write(&get("/big/100000"));
    let _late = rig.peer(&get("/late"));
    rig.run();
    rig.worker.begin_drain(false);
    rig.advance(settings().drain_timeout_ms - 200);
    assert!(!rig.is_stopped);
    rig.advance(400);
    assert!(rig.is_stopped);
    assert_eq!(rig.fake.open_streams(), 0);
}

#[test]
fn runs_no_handlers_after_retiring() {
    let mut rig = Rig::new(1);
    let body = rig.peer(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\na");
    let held = rig.peer(&get("/hold/a"));
    let file = rig.connect();
    file.set_window(10_000);
    let mut bytes = get("/files/large.bin");
    bytes.extend(get("/hello"));
    file.write(&bytes);
    rig.run();
    rig.worker.retire();
    rig.run();
    let requests = rig.requests;
    assert_eq!(answers(&body.read(), &[])[0].status, 503);
    assert!(held.read().ends_with(b"0\r\n\r\n"));
    let mut got = Vec::new();
    for _ in 0..100 {
        got.extend(file.read());
        rig.run();
    }
    // The file is complete and contains no other bytes.
    let answer = &answers(&got, &[])[0];
    assert!(answer.is_whole && answer.body == super::file_content());
    assert_eq!(rig.requests, requests);
    body.close();
    held.close();
    file.close();
    rig.run();
    assert!(rig.is_stopped);
    assert_eq!(rig.worker.exit_code(), crate::EXIT_RETIRED);
}

#[test]
fn leaves_presence_on_every_close() {
    for way in 0..6 {
        let mut rig = Rig::new(1);
        let watcher = rig.peer(&get("/hold/a"));
        let peer = rig.peer(&get("/hold/a?user=ann,keep=1000"));
        let members = rig
            .worker
            .channels
            .members(b"a", usize::MAX)
            .expect("a channel");
        assert_eq!(members.len(), 1);
        assert_eq!(members[0].connections, 1);
        match way {
            0 => peer.close(),
            1 => peer.reset(),
            2 => peer.shutdown_write(),
            3 => {
                // The client is stuck, and the write timeout closes it.
                peer.set_window(0);
                rig.advance(32_000);
            }
            4 => {
                let fd = peer.fd();
                let index = rig
                    .worker
                    .net
                    .connections
                    .indexes()
                    .into_iter()
                    .find(|&index| {
                        rig.worker
                            .net
                            .connections
                            .at(index)
                            .is_some_and(|it| it.line.socket() == Some(fd))
                    });
                let crate::Worker { net, http, .. } = &mut rig.worker;
                net.close(http, index.expect("it is open"));
                rig.worker.after_output();
            }
            _ => {
                // A reloaded page: no leave, no second join.
                peer.close();
                rig.advance(500);
                let again = rig.peer(&get("/hold/a?user=ann"));
                rig.advance(5_000);
                let names: Vec<_> = events(&watcher.read())
                    .into_iter()
                    .filter_map(|event| event.name)
                    .collect();
                assert_eq!(names, ["join"]);
                again.close();
                rig.advance(5_000);
                assert!(
                    rig.worker
                        .channels
                        .members(b"a", usize::MAX)
                        .expect("a channel")
                        .is_empty()
                );
                continue;
            }
        }
        rig.advance(3_000);
        let names: Vec<_> = events(&watcher.read())
            .into_iter()
            .filter_map(|event| event.name)
            .collect();
        assert_eq!(names, ["join", "leave"], "way {way}");
        assert!(
            rig.worker
                .channels
                .members(b"a", usize::MAX)
                .expect("a channel")
                .is_empty()
        );
        assert_eq!(
            rig.worker.channels.local.subscriptions(),
            1,
            "the watcher's"
        );
    }
}

#[test]
fn announces_a_leave_after_the_last_connection_of_two_workers() {
    let mut rigs = Rig::pair(1, &settings());
    let watcher = rigs[0].peer(&get("/hold/a"));
    let here = rigs[0].peer(&get("/hold/a?user=ann"));
    let there = rigs[1].peer(&get("/hold/a?user=ann"));
    let members = rigs[0]
        .worker
        .channels
        .members(b"a", usize::MAX)
        .expect("a channel");
    assert_eq!((members.len(), members[0].connections), (1, 2));
    here.close();
    rigs.iter_mut().for_each(|rig| rig.advance(5_000));
    assert_eq!(
        rigs[1]
            .worker
            .channels
            .members(b"a", usize::MAX)
            .expect("a channel")
            .len(),
        1
    );
    there.close();
    rigs[1].advance(5_000);
    rigs[0].run();
    let names: Vec<_> = events(&watcher.read())
        .into_iter()
        .filter_map(|event| event.name)
        .collect();
    assert_eq!(names, ["join", "leave"]);
    assert!(
        rigs[0]
            .worker
            .channels
            .members(b"a", usize::MAX)
            .expect("a channel")
            .is_empty()
    );
}

#[test]
fn drops_a_late_hold_of_a_disconnected_client() {
    for resets in [false, true] {
        let mut rig = Rig::new(1);
        let peer = rig.peer(&get("/late"));
        if resets {
            peer.reset();
        } else {
            peer.shutdown_write();
        }
        rig.run();
        let handle = rig.late.pop_front().expect("it was asked for");
        let _ = rig.hold(handle, "a", "user=ann,keep=0", None);
        rig.run();
        assert_eq!(rig.worker.net.sockets_len(), 0);
        rig.advance(3_000);
        assert!(
            rig.worker
                .channels
                .members(b"a", usize::MAX)
                .expect("a channel")
                .is_empty()
        );
    }
}

#[test]
fn does_not_hold_a_head_request() {
    let mut rig = Rig::new(1);
    let mut bytes = b"HEAD /hold/a?user=ann HTTP/1.1\r\nHost: t\r\n\r\n".to_vec();
    bytes.extend(get("/hello"));
    let peer = rig.peer(&bytes);
    let answers = answers(&peer.read(), &[true, false]);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0].headers["content-type"], "text/event-stream");
    assert_eq!(answers[1].body, b"hello");
    assert!(
        rig.worker
            .channels
            .members(b"a", usize::MAX)
            .expect("a channel")
            .is_empty()
    );
    assert_eq!(rig.worker.channels.local.subscriptions(), 0);
}

#[test]
fn sends_events_without_chunks_to_http_1_0() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(50);
    peer.write(b"GET /hold/a,b HTTP/1.0\r\n\r\n");
    let mut got = Vec::new();
    for n in 0..20 {
        rig.publish(["a", "b"][n % 2], &n.to_string());
    }
    for n in 20..60 {
        rig.publish(["a", "b"][n % 2], &n.to_string());
        rig.run();
        got.extend(peer.read());
    }
    for _ in 0..100 {
        rig.run();
        got.extend(peer.read());
    }
    assert!(!String::from_utf8_lossy(&got).contains("chunked"));
    let numbers: Vec<usize> = data(&got)
        .iter()
        .map(|n| n.parse().expect("digits"))
        .collect();
    assert_eq!(numbers.last(), Some(&59));
    assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
}

/// Actions on clients of two channels.
#[derive(Clone, Debug)]
enum Step {
    /// Worker, first channel or second, number of bytes.
    Publish(usize, bool, usize),
    Take(usize),
    Window(usize, usize),
    /// Page, and the worker to connect to.
    Reconnect(usize, usize),
    Turn(usize),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2_usize, any::<bool>(), 1..900_usize)
            .prop_map(|(at, is_a, len)| Step::Publish(at, is_a, len)),
        4 => (0..4_usize).prop_map(Step::Take),
        1 => (0..4_usize, 100..20_000_usize).prop_map(|(who, bytes)| Step::Window(who, bytes)),
        1 => (0..4_usize, 0..2_usize).prop_map(|(who, to)| Step::Reconnect(who, to)),
        6 => (0..2_usize).prop_map(Step::Turn),
        1 => (1..8_000_u64).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..150)
}

/// One page: the messages that it has received over all its connections.
struct Page {
    channels: &'static str,
    query: &'static str,
    peer: FakePeer,
    got: Vec<u8>,
    /// Numbers of the messages in order of arrival; `None` = a gap event.
    numbers: Vec<Option<usize>>,
    last_id: Option<String>,
}

impl Page {
    fn take_in(&mut self) {
        // A request in progress may be answered 408 if time passes.
        let answers = answers(&self.got, &[]);
        if answers.last().is_none_or(|it| it.status != 200) {
            self.got.clear();
            return;
        }
        for event in events(&self.got) {
            if let Some(id) = event.id {
                self.last_id = Some(id);
            }
            match (event.name.as_deref(), event.data) {
                (Some("gap"), _) => self.numbers.push(None),
                (None, Some(data)) => {
                    let number = data.split('-').next().unwrap_or_default();
                    self.numbers.push(Some(number.parse().expect("digits")));
                }
                _ => {}
            }
        }
        self.got.clear();
    }
}

proptest! {
    #![proptest_config(super::cases(200))]

    /// Two workers with slow, fast and reconnecting clients, and faults. Every page receives every
    /// message of its channels once and in order, or a gap event exactly where messages are
    /// missing.
    #[test]
    fn delivers_in_order_or_sends_a_gap(steps in steps(), seed in any::<u64>(), log in prop_oneof![Just(4096_usize), Just(262_144)]) {
        let mut settings = settings();
        settings.channel_log_bytes_max = log;
        settings.keep_alive_ms = 3_000;
        let mut rigs = Rig::pair(seed, &settings);
        for rig in &rigs {
            rig.fake.set_faults(Faults::HARMLESS);
        }
        let holds = [("a", ""), ("a,b", ""), ("b,a", "?close"), ("b", "")];
        let mut pages: Vec<Page> = holds
            .map(|(channels, query)| {
                let peer = rigs[0].connect();
                peer.write(&get(&format!("/hold/{channels}{query}")));
                Page { channels, query, peer, got: Vec::new(), numbers: Vec::new(), last_id: None }
            })
            .into();
        let mut published: Vec<(usize, bool)> = Vec::new();
        for _ in 0..200 {
            rigs[0].turn();
        }
        for step in steps {
            match step {
                Step::Publish(at, is_a, len) => {
                    let number = published.len();
                    rigs[at].publish(if is_a { "a" } else { "b" }, &format!("{number}-{}", "x".repeat(len)));
                    published.push((number, is_a));
                }
                Step::Take(who) => {
                    let bytes = pages[who].peer.read();
                    pages[who].got.extend(bytes);
                }
                Step::Window(who, bytes) => pages[who].peer.set_window(bytes),
                Step::Reconnect(who, to) => reconnect(&rigs[to], &mut pages[who]),
                Step::Turn(at) => rigs[at].turn(),
                Step::Advance(ms) => rigs.iter().for_each(|rig| rig.fake.advance(ms)),
            }
        }
        // Finally every client reads, and reconnects if it was closed.
        for _ in 0..400 {
            rigs.iter_mut().for_each(Rig::turn);
            for page in &mut pages {
                page.peer.set_window(1 << 20);
                let bytes = page.peer.read();
                page.got.extend(bytes);
                if page.peer.end() != End::Open {
                    reconnect(&rigs[0], page);
                }
            }
        }
        for page in &mut pages {
            page.take_in();
            // Per channel: the next expected message, and a flag for a gap event that may explain a
            // jump.
            let mut due = [true, false].map(|is_a| {
                let is_subscribed = page.channels.contains(if is_a { "a" } else { "b" });
                let of_channel = move |&&(_, it): &&(usize, bool)| is_subscribed && it == is_a;
                published.iter().filter(of_channel).map(|(number, _)| *number).peekable()
            });
            let mut may_jump = [false; 2];
            let mut last = None;
            for number in &page.numbers {
                let Some(number) = *number else {
                    may_jump = [true; 2];
                    continue;
                };
                prop_assert!(last < Some(number), "{}: {number} comes late", page.channels);
                last = Some(number);
                let channel = usize::from(!published[number].1);
                if std::mem::take(&mut may_jump[channel]) {
                    while due[channel].peek().is_some_and(|next| *next < number) {
                        due[channel].next();
                    }
                }
                prop_assert_eq!(due[channel].next(), Some(number), "{}", page.channels);
            }
            for (due, may_jump) in due.iter_mut().zip(may_jump) {
                prop_assert!(may_jump || due.next().is_none(), "{}", page.channels);
            }
        }
    }
}

/// Plays a browser that lost its connection.
fn reconnect(rig: &Rig, page: &mut Page) {
    let bytes = page.peer.read();
    page.got.extend(bytes);
    page.take_in();
    page.peer.close();
    page.peer = rig.connect();
    let path = format!("/hold/{}{}", page.channels, page.query);
    let request = match &page.last_id {
        Some(id) => hold_since(&path, id),
        None => get(&path),
    };
    page.peer.write(&request);
}

/// Regression: ended subscriptions form a free list, and a failed send counted events along that
/// list.
#[test]
fn counts_no_events_of_a_closed_client() {
    let settings = Settings {
        otlp_endpoint: Some("http://127.0.0.1:1".to_owned()),
        ..settings()
    };
    let mut rig = Rig::with(1, settings);
    let peers: Vec<_> = (0..20).map(|_| rig.peer(&get("/hold/news"))).collect();
    for (at, peer) in peers.iter().enumerate() {
        rig.publish("news", "one");
        peer.reset();
        rig.run();
        assert_eq!(rig.worker.channels.local.subscriptions(), 19 - at);
    }
}
