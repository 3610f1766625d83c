//! The scenarios of `ws`, against Node's most common WebSocket server.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Once;

use fermata_testkit::workspace_root;

use crate::support::load;

/// `server.js`, killed when dropped.
struct Peer {
    child: Child,
    address: String,
}

impl Peer {
    fn start(arguments: &[&str]) -> Peer {
        let mut child = Command::new("node")
            .arg(folder().join("server.js"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is installed");
        let stdout = child.stdout.take().expect("it is piped");
        let line = BufReader::new(stdout).lines().next();
        let line = line.and_then(Result::ok).unwrap_or_default();
        let port = line.strip_prefix("listening on ").expect("it listens");
        Peer {
            address: format!("ws://127.0.0.1:{port}"),
            child,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder of `server.js`, with its package installed.
fn folder() -> PathBuf {
    static INSTALL: Once = Once::new();
    let folder = workspace_root().join("tests/load/node");
    INSTALL.call_once(|| {
        if folder.join("node_modules/.package-lock.json").is_file() {
            return;
        }
        let installed = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&folder)
            .status()
            .expect("npm is installed");
        assert!(installed.success(), "npm ci in {}", folder.display());
    });
    folder
}

#[test]
fn echoes_come_back_pipelined_and_large() {
    let peer = Peer::start(&[]);
    let url = format!("{}/echo", peer.address);
    for extra in [
        &["--pipeline", "1"][..],
        &["--pipeline", "32"],
        &["--message-bytes", "70000"],
        &["--binary"],
        &["--rate", "2000"],
    ] {
        let mut arguments = vec!["ws", "echo", &url, "-c", "5", "-n", "400"];
        arguments.extend(extra);
        let result = load(&arguments);
        result.assert_passed();
        assert_eq!(result.count("responses"), 400, "{}", result.all());
    }
}

#[test]
fn a_damaged_echo_is_found() {
    let peer = Peer::start(&["damage"]);
    let url = format!("{}/echo", peer.address);
    let result = load(&["ws", "echo", &url, "-c", "4", "-n", "200"]);
    result.assert_failed();
    assert_eq!(result.count("bad_responses"), 4, "{}", result.all());
}

#[test]
fn a_broadcast_reaches_everybody() {
    let peer = Peer::start(&[]);
    let url = format!("{}/broadcast", peer.address);
    let result = load(&[
        "ws",
        "broadcast",
        &url,
        "-c",
        "40",
        "-t",
        "1s",
        "--publish-ws",
        &url,
        "--publish-all-rate",
        "50",
    ]);
    result.assert_passed();
    let published = result.count("published");
    assert!(published >= 45, "{}", result.all());
    assert_eq!(result.count("deliveries"), 40 * published);
    assert_eq!(result.json["last_byte_us"]["count"], published);
}

#[test]
fn upgrades_are_closed_by_both_sides() {
    let peer = Peer::start(&[]);
    let result = load(&["ws", "upgrade", &peer.address, "-c", "5", "-n", "200"]);
    result.assert_passed();
    assert_eq!(result.count("responses"), 200, "{}", result.all());
    assert_eq!(result.count("connects"), 200, "{}", result.all());
}

#[test]
fn the_subprotocol_has_to_be_the_one_that_is_offered() {
    let peer = Peer::start(&["subprotocol"]);
    let upgrade = |offer| {
        let arguments = ["ws", "upgrade", &peer.address, "-n", "20"];
        load(&[&arguments[..], &["--subprotocol", offer]].concat())
    };
    upgrade("bench").assert_passed();
    let refused = upgrade("other");
    refused.assert_failed();
    let text = refused.all();
    assert!(text.contains("chose the subprotocol bench"), "{text}");
}

#[test]
fn a_burst_reaches_everybody() {
    let peer = Peer::start(&[]);
    let url = format!("{}/broadcast", peer.address);
    let pid = peer.child.id().to_string();
    let arguments = [
        "ws", "fanout", &url, "-c", "20", "--burst", "50", "-t", "200ms",
    ];
    let result = load(&[&arguments[..], &["--watch", &pid]].concat());
    result.assert_passed();
    let published = result.count("published");
    assert!(
        published >= 50 && published.is_multiple_of(50),
        "{}",
        result.all()
    );
    assert_eq!(result.count("deliveries"), 20 * published);
    assert!(result.count("watched_cpu_ns") > 0, "{}", result.all());
    assert_eq!(result.json["latency_us"]["count"], published / 50);
}

#[test]
fn a_lost_message_of_a_burst_is_found() {
    let peer = Peer::start(&["deaf"]);
    let url = format!("{}/broadcast", peer.address);
    let arguments = ["ws", "fanout", &url, "-c", "7", "--burst", "10", "-t", "1s"];
    let result = load(&[&arguments[..], &["--timeout", "300ms"]].concat());
    result.assert_failed();
    assert_eq!(result.count("lost"), 7, "{}", result.all());
    assert_eq!(result.count("missing"), 7, "{}", result.all());
}

#[test]
fn clients_are_held_without_a_message() {
    let peer = Peer::start(&[]);
    let url = format!("{}/echo", peer.address);
    let arguments = [
        "ws", "fanout", &url, "-c", "30", "--burst", "0", "-t", "200ms",
    ];
    let result = load(&arguments);
    result.assert_passed();
    assert_eq!(result.count("connects"), 30, "{}", result.all());
    assert_eq!(result.count("deliveries"), 0, "{}", result.all());
}

#[test]
fn everything_goes_over_tls_too() {
    let peer = Peer::start(&["tls"]);
    let address = peer.address.replace("ws://", "wss://");
    let authority = folder().join("certificate.pem");
    let authority = authority.to_str().expect("a path in UTF-8");
    for scenario in [
        &["ws", "echo", "-n", "400", "-c", "5", "--pipeline", "32"][..],
        &["ws", "echo", "-n", "40", "--message-bytes", "70000"],
        &["ws", "upgrade", "-n", "40"],
    ] {
        let url = format!("{address}/echo");
        load(&[scenario, &[&url, "--ca", authority]].concat()).assert_passed();
        load(&[scenario, &[&url, "--insecure"]].concat()).assert_passed();
    }
    let url = format!("{address}/broadcast");
    let burst = [
        "ws", "fanout", &url, "--burst", "20", "-c", "9", "-t", "100ms",
    ];
    load(&[&burst[..], &["--ca", authority]].concat()).assert_passed();

    let stranger = address.replace("127.0.0.1", "127.0.0.2");
    let refused = load(&["ws", "upgrade", &stranger, "-n", "2", "--ca", authority]);
    refused.assert_failed();
    assert!(refused.all().contains("certificate"), "{}", refused.all());
}
