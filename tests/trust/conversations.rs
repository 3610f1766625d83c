//! Every PHP client × every kind of wait × every way a handler can end × one connection for all or
//! a pool: the next handler never finds state of the previous one.
//!
//! Cases are random. `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer,
//! `FERMATA_TEST_OUT` names a file for counts of the cases, as JSON. `FERMATA_TEST_CASE` is a
//! failed case, as printed, which then runs repeatedly.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::install::skipped;
use fermata_testkit::{Connection, Random, ReadError, Response, Server, deadline};
use fermata_tests::{fixture, json};
use serde_json::{Value, json};

use crate::peer::Peer;
use crate::services::Service;

/// Default duration of a run.
const SECONDS: u64 = 25;
/// Maximum delay until a handler is cancelled and until other handlers start.
const ENDED_WITHIN_MS: usize = 30;
const BYSTANDERS_MAX: usize = 3;
/// Number of failures after which a long run stops.
const FAILURES_MAX: usize = 20;
/// Maximum time for shrinking a failed case.
const SHRINKS_WITHIN: Duration = Duration::from_secs(60);
/// Number of tries of a smaller case, because most failures are random.
const SHRINK_TRIES: usize = 4;
/// Number of cases between two checks of the pools.
const POOLS_EVERY: usize = 50;
/// Maximum number of times that a shared connection may be found closed: by the cancelled handler,
/// and by one of its tasks that had queued for it.
const GONE_MAX: usize = 4;

/// How a handler ends.
const ENDINGS: [&str; 12] = [
    "fin",
    "rst",
    "timeout",
    "race",
    "cancel",
    "cancellation",
    "all",
    "return",
    "throw",
    "exit",
    "memory",
    "fatal",
];

/// Modes: one connection for all handlers, or a pool.
const MODES: [&str; 2] = ["same", "pool"];

/// A client library, as the fixture describes it.
#[derive(Clone, Debug)]
struct Client {
    name: String,
    stages: Vec<String>,
    /// Which handlers and tasks may share a connection, according to the fixture.
    shared_by: String,
}

/// Another handler, which runs concurrently and sends its own requests.
#[derive(Clone, Debug)]
struct Bystander {
    at_ms: usize,
    takes_ms: usize,
    count: usize,
    mode: &'static str,
}

/// A handler that ends in the middle of its work.
#[derive(Clone, Debug)]
struct Case {
    client: Client,
    mode: &'static str,
    stage: String,
    pause: String,
    ending: &'static str,
    after_ms: usize,
    count: usize,
    /// The handler sends another request in a `finally` block.
    tidies: bool,
    /// The handler continues after the cancelled wait.
    goes_on: bool,
    /// The handler changes state that PHP keeps per process.
    is_dirty: bool,
    bystanders: Vec<Bystander>,
}

impl Case {
    fn random(random: &mut Random, clients: &[Client], pauses: &[String]) -> Case {
        let client = random.choose(clients).clone();
        let mut case = Case {
            mode: MODES[random.within(0..MODES.len())],
            stage: random.choose(&client.stages).clone(),
            pause: random.choose(pauses).clone(),
            ending: ENDINGS[random.within(0..ENDINGS.len())],
            after_ms: random.within(0..ENDED_WITHIN_MS),
            count: [1, 2, 40, 20_000][random.within(0..4)],
            tidies: random.within(0..4) == 0,
            goes_on: random.within(0..3) == 0,
            is_dirty: random.within(0..2) == 0,
            bystanders: Vec::new(),
            client,
        };
        if matches!(case.ending, "memory" | "fatal") && random.within(0..3) > 0 {
            // Each of these endings costs a worker, so use them rarely.
            case.ending = ENDINGS[random.within(0..10)];
        }
        if case.needs_pool() {
            case.mode = "pool";
        }
        if case.mode == "same" && case.client.shared_by != "tasks" && !case.is_question() {
            // With a library written in PHP, the handler would continue in the middle of its own
            // exchange: a MULTI stays open although its replies were read.
            case.goes_on = false;
            // The same applies to cleanup code, unless the connection was closed with the wait.
            case.tidies &= case.ending != "throw";
        }
        let is_cancelled = matches!(
            case.ending,
            "fin" | "rst" | "timeout" | "race" | "cancel" | "cancellation" | "all"
        );
        if case.mode == "same" && case.client.shared_by == "handlers" && !is_cancelled {
            // A task of the handler still uses the transport; no library supports concurrent use.
            case.goes_on &= !case.is_question();
            case.tidies &= !case.is_question();
        }
        for _ in 0..random.within(0..BYSTANDERS_MAX + 1) {
            case.bystanders.push(Bystander {
                at_ms: random.within(0..ENDED_WITHIN_MS),
                takes_ms: random.within(0..8),
                count: [1, 3, 5_000][random.within(0..3)],
                mode: match case.client.shared_by.as_str() {
                    "nobody" | "turns" => "pool",
                    _ => MODES[random.within(0..MODES.len())],
                },
            });
        }
        case.bystanders.sort_by_key(|one| one.at_ms);
        case
    }

    /// Returns true if the case needs a pool: tasks of one handler must not share this connection.
    fn needs_pool(&self) -> bool {
        match self.client.shared_by.as_str() {
            "nobody" => true,
            "handlers" => self.stage == "wait",
            "turns" => self.stage == "wait" || !self.is_question(),
            _ => false,
        }
    }

    /// Returns true if the case sends only complete requests.
    fn is_question(&self) -> bool {
        matches!(self.stage.as_str(), "reply" | "connect" | "wait" | "idle")
    }

    /// Returns the wait in which the handler ends.
    fn wait(&self) -> String {
        match self.stage.as_str() {
            "reply" | "connect" | "wait" => self.stage.clone(),
            stage => format!("{stage}, {}", self.pause),
        }
    }

    fn ends_worker(&self) -> bool {
        matches!(self.ending, "memory" | "fatal")
    }

    fn client_leaves(&self) -> bool {
        matches!(self.ending, "fin" | "rst")
    }

    fn target(&self, id: &str) -> String {
        let mut target = format!(
            "/act/{}/{}?id={id}&stage={}&pause={}&ending={}&after={}&count={}",
            self.client.name,
            self.mode,
            self.stage,
            self.pause,
            self.ending,
            self.after_ms,
            self.count
        );
        for (name, is_set) in [
            ("finally", self.tidies),
            ("again", self.goes_on),
            ("dirty", self.is_dirty),
        ] {
            if is_set {
                let _ = write!(target, "&{name}=1");
            }
        }
        target
    }

    /// Returns smaller cases, the smallest first.
    fn simpler(&self) -> Vec<Case> {
        let mut simpler = Vec::new();
        let mut add = |change: &dyn Fn(&mut Case)| {
            let mut case = self.clone();
            change(&mut case);
            if case.describe() != self.describe() {
                simpler.push(case);
            }
        };
        add(&|case| case.bystanders.clear());
        add(&|case| case.tidies = false);
        add(&|case| case.goes_on = false);
        add(&|case| case.is_dirty = false);
        add(&|case| case.pause = "delay".into());
        add(&|case| case.count = 1);
        add(&|case| case.after_ms = 10);
        add(&|case| {
            case.bystanders.pop();
        });
        simpler
    }

    /// Formats the case for `FERMATA_TEST_CASE`: `amqp pool wait delay fin after=10 count=1 again;
    /// 3 same takes=5 count=1`.
    fn describe(&self) -> String {
        let mut text = format!(
            "{} {} {} {} {} after={} count={}",
            self.client.name,
            self.mode,
            self.stage,
            self.pause,
            self.ending,
            self.after_ms,
            self.count
        );
        for (name, is_set) in [
            ("finally", self.tidies),
            ("again", self.goes_on),
            ("dirty", self.is_dirty),
        ] {
            if is_set {
                let _ = write!(text, " {name}");
            }
        }
        for one in &self.bystanders {
            let _ = write!(
                text,
                "; {} {} takes={} count={}",
                one.at_ms, one.mode, one.takes_ms, one.count
            );
        }
        text
    }

    /// Parses the output of [`Case::describe`].
    fn parse(text: &str, clients: &[Client]) -> Case {
        let known = |names: &'static [&'static str], name: &str| -> &'static str {
            let found = names.iter().find(|known| **known == name);
            found.unwrap_or_else(|| panic!("{name:?} in {text:?} is none of {names:?}"))
        };
        let number = |words: &[&str], name: &str| -> usize {
            let found = words.iter().find_map(|word| word.strip_prefix(name));
            let value = found.and_then(|word| word.strip_prefix('='));
            let value = value.and_then(|value| value.parse().ok());
            value.unwrap_or_else(|| panic!("{text:?} has no number {name}="))
        };
        let mut parts = text.split("; ");
        let words: Vec<&str> = parts.next().unwrap_or_default().split(' ').collect();
        let [name, mode, stage, pause, ending, ..] = words[..] else {
            panic!("{text:?} is no case");
        };
        let client = clients.iter().find(|client| client.name == name);
        let has = |word: &str| words.contains(&word);
        Case {
            client: client
                .unwrap_or_else(|| panic!("{name:?} is no client here"))
                .clone(),
            mode: known(&MODES, mode),
            stage: stage.into(),
            pause: pause.into(),
            ending: known(&ENDINGS, ending),
            after_ms: number(&words, "after"),
            count: number(&words, "count"),
            tidies: has("finally"),
            goes_on: has("again"),
            is_dirty: has("dirty"),
            bystanders: parts
                .map(|part| {
                    let words: Vec<&str> = part.split(' ').collect();
                    let [at, mode, ..] = words[..] else {
                        panic!("{part:?} is no other handler");
                    };
                    Bystander {
                        at_ms: at.parse().expect("milliseconds"),
                        takes_ms: number(&words, "takes"),
                        count: number(&words, "count"),
                        mode: known(&MODES, mode),
                    }
                })
                .collect(),
        }
    }
}

/// All services and the server under test.
struct Place {
    server: Server,
    clients: Vec<Client>,
    pauses: Vec<String>,
    missing: Vec<String>,
    _services: Vec<Service>,
    /// Number of ids issued.
    cases: usize,
}

impl Place {
    fn start() -> Place {
        // RabbitMQ takes longest to start, so start it in a thread.
        let rabbitmq = thread::spawn(Service::rabbitmq);
        let mut services = vec![Service::mariadb(), Service::postgres(), Service::redis()];
        let builder = fixture("conversations").workers(1).ini("memory_limit=96M");
        let peer = Peer::start(builder.directory().path());
        let folder = services[1].socket.parent().expect("a folder").to_path_buf();
        let file = builder.directory().join("trust.sqlite");
        let mut builder = builder
            .env("SQLITE", file)
            .env("MYSQL", &services[0].socket)
            .env("POSTGRES", folder)
            .env("REDIS", &services[2].socket)
            .env("LINES_PORT", peer.lines_port.to_string())
            .env("LINES_SOCKET", &peer.socket)
            .env("HTTP_PORT", peer.http_port.to_string())
            // Abandoned queries are stopped soon.
            .setting("abandoned_query_ms_max", 100);
        for (name, service) in [
            ("SMTP_PORT", Service::smtp()),
            ("AMQP_PORT", rabbitmq.join().expect("it starts")),
        ] {
            if let Some(service) = service {
                builder = builder.env(name, service.port.to_string());
                services.push(service);
            }
        }
        let server = builder.start();
        let prepared = server.connect().get("/prepare");
        assert_eq!(prepared.status(), 200, "{}", server.log().text());
        let told = json(&server.connect().get("/clients"));
        let (mut clients, mut missing) = (Vec::new(), Vec::new());
        let names = |list: &Value| -> Vec<String> {
            let list = list.as_array().expect("a list");
            list.iter()
                .map(|name| name.as_str().expect("a name").to_string())
                .collect()
        };
        for (name, client) in told["clients"].as_object().expect("by name") {
            if let Some(package) = client["missing"].as_str() {
                missing.push(format!("{name} ({package})"));
                continue;
            }
            clients.push(Client {
                name: name.clone(),
                stages: names(&client["stages"]),
                shared_by: client["shared_by"].as_str().expect("a text").into(),
            });
        }
        if !missing.is_empty() {
            skipped(&format!(
                "not run, as it is not installed: {}",
                missing.join(", ")
            ));
        }
        Place {
            server,
            clients,
            pauses: names(&told["pauses"]),
            missing,
            _services: services,
            cases: 0,
        }
    }

    fn ask(&self, target: &str) -> Result<Connection, String> {
        let connection = Connection::try_open(self.server.address());
        let mut connection = connection.map_err(|error| format!("connect: {error}"))?;
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let sent = connection.try_send(request);
        sent.map_err(|error| format!("send: {error}"))?;
        Ok(connection)
    }

    /// Runs a case. Returns an error if a handler received a value of another handler, or no value.
    fn play(&mut self, case: &Case) -> Result<(), String> {
        self.cases += 1;
        let user = |number: usize| format!("u{}x{number}y", self.cases);
        let pid = self.server.worker_pids();
        let begun = Instant::now();
        let wait_for = |ms: usize| {
            let at = Duration::from_millis(ms as u64);
            thread::sleep(at.saturating_sub(begun.elapsed()));
        };
        let mut act = Some(self.ask(&case.target(&user(0)))?);
        let mut asked = Vec::new();
        for (number, one) in case.bystanders.iter().enumerate() {
            if case.client_leaves() && one.at_ms >= case.after_ms {
                wait_for(case.after_ms);
                leave(act.take(), case.ending);
            }
            wait_for(one.at_ms);
            let id = user(number + 1);
            let target = format!(
                "/ask/{}/{}?id={id}&seconds={}&count={}",
                case.client.name,
                one.mode,
                one.takes_ms as f64 / 1000.0,
                one.count
            );
            match self.ask(&target) {
                Ok(connection) => asked.push((one.mode, id, connection)),
                Err(_) if case.ends_worker() => {}
                Err(error) => return Err(format!("{id}: {error}")),
            }
        }
        if case.client_leaves() {
            wait_for(case.after_ms);
            leave(act.take(), case.ending);
        }
        if let Some(mut act) = act {
            let answer = act.try_read_response(false);
            let has_failed = !matches!(&answer, Ok(response) if response.status() != 500);
            Self::check_act(case, &user(0), answer)?;
            if case.ends_worker() && has_failed {
                // Wait for the replacement of the worker; otherwise the next case would be
                // affected.
                let end = Instant::now() + deadline();
                while self.server.worker_pids() == pid {
                    if Instant::now() > end {
                        return Err("the worker is not replaced".into());
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            }
        }
        for (mode, id, mut connection) in asked {
            let answer = connection.try_read_response(false);
            Self::check_bystander(case, mode, &id, answer)?;
        }
        self.check_next(case, &user(9))?;
        if !case.ends_worker() && self.server.worker_pids() != pid {
            return Err("the worker has ended".into());
        }
        if self.cases.is_multiple_of(POOLS_EVERY) {
            self.check_pools()?;
        }
        Ok(())
    }

    fn check_act(case: &Case, id: &str, answer: Result<Response, ReadError>) -> Result<(), String> {
        let response = match answer {
            Ok(response) => response,
            Err(ReadError::Ended(_) | ReadError::Truncated(..)) if case.ends_worker() => {
                return Ok(());
            }
            Err(error) => return Err(format!("{id}, which is ended: {error}")),
        };
        owns(id, response.text())?;
        let is_good = match response.status() {
            200 if case.goes_on => {
                response.text() == format!("{id}a") || response.text() == "ended"
            }
            200 => response.text() == "ended",
            // The handler's wait was cancelled, or it threw an exception.
            503 => true,
            500 => matches!(case.ending, "exit" | "memory" | "fatal"),
            _ => false,
        };
        if is_good {
            Ok(())
        } else {
            Err(shown(id, &response))
        }
    }

    fn check_bystander(
        case: &Case,
        mode: &str,
        id: &str,
        answer: Result<Response, ReadError>,
    ) -> Result<(), String> {
        let response = match answer {
            Ok(response) => response,
            Err(ReadError::Ended(_) | ReadError::Truncated(..)) if case.ends_worker() => {
                return Ok(());
            }
            Err(error) => return Err(format!("{id}, another: {error}")),
        };
        owns(id, response.text())?;
        let is_good = match response.status() {
            200 => response.text() == id,
            // The shared connection is closed.
            503 => mode == "same" || case.ends_worker(),
            500 => case.ends_worker(),
            _ => false,
        };
        if is_good {
            Ok(())
        } else {
            Err(shown(id, &response))
        }
    }

    /// Checks that the next handler receives its own reply, at the latest after it has detected
    /// that the shared connection is closed.
    fn check_next(&self, case: &Case, id: &str) -> Result<(), String> {
        let target = format!("/next/{}/{}?id={id}", case.client.name, case.mode);
        let end = Instant::now() + deadline();
        let mut gone = 0;
        loop {
            let answer = self.ask(&target).and_then(|mut connection| {
                let answer = connection.try_read_response(false);
                answer.map_err(|error| error.to_string())
            });
            let response = match answer {
                Ok(response) => response,
                Err(_) if case.ends_worker() && Instant::now() < end => {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                Err(error) => return Err(format!("{id}, the next: {error}")),
            };
            owns(id, response.text())?;
            let found: Value = match serde_json::from_slice(&response.body) {
                Ok(found) => found,
                Err(_) if case.ends_worker() && Instant::now() < end => {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                Err(_) => return Err(shown(id, &response)),
            };
            let is_clean = |state: &Value| {
                state.as_object().is_some_and(serde_json::Map::is_empty)
                    || state.as_array().is_some_and(Vec::is_empty)
            };
            if !is_clean(&found["state"]) {
                return Err(format!("PHP's state is another: {}", shown(id, &response)));
            }
            match response.status() {
                200 if found["got"] == id && found["left"] == json!([]) => return Ok(()),
                200 => return Err(shown(id, &response)),
                503 if case.mode == "same" || case.ends_worker() => {
                    gone += 1;
                    if gone > GONE_MAX {
                        return Err(format!("still gone: {}", shown(id, &response)));
                    }
                }
                _ => return Err(shown(id, &response)),
            }
        }
    }

    /// Checks that all connections were returned to their pools.
    fn check_pools(&self) -> Result<(), String> {
        let end = Instant::now() + deadline();
        loop {
            let borrowed = self.ask("/pools").and_then(|mut connection| {
                let answer = connection.try_read_response(false);
                answer.map_err(|error| error.to_string())
            });
            match borrowed {
                Ok(borrowed) if borrowed.text() == "0" => return Ok(()),
                _ if Instant::now() < end => thread::sleep(Duration::from_millis(10)),
                borrowed => return Err(format!("pools have lent: {borrowed:?}")),
            }
        }
    }

    /// Restarts the workers, because a failed case may have left state behind.
    fn forget(&mut self) {
        let pids = self.server.worker_pids();
        for (number, pid) in pids {
            fermata_testkit::send_signal(pid, fermata_testkit::Signal::Kill);
            self.server.wait_replaced(number, pid);
        }
    }

    /// Returns the smallest case that still fails, and the reason.
    fn shrink(&mut self, case: &Case, why: String) -> (Case, String) {
        let (mut best, end) = ((case.clone(), why), Instant::now() + SHRINKS_WITHIN);
        let mut is_smaller = true;
        while is_smaller {
            is_smaller = false;
            for simpler in best.0.simpler() {
                if Instant::now() > end {
                    return best;
                }
                let found = (0..SHRINK_TRIES).find_map(|_| {
                    let why = self.play(&simpler).err()?;
                    self.forget();
                    Some(why)
                });
                if let Some(why) = found {
                    best = (simpler, why);
                    is_smaller = true;
                    break;
                }
            }
        }
        best
    }
}

fn leave(connection: Option<Connection>, ending: &str) {
    match connection {
        Some(connection) if ending == "rst" => connection.reset(),
        _ => {}
    }
}

/// Checks that every id in a text starts with `id`.
fn owns(id: &str, text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('u') {
        let rest = &text[at + 1..];
        let len = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let is_one = len > 0 && {
            let after = &rest[len..];
            after.starts_with('x')
                && after[1..].starts_with(|c: char| c.is_ascii_digit())
                && after[2..].starts_with('y')
        };
        if is_one && !text[at..].starts_with(id) {
            let from: String = text[at..].chars().take(80).collect();
            return Err(format!("{id} got what is another's: {from:?}"));
        }
    }
    Ok(())
}

fn shown(id: &str, response: &Response) -> String {
    let text: String = response.text().chars().take(400).collect();
    format!("{id} got {} {text}", response.status())
}

/// Counts of the cases that were run.
#[derive(Default)]
struct Counts {
    /// By client, wait and ending.
    endings: BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>,
    pauses: BTreeMap<String, u64>,
    modes: BTreeMap<String, u64>,
    cases: u64,
    failures: Vec<Value>,
}

impl Counts {
    fn add(&mut self, case: &Case) {
        self.cases += 1;
        *self
            .endings
            .entry(case.client.name.clone())
            .or_default()
            .entry(case.stage.clone())
            .or_default()
            .entry(case.ending.into())
            .or_default() += 1;
        *self.modes.entry(case.mode.into()).or_default() += 1;
        if case.wait().contains(',') {
            *self.pauses.entry(case.pause.clone()).or_default() += 1;
        }
    }

    fn write(&self, seed: u64, begun: Instant, missing: &[String]) {
        let Some(path) = std::env::var_os("FERMATA_TEST_OUT") else {
            return;
        };
        let told = json!({
            "command": "make soak-trust",
            "seed": seed,
            "seconds": begun.elapsed().as_secs(),
            "cases": self.cases,
            "not_run": missing,
            "failures": self.failures,
            "modes": self.modes,
            "waits_elsewhere": self.pauses,
            "client_wait_ending": self.endings,
        });
        std::fs::write(path, told.to_string() + "\n").expect("FERMATA_TEST_OUT can be written");
    }
}

/// Returns every client in every stage and mode without cancellation: the base of random cases.
fn plain(clients: &[Client]) -> Vec<Case> {
    let mut cases = Vec::new();
    for client in clients {
        for stage in &client.stages {
            for mode in MODES {
                let case = Case {
                    client: client.clone(),
                    mode,
                    stage: stage.clone(),
                    pause: "none".into(),
                    ending: "return",
                    after_ms: 0,
                    count: 2,
                    tidies: false,
                    goes_on: false,
                    is_dirty: false,
                    bystanders: Vec::new(),
                };
                if mode == "pool" || !case.needs_pool() {
                    cases.push(case);
                }
            }
        }
    }
    cases
}

/// Returns clients and stages of past failures, each with its ending and a later request.
fn found(clients: &[Client]) -> Vec<Case> {
    let endings = [
        ("pgsql", "copy", "timeout"),
        ("pgsql", "copy", "rst"),
        ("pgsql", "copy", "cancel"),
        ("predis", "multi", "throw"),
    ];
    let cases = plain(clients).into_iter().flat_map(|case| {
        let of_client = endings
            .iter()
            .filter(|(client, stage, _)| *client == case.client.name && *stage == case.stage);
        let of_client = of_client.map(|(_, _, ending)| Case {
            ending,
            pause: "delay".into(),
            after_ms: 10,
            tidies: true,
            goes_on: *ending == "timeout",
            ..case.clone()
        });
        of_client.collect::<Vec<_>>()
    });
    cases.collect()
}

pub fn seconds() -> Option<u64> {
    std::env::var("FERMATA_TEST_SECONDS").ok()?.parse().ok()
}

#[test]
fn a_case_is_read_as_it_is_printed() {
    let client = Client {
        name: "amqp".into(),
        stages: Vec::new(),
        shared_by: "questions".into(),
    };
    for text in [
        "amqp pool wait delay fin after=10 count=1",
        "amqp same idle url cancel after=27 count=20000 finally again dirty; 9 same takes=5 count=3; 29 pool takes=0 count=1",
    ] {
        assert_eq!(
            Case::parse(text, std::slice::from_ref(&client)).describe(),
            text
        );
    }
}

#[test]
fn the_next_finds_nothing_of_a_handler_that_was_ended() {
    let seed = Random::seed_from_environment();
    let mut place = Place::start();
    if let Ok(text) = std::env::var("FERMATA_TEST_CASE") {
        let case = Case::parse(&text, &place.clients);
        let end = Instant::now() + Duration::from_secs(seconds().unwrap_or(SECONDS));
        let mut played = 0;
        while Instant::now() < end {
            played += 1;
            if let Err(why) = place.play(&case) {
                let log = place.server.log().text();
                panic!("{} at time {played}: {why}\n{log}", case.describe());
            }
        }
        println!("{played} times");
        return;
    }
    for case in [plain(&place.clients), found(&place.clients)].concat() {
        if let Err(why) = place.play(&case) {
            panic!("{}: {why}\n{}", case.describe(), place.server.log().text());
        }
    }
    let (mut random, begun) = (Random::new(seed), Instant::now());
    let end = begun + Duration::from_secs(seconds().unwrap_or(SECONDS));
    let (mut counts, mut written) = (Counts::default(), begun);
    while Instant::now() < end && counts.failures.len() < FAILURES_MAX {
        let case = Case::random(&mut random, &place.clients, &place.pauses);
        counts.add(&case);
        if let Err(why) = place.play(&case) {
            println!("case {}: {}\n  {why}", counts.cases, case.describe());
            place.forget();
            let (simplest, still) = place.shrink(&case, why.clone());
            println!("  simplest: {}\n  {still}", simplest.describe());
            counts.failures.push(json!({
                "number": counts.cases, "case": case.describe(), "why": why,
                "simplest": simplest.describe(), "then": still,
            }));
        }
        if written.elapsed() > Duration::from_secs(60) {
            written = Instant::now();
            counts.write(seed, begun, &place.missing);
        }
    }
    if let Err(why) = place.check_pools() {
        counts.failures.push(json!(why));
    }
    counts.write(seed, begun, &place.missing);
    let log = place.server.log().text();
    assert!(!log.contains(" signal "), "a worker has crashed: {log}");
    assert!(
        counts.failures.is_empty(),
        "{} of {} cases:\n{:#}",
        counts.failures.len(),
        counts.cases,
        json!(counts.failures)
    );
    println!("{} cases", counts.cases);
}
