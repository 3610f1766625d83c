//! Tests of requests and responses: splits, faults, pipelining, half-closed peers.

use fermata_io::sys::fake::{End, FakePeer, Faults};
use proptest::prelude::*;

use super::client::{Answer, answers};
use super::{FILE_BYTES, HUGE, Rig, file_content, get, post};
use crate::http::files::StaticOptions;
use crate::log::Detail;
use crate::net::connection::Origin;

/// Maximum number of turns of a run: one per byte, and a reserve.
const TURNS_MAX: usize = 5_000_000;

/// Body of a request. The report of a failed test contains only its length and its first 20
/// characters.
#[derive(Clone)]
struct Text(String);

impl std::fmt::Debug for Text {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} bytes {:.20?}", self.0.len(), self.0)
    }
}

#[derive(Clone, Debug)]
enum Ask {
    Hello,
    Head,
    Echo(Text),
    Chunked(Vec<String>),
    Big(usize),
    Missing,
    NotAllowed,
    File,
    Percent,
    Publish,
    Http10,
    /// The following requests close the connection.
    Close,
    Broken,
    TooLarge,
}

impl Ask {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Ask::Hello => get("/hello"),
            Ask::Head => b"HEAD /big/1000 HTTP/1.1\r\nHost: test\r\n\r\n".to_vec(),
            Ask::Echo(body) => post("/echo", &body.0),
            Ask::Chunked(pieces) => {
                let mut bytes =
                    b"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                        .to_vec();
                for piece in pieces {
                    let chunk = format!("{:x};x=y\r\n{piece}\r\n", piece.len());
                    bytes.extend_from_slice(chunk.as_bytes());
                }
                bytes.extend_from_slice(b"0\r\nTrailer: gone\r\n\r\n");
                bytes
            }
            Ask::Big(bytes) => get(&format!("/big/{bytes}")),
            Ask::Missing => get("/missing"),
            Ask::NotAllowed => post("/hello", "body that is skipped"),
            Ask::File => get("/files/large.bin"),
            Ask::Percent => get("/%68ello"),
            Ask::Publish => post("/publish/room", "news"),
            Ask::Http10 => b"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_vec(),
            Ask::Close => {
                b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".to_vec()
            }
            Ask::Broken => b"GET /hello HTTP/1.1\r\nHost : test\r\n\r\n".to_vec(),
            Ask::TooLarge => {
                b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 9999999\r\n\r\n".to_vec()
            }
        }
    }

    fn check(&self, answer: &Answer) {
        let (status, body) = match self {
            Ask::Hello | Ask::Percent | Ask::Http10 | Ask::Close => (200, b"hello".to_vec()),
            Ask::Head => (200, Vec::new()),
            Ask::Echo(body) => (200, body.0.clone().into_bytes()),
            Ask::Chunked(pieces) => (200, pieces.concat().into_bytes()),
            Ask::Big(bytes) => (200, vec![b'x'; *bytes]),
            Ask::File => (200, file_content()),
            Ask::Missing => (404, answer.body.clone()),
            Ask::NotAllowed => (405, answer.body.clone()),
            Ask::Publish => (200, answer.body.clone()),
            Ask::Broken => (400, answer.body.clone()),
            Ask::TooLarge => (413, answer.body.clone()),
        };
        assert_eq!(answer.status, status, "{self:?}");
        assert!(answer.is_whole, "{self:?}");
        assert!(answer.body == body, "{self:?}");
        let connection = answer.headers.get("connection").map(String::as_str);
        match self {
            Ask::Close | Ask::Broken | Ask::TooLarge => assert_eq!(connection, Some("close")),
            Ask::Http10 => assert_eq!(connection, Some("keep-alive")),
            _ => assert_eq!(connection, None),
        }
    }
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = prop_oneof![
        4 => Just(Ask::Hello),
        2 => Just(Ask::Head),
        3 => "[a-z\r\n]{0,300}".prop_map(|text| Ask::Echo(Text(text))),
        1 => (60_000..200_000_usize).prop_map(|len| Ask::Echo(Text("e".repeat(len)))),
        3 => prop::collection::vec("[a-z]{1,40}", 0..6).prop_map(Ask::Chunked),
        2 => (0..200_000_usize).prop_map(Ask::Big),
        1 => Just(Ask::Missing),
        1 => Just(Ask::NotAllowed),
        2 => Just(Ask::File),
        1 => Just(Ask::Percent),
        1 => Just(Ask::Publish),
        1 => Just(Ask::Http10),
    ];
    let last = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Ask::Close)),
        1 => Just(Some(Ask::Broken)),
        1 => Just(Some(Ask::TooLarge)),
    ];
    (prop::collection::vec(ask, 1..24), last).prop_map(|(mut asks, last)| {
        asks.extend(last);
        asks
    })
}

/// Behavior of a peer.
#[derive(Clone, Debug)]
struct Manner {
    seed: u64,
    has_faults: bool,
    pieces: Vec<usize>,
    window: usize,
    queue_bytes_max: usize,
    half_closes: bool,
}

fn manner() -> impl Strategy<Value = Manner> {
    let piece = prop_oneof![
        1..8_usize,
        1..200_usize,
        1000..100_000_usize,
        1000..100_000_usize
    ];
    (
        any::<u64>(),
        any::<bool>(),
        prop::collection::vec(piece, 4..20),
        prop_oneof![Just(64 * 1024), 1000..100_000_usize],
        prop_oneof![Just(4096_usize), Just(1 << 20)],
        any::<bool>(),
    )
        .prop_map(
            |(seed, has_faults, pieces, window, queue_bytes_max, half_closes)| Manner {
                seed,
                has_faults,
                pieces,
                window,
                queue_bytes_max,
                half_closes,
            },
        )
}

/// Returns all bytes that the peer receives, for the given pieces of sends and reads.
fn exchange(asks: &[Ask], manner: &Manner) -> Vec<u8> {
    let mut settings = super::settings();
    settings.queue_bytes_max = manner.queue_bytes_max;
    let mut rig = Rig::with(manner.seed, settings);
    if manner.has_faults {
        rig.fake.set_faults(Faults::HARMLESS);
    }
    let peer = rig.connect();
    peer.set_window(manner.window);
    let sent: Vec<u8> = asks.iter().flat_map(Ask::bytes).collect();
    let mut left = &sent[..];
    let mut pieces = manner.pieces.iter().cycle();
    let mut got = Vec::new();
    let mut has_shut = false;
    let mut quiet = 0;
    for _ in 0..TURNS_MAX {
        if !left.is_empty() && peer.end() == End::Open {
            let piece = pieces.next().copied().unwrap_or(1).min(left.len());
            peer.write(&left[..piece]);
            left = &left[piece..];
        } else if manner.half_closes && !has_shut {
            has_shut = true;
            peer.shutdown_write();
        }
        rig.turn();
        let bytes = peer.read();
        let is_quiet = bytes.is_empty() && (left.is_empty() || peer.end() != End::Open);
        quiet = if is_quiet { quiet + 1 } else { 0 };
        got.extend(bytes);
        // Faults delay data for a few turns, never for a hundred.
        if quiet > 100 {
            break;
        }
    }
    if manner.half_closes {
        assert_eq!(rig.fake.open_streams(), 0, "a finished peer is let go");
    }
    got
}

proptest! {
    #![proptest_config(super::cases(200))]

    /// Any split of the input, fault schedule, window and queue limit give the same responses in
    /// the order of the requests.
    #[test]
    fn every_request_gets_its_answer_in_order(asks in asks(), manner in manner()) {
        let got = exchange(&asks, &manner);
        let heads: Vec<bool> = asks.iter().map(|ask| matches!(ask, Ask::Head)).collect();
        let answers = answers(&got, &heads);
        prop_assert_eq!(answers.len(), asks.len());
        for (ask, answer) in asks.iter().zip(&answers) {
            ask.check(answer);
        }
    }

    /// Malformed requests, resets and aborted connections: the worker continues, and all resources
    /// are released.
    #[test]
    fn releases_everything_after_hostile_peers(
        seed in any::<u64>(),
        asks in prop::collection::vec(asks(), 1..6),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0..400_usize,
    ) {
        let mut rig = Rig::new(seed);
        rig.fake.set_faults(Faults::HOSTILE);
        let peers: Vec<FakePeer> = asks.iter().map(|_| rig.connect()).collect();
        for (at, (peer, asks)) in peers.iter().zip(&asks).enumerate() {
            let mut bytes: Vec<u8> = asks.iter().flat_map(Ask::bytes).collect();
            if at % 2 == 0 {
                bytes.truncate(cut);
                bytes.extend_from_slice(&noise);
            }
            peer.write(&bytes);
            rig.turn();
            let _ = peer.read();
            match at % 3 {
                0 => peer.close(),
                1 => peer.reset(),
                _ => peer.shutdown_write(),
            }
        }
        for _ in 0..TURNS_MAX {
            rig.turn();
            for peer in &peers {
                let _ = peer.read();
            }
            if rig.worker.net.sockets_len() == 0 && rig.fake.calls().accepts > 0 {
                break;
            }
        }
        rig.fake.set_faults(Faults::NONE);
        rig.run();
        prop_assert_eq!(rig.fake.open_streams(), rig.worker.net.sockets_len());
        let peer = rig.peer(&get("/hello"));
        prop_assert_eq!(answers(&peer.read(), &[]).len(), 1);
    }
}

#[test]
fn answers_a_request_after_the_preceding_file() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(10_000);
    let mut bytes = get("/files/large.bin");
    bytes.extend(get("/hello"));
    bytes.extend(get("/files/large.bin"));
    bytes.extend(get("/missing"));
    peer.write(&bytes);
    let mut got = Vec::new();
    while got.len() < 2 * FILE_BYTES {
        rig.run();
        let bytes = peer.read();
        assert!(!bytes.is_empty(), "stalled after {} bytes", got.len());
        got.extend(bytes);
    }
    rig.run();
    got.extend(peer.read());
    let answers = answers(&got, &[]);
    assert_eq!(
        answers.iter().map(|it| it.status).collect::<Vec<_>>(),
        [200, 200, 200, 404]
    );
    assert!(answers[0].body == file_content() && answers[2].body == file_content());
    assert_eq!(answers[1].body, b"hello");
}

#[test]
fn sends_a_huge_file_once_over_several_turns() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(usize::MAX);
    let mut bytes = get("/files/huge.bin");
    bytes.extend(get("/hello"));
    peer.write(&bytes);
    rig.turn();
    assert!(
        peer.arrived_bytes() < 4 * FILE_BYTES,
        "others get their turn"
    );
    // If the worker slept with unsent output, the clock would advance to the timeout of this
    // client.
    let _idle = rig.connect();
    rig.fake.set_auto_advance(true);
    let start_ms = rig.fake.clock_ms();
    while peer.arrived_bytes() < HUGE * FILE_BYTES {
        assert_eq!(rig.fake.clock_ms(), start_ms);
        rig.turn();
    }
    rig.fake.set_auto_advance(false);
    rig.run();
    let answers = answers(&peer.read(), &[]);
    assert_eq!(answers.len(), 2);
    assert!(answers[0].is_whole && answers[0].body == file_content().repeat(HUGE));
}

#[test]
fn sends_a_body_with_a_refusal_after_a_head_request() {
    let mut rig = Rig::new(1);
    let mut bytes = b"HEAD /hello HTTP/1.1\r\nHost: test\r\n\r\n".to_vec();
    bytes.extend_from_slice(b"GET /hello\r\n\r\n");
    let peer = rig.peer(&bytes);
    let answers = answers(&peer.read(), &[true, false]);
    assert_eq!(answers.len(), 2);
    assert!(answers[1].status == 400 && answers[1].is_whole && !answers[1].body.is_empty());
}

#[test]
fn rejects_a_second_response() {
    for head in ["", "Connection: close\r\n"] {
        let mut rig = Rig::new(1);
        let request = format!("GET /late HTTP/1.1\r\nHost: test\r\n{head}\r\n");
        let peer = rig.peer(request.as_bytes());
        let handle = rig.late.pop_front().expect("it was asked for");
        rig.respond(handle, b"one");
        let none = std::iter::empty();
        let second = rig.worker.respond(handle, 200, None, none, b"two");
        assert_eq!(second, Err(crate::Gone));
        assert_eq!(
            rig.worker.fail(handle, 500, "late", &Detail::default()),
            Err(crate::Gone)
        );
        rig.run();
        let answers = answers(&peer.read(), &[]);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].body, b"one");
    }
}

#[test]
fn keeps_the_order_of_late_responses() {
    let mut rig = Rig::new(1);
    let mut bytes = get("/late");
    bytes.extend(get("/hello"));
    bytes.extend(get("/late"));
    let first = rig.peer(&bytes);
    let second = rig.peer(&get("/hello"));
    assert_eq!(second.read().len(), answered_len(b"hello"));
    assert_eq!(first.read(), b"");
    let handle = rig.late.pop_front().expect("it was asked for");
    rig.respond(handle, b"late one");
    rig.run();
    let got = first.read();
    assert_eq!(answers(&got, &[]).len(), 2);
    let handle = rig.late.pop_front().expect("it was asked for");
    first.shutdown_write();
    rig.run();
    rig.respond(handle, b"late two");
    rig.run();
    assert_eq!(answers(&first.read(), &[])[0].body, b"late two");
    assert_eq!(first.end(), End::Finished);
}

fn answered_len(body: &[u8]) -> usize {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&post("/echo", std::str::from_utf8(body).expect("text")));
    peer.read().len()
}

#[test]
fn drops_a_client_that_disconnects_before_a_late_response() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/late"));
    peer.reset();
    rig.run();
    let handle = rig.late.pop_front().expect("it was asked for");
    // The worker may detect the disconnect now or when it writes. In both cases no connection may
    // be left.
    let none = std::iter::empty();
    let _ = rig.worker.respond(handle, 200, None, none, b"x");
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn answers_complete_requests_before_end_of_stream() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(20_000);
    let mut bytes = Vec::new();
    for _ in 0..5 {
        bytes.extend(get("/files/large.bin"));
    }
    bytes.extend_from_slice(b"GET /hel");
    peer.write(&bytes);
    peer.shutdown_write();
    let mut got = Vec::new();
    for _ in 0..200 {
        rig.run();
        got.extend(peer.read());
    }
    let answers = answers(&got, &[]);
    assert_eq!(answers.len(), 5);
    assert!(answers.iter().all(|it| it.is_whole));
    assert_eq!(rig.fake.open_streams(), 0);
}

#[test]
fn sends_100_continue_before_the_body() {
    let mut rig = Rig::new(1);
    let head =
        b"POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let peer = rig.peer(head);
    assert_eq!(peer.read(), b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.write(b"abc");
    rig.run();
    assert_eq!(answers(&peer.read(), &[])[0].body, b"abc");
    let mut whole = head.to_vec();
    whole.extend_from_slice(b"abc");
    let peer = rig.peer(&whole);
    let answers = answers(&peer.read(), &[]);
    assert_eq!((answers.len(), answers[0].status), (1, 200));
}

#[test]
fn refuses_an_unrouted_body_instead_of_sending_100() {
    let mut rig = Rig::new(1);
    let head =
        "POST /nowhere HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let peer = rig.peer(head.as_bytes());
    let answers = answers(&peer.read(), &[]);
    assert_eq!((answers.len(), answers[0].status), (1, 404));
}

#[test]
fn resets_the_decoded_path_between_requests() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/%68ello"));
    assert_eq!(answers(&peer.read(), &[])[0].status, 200);
    // Use a control connection, because its path is not decoded.
    let peer = publisher(&mut rig);
    peer.write(&post("/publish", r#"{"channel":"a","data":"b"}"#));
    rig.run();
    assert_eq!(answers(&peer.read(), &[])[0].status, 200);
}

#[test]
fn serves_a_just_connected_publisher_on_drain() {
    let mut rig = Rig::new(1);
    let peer = publisher(&mut rig);
    rig.run();
    rig.worker.begin_drain(false);
    rig.run();
    peer.write(&post("/publish", r#"{"channel":"a","data":"b"}"#));
    rig.run();
    assert_eq!(answers(&peer.read(), &[])[0].status, 200);
}

/// Connects to the control socket.
fn publisher(rig: &mut Rig) -> fermata_io::sys::fake::FakePeer {
    let listener = rig.fake.listen();
    let peer = rig.fake.connect(listener);
    let mut driver = rig.fake.clone();
    let accepted = fermata_io::Driver::accept(&mut driver, listener)
        .expect("the fake refuses nothing")
        .expect("one is waiting");
    rig.worker.net.open(
        &mut rig.worker.http,
        accepted.fd,
        fermata_io::Peer::Unix,
        Origin::Control,
    );
    peer
}

#[test]
fn serves_others_during_a_long_pipeline() {
    let mut rig = Rig::new(1);
    let greedy = rig.connect();
    let modest = rig.connect();
    let many: Vec<u8> = (0..1000).flat_map(|_| get("/hello")).collect();
    greedy.write(&many);
    modest.write(&get("/hello"));
    while modest.arrived_bytes() == 0 {
        rig.turn();
    }
    assert!(rig.requests < 500, "{} came first", rig.requests);
    let mut got = Vec::new();
    for _ in 0..20 {
        rig.run();
        got.extend(greedy.read());
    }
    assert_eq!(answers(&got, &[]).len(), 1000);
}

#[test]
fn uses_no_index_for_a_missing_directory() {
    let mut rig = Rig::new(1);
    for _ in 0..100 {
        let missing = std::path::Path::new("/nowhere/at/all");
        let opened = rig.worker.http.open_tree(missing, StaticOptions::default());
        assert!(opened.is_err());
    }
    let mut numbers = [0, 1].map(|_| {
        let opened = rig
            .worker
            .http
            .open_tree(&std::env::temp_dir(), StaticOptions::default());
        opened.expect("a folder").number
    });
    let first = rig.worker.http.router.directories_len();
    numbers.sort_unstable();
    assert_eq!(numbers, [first, first + 1]);
}
