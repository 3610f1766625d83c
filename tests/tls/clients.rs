//! Requests over TLS, client certificates, metrics.

use std::path::Path;
use std::process::Command;

use fermata_testkit::install::{install_go, install_python, installed, skipped, works};
use fermata_testkit::{Response, wait_until};
use fermata_tests::json;
use serde_json::Value;

use crate::{World, make, secure};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("it answers in JSON")
}

#[test]
fn large_bodies_arrive_whole_in_both_directions() {
    let world = World::start(secure().setting("body_bytes_max", 8 << 20));
    let body: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(world.path("body"), &body).expect("the directory is ours");
    let arguments = ["--data-binary", "@body", "-H", "Expect:"];
    let output = world.curl("one.test", "/body", &arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout == body, "{} bytes", output.stdout.len());
}

#[test]
fn a_connection_is_used_again() {
    let world = World::start(secure());
    let url = format!("https://one.test:{}/who", world.address.port());
    let arguments = [&url, "-o", "first", "-w", "%{num_connects}\n"];
    let said = world.get("one.test", "/who", &arguments);
    // curl prints the format for both transfers; the second transfer opened no connection.
    assert!(said.contains("1\n") && said.contains("0\n"), "{said}");
}

#[test]
fn clients_that_offer_it_speak_http2() {
    let world = World::start(secure().workers(1));
    let version = ["-w", " %{http_version}"];
    let who = world.get("one.test", "/who", &version);
    assert!(
        who.contains("\"scheme\":\"https\"") && who.ends_with(" 2"),
        "{who}"
    );
    let old = [&version[..], &["--http1.1"]].concat();
    assert!(world.get("one.test", "/who", &old).ends_with(" 1.1"));
    let body: Vec<u8> = (0..500_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(world.path("body"), &body).expect("the directory is ours");
    let output = world.curl("one.test", "/body", &["--data-binary", "@body"]);
    assert!(output.status.success() && output.stdout == body);
}

/// Sends many requests over one connection, a body in both directions, and early hints, with Go's
/// unmodified client.
#[test]
fn the_client_of_go_speaks_http2() {
    if !works("go", &["version"]) {
        return skipped("Go is not installed");
    }
    let program = installed("go-tls-client");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tls/client.go");
    if !install_go(&program, Path::new(source)) {
        return;
    }
    let world = World::start(secure().setting("body_bytes_max", 1 << 20).workers(1));
    let output = Command::new(&program)
        .arg(format!("https://127.0.0.1:{}", world.address.port()))
        .arg(world.path("ca.pem"))
        .output()
        .expect("it was built");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "63 requests, 1 connection, 1 hint\n", "{errors}");
}

/// Runs the same requests with a Python client, whose held stream shares the connection.
#[test]
fn the_client_of_python_speaks_http2() {
    if !works("python3", &["-m", "pip", "--version"]) {
        return skipped("python3 or pip is not installed");
    }
    let folder = installed("httpx");
    let packages = [
        "httpx==0.28.1",
        "httpcore==1.0.9",
        "h2==4.4.1",
        "hpack==4.2.0",
        "hyperframe==6.1.0",
        "h11==0.16.0",
        "anyio==4.16.0",
        "certifi==2026.10.18",
        "idna==3.20",
    ];
    if !install_python(&folder, &folder.join("httpx"), &packages) {
        return;
    }
    let world = World::start(secure().setting("body_bytes_max", 1 << 20).workers(1));
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tls/client.py"))
        .arg(format!("https://127.0.0.1:{}", world.address.port()))
        .arg(world.path("ca.pem"))
        .env("PYTHONPATH", &folder)
        .output()
        .expect("it was tried before");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said, "62 requests beside a stream, 1 connection\n",
        "{errors}"
    );
}

#[test]
fn held_clients_get_their_events() {
    let world = World::start(secure());
    let port = world.address.port();
    let mut held = Command::new("curl")
        .args(["-sSN", "--max-time", "60", "--cacert"])
        .arg(world.path("ca.pem"))
        .args(["-o"])
        .arg(world.path("events"))
        .arg(format!("https://127.0.0.1:{port}/events"))
        .spawn()
        .expect("curl is there");
    let events = || std::fs::read_to_string(world.path("events")).unwrap_or_default();
    wait_until("the stream begins", || {
        events().contains("id: ").then_some(())
    });
    for number in 0..50 {
        let data = format!("event {number}");
        world.get("one.test", "/publish", &["--data-binary", &data]);
    }
    wait_until("the last event", || {
        events().contains("data: event 49\n").then_some(())
    });
    let all = events();
    let numbers = all
        .lines()
        .filter(|line| line.starts_with("data: event "))
        .count();
    assert_eq!(numbers, 50);
    held.kill().expect("it still runs");
    held.wait().expect("it was killed");
}

#[test]
fn clients_prove_who_they_are_where_it_is_asked() {
    let builder = secure();
    make(
        &builder,
        "authority people; certificate alice '/O=Example/CN=alice' DNS:alice people; \
         authority others; certificate mallory /CN=mallory DNS:mallory others",
    );
    let people = builder.directory().join("people.pem").display().to_string();
    let builder = builder.setting("tls_client_ca", people);
    let world = World::start(builder.clone().control());
    let alice = ["--cert", "alice.pem", "--key", "alice.key"];
    for version in ["1.2", "1.3"] {
        let arguments = [&alice[..], &["--tls-max", version]].concat();
        let who = parsed(&world.get("one.test", "/who", &arguments));
        assert_eq!(who["subject"], "CN=alice,O=Example");
        assert_eq!(
            who["pem"],
            std::fs::read_to_string(world.path("alice.pem")).expect("made")
        );
        let mallory = [
            "--cert",
            "mallory.pem",
            "--key",
            "mallory.key",
            "--tls-max",
            version,
        ];
        assert!(!world.curl("one.test", "/who", &mallory).status.success());
        assert!(
            !world
                .curl("one.test", "/who", &["--tls-max", version])
                .status
                .success()
        );
    }
    // Each worker publishes its own counts, so wait for all of them.
    wait_until("all of them are counted", || {
        let total = &stats(&world)["total"];
        let failed = total["tls_handshakes_failed"]["client_certificate"].as_u64();
        let full = total["tls_handshakes"]["full"].as_u64();
        ((failed, full) == (Some(4), Some(2))).then_some(())
    });

    let world = World::start(builder.setting("tls_client_required", "off").workers(1));
    let who = parsed(&world.get("one.test", "/who", &[]));
    assert_eq!(
        (&who["scheme"], &who["subject"]),
        (&Value::from("https"), &Value::Null)
    );
    let who = parsed(&world.get("one.test", "/who", &alice));
    assert_eq!(who["subject"], "CN=alice,O=Example");
    let kept = parsed(&world.get("one.test", "/kept", &[]));
    assert_eq!(
        (&kept["scheme"], &kept["subject"]),
        (&"https".into(), &"CN=alice,O=Example".into())
    );
}

#[test]
fn http_and_https_are_served_side_by_side() {
    let builder = secure().setting("listen", "http://127.0.0.1:0,https://127.0.0.1:0");
    let mut world = World::start(builder);
    let log = world.server.log().text();
    let line = log
        .lines()
        .find(|line| line.contains("listening on "))
        .expect("it listens");
    let (_, https) = line.split_once(" and https://").expect("both are named");
    let plain = world.address;
    world.address = https
        .split(' ')
        .next()
        .expect("an address")
        .parse()
        .expect("an address");
    let response: Response = fermata_testkit::Connection::open(plain).get("/who");
    assert_eq!(json(&response)["scheme"], "http");
    assert!(world.get("one.test", "/who", &[]).contains("https"));
}

fn stats(world: &World) -> Value {
    let output = Command::new(fermata_testkit::command_path())
        .args(["stats", "--json"])
        .env("FERMATA_CONTROL", world.server.control())
        .output()
        .expect("build/fermata can be started; `make` builds it");
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}
