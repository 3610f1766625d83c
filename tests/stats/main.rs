//! Metrics: the server's counts compared with the traffic of the test.

mod commands;
mod counters;
mod restarts;
mod slow;
mod terminal;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use fermata_testkit::{Server, command_path, wait_until};
use serde_json::Value;

/// Maximum age of a metric.
const AGE_MAX: Duration = Duration::from_millis(100);

/// Runs `fermata` with the server's control socket in its environment.
fn fermata(server: &Server, arguments: &[&str]) -> Output {
    Command::new(command_path())
        .args(arguments)
        .env("FERMATA_CONTROL", server.control())
        .output()
        .expect("build/fermata can be started; `make` builds it")
}

/// Returns the metrics as printed by `fermata stats --json`.
#[track_caller]
fn stats(server: &Server) -> Value {
    let output = fermata(server, &["stats", "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

/// Returns a metric by its path of keys, such as "total/responses/2xx".
#[track_caller]
fn figure(stats: &Value, path: &str) -> u64 {
    let value = stats.pointer(&format!("/{path}")).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("no number {path} in {stats:#}"))
}

/// Returns the metrics when they no longer change.
#[track_caller]
fn settled(server: &Server) -> Value {
    wait_until("the figures rest", || {
        let before = stats(server);
        thread::sleep(AGE_MAX * 2);
        let after = stats(server);
        let rests = ["total/requests", "total/bytes_sent", "total/holds"]
            .iter()
            .all(|path| figure(&before, path) == figure(&after, path));
        rests.then_some(after)
    })
}

/// Waits until all metrics have the expected values, and returns them. Metrics may be 100 ms old.
#[track_caller]
fn wait_for(server: &Server, expected: &[(&str, u64)]) -> Value {
    wait_until(&format!("the figures become {expected:?}"), || {
        let stats = stats(server);
        let is_reached = expected
            .iter()
            .all(|(path, value)| figure(&stats, path) == *value);
        if !is_reached {
            // Printed at the end of a failed test's output.
            for (path, _) in expected {
                print!("{path}={} ", figure(&stats, path));
            }
            println!();
        }
        is_reached.then_some(stats)
    })
}

/// Sends a request to the control socket and returns head and body of the response.
fn ask(server: &Server, method: &str, path: &str) -> (String, String) {
    let control = server.control();
    let socket = control.strip_prefix("unix:").expect("a control address");
    let mut stream = UnixStream::connect(socket).expect("the server listens");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    (head.to_owned(), body.to_owned())
}
