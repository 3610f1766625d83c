//! Connections that move from one worker to another. Over real sockets: what the fake network hands out is no
//! descriptor that another process could be given.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use fermata_io::handover::Inbox;
use fermata_io::sys::fake::hand_over_lost;
use fermata_io::{Backend, Deadline, Driver, Kernel, Peer};

use super::client::answers;
use super::{get, parts, rings, settings};
use crate::admin::stats::Shared;
use crate::{Event, Worker};

/// Turns after which what has to happen never will. One takes a millisecond at most.
const TURNS_MAX: usize = 50_000;

/// A handler that runs longer than this has its answer sent in the middle of the turn.
const LONG_MS: u64 = 10;

/// Two workers of a server, in one process.
struct Pair {
    workers: [Worker<Kernel>; 2],
    inboxes: Arc<Vec<Inbox>>,
    stats: Shared,
    /// The queries that each has answered.
    seen: [Vec<String>; 2],
}

impl Pair {
    /// `None` where the machine forbids the backend.
    fn new(backend: Backend) -> Option<Pair> {
        if let (Backend::IoUring, Err(error)) = (backend, Kernel::open(backend)) {
            println!("not run: io_uring: {error}");
            return None;
        }
        let settings = settings();
        let stats = Shared::private();
        let inboxes = Arc::new(vec![inbox(), inbox()]);
        let worker = |slot, ring| {
            let mut parts = parts(settings.clone(), slot, Vec::new(), ring);
            parts.stats = stats;
            parts.inboxes = Arc::clone(&inboxes);
            let kernel = Kernel::open(backend).expect("it has just been opened");
            Worker::new(kernel, parts).expect("everything can be watched")
        };
        let [first, second] = rings(&settings);
        Some(Pair {
            workers: [worker(0, first), worker(1, second)],
            inboxes,
            stats,
            seen: [Vec::new(), Vec::new()],
        })
    }

    /// A client of the first worker.
    fn connect(&mut self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).expect("it is open");
        }
        self.workers[0].adopt(theirs.into_raw_fd(), Peer::Unix);
        ours
    }

    /// A client of the first worker that is there to stay.
    fn settled(&mut self) -> UnixStream {
        let mut client = self.connect();
        ask(&mut client, "settled");
        let mut got = Vec::new();
        self.run(|_, _| {}, |_| has_read(&mut client, &mut got, 1));
        client
    }

    /// Both workers take turns until all is as it should be. `during` is run while a handler does.
    fn run(
        &mut self,
        mut during: impl FnMut(&mut Worker<Kernel>, &str),
        mut is_done: impl FnMut(&Pair) -> bool,
    ) {
        for _ in 0..TURNS_MAX {
            for at in 0..2 {
                self.turn(at, &mut during);
            }
            if is_done(self) {
                return;
            }
        }
        panic!("it does not come; answered: {:?}", self.seen);
    }

    fn turn(&mut self, at: usize, during: &mut impl FnMut(&mut Worker<Kernel>, &str)) {
        let worker = &mut self.workers[at];
        // Nothing to do is no reason to sleep here: the other one has its turn.
        worker
            .waiting
            .wake_at(Deadline::after(worker.net.driver.now_ms(), 1));
        loop {
            worker.begin_poll();
            match worker.poll_event() {
                Some(Event::Request) => {}
                Some(Event::Wake) => {
                    worker
                        .waiting
                        .wake_at(Deadline::after(worker.net.driver.now_ms(), 1));
                    continue;
                }
                Some(other) => panic!("{other:?} of a request"),
                None => return,
            }
            let handle = worker.request().handle();
            let query = worker.request().query().unwrap_or_default().to_vec();
            let query = String::from_utf8(query).expect("it is ours");
            during(worker, &query);
            worker
                .respond(handle, 200, None, std::iter::empty(), query.as_bytes())
                .expect("it was handed out just now");
            self.seen[at].push(query);
        }
    }

    fn settled_counts(&self) -> [u64; 2] {
        [0, 1].map(|slot| self.stats.settled(slot))
    }
}

fn inbox() -> Inbox {
    Inbox::new().expect("descriptors are left")
}

fn ask(client: &mut UnixStream, query: &str) {
    let request = get(&format!("/hello?{query}"));
    client.write_all(&request).expect("it has room");
}

/// Reads what has come, and whether that is so many answers.
fn has_read(client: &mut UnixStream, got: &mut Vec<u8>, count: usize) -> bool {
    match client.read_to_end(got) {
        Ok(_) => panic!("it has ended after {} answers", answers(got, &[]).len()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) => panic!("{error}"),
    }
    answers(got, &[]).iter().filter(|it| it.is_whole).count() >= count
}

fn bodies(got: &[u8]) -> Vec<String> {
    let text = |body| String::from_utf8(body).expect("it is ours");
    answers(got, &[])
        .into_iter()
        .map(|it| text(it.body))
        .collect()
}

/// Runs a test over both kernel interfaces.
fn over_each(test: impl Fn(&mut Pair)) {
    for backend in [Backend::Epoll, Backend::IoUring] {
        if let Some(mut pair) = Pair::new(backend) {
            println!("{backend}");
            test(&mut pair);
        }
    }
}

#[test]
fn a_request_that_comes_at_the_hand_over_is_answered_once() {
    over_each(|pair| {
        let _settled = pair.settled();
        let mut client = pair.connect();
        let mut next = client.try_clone().expect("descriptors are left");
        ask(&mut client, "1");
        let mut got = Vec::new();
        let during = |_: &mut Worker<Kernel>, query: &str| {
            // Behind what the worker has read, and before the answer after which the connection moves.
            if query == "1" {
                ask(&mut next, "2");
            }
        };
        pair.run(during, |_| has_read(&mut client, &mut got, 2));
        ask(&mut client, "3");
        pair.run(|_, _| {}, |_| has_read(&mut client, &mut got, 3));
        assert_eq!(bodies(&got), ["1", "2", "3"]);
        assert_eq!(pair.seen.concat().len(), 4, "{:?}", pair.seen);
        assert_eq!(pair.settled_counts().iter().sum::<u64>(), 2);
    });
}

#[test]
fn pipelined_requests_are_answered_where_they_were_read_and_the_next_one_elsewhere() {
    over_each(|pair| {
        let settled = pair.settled();
        let mut client = pair.connect();
        let pipelined = [get("/hello?1"), get("/hello?2")].concat();
        client.write_all(&pipelined).expect("it has room");
        let mut got = Vec::new();
        // Its answer goes out while the second request waits in the worker's input.
        let during = |worker: &mut Worker<Kernel>, query: &str| {
            let begin_ms = worker.net.driver.unix_ms();
            while query == "1" && worker.net.driver.unix_ms() < begin_ms + LONG_MS {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        pair.run(during, |_| has_read(&mut client, &mut got, 2));
        ask(&mut client, "3");
        pair.run(|_, _| {}, |_| has_read(&mut client, &mut got, 3));
        assert_eq!(bodies(&got), ["1", "2", "3"]);
        assert_eq!(pair.seen[0], ["settled", "1", "2"]);
        assert_eq!(pair.seen[1], ["3"]);
        assert_eq!(pair.settled_counts(), [1, 1]);
        drop((client, settled));
        pair.run(|_, _| {}, |pair| pair.settled_counts() == [0, 0]);
    });
}

#[test]
fn a_connection_that_arrives_without_its_descriptor_is_not_counted_for_ever() {
    over_each(|pair| {
        // As whoever hands it over does.
        pair.stats.add_settled(1);
        hand_over_lost(&pair.inboxes[1]).expect("it has room");
        pair.run(|_, _| {}, |pair| pair.settled_counts() == [0, 0]);
    });
}

#[test]
fn a_connection_for_a_worker_that_has_retired_meanwhile_is_served_by_the_one_that_had_it() {
    over_each(|pair| {
        let mut client = pair.settled();
        let index = pair.workers[0].net.connections.indexes()[0];
        // Chosen as the taker a moment ago; its replacement, too, has looked into this inbox by now.
        pair.workers[1].begin_drain(true);
        let Worker { net, http, .. } = &mut pair.workers[0];
        assert!(net.hand_over(http, index, 1));
        ask(&mut client, "next");
        let mut got = Vec::new();
        for _ in 0..TURNS_MAX {
            pair.turn(0, &mut |_, _| {});
            if has_read(&mut client, &mut got, 1) {
                break;
            }
        }
        assert_eq!(bodies(&got), ["next"]);
        assert_eq!(pair.stats.settled(0), 1);
    });
}

#[test]
fn a_worker_takes_at_its_start_what_one_that_has_ended_has_left() {
    over_each(|pair| {
        let mut client = pair.settled();
        let index = pair.workers[0].net.connections.indexes()[0];
        // The master looks for somebody who takes it before the first worker does.
        pair.stats.set_takes(0, false);
        let Worker { net, http, .. } = &mut pair.workers[0];
        assert!(net.hand_over(http, index, 1));
        pair.stats.worker_ended(1, 1, true);
        pair.stats.set_takes(0, true);
        pair.workers[0].net.inherit(&[]);
        ask(&mut client, "next");
        let mut got = Vec::new();
        for _ in 0..TURNS_MAX {
            pair.turn(0, &mut |_, _| {});
            if has_read(&mut client, &mut got, 1) {
                break;
            }
        }
        assert_eq!(bodies(&got), ["next"]);
    });
}
