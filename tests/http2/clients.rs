//! Clients that send control frames as fast as they get responses are not treated as attackers.

use std::process::Command;

use fermata_testkit::install::{skipped, works};
use fermata_testkit::workspace_root;

use crate::on;

#[test]
fn node_is_not_cut_in_a_closed_loop() {
    if !works("node", &["--version"]) {
        return skipped("node is not installed");
    }
    let server = on("http").start();
    let output = Command::new("node")
        .arg(workspace_root().join("tests/conformance/http2_loop.mjs"))
        .arg(format!("http://{}", server.address()))
        .output()
        .expect("it was tried before");
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "no request was lost", "{errors}");
}

/// gRPC clients measure bandwidth like this: one PING at a time while DATA arrives, and small
/// WINDOW_UPDATEs.
#[test]
fn a_ping_and_two_window_updates_for_each_data_frame_are_no_flood() {
    if !works("python3", &["--version"]) {
        return skipped("python3 is not installed");
    }
    let server = on("http").start();
    let output = Command::new("python3")
        .arg(workspace_root().join("tests/conformance/http2_pings.py"))
        .arg(server.address().to_string())
        .arg("/bytes/10000000")
        .output()
        .expect("it was tried before");
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "10000000 bytes, complete", "{errors}");
}
