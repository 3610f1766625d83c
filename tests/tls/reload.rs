//! New certificates are used for new connections; existing connections stay open.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use fermata_testkit::Signal;

use crate::{World, make, secure};

/// Number of reloads: more than there are slots for draining workers.
const RELOADS: usize = 6;
/// Number of concurrent clients: large enough that each worker has one.
const UPLOADS: usize = 5;

/// A client whose connection stays open. One byte of a response shows that it is connected.
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

    /// Sends an incomplete body, so that the client's worker waits for the rest.
    fn uploads(&mut self) {
        let stdin = self.0.stdin.as_mut().expect("it was piped");
        let _ = stdin.write_all(
            b"GET /who HTTP/1.1\r\nHost: one.test\r\n\r\nPOST /body HTTP/1.1\r\nHost: one.test\r\nContent-Length: 9\r\n\r\nhalf",
        );
        let mut byte = [0];
        let stdout = self.0.stdout.as_mut().expect("it was piped");
        // The first request has its response, so the second request has arrived.
        assert_eq!(stdout.read(&mut byte).expect("it runs"), 1);
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

    // A worker that starts later also uses the new files.
    let pid = world.server.worker_pids()[&0];
    fermata_testkit::send_signal(pid, Signal::Kill);
    world.server.wait_replaced(0, pid);
    for _ in 0..4 {
        assert!(world.openssl(&[], "").contains("subject=CN = new\n"));
    }
}

/// Workers of another user lack permission to read the keys again, so they are replaced. A draining
/// worker keeps its slot until its clients have disconnected.
#[test]
fn certificates_that_change_again_and_again_leave_somebody_who_serves() {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let is_root = status.contains("\nUid:\t0\t");
    let has_user = fs::read_to_string("/etc/passwd").is_ok_and(|text| text.contains("\nwww-data:"));
    if !is_root || !has_user {
        println!("not run: this is not root");
        return;
    }
    let builder = secure()
        .setting("user", "www-data")
        .setting("drain_timeout_ms", 600_000)
        .setting("body_timeout_ms", 600_000);
    let names: Vec<String> = (0..RELOADS).map(|number| format!("new{number}")).collect();
    for name in &names {
        make(
            &builder,
            &format!("certificate {name} /CN={name} DNS:one.test"),
        );
    }
    let world = World::start(builder.workers(2));
    let mut held = Vec::new();
    for name in &names {
        for _ in 0..UPLOADS {
            let mut one = Held::open(&world);
            one.uploads();
            held.push(one);
        }
        for ending in ["pem", "key"] {
            let (from, to) = (format!("{name}.{ending}"), format!("one.{ending}"));
            fs::copy(world.path(&from), world.path(&to)).expect("ours");
        }
        let from = world.server.log().len();
        world.server.signal(Signal::HangUp);
        world
            .server
            .log()
            .wait_for(from, "[master] certificates read again");
        let said = world.openssl(&[], "");
        assert!(said.contains("subject=CN = "), "nobody serves: {said}");
    }
    // When all workers have free slots, every worker has the last certificates.
    held.clear();
    let last = format!("subject=CN = {}\n", names[RELOADS - 1]);
    fermata_testkit::wait_until("the last certificates are served", || {
        (0..4)
            .all(|_| world.openssl(&[], "").contains(&last))
            .then_some(())
    });
}

/// An OCSP response is stored next to its certificate, sent with it, and reloaded with it.
#[test]
fn ocsp_answers_are_stapled() {
    let builder = secure();
    make(
        &builder,
        r#"
        answer() {
            serial=$(openssl x509 -in one.pem -noout -serial | cut -d= -f2)
            printf '%s\t%s\t%s\t%s\tunknown\t/CN=one\n' "$1" 330101000000Z "$2" "$serial" >index
            openssl ocsp -index index -CA ca.pem -rsigner ca.pem -rkey ca.key -issuer ca.pem -cert one.pem -ndays 1 -respout $3 >/dev/null
        }
        answer V "" good.ocsp
        answer R 250101000000Z revoked.ocsp
        certificate other /CN=other DNS:other.test
        "#,
    );
    let world = World::start(builder.workers(1));
    let status = || world.openssl(&["-status"], "");
    assert!(status().contains("OCSP response: no response sent"));
    let renew = |answer: &[u8], says: &str| {
        fs::write(world.path("one.pem.ocsp"), answer).expect("ours");
        let from = world.server.log().len();
        world.server.signal(Signal::HangUp);
        world.server.log().wait_for(from, says);
        let done = "[worker 0] certificates read again";
        world.server.log().wait_for(from, done);
    };
    let good = fs::read(world.path("good.ocsp")).expect("openssl has made it");
    renew(&good, "certificates read again");
    let said = status();
    assert!(said.contains("OCSP Response Status: successful"), "{said}");
    assert!(said.contains("Cert Status: good"), "{said}");
    // The same with TLS 1.2.
    let said = world.openssl(&["-status", "-tls1_2"], "");
    assert!(said.contains("Cert Status: good"), "{said}");
    let revoked = fs::read(world.path("revoked.ocsp")).expect("openssl has made it");
    renew(&revoked, "is revoked");
    assert!(status().contains("no response sent"));
    renew(b"HTTP/1.1 200 OK", "is not a successful OCSP response");
    renew(
        &good[..good.len() - 100],
        "is not a successful OCSP response",
    );
    renew(&good, "certificates read again");
    fs::copy(world.path("other.pem"), world.path("one.pem")).expect("ours");
    fs::copy(world.path("other.key"), world.path("one.key")).expect("ours");
    renew(&good, "is for another certificate");
    assert!(status().contains("no response sent"));
}
