//! New certificates without new connections.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use fermata_testkit::Signal;

use crate::{World, make, secure};

/// A client whose connection stays open: one byte of an answer tells that it works.
struct Held(Child);

impl Held {
    fn open(world: &World) -> Held {
        let child = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-ign_eof",
                "-connect",
                &world.address.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Held(child.expect("openssl is there"))
    }

    #[track_caller]
    fn asks(&mut self) {
        let stdin = self.0.stdin.as_mut().expect("it was piped");
        stdin
            .write_all(b"GET /who HTTP/1.1\r\nHost: one.test\r\n\r\n")
            .expect("it runs");
        let stdout = self.0.stdout.as_mut().expect("it was piped");
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"}") {
            assert_eq!(
                stdout.read(&mut byte).expect("it runs"),
                1,
                "the connection has ended"
            );
            answer.push(byte[0]);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn new_files_serve_new_connections_and_bad_ones_change_nothing() {
    let builder = secure();
    make(&builder, "certificate new /CN=new DNS:one.test");
    let world = World::start(builder.workers(2));
    let mut held = Held::open(&world);
    held.asks();

    fs::copy(world.path("new.pem"), world.path("one.pem")).expect("ours");
    let from = world.server.log().len();
    world.server.signal(Signal::HangUp);
    let line = world
        .server
        .log()
        .wait_for(from, "certificates stay as they were");
    assert!(
        line.text.contains("tls_key") && line.text.contains("differ"),
        "{}",
        line.text
    );
    assert!(world.openssl(&[], "").contains("subject=CN = one\n"));

    fs::copy(world.path("new.key"), world.path("one.key")).expect("ours");
    let from = world.server.log().len();
    world.server.signal(Signal::HangUp);
    for process in ["[master]", "[worker 0]", "[worker 1]"] {
        world
            .server
            .log()
            .wait_for(from, &format!("{process} certificates read again"));
    }
    for _ in 0..4 {
        let said = world.openssl(&[], "");
        assert!(said.contains("subject=CN = new\n"), "{said}");
    }
    held.asks();

    // A worker that comes later has them, too.
    let pid = world.server.worker_pids()[&0];
    fermata_testkit::send_signal(pid, Signal::Kill);
    world.server.wait_replaced(0, pid);
    for _ in 0..4 {
        assert!(world.openssl(&[], "").contains("subject=CN = new\n"));
    }
}
