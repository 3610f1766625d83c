//! The fixture that each case receives, and the runner of all cases.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::{deadline, workspace_root};
use serde_json::{Value, json};

use crate::cases;
use crate::client::{Answer, Client};
use crate::origin::{Origin, Reply, Request, ok};
use crate::subject::{Kind, Subject};

/// Number of cases that run concurrently. Most of them spend their time waiting for a time-out.
const THREADS: usize = 8;
/// Number of retries of a case that failed with Pushpin.
const PUSHPIN_RETRIES: u32 = 2;
/// Pause between two attempts to reach a client that may not be held yet.
const PAUSE: Duration = Duration::from_millis(100);
/// Content of probes, published to test if a client is held. No case uses it in its messages.
pub const PROBE: &str = "~";

/// A case: its name and its function.
pub type Case = (&'static str, fn(&Bench));

/// Fixture of a case. All its paths and channels start with the case's name, so cases can run
/// concurrently.
pub struct Bench<'a> {
    name: &'static str,
    subject: &'a Subject,
    origin: &'a Origin,
    differing: &'a Mutex<Vec<&'static str>>,
}

impl Bench<'_> {
    /// The kind of server under test.
    pub fn kind(&self) -> Kind {
        self.subject.kind
    }

    /// The server under test.
    pub fn subject(&self) -> &Subject {
        self.subject
    }

    /// Handles the requests below this case's path.
    pub fn origin(&self, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        self.origin.on(self.name, answer);
    }

    /// Returns the requests that the origin has received.
    pub fn requests(&self) -> Vec<Request> {
        self.origin.seen(self.name)
    }

    /// Waits until the origin has received a request for this path.
    #[track_caller]
    pub fn wait_for_request(&self, rest: &str) {
        let end = Instant::now() + deadline();
        let path = self.path(rest);
        while !self.requests().iter().any(|it| it.target == path) {
            assert!(Instant::now() < end, "{path} is not asked for");
            thread::sleep(PAUSE / 10);
        }
    }

    /// Returns a path below this case's path.
    pub fn path(&self, rest: &str) -> String {
        format!("/{}{rest}", self.name)
    }

    /// Returns the name of a channel of this case.
    pub fn channel(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Opens a connection to the server under test, with this host name.
    pub fn client(&self, host: &str) -> Client {
        Client::open(self.subject.port, host)
    }

    /// Sends a GET for a path of this case.
    #[track_caller]
    pub fn get(&self, host: &str, rest: &str) -> Answer {
        self.client(host).get(&self.path(rest))
    }

    /// Publishes items to the HTTP control port.
    #[track_caller]
    pub fn publish(&self, items: Value) {
        let answer = self.control("/publish/", &json!({ "items": items }).to_string());
        assert_eq!(
            (answer.status, answer.text()),
            (200, "Published\n"),
            "{items}"
        );
    }

    /// Publishes one stream item.
    #[track_caller]
    pub fn publish_stream(&self, channel: &str, content: &str) {
        self.publish(json!([{"channel": self.channel(channel), "formats": {"http-stream": {"content": content}}}]));
    }

    /// Panics unless this case is listed as one that runs alone. Cases call it if they make every
    /// client poll its origin.
    #[track_caller]
    pub fn assert_alone(&self) {
        let name = self.name;
        assert!(cases::ALONE.contains(&name), "cases::ALONE lacks {name}");
    }

    /// Sends a POST to the control port.
    #[track_caller]
    pub fn control(&self, path: &str, body: &str) -> Answer {
        if path == "/recover" {
            self.assert_alone();
        }
        Client::open(self.subject.control, "localhost").request(
            "POST",
            path,
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        )
    }

    /// Opens a stream, reads up to `start` and waits until the edge holds it on the channel.
    #[track_caller]
    pub fn stream(&self, host: &str, rest: &str, channel: &str, start: &str) -> Client {
        let mut client = self.client(host);
        client.send("GET", &self.path(rest), &[], b"");
        let head = client.read_head();
        assert_eq!(head.status, 200, "{head:?}");
        client.read_until(start);
        self.probe(&mut client, channel);
        client
    }

    /// Opens a stream that the origin holds on the channel "c" after the text "opened".
    #[track_caller]
    pub fn opened_stream(&self) -> Client {
        let channel = self.channel("c");
        self.origin(move |_| {
            ok(
                &[("Grip-Hold", "stream"), ("Grip-Channel", &channel)],
                "opened\n",
            )
        });
        self.stream("plain.test", "/x", "c", "opened\n")
    }

    /// Publishes probes until the client receives one.
    #[track_caller]
    pub fn probe(&self, client: &mut Client, channel: &str) {
        let end = Instant::now() + deadline();
        while Instant::now() < end {
            self.publish(json!([{"channel": self.channel(channel), "no-seq": true,
                "formats": {"http-stream": {"content": PROBE}, "ws-message": {"content": PROBE}}}]));
            if client.has_probe(PAUSE) {
                return;
            }
        }
        panic!("nobody is held on {channel}");
    }

    /// Publishes an item repeatedly until the client has a response: the client cannot detect when
    /// its long poll is held.
    #[track_caller]
    pub fn publish_until_answered(&self, client: &mut Client, item: Value) -> Answer {
        let end = Instant::now() + deadline();
        while Instant::now() < end {
            self.publish(json!([item]));
            if client.has_data(PAUSE) {
                return client.read_answer(false);
            }
        }
        panic!("nobody is answered");
    }

    /// Asserts the result for `fermata`. Asserts nothing for Pushpin, whose result varies. The
    /// documentation must mention the case.
    #[track_caller]
    pub fn differs_at_times<T: PartialEq + std::fmt::Debug>(&self, actual: T, fermata: T) {
        if let Ok(mut differing) = self.differing.lock() {
            differing.push(self.name);
        }
        if self.kind() == Kind::Fermata {
            assert_eq!(actual, fermata, "Fermata's");
        }
    }

    /// Asserts a result in which the two servers differ. The documentation must mention the case.
    #[track_caller]
    pub fn differs<T: PartialEq + std::fmt::Debug>(&self, actual: T, pushpin: T, fermata: T) {
        assert_ne!(pushpin, fermata, "no difference");
        if let Ok(mut differing) = self.differing.lock() {
            differing.push(self.name);
        }
        match self.kind() {
            Kind::Pushpin => assert_eq!(actual, pushpin, "Pushpin's"),
            Kind::Fermata => assert_eq!(actual, fermata, "Fermata's"),
        }
    }
}

/// Runs all cases against a server.
///
/// Cases that fail with Pushpin run again, alone and with a separate Pushpin process. Pushpin
/// sometimes exits, which disconnects the clients of all cases, and sometimes leaves a request
/// without a response. With Fermata each case runs once.
///
/// # Panics
///
/// Panics if a case fails.
pub fn run_all(subject: Subject) {
    let kind = subject.kind;
    let wanted = std::env::var("FERMATA_TEST_CASE").unwrap_or_default();
    let cases: Vec<Case> = cases::all()
        .filter(|(name, _)| name.contains(&wanted))
        .collect();
    let count = cases.len();
    assert!(count > 0, "no case has {wanted:?} in its name");
    let differing = Mutex::new(Vec::new());
    let (alone, together): (Vec<Case>, Vec<Case>) = cases
        .into_iter()
        .partition(|(name, _)| cases::ALONE.contains(name));
    let mut failed = run(&subject, together, THREADS, &differing);
    failed.extend(run(&subject, alone, 1, &differing));
    drop(subject);
    if kind == Kind::Pushpin {
        for _ in 0..PUSHPIN_RETRIES {
            failed.retain(|case| {
                let subject = Subject::start(kind).expect("it was there before");
                !run(&subject, vec![*case], 1, &differing).is_empty()
            });
        }
    }
    let failed: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    assert!(
        failed.is_empty(),
        "{} of {count} cases failed: {failed:?}",
        failed.len()
    );
    let page = std::fs::read_to_string(workspace_root().join("docs/pushpin-users.md"))
        .expect("the page about differences");
    for name in differing.into_inner().unwrap_or_default() {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/pushpin-users.md explains no difference by the name `{name}`"
        );
    }
}

/// Runs cases concurrently and returns those that failed.
fn run(
    subject: &Subject,
    cases: Vec<Case>,
    threads: usize,
    differing: &Mutex<Vec<&'static str>>,
) -> Vec<Case> {
    let queue = Mutex::new(VecDeque::from(cases));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                    let (name, run) = case;
                    let bench = Bench {
                        name,
                        subject,
                        origin: subject.origin(),
                        differing,
                    };
                    let begin = Instant::now();
                    let outcome = catch_unwind(AssertUnwindSafe(|| run(&bench)));
                    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
                    eprintln!(
                        "{:?} {name}: {word} {} ms",
                        subject.kind,
                        begin.elapsed().as_millis()
                    );
                    if outcome.is_err()
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(case);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        eprintln!("{}", subject.logs());
    }
    failed
}
