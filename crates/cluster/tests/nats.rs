//! Bridges and a real nats-server: the log is killed and comes back, and nothing is lost, doubled or out of order.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fermata_cluster::{Address, Bridge, Event, Options, Outgoing, Place};
use fermata_testkit::{Nats, free_port, wait_until};

/// A bridge with its socket, whose outbox is a list.
struct Node {
    bridge: Bridge,
    began: Instant,
    port: u16,
    stream: Option<TcpStream>,
    outbox: Vec<String>,
    /// How many records were handed over, and how many are not needed any more.
    handed: usize,
    released: usize,
    accepted: HashMap<u64, Place>,
    rejected: Vec<u64>,
    told: Vec<(Place, String)>,
    gaps: Vec<Place>,
    is_ready: bool,
}

impl Node {
    fn new(name: &str, port: u16) -> Node {
        Node::behind(name, port, None)
    }

    /// One that has read everything up to `reached`.
    fn behind(name: &str, port: u16, reached: Option<Place>) -> Node {
        let options = Options {
            servers: Address::list(&format!("nats://127.0.0.1:{port}")).unwrap(),
            prefix: "test".to_owned(),
            inbox: format!("_INBOX.{name}"),
            outbox: name.to_owned(),
            age_ms_max: 600_000,
            bytes_max: 64 << 20,
            replicas: 1,
            past_max: 10_000,
        };
        Node {
            bridge: Bridge::new(options, reached, None, 0),
            began: Instant::now(),
            port,
            stream: None,
            outbox: Vec::new(),
            handed: 0,
            released: 0,
            accepted: HashMap::new(),
            rejected: Vec::new(),
            told: Vec::new(),
            gaps: Vec::new(),
            is_ready: false,
        }
    }

    fn publish(&mut self, data: &str) {
        self.outbox.push(data.to_owned());
    }

    fn turn(&mut self) {
        let now_ms = self.began.elapsed().as_millis() as u64;
        if self.bridge.due_ms() <= now_ms {
            self.bridge.handle_time(now_ms);
        }
        self.take_events(now_ms);
        while self.bridge.can_send() && self.handed < self.outbox.len() {
            self.handed += 1;
            let record = Outgoing {
                outbox: self.handed as u64,
                channel: "räume > 1.*".as_bytes(),
                name: Some(b" a name "),
                data: self.outbox[self.handed - 1].as_bytes(),
                except: Some((1, u64::MAX)),
            };
            self.bridge.send(&record, now_ms);
        }
        self.take_events(now_ms);
        let Some(stream) = &mut self.stream else {
            std::thread::sleep(Duration::from_millis(1));
            return;
        };
        let out = self.bridge.transmit();
        let written = stream.write_all(out);
        out.clear();
        let mut buffer = [0; 65536];
        match written.and_then(|()| stream.read(&mut buffer)) {
            Ok(0) => self.lose(now_ms),
            Ok(len) => self.bridge.handle_input(&buffer[..len], now_ms),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.lose(now_ms),
        }
        self.take_events(now_ms);
    }

    fn lose(&mut self, now_ms: u64) {
        self.stream = None;
        self.bridge.handle_closed("closed", now_ms);
    }

    fn take_events(&mut self, now_ms: u64) {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(_) => match TcpStream::connect(("127.0.0.1", self.port)) {
                    Ok(stream) => {
                        let timeout = Some(Duration::from_millis(1));
                        stream.set_read_timeout(timeout).unwrap();
                        self.stream = Some(stream);
                        self.bridge.handle_connected(now_ms);
                    }
                    Err(_) => self.bridge.handle_closed("refused", now_ms),
                },
                Event::Disconnect => self.stream = None,
                Event::Begin(place) => self.gaps.push(place),
                Event::Record(record) => {
                    assert_eq!(record.channel, "räume > 1.*".as_bytes());
                    assert_eq!(record.name.as_deref(), Some(&b" a name "[..]));
                    assert_eq!(record.except, Some((1, u64::MAX)));
                    assert!(record.unix_ms > 1_600_000_000_000);
                    self.told
                        .push((record.place, String::from_utf8(record.data).unwrap()));
                }
                Event::Accepted { outbox, place } => {
                    self.accepted.insert(outbox, place);
                }
                Event::Rejected(rejected) => self.rejected.push(rejected.outbox),
                Event::Released(outbox) => self.released = outbox as usize,
                Event::Rewind => self.handed = self.released,
                Event::Ready => self.is_ready = true,
                Event::Away(cause) => {
                    println!("away: {cause}");
                    self.is_ready = false;
                }
                Event::Notice(text) => println!("{text}"),
            }
        }
    }
}

/// Lets all of them go on until a condition holds.
fn run(what: &str, nodes: &mut [&mut Node], mut condition: impl FnMut(&[&mut Node]) -> bool) {
    wait_until(what, || {
        for _ in 0..20 {
            for node in nodes.iter_mut() {
                node.turn();
            }
        }
        condition(nodes).then_some(())
    });
}

#[test]
fn all_nodes_have_one_order_though_the_log_is_killed() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (mut a, mut b) = (Node::new("a", nats.port()), Node::new("b", nats.port()));
    run("both are ready", &mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.is_ready)
    });
    for number in 0..200 {
        a.publish(&format!("a{number}"));
        b.publish(&format!("b{number}"));
    }
    // In the middle of it.
    run("some are told", &mut [&mut a, &mut b], |nodes| {
        nodes[0].told.len() > 20
    });
    nats.kill();
    run("it is noticed", &mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| !node.is_ready)
    });
    for number in 200..300 {
        a.publish(&format!("a{number}"));
    }
    nats.restart();
    run("all are told", &mut [&mut a, &mut b], |nodes| {
        nodes
            .iter()
            .all(|node| node.told.len() == 500 && node.accepted.len() == node.outbox.len())
    });
    assert_eq!(a.told, b.told);
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
    for (name, node) in [("a", &a), ("b", &b)] {
        let own: Vec<&str> = node
            .told
            .iter()
            .filter(|it| it.1.starts_with(name))
            .map(|it| &it.1[..])
            .collect();
        let expected: Vec<&str> = node.outbox.iter().map(|it| &it[..]).collect();
        assert_eq!(own, expected, "each once and in its order");
        for (at, place) in &node.accepted {
            let data = &node.outbox[*at as usize - 1];
            assert!(node.told.contains(&(*place, data.clone())));
        }
    }
    // One that comes later has the past, under the same places.
    let mut late = Node::new("late", nats.port());
    run("the third has the past", &mut [&mut late], |nodes| {
        nodes[0].is_ready && nodes[0].told.len() == 500
    });
    assert_eq!(late.told, a.told);
}

/// Asks JetStream for something over a connection of its own.
fn ask(port: u16, subject: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let text = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {}\r\n{body}\r\n",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    lines
        .by_ref()
        .find(|line| line.as_ref().unwrap().starts_with("MSG answer"));
    lines.next().unwrap().unwrap()
}

#[test]
fn a_log_whose_newest_messages_are_deleted_is_ready() {
    let Some(nats) = Nats::start() else { return };
    let mut first = Node::new("a", nats.port());
    for data in ["1", "2", "3"] {
        first.publish(data);
    }
    run("all are in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 3
    });
    let answer = ask(
        nats.port(),
        "$JS.API.STREAM.MSG.DELETE.FERMATA_test",
        "{\"seq\":3}",
    );
    assert!(answer.contains("\"success\":true"), "{answer}");
    // With something left to give, and without.
    let mut late = Node::new("b", nats.port());
    run("it is ready", &mut [&mut late], |nodes| nodes[0].is_ready);
    assert_eq!(late.told, first.told[..2]);
    let mut again = Node::behind("c", nats.port(), Some(late.told[1].0));
    run("it is ready", &mut [&mut again], |nodes| nodes[0].is_ready);
    assert_eq!((again.told.len(), again.gaps.len()), (0, 0));
}

#[test]
fn a_log_that_has_lost_its_end_gets_another_epoch_on_all_nodes() {
    let Some(nats) = Nats::start() else { return };
    let mut first = Node::new("a", nats.port());
    first.publish("1");
    run("it is in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 1
    });
    let epoch = first.told[0].0.epoch;
    // As if 2 to 9 had been read before they were lost.
    let lost = Place { epoch, seq: 9 };
    let mut second = Node::behind("b", nats.port(), Some(lost));
    run("both are ready", &mut [&mut first, &mut second], |nodes| {
        nodes.iter().all(|node| {
            let gap = node.gaps.last();
            node.is_ready && gap.is_some_and(|gap| gap.epoch != epoch)
        })
    });
    assert_eq!(first.gaps.last(), second.gaps.last());
    second.publish("2");
    let mut late = Node::new("c", nats.port());
    let all = &mut [&mut first, &mut second, &mut late];
    run("the new one is told", all, |nodes| {
        nodes
            .iter()
            .all(|node| node.told.last().is_some_and(|it| it.1 == "2"))
    });
    assert_eq!(first.told.last(), second.told.last());
    assert_eq!(first.told.last(), late.told.last());
    assert_ne!(first.told.last().map(|it| it.0.epoch), Some(epoch));
}

#[test]
fn what_is_too_large_is_refused_and_holds_up_nothing() {
    let Some(nats) = Nats::start() else { return };
    let mut node = Node::new("a", nats.port());
    node.publish("before");
    node.publish(&"x".repeat(2 << 20));
    node.publish("after");
    run("all have an answer", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 2 && nodes[0].released == 3
    });
    assert_eq!(node.rejected, [2]);
}

#[test]
fn a_server_without_jetstream_is_named() {
    if !Nats::is_there() {
        return;
    }
    let port = free_port();
    let mut child = Command::new("nats-server")
        .args(["-a", "127.0.0.1", "-p", &port.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let mut bridge = Node::new("a", port);
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
                    // As long as it does not listen nothing else is to be learned.
                    Err(_) => {
                        std::thread::sleep(Duration::from_millis(5));
                        bridge = Node::new("a", port);
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
