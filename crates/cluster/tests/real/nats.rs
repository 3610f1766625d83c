//! Tests for NATS only.

use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fermata_cluster::Event;
use fermata_testkit::{Nats, ask_nats, free_port, wait_until};

use crate::node::{Node, run};

fn url(nats: &Nats) -> String {
    format!("nats://127.0.0.1:{}", nats.port())
}

#[test]
fn log_without_its_newest_messages_is_ready() {
    let Some(nats) = Nats::start() else { return };
    let mut first = Node::new("a", &url(&nats));
    for data in ["1", "2", "3"] {
        first.publish(data);
    }
    run("all are in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 3
    });
    let answer = ask_nats(
        nats.port(),
        "$JS.API.STREAM.MSG.DELETE.FERMATA_test",
        "{\"seq\":3}",
    );
    assert!(answer.contains("\"success\":true"), "{answer}");
    // Test with and without messages left to deliver.
    let mut late = Node::new("b", &url(&nats));
    run("it is ready", &mut [&mut late], |nodes| nodes[0].is_ready);
    assert_eq!(late.told, first.told[..2]);
    let mut again = Node::behind("c", &url(&nats), Some(late.told[1].0));
    run("it is ready", &mut [&mut again], |nodes| nodes[0].is_ready);
    assert_eq!((again.told.len(), again.gaps.len()), (0, 0));
}

#[test]
fn rejects_too_large_records_without_delay_for_others() {
    let Some(nats) = Nats::start() else { return };
    let mut node = Node::new("a", &url(&nats));
    node.publish("before");
    node.publish(&"x".repeat(2 << 20));
    node.publish("after");
    run("all have an answer", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 2 && nodes[0].released == 3
    });
    assert_eq!(node.rejected, [2]);
}

#[test]
fn full_stream_is_read_and_away_until_it_has_room() {
    let Some(nats) = Nats::start() else { return };
    let stream = "{\"name\":\"FERMATA_test\",\"subjects\":[\"test.>\"],\"retention\":\"limits\",\"storage\":\"file\",\
                  \"discard\":\"new\",\"max_msgs\":10,\"num_replicas\":1,\"duplicate_window\":120000000000}";
    let answer = ask_nats(nats.port(), "$JS.API.STREAM.CREATE.FERMATA_test", stream);
    assert!(!answer.contains("\"error\""), "{answer}");
    let mut node = Node::new("a", &url(&nats));
    for number in 0..16 {
        node.publish(&number.to_string());
    }
    let began = Instant::now();
    run("some time passes", &mut [&mut node], |_| {
        began.elapsed() > Duration::from_secs(3)
    });
    assert_eq!((node.told.len(), node.accepted.len()), (10, 10));
    assert!(!node.is_ready);
    let causes: Vec<&String> = node
        .causes
        .iter()
        .filter(|cause| cause.contains("maximum messages exceeded"))
        .collect();
    assert_eq!(causes.len(), 1, "{:?}", node.causes);
    // A new node can still read.
    let mut late = Node::new("b", &url(&nats));
    run("it has the past", &mut [&mut late], |nodes| {
        nodes[0].told.len() == 10
    });
    // Make room for the other records and for a probe.
    for seq in 1..9 {
        let subject = "$JS.API.STREAM.MSG.DELETE.FERMATA_test";
        let answer = ask_nats(nats.port(), subject, &format!("{{\"seq\":{seq}}}"));
        assert!(answer.contains("\"success\":true"), "{answer}");
    }
    run("all are told", &mut [&mut node, &mut late], |nodes| {
        nodes
            .iter()
            .all(|node| node.is_ready && node.told.len() == 16)
    });
    let told: Vec<&String> = node.told.iter().map(|it| &it.1).collect();
    assert_eq!(told, node.outbox.iter().collect::<Vec<_>>());
    assert_eq!((node.accepted.len(), node.gaps.len()), (16, 1));
}

#[test]
fn reports_a_server_without_jetstream() {
    if !Nats::is_there() {
        return;
    }
    let port = free_port();
    let mut child = Command::new("nats-server")
        .args(["-a", "127.0.0.1", "-p", &port.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let mut bridge = Node::new("a", &format!("nats://127.0.0.1:{port}"));
    let mut cause = None;
    let mut is_seen = false;
    wait_until("it says why", || {
        let now_ms = bridge.began.elapsed().as_millis() as u64;
        bridge.bridge.handle_time(now_ms);
        let mut buffer = [0; 65536];
        if let Some(stream) = &mut bridge.stream
            && let Ok(len) = stream.read(&mut buffer)
        {
            bridge.bridge.handle_input(&buffer[..len], now_ms);
        }
        while let Some(event) = bridge.bridge.poll_event() {
            match event {
                Event::Connect(_) => match TcpStream::connect(("127.0.0.1", port)) {
                    Ok(stream) => {
                        stream
                            .set_read_timeout(Some(Duration::from_millis(5)))
                            .unwrap();
                        bridge.stream = Some(stream);
                        is_seen = true;
                        bridge.bridge.handle_connected(now_ms);
                    }
                    // Until the server listens, connections fail.
                    Err(_) => {
                        std::thread::sleep(Duration::from_millis(5));
                        bridge = Node::new("a", &format!("nats://127.0.0.1:{port}"));
                    }
                },
                Event::Away(text) if is_seen => cause = Some(text),
                _ => {}
            }
        }
        cause.take()
    })
    .contains("no JetStream")
    .then_some(())
    .expect("the cause names JetStream");
    let _ = child.kill();
    let _ = child.wait();
}
