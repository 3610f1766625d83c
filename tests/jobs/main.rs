//! Jobs in processes of their own: the server goes on beside them, loses and replaces them, stops with them; and messages
//! between workers.

use fermata_testkit::{Connection, Server, Signal, is_running, send_signal, wait_until};
use fermata_tests::{fixture, json};

fn server(workers: usize) -> Server {
    fixture("jobs").workers(workers).start()
}

fn ask(connection: &mut Connection, target: &str) {
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
}

/// A process that runs jobs.
fn process(server: &Server) -> u32 {
    let answer = server.connect().get("/process");
    answer.text().parse().expect("a process id")
}

fn wait_ended(pid: u32) {
    wait_until("the process ends", || (!is_running(pid)).then_some(()));
}

/// A client whose handler awaits a job that ends when there is a file `open`. The job has begun.
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
                // The sender's own list is looked at once: a message to itself would have come before the others'.
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
