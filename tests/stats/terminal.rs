//! `fermata top` on a terminal, simulated by `script`.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fermata_testkit::command_path;
use fermata_testkit::sse::Stream;
use fermata_tests::fixture;

/// Time-out, long enough for a slow machine; the test measures no times.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn top_draws_on_the_other_screen_until_q_and_gives_the_terminal_back() {
    let server = fixture("hub").control().start();
    let _stream = Stream::open(server.connect(), "/events", None);
    crate::wait_for(&server, &[("total/connections/sse", 1)]);
    let mut child = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command"])
        .arg(format!("{} top", command_path().display()))
        .arg("/dev/null")
        .env("FERMATA_CONTROL", server.control())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script belongs to every Linux");
    let mut keys = child.stdin.take().expect("it is piped");
    let mut screen = child.stdout.take().expect("it is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut shown = String::new();
    let mut wait_for = |part: &str| {
        while !shown.contains(part) {
            let more = receiver.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("no {part:?} in {shown:?}"));
            shown += &String::from_utf8_lossy(&more);
        }
    };
    wait_for("\x1b[?1049h");
    wait_for("workers 2 (2 starts, 0 failed)");
    // Rates are available from the second frame on.
    wait_for("requests  0/s");
    wait_for("SLOWEST CLIENTS");
    keys.write_all(b"q").expect("it listens");
    wait_for("\x1b[?1049l");
    let status = child.wait().expect("it is our child");
    assert!(status.success(), "{status}");
}
