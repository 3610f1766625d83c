//! Jobs in separate processes: the server continues while they run, replaces crashed ones, and
//! stops them when it stops. Also messages between workers.

mod killed;

use fermata_testkit::{Connection, Server, Signal, is_running, send_signal, wait_until};
use fermata_tests::{fixture, json, stats};
use serde_json::Value;

fn server(workers: usize) -> Server {
    fixture("jobs").workers(workers).start()
}

fn ask(connection: &mut Connection, target: &str) {
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
}

/// Returns the id of a process that runs jobs.
fn process(server: &Server) -> u32 {
    let answer = server.connect().get("/process");
    answer.text().parse().expect("a process id")
}

fn wait_ended(pid: u32) {
    wait_until("the process ends", || (!is_running(pid)).then_some(()));
}

/// Opens a client whose handler awaits a job. The job has started and ends when a file `open`
/// exists.
fn at_the_gate(server: &Server) -> Connection {
    let begun = server.directory().join("open.begun");
    let count = || std::fs::metadata(&begun).map_or(0, |file| file.len());
    let before = count();
    let mut client = server.connect();
    let path = server.directory().join("open");
    ask(&mut client, &format!("/gate?path={}", path.display()));
    wait_until("the job begins", || (count() > before).then_some(()));
    client
}

#[test]
fn requests_are_answered_while_jobs_run() {
    let server = server(1);
    let mut both: Vec<Connection> = (0..2).map(|_| at_the_gate(&server)).collect();
    for _ in 0..100 {
        assert_eq!(server.connect().get("/quick").text(), "quick");
    }
    server.directory().write("open", "");
    for client in &mut both {
        assert_eq!(client.read_response().text(), "open");
    }
}

#[test]
fn jobs_of_all_workers_share_the_processes() {
    let server = server(2);
    let mut clients: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        ask(client, "/nap/2");
    }
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "rested");
    }
}

#[test]
fn a_killed_process_costs_the_call_it_ran_and_is_replaced() {
    let server = server(2);
    for _ in 0..5 {
        let victim = process(&server);
        let mut clients: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
        for client in &mut clients {
            ask(client, "/nap/5");
        }
        assert!(send_signal(victim, Signal::Kill));
        let answers: Vec<u16> = clients
            .iter_mut()
            .map(|client| client.read_response().status())
            .collect();
        let lost = answers.iter().filter(|&&status| status == 502).count();
        assert!(lost <= 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|&&it| it == 200).count() + lost, 20);
    }
    assert!(server.log().text().contains("killed by signal 9"));
}

/// Requests metrics until `is` returns true; metrics are up to 100 ms old.
fn wait_for_figures(server: &Server, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, || {
        let now = stats(server);
        is(&now).then_some(now)
    })
}

#[test]
fn a_killed_supervisor_is_replaced_and_calls_in_the_queue_are_run() {
    let server = fixture("jobs").workers(2).control().start();
    for round in 1..=3 {
        let supervisor: u32 = server
            .connect()
            .get("/supervisor")
            .text()
            .parse()
            .expect("a process id");
        let mut running: Vec<Connection> = (0..2).map(|_| at_the_gate(&server)).collect();
        let mut queued: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
        for client in &mut queued {
            ask(client, "/nap/1");
        }
        wait_for_figures(&server, "two jobs run and twenty wait", |now| {
            now["jobs_running"] == 2 && now["jobs_queued"] == 20
        });
        assert!(send_signal(supervisor, Signal::Kill));
        for client in &mut running {
            assert_eq!(client.read_response().status(), 502);
        }
        for client in &mut queued {
            let answer = client.read_response();
            assert_eq!((answer.status(), answer.text()), (200, "rested"));
        }
        let now = wait_for_figures(&server, "nothing runs", |now| {
            now["jobs_running"] == 0 && now["total"]["jobs_pending"] == 0
        });
        assert_eq!(now["job_supervisor_restarts"], round);
        assert_eq!(now["total"]["jobs"]["crashed"], round * 2);
        assert_eq!(now["jobs_queued"], 0);
    }
    assert!(
        server
            .log()
            .text()
            .contains("the process that supervises jobs exited")
    );
}

#[test]
fn a_supervisor_that_was_killed_twice_ends_with_the_server() {
    let mut server = server(1);
    for _ in 0..2 {
        let supervisor = server.connect().get("/supervisor");
        let supervisor = supervisor.text().parse().expect("a process id");
        assert!(send_signal(supervisor, Signal::Kill));
        wait_ended(supervisor);
    }
    let pid = process(&server);
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_exit().code(), Some(0));
    wait_ended(pid);
}

#[test]
fn what_becomes_of_jobs_and_tasks_is_counted() {
    let server = fixture("jobs").workers(1).control().start();
    let mut client = server.connect();
    assert_eq!(client.get("/nap/0").text(), "rested");
    assert_eq!(client.get("/throws").status(), 500);
    assert_eq!(client.get("/limited/20").status(), 500);
    assert_eq!(client.get("/later").text(), "now");
    assert!(send_signal(process(&server), Signal::Kill));
    let now = wait_for_figures(&server, "all have ended", |now| {
        let total = &now["total"];
        total["tasks"]["defer"] == 2
            && total["tasks"]["every"].as_u64() > Some(3)
            && now["job_process_restarts"] == 1
    });
    let total = &now["total"];
    let jobs = &total["jobs"];
    assert_eq!((&jobs["done"], &jobs["failed"]), (&2.into(), &1.into()));
    assert_eq!(
        (&jobs["cancelled"], &jobs["crashed"]),
        (&1.into(), &0.into())
    );
    assert_eq!(total["tasks_failed"]["defer"], 1);
    assert_eq!(total["tasks_failed"]["every"], 0);
    assert_eq!(total["fibers_waiting"], 0);
    let _still_at_the_nap = at_the_gate(&server);
    wait_for_figures(&server, "a handler waits", |now| {
        now["total"]["fibers_waiting"] == 1 && now["total"]["jobs_pending"] == 1
    });
}

#[test]
fn a_server_that_stops_waits_for_jobs_that_are_awaited() {
    let mut server = server(1);
    let pid = process(&server);
    let mut client = at_the_gate(&server);
    server.signal(Signal::Terminate);
    server.log().wait_map(0, "draining", |line| {
        line.text.contains("draining").then_some(())
    });
    server.directory().write("open", "");
    assert_eq!(client.read_response().text(), "open");
    assert_eq!(server.wait_exit().code(), Some(0));
    wait_ended(pid);
}

#[test]
fn no_process_outlives_a_master_that_was_killed() {
    let server = server(1);
    let pid = process(&server);
    server.signal(Signal::Kill);
    wait_ended(pid);
}

#[test]
fn a_message_reaches_every_other_worker() {
    let server = server(4);
    let pids = server.worker_pids();
    for round in 0..10 {
        let target = format!("/say/{round}");
        let answer = server.connect().get(&target);
        let from = answer.text();
        for (number, pid) in &pids {
            let mut client = server.connect_to(*pid);
            loop {
                let heard = json(&client.get("/heard"));
                let heard = heard.as_array().expect("a list");
                let message = format!("{from} {round}");
                let times = heard.iter().filter(|it| **it == message).count();
                assert!(times <= 1, "{heard:?}");
                // Check the sender's own list immediately: a message to itself would have arrived
                // before the messages to others.
                if number.to_string() == from {
                    assert_eq!(times, 0, "{heard:?}");
                    break;
                }
                if times == 1 {
                    break;
                }
            }
        }
    }
}
