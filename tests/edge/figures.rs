//! Figures of several workers by Pushpin's names, as Prometheus reads them.

use std::process::{Child, Command, Stdio};

use fermata_testkit::{command_path, free_port, wait_until};

use crate::client::Client;
use crate::origin::{Origin, ok};

/// Clients held at once, more than one for each worker.
const CLIENTS: u64 = 6;

struct Edge(Child);

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// The value of a figure, by its whole name.
fn figure(port: u16, name: &str) -> Option<u64> {
    let answer = Client::open(port, "localhost").get("/metrics");
    let mut lines = answer.text().lines();
    lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn prometheus_reads_the_names_of_pushpin() {
    let origin = Origin::start();
    origin.on("figures", |_| {
        ok(
            &[("Grip-Hold", "stream"), ("Grip-Channel", "c")],
            "opened\n",
        )
    });
    let ports = [free_port(), free_port(), free_port()];
    let [port, control, metrics] = ports;
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "2"]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--control", &format!("127.0.0.1:{control}")]);
    command.args(["--prometheus", &format!("127.0.0.1:{metrics}")]);
    command.args(["--prometheus-prefix", "pushpin_"]);
    command.args(["--route", &format!("* 127.0.0.1:{}", origin.port())]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _edge = Edge(child.expect("our own program"));
    wait_until("it listens", || {
        let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        ports.into_iter().all(is_listening).then_some(())
    });

    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::open(port, "localhost");
            client.send("GET", "/figures", &[], b"");
            assert_eq!(client.read_head().status, 200);
            client.read_until("opened\n");
            client
        })
        .collect();
    let body = r#"{"items":[{"channel":"c","http-stream":{"content":"one"}}]}"#;
    let json = [("Content-Type", "application/json")];
    let published =
        Client::open(control, "localhost").request("POST", "/publish/", &json, body.as_bytes());
    assert_eq!(published.status, 200);
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
