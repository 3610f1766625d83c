//! Limits of messages and frames: a client that exceeds them is closed with 1009 as early as
//! possible.

use fermata_testkit::websocket::{BINARY, RSV1, TEXT, frame, header};

use crate::{open, start, worker_memory};

#[test]
fn a_message_may_reach_its_limit() {
    let server = start();
    let mut socket = open(&server, "/small");
    socket.send(0x01, [b'a'; 500]);
    socket.send(0x80, [b'b'; 500]);
    assert_eq!(socket.next_text().len(), 1000);
}

#[test]
fn beyond_the_limits_is_1009() {
    let server = start();
    for (what, bytes) in [
        // Only the header is sent: the server rejects the message before its payload.
        ("a frame", header(TEXT, 501)),
        ("a first fragment", header(0x02, 501)),
        (
            "a message in fragments",
            [
                frame(0x01, &[b'a'; 500]),
                frame(0x00, &[b'a'; 500]),
                header(0x80, 1),
            ]
            .concat(),
        ),
        ("gigabytes", header(BINARY, 1 << 40)),
    ] {
        let mut socket = open(&server, "/small");
        socket.connection().send(bytes);
        let reason = socket.expect_close(1009);
        assert!(reason.contains("longer"), "{what}: {reason}");
    }
}

#[test]
fn sixteen_mib_in_one_frame_come_back() {
    let server = start();
    let mut socket = open(&server, "/large");
    let payload: Vec<u8> = (0..16 << 20).map(|at: u32| (at >> 8) as u8).collect();
    let sending = socket
        .connection()
        .send_in_background(frame(BINARY, &payload));
    let echo = socket.next_frame();
    assert!(echo.first == BINARY && echo.payload == payload);
    assert!(sending.join().expect("no panic").is_ok());
    let before = worker_memory(&server);
    for _ in 0..5 {
        let sending = socket
            .connection()
            .send_in_background(frame(BINARY, &payload));
        assert_eq!(socket.next_frame().payload.len(), payload.len());
        assert!(sending.join().expect("no panic").is_ok());
    }
    let grown = worker_memory(&server).saturating_sub(before);
    assert!(
        grown < 40 << 20,
        "{grown} bytes more after five such messages"
    );
}

#[test]
fn promised_bytes_that_do_not_come_cost_nothing() {
    let server = start();
    let before = worker_memory(&server);
    let mut sockets: Vec<_> = (0..50).map(|_| open(&server, "/large")).collect();
    for socket in &mut sockets {
        socket.connection().send(header(BINARY, 16 << 20));
        socket.connection().send(b"only this");
    }
    let mut last = open(&server, "/echo");
    last.text("seen");
    assert_eq!(last.next_text(), "seen");
    let grown = worker_memory(&server).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for 50 promises of 16 MiB");
}

#[test]
fn a_compression_bomb_stops_at_the_limit() {
    use flate2::{Compress, Compression, FlushCompress};
    let mut bomb = Vec::with_capacity(2 << 20);
    let zeros = vec![0; 1 << 20];
    let mut stream = Compress::new(Compression::best(), false);
    // A gigabyte compressed to a megabyte.
    for _ in 0..1000 {
        let done = stream.compress_vec(&zeros, &mut bomb, FlushCompress::None);
        done.expect("compresses");
    }
    let done = stream.compress_vec(&[], &mut bomb, FlushCompress::Sync);
    done.expect("compresses");
    bomb.truncate(bomb.len() - 4);
    assert!(bomb.len() < 1100 << 10);

    let server = start();
    let mut other = open(&server, "/echo");
    let before = worker_memory(&server);
    for _ in 0..3 {
        let offer = "Sec-WebSocket-Extensions: permessage-deflate";
        let connection = server.connect();
        let mut socket =
            fermata_testkit::websocket::Socket::open_with(connection, "/large", &[offer]);
        let sending = socket
            .connection()
            .send_in_background(frame(BINARY | RSV1, &bomb));
        socket.expect_close(1009);
        let _ = sending.join().expect("no panic");
    }
    let grown = worker_memory(&server).saturating_sub(before);
    assert!(
        grown < 64 << 20,
        "{grown} bytes more after bombs of a gigabyte"
    );
    other.text("alive");
    assert_eq!(other.next_text(), "alive");
}
