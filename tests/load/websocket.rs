//! The scenarios of `ws`, against the WebSocket server that most of Node uses.

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
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of `server.js`, with its package installed.
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
