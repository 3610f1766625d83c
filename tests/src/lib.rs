//! Black-box tests over real sockets: code shared by the tests of all protocols.
//!
//! A test starts a PHP script of `tests/fixtures`, sends bytes to the server, and checks only the responses and the log. `cargo
//! test -p fermata-tests --test http1 pipelining` runs one feature.

#![forbid(unsafe_code)]

pub mod disk;
pub mod health;
pub mod memory;
pub mod wall_clock;

use std::path::{Path, PathBuf};
use std::process::Command;

use fermata_testkit::{Builder, Php, Response, Server, command_path, workspace_root};
use serde_json::Value;

/// Returns a server that runs `tests/fixtures/NAME.php`.
pub fn fixture(name: &str) -> Builder {
    Server::builder(fixture_path(name))
}

/// Returns the path of `tests/fixtures/NAME.php`.
pub fn fixture_path(name: &str) -> PathBuf {
    workspace_root()
        .join("tests/fixtures")
        .join(format!("{name}.php"))
}

/// Returns the response's body as JSON.
///
/// # Panics
/// Panics if the body is not JSON.
#[track_caller]
pub fn json(response: &Response) -> Value {
    let parsed = serde_json::from_slice(&response.body);
    parsed.unwrap_or_else(|error| panic!("{error} in {:?}", response.text()))
}

/// Publishes "PREFIX0", "PREFIX1", … from a separate process and returns the event ids.
///
/// # Panics
/// Panics if the script fails.
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
/// Panics unless the server accepts it.
#[track_caller]
pub fn publish(server: &Server, channel: &str, data: &str) -> String {
    let response = server.connect().post(&format!("/publish/{channel}"), data);
    assert_eq!(response.status(), 200, "{}", response.text());
    response.text().to_string()
}

/// Returns the number of temporary files in a folder, excluding the lock files of their owners.
///
/// # Panics
/// Panics if the folder does not exist.
#[track_caller]
pub fn temporary_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let files = names.filter(|name| !name.to_string_lossy().ends_with("-lock"));
    files.count()
}

/// Returns the metrics of a server with a control socket, as printed by `fermata stats --json`.
///
/// # Panics
/// Panics if the command fails or prints no JSON.
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

/// Returns the position of an event in its channel's log: the part of an id after the last dash, in base 36.
///
/// # Panics
/// Panics if the id has another form.
#[track_caller]
pub fn sequence(id: &str) -> u64 {
    let (_, number) = id.rsplit_once('-').expect("an id is EPOCH-NUMBER");
    u64::from_str_radix(number, 36).expect("the number is base 36")
}
