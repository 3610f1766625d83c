//! Edges in front of servers that share a log. Each edge delivers every event of all servers once,
//! although several servers post it.

use fermata_testkit::{LogServer, Server, free_port, over_each_log, wait_until};
use fermata_tests::health::wait_ready;
use fermata_tests::{fixture_path, publish, stats};

use crate::client::Client;
use crate::subject::{Kind, SIG_KEY, Subject};

over_each_log!(
    an_edge_of_each_server_is_told_what_all_publish,
    what_two_servers_tell_one_edge_reaches_its_clients_once,
);

const HOST: &str = "php.test";
/// Publisher's time-out where the publish must succeed even on a busy machine.
const PATIENT_MS: u64 = 30_000;

struct Edge {
    subject: Subject,
    /// Port of the server to which this edge sends requests.
    origin: u16,
}

impl Edge {
    fn start(kind: Kind) -> Option<Edge> {
        let origin = free_port();
        let subject = Subject::start_with(kind, &format!("{HOST} 127.0.0.1:{origin}\n"));
        if subject.is_none() {
            eprintln!("SKIPPED: {kind:?} is not installed");
        }
        subject.map(|subject| Edge { subject, origin })
    }

    fn url(&self) -> String {
        let key = SIG_KEY.replace(' ', "%20");
        format!("http://127.0.0.1:{}?key={key}", self.subject.control)
    }

    /// Opens a held client, and reads up to its position.
    fn client(&self, last_id: Option<&str>) -> Client {
        let mut client = Client::open(self.subject.port, HOST);
        let headers: Vec<(&str, &str)> = last_id.iter().map(|id| ("Last-Event-ID", *id)).collect();
        client.send("GET", "/events?channels=a", &headers, b"");
        assert_eq!(client.read_head().status, 200);
        client
    }
}

fn server(log: &LogServer, port: u16, edges: &str) -> Server {
    let server = Server::builder(fixture_path("hub"))
        .env("PORT", port.to_string())
        .env("GRIP_URL", edges)
        .setting("cluster", log.url())
        .setting("cluster_bytes_max", "16m")
        .setting("publish_wait_ms_max", PATIENT_MS)
        .setting("grip_link_timeout_ms", 120_000)
        .setting("metrics_listen", "http://127.0.0.1:0")
        .control()
        .start();
    // Wait: a client that is held earlier receives ids that the log does not know.
    wait_ready(&server, 200);
    server
}

fn wait_given(server: &Server, count: u64) {
    wait_until("the edge holds its clients", || {
        (stats(server)["total"]["holds_at_edges"] == count).then_some(())
    });
}

/// Publishes through each server in turn and checks that each client receives every event once, in
/// order.
fn check_order(servers: &[Server; 2], clients: &mut [Client]) -> Vec<String> {
    let ids: Vec<String> = (0..20)
        .map(|number| publish(&servers[number % 2], "a", &format!("event {number}")))
        .collect();
    for client in clients {
        let text = client.read_until("data: event 19\n\n");
        let events = text
            .split_inclusive("\n\n")
            .filter(|it| it.contains("data: "));
        let expected: Vec<String> = ids
            .iter()
            .enumerate()
            .map(|(number, id)| format!("id: {id}\ndata: event {number}\n\n"))
            .collect();
        assert_eq!(events.collect::<Vec<_>>(), expected, "{text}");
    }
    ids
}

fn an_edge_of_each_server_is_told_what_all_publish(log: LogServer) {
    let Some((one, other)) = Edge::start(Kind::Fermata).zip(Edge::start(Kind::Fermata)) else {
        return;
    };
    let servers = [&one, &other].map(|edge| server(&log, edge.origin, &edge.url()));
    let mut clients = [one.client(None), other.client(None)];
    for server in &servers {
        wait_given(server, 1);
    }
    let ids = check_order(&servers, &mut clients);
    // A client resumes at the other edge, whose server uses the same ids.
    let mut again = other.client(Some(&ids[9]));
    let text = again.read_until("data: event 19\n\n");
    assert_eq!(text.matches("data: event ").count(), 10, "{text}");
    check_order(&servers, &mut [again]);
}

fn what_two_servers_tell_one_edge_reaches_its_clients_once(log: LogServer) {
    for kind in [Kind::Fermata, Kind::Pushpin] {
        let Some(edge) = Edge::start(kind) else {
            continue;
        };
        let ports = [edge.origin, free_port()];
        let servers = ports.map(|port| server(&log, port, &edge.url()));
        let mut clients = [edge.client(None)];
        wait_given(&servers[0], 1);
        check_order(&servers, &mut clients);
        check_order(&servers, &mut clients);
    }
}
