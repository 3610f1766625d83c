//! Access to the control port: its key, its Unix socket and the log lines about both; and the user
//! of the workers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use fermata_testkit::{Directory, Php, command_path, free_port, wait_until};
use fermata_tests::fixture_path;

use crate::client::Client;
use crate::origin::{Origin, ok};
use crate::own::Own;

const KEY: &str = "of-the-port-81f3";

fn origin() -> (Origin, String) {
    let origin = Origin::start();
    origin.on("hold", |_| {
        let headers = [("Grip-Hold", "stream"), ("Grip-Channel", "room")];
        ok(&headers, "held\n")
    });
    let route = format!("* 127.0.0.1:{}", origin.port());
    (origin, route)
}

fn publish(spec: &str, more: &[&str]) -> Output {
    let mut command = Command::new(command_path());
    command.args(["publish", "--spec", spec, "room", "news"]);
    command.args(more).env_remove("GRIP_URL");
    command.output().expect("our own program")
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]]
        .map(String::from_utf8_lossy)
        .concat()
}

/// Publishes one item to this address with the PHP library and returns the library's output.
fn publish_by_library(address: &str) -> String {
    let php = Php::new(&[]).arg(fixture_path("grip-publish"));
    let output = php.arg("room").arg("by the library").arg(address).run();
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    output.stdout
}

fn held(own: &Own) -> Client {
    let mut client = own.client();
    client.send("GET", "/hold", &[], b"");
    client.read_until("held");
    client
}

#[test]
fn a_publisher_without_the_key_publishes_nothing() {
    let (_origin, route) = origin();
    let folder = Directory::new();
    let file = folder.join("control.key");
    // Secrets in files are hexadecimal.
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&file, hex).expect("a file");
    let arguments = ["--control-key", "file:control.key", "--route", &route];
    let own = Own::start_in(folder, &arguments);
    let mut client = held(&own);
    let spec = format!("http://127.0.0.1:{}", own.control);

    let mut port = Client::open(own.control, "localhost");
    let body = br#"{"items":[{"channel":"room","http-stream":{"content":"forged"}}]}"#;
    for headers in [
        &[][..],
        &[("Authorization", "Bearer of-the-port-81f2")],
        &[("Authorization", "Basic of-the-port-81f3")],
    ] {
        for (method, target) in [("POST", "/publish/"), ("POST", "/recover"), ("GET", "/")] {
            let answer = port.request(method, target, headers, body);
            assert_eq!(answer.status, 401, "{method} {target}");
            assert!(answer.text().contains("control_key"), "{}", answer.text());
            assert_eq!(answer.header("www-authenticate").as_deref(), Some("Bearer"));
        }
    }
    let refused = publish(&spec, &[]);
    assert!(said(&refused).contains("401"), "{refused:?}");
    let refused = publish(&spec, &["--key", "another"]);
    assert!(said(&refused).contains("401"), "{refused:?}");
    let refused = publish_by_library(&format!("{spec}?key=another"));
    assert!(refused.contains("401"), "{refused}");
    own.wait_for_log("without the key of control_key is refused");

    let shown = format!("Bearer {KEY}");
    let by_itself = [("Authorization", &shown[..])];
    let body = br#"{"items":[{"channel":"room","http-stream":{"content":"one\n"}}]}"#;
    let answer = port.request("POST", "/publish/", &by_itself, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let key = format!("file:{}", file.display());
    for more in [&["--key", KEY][..], &["--key", &key]] {
        let published = publish(&spec, more);
        assert_eq!(said(&published), "Published\n");
    }
    let by_url = publish(&format!("{spec}?iss=x&key={KEY}"), &[]);
    assert_eq!(said(&by_url), "Published\n");
    assert_eq!(
        publish_by_library(&format!("{spec}?key={KEY}")),
        "published\n"
    );
    let got = client.read_until("by the library");
    assert!(!got.contains("forged"), "{got}");
    assert_eq!(got.matches("news").count(), 3, "{got}");
}

#[test]
fn a_slow_body_keeps_no_place_at_the_control_port() {
    let (_origin, route) = origin();
    // Time limits for the bodies of clients do not apply.
    let own = Own::start(&[
        "--route",
        &route,
        "--control-body-timeout-ms",
        "300",
        "--body-rate-min",
        "1",
    ]);
    let stream = std::net::TcpStream::connect(("127.0.0.1", own.control)).expect("it listens");
    let mut writer = stream.try_clone().expect("a descriptor");
    let drip = std::thread::spawn(move || {
        let head = b"POST /publish/ HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n";
        let end = std::time::Instant::now() + fermata_testkit::deadline();
        let mut next = &head[..];
        // Send faster than `body_rate_min` until the edge closes the connection.
        while std::io::Write::write_all(&mut writer, next).is_ok() {
            assert!(std::time::Instant::now() < end, "it is never closed");
            std::thread::sleep(std::time::Duration::from_millis(20));
            next = &[b' '; 100];
        }
    });
    let mut answer = Vec::new();
    stream
        .set_read_timeout(Some(fermata_testkit::deadline()))
        .expect("a socket");
    // The connection may be reset after the response, because more of the body arrives.
    let _ = std::io::Read::read_to_end(&mut &stream, &mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("control_body_timeout_ms"),
        "{answer:?}"
    );
    drip.join().expect("it has ended");
    own.publish("room", "still there");
}

#[test]
fn a_control_port_at_a_unix_socket_is_for_those_that_may_connect() {
    let (_origin, route) = origin();
    let folder = Directory::new();
    let path = folder.join("control.sock");
    let control = format!("unix:{}?mode=620", path.display());
    let own = Own::start_at(folder, &control, &["--route", &route]);
    let mode = std::fs::metadata(&path).expect("a socket").permissions();
    assert_eq!(mode.mode() & 0o777, 0o620);
    let mut client = held(&own);
    for scheme in ["unix:", "http+unix:"] {
        let published = publish(&format!("{scheme}{}", path.display()), &[]);
        assert_eq!(said(&published), "Published\n");
    }
    let address = format!("http+unix:{}", path.display());
    assert_eq!(publish_by_library(&address), "published\n");
    let got = client.read_until("by the library");
    assert_eq!(got.matches("news").count(), 2, "{got}");
    drop(own);
    assert!(!path.exists(), "it goes with the edge");
    let gone = publish(&format!("unix:{}", path.display()), &[]);
    assert!(said(&gone).contains("cannot connect to unix:"), "{gone:?}");
}

#[test]
fn a_control_port_for_everybody_is_warned_of() {
    let (_origin, route) = origin();
    let everywhere = format!("0.0.0.0:{}", free_port());
    let arguments = ["--route", &route];
    let own = Own::start_at(Directory::new(), &everywhere, &arguments);
    own.wait_for_log("may publish to all clients; set control_key");
    let keyed = ["--route", &route[..], "--control-key", KEY];
    let everywhere = format!("0.0.0.0:{}", free_port());
    for own in [
        Own::start_at(Directory::new(), &everywhere, &keyed),
        Own::start(&arguments),
    ] {
        own.wait_for_log("listening on");
        assert!(!own.log().contains("may publish to all clients"));
        assert!(!own.log().contains(KEY));
    }
}

/// Returns the user id of a process.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn number_of(user: &str) -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users
        .lines()
        .find(|line| line.starts_with(&format!("{user}:")))?;
    line.split(':').nth(2)?.parse().ok()
}

#[test]
fn workers_become_the_user_that_is_named() {
    let Some(user) = number_of("nobody").filter(|_| user_of(std::process::id()) == Some(0)) else {
        eprintln!("skipped: only root can become another user");
        return;
    };
    let (_origin, route) = origin();
    let folder = Directory::new();
    // Only root may read the file; the edge reads it before it starts workers.
    let file = folder.join("control.key");
    std::fs::write(&file, "81f3").expect("a file");
    let secret = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, secret).expect("our file");
    let mut arguments = vec!["--user", "nobody", "--workers", "2", "--route", &route];
    arguments.extend(["--control-key", "file:control.key"]);
    // Workers communicate over sockets that root has created.
    arguments.extend(["--zmq-stats", "ipc://stats.sock"]);
    let own = Own::start_in(folder, &arguments);
    wait_until("workers are that user", || {
        let workers = own.workers();
        let are = workers.iter().all(|pid| user_of(*pid) == Some(user));
        (workers.len() == 2 && are).then_some(())
    });
    let mut clients: Vec<Client> = (0..8).map(|_| held(&own)).collect();
    let key = format!("file:{}", Path::new(&file).display());
    let spec = format!("http://127.0.0.1:{}", own.control);
    assert_eq!(said(&publish(&spec, &["--key", &key])), "Published\n");
    for client in &mut clients {
        client.read_until("news");
    }
    assert!(!own.log().contains("ermission denied"), "{}", own.log());
}
