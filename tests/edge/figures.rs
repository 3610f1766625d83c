//! Metrics of several workers through the interfaces that Pushpin's users read: Prometheus and the
//! stats socket.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fermata_grip::command::request;
use fermata_grip::packet::decode;
use fermata_grip::zmtp::Socket;
use fermata_testkit::{Directory, Signal, command_path, free_port, send_signal, wait_until};
use serde_json::{Value, json};

use crate::client::Client;
use crate::origin::{Origin, ok};
use crate::own::children;
use crate::socket::open;
use crate::zmq::Zmq;

/// Number of held clients, more than one for each worker.
const CLIENTS: u64 = 6;
/// Number of clients, large enough that each worker has some.
const CLIENTS_OF_BOTH: u64 = 32;

struct Edge(Child);

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns the value of a metric by its full name.
pub fn figure(port: u16, name: &str) -> Option<u64> {
    let answer = Client::open(port, "localhost").get("/metrics");
    let mut lines = answer.text().lines();
    lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Returns the sum of a metric over all workers, for the series with this label.
pub fn sum(port: u16, name: &str, label: &str) -> u64 {
    let answer = Client::open(port, "localhost").get("/metrics");
    let lines = answer.text().lines();
    let of_name = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let values = of_name.filter_map(|line| line.split_once("} "));
    let values = values.filter(|(labels, _)| labels.contains(label));
    values
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

pub struct Running {
    edge: Edge,
    pub port: u16,
    pub control: u16,
}

/// Starts an edge with two workers and a backend that holds every client on the channel `c`.
pub fn start(origin: &Origin, arguments: &[String]) -> Running {
    origin.on("figures", |_| {
        ok(
            &[("Grip-Hold", "stream"), ("Grip-Channel", "c")],
            "opened\n",
        )
    });
    let (port, control) = (free_port(), free_port());
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "2"]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--control", &format!("127.0.0.1:{control}")]);
    command.args(["--route", &format!("*,id=r 127.0.0.1:{}", origin.port())]);
    let child = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running {
        edge: Edge(child.expect("our own program")),
        port,
        control,
    };
    wait_until("it listens", || {
        let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        [port, control].into_iter().all(is_listening).then_some(())
    });
    running
}

/// Starts such an edge with Pushpin's command sockets and, below `/over`, WebSockets over HTTP.
fn start_with_commands(origin: &Origin, commands: &Path) -> Running {
    start(
        origin,
        &[
            format!("--zmq-rep=ipc://{}", commands.display()),
            format!(
                "--route=*,path_beg=/over,id=o 127.0.0.1:{},over_http",
                origin.port()
            ),
        ],
    )
}

impl Running {
    /// Returns the process id of the master.
    pub fn pid(&self) -> u32 {
        self.edge.0.id()
    }

    /// Returns the process ids of the workers, the oldest first.
    pub fn workers(&self) -> Vec<u32> {
        children(self.pid())
    }

    /// Opens `count` held clients.
    pub fn clients(&self, count: u64) -> Vec<Client> {
        let held = (0..count).map(|_| {
            let mut client = Client::open(self.port, "localhost");
            client.send("GET", "/figures", &[], b"");
            assert_eq!(client.read_head().status, 200);
            client.read_until("opened\n");
            client
        });
        held.collect()
    }

    fn publish(&self) {
        let body = r#"{"items":[{"channel":"c","http-stream":{"content":"one"}}]}"#;
        let json = [("Content-Type", "application/json")];
        let mut client = Client::open(self.control, "localhost");
        let published = client.request("POST", "/publish/", &json, body.as_bytes());
        assert_eq!(published.status, 200);
    }
}

#[test]
fn prometheus_reads_the_names_of_pushpin() {
    let (origin, metrics) = (Origin::start(), free_port());
    let edge = start(
        &origin,
        &[
            format!("--prometheus=127.0.0.1:{metrics}"),
            "--prometheus-prefix=pushpin_".to_owned(),
        ],
    );
    let mut clients = edge.clients(CLIENTS);
    edge.publish();
    for client in &mut clients {
        client.read_until("one");
    }
    for (name, value) in [
        ("pushpin_connection_connected", CLIENTS),
        ("pushpin_message_received", 1),
        ("pushpin_message_sent", CLIENTS),
    ] {
        wait_until(name, || {
            (figure(metrics, name) == Some(value)).then_some(())
        });
    }
    assert!(figure(metrics, "pushpin_request_received") >= Some(CLIENTS));
    assert_eq!(figure(metrics, "pushpin_connection_minute"), Some(0));
    wait_until("the time of the clients is counted", || {
        let answer = Client::open(metrics, "localhost").get("/metrics");
        let mut seconds = answer.text().lines().filter_map(|line| {
            let (_, value) = line
                .strip_prefix("fermata_connected_seconds_total{")?
                .split_once(' ')?;
            value.parse::<f64>().ok()
        });
        seconds.any(|value| value > 0.0).then_some(())
    });
}

/// Receives the next packet and returns its kind and fields.
fn packet(stats: &mut Zmq) -> (String, Value) {
    let text = String::from_utf8(stats.receive().concat()).expect("UTF-8");
    let (kind, fields) = text.split_once(" J").expect("kind and fields");
    (kind.to_owned(), serde_json::from_str(fields).expect("JSON"))
}

#[test]
fn the_stats_socket_tells_of_the_clients_of_all_workers() {
    let (origin, folder) = (Origin::start(), Directory::new());
    let socket = folder.join("stats");
    let commands = folder.join("commands");
    let edge = start(
        &origin,
        &[
            format!("--zmq-stats=ipc://{}", socket.display()),
            format!("--zmq-rep=ipc://{}", commands.display()),
            "--stats-format=json".to_owned(),
            "--stats-report-interval-ms=200".to_owned(),
        ],
    );
    let mut stats = Zmq::unix(&socket, Socket::Sub);
    stats.subscribe(b"");
    let clients = edge.clients(CLIENTS);
    let (mut ids, mut has_channel) = (BTreeSet::new(), false);
    while (ids.len() as u64) < CLIENTS || !has_channel {
        match packet(&mut stats) {
            (kind, fields) if kind == "conn" => {
                assert_eq!(
                    (&fields["type"], &fields["route"]),
                    (&json!("http"), &json!("r"))
                );
                assert_eq!(fields["peer-address"], "127.0.0.1");
                ids.insert(fields["id"].to_string());
            }
            (kind, fields) => has_channel |= kind == "sub" && fields["mode"] == "stream",
        }
    }
    // Packets about clients and channels arrive in order. So all are counted by now, except the
    // last packet of each worker.
    let mut count = 0;
    while count < CLIENTS {
        edge.publish();
        count = loop {
            if let (kind, fields) = packet(&mut stats)
                && kind == "message"
            {
                break fields["count"].as_u64().expect("a number");
            }
        };
        assert!(count <= CLIENTS);
    }
    loop {
        let (kind, fields) = packet(&mut stats);
        if kind == "report" && fields["connections"] == CLIENTS {
            break;
        }
    }
    // Each worker has some of the connections, but only one worker receives the request.
    let asked: Vec<String> = ids
        .iter()
        .map(|id| id.trim_matches('"').to_owned())
        .collect();
    assert_eq!(there(&commands, &asked), asked.len());
    assert_eq!(there(&commands, &["0:1:1", "none"]), 0);
    drop(clients);
    wait_until("none of them is there", || {
        (there(&commands, &asked) == 0).then_some(())
    });
    let mut is_gone = false;
    while !ids.is_empty() || !is_gone {
        let (kind, fields) = packet(&mut stats);
        if fields["unavailable"] == true {
            is_gone |= kind == "sub" && fields["channel"] == "c";
            ids.remove(&fields["id"].to_string());
        }
    }
}

#[test]
fn routes_are_reported_by_themselves_and_in_bytes() {
    const BODY: &[u8] = &[b'b'; 1_000];
    const ANSWER: &[u8] = &[b'a'; 2_000];
    let (origin, folder, metrics) = (Origin::start(), Directory::new(), free_port());
    origin.on("plain", |_| ok(&[], ANSWER));
    let socket = folder.join("stats");
    let edge = start(
        &origin,
        &[
            format!("--zmq-stats=ipc://{}", socket.display()),
            format!("--prometheus=127.0.0.1:{metrics}"),
            "--stats-format=json".to_owned(),
            "--stats-report-interval-ms=200".to_owned(),
            "--message-block-bytes=2".to_owned(),
            format!("--route=*,path_beg=/plain,id=p 127.0.0.1:{}", origin.port()),
        ],
    );
    let mut stats = Zmq::unix(&socket, Socket::Sub);
    stats.subscribe(b"activity");
    stats.subscribe(b"report");
    while packet(&mut stats).0 != "report" {}
    let mut client = Client::open(edge.port, "localhost");
    assert_eq!(client.request("POST", "/plain", &[], BODY).body, ANSWER);
    let _clients = edge.clients(CLIENTS);
    // Sums by route and field; for connections, the maximum.
    let mut sums = std::collections::BTreeMap::new();
    let mut sum = |wanted: &[(&str, &str, u64)], and: &dyn Fn()| loop {
        and();
        let (kind, fields) = packet(&mut stats);
        let route = fields["route"].as_str().unwrap_or_default().to_owned();
        for (name, value) in fields.as_object().expect("fields") {
            let Some(value) = value.as_u64() else {
                continue;
            };
            let sum = sums
                .entry((route.clone(), format!("{kind}.{name}")))
                .or_insert(0);
            *sum = match name.as_str() {
                "connections" => value.max(*sum),
                _ => value + *sum,
            };
        }
        let get = |route: &str, name: &str| {
            let key = (route.to_owned(), name.to_owned());
            sums.get(&key).copied().unwrap_or_default()
        };
        if wanted
            .iter()
            .all(|(route, name, at_least)| get(route, name) >= *at_least)
        {
            break;
        }
    };
    let wanted = [
        ("p", "activity.count", 1),
        ("p", "report.client-content-bytes-received", 1_000),
        ("p", "report.client-content-bytes-sent", 2_000),
        ("p", "report.server-content-bytes-received", 2_000),
        ("p", "report.server-content-bytes-sent", 1_000),
        ("r", "activity.count", CLIENTS),
        ("r", "report.connections", CLIENTS),
        ("", "report.connections", CLIENTS),
        ("", "report.client-content-bytes-received", 1_000),
    ];
    sum(&wanted, &|| {});
    // Each item counts once per client: "opened" at the start and "one" for every held client.
    let sent = CLIENTS * 7 + 3;
    let published = [
        ("r", "report.sent", CLIENTS),
        ("r", "report.received", 1),
        // Three bytes count as two blocks.
        ("r", "report.blocks-received", 2),
        ("r", "report.blocks-sent", 2 * CLIENTS),
        ("", "report.blocks-sent", 2 * CLIENTS),
        ("r", "report.client-content-bytes-sent", sent),
        ("", "report.client-content-bytes-sent", 2_000 + sent),
    ];
    sum(&published, &|| edge.publish());
    let get = |name: &str| {
        let key = ("p".to_owned(), name.to_owned());
        sums.get(&key).copied().unwrap_or_default()
    };
    assert_eq!(get("activity.count"), 1);
    assert_eq!(get("report.client-content-bytes-sent"), 2_000);
    assert_eq!(get("report.sent"), 0);
    assert_eq!(get("report.blocks-sent"), 0);
    for (name, value) in [
        ("fermata_edge_route_requests_total{route=\"p\"}", 1),
        ("fermata_edge_route_requests_total{route=\"r\"}", CLIENTS),
        ("fermata_edge_route_failures_total{route=\"p\"}", 0),
        (
            "fermata_edge_route_bytes_total{route=\"p\",kind=\"client_received\"}",
            1_000,
        ),
        (
            "fermata_edge_route_bytes_total{route=\"p\",kind=\"server_received\"}",
            2_000,
        ),
    ] {
        assert_eq!(figure(metrics, name), Some(value), "{name}");
    }
}

/// Sends a command and returns its reply.
pub fn command(socket: &Path, method: &str, args: Value) -> Value {
    let mut socket = Zmq::unix(socket, Socket::Req);
    socket.send(&[b"", &request("7", method, args.into())]);
    let reply = socket.receive().concat();
    decode(&reply).expect("a packet").0.to_json()
}

/// Returns the number of these connections that the edge has.
fn there(commands: &Path, ids: &[impl AsRef<str>]) -> usize {
    let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    let reply = command(commands, "conncheck", json!({"ids": ids}));
    assert_eq!(reply["success"], true, "{reply}");
    reply["value"].as_array().expect("a list").len()
}

#[test]
fn commands_reach_connections_of_every_worker() {
    let (origin, folder) = (Origin::start(), Directory::new());
    let commands = folder.join("commands");
    let edge = start_with_commands(&origin, &commands);
    origin.on("over", |request| {
        let events = [("Content-Type", "application/websocket-events")];
        match &request.body[..] {
            b"OPEN\r\n" => ok(&events, "OPEN\r\n"),
            _ => ok(&events, "TEXT 3\r\nnew\r\n"),
        }
    });
    let mut sockets: Vec<_> = (0..CLIENTS_OF_BOTH)
        .map(|_| open(Client::open(edge.port, "localhost"), "/over"))
        .collect();
    let seen = origin.seen("over");
    let id = |request: &crate::origin::Request| request.header("connection-id").expect("an id");
    let ids: BTreeSet<String> = seen.iter().map(id).collect();
    assert_eq!(ids.len() as u64, CLIENTS_OF_BOTH);
    let asked: Vec<&String> = ids.iter().collect();
    assert_eq!(there(&commands, &asked), ids.len());
    for id in &ids {
        let reply = command(&commands, "refresh", json!({"cid": id}));
        assert_eq!(reply["success"], true, "{reply}");
    }
    for socket in &mut sockets {
        assert_eq!(socket.next_text(), "new");
    }
    // A worker that does not respond is no evidence that a connection is closed.
    let last = *edge.workers().last().expect("a worker");
    assert!(send_signal(last, Signal::Stop));
    let reply = command(&commands, "conncheck", json!({"ids": &ids}));
    assert!(send_signal(last, Signal::Continue));
    assert_eq!(reply["condition"], "proxy-request-failed", "{reply}");
    drop(sockets);
    wait_until("none of them is there", || {
        (there(&commands, &asked) == 0).then_some(())
    });
    for id in &ids {
        let reply = command(&commands, "refresh", json!({"cid": id}));
        assert_eq!(reply["condition"], "item-not-found", "{reply}");
    }
}

#[test]
fn sockets_that_their_origin_has_closed_are_not_there() {
    let (origin, folder) = (Origin::start(), Directory::new());
    let commands = folder.join("commands");
    let edge = start_with_commands(&origin, &commands);
    origin.on("over", |request| {
        let events = [("Content-Type", "application/websocket-events")];
        match &request.body[..] {
            b"OPEN\r\n" => ok(&events, "OPEN\r\n"),
            b"TEXT 5\r\nclose\r\n" => ok(&events, b"CLOSE 2\r\n\x03\xe8\r\n"),
            b"TEXT 10\r\ndisconnect\r\n" => ok(&events, "DISCONNECT\r\n"),
            _ => ok(&[("Content-Type", "text/plain")], "no events"),
        }
    });
    for said in ["close", "disconnect", "fail"] {
        let mut socket = open(Client::open(edge.port, "localhost"), "/over");
        let seen = origin.seen("over");
        let id = seen.last().and_then(|it| it.header("connection-id"));
        let id = id.expect("an id").to_owned();
        assert_eq!(there(&commands, &[&id]), 1);
        socket.text(said);
        // The close frame, then the end of the connection.
        while socket.next().is_some() {}
        drop(socket);
        wait_until("it is not there", || {
            (there(&commands, &[&id]) == 0).then_some(())
        });
        let reply = command(&commands, "refresh", json!({"cid": &id}));
        assert_eq!(reply["condition"], "item-not-found", "{reply}");
    }
}

/// Returns the id of the next client that is connected.
fn client_id(stats: &mut Zmq) -> String {
    loop {
        let (kind, fields) = packet(stats);
        if kind == "conn" && fields["unavailable"] != true {
            return fields["id"].as_str().expect("a text").to_owned();
        }
    }
}

#[test]
fn a_new_worker_with_the_stats_socket_hears_of_the_clients_of_others() {
    let (origin, folder) = (Origin::start(), Directory::new());
    let socket = folder.join("stats");
    let edge = start(
        &origin,
        &[
            format!("--zmq-stats=ipc://{}", socket.display()),
            "--stats-format=json".to_owned(),
            "--stats-connection-ttl-ms=1000".to_owned(),
        ],
    );
    let mut stats = Zmq::unix(&socket, Socket::Sub);
    stats.subscribe(b"conn");
    let _clients = edge.clients(CLIENTS_OF_BOTH);
    let mut others = BTreeSet::new();
    let mut all = BTreeSet::new();
    while (all.len() as u64) < CLIENTS_OF_BOTH {
        let id = client_id(&mut stats);
        if id.starts_with("1:") {
            others.insert(id.clone());
        }
        all.insert(id);
    }
    assert!(!others.is_empty() && others.len() < all.len(), "{all:?}");
    // Worker 0 is the oldest process.
    assert!(send_signal(edge.workers()[0], Signal::Kill));
    let mut stats = Zmq::unix(&socket, Socket::Sub);
    stats.subscribe(b"conn");
    while !others.is_empty() {
        let id = client_id(&mut stats);
        assert!(id.starts_with("1:"), "{id}");
        others.remove(&id);
    }
}
