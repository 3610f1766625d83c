//! Hub and edge without free descriptors: clients over the limit are rejected, and the others are
//! served.

use std::process::{Command, Stdio};

use fermata_testkit::{Connection, Listening, ReadError, command_path, wait_until};

/// Descriptors of each process, some of which are for clients.
const LIMIT: &str = "--nofile=160:160";

const CLIENTS: usize = 300;

/// Starts `fermata` with few descriptors.
fn limited(arguments: &[&str]) -> Listening {
    Listening::start(|port| {
        Command::new("prlimit")
            .arg(LIMIT)
            .arg(command_path())
            .args(arguments)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    })
}

fn status(client: &mut Connection, target: &str) -> Result<u16, ReadError> {
    let answer = client.try_request("GET", target, &[], b"");
    answer.map(|it| it.status())
}

/// More clients than available descriptors request a target that does not exist.
fn check(process: &Listening, target: &str) {
    let mut inside = process.connect();
    assert_eq!(inside.get(target).status(), 404);
    // Read the pids after the first response: the socket listens before the worker is forked.
    let pids = process.children();
    assert!(!pids.is_empty());
    let mut clients: Vec<Connection> = Vec::new();
    let mut refused = 0;
    for _ in 0..CLIENTS {
        let mut client = process.connect();
        match status(&mut client, target) {
            Ok(404) => clients.push(client),
            Ok(503) | Err(_) => refused += 1,
            Ok(other) => panic!("status {other}"),
        }
    }
    assert!(clients.len() > 20 && refused > 0, "{}", clients.len());
    assert_eq!(inside.get(target).status(), 404);
    drop(clients);
    wait_until("there is room again", || {
        (status(&mut process.connect(), target).ok()? == 404).then_some(())
    });
    assert_eq!(process.children(), pids, "no worker was replaced");
}

#[test]
fn a_hub_refuses_clients_beyond_its_descriptors() {
    let hub = limited(&["hub", "--workers", "1", "--app", "1:key:0123456789abcdef"]);
    check(&hub, "/nothing");
}

#[test]
fn an_edge_refuses_clients_beyond_its_descriptors() {
    let folder = fermata_testkit::Directory::new();
    let files = folder.path().display().to_string();
    let route = format!("* file/{files}");
    let edge = limited(&["edge", "--control", "127.0.0.1:0", "--route", &route]);
    check(&edge, "/nothing");
}
