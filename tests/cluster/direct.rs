//! Messages to one WebSocket on any machine, and to the workers of all machines.

use std::collections::BTreeMap;

use fermata_testkit::websocket::Socket;
use fermata_testkit::{Connection, LogServer, Server, over_each_log, wait_until};
use serde_json::{Value, json};

use crate::node::{node, wait_ready};

over_each_log!(
    a_socket_gets_what_is_sent_to_it_on_another_machine,
    without_the_log_sending_to_another_machine_fails,
    workers_of_all_machines_are_told_once,
);

/// Opens a socket and returns it with the id that handlers send to.
fn open(server: &Server) -> (Socket, String) {
    let mut socket = Socket::open(server.connect(), "/socket");
    let id = socket.next_text();
    (socket, id)
}

fn send(server: &Server, id: &str, data: impl AsRef<[u8]>) -> (u16, String) {
    send_over(&mut server.connect(), id, data)
}

fn send_over(connection: &mut Connection, id: &str, data: impl AsRef<[u8]>) -> (u16, String) {
    let response = connection.post(&format!("/send-to/{id}"), data.as_ref());
    (response.status(), response.text().to_owned())
}

fn sent() -> (u16, String) {
    (200, "sent".to_owned())
}

fn a_socket_gets_what_is_sent_to_it_on_another_machine(log: LogServer) {
    let servers = [(); 2].map(|()| node(&log).workers(2).start());
    for server in &servers {
        wait_ready(server, 200);
    }
    let mut sockets: Vec<(Socket, String)> = (0..4).map(|at| open(&servers[at % 2])).collect();
    for server in &servers {
        for (socket, id) in &mut sockets {
            // Messages arrive in the order in which one worker sent them, each once.
            let mut connection = server.connect();
            for number in 0..20 {
                let said = send_over(&mut connection, id, format!("für dich {number}"));
                assert_eq!(said, sent());
            }
            for number in 0..20 {
                assert_eq!(socket.next_text(), format!("für dich {number}"));
            }
        }
    }
    // An event published later in the log. A socket that wrongly receives another message has
    // received it by then.
    let published = servers[0].connect().post("/publish/news", "the end");
    assert_eq!(published.status(), 200);
    for (socket, _) in &mut sockets {
        assert_eq!(socket.next_text(), "the end");
    }
    // A socket that has disconnected.
    let (socket, id) = sockets.remove(0);
    drop(socket);
    assert_eq!(send(&servers[1], &id, "too late"), sent());
    let (status, text) = send(&servers[1], &sockets[1].1, vec![b'x'; 100_000]);
    assert_eq!(status, 500, "{text}");
    let (status, text) = send(&servers[1], &sockets[1].1, b"\xff");
    assert_eq!(status, 500, "{text}");
    assert_eq!(send(&servers[1], &sockets[1].1, "and on"), sent());
    assert_eq!(sockets[1].0.next_text(), "and on");
}

/// Returns the messages that each worker of a server received, with their senders. Requests repeat
/// until each worker has responded.
fn told(server: &Server, workers: usize) -> Vec<Value> {
    let mut of: BTreeMap<u64, Value> = BTreeMap::new();
    wait_until("an answer of each worker", || {
        let mut answer = fermata_tests::json(&server.connect().get("/told"));
        let pid = answer["pid"].as_u64().expect("a process");
        of.insert(pid, answer["told"].take());
        (of.len() == workers).then_some(())
    });
    of.into_values().collect()
}

fn workers_of_all_machines_are_told_once(log: LogServer) {
    let servers = [(); 3].map(|()| node(&log).workers(2).start());
    for server in &servers {
        wait_ready(server, 200);
    }
    let response = servers[0].connect().post("/tell-all", "Grüße");
    assert_eq!(response.status(), 200, "{}", response.text());
    let message = |from: i64| json!([[from, {"said": "Grüße"}]]);
    let none = json!([]);
    wait_until("all are told", || {
        let mut own = told(&servers[0], 2);
        own.sort_by_key(|it| it.as_array().map_or(0, Vec::len));
        let from = own[1][0][0].as_i64().unwrap_or(-2);
        let others = [&servers[1], &servers[2]].map(|it| told(it, 2));
        (own == [none.clone(), message(from)] && [0, 1].contains(&from)).then_some(())?;
        (others == [(); 2].map(|()| vec![message(-1), message(-1)])).then_some(())
    });
}

fn without_the_log_sending_to_another_machine_fails(mut log: LogServer) {
    let servers = [(); 2].map(|()| node(&log).workers(1).start());
    for server in &servers {
        wait_ready(server, 200);
    }
    let (mut socket, id) = open(&servers[0]);
    log.kill();
    for server in &servers {
        wait_ready(server, 503);
    }
    let (status, text) = send(&servers[1], &id, "lost");
    assert_eq!(status, 500, "{text}");
    let response = servers[1].connect().post("/tell-all", "nobody");
    assert_eq!(response.status(), 500, "{}", response.text());
    // Messages to a local socket need no log.
    assert_eq!(send(&servers[0], &id, "from here"), sent());
    assert_eq!(socket.next_text(), "from here");
    log.restart();
    for server in &servers {
        wait_ready(server, 200);
    }
    assert_eq!(send(&servers[1], &id, "again"), sent());
    assert_eq!(socket.next_text(), "again");
}
