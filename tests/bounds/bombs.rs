//! Compressed messages that expand to a large size, on many sockets concurrently.

use fermata_testkit::websocket::{BINARY, RSV1, Socket, frame};
use fermata_tests::memory::anonymous_kb;
use flate2::{Compress, Compression, FlushCompress};

use crate::{builder, check_others, worker};

/// The default of `websocket_message_bytes_max`.
const MESSAGE_BYTES: usize = 1 << 20;

/// A few messages in transit. Without a limit, 60 sockets use 60 times `MESSAGE_BYTES`, and with
/// bombs 64 times that.
const GROWN_KB: usize = 48 << 10;

/// Returns zeros as one compressed message.
fn packed(bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes / 500 + 1_000);
    let mut stream = Compress::new(Compression::best(), false);
    let done = stream.compress_vec(&vec![0; bytes], &mut out, FlushCompress::Sync);
    done.expect("compresses");
    assert_eq!(out.split_off(out.len() - 4), [0, 0, 0xff, 0xff]);
    out
}

#[test]
fn many_bombs_cost_no_more_than_few() {
    let server = builder().start();
    let pid = worker(&server);
    let (largest, bomb) = (packed(MESSAGE_BYTES), packed(64 * MESSAGE_BYTES));
    let offer = "Sec-WebSocket-Extensions: permessage-deflate";
    let mut sockets: Vec<Socket> = (0..60)
        .map(|_| Socket::open_with(server.connect(), "/packed", &[offer]))
        .collect();
    check_others(&server);
    let before_kb = anonymous_kb(pid);
    let mut peak_kb = before_kb;
    for round in [&largest, &bomb] {
        for socket in &mut sockets {
            socket.connection().send(frame(BINARY | RSV1, round));
        }
        check_others(&server);
        peak_kb = peak_kb.max(anonymous_kb(pid));
    }
    for socket in &mut sockets {
        assert_eq!(socket.next_text(), MESSAGE_BYTES.to_string());
        socket.expect_close(1009);
        peak_kb = peak_kb.max(anonymous_kb(pid));
    }
    let grown_kb = peak_kb - before_kb;
    assert!(grown_kb < GROWN_KB, "{grown_kb} kB more");
    check_others(&server);
    assert_eq!(worker(&server), pid);
}
