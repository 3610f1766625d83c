//! Events and requests of a bridge whose log refuses writes but answers reads, or responds late. The logs are fakes.

#![allow(clippy::unwrap_used)]

mod options;

use std::collections::VecDeque;

use fermata_cluster::{Bridge, Content, Event, Login, Outgoing};
use options::options;

fn bridge(servers: &str) -> Bridge {
    Bridge::new(options(servers), None, None, 0)
}

/// A bridge and its outbox, without sockets.
struct Run {
    bridge: Bridge,
    now_ms: u64,
    log: Box<dyn Log>,
    input: Vec<u8>,
    /// Number of records, and number of the first record that is not released.
    outbox: u64,
    handed: u64,
    released: u64,
    accepted: Vec<u64>,
    connects: usize,
    disconnects: usize,
    /// `ready` and causes of outages, in order.
    said: Vec<String>,
}

/// A fake log, which responds to complete requests.
trait Log {
    fn open(&mut self) -> Vec<u8>;
    fn take(&mut self, input: &mut Vec<u8>) -> Vec<u8>;
    fn refuse(&mut self, words: Option<&str>);
    /// Returns the stored records, in order.
    fn has(&self) -> Vec<u64>;
}

impl Run {
    fn new(servers: &str, log: Box<dyn Log>) -> Run {
        Run {
            bridge: bridge(servers),
            now_ms: 0,
            log,
            input: Vec::new(),
            outbox: 0,
            handed: 0,
            released: 0,
            accepted: Vec::new(),
            connects: 0,
            disconnects: 0,
            said: Vec::new(),
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(_) => {
                    self.connects += 1;
                    self.input.clear();
                    self.bridge.handle_connected(self.now_ms);
                    let hello = self.log.open();
                    self.bridge.handle_input(&hello, self.now_ms);
                }
                Event::Disconnect => self.disconnects += 1,
                Event::Accepted { outbox, .. } => self.accepted.push(outbox),
                Event::Released(outbox) => self.released = outbox,
                Event::Rewind => self.handed = self.released,
                Event::Ready => self.said.push("ready".to_owned()),
                Event::Away(cause) => self.said.push(cause),
                Event::Rejected(rejected) => panic!("{rejected:?}"),
                Event::Secure
                | Event::LogEnd { .. }
                | Event::Passed(_)
                | Event::Begin(_)
                | Event::Record(_)
                | Event::Past { .. }
                | Event::PastLost(_)
                | Event::Intruder(_)
                | Event::Notice(_) => {}
            }
        }
    }

    fn turn(&mut self) {
        self.now_ms += 10;
        if self.bridge.due_ms() <= self.now_ms {
            self.bridge.handle_time(self.now_ms);
        }
        self.take_events();
        while self.bridge.can_send() && self.handed < self.outbox {
            self.handed += 1;
            let record = Outgoing {
                outbox: self.handed,
                content: Content::Event,
                channel: b"c",
                name: None,
                data: b"data",
                except: None,
            };
            self.bridge.send(&record, self.now_ms);
        }
        self.take_events();
        self.input.append(self.bridge.transmit());
        let answer = self.log.take(&mut self.input);
        if !answer.is_empty() {
            self.bridge.handle_input(&answer, self.now_ms);
        }
        self.take_events();
    }

    fn pass(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.turn();
        }
    }
}

#[derive(Default)]
struct Redis {
    refusal: Option<String>,
    sent: Vec<u64>,
    asked_to_write: usize,
}

/// Parses the first command. Returns its arguments and its length.
fn command(input: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let line = |at: usize| {
        let len = input.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let text = std::str::from_utf8(&input[at + 1..at + len]).unwrap();
        Some((text.parse::<usize>().unwrap(), at + len + 2))
    };
    let (count, mut at) = line(0)?;
    let mut arguments = Vec::new();
    for _ in 0..count {
        let (len, begin) = line(at)?;
        arguments.push(input.get(begin..begin + len)?.to_vec());
        at = begin + len + 2;
    }
    (input.len() >= at).then_some((arguments, at))
}

impl Log for Redis {
    fn open(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn take(&mut self, input: &mut Vec<u8>) -> Vec<u8> {
        let mut out = String::new();
        while let Some((arguments, len)) = command(input) {
            input.drain(..len);
            let text = |at: usize| std::str::from_utf8(&arguments[at]).unwrap();
            let last = self.sent.len();
            match text(0) {
                "HELLO" => out += "*0\r\n",
                // The script is recognized by a command in it.
                "SCRIPT" if text(2).contains("XREVRANGE") => out += "+open\r\n",
                "SCRIPT" if text(2).contains("XADD") => out += "+append\r\n",
                "SCRIPT" => out += "+read\r\n",
                "SUBSCRIBE" => out += ">3\r\n+subscribe\r\n+x\r\n:1\r\n",
                "EVALSHA" if text(1) == "open" => {
                    out += &format!("*5\r\n+7\r\n+{last}\r\n+0\r\n:0\r\n+\r\n");
                }
                "EVALSHA" if text(1) == "read" => out += &format!("*2\r\n+{last}\r\n*0\r\n"),
                "EVALSHA" => {
                    self.asked_to_write += 1;
                    if let Some(refusal) = &self.refusal {
                        out += &format!("-{refusal}\r\n");
                        continue;
                    }
                    let records = arguments[13..].chunks_exact(5);
                    out += &format!("*2\r\n+1\r\n*{}\r\n", records.len());
                    for record in records {
                        let number = std::str::from_utf8(&record[0]).unwrap().parse().unwrap();
                        let at = self.sent.iter().position(|it| *it == number);
                        let at = at.unwrap_or_else(|| {
                            self.sent.push(number);
                            self.sent.len() - 1
                        });
                        out += &format!("+{}\r\n", at + 1);
                    }
                }
                other => panic!("{other}"),
            }
        }
        out.into_bytes()
    }

    fn refuse(&mut self, words: Option<&str>) {
        self.refusal = words.map(str::to_owned);
    }

    fn has(&self) -> Vec<u64> {
        self.sent.clone()
    }
}

#[derive(Default)]
struct Nats {
    refusal: Option<String>,
    sent: Vec<u64>,
    probes: Vec<String>,
    /// For each of the next requests, true if it is answered immediately. A late response is sent together with the next one.
    answers: VecDeque<bool>,
    late: String,
}

impl Nats {
    fn answer(&mut self, to: &str, text: &str) -> String {
        self.late += &message(to, text);
        match self.answers.pop_front() {
            Some(false) => String::new(),
            _ => std::mem::take(&mut self.late),
        }
    }
}

const INFO: &str = "INFO {\"headers\":true,\"jetstream\":true,\"max_payload\":4096}\r\n";

fn message(to: &str, text: &str) -> String {
    format!("MSG {to} 1 {}\r\n{text}\r\n", text.len())
}

impl Log for Nats {
    fn open(&mut self) -> Vec<u8> {
        INFO.as_bytes().to_vec()
    }

    fn take(&mut self, input: &mut Vec<u8>) -> Vec<u8> {
        let mut out = String::new();
        let text = String::from_utf8(std::mem::take(input)).unwrap();
        let mut lines = text.split("\r\n");
        let mut deliver_to = String::new();
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "PING" => {
                    // Send a heartbeat of the consumer, too.
                    let head = "NATS/1.0 100 Idle Heartbeat\r\n\r\n";
                    let len = head.len();
                    out += &format!("PONG\r\nHMSG _INBOX.a.c1 1 {len} {len}\r\n{head}\r\n");
                }
                "SUB" => deliver_to = words[1].to_owned(),
                "PUB" if words[1].starts_with("$JS.API.STREAM.INFO") => {
                    let last = self.sent.len() + self.probes.len();
                    out += &self.answer(
                        words[2],
                        &format!(
                            "{{\"created\":\"2026-11-22T14:00:00Z\",\"state\":{{\"first_seq\":1,\"last_seq\":{last}}}}}"
                        ),
                    );
                }
                "PUB" if words[1].contains("CONSUMER.CREATE") => {
                    assert!(deliver_to.starts_with("_INBOX.a.c"));
                    out += &self.answer(words[2], "{\"num_pending\":0}");
                }
                "HPUB" => {
                    let head: Vec<&str> = lines.by_ref().take_while(|it| !it.is_empty()).collect();
                    let id = head.iter().find_map(|it| it.strip_prefix("Nats-Msg-Id: "));
                    let answer = match &self.refusal {
                        Some(refusal) => format!(
                            "{{\"error\":{{\"code\":503,\"description\":\"{refusal}\"}},\"seq\":0}}"
                        ),
                        None => {
                            match id.unwrap().strip_prefix("n-") {
                                Some(number) => {
                                    let number = number.parse().unwrap();
                                    if !self.sent.contains(&number) {
                                        self.sent.push(number);
                                    }
                                }
                                None => self.probes.push(id.unwrap().to_owned()),
                            }
                            format!("{{\"seq\":{}}}", self.sent.len())
                        }
                    };
                    out += &message(words[2], &answer);
                }
                _ => {}
            }
        }
        out.into_bytes()
    }

    fn refuse(&mut self, words: Option<&str>) {
        self.refusal = words.map(str::to_owned);
    }

    fn has(&self) -> Vec<u64> {
        self.sent.clone()
    }
}

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn log_that_refuses_writes_is_away_until_it_accepts_one() {
    let logs: [(&str, Box<dyn Log>, &str, &str); 5] = [
        (
            "redis://a",
            Box::<Redis>::default(),
            &format!("{OOM} script: 12ab, on @user_script:8."),
            "used memory > 'maxmemory'",
        ),
        (
            "redis://a",
            Box::<Redis>::default(),
            &format!("ERR Error running script (call to f_12ab): @user_script:8: -{OOM}"),
            "refuses to write: OOM command",
        ),
        (
            "redis://a",
            Box::<Redis>::default(),
            "MISCONF Errors writing to the AOF file: No space left on device",
            "No space left on device",
        ),
        (
            "redis://a",
            Box::<Redis>::default(),
            "NOREPLICAS Not enough good replicas to write.",
            "Not enough good replicas",
        ),
        (
            "nats://a",
            Box::<Nats>::default(),
            "maximum bytes exceeded",
            "refuses messages: maximum bytes exceeded",
        ),
    ];
    for (servers, log, refusal, cause) in logs {
        let mut run = Run::new(servers, log);
        run.outbox = 3;
        run.pass(500);
        assert_eq!(
            (&run.said[..], run.released),
            (&["ready".to_owned()][..], 3)
        );
        run.log.refuse(Some(refusal));
        run.outbox = 300;
        run.pass(60_000);
        assert_eq!(run.said.len(), 2, "{:?}", run.said);
        assert!(run.said[1].contains(cause), "{:?}", run.said);
        assert!(!run.said[1].contains("script"), "{:?}", run.said);
        assert!(!run.bridge.can_send());
        assert_eq!((run.connects, run.disconnects), (1, 0), "it is read from");
        run.log.refuse(None);
        run.pass(3_000);
        assert_eq!(run.said[2..], ["ready"]);
        assert_eq!((run.released, run.log.has()), (300, (1..=300).collect()));
        assert_eq!(run.accepted, run.log.has(), "each is accepted once");
    }
}

#[test]
fn redis_that_always_refuses_is_never_ready() {
    let mut run = Run::new("redis://a", Box::<Redis>::default());
    run.log.refuse(Some(OOM));
    run.pass(30_000);
    assert_eq!(run.said.len(), 1, "{:?}", run.said);
    run.log.refuse(None);
    run.pass(3_000);
    assert_eq!(run.said[1..], ["ready"]);
}

#[test]
fn leaves_a_refusing_server_for_the_next() {
    let mut run = Run::new("redis://a,redis://b", Box::<Redis>::default());
    run.pass(500);
    run.outbox = 1;
    run.log.refuse(Some(OOM));
    run.pass(20_000);
    assert!((2..6).contains(&run.connects), "{}", run.connects);
    // The failure of each server is reported once.
    assert_eq!(run.said.len(), 3, "{:?}", run.said);
    run.log.refuse(None);
    run.pass(3_000);
    assert_eq!((run.said.len(), run.log.has()), (4, vec![1]));
}

/// Requests are repeated because NATS drops them while a stream has no leader.
#[test]
fn repeats_requests_that_nats_drops() {
    // Requests for the stream, the consumer, and the second description of the stream are each sent twice.
    for answers in [
        vec![false],
        vec![true, false],
        vec![true, true, false],
        vec![false, false, true, false, true, true, false, false],
    ] {
        let forgotten = answers.iter().filter(|it| !**it).count() as u64;
        let nats = Nats {
            answers: answers.clone().into(),
            ..Nats::default()
        };
        let mut run = Run::new("nats://a,nats://b", Box::new(nats));
        run.outbox = 1;
        run.pass(200 + 1_500 * forgotten);
        assert_eq!(run.said, ["ready"], "{answers:?}");
        assert_eq!((run.connects, &run.accepted[..]), (1, &[1][..]));
    }
}

fn connected(bridge: &mut Bridge) {
    bridge.handle_time(0);
    while bridge.poll_event().is_some() {}
    bridge.handle_connected(0);
}

fn has_failed(bridge: &mut Bridge) -> Option<String> {
    let mut cause = None;
    while let Some(event) = bridge.poll_event() {
        if let Event::Away(text) = event {
            cause = Some(text);
        }
    }
    cause
}

#[test]
fn arriving_response_extends_the_timeout_up_to_a_bound() {
    // A long response arrives slowly. The test uses the first response, to the greeting.
    let redis = (bridge("redis://a"), b"$30000000\r\n".to_vec());
    // A large message precedes the response.
    let nats = format!("{INFO}MSG x 1 30000000\r\n");
    let nats = (bridge("nats://a"), nats.into_bytes());
    for (mut bridge, begin) in [redis, nats] {
        connected(&mut bridge);
        bridge.handle_input(&begin, 0);
        let mut now_ms = 0;
        let cause = loop {
            now_ms += 1_000;
            bridge.handle_input(b"xxxx", now_ms);
            if bridge.due_ms() <= now_ms {
                bridge.handle_time(now_ms);
            }
            if let Some(cause) = has_failed(&mut bridge) {
                break cause;
            }
            assert!(now_ms <= 60_000, "it is not waited for that long");
        };
        assert!(now_ms >= 59_000, "{now_ms}: {cause}");
        assert!(cause.contains("no answer in time"), "{cause}");
    }
}

#[test]
fn absent_response_times_out() {
    for (servers, begin) in [("redis://a", "$300\r\nxxx"), ("nats://a", "INFO {")] {
        let mut bridge = Bridge::new(options(servers), None, None, 0);
        connected(&mut bridge);
        bridge.handle_input(begin.as_bytes(), 1);
        bridge.handle_time(4_000);
        assert_eq!(has_failed(&mut bridge), None);
        bridge.handle_time(5_001);
        assert!(has_failed(&mut bridge).is_some(), "{servers}");
    }
}

/// Returns the error of a bridge whose server refuses the connection, and the bytes that it has sent.
fn cause(servers: &str, login: Login, answer: &[u8], is_closed: bool) -> (String, String) {
    let mut bridge = Bridge::new(options(servers), None, None, 0);
    bridge.set_login(login);
    connected(&mut bridge);
    let mut sent = bridge.transmit().clone();
    bridge.handle_input(answer, 0);
    sent.extend_from_slice(bridge.transmit());
    if is_closed {
        bridge.handle_closed("the server has closed the connection", 0);
    }
    let cause = has_failed(&mut bridge).unwrap_or_default();
    (cause, String::from_utf8_lossy(&sent).into_owned())
}

#[test]
fn login_and_tls_errors_name_the_setting() {
    let login = || Login {
        user: "app".to_owned(),
        password: "hunter2".to_owned(),
        ..Login::default()
    };
    let plain = r#"INFO {"version":"2.9.10","headers":true,"jetstream":true}"#;
    let secure = r#"INFO {"version":"2.9.10","headers":true,"jetstream":true,"tls_required":true}"#;
    let violation = "-ERR 'Authorization Violation'\r\n";
    let echo =
        "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'app' 'hunter2'\r\n";
    for (servers, login, answer, is_closed, expected) in [
        (
            "redis://a",
            Login::default(),
            "-NOAUTH HELLO must be\r\n".to_owned(),
            false,
            "give cluster_user and cluster_password_file",
        ),
        (
            "redis://a",
            login(),
            "-WRONGPASS invalid\r\n".to_owned(),
            false,
            "check cluster_user and cluster_password_file",
        ),
        (
            "redis://u:hunter2@a",
            login(),
            "-WRONGPASS invalid\r\n".to_owned(),
            false,
            "before the host in cluster",
        ),
        (
            "redis://a",
            login(),
            echo.to_owned(),
            false,
            "does not speak RESP3",
        ),
        (
            "redis://a",
            login(),
            "\u{15}\u{3}\u{3}".to_owned(),
            false,
            "write rediss:// in cluster",
        ),
        (
            "redis+sentinel://a/main",
            login(),
            "\u{15}\u{3}\u{3}".to_owned(),
            false,
            "write rediss+sentinel:// in cluster",
        ),
        (
            "redis://a",
            login(),
            String::new(),
            true,
            "write rediss:// in cluster",
        ),
        (
            "nats://a",
            login(),
            format!("{plain}\r\n{violation}"),
            true,
            "check cluster_user and cluster_password_file",
        ),
        (
            "nats://hunter2@a",
            login(),
            format!("{plain}\r\n{violation}"),
            true,
            "before the host in cluster",
        ),
        (
            "nats://a",
            login(),
            format!("{secure}\r\n"),
            false,
            "write tls:// in cluster",
        ),
        (
            "tls://a",
            login(),
            format!("{plain}\r\n"),
            false,
            "write nats:// in cluster",
        ),
        (
            "tls://a",
            login(),
            format!("{secure}\r\nPING\r\n"),
            false,
            "in the clear before TLS",
        ),
    ] {
        let (cause, _) = cause(servers, login, answer.as_bytes(), is_closed);
        assert!(cause.contains(expected), "{servers} {answer}: {cause}");
        assert!(!cause.contains("hunter2"), "{cause}");
    }
}

#[test]
fn sends_login_to_nats_only_after_tls() {
    let login = Login {
        user: "app".to_owned(),
        password: "hunter2".to_owned(),
        ..Login::default()
    };
    let (_, sent) = cause("rediss+sentinel://a/main", login.clone(), b"", false);
    assert!(sent.contains("main"), "{sent}");
    assert!(
        !sent.contains("AUTH") && !sent.contains("hunter2"),
        "{sent}"
    );
    let (_, sent) = cause("rediss://a", login.clone(), b"", false);
    assert!(
        sent.contains("AUTH\r\n$3\r\napp\r\n$7\r\nhunter2\r\n"),
        "{sent}"
    );
    let (_, sent) = cause("nats://a", login.clone(), INFO.as_bytes(), false);
    assert!(sent.contains(r#""pass":"hunter2""#), "{sent}");
    let mut bridge = bridge("tls://a");
    bridge.set_login(login);
    connected(&mut bridge);
    let info = INFO.replacen('{', "{\"tls_required\":true,", 1);
    bridge.handle_input(info.as_bytes(), 0);
    let mut events = std::iter::from_fn(|| bridge.poll_event());
    assert!(events.any(|event| event == Event::Secure));
    bridge.handle_time(2_500);
    assert_eq!(bridge.transmit(), b"", "nothing in the clear");
    bridge.handle_secured(2_600);
    let sent = String::from_utf8_lossy(bridge.transmit()).into_owned();
    assert!(sent.contains(r#""user":"app""#), "{sent}");
}

#[test]
fn reports_each_cause_of_an_outage_once() {
    let mut bridge = bridge("redis://a");
    let mut told = Vec::new();
    for (at, cause) in ["refused", "expired", "refused", "wrong name"]
        .iter()
        .enumerate()
    {
        let now_ms = at as u64 * 10_000;
        bridge.handle_time(now_ms);
        bridge.handle_closed(cause, now_ms);
        told.extend(has_failed(&mut bridge));
    }
    assert_eq!(
        told,
        ["a:6379: refused", "a:6379: expired", "a:6379: wrong name"]
    );
}
