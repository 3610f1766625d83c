//! Records every publish and read while servers and their log fail, and checks the history at the end.
//!
//! In addition to kills, stops and network cuts (`chaos`), the log is restored from an older copy of its folder, as after a
//! power loss, and deleted by an operator. So the checker knows which events may be lost: those acknowledged between the copy
//! and its restoration, or before a deletion. Everything else must hold without exception:
//!
//! - *acknowledged, lost*: events acknowledged at other times are in the log at the end;
//! - *doubled*: an event has one position in an epoch of the log, and a connected client receives it once between two gaps;
//! - *order*: positions ascend for each client, and with the numbers of each publisher's acknowledged events;
//! - *phantom*: every event read was published;
//! - *silent miss*: no event lies between two positions that a client received in succession without a gap;
//! - *reuse of an id*: an id belongs to one event;
//! - *past as news*: a client without an id receives no event acknowledged well before it connected;
//! - *needless gap*: a connected client receives a gap only if the log has lost events;
//! - *presence*: when all clients have disconnected, no user is present.
//!
//! `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer, `FERMATA_TEST_FAULTS` names the faults (separated
//! by commas) instead of all, `FERMATA_TEST_RESULTS` names a folder for a report.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::sse::{Item, Stream};
use fermata_testkit::{
    Connection, Directory, LogServer, Random, Relay, Server, Signal, over_each_log, send_signal,
    wait_until,
};
use fermata_tests::health::readiness;
use fermata_tests::json;
use serde_json::json as value;

use crate::node::{PATIENT_MS, bridge_pid, node_at, wait_ready};
use crate::presence::members;

over_each_log!(the_history_of_a_cluster_whose_log_goes_back_has_no_fault);

const SECONDS: u64 = 15;
/// Duration in seconds above which a run may exceed the log's size, so that the log drops its oldest events.
const LONG_SECONDS: u64 = 120;
const NODES: usize = 3;
const PUBLISHERS: usize = 3;
/// Number of clients that connect without an id, and number of clients that resume from their last id.
const NEWCOMERS: usize = 3;
const RETURNERS: usize = 3;
const PUBLISH_MS: Range<usize> = 1..15;
const PAUSE_MS: Range<usize> = 100..700;
const AWAY_MS: Range<usize> = 0..1_000;
const STAY_MS: Range<usize> = 100..4_000;
const LOOK: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_millis(20);
/// Maximum age of acknowledged events that the log may not have written when its folder is copied.
const UNWRITTEN: Duration = Duration::from_secs(2);
/// Maximum time until a server detects a loss.
const NOTICE: Duration = Duration::from_secs(30);
/// Maximum lag of a server behind the log. Clients of a lagging server may connect before older
/// events arrive.
const BEHIND: Duration = Duration::from_secs(6);
/// Number of a client's steps that the description of a fault contains.
const STEPS_TOLD: usize = 12;
/// Number of events that history retains, more than a run publishes.
const HISTORY: usize = 200_000;

const FAULTS: [&str; 9] = [
    "bridge killed",
    "bridge stopped",
    "log deleted",
    "log killed",
    "log rolled back",
    "log stopped",
    "network cut",
    "server killed",
    "worker killed",
];

/// A position in the log: its epoch and the sequence number in it.
type Place = (u64, u64);
/// An event: its publisher and the publisher's sequence number.
type Numbered = (usize, u64);

/// A recorded step of a run.
#[derive(Debug)]
enum Step {
    /// A client has connected; `is_ready` is true if the server was ready.
    Opened {
        server: usize,
        is_ready: bool,
        has_id: bool,
    },
    Position(Place),
    Read(Place, Numbered),
    Gap,
}

/// The steps of one client, in order.
type Seen = Vec<(Instant, Step)>;

/// An acknowledged event with the times of its publish and of the acknowledgement.
struct Acknowledged {
    event: Numbered,
    place: Place,
    began: Instant,
    ended: Instant,
}

struct World {
    addresses: Mutex<Vec<Option<SocketAddr>>>,
    ready: Vec<AtomicBool>,
    is_over: AtomicBool,
    /// Events sent to a server, acknowledged or not.
    sent: Mutex<HashMap<Numbered, Instant>>,
}

impl World {
    fn server(&self, random: &mut Random) -> Option<(usize, SocketAddr)> {
        let at = random.within(0..NODES);
        Some((at, lock(&self.addresses)[at]?))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

fn publish_numbers(world: &World, publisher: usize, mut random: Random) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if world.is_over() {
            break;
        }
        let event = (publisher, number);
        let began = Instant::now();
        lock(&world.sent).insert(event, began);
        let connection = world.server(&mut random);
        let connection = connection.and_then(|(_, at)| Connection::try_open(at).ok());
        let data = format!("{publisher}:{number}");
        let response = connection.and_then(|mut connection| {
            let sent = connection.try_request("POST", "/publish/news", &[], data.as_bytes());
            sent.ok().filter(|response| response.status() == 200)
        });
        if let Some(response) = response {
            acknowledged.push(Acknowledged {
                event,
                place: place(response.text()),
                began,
                ended: Instant::now(),
            });
        }
        thread::sleep(Duration::from_millis(random.within(PUBLISH_MS) as u64));
    }
    acknowledged
}

/// Runs a client that changes servers and identifies itself as `user`.
fn read(world: &World, user: &str, is_newcomer: bool, mut random: Random) -> Seen {
    let (mut steps, mut id) = (Vec::new(), None::<String>);
    while !world.is_over() {
        let Some((server, address)) = world.server(&mut random) else {
            thread::sleep(RETRY);
            continue;
        };
        let since = id.clone().filter(|_| !is_newcomer);
        let path = format!("/events?user={user}&silent=1");
        let is_ready = world.ready[server].load(Ordering::Relaxed);
        let opened = Instant::now();
        let stream = Connection::try_open(address).ok();
        let stream = stream.and_then(|it| Stream::try_open(it, &path, since.as_deref()).ok());
        let Some(mut stream) = stream else {
            thread::sleep(RETRY);
            continue;
        };
        let has_id = since.is_some();
        let step = Step::Opened {
            server,
            is_ready,
            has_id,
        };
        steps.push((opened, step));
        let leaves = opened + Duration::from_millis(random.within(STAY_MS) as u64);
        while Instant::now() < leaves && !world.is_over() {
            let step = match stream.try_next(LOOK) {
                Some(Item::Event(event)) if event.name == "gap" => Step::Gap,
                Some(Item::Event(event)) => {
                    let own = event.id.clone().expect("events have ids");
                    let read = Step::Read(place(&own), numbered(&event.data));
                    id = Some(own);
                    read
                }
                Some(Item::Position(own)) => {
                    let at = place(&own);
                    id = Some(own);
                    Step::Position(at)
                }
                Some(Item::End(_)) => break,
                Some(Item::Comment(_) | Item::Retry(_)) | None => continue,
            };
            steps.push((Instant::now(), step));
        }
    }
    steps
}

/// The log lost events acknowledged between two times. Servers detect the loss some time after
/// `until`.
struct Loss {
    from: Instant,
    until: Instant,
}

struct Cluster<'a> {
    log: LogServer,
    ways: Vec<Relay>,
    servers: Vec<Option<Server>>,
    world: &'a World,
    older: Option<(Instant, Directory)>,
    begun: Instant,
    losses: Vec<Loss>,
    done: BTreeMap<&'static str, u32>,
}

impl Cluster<'_> {
    fn start(&mut self, at: usize) {
        let server = node_at("hub", &self.ways[at].url())
            .setting("publish_wait_ms_max", PATIENT_MS)
            .setting("cluster_bytes_max", "64m")
            .setting("leave_delay_ms", 50)
            .setting("cluster_lease_ms", 3_000)
            .setting("history_count_max", HISTORY)
            .setting("history_bytes_max", "64m")
            .setting("cluster_events_max", HISTORY)
            .workers(2)
            .start();
        lock(&self.world.addresses)[at] = Some(server.address());
        self.servers[at] = Some(server);
    }

    fn fail(&mut self, random: &mut Random) {
        let at = random.within(0..NODES);
        let faults: Vec<&'static str> = FAULTS.into_iter().filter(|it| is_wanted(it)).collect();
        let fault = *random.choose(&faults);
        let away = Duration::from_millis(random.within(AWAY_MS) as u64);
        *self.done.entry(fault).or_default() += 1;
        println!(
            "{:.3} {fault} {at}, away for {away:?}",
            self.begun.elapsed().as_secs_f64()
        );
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
            "network cut" => {
                self.ways[at].cut();
                thread::sleep(away);
                self.ways[at].heal();
            }
            "server killed" => {
                lock(&self.world.addresses)[at] = None;
                self.world.ready[at].store(false, Ordering::Relaxed);
                self.servers[at] = None;
                thread::sleep(away);
                self.start(at);
            }
            "log killed" => {
                self.log.kill();
                thread::sleep(away);
                self.log.restart();
            }
            "log stopped" => {
                self.log.pause();
                thread::sleep(away);
                self.log.resume();
            }
            "log deleted" => {
                self.log.delete_log("fermata");
                self.lose(self.begun);
                self.older = None;
            }
            _ => match self.older.take() {
                None => {
                    let now = Instant::now();
                    self.older = Some((now, self.log.save()));
                }
                Some((saved, older)) => {
                    self.log.roll_back(&older);
                    let from = saved.checked_sub(UNWRITTEN).unwrap_or(saved);
                    self.lose(from);
                }
            },
        }
    }

    fn lose(&mut self, from: Instant) {
        let until = Instant::now();
        println!("{:.3} lost", self.begun.elapsed().as_secs_f64());
        self.losses.push(Loss { from, until });
        // Wait long enough that the loss is detected before the next one, because two close losses count as one.
        thread::sleep(Duration::from_millis(500));
    }

    /// Updates the list of ready servers, which clients read.
    fn look(&self) {
        for (at, server) in self.servers.iter().enumerate() {
            let is_ready = server.as_ref().is_some_and(|it| readiness(it) == 200);
            self.world.ready[at].store(is_ready, Ordering::Relaxed);
        }
    }
}

fn the_history_of_a_cluster_whose_log_goes_back_has_no_fault(log: LogServer) {
    let kind = match &log {
        LogServer::Nats(_) => "nats",
        LogServer::Redis(_) => "redis",
    };
    let seed = Random::seed_from_environment();
    let mut random = Random::new(seed);
    let world = World {
        addresses: Mutex::new(vec![None; NODES]),
        ready: (0..NODES).map(|_| AtomicBool::new(false)).collect(),
        is_over: AtomicBool::new(false),
        sent: Mutex::default(),
    };
    let begun = Instant::now();
    let mut cluster = Cluster {
        ways: (0..NODES).map(|_| Relay::start(&log)).collect(),
        log,
        servers: (0..NODES).map(|_| None).collect(),
        world: &world,
        older: None,
        begun,
        losses: Vec::new(),
        done: BTreeMap::new(),
    };
    for at in 0..NODES {
        cluster.start(at);
    }
    for server in cluster.servers.iter().flatten() {
        wait_ready(server, 200);
    }
    cluster.look();
    let (acknowledged, seen) = thread::scope(|scope| {
        let world = &world;
        let _over = Over(world);
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let random = Random::new(random.bits());
                scope.spawn(move || publish_numbers(world, publisher, random))
            })
            .collect();
        let readers: Vec<_> = (0..NEWCOMERS + RETURNERS)
            .map(|reader| {
                let random = Random::new(random.bits());
                let user = format!("user{reader}");
                scope.spawn(move || read(world, &user, reader < NEWCOMERS, random))
            })
            .collect();
        while begun.elapsed() < Duration::from_secs(seconds()) {
            let pause = random.within(PAUSE_MS) as u64;
            thread::sleep(Duration::from_millis(pause));
            cluster.fail(&mut random);
            cluster.look();
        }
        for server in cluster.servers.iter().flatten() {
            wait_ready(server, 200);
        }
        // By now each client has received the published events or a gap.
        thread::sleep(Duration::from_secs(2));
        world.is_over.store(true, Ordering::Relaxed);
        let acknowledged = publishers.into_iter().flat_map(|publisher| {
            let published = publisher.join();
            published.expect("a publisher does not fail")
        });
        let acknowledged: Vec<Acknowledged> = acknowledged.collect();
        let seen = readers.into_iter().map(|it| it.join().expect("it reads"));
        (acknowledged, seen.collect::<Vec<Seen>>())
    });
    for server in cluster.servers.iter().flatten() {
        wait_ready(server, 200);
        wait_until("nobody is present", || {
            members(server).filter(Vec::is_empty).map(|_| ())
        });
    }
    // A restarted server has the content of the log.
    cluster.servers[0] = None;
    cluster.start(0);
    let fresh = cluster.servers[0].as_ref().expect("it was started");
    wait_ready(fresh, 200);
    let mut connection = fresh.connect();
    let response = connection.get(&format!("/history/news?count={HISTORY}"));
    let kept = json(&response);
    let kept = kept.as_array().expect("a list").iter();
    let kept: Vec<(Place, Numbered)> = kept
        .map(|it| {
            let text = |at: usize| it[at].as_str().expect("a text");
            (place(text(0)), numbered(text(2)))
        })
        .collect();
    let history = History {
        begun,
        sent: lock(&world.sent).drain().collect(),
        acknowledged,
        seen,
        kept,
        losses: std::mem::take(&mut cluster.losses),
    };
    let faults = history.faults();
    let steps = history.seen.iter().map(Vec::len).sum::<usize>();
    let result = value!({
        "test": format!("checked-{kind}"),
        "seed": seed,
        "seconds": begun.elapsed().as_secs(),
        "servers": NODES,
        "failures": cluster.done,
        "losses": history.losses.len(),
        "acknowledged": history.acknowledged.len(),
        "kept": history.kept.len(),
        "steps_of_clients": steps,
        "gaps": history.gaps(),
        "faults": faults,
    });
    println!("{result:#}");
    if let Ok(folder) = std::env::var("FERMATA_TEST_RESULTS") {
        let file = Path::new(&folder).join(format!("checked-{kind}.json"));
        std::fs::write(file, format!("{result:#}\n")).expect("a folder for results");
    }
    assert!(faults.is_empty(), "seed {seed}: {faults:#?}");
    assert!(history.acknowledged.len() > 20, "something was published");
}

/// The recorded history of a run.
struct History {
    begun: Instant,
    sent: HashMap<Numbered, Instant>,
    acknowledged: Vec<Acknowledged>,
    seen: Vec<Seen>,
    /// The content of the log at the end.
    kept: Vec<(Place, Numbered)>,
    losses: Vec<Loss>,
}

impl History {
    fn gaps(&self) -> usize {
        let steps = self.seen.iter().flatten();
        steps.filter(|(_, step)| matches!(step, Step::Gap)).count()
    }

    fn at(&self, moment: Instant) -> f64 {
        moment.duration_since(self.begun).as_secs_f64()
    }

    /// Returns every violation, as one sentence each.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let places = self.check_ids(&mut faults);
        self.check_kept(&mut faults);
        self.check_publishers(&mut faults);
        for (at, seen) in self.seen.iter().enumerate() {
            self.check_client(at, seen, &places, &mut faults);
        }
        faults
    }

    /// Checks for reused ids, phantom events and duplicates. Returns the events by position.
    fn check_ids(&self, faults: &mut Vec<String>) -> BTreeMap<Place, Numbered> {
        let acknowledged = self.acknowledged.iter().map(|it| (it.place, it.event));
        let steps = self.seen.iter().flatten();
        let read = steps.filter_map(|(_, step)| match step {
            Step::Read(place, event) => Some((*place, *event)),
            _ => None,
        });
        let (mut places, mut found) = (BTreeMap::new(), HashMap::new());
        for (place, event) in acknowledged.chain(read).chain(self.kept.iter().copied()) {
            if !self.sent.contains_key(&event) {
                faults.push(format!("phantom: {event:?} at {place:?} was not published"));
            }
            let before = places.insert(place, event);
            if let Some(before) = before.filter(|before| *before != event) {
                faults.push(format!(
                    "reuse of an id: {place:?} is {before:?} and {event:?}"
                ));
            }
            let before = found.insert((place.0, event), place.1);
            if let Some(before) = before.filter(|before| *before != place.1) {
                faults.push(format!(
                    "doubled: {event:?} is at {place:?} and at {before}"
                ));
            }
        }
        places
    }

    /// Returns true if the log has lost events acknowledged between two times.
    fn may_be_lost(&self, from: Instant, until: Instant) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|loss| loss.from <= until && from <= loss.until)
    }

    /// Checks that acknowledged events are stored.
    fn check_kept(&self, faults: &mut Vec<String>) {
        let kept: HashSet<Numbered> = self.kept.iter().map(|it| it.1).collect();
        // In a long run the log drops its oldest events, so only later ones can be checked.
        let oldest = self.kept.first().filter(|_| seconds() > LONG_SECONDS);
        let oldest = oldest.and_then(|(_, event)| self.sent.get(event));
        for it in &self.acknowledged {
            let is_removed = oldest.is_some_and(|oldest| it.ended < *oldest);
            if !is_removed && !kept.contains(&it.event) && !self.may_be_lost(it.began, it.ended) {
                faults.push(format!(
                    "acknowledged, lost: {:?} at {:?}, acknowledged after {:.3} s",
                    it.event,
                    it.place,
                    self.at(it.ended)
                ));
            }
        }
    }

    /// Checks that events of a publisher are stored in its order.
    fn check_publishers(&self, faults: &mut Vec<String>) {
        let mut last: HashMap<(usize, u64), &Acknowledged> = HashMap::new();
        for it in &self.acknowledged {
            let key = (it.event.0, it.place.0);
            if let Some(before) = last.insert(key, it)
                && before.place.1 >= it.place.1
            {
                faults.push(format!(
                    "order: {:?} at {:?} and {:?} at {:?}",
                    before.event, before.place, it.event, it.place
                ));
            }
        }
    }

    fn check_client(
        &self,
        client: usize,
        seen: &[(Instant, Step)],
        places: &BTreeMap<Place, Numbered>,
        faults: &mut Vec<String>,
    ) {
        let ended: HashMap<Numbered, Instant> = self
            .acknowledged
            .iter()
            .map(|it| (it.event, it.ended))
            .collect();
        let mut last = None::<Place>;
        let mut had = HashSet::new();
        let (mut opened, mut is_excused, mut is_warned) = (self.begun, true, false);
        let (mut at_server, mut has_id) = (0, false);
        for (at, (when, step)) in seen.iter().enumerate() {
            let mut blame = |when: Instant, text: String| {
                faults.push(format!(
                    "client {client} of server {at_server} after {:.3} s: {text}; before it:{}",
                    self.at(when),
                    self.steps_before(&seen[..=at])
                ));
            };
            match step {
                Step::Opened {
                    server,
                    is_ready,
                    has_id: with_id,
                } => {
                    (at_server, opened) = (*server, *when);
                    (is_excused, has_id) = (!is_ready, *with_id);
                    if !has_id {
                        last = None;
                        is_warned = false;
                        had.clear();
                    }
                }
                Step::Position(place) => {
                    if let Some(last) = last.filter(|_| !is_warned) {
                        self.check_between(last, *place, places, &mut |text| blame(*when, text));
                    }
                    (last, is_warned) = (Some(*place), false);
                }
                Step::Gap => {
                    let is_due = self
                        .losses
                        .iter()
                        .any(|loss| loss.until + NOTICE >= *when && loss.from <= *when);
                    if !is_due && !is_excused {
                        blame(*when, format!("needless gap behind {last:?}"));
                    }
                    is_warned = true;
                    // Events whose acknowledgement was lost with the log are stored again.
                    had.clear();
                }
                Step::Read(place, event) => {
                    if let Some(last) = last.filter(|_| !is_warned) {
                        self.check_between(last, *place, places, &mut |text| blame(*when, text));
                    }
                    if !has_id && !had.insert(*event) {
                        blame(*when, format!("doubled: {event:?} at {place:?} once more"));
                    }
                    let old = ended.get(event).filter(|ended| **ended + BEHIND < opened);
                    if !has_id && old.is_some() {
                        blame(*when, format!("past as news: {event:?} at {place:?}"));
                    }
                    (last, is_warned) = (Some(*place), false);
                }
            }
        }
    }

    /// Returns the last steps of a client as text, for the description of a fault.
    fn steps_before(&self, seen: &[(Instant, Step)]) -> String {
        let last = seen.len().saturating_sub(STEPS_TOLD);
        let steps = seen[last..].iter();
        let steps = steps.map(|(when, step)| format!(" {:.3} {step:?}", self.at(*when)));
        steps.collect()
    }

    /// Checks order and silent misses between two positions that a client received in succession.
    fn check_between(
        &self,
        from: Place,
        to: Place,
        places: &BTreeMap<Place, Numbered>,
        blame: &mut dyn FnMut(String),
    ) {
        if from.0 != to.0 {
            return blame(format!("silent miss: from {from:?} to another log {to:?}"));
        }
        if to.1 < from.1 {
            return blame(format!("order: {to:?} behind {from:?}"));
        }
        let between = (from.0, from.1 + 1)..to;
        if from.1 < to.1
            && let Some((place, event)) = places.range(between).next()
        {
            blame(format!(
                "silent miss: {event:?} at {place:?} between {from:?} and {to:?}"
            ));
        }
    }
}

/// Ends the run when dropped, even in a panic.
struct Over<'a>(&'a World);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn numbered(data: &str) -> Numbered {
    let (publisher, number) = data.split_once(':').expect("PUBLISHER:NUMBER");
    let publisher = publisher.parse().expect("a number");
    (publisher, number.parse().expect("a number"))
}

fn place(id: &str) -> Place {
    let (epoch, seq) = id.split_once('-').expect("an epoch and a number");
    let number = |text| u64::from_str_radix(text, 36).expect("a number in base 36");
    (number(epoch), number(seq))
}

/// Returns true if a run causes this fault.
fn is_wanted(fault: &str) -> bool {
    let wanted = std::env::var("FERMATA_TEST_FAULTS");
    wanted.map_or(true, |wanted| wanted.split(',').any(|it| it == fault))
}

fn seconds() -> u64 {
    let given = std::env::var("FERMATA_TEST_SECONDS");
    given.ok().and_then(|it| it.parse().ok()).unwrap_or(SECONDS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
