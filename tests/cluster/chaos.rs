//! Servers, workers, bridges, the log and its network fail at random while numbered events are
//! published and read. Each event is read once and in the log's order, or the reader receives a
//! gap.
//!
//! `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer, and
//! `FERMATA_TEST_RESULTS` names a folder for a report.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::sse::{Event, Item, Stream};
use fermata_testkit::{
    Connection, LogServer, NatsCluster, Random, Server, Signal, deadline, over_each_log,
    send_signal,
};
use serde_json::json;

use crate::chaos_log::{Log, Way};
use crate::node::{bridge_pid, wait_ready};

over_each_log!(each_event_is_read_once_whatever_is_killed);

#[test]
fn each_event_is_read_once_whichever_of_three_servers_of_the_log_fails() {
    if let Some(nats) = NatsCluster::start() {
        play(Log::Three(nats));
    }
}

const SECONDS: u64 = 8;
const NODES: usize = 3;
const PUBLISHERS: usize = 3;
const READERS: usize = 6;
/// Pause of a publisher between two events, pause between two failures, and duration of a failure.
const PUBLISH_MS: Range<usize> = 1..20;
const PAUSE_MS: Range<usize> = 100..900;
const AWAY_MS: Range<usize> = 0..1_200;
/// How long a reader stays connected to one server.
const STAY_MS: Range<usize> = 50..3_000;
/// Pause before an unreachable server is tried again, and time-out of a reader's read.
const RETRY: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(50);

/// Faults in addition to those of the log.
const FAULTS: [&str; 7] = [
    "acknowledgements lost",
    "bridge killed",
    "bridge stopped",
    "network cut",
    "network silent",
    "server killed",
    "worker killed",
];

/// A position in the log: its epoch and the sequence number in it.
type Place = (u64, u64);
/// An event: its publisher and the publisher's sequence number.
type Numbered = (usize, u64);

/// State shared by all threads of a run.
struct World {
    /// Addresses of the servers; `None` while a server is down.
    addresses: Mutex<Vec<Option<SocketAddr>>>,
    /// Events by position in the log, as readers have received them.
    seen: Mutex<HashMap<Place, Option<Numbered>>>,
    is_over: AtomicBool,
    /// Time at which a reader that has not received the last event fails. Set when that event is
    /// published, because the time for earlier events depends on the machine.
    give_up: OnceLock<Instant>,
    readers_left: AtomicU32,
}

impl World {
    fn new() -> World {
        World {
            addresses: Mutex::new(vec![None; NODES]),
            seen: Mutex::default(),
            is_over: AtomicBool::new(false),
            give_up: OnceLock::new(),
            readers_left: AtomicU32::new(READERS as u32),
        }
    }

    fn connect(&self, random: &mut Random) -> Option<Connection> {
        let address = *random.choose(&lock(&self.addresses));
        Connection::try_open(address?).ok()
    }

    /// Publishes and returns the id.
    fn publish(&self, random: &mut Random, data: &str) -> Option<String> {
        let mut connection = self.connect(random)?;
        let response = connection.try_request("POST", "/publish/news", &[], data.as_bytes());
        let response = response.ok().filter(|response| response.status() == 200)?;
        Some(response.text().to_owned())
    }
}

/// The servers and their log.
struct Cluster<'a> {
    log: Log,
    /// Networks between each server and the log.
    ways: Vec<Way>,
    servers: Vec<Option<Server>>,
    world: &'a World,
    done: BTreeMap<&'static str, u32>,
}

impl Cluster<'_> {
    fn start(&mut self, at: usize) {
        let server = self.ways[at].node().workers(2).start();
        // Like a load balancer, clients connect when the server has caught up with the log.
        wait_ready(&server, 200);
        lock(&self.world.addresses)[at] = Some(server.address());
        self.servers[at] = Some(server);
    }

    /// Causes one fault and repairs it.
    fn fail(&mut self, random: &mut Random) {
        let at = random.within(0..NODES);
        let faults = [&FAULTS, self.log.faults()].concat();
        let fault = *random.choose(&faults);
        let away = Duration::from_millis(random.within(AWAY_MS) as u64);
        *self.done.entry(fault).or_default() += 1;
        println!("{fault} {at}, away for {away:?}");
        let server = self.servers[at].as_ref().expect("it is back");
        match fault {
            "bridge killed" => {
                send_signal(bridge_pid(server), Signal::Kill);
            }
            "bridge stopped" => {
                let pid = bridge_pid(server);
                if send_signal(pid, Signal::Stop) {
                    thread::sleep(away);
                    send_signal(pid, Signal::Continue);
                }
            }
            "worker killed" => {
                let pids: Vec<u32> = server.worker_pids().into_values().collect();
                send_signal(*random.choose(&pids), Signal::Kill);
            }
            "acknowledgements lost" => {
                self.ways[at].hold_answers();
                thread::sleep(away);
                self.ways[at].cut();
                self.ways[at].heal();
            }
            "network cut" => {
                self.ways[at].cut();
                thread::sleep(away);
                self.ways[at].heal();
            }
            "network silent" => {
                self.ways[at].hold();
                thread::sleep(away);
                self.ways[at].heal();
            }
            "server killed" => {
                lock(&self.world.addresses)[at] = None;
                // Kill all processes of the server with SIGKILL.
                self.servers[at] = None;
                thread::sleep(away);
                self.start(at);
            }
            _ => self.log.fail(fault, random, away),
        }
    }
}

/// Results of a publisher's events.
#[derive(Default)]
struct Published {
    acknowledged: Vec<u64>,
    doubtful: u64,
}

fn publish_numbers(world: &World, publisher: usize, mut random: Random) -> Published {
    let mut published = Published::default();
    for number in 0.. {
        if world.is_over.load(Ordering::Relaxed) {
            break;
        }
        match world.publish(&mut random, &format!("{publisher}:{number}")) {
            Some(_) => published.acknowledged.push(number),
            None => published.doubtful += 1,
        }
        let pause = random.within(PUBLISH_MS) as u64;
        thread::sleep(Duration::from_millis(pause));
    }
    published
}

/// A client that changes servers and resumes from its last id.
struct Reader<'a> {
    world: &'a World,
    id: String,
    /// The last event received, and whether a gap was reported since.
    last: Place,
    is_warned: bool,
    /// Ranges of positions that were passed without an event. Only presence records may be stored
    /// there.
    passed: Vec<(Place, Place)>,
    read: u64,
    gaps: u64,
    /// Number of gaps after which events were repeated.
    repeated: u64,
    connects: u64,
}

impl Reader<'_> {
    /// Reads up to the last event.
    fn run(mut self, mut random: Random) -> Self {
        loop {
            let give_up = self.world.give_up.get();
            assert!(
                give_up.is_none_or(|at| Instant::now() < *at),
                "the end does not come to a reader at {:?}",
                self.last
            );
            let stream = self.world.connect(&mut random).and_then(|connection| {
                Stream::try_open(connection, "/events", Some(&self.id)).ok()
            });
            let Some(mut stream) = stream else {
                thread::sleep(RETRY);
                continue;
            };
            self.connects += 1;
            let stay = Duration::from_millis(random.within(STAY_MS) as u64);
            let leaves = Instant::now() + stay;
            loop {
                match stream.try_next(LOOK) {
                    Some(Item::Event(event)) => {
                        if self.take(&event) {
                            return self;
                        }
                    }
                    Some(Item::Position(id)) => {
                        let is_where_it_was = place(&id) == self.last;
                        assert!(
                            is_where_it_was || self.is_warned || self.pass_to(place(&id)),
                            "from {:?} to {id} without a word",
                            self.last
                        );
                        self.id = id;
                    }
                    Some(Item::End(_)) => break,
                    Some(Item::Comment(_) | Item::Retry(_)) | None => {}
                }
                if Instant::now() >= leaves {
                    break;
                }
            }
        }
    }

    /// Returns true if only presence records can be stored before this position. The end of the run
    /// verifies this.
    fn pass_to(&mut self, place: Place) -> bool {
        if place != (self.last.0, self.last.1 + 1) {
            self.passed.push((self.last, place));
        }
        place.0 == self.last.0 && place.1 > self.last.1
    }

    /// Returns true if this was the last event.
    fn take(&mut self, event: &Event) -> bool {
        if let Some(id) = &event.id {
            self.id.clone_from(id);
        }
        if event.name == "gap" {
            self.gaps += 1;
            self.is_warned = true;
            return false;
        }
        let found = place(event.id.as_deref().expect("events have ids"));
        assert!(
            self.is_warned || self.pass_to(found),
            "{found:?} after {:?} without a word",
            self.last
        );
        // A server that lags behind sends the next events that it reads. The client may have
        // received them from another server.
        self.repeated += u64::from(found <= self.last);
        let numbered = event
            .data
            .split_once(':')
            .and_then(|(publisher, number)| Some((publisher.parse().ok()?, number.parse().ok()?)));
        let before = lock(&self.world.seen).insert(found, numbered);
        assert!(
            before.is_none_or(|before| before == numbered),
            "two events at {found:?}"
        );
        (self.last, self.is_warned) = (found, false);
        self.read += 1;
        event.data == "end"
    }
}

fn each_event_is_read_once_whatever_is_killed(log: LogServer) {
    play(Log::One(log));
}

fn play(log: Log) {
    let kind = log.kind();
    let seed = Random::seed_from_environment();
    let mut random = Random::new(seed);
    let world = World::new();
    let mut cluster = Cluster {
        ways: (0..NODES).map(|_| log.way()).collect(),
        log,
        servers: (0..NODES).map(|_| None).collect(),
        world: &world,
        done: BTreeMap::new(),
    };
    for at in 0..NODES {
        cluster.start(at);
    }
    let first = world.publish(&mut random, "start");
    let id = first.expect("everything is there");
    let begun = Instant::now();
    let (published, readers) = thread::scope(|scope| {
        let world = &world;
        let _over = Over(world);
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let random = Random::new(random.bits());
                scope.spawn(move || publish_numbers(world, publisher, random))
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let random = Random::new(random.bits());
                let reader = Reader {
                    world,
                    id: id.clone(),
                    last: place(&id),
                    is_warned: false,
                    passed: Vec::new(),
                    read: 0,
                    gaps: 0,
                    repeated: 0,
                    connects: 0,
                };
                scope.spawn(move || {
                    // Counts down even if the thread panics.
                    let _left = Left(world);
                    reader.run(random)
                })
            })
            .collect();
        while begun.elapsed() < Duration::from_secs(seconds()) {
            let pause = random.within(PAUSE_MS) as u64;
            thread::sleep(Duration::from_millis(pause));
            cluster.fail(&mut random);
        }
        world.is_over.store(true, Ordering::Relaxed);
        let published: Vec<_> = publishers
            .into_iter()
            .map(|publisher| publisher.join().expect("it does not fail"))
            .collect();
        for server in cluster.servers.iter().flatten() {
            wait_ready(server, 200);
        }
        world
            .give_up
            .get_or_init(|| Instant::now() + 2 * deadline());
        // Publishes again for a reader whose gap covered the last event.
        while world.readers_left.load(Ordering::Relaxed) > 0 {
            world.publish(&mut random, "end");
            thread::sleep(Duration::from_millis(200));
        }
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader has what it must have"))
            .collect();
        (published, readers)
    });
    let mut in_log: Vec<_> = lock(&world.seen).drain().collect();
    in_log.sort_unstable();
    for (publisher, published) in published.iter().enumerate() {
        let own = in_log.iter().filter_map(|(_, numbered)| *numbered);
        let own: Vec<u64> = own.filter(|it| it.0 == publisher).map(|it| it.1).collect();
        let mut once = own.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), own.len(), "nothing is doubled");
        let mut rest = own.iter();
        let lost = published
            .acknowledged
            .iter()
            .find(|number| !rest.any(|own| own == *number));
        assert_eq!(lost, None, "of publisher {publisher}, lost or out of order");
    }
    for (from, to) in readers.iter().flat_map(|reader| &reader.passed) {
        let missed = in_log.iter().find(|(at, _)| from < at && at < to);
        assert_eq!(
            missed, None,
            "a reader came from {from:?} to {to:?} without a gap"
        );
    }
    let sum = |count: fn(&Reader<'_>) -> u64| readers.iter().map(count).sum::<u64>();
    let result = json!({
        "test": format!("chaos-{kind}"),
        "seed": seed,
        "seconds": begun.elapsed().as_secs(),
        "servers": NODES,
        "failures": cluster.done,
        "acknowledged": published.iter().map(|it| it.acknowledged.len()).sum::<usize>(),
        "refused_or_unknown": published.iter().map(|it| it.doubtful).sum::<u64>(),
        "read": sum(|reader| reader.read),
        "gaps": sum(|reader| reader.gaps),
        "gaps_that_repeat": sum(|reader| reader.repeated),
        "connections": sum(|reader| reader.connects),
    });
    println!("{result:#}");
    if let Ok(folder) = std::env::var("FERMATA_TEST_RESULTS") {
        let file = Path::new(&folder).join(format!("chaos-{kind}.json"));
        std::fs::write(file, format!("{result:#}\n")).expect("a folder for results");
    }
}

/// Counts down the number of running readers when dropped, even in a panic.
struct Left<'a>(&'a World);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.readers_left.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends the run when dropped, even in a panic: publishers and readers stop when the thread that
/// causes faults panics.
struct Over<'a>(&'a World);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.give_up.get_or_init(Instant::now);
    }
}

fn place(id: &str) -> Place {
    let (epoch, seq) = id.split_once('-').expect("an epoch and a number");
    let number = |text| u64::from_str_radix(text, 36).expect("a number in base 36");
    (number(epoch), number(seq))
}

fn seconds() -> u64 {
    let given = std::env::var("FERMATA_TEST_SECONDS");
    given.ok().and_then(|it| it.parse().ok()).unwrap_or(SECONDS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
