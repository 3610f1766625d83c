//! Tests of bodies that handlers read while they arrive.

use fermata_config::Settings;
use fermata_io::sys::fake::{End, FakePeer};
use proptest::prelude::*;

use super::client::answers;
use super::{Rig, cases, get, post, settings};
use crate::id::RequestId;
use crate::net::READ_BYTES;
use crate::{ARRIVING, Left, Read, ReadError};

const KNOWN: &str = "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n";
const CHUNKED: &str = "POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Starts a request; returns its client and id.
fn begun(rig: &mut Rig, bytes: &str) -> (FakePeer, RequestId) {
    let peer = rig.peer(bytes.as_bytes());
    let handle = rig.late.pop_front().expect("it was handed out");
    rig.worker.defer(handle).expect("it is open");
    (peer, handle)
}

/// Reads until no more bytes are available, or the body ends.
fn read(rig: &mut Rig, handle: RequestId) -> Result<(Vec<u8>, bool), ReadError> {
    let mut all = Vec::new();
    loop {
        match rig.worker.read_body(handle, READ_BYTES)? {
            Read::Piece => all.extend_from_slice(rig.worker.http.body_piece()),
            Read::Last => {
                all.extend_from_slice(rig.worker.http.body_piece());
                return Ok((all, true));
            }
            Read::End => return Ok((all, true)),
            Read::Pending => return Ok((all, false)),
        }
    }
}

fn answer(rig: &mut Rig, handle: RequestId) {
    let none = std::iter::empty();
    rig.worker
        .respond(handle, 200, None, none, b"done")
        .expect("it is open");
    rig.run();
}

/// Returns the statuses and bodies that the client has received.
fn statuses(peer: &FakePeer) -> Vec<(u16, String)> {
    let answers = answers(&peer.read(), &[]);
    let shown = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    let answers = answers.iter().map(|it| (it.status, shown(&it.body)));
    answers.collect()
}

fn done() -> (u16, String) {
    (200, "done".to_owned())
}

#[test]
fn reads_arrived_bytes_and_announces_more() {
    let mut rig = Rig::new(1);
    let (peer, handle) = begun(&mut rig, &format!("{KNOWN}ab"));
    assert_eq!(read(&mut rig, handle), Ok((b"ab".to_vec(), false)));
    rig.run();
    assert!(rig.arrived.is_empty());
    peer.write(b"cd");
    rig.run();
    assert_eq!(rig.arrived, [handle]);
    assert_eq!(read(&mut rig, handle), Ok((b"cd".to_vec(), false)));
    peer.write(&[b"ef", &get("/hello")[..]].concat());
    rig.run();
    assert_eq!(rig.arrived.len(), 2, "each wait is ended once");
    assert_eq!(read(&mut rig, handle), Ok((b"ef".to_vec(), true)));
    assert_eq!(read(&mut rig, handle), Err(ReadError::Gone));
    assert_eq!(rig.requests, 1);
    answer(&mut rig, handle);
    assert_eq!(statuses(&peer), [done(), (200, "hello".to_owned())]);
    assert_eq!(peer.end(), End::Open);
}

#[test]
fn delivers_a_body_that_arrived_with_its_head_normally() {
    let mut rig = Rig::new(2);
    let (_peer, handle) = begun(&mut rig, &format!("{KNOWN}abcdef"));
    assert_eq!(read(&mut rig, handle), Err(ReadError::Gone));
    let (_peer, _) = begun(&mut rig, CHUNKED);
    assert_eq!(rig.worker.http.request.upload, ARRIVING);
}

#[test]
fn reads_only_what_the_handler_requests() {
    let mut rig = Rig::with(
        3,
        Settings {
            body_bytes_max: 1 << 30,
            body_piece_bytes_max: 4096,
            ..settings()
        },
    );
    let head = KNOWN.replace(": 6", ": 1000000");
    let (peer, handle) = begun(&mut rig, &head);
    for _ in 0..10 {
        peer.write(&[b'x'; 100_000]);
        rig.run();
    }
    let kept = |rig: &Rig| {
        let inboxes = rig.worker.net.connections.indexes();
        let inboxes = inboxes
            .into_iter()
            .filter_map(|at| rig.worker.net.connections.at(at));
        inboxes.map(|it| it.inbox.len()).sum::<usize>()
    };
    assert!(kept(&rig) <= READ_BYTES, "{}", kept(&rig));
    assert_eq!(rig.worker.read_body(handle, usize::MAX), Ok(Read::Piece));
    assert!(rig.worker.http.body_piece().len() <= 4096);
    let (mut rest, mut is_whole) = (Vec::new(), false);
    while !is_whole {
        let (bytes, is_last) = read(&mut rig, handle).expect("it is there");
        assert!(!bytes.is_empty(), "it is told of more when there is");
        rest.extend(bytes);
        is_whole = is_last;
        rig.run();
    }
    assert!(rest.len() > 990_000);
    answer(&mut rig, handle);
    assert_eq!(statuses(&peer), [done()]);
}

#[test]
fn sends_100_continue_when_the_handler_reads() {
    let mut rig = Rig::new(4);
    let head = KNOWN.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let (peer, handle) = begun(&mut rig, &head);
    rig.advance(100);
    assert_eq!(peer.read(), b"");
    for _ in 0..2 {
        assert_eq!(read(&mut rig, handle), Ok((Vec::new(), false)));
        rig.run();
    }
    assert_eq!(peer.read(), b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.write(b"abcdef");
    rig.run();
    assert_eq!(read(&mut rig, handle), Ok((b"abcdef".to_vec(), true)));
    answer(&mut rig, handle);
    assert_eq!(statuses(&peer), [done()]);

    // A client answered before `100 Continue` need not send the body.
    let (peer, handle) = begun(&mut rig, &head);
    answer(&mut rig, handle);
    assert_eq!(statuses(&peer), [done()]);
    assert_eq!(peer.end(), End::Finished);
}

#[test]
fn closes_after_a_response_before_the_end_of_the_body() {
    let mut rig = Rig::new(5);
    let (peer, handle) = begun(&mut rig, &format!("{KNOWN}ab"));
    peer.write(b"c");
    rig.run();
    assert_eq!(rig.worker.read_body(handle, 1), Ok(Read::Piece));
    assert_eq!(rig.worker.http.body_piece(), b"a");
    answer(&mut rig, handle);
    peer.write(&[b"def", &get("/hello")[..]].concat());
    rig.run();
    let answers = answers(&peer.read(), &[]);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].headers["connection"], "close");
    assert_eq!(peer.end(), End::Finished);
    rig.advance(3_000);
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn reports_body_errors_to_the_handler_permanently() {
    let mut rig = Rig::with(
        6,
        Settings {
            body_bytes_max: 10,
            ..settings()
        },
    );
    for (chunks, status) in [("5\r\nabcde\r\nb\r\n", 413), ("5\r\nabcdexx", 400)] {
        let (peer, handle) = begun(&mut rig, &format!("{CHUNKED}{chunks}"));
        for _ in 0..2 {
            match read(&mut rig, handle) {
                Err(ReadError::Refused(is, _)) => assert_eq!(is, status),
                other => panic!("{other:?}"),
            }
        }
        answer(&mut rig, handle);
        assert_eq!(statuses(&peer), [done()]);
        assert_eq!(peer.end(), End::Finished);
    }
    // An announced length over the limit is refused without a handler.
    let peer = rig.peer(KNOWN.replace(": 6", ": 11").as_bytes());
    assert_eq!(statuses(&peer)[0].0, 413);
    assert_eq!(rig.late.len(), 0);
}

#[test]
fn counts_body_time_only_while_the_handler_waits() {
    let mut rig = Rig::with(
        7,
        Settings {
            body_timeout_ms: 1_000,
            body_rate_min: 0,
            ..settings()
        },
    );
    let (peer, handle) = begun(&mut rig, &format!("{KNOWN}a"));
    rig.advance(10_000);
    assert_eq!(read(&mut rig, handle), Ok((b"a".to_vec(), false)));
    rig.advance(600);
    peer.write(b"b");
    rig.run();
    rig.advance(10_000);
    assert_eq!(read(&mut rig, handle), Ok((b"b".to_vec(), false)));
    rig.advance(300);
    assert_eq!(rig.arrived, [handle]);
    rig.advance(200);
    assert_eq!(rig.arrived, [handle, handle]);
    assert!(matches!(
        read(&mut rig, handle),
        Err(ReadError::Refused(408, _))
    ));
    answer(&mut rig, handle);
    assert_eq!(statuses(&peer), [done()]);
}

#[test]
fn ends_a_wait_when_the_client_disconnects() {
    let mut rig = Rig::new(8);
    let (peer, handle) = begun(&mut rig, &format!("{KNOWN}a"));
    assert_eq!(read(&mut rig, handle), Ok((b"a".to_vec(), false)));
    peer.shutdown_write();
    rig.run();
    assert_eq!((&rig.arrived[..], &rig.left[..]), (&[handle][..], &[][..]));
    assert_eq!(read(&mut rig, handle), Err(ReadError::Gone));
    answer(&mut rig, handle);
    assert_eq!(statuses(&peer), [done()], "it may read on");

    rig.arrived.clear();
    let (peer, handle) = begun(&mut rig, &format!("{KNOWN}a"));
    assert_eq!(read(&mut rig, handle), Ok((b"a".to_vec(), false)));
    peer.reset();
    rig.run();
    assert_eq!(rig.arrived, [handle]);
    assert_eq!(read(&mut rig, handle), Err(ReadError::Gone));
    assert_eq!(rig.worker.net.sockets_len(), 0);
    rig.run();
    assert!(rig.left.iter().all(|left| *left == Left::Request(handle)));
}

#[test]
fn streams_a_response_before_the_body_ends() {
    let mut rig = Rig::new(9);
    let (peer, handle) = begun(&mut rig, &format!("{KNOWN}ab"));
    let none = std::iter::empty();
    rig.worker
        .begin_stream(handle, 200, None, none, Some(6), b"AB")
        .expect("it is open");
    peer.write(b"cdef");
    rig.run();
    assert_eq!(read(&mut rig, handle), Ok((b"abcdef".to_vec(), true)));
    rig.worker
        .net
        .write_stream(handle, b"CDEF")
        .expect("it is open");
    rig.worker.end_stream(handle).expect("it has its length");
    rig.run();
    assert_eq!(statuses(&peer), [(200, "ABCDEF".to_owned())]);
    assert_eq!(peer.end(), End::Finished);
}

proptest! {
    #![proptest_config(cases(64))]

    /// However the bytes are split, the handler gets the same body, and the next request follows
    /// it.
    #[test]
    fn every_split_gives_the_same_body(
        seed in any::<u64>(),
        pieces in prop::collection::vec("[a-z]{1,300}", 1..6),
        cuts in prop::collection::vec(1usize..200, 0..8),
        room in 1usize..500,
    ) {
        let mut rig = Rig::new(seed);
        let mut bytes = CHUNKED.to_owned();
        for piece in &pieces {
            bytes += &format!("{:x}\r\n{piece}\r\n", piece.len());
        }
        bytes += "0\r\n\r\n";
        let mut bytes = [bytes.as_bytes(), &post("/echo", "next")].concat();
        let peer = rig.connect();
        let head = bytes.drain(..CHUNKED.len()).collect::<Vec<u8>>();
        peer.write(&head);
        rig.run();
        let handle = rig.late.pop_front().expect("it was handed out");
        rig.worker.defer(handle).expect("it is open");
        let (mut all, mut cuts) = (Vec::new(), cuts.into_iter());
        let mut is_whole = false;
        while !is_whole {
            match rig.worker.read_body(handle, room).expect("nothing is wrong with it") {
                Read::Piece => all.extend_from_slice(rig.worker.http.body_piece()),
                Read::Last => {
                    all.extend_from_slice(rig.worker.http.body_piece());
                    is_whole = true;
                }
                Read::End => is_whole = true,
                Read::Pending => {
                    prop_assert!(!bytes.is_empty(), "it was sent");
                    let len = cuts.next().unwrap_or(bytes.len()).min(bytes.len());
                    peer.write(&bytes.drain(..len).collect::<Vec<u8>>());
                    rig.run();
                }
            }
        }
        prop_assert_eq!(String::from_utf8_lossy(&all), pieces.concat());
        answer(&mut rig, handle);
        peer.write(&bytes);
        rig.run();
        prop_assert_eq!(statuses(&peer), [done(), (200, "next".to_owned())]);
    }
}
