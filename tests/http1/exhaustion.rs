//! Exhausted descriptors: new clients are rejected or wait, and connected clients are served. The
//! server recovers when descriptors are free again.

use std::time::Duration;

use fermata_testkit::{Builder, Connection, ReadError, wait_until};
use fermata_tests::fixture;

/// Descriptors of each process of the server; half of them are for clients.
const LIMIT: &str = "--nofile=160:160";
const PLACES: usize = 80;

fn limited(name: &str) -> Builder {
    let builder = fixture(name).workers(1).behind(&["prlimit", LIMIT]);
    builder.directory().write("assets/a.txt", "a file");
    builder
        .setting("body_memory_bytes_max", "4k")
        .setting("body_bytes_max", "1m")
}

#[test]
fn clients_over_the_limit_of_descriptors_are_refused_and_the_others_have_some_left() {
    let server = limited("exhaustion").start();
    server.log().wait_for(
        0,
        "connections_max is 10000, but a process may have only 160 open files, so a worker takes 80",
    );
    let mut clients: Vec<Connection> = (0..PLACES).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/pid").status(), 200);
    }
    for _ in 0..200 {
        let answer = server.connect().try_read_response(false);
        let status = answer.map(|response| response.status());
        assert!(
            matches!(status, Ok(503) | Err(ReadError::Ended(_))),
            "{status:?}"
        );
    }
    // Clients leave enough descriptors for their requests.
    for client in &mut clients {
        assert_eq!(client.get("/assets/a.txt").text(), "a file");
    }
    assert_eq!(
        clients[0].post("/body", vec![b'x'; 100_000]).text(),
        "100000"
    );

    clients.truncate(PLACES / 2);
    wait_until("places become free", || {
        let answer = server.connect().try_request("GET", "/pid", &[], b"");
        answer.ok().filter(|response| response.status() == 200)
    });
}

#[test]
fn a_program_that_takes_every_descriptor_makes_new_clients_wait() {
    let server = limited("exhaustion").start();
    let pids = server.worker_pids();
    let (mut inside, mut uploading) = (server.connect(), server.connect());
    assert_eq!(uploading.get("/assets/a.txt").text(), "a file");
    let taken: usize = inside.get("/take").text().parse().expect("a number");
    assert!(taken > 50, "{taken}");

    let mut waiting: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    for client in &mut waiting {
        let _ = client.try_send_request("GET", "/pid", &[], b"");
    }
    server
        .log()
        .wait_for(0, "accepting a connection failed: Too many open files");
    // Connected clients are served as far as possible.
    assert_eq!(inside.get("/pid").status(), 200);
    assert_eq!(inside.get("/assets/a.txt").status(), 503);
    // A body that arrives together with its head needs no file.
    uploading.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
    let refused = uploading.read_response();
    assert_eq!(refused.status(), 503);
    assert!(
        refused.text().contains("cannot store"),
        "{}",
        refused.text()
    );
    assert_eq!(inside.post("/body", "in memory").text(), "9");
    assert!(
        !waiting[19].has_data(Duration::ZERO),
        "nobody can be accepted"
    );

    assert_eq!(inside.get("/free").text(), "free");
    for client in &mut waiting {
        assert_eq!(client.read_response().status(), 200);
    }
    assert_eq!(inside.get("/assets/a.txt").text(), "a file");
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}

/// More clients than `select()` supports descriptors.
#[test]
fn a_program_has_low_descriptors_for_select_beside_many_clients() {
    let builder = fixture("exhaustion").workers(1);
    builder.directory().write("assets/a.txt", "a file");
    let server = builder.start();
    let mut clients = Vec::new();
    while clients.len() < 1_300 {
        match Connection::try_open(server.address()) {
            Ok(connection) => clients.push(connection),
            Err(error) => {
                println!("not run: {} clients at most: {error}", clients.len());
                return;
            }
        }
    }
    for client in &mut clients {
        assert_eq!(client.get("/pid").status(), 200);
    }
    assert_eq!(clients[1_299].get("/process").text(), "said");
    // Slots that become free must not exhaust the limit the next time.
    clients.drain(..600);
    for _ in 0..600 {
        let mut client = server.connect();
        assert_eq!(client.get("/pid").status(), 200);
        clients.push(client);
    }
    assert_eq!(clients[0].get("/process").text(), "said");
    assert_eq!(clients[1_299].get("/process").text(), "said");
}
