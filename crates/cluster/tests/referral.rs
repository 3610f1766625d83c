//! Servers that refer to another server. Sentinels refer to the master, and servers of a Redis Cluster refer to the server with the
//! log. All servers are fakes.

#![allow(clippy::unwrap_used)]

mod options;

use std::collections::HashMap;

use fermata_cluster::{Bridge, Event};
use options::options;

/// Replies of a fake server, by the prefix of the command.
#[derive(Default)]
struct Server {
    is_gone: bool,
    says: HashMap<&'static str, String>,
}

impl Server {
    fn says(mut self, command: &'static str, answer: &str) -> Server {
        self.says.insert(command, format!("{answer}\r\n"));
        self
    }
}

/// A Sentinel that names a master.
fn sentinel(host: &str) -> Server {
    let greeting = "*2\r\n+mode\r\n+sentinel";
    let answer = format!("*2\r\n+{host}\r\n+6379");
    Server::default()
        .says("HELLO", greeting)
        .says("SENTINEL", &answer)
}

fn redis(role: &str) -> Server {
    let greeting = format!("*4\r\n+mode\r\n+standalone\r\n+role\r\n+{role}");
    Server::default()
        .says("HELLO", &greeting)
        .says("SELECT", "+OK")
        .says("SCRIPT", "+s")
        .says("SUBSCRIBE", ">3\r\n+subscribe\r\n+x\r\n:1")
        .says("EVALSHA", "*5\r\n+7\r\n+0\r\n+0\r\n:0\r\n+")
}

/// Returns a server of a Redis Cluster that names another server.
fn elsewhere(place: &str) -> Server {
    let greeting = "*4\r\n+mode\r\n+cluster\r\n+role\r\n+replica";
    redis("")
        .says("HELLO", greeting)
        .says("EVALSHA", &format!("-MOVED 12 {place}"))
}

struct Run {
    bridge: Bridge,
    servers: HashMap<&'static str, Server>,
    now_ms: u64,
    at: Option<String>,
    /// Servers that the bridge has connected to, with the credentials sent, and causes of outages.
    connects: Vec<String>,
    said: Vec<String>,
}

impl Run {
    fn new(servers: &str, all: impl IntoIterator<Item = (&'static str, Server)>) -> Run {
        Run {
            bridge: Bridge::new(options(servers), None, None, 0),
            servers: all.into_iter().collect(),
            now_ms: 0,
            at: None,
            connects: Vec::new(),
            said: Vec::new(),
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(server) => {
                    let host = server.host.clone();
                    self.connects.push(host.clone());
                    if self.servers.get(&host[..]).is_some_and(|it| !it.is_gone) {
                        self.bridge.handle_connected(self.now_ms)
                    } else {
                        self.bridge.handle_closed("refused", self.now_ms)
                    }
                    self.at = Some(host);
                }
                Event::Disconnect => self.at = None,
                Event::Away(cause) => self.said.push(cause),
                _ => {}
            }
        }
    }

    fn turn(&mut self) {
        self.now_ms += 10;
        if self.bridge.due_ms() <= self.now_ms {
            self.bridge.handle_time(self.now_ms);
        }
        self.take_events();
        let sent = std::mem::take(self.bridge.transmit());
        let sent = String::from_utf8(sent).unwrap();
        if self.is_opened() {
            return;
        }
        let Some(server) = self.at.as_ref().and_then(|at| self.servers.get(&at[..])) else {
            return;
        };
        let mut answers = String::new();
        let commands = sent
            .split("\r\n")
            .filter(|line| server.says.contains_key(line));
        for command in commands {
            answers += &server.says[command];
        }
        self.bridge.handle_input(answers.as_bytes(), self.now_ms);
        self.take_events();
    }

    /// Returns true if the log is ready.
    fn is_opened(&self) -> bool {
        self.bridge.can_ask_past()
    }

    /// Runs until the log is ready, or for this time.
    fn pass(&mut self, ms: u64) -> u64 {
        let (began_ms, end_ms) = (self.now_ms, self.now_ms + ms);
        while !self.is_opened() && self.now_ms < end_ms {
            self.turn();
        }
        self.now_ms - began_ms
    }
}

#[test]
fn connects_to_the_named_master_immediately() {
    let mut run = Run::new(
        "redis+sentinel://a/main/2",
        [("a", sentinel("m")), ("m", redis("master"))],
    );
    assert!(run.pass(10_000) <= 100);
    assert_eq!(run.connects, ["a", "m"]);
    assert!(run.is_opened() && run.said.is_empty());
}

/// A Sentinel that does not respond costs one timeout.
#[test]
fn asks_the_next_sentinel_when_one_fails() {
    let gone = Server {
        is_gone: true,
        ..Server::default()
    };
    let unknowing = sentinel("").says("SENTINEL", "*-1");
    let mut run = Run::new(
        "redis+sentinel://gone,silent,none,stale,lost,good/main",
        [
            ("gone", gone),
            ("silent", Server::default()),
            ("none", unknowing),
            ("stale", sentinel("old")),
            ("lost", sentinel("nowhere")),
            ("good", sentinel("m")),
            ("old", redis("replica")),
            ("m", redis("master")),
        ],
    );
    let took_ms = run.pass(60_000);
    let expected = [
        "gone", "silent", "none", "stale", "old", "lost", "nowhere", "good", "m",
    ];
    assert_eq!(run.connects, expected);
    assert!(took_ms < 12_000, "{took_ms} ms");
    let causes = [
        "gone:26379: refused",
        "silent:26379: no answer in time",
        "none:26379: the Sentinel has no master main",
        "old:6379, named by stale:26379: the server is a replica",
        "nowhere:6379, named by lost:26379: refused",
    ];
    assert_eq!(run.said.len(), causes.len(), "{:?}", run.said);
    for (said, cause) in run.said.iter().zip(causes) {
        assert!(said.starts_with(cause), "{said}");
    }
}

#[test]
fn asks_for_the_master_again_after_a_loss() {
    let mut run = Run::new(
        "redis+sentinel://a,b/main",
        [
            ("a", sentinel("old")),
            ("b", sentinel("new")),
            ("old", redis("master")),
            ("new", redis("master")),
        ],
    );
    run.pass(1_000);
    run.bridge.handle_closed("closed", run.now_ms);
    assert!(run.pass(10_000) <= 300);
    assert_eq!(run.connects, ["a", "old", "b", "new"]);
    assert_eq!(run.said, ["old:6379, named by a:26379: closed"]);
}

#[test]
fn follows_referrals_but_no_circle() {
    let mut run = Run::new(
        "redis://a:1",
        [
            ("a", elsewhere("b:2")),
            ("b", elsewhere("c:3")),
            ("c", redis("master")),
        ],
    );
    assert!(run.pass(10_000) <= 100);
    assert_eq!(run.connects, ["a", "b", "c"]);
    assert!(run.said.is_empty(), "{:?}", run.said);
    let mut run = Run::new(
        "redis://a:1",
        [("a", elsewhere("b:2")), ("b", elsewhere("a:1"))],
    );
    run.pass(10_000);
    // Five connections per attempt; the delay between attempts grows.
    assert!((10..50).contains(&run.connects.len()), "{:?}", run.connects);
    assert!(run.said[0].contains("name one another"), "{:?}", run.said);
    // A server responds with MOVED without a host.
    let mut run = Run::new(
        "redis://a:1,b:1",
        [("a", elsewhere("?:2")), ("b", redis("master"))],
    );
    run.pass(10_000);
    assert_eq!(run.connects, ["a", "b"]);
    assert!(run.said[0].contains("names no address"), "{:?}", run.said);
}
