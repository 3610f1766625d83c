//! Tests of connections that move between workers. They use real sockets: the fake network has no
//! descriptors that can be passed.

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

/// Maximum number of turns to wait for an outcome. A turn takes at most one millisecond.
const TURNS_MAX: usize = 50_000;

/// Handler time in milliseconds after which the response is sent within the turn.
const LONG_MS: u64 = 10;

/// Two workers of a server, in one process.
struct Pair {
    workers: [Worker<Kernel>; 2],
    inboxes: Arc<Vec<Inbox>>,
    stats: Shared,
    /// Queries that each worker has answered.
    seen: [Vec<String>; 2],
    /// The first worker is replaced after its first response, when this many of the pair's requests
    /// wait.
    replaces_at: Option<usize>,
}

impl Pair {
    /// Creates the workers; `None` if the machine forbids the backend.
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
            replaces_at: None,
        })
    }

    /// Connects a client to the first worker.
    fn connect(&mut self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).expect("it is open");
        }
        self.workers[0].adopt(theirs.into_raw_fd(), Peer::Unix);
        ours
    }

    /// Connects a keep-alive client to the first worker.
    fn settled(&mut self) -> UnixStream {
        let mut client = self.connect();
        ask(&mut client, "settled");
        let mut got = Vec::new();
        self.run(|_, _| {}, |_| has_read(&mut client, &mut got, 1));
        client
    }

    /// Runs both workers in turns until `is_done`. `during` runs inside handlers.
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
        // Do not sleep when idle, because the other worker has to run.
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
                Some(Event::Stop) => return,
                Some(other) => panic!("{other:?} of a request"),
                None => return,
            }
            let handle = worker.request().handle();
            let query = worker.request().query().unwrap_or_default().to_vec();
            let mut query = String::from_utf8(query).expect("it is ours");
            let body = worker.request().body().to_vec();
            query.push_str(&String::from_utf8(body).expect("it is ours"));
            during(worker, &query);
            worker
                .respond(handle, 200, None, std::iter::empty(), query.as_bytes())
                .expect("it was handed out just now");
            self.seen[at].push(query);
            let waiting = worker.http.starts.waiting_len();
            if at == 0 && self.replaces_at.is_some_and(|count| waiting >= count) {
                self.replaces_at = None;
                worker.replace();
            }
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

/// Reads available bytes; returns true if `count` responses have arrived.
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

/// Runs a test with both kernel interfaces.
fn over_each(test: impl Fn(&mut Pair)) {
    for backend in [Backend::Epoll, Backend::IoUring] {
        if let Some(mut pair) = Pair::new(backend) {
            println!("{backend}");
            test(&mut pair);
        }
    }
}

#[test]
fn answers_a_request_during_a_handover_once() {
    over_each(|pair| {
        let _settled = pair.settled();
        let mut client = pair.connect();
        let mut next = client.try_clone().expect("descriptors are left");
        ask(&mut client, "1");
        let mut got = Vec::new();
        let during = |_: &mut Worker<Kernel>, query: &str| {
            // Request 2 is sent after the worker has read request 1, and before it responds. The
            // connection moves after that response.
            if query == "1" {
                ask(&mut next, "2");
            }
        };
        pair.run(during, |_| has_read(&mut client, &mut got, 2));
        ask(&mut client, "3");
        pair.run(|_, _| {}, |_| has_read(&mut client, &mut got, 3));
        assert_eq!(bodies(&got), ["1", "2", "3"]);
        assert_eq!(pair.seen.concat().len(), 4, "{:?}", pair.seen);
        // The connection may still be on its way.
        let is_settled = |pair: &Pair| pair.settled_counts().iter().sum::<u64>() == 2;
        pair.run(|_, _| {}, is_settled);
    });
}

#[test]
fn answers_pipelined_requests_before_moving_the_connection() {
    // A worker that this process did not run for 50 ms receives no connections, so on a busy machine
    // the connection may stay.
    const ATTEMPTS_MAX: usize = 50;
    for backend in [Backend::Epoll, Backend::IoUring] {
        let mut attempts = (0..ATTEMPTS_MAX).filter_map(|_| Pair::new(backend));
        let is_there = Pair::new(backend).is_some();
        assert!(
            !is_there || attempts.any(|mut pair| moves_after_pipelined(&mut pair)),
            "{backend}: no connection was moved"
        );
    }
}

/// Sends two requests together and then a third. Returns true if the connection was moved.
fn moves_after_pipelined(pair: &mut Pair) -> bool {
    let settled = pair.settled();
    let mut client = pair.connect();
    let pipelined = [get("/hello?1"), get("/hello?2")].concat();
    client.write_all(&pipelined).expect("it has room");
    let mut got = Vec::new();
    // The response is sent while the second request waits in the worker's input.
    let during = |worker: &mut Worker<Kernel>, query: &str| {
        let begin_ms = worker.net.driver.unix_ms();
        while query == "1" && worker.net.driver.unix_ms() < begin_ms + LONG_MS {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    pair.run(during, |_| has_read(&mut client, &mut got, 2));
    // A request that arrived before the move would be answered by the first worker.
    let is_settled = |pair: &Pair| pair.settled_counts().iter().sum::<u64>() == 2;
    pair.run(|_, _| {}, is_settled);
    let is_moved = pair.settled_counts() == [1, 1];
    ask(&mut client, "3");
    pair.run(|_, _| {}, |_| has_read(&mut client, &mut got, 3));
    assert_eq!(bodies(&got), ["1", "2", "3"]);
    assert_eq!(pair.seen[0][..3], ["settled", "1", "2"]);
    assert_eq!(
        pair.seen[usize::from(is_moved)].last().map(String::as_str),
        Some("3")
    );
    assert_eq!(pair.seen.concat().len(), 4);
    drop((client, settled));
    pair.run(|_, _| {}, |pair| pair.settled_counts() == [0, 0]);
    is_moved
}

#[test]
fn uncounts_a_connection_that_arrives_without_its_descriptor() {
    over_each(|pair| {
        // The worker that hands over a connection counts it the same way.
        pair.stats.add_settled(1);
        hand_over_lost(&pair.inboxes[1]).expect("it has room");
        pair.run(|_, _| {}, |pair| pair.settled_counts() == [0, 0]);
    });
}

#[test]
fn takes_back_a_connection_whose_receiver_has_retired() {
    over_each(|pair| {
        let mut client = pair.settled();
        let index = pair.workers[0].net.connections.indexes()[0];
        // The worker was just selected as the receiver; its replacement has read this inbox too.
        pair.workers[1].begin_drain(true);
        let Worker { net, http, .. } = &mut pair.workers[0];
        assert!(net.hand_over(http, index, 1, b""));
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
fn inherits_connections_of_an_exited_worker() {
    over_each(|pair| {
        let mut client = pair.settled();
        let index = pair.workers[0].net.connections.indexes()[0];
        // The master looks for a receiver before the first worker does.
        pair.stats.set_takes(0, false);
        let Worker { net, http, .. } = &mut pair.workers[0];
        assert!(net.hand_over(http, index, 1, b""));
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

#[test]
fn moves_unstarted_requests_when_a_worker_is_replaced() {
    over_each(|pair| {
        let mut clients: Vec<UnixStream> = (0..4).map(|_| pair.connect()).collect();
        let [pipelined, first, split, chunked] = &mut clients[..] else {
            panic!("there are four");
        };
        // Read together: the second request waits in the input while the first is handled.
        let both = [get("/hello?end"), get("/hello?2")].concat();
        pipelined.write_all(&both).expect("it has room");
        let mut rest = [
            first.try_clone().expect("descriptors are left"),
            split.try_clone().expect("descriptors are left"),
            chunked.try_clone().expect("descriptors are left"),
        ];
        first.write_all(b"GET /hello?3 HTT").expect("it has room");
        let head = "POST /echo?4 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n";
        split.write_all(head.as_bytes()).expect("it has room");
        split.write_all(b"ab").expect("it has room");
        let head = "POST /echo?5 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        chunked.write_all(head.as_bytes()).expect("it has room");
        chunked.write_all(b"2\r\nab\r\n").expect("it has room");
        pair.replaces_at = Some(0);
        let during = |_: &mut Worker<Kernel>, query: &str| {
            if query == "end" {
                let [first, split, chunked] = &mut rest;
                first
                    .write_all(b"P/1.1\r\nHost: a\r\n\r\n")
                    .expect("it has room");
                split.write_all(b"cdef").expect("it has room");
                chunked
                    .write_all(b"4\r\ncdef\r\n0\r\n\r\n")
                    .expect("it has room");
            }
        };
        let mut got = vec![Vec::new(); clients.len()];
        pair.run(during, |_| {
            let reads = clients.iter_mut().zip(&mut got).zip([2, 1, 1, 1]);
            reads.fold(true, |all, ((client, got), count)| {
                has_read(client, got, count) && all
            })
        });
        let got: Vec<_> = got.iter().map(|got| bodies(got)).collect();
        assert_eq!(
            got,
            [
                vec!["end".to_owned(), "2".to_owned()],
                vec!["3".to_owned()],
                vec!["4abcdef".to_owned()],
                vec!["5abcdef".to_owned()]
            ]
        );
        assert_eq!(pair.seen[0], ["end"]);
        let mut seen = pair.seen[1].clone();
        seen.sort();
        assert_eq!(seen, ["2", "3", "4abcdef", "5abcdef"]);
    });
}

#[test]
fn moves_a_waiting_request_when_its_worker_is_replaced() {
    over_each(|pair| {
        let mut clients: Vec<UnixStream> = (0..3).map(|_| pair.connect()).collect();
        let mut got = vec![Vec::new(); clients.len()];
        for (number, client) in clients.iter_mut().enumerate() {
            ask(client, &number.to_string());
        }
        // The route is slow, so the other requests wait before this handler returns.
        let mut begun = 0;
        let during = |_: &mut Worker<Kernel>, _: &str| {
            begun += 1;
            if begun == 1 {
                std::thread::sleep(Duration::from_millis(LONG_MS));
            }
        };
        pair.replaces_at = Some(1);
        pair.run(during, |_| {
            let reads = clients.iter_mut().zip(&mut got);
            reads.fold(true, |all, (client, got)| has_read(client, got, 1) && all)
        });
        for (number, got) in got.iter().enumerate() {
            assert_eq!(bodies(got), [number.to_string()]);
        }
        assert!(pair.seen[0].len() < 3, "{:?}", pair.seen);
        assert_eq!(pair.seen.concat().len(), 3);
        assert!(!pair.seen[1].is_empty());
    });
}

/// The kernel may have read more of a request than a worker's input buffer holds.
#[test]
fn answers_an_upload_that_begins_while_its_worker_is_replaced() {
    const UPLOAD_BYTES: usize = 150_000;
    over_each(|pair| {
        let mut idle = pair.settled();
        let mut upload = idle.try_clone().expect("descriptors are left");
        let mut last = pair.connect();
        ask(&mut last, "end");
        pair.replaces_at = Some(0);
        let head =
            format!("POST /echo?5 HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
        let bytes = [head.as_bytes(), &[b'x'; UPLOAD_BYTES]].concat();
        let sent = std::cell::Cell::new(0);
        let mut send = move || {
            while let Ok(written) = upload.write(&bytes[sent.get()..]) {
                sent.set(sent.get() + written);
                if written == 0 {
                    break;
                }
            }
        };
        let (mut got, mut end) = (Vec::new(), Vec::new());
        for turn in 0..TURNS_MAX {
            let mut during = |_: &mut Worker<Kernel>, query: &str| {
                if query == "end" {
                    send();
                }
            };
            for at in 0..2 {
                pair.turn(at, &mut during);
            }
            if turn > 0 {
                send();
            }
            if has_read(&mut last, &mut end, 1) && has_read(&mut idle, &mut got, 1) {
                break;
            }
        }
        let body = &bodies(&got)[0];
        assert!(body.starts_with('5') && body.len() == 1 + UPLOAD_BYTES);
    });
}
