//! Black-box tests over real sockets: what the tests of all protocols share.
//!
//! A test starts a PHP script of `tests/fixtures`, speaks bytes to it and looks at nothing else than the
//! answers and the log. `cargo test -p fermata-tests --test http1 pipelining` runs one feature.

#![forbid(unsafe_code)]

pub mod health;

use std::path::{Path, PathBuf};
use std::process::Command;

use fermata_testkit::{Builder, Php, Response, Server, command_path, workspace_root};
use serde_json::Value;

/// A server that runs `tests/fixtures/NAME.php`.
pub fn fixture(name: &str) -> Builder {
    Server::builder(fixture_path(name))
}

/// The path of `tests/fixtures/NAME.php`.
pub fn fixture_path(name: &str) -> PathBuf {
    workspace_root()
        .join("tests/fixtures")
        .join(format!("{name}.php"))
}

/// The response's body as JSON.
///
/// # Panics
/// Panics when it is none.
#[track_caller]
pub fn json(response: &Response) -> Value {
    let parsed = serde_json::from_slice(&response.body);
    parsed.unwrap_or_else(|error| panic!("{error} in {:?}", response.text()))
}

/// Publishes "PREFIX0", "PREFIX1", … from a process of its own and returns the event ids.
///
/// # Panics
/// Panics when the script fails.
#[track_caller]
pub fn publish_from_cli(control: &str, channel: &str, count: usize, prefix: &str) -> Vec<String> {
    let output = Php::new(&[])
        .env("FERMATA_CONTROL", control)
        .arg(fixture_path("publish"))
        .arg(channel)
        .arg(count.to_string())
        .arg(prefix)
        .run();
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    output.stdout.lines().map(String::from).collect()
}

/// Publishes `data` to `channel` over HTTP and returns the event's id.
///
/// # Panics
/// Panics unless it is accepted.
#[track_caller]
pub fn publish(server: &Server, channel: &str, data: &str) -> String {
    let response = server.connect().post(&format!("/publish/{channel}"), data);
    assert_eq!(response.status(), 200, "{}", response.text());
    response.text().to_string()
}

/// How many temporary files there are in a folder, without the locks that say whose they are.
///
/// # Panics
/// Panics when there is no such folder.
#[track_caller]
pub fn temporary_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let files = names.filter(|name| !name.to_string_lossy().ends_with("-lock"));
    files.count()
}

/// The figures of a server that was started with a control socket, as `fermata stats --json` prints them.
///
/// # Panics
/// Panics when there are none.
#[track_caller]
pub fn stats(server: &Server) -> Value {
    let output = Command::new(command_path())
        .args(["stats", "--json"])
        .env("FERMATA_CONTROL", server.control())
        .output()
        .expect("build/fermata can be started; `make` builds it");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

/// The position of an event inside its channel's log: the part of an id after the last dash, base 36.
///
/// # Panics
/// Panics when the id has another form.
#[track_caller]
pub fn sequence(id: &str) -> u64 {
    let (_, number) = id.rsplit_once('-').expect("an id is EPOCH-NUMBER");
    u64::from_str_radix(number, 36).expect("the number is base 36")
}
