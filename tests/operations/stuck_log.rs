//! No process reads the log: lines are dropped and counted, and the server continues otherwise.

use fermata_testkit::{Builder, Connection, Server, Signal, send_signal, wait_until};
use fermata_tests::{fixture, json, stats};

/// Number of lines: more than a pipe holds, whichever worker writes them.
const FAILURES: usize = 1_500;

fn stuck(builder: Builder) -> Server {
    let server = builder
        .setting("stall_timeout_ms", 1_000)
        .setting("drain_timeout_ms", 300)
        .control()
        .start();
    server.log().pause();
    let mut connection = server.connect();
    for _ in 0..FAILURES {
        assert_eq!(connection.get("/throw").status(), 500);
    }
    server
}

#[test]
fn requests_are_answered_and_signals_heard_while_nobody_reads_the_log() {
    let mut server = stuck(fixture("faults"));
    let pids = server.worker_pids();
    assert_eq!(server.connect().get("/pid").status(), 200);
    let dropped = stats(&server)["log_dropped"].as_u64();
    assert!(dropped.is_some_and(|lines| lines > 0), "{dropped:?}");
    // The stall watch also writes a line.
    assert!(send_signal(pids[&0], Signal::Stop));
    wait_until("the worker that stands still is replaced", || {
        (stats(&server)["worker_stalls"].as_u64() == Some(1)).then_some(())
    });
    wait_until("somebody serves", || {
        let mut connection = Connection::try_open(server.address()).ok()?;
        connection.try_request("GET", "/pid", &[], b"").ok()
    });
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn an_access_log_on_the_same_pipe_holds_nobody_up_either() {
    let mut server = stuck(fixture("faults").setting("access_log", "stderr"));
    assert_eq!(server.connect().get("/pid").status(), 200);
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn the_log_says_how_many_lines_are_missing_when_it_is_read_again() {
    let server = stuck(fixture("faults").workers(1));
    let from = server.log().len();
    server.log().resume();
    wait_until("there is a line about lines", || {
        assert_eq!(server.connect().get("/pid").status(), 200);
        let lines = server.log().lines_from(from);
        let told: Vec<usize> = lines
            .iter()
            .filter_map(|line| {
                let (before, _) = line.text.split_once(" lines of this process: ")?;
                before.rsplit(' ').next()?.parse().ok()
            })
            .collect();
        let thrown = |text: &str| text.contains("secret detail of a failure");
        let written = server
            .log()
            .lines_from(0)
            .iter()
            .filter(|line| thrown(&line.text))
            .count();
        (told.iter().sum::<usize>() + written >= FAILURES).then_some(())
    });
    // Lines are complete.
    for line in server.log().lines_from(0) {
        assert_eq!(
            line.text.matches("Z error").count().max(1),
            1,
            "{}",
            line.text
        );
    }
}

/// Ways to write to standard error, named like the fixture's routes.
const WAYS: [&str; 14] = [
    "error_log",
    "sapi",
    "append",
    "file",
    "constant",
    "format",
    "before",
    "open",
    "put",
    "filter",
    "number",
    "device",
    "object",
    "warning",
];

#[test]
fn a_program_that_writes_to_standard_error_waits_for_no_reader() {
    let server = fixture("standard_error")
        .workers(1)
        .setting("stall_timeout_ms", 1_000)
        .control()
        .start();
    let pids = server.worker_pids();
    server.log().pause();
    let mut connection = server.connect();
    // The first of these requests already fills the pipe.
    let line = "x".repeat(1_000);
    for way in WAYS {
        for _ in 0..80 {
            assert_eq!(connection.post(&format!("/{way}"), &line).status(), 200);
        }
    }
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
    assert!(stats(&server)["log_dropped"].as_u64() > Some(0));
    for way in WAYS {
        let path = format!("/job/{way}");
        assert_eq!(connection.post(&path, &line).status(), 200, "{way}");
    }
}

/// Returns the log lines of a text that was written in each way, by handlers and jobs.
fn lines_of(server: &Server, text: &str) -> Vec<String> {
    let from = server.log().len();
    for way in WAYS {
        for path in [format!("/{way}"), format!("/job/{way}")] {
            assert_eq!(server.connect().post(&path, text).status(), 200, "{path}");
        }
    }
    assert_eq!(
        server.connect().post("/error_log", "the last").status(),
        200
    );
    server.log().wait_for(from, "the last");
    let lines = server.log().lines_from(from);
    lines.into_iter().map(|line| line.text).collect()
}

#[test]
fn what_a_program_writes_to_standard_error_is_json_in_a_log_of_json() {
    let server = fixture("standard_error")
        .workers(1)
        .setting("log_format", "json")
        .start();
    let forged = "{\"level\":\"error\",\"message\":\"forged\"}";
    let lines = lines_of(&server, &format!("first \u{1b}[2J\n{forged}"));
    let (mut split, mut whole) = (0, 0);
    for line in &lines {
        let line: serde_json::Value = serde_json::from_str(line).expect("every line is JSON");
        let message = line["message"].as_str().expect("it has a message");
        assert_ne!(message, "forged");
        whole += usize::from(message.contains(&format!("first \u{1b}[2J\n{forged}")));
        split += usize::from(message == forged || message == forged.to_uppercase());
    }
    // A message of error_log() or of PHP is one log line; a message written to a stream is two.
    assert_eq!((whole, split), (2 * 4, 2 * 10), "{lines:#?}");
}

#[test]
fn what_a_program_writes_to_standard_error_forges_no_line() {
    let server = fixture("standard_error").workers(1).start();
    let forged = "2026-01-01T00:00:00.000Z error   [master] forged";
    let lines = lines_of(&server, &format!("first \u{1b}[2J\n{forged}\r\nlast"));
    let mut written = 0;
    for line in lines {
        assert!(
            !line.starts_with(forged) && !line.contains('\u{1b}'),
            "{line}"
        );
        if line.to_lowercase().contains("[master] forged") {
            let starts = [" warning [worker 0] ", " warning [jobs"];
            assert!(starts.iter().any(|start| line.contains(start)), "{line}");
            written += 1;
        }
    }
    assert_eq!(written, 2 * WAYS.len());
    let stream = json(&server.connect().get("/stream"));
    let expected = serde_json::json!([false, false, "STDIO", true, true, 0]);
    assert_eq!(stream, expected);
}
