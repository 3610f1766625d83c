//! Nobody reads the log: lines are left out and counted, and everything else goes on.

use fermata_testkit::{Builder, Connection, Server, Signal, send_signal, wait_until};
use fermata_tests::{fixture, stats};

/// More lines than a pipe holds, whichever worker writes them.
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
    // The stall watch has a line to write as well.
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
                let (before, _) = line
                    .text
                    .split_once(" lines of this process were left out")?;
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
    // And lines are whole.
    for line in server.log().lines_from(0) {
        assert_eq!(
            line.text.matches("Z error").count().max(1),
            1,
            "{}",
            line.text
        );
    }
}
