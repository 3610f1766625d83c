//! Crashed workers are replaced, and clients of other workers are not affected.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::sse::{Item, Stream, StreamEnd};
use fermata_testkit::{Connection, Signal, is_running, send_signal, wait_until};
use fermata_tests::{fixture, publish};

#[test]
fn all_workers_serve() {
    let server = fixture("hub").workers(3).start();
    let pids = server.worker_pids();
    assert_eq!(pids.len(), 3);
    for pid in pids.values() {
        assert_eq!(server.connect_to(*pid).get("/pid").text(), pid.to_string());
        assert_ne!(*pid, server.pid(), "the master does not serve");
    }
}

#[test]
fn a_killed_worker_is_replaced_and_the_other_serves_on() {
    let server = fixture("hub").start();
    let pids = server.worker_pids();
    let mut other = server.connect_to(pids[&1]);
    let mut held = Stream::open(server.connect_to(pids[&1]), "/events", None);
    let mut victim = server.connect_to(pids[&0]);
    assert!(send_signal(pids[&0], Signal::Kill));
    victim.expect_end();
    // Before, during and after the replacement.
    let new_pid = thread::scope(|scope| {
        let replaced = scope.spawn(|| server.wait_replaced(0, pids[&0]));
        loop {
            assert_eq!(other.get("/pid").text(), pids[&1].to_string());
            if replaced.is_finished() {
                return replaced.join().expect("it is replaced");
            }
        }
    });
    assert_eq!(
        server.connect_to(new_pid).get("/pid").text(),
        new_pid.to_string()
    );
    assert_eq!(
        server
            .connect_to(pids[&1])
            .post("/publish/news", "on")
            .status(),
        200
    );
    assert_eq!(held.next_event().data, "on");
    assert_eq!(
        server
            .connect_to(new_pid)
            .post("/publish/news", "again")
            .status(),
        200
    );
    assert_eq!(held.next_event().data, "again");
}

#[test]
fn new_connections_are_served_while_a_worker_is_missing() {
    let server = fixture("hub").start();
    let pids = server.worker_pids();
    for _ in 0..3 {
        let victim = server.worker_pids()[&0];
        assert!(send_signal(victim, Signal::Kill));
        for _ in 0..20 {
            wait_until("somebody serves", || {
                let mut connection = Connection::try_open(server.address()).ok()?;
                connection.try_request("GET", "/pid", &[], b"").ok()
            });
        }
        server.wait_replaced(0, victim);
    }
    assert_eq!(server.worker_pids()[&1], pids[&1]);
}

#[test]
fn a_worker_that_crashes_again_and_again_is_restarted_ever_later() {
    dies_again_and_again(Signal::Abort);
}

/// Like the kernel's out-of-memory killer.
#[test]
fn a_worker_that_is_killed_again_and_again_is_restarted_ever_later() {
    dies_again_and_again(Signal::Kill);
}

fn dies_again_and_again(signal: Signal) {
    let server = fixture("hub")
        .setting("restart_delay_ms_max", 2_000)
        .start();
    let pids = server.worker_pids();
    let mut other = server.connect_to(pids[&1]);
    let mut victim = pids[&0];
    let mut pauses = Vec::new();
    while pauses
        .iter()
        .all(|pause: &Duration| *pause < Duration::from_millis(400))
    {
        assert!(pauses.len() < 30, "no back-off in {pauses:?}");
        let killed = Instant::now();
        assert!(send_signal(victim, signal));
        victim = server.wait_replaced(0, victim);
        pauses.push(killed.elapsed());
        assert_eq!(other.get("/pid").text(), pids[&1].to_string());
    }
    assert!(pauses.len() > 1, "the first restart is quick: {pauses:?}");
    assert_eq!(
        server.connect_to(victim).get("/pid").status(),
        200,
        "it serves after all"
    );
}

#[test]
fn one_worker_told_to_end_drains_and_is_replaced() {
    let server = fixture("hub").start();
    let pids = server.worker_pids();
    let held = Stream::open(server.connect_to(pids[&0]), "/events", None);
    let mut other = Stream::open(server.connect_to(pids[&1]), "/events", None);
    assert!(send_signal(pids[&0], Signal::Terminate));
    let mut held = held;
    let items = held.read_to_end();
    assert_eq!(items.last(), Some(&Item::End(StreamEnd::Clean)));
    assert!(
        items.iter().any(|item| matches!(item, Item::Retry(_))),
        "{items:?}"
    );
    let new_pid = server.wait_replaced(0, pids[&0]);
    wait_until("the old one has ended", || {
        (!is_running(pids[&0])).then_some(())
    });
    assert_eq!(server.connect_to(new_pid).get("/pid").status(), 200);
    publish(&server, "news", "on");
    assert_eq!(other.next_event().data, "on");
    assert_eq!(server.worker_pids()[&1], pids[&1]);
}

/// A worker that ends alone hands its idle connections over. If it closed such a connection, the client's next request could be
/// lost.
#[test]
fn idle_clients_of_a_worker_that_ends_alone_are_served_by_the_others() {
    for workers in [2, 1] {
        let server = fixture("hub").workers(workers).start();
        let pid = server.worker_pids()[&0];
        let mut idle: Vec<_> = (0..5).map(|_| server.connect_to(pid)).collect();
        // The kernel assigns some of these connections to that worker.
        let mut untouched: Vec<_> = (0..12).map(|_| server.connect()).collect();
        assert!(send_signal(pid, Signal::Terminate));
        server.wait_replaced(0, pid);
        for connection in idle.iter_mut().chain(&mut untouched) {
            assert_ne!(connection.get("/pid").text(), pid.to_string());
        }
        wait_until("the old one has ended", || (!is_running(pid)).then_some(()));
    }
}

#[test]
fn workers_end_with_their_master() {
    let mut server = fixture("hub").start();
    let pids = server.worker_pids();
    let held = Stream::open(server.connect(), "/events", None);
    server.signal(Signal::Kill);
    server.wait_exit();
    wait_until("no worker is left", || {
        (!pids.values().any(|pid| is_running(*pid))).then_some(())
    });
    drop(held);
    assert!(
        Connection::try_open(server.address()).is_err(),
        "nobody listens any more"
    );
}

#[test]
fn a_worker_that_blocks_ends_with_its_master_too() {
    let mut server = fixture("hub").setting("stall_timeout_ms", 0).start();
    let pids = server.worker_pids();
    // Hold the client, so that its connection stays with its worker.
    let mut blocked: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for connection in &mut blocked {
        connection.send("GET /slow/600000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(!blocked[0].has_data(Duration::from_millis(100)));
    server.signal(Signal::Kill);
    server.wait_exit();
    wait_until("no worker is left", || {
        (!pids.values().any(|pid| is_running(*pid))).then_some(())
    });
    // The kernel completes pending io_uring operations a little later.
    wait_until("nobody listens any more", || {
        Connection::try_open(server.address()).err()
    });
}

#[test]
fn a_worker_that_a_signal_ends_is_logged_with_its_handler() {
    let server = fixture("hub").workers(1).start();
    let pid = server.worker_pids()[&0];
    let mut connection = server.connect();
    connection.send("GET /slow/60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!connection.has_data(Duration::from_millis(100)));
    assert!(send_signal(pid, Signal::Abort));
    server.wait_replaced(0, pid);
    let line = format!("worker 0 ended pid={pid} (signal 6) in the handler of GET /slow/");
    assert!(server.log().contains(&line), "{}", server.log().text());
}

/// Requests to one page crash its worker, while other pages are requested.
#[test]
fn a_page_that_runs_out_of_memory_again_and_again_costs_nobody_else_anything() {
    let server = fixture("faults").ini("memory_limit=32M").start();
    for round in 0..30 {
        // These connections are opened before a worker retires, and that worker may have accepted
        // them.
        let mut waiting: Vec<_> = (0..4).map(|_| server.connect()).collect();
        let mut kept = server.connect();
        assert_eq!(kept.get("/pid").status(), 200, "round {round}");
        assert_eq!(server.connect().get("/memory").status(), 500);
        for connection in &mut waiting {
            assert_eq!(connection.get("/pid").status(), 200, "round {round}");
        }
        assert_eq!(kept.get("/pid").status(), 200, "round {round}");
    }
    assert!(!server.log().contains("is restarted in"));
}

/// Maximum number of requests, so that a failing test still ends.
const ASKED_MAX: usize = 600;

/// At intervals, and as fast as an attack.
#[test]
fn a_page_that_runs_out_of_memory_by_the_clock_costs_nobody_else_anything() {
    // With io_uring, the kernel may have read a request that no other worker can take over.
    let server = fixture("faults")
        .ini("memory_limit=32M")
        .setting("io", "epoll")
        .start();
    for pause_ms in [833, 100] {
        let is_over = AtomicBool::new(false);
        let ask = || {
            let mut asked = 0;
            while !is_over.load(Ordering::Relaxed) && asked < ASKED_MAX {
                assert_eq!(server.connect().get("/memory").status(), 500);
                asked += 1;
                thread::sleep(Duration::from_millis(pause_ms));
            }
            asked
        };
        let asked = thread::scope(|scope| {
            let asking = scope.spawn(ask);
            for number in 0..40 {
                let status = server.connect().get("/pid").status();
                assert_eq!(status, 200, "request {number} beside one in {pause_ms} ms");
                thread::sleep(Duration::from_millis(50));
            }
            is_over.store(true, Ordering::Relaxed);
            asking.join().expect("it has got its answers")
        });
        assert!(asked > 1, "{asked} beside one in {pause_ms} ms");
    }
    assert!(!server.log().contains("is restarted in"));
}

#[test]
fn connections_of_the_only_worker_wait_for_its_replacement() {
    let server = fixture("faults")
        .ini("memory_limit=32M")
        .setting("balance", "off")
        .workers(1)
        .start();
    for _ in 0..5 {
        let mut waiting: Vec<_> = (0..8).map(|_| server.connect()).collect();
        assert_eq!(waiting[0].get("/pid").status(), 200);
        assert_eq!(server.connect().get("/memory").status(), 500);
        for connection in &mut waiting {
            assert_eq!(connection.get("/pid").status(), 200);
        }
    }
}

/// PHP's own functions call the script on the process stack, which PHP checks from 8.3 on.
#[test]
fn endless_recursion_through_functions_of_php_costs_one_worker_at_most() {
    let server = fixture("faults").start();
    for by in ["map", "sort", "getter"] {
        let from = server.log().len();
        let pid = server.worker_pids()[&0];
        let mut victim = server.connect_to(pid);
        victim.send(format!(
            "GET /endless/{by} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ));
        let (answer, end) = victim.read_to_end();
        assert!(end.is_some(), "{by}: it has come to no end");
        if answer.is_empty() {
            server.wait_replaced(0, pid);
            let line = server.log().wait_for(from, "ended pid=").text;
            let told = "(signal 11) in the handler of GET /endless/";
            assert!(line.contains(told), "{by}: {line}");
        } else {
            assert!(answer.starts_with(b"HTTP/1.1 500 "), "{by}");
        }
        assert_eq!(server.connect().get("/pid").status(), 200, "{by}");
    }
}

/// As the first process of a container, the master adopts orphaned processes.
#[test]
fn the_first_process_of_a_container_leaves_no_zombies() {
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc"];
    let is_allowed = std::process::Command::new(unshare[0])
        .args(&unshare[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !is_allowed {
        println!("not run: this user may not make a process namespace");
        return;
    }
    let server = fixture("faults").behind(&unshare).start();
    let children = |pid: u32| -> Vec<u32> {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').filter_map(|pid| pid.parse().ok()).collect()
    };
    let master = children(server.pid())[0];
    for _ in 0..10 {
        assert_eq!(server.connect().get("/orphan").text(), "left behind");
    }
    wait_until("only the workers are left", || {
        (children(master).len() == 2).then_some(())
    });
    let mut connection = server.connect();
    assert_eq!(connection.get("/pid").status(), 200);
}
