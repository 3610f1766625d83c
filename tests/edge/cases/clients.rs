//! Client libraries, unmodified: each holds a stream, publishes to it, and verifies the signature
//! of the request.
//!
//! They are installed from their registries into `target/`, once. Libraries whose tools are missing
//! on this machine are skipped with a message.

use std::path::PathBuf;
use std::process::Command;

use fermata_testkit::install::{install_node, install_python, installed, shown, skipped, works};
use fermata_testkit::workspace_root;
use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok};
use crate::subject::SIG_KEY;

cases!(python_gripcontrol, node_fanoutio_grip);

/// Package versions, pinned so that a new release cannot break the test.
const PYTHON_PACKAGES: [&str; 2] = ["gripcontrol==4.4.0", "pubcontrol==3.5.0"];

fn scripts() -> PathBuf {
    workspace_root().join("tests/edge/clients")
}

/// Returns the output of a script.
fn run(mut command: Command, arguments: &[&str]) -> String {
    let output = command
        .args(arguments)
        .output()
        .expect("it was tried before");
    assert!(output.status.success(), "{}", shown(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Holds a stream with `hold`, publishes with `publish`, and reads up to `end`.
fn check(
    bench: &Bench,
    hold: impl Fn(&str) -> Reply + Send + Sync + 'static,
    publish: impl Fn(&[&str]) -> String,
    expected: &str,
) {
    let channel = bench.channel("c");
    let held = channel.clone();
    bench.origin(move |_| hold(&held));
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    assert_eq!(client.read_head().status, 200);
    client.read_until("opened\n");
    let token = bench.requests()[0].header("grip-sig").expect("a token");
    let uri = format!("http://127.0.0.1:{}", bench.subject().control);
    let said = publish(&["publish", &uri, &channel, &token, SIG_KEY]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said, json!({"signed": true, "forged": false}));
    assert_eq!(client.read_until(expected), expected);
}

fn python_gripcontrol(bench: &Bench) {
    if !works("python3", &["--version"]) {
        return skipped("python3 is not installed");
    }
    let folder = installed("grip-python");
    if !install_python(&folder, &folder.join("gripcontrol"), &PYTHON_PACKAGES) {
        return;
    }
    let script = move || {
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", &folder)
            .arg(scripts().join("grip.py"));
        command
    };
    let hold = script.clone();
    check(
        bench,
        move |channel| {
            let instruct = run(hold(), &["hold", channel]);
            ok(&[("Content-Type", "application/grip-instruct")], instruct)
        },
        |arguments| run(script(), arguments),
        "first ü ",
    );
}

fn node_fanoutio_grip(bench: &Bench) {
    if !works("node", &["--version"]) || !works("npm", &["--version"]) {
        return skipped("node or npm is not installed");
    }
    let folder = installed("grip-node");
    std::fs::create_dir_all(&folder).expect("a folder in target/");
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(scripts().join(name), folder.join(name)).expect("a file of ours");
    }
    if !install_node(&folder) {
        return;
    }
    let script = move || {
        let mut command = Command::new("node");
        command
            .arg(scripts().join("grip.mjs"))
            .arg(folder.join("node_modules/@fanoutio/grip/build/index-node.js"));
        command
    };
    let hold = script.clone();
    check(
        bench,
        move |channel| {
            let headers = run(hold(), &["hold", channel]);
            let headers: Value = serde_json::from_str(&headers).expect("JSON");
            let names = ["Grip-Hold", "Grip-Channel", "Grip-Keep-Alive"];
            let headers = names.map(|name| (name, headers[name].as_str().unwrap_or_default()));
            ok(&headers, "opened\n")
        },
        |arguments| run(script(), arguments),
        "first ü last\n",
    );
}
