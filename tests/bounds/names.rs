//! A million channel names: history evicts them, and memory does not grow with their number.

use fermata_testkit::websocket::Socket;
use fermata_tests::memory::anonymous_kb;

use crate::{builder, check_others, worker};

const NAMES: usize = 1_000_000;
const AT_A_TIME: usize = 50_000;

/// Much less than one pointer per name.
const GROWN_KB: usize = 24 << 10;

#[test]
fn forgets_channels_that_had_an_event() {
    let server = builder().setting("history_bytes_max", 1 << 20).start();
    let pid = worker(&server);
    let publish = |first: usize| {
        let target = format!("/names?first={first}&count={AT_A_TIME}");
        assert_eq!(server.connect().post(&target, "").text(), "published");
        check_others(&server);
    };
    publish(0);
    let before_kb = anonymous_kb(pid);
    for first in (AT_A_TIME..NAMES).step_by(AT_A_TIME) {
        publish(first);
    }
    let grown_kb = anonymous_kb(pid).saturating_sub(before_kb);
    assert!(grown_kb < GROWN_KB, "{grown_kb} kB more");
    assert_eq!(worker(&server), pid);
}

#[test]
fn forgets_channels_that_a_socket_has_left() {
    let server = builder().start();
    let pid = worker(&server);
    let mut socket = Socket::open(server.connect(), "/names");
    let mut join = |count: usize| {
        socket.text(&count.to_string());
        assert_eq!(socket.next_text(), "joined");
        check_others(&server);
    };
    join(1_000);
    let before_kb = anonymous_kb(pid);
    join(NAMES / 4);
    let grown_kb = anonymous_kb(pid).saturating_sub(before_kb);
    assert!(grown_kb < GROWN_KB, "{grown_kb} kB more");
    assert_eq!(worker(&server), pid);
}
