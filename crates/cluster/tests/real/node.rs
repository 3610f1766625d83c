//! A bridge with a socket, and a list as its outbox.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fermata_cluster::{Address, Bridge, Content, Event, Options, Outgoing, PastEntry, Place};
use fermata_testkit::wait_until;

/// A bridge with a socket, and a list as its outbox.
pub struct Node {
    pub bridge: Bridge,
    pub began: Instant,
    pub stream: Option<TcpStream>,
    pub outbox: Vec<String>,
    /// Number of records that were sent, and that are released.
    handed: usize,
    pub released: usize,
    pub accepted: HashMap<u64, Place>,
    pub rejected: Vec<u64>,
    pub told: Vec<(Place, String)>,
    pub gaps: Vec<Place>,
    /// Number of records received before the last gap.
    before_gap: usize,
    pub is_ready: bool,
    /// Result of the request for older messages.
    pub past: Option<Vec<PastEntry>>,
    pub causes: Vec<String>,
}

impl Node {
    pub fn new(name: &str, log: &str) -> Node {
        Node::behind(name, log, None)
    }

    /// A node that has read everything up to `reached`.
    pub fn behind(name: &str, log: &str, reached: Option<Place>) -> Node {
        Node::with(name, log, reached, 1)
    }

    /// Creates a node that creates its log with three copies.
    pub fn on_three(name: &str, log: &str) -> Node {
        Node::with(name, log, None, 3)
    }

    fn with(name: &str, log: &str, reached: Option<Place>, replicas: u16) -> Node {
        let options = Options {
            servers: Address::list(log).unwrap(),
            prefix: "test".to_owned(),
            inbox: format!("_INBOX.{name}"),
            outbox: name.to_owned(),
            zero_unix_ms: UNIX_EPOCH.elapsed().unwrap().as_millis() as u64,
            age_ms_max: 600_000,
            bytes_max: 64 << 20,
            replicas,
            events_max: 100_000,
            past_max: 10_000,
            application: None,
        };
        Node {
            bridge: Bridge::new(options, reached, None, 0),
            began: Instant::now(),
            stream: None,
            outbox: Vec::new(),
            handed: 0,
            released: 0,
            accepted: HashMap::new(),
            rejected: Vec::new(),
            told: Vec::new(),
            gaps: Vec::new(),
            before_gap: 0,
            is_ready: false,
            past: None,
            causes: Vec::new(),
        }
    }

    /// State for the message of a failed test, with the first record of node `of` that is missing.
    pub fn state(&self, of: usize) -> String {
        let mut next = 0;
        let prefix = format!("{of} ");
        for (_, data) in &self.told {
            next += usize::from(data.strip_prefix(&prefix) == Some(&next.to_string()));
        }
        format!(
            "ready {}, published {}, handed over {}, accepted {}, rejected {}, told {}, gaps {:?}; next {of} {next}; {:?}\n",
            self.is_ready,
            self.outbox.len(),
            self.handed,
            self.accepted.len(),
            self.rejected.len(),
            self.told.len(),
            self.gaps,
            self.causes.last(),
        )
    }

    /// Records around the first difference to another node.
    pub fn difference(&self, other: &Node) -> String {
        let mut both = self.told.iter().zip(&other.told);
        let Some(at) = both.position(|(own, other)| own != other) else {
            return String::new();
        };
        let around = |node: &Node| {
            let told = &node.told[at.saturating_sub(2)..];
            let texts = told.iter().take(5);
            let texts = texts.map(|(place, data)| format!("{}: {data}, ", place.seq));
            texts.collect::<String>()
        };
        format!("    {}\n    {}\n", around(self), around(other))
    }

    /// Returns the records after the last gap.
    pub fn whole(&self) -> &[(Place, String)] {
        &self.told[self.before_gap..]
    }

    pub fn publish(&mut self, data: &str) {
        self.outbox.push(data.to_owned());
    }

    /// Sends and reads once, without waiting.
    pub fn turn(&mut self) {
        let now_ms = self.began.elapsed().as_millis() as u64;
        if self.bridge.due_ms() <= now_ms {
            self.bridge.handle_time(now_ms);
        }
        self.take_events(now_ms);
        while self.bridge.can_send() && self.handed < self.outbox.len() {
            self.handed += 1;
            let record = Outgoing {
                outbox: self.handed as u64,
                content: Content::Event,
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
                Event::Connect(server) => {
                    match TcpStream::connect((&server.host[..], server.port)) {
                        Ok(stream) => {
                            let timeout = Some(Duration::from_millis(1));
                            stream.set_read_timeout(timeout).unwrap();
                            self.stream = Some(stream);
                            self.bridge.handle_connected(now_ms);
                        }
                        Err(_) => self.bridge.handle_closed("refused", now_ms),
                    }
                }
                Event::Disconnect => self.stream = None,
                Event::Secure => panic!("no address here has TLS"),
                Event::Begin(place) => {
                    self.gaps.push(place);
                    self.before_gap = self.told.len();
                }
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
                Event::Past { entries, .. } => self.past = Some(entries),
                Event::PastLost(id) => println!("asked in vain: {id}"),
                Event::Ready => self.is_ready = true,
                Event::Away(cause) => {
                    println!("away: {cause}");
                    self.causes.push(cause);
                    self.is_ready = false;
                }
                Event::LogEnd { .. } | Event::Passed(_) => {}
                Event::Notice(text) | Event::Intruder(text) => println!("{text}"),
            }
        }
    }
}

/// Runs all nodes until `condition` is true.
pub fn run(what: &str, nodes: &mut [&mut Node], mut condition: impl FnMut(&[&mut Node]) -> bool) {
    wait_until(what, || {
        for _ in 0..20 {
            for node in nodes.iter_mut() {
                node.turn();
            }
        }
        condition(nodes).then_some(())
    });
}
