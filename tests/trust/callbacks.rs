//! Handlers that wait wherever PHP calls user code. Each has the same result as without concurrent
//! handlers.
//!
//! The corpus is every PHP function that takes a callback and that `ext/fibers/callbacks.list`
//! allows to wait, those that block the worker, and functions that keep state between two calls.
//! Groups of handlers with random waits run concurrently.
//!
//! `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer;
//! `FERMATA_TEST_VALGRIND=1` runs the server under memcheck.

use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::{Connection, Random, Server, workspace_root};
use fermata_tests::{fixture, json};

use crate::conversations::seconds;

/// Duration of a run without `FERMATA_TEST_SECONDS`.
const SECONDS: u64 = 8;
/// Number of concurrent handlers.
const HANDLERS_MAX: usize = 4;
/// Names that occur in each handler's values. The fixture has a folder for each name.
const NAMES: [&str; HANDLERS_MAX] = ["anna", "bert", "carl", "dora"];
/// The workspace's own test of the list fails for fewer.
const CASES_MIN: usize = 50;

fn start() -> Server {
    let mut builder = fixture("callbacks")
        .workers(1)
        .setting("blocking_call_ms", 0);
    if std::env::var_os("FERMATA_TEST_VALGRIND").is_some() {
        let suppressions = workspace_root().join("ext/tests/valgrind.supp");
        let log = builder.directory().join("valgrind.%p");
        builder = builder
            .behind(&[
                "valgrind",
                "-q",
                "--max-stackframe=1000000",
                "--num-callers=30",
                &format!("--suppressions={}", suppressions.display()),
                &format!("--log-file={}", log.display()),
            ])
            .env("USE_ZEND_ALLOC", "0")
            .env("ZEND_DONT_UNLOAD_MODULES", "1")
            // memcheck reports uninitialised reads in JIT code.
            .ini("pcre.jit=0")
            .setting("stall_timeout_ms", 0);
    }
    builder.start()
}

/// Returns the reports of memcheck, which writes one file per process.
fn reports(server: &Server) -> String {
    let folder = std::fs::read_dir(server.directory().path()).expect("the server's folder");
    folder
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with("valgrind."))
        .filter_map(|file| std::fs::read_to_string(file.path()).ok())
        .collect()
}

fn begin(server: &Server, target: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    connection
}

fn target(random: &mut Random, cases: &[String], name: &str) -> String {
    let case = random.choose(cases).replace(' ', "%20");
    format!("/run/{case}/{name}/{}", random.bits() >> 33)
}

#[test]
fn handlers_that_wait_in_callbacks_get_the_results_that_they_get_alone() {
    let server = start();
    let cases: Vec<String> = json(&server.connect().get("/cases"))
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|case| case.as_str().map(str::to_owned))
        .collect();
    assert!(cases.len() >= CASES_MIN, "{cases:?}");
    let pid = server.worker_pids();
    let seed = Random::seed_from_environment();
    let mut random = Random::new(seed);
    let until = Instant::now() + Duration::from_secs(seconds().unwrap_or(SECONDS));
    let mut groups = 0;
    while Instant::now() < until {
        let len = 2 + random.within(0..HANDLERS_MAX - 1);
        let targets: Vec<String> = NAMES[..len]
            .iter()
            .map(|name| target(&mut random, &cases, name))
            .collect();
        let alone: Vec<String> = targets
            .iter()
            .map(|target| begin(&server, target).read_response().text().to_owned())
            .collect();
        let mut running = Vec::new();
        for target in &targets {
            running.push(begin(&server, target));
            thread::sleep(Duration::from_micros(random.within(0..2_000) as u64));
        }
        let together: Vec<String> = running
            .iter_mut()
            .map(|connection| connection.read_response().text().to_owned())
            .collect();
        assert_eq!(
            together,
            alone,
            "FERMATA_TEST_SEED={seed}, group {groups}: {targets:?}\n{}",
            server.log().text()
        );
        groups += 1;
    }
    assert_eq!(pid, server.worker_pids(), "{}", server.log().text());
    assert_eq!(reports(&server), "", "FERMATA_TEST_SEED={seed}");
    println!("{groups} groups of {} cases", cases.len());
}
