//! Thread that publishes a server's events to an edge, in order and at the edge's pace.
//!
//! The thread repeats an item until the edge accepts the item or finally refuses it. Until then, new items wait in the source.
//! Items that the source drops during the wait are counted, and the ids show the edge that items are missing. An item that is never
//! accepted, while others are, is dropped, so that it does not block them.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::address::{Address, Transport};
use crate::client::{Client, PublishError};
use crate::pending::{Item, Pending};
use crate::tls::TlsError;

/// Pause after the first failed attempt. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Maximum pause after a failed attempt.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Maximum time between two checks of the source, if no new item unparks the thread.
const LOOK: Duration = Duration::from_secs(60);
/// Minimum interval between log messages about an unavailable edge.
const LOG_AGAIN: Duration = Duration::from_secs(60);
/// Number of consecutive refusals of unclear cause ([`PublishError::is_doubtful`]) after which the publisher tests whether a
/// single item is the cause.
const DOUBTS: u32 = 4;

/// Next item of a source.
pub enum Next {
    /// An item.
    Item(Item),
    /// Items were lost, because the publisher did not read them in time.
    Lost,
    /// No item yet.
    Nothing,
}

/// A source of items.
pub trait Source: Send + 'static {
    /// Returns the next item, or another result.
    fn next(&mut self) -> Next;

    /// Releases the items up to this position, because the edge has accepted them or never will.
    fn acknowledge(&mut self, place: u64);
}

/// Counters of a publisher.
#[derive(Default)]
pub struct Figures {
    /// Items that the edge has accepted.
    pub taken: AtomicU64,
    /// Items that the edge has finally refused.
    pub refused: AtomicU64,
    /// Number of times that items were lost before they were sent.
    pub lost: AtomicU64,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A failure.
    Warning,
    /// A recovery.
    Info,
}

/// Callback that writes a log line.
pub type Log = Box<dyn Fn(Level, &str) + Send>;

/// Callback that starts a thread; thread names depend on the system.
pub type Begin<'a> = &'a dyn Fn(Box<dyn FnOnce() + Send>) -> std::io::Result<Thread>;

/// Handle of the thread.
pub struct EdgePublisher {
    shared: Arc<Shared>,
    thread: Thread,
    ended: mpsc::Receiver<bool>,
}

#[derive(Default)]
struct Shared {
    /// The thread ends when all items are sent, or an attempt fails.
    is_over: AtomicBool,
    /// The thread ends after the pending request.
    is_late: AtomicBool,
    figures: Arc<Figures>,
}

struct Work<S> {
    source: S,
    address: Address,
    client: Client,
    log: Log,
    shared: Arc<Shared>,
    pending: Pending,
    /// Time of the last log message about the unavailable edge. `None`: the edge is available.
    away_logged_at: Option<Instant>,
    /// Number of consecutive refusals of unclear cause.
    doubts: u32,
    /// Number of items at the start of the queue that are sent one by one, because their batch was refused. 0: items are sent
    /// in batches.
    singly: usize,
}

/// Action after an attempt.
enum Step {
    Next,
    Pause,
}

/// Reason why a publisher cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EdgePublisherError {
    /// The address is a ZeroMQ endpoint.
    #[error(
        "give the http:// address of the edge's control port: ZeroMQ does not report whether an item was accepted"
    )]
    ZeroMq,
    /// The system's trusted certificates cannot be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The thread cannot be created.
    #[error("cannot create a thread: {0}")]
    Thread(io::Error),
}

impl EdgePublisher {
    /// Starts publishing a source's items to the edge at an address.
    ///
    /// # Errors
    /// The address is not an HTTP control port, or the thread cannot be created.
    pub fn begin(
        address: Address,
        timeout: Duration,
        source: impl Source,
        log: Log,
        begin: Begin<'_>,
    ) -> Result<Self, EdgePublisherError> {
        let Transport::Http(url) = &address.transport else {
            return Err(EdgePublisherError::ZeroMq);
        };
        let mut client = Client::new(url.clone(), timeout);
        // Prepare the client here. Otherwise the thread would read the environment, which the application may change.
        client.prepare()?;
        let shared = Arc::new(Shared::default());
        let (end, ended) = mpsc::channel();
        let work = Work {
            source,
            client,
            address,
            log,
            shared: Arc::clone(&shared),
            pending: Pending::default(),
            away_logged_at: None,
            doubts: 0,
            singly: 0,
        };
        let thread = begin(Box::new(move || {
            let is_all_published = work.run();
            // The receiver may have been dropped.
            let _ = end.send(is_all_published);
        }))
        .map_err(EdgePublisherError::Thread)?;
        Ok(Self {
            shared,
            thread,
            ended,
        })
    }

    /// Returns the thread to unpark when the source has a new item.
    pub fn thread(&self) -> Thread {
        self.thread.clone()
    }

    /// Returns the counters of the publisher.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.shared.figures)
    }

    /// Requests the end of the thread. The thread ends after all present items were sent, or at the first failed attempt.
    pub fn end(&self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Stops the thread, and waits for its end, at most until `until`. Returns true if all items were sent.
    pub fn finish(&self, until: Instant) -> bool {
        self.end();
        let left = until.saturating_duration_since(Instant::now());
        let outcome = self.ended.recv_timeout(left);
        self.shared.is_late.store(true, Ordering::Release);
        outcome.unwrap_or(false)
    }
}

impl<S: Source> Work<S> {
    /// Returns true if all items were sent.
    fn run(mut self) -> bool {
        let mut pause = PAUSE_MIN;
        loop {
            // Read the flag first, so that items published before it was set are still sent.
            let is_over = self.shared.is_over.load(Ordering::Acquire);
            self.fill();
            if self.pending.is_empty() {
                if is_over {
                    return true;
                }
                thread::park_timeout(LOOK);
                continue;
            }
            // `finish` waits no longer. Items that were not acknowledged stay in the source.
            if self.shared.is_late.load(Ordering::Acquire) {
                return false;
            }
            match self.step() {
                Step::Next => pause = PAUSE_MIN,
                Step::Pause if self.pause(pause) => pause = PAUSE_MAX.min(pause * 2),
                Step::Pause => return false,
            }
        }
    }

    fn fill(&mut self) {
        while self.pending.wants_more() {
            match self.source.next() {
                Next::Item(item) => self.pending.push(item),
                Next::Lost => {
                    self.shared.figures.lost.fetch_add(1, Ordering::Relaxed);
                    let message = format!(
                        "the edge at {} is too far behind: the missed events are no longer stored (history_bytes_max)",
                        self.client.authority()
                    );
                    (self.log)(Level::Warning, &message);
                }
                Next::Nothing => return,
            }
        }
    }

    /// Sends the first pending items to the edge.
    fn step(&mut self) -> Step {
        let count = match self.singly {
            0 => self.pending.batch_len(),
            _ => 1,
        };
        let error = match self.try_once(0..count) {
            Ok(()) => return Step::Next,
            Err(error) => error,
        };
        if error.is_final() {
            return self.doubt(count, &error);
        }
        self.log_away(&error);
        self.doubts = if error.is_doubtful() {
            self.doubts + 1
        } else {
            0
        };
        match self.doubts {
            ..DOUBTS => Step::Pause,
            _ if count > 1 => self.doubt(count, &error),
            _ => self.compare(&error),
        }
    }

    /// Handles a final refusal of the first `count` items. Drops the item if it was the only one. Otherwise the items are sent
    /// one by one, to find the refused one.
    fn doubt(&mut self, count: usize, error: &PublishError) -> Step {
        self.doubts = 0;
        match count {
            1 => self.give_up(0, error),
            _ => self.singly = count,
        }
        Step::Next
    }

    /// Tests whether the first item causes the refusals. Drops it if the edge accepts the second item and still refuses the
    /// first.
    fn compare(&mut self, error: &PublishError) -> Step {
        if self.pending.len() < 2 {
            return Step::Pause;
        }
        match self.try_once(1..2) {
            Ok(()) => {}
            Err(error) => {
                if error.is_final() {
                    self.give_up(1, &error);
                }
                return Step::Pause;
            }
        }
        // The edge may have recovered between the two requests, so send the first item again.
        match self.try_once(0..1) {
            Ok(()) => {}
            Err(again) if again.is_doubtful() || again.is_final() => self.give_up(0, error),
            Err(_) => return Step::Pause,
        }
        Step::Next
    }

    fn give_up(&mut self, at: usize, error: &PublishError) {
        self.shared.figures.refused.fetch_add(1, Ordering::Relaxed);
        let message = format!("dropped an event for an edge: {error}");
        (self.log)(Level::Warning, &message);
        self.remove(at..at + 1);
    }

    fn try_once(&mut self, range: Range<usize>) -> Result<(), PublishError> {
        let authorization = self
            .address
            .authorization(None, None)
            .map_err(PublishError::Unauthorized)?;
        let items = self.pending.items(range.clone());
        self.client.publish(authorization.as_deref(), items)?;
        let taken = &self.shared.figures.taken;
        taken.fetch_add(range.len() as u64, Ordering::Relaxed);
        if self.away_logged_at.take().is_some() {
            let message = format!(
                "the edge at {} accepts events again",
                self.client.authority()
            );
            (self.log)(Level::Info, &message);
        }
        self.doubts = 0;
        self.remove(range);
        Ok(())
    }

    fn remove(&mut self, range: Range<usize>) {
        self.singly = self.singly.saturating_sub(range.len());
        let is_first = range.start == 0;
        let place = self.pending.remove(range);
        // The source releases all items up to the acknowledged position, so acknowledge only if no earlier item is pending.
        if is_first {
            self.source.acknowledge(place);
        }
    }

    fn log_away(&mut self, error: &PublishError) {
        if self
            .away_logged_at
            .is_none_or(|at| at.elapsed() >= LOG_AGAIN)
        {
            self.away_logged_at = Some(Instant::now());
            (self.log)(Level::Warning, &format!("events wait for an edge: {error}"));
        }
    }

    /// Waits, regardless of new items. Returns false if the end was requested.
    fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            if self.shared.is_over.load(Ordering::Acquire) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;
    use crate::pending::BATCH_ITEMS_MAX;

    /// Items added by tests, and the last acknowledged position.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<VecDeque<Next>>>, Arc<AtomicU64>);

    impl Fake {
        fn with(items: usize) -> Self {
            let source = Self::default();
            for id in 0..items {
                source.put(id);
            }
            source
        }

        fn put(&self, id: usize) {
            let item = Item {
                place: id as u64 + 1,
                channel: "c".into(),
                id: id.to_string(),
                previous: id.checked_sub(1).map(|id| id.to_string()),
                stream: format!("data: {id}\n\n").into_bytes(),
                message: (id != 1).then(|| id.to_string().into_bytes()),
            };
            self.0.lock().expect("no panic").push_back(Next::Item(item));
        }
    }

    impl Source for Fake {
        fn next(&mut self) -> Next {
            let next = self.0.lock().expect("no panic").pop_front();
            next.unwrap_or(Next::Nothing)
        }

        fn acknowledge(&mut self, place: u64) {
            self.1.fetch_max(place, Ordering::Relaxed);
        }
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    type Lines = Arc<Mutex<Vec<(Level, String)>>>;

    fn edge_publisher(port: u16, source: Fake, lines: &Lines) -> EdgePublisher {
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).expect("an address");
        let lines = Arc::clone(lines);
        let log = Box::new(move |level, line: &str| {
            lines
                .lock()
                .expect("no panic")
                .push((level, line.to_owned()));
        });
        let begin = |work: Box<dyn FnOnce() + Send>| Ok(thread::spawn(work).thread().clone());
        EdgePublisher::begin(address, Duration::from_secs(10), source, log, &begin)
            .expect("a thread")
    }

    /// Serves connections one after the other with the responses of `answer`, until `answer` returns `None`. Returns the received
    /// items.
    fn edge(
        listener: &TcpListener,
        mut answer: impl FnMut(&[Value]) -> Option<(u16, bool)>,
    ) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let (socket, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(socket);
            loop {
                let (mut length, mut line) = (0, String::new());
                while reader.read_line(&mut line).expect("a head") > 2 {
                    if let Some(value) = line.strip_prefix("Content-Length: ") {
                        length = value.trim().parse().expect("a number");
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                if length == 0 {
                    break;
                }
                let mut body: Value = serde_json::from_slice(&body).expect("JSON");
                let items = body["items"].as_array_mut().expect("a list");
                let said = answer(items);
                let (status, keeps) = said.unwrap_or((200, false));
                let close = if keeps { "" } else { "Connection: close\r\n" };
                let text = format!("HTTP/1.1 {status} X\r\n{close}Content-Length: 2\r\n\r\nok");
                reader
                    .get_mut()
                    .write_all(text.as_bytes())
                    .expect("a client");
                if status == 200 {
                    all.append(items);
                }
                match said {
                    None => return all,
                    Some((_, false)) => break,
                    Some(_) => {}
                }
            }
        }
    }

    /// Returns a listener that simulates an edge, and its port.
    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        (listener, port)
    }

    fn ids(items: &[Value]) -> Vec<&str> {
        items
            .iter()
            .filter_map(|item| item["id"].as_str())
            .collect()
    }

    #[test]
    fn publishes_items_in_order_over_one_connection() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::default(), Lines::default());
        let edge_publisher = edge_publisher(port, source.clone(), &lines);
        for id in 0..250 {
            source.put(id);
        }
        edge_publisher.thread().unpark();
        let mut seen = 0;
        let items = edge(&listener, |items| {
            assert!(items.len() <= BATCH_ITEMS_MAX);
            seen += items.len();
            (seen < 250).then_some((200, true))
        });
        let expected: Vec<String> = (0..250).map(|id| id.to_string()).collect();
        assert_eq!(ids(&items), expected);
        assert_eq!(
            items[0],
            json!({"channel": "c", "id": "0", "formats": {
                "http-stream": {"content": "data: 0\n\n"},
                "http-response": {"body": "0"}, "ws-message": {"content": "0"}}})
        );
        assert_eq!(
            items[1],
            json!({"channel": "c", "id": "1", "prev-id": "0", "formats": {
                "http-stream": {"content": "data: 1\n\n"}}})
        );
        assert!(edge_publisher.finish(later()));
        assert_eq!(edge_publisher.figures().taken.load(Ordering::Relaxed), 250);
        assert_eq!(source.1.load(Ordering::Relaxed), 250);
        assert_eq!(*lines.lock().expect("no panic"), []);
    }

    #[test]
    fn unavailable_edge_receives_everything_later() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(3), Lines::default());
        let edge_publisher = edge_publisher(port, source.clone(), &lines);
        let mut answers = VecDeque::from([Some((503, false)), Some((429, true)), None]);
        let items = edge(&listener, |_| answers.pop_front().flatten());
        assert_eq!(ids(&items), ["0", "1", "2"]);
        assert!(edge_publisher.finish(later()));
        let lines = lines.lock().expect("no panic");
        let levels: Vec<Level> = lines.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [Level::Warning, Level::Info], "{lines:?}");
        assert!(lines[0].1.contains("503"), "{lines:?}");
    }

    #[test]
    fn refused_item_does_not_affect_others() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(3), Lines::default());
        source.0.lock().expect("no panic").push_front(Next::Lost);
        let edge_publisher = edge_publisher(port, source.clone(), &lines);
        let items = edge(&listener, |items| match ids(items)[..] {
            ["2"] => None,
            ref ids if ids.contains(&"1") => Some((400, true)),
            _ => Some((200, true)),
        });
        assert_eq!(ids(&items), ["0", "2"]);
        assert!(edge_publisher.finish(later()));
        let figures = edge_publisher.figures();
        let counts = [&figures.taken, &figures.refused, &figures.lost];
        assert_eq!(counts.map(|it| it.load(Ordering::Relaxed)), [2, 1, 1]);
        assert_eq!(lines.lock().expect("no panic").len(), 2);
        assert_eq!(source.1.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn item_that_always_fails_does_not_block_others() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(4), Lines::default());
        let edge_publisher = edge_publisher(port, source.clone(), &lines);
        let items = edge(&listener, |items| match ids(items)[..] {
            // Like a filter in front of the edge.
            ref ids if ids.contains(&"1") => Some((403, true)),
            ["3"] => None,
            _ => Some((200, true)),
        });
        assert_eq!(ids(&items), ["0", "2", "3"]);
        assert!(edge_publisher.finish(later()));
        let figures = edge_publisher.figures();
        let counts = [&figures.taken, &figures.refused, &figures.lost];
        assert_eq!(counts.map(|it| it.load(Ordering::Relaxed)), [3, 1, 0]);
        assert_eq!(source.1.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn edge_that_refuses_everything_receives_it_later() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(3), Lines::default());
        let edge_publisher = edge_publisher(port, source.clone(), &lines);
        // The edge rejects the key for a while: for the batch, for single items and for the items sent to compare.
        let (mut refusals, mut taken) = (2 * DOUBTS + 2, 0);
        let items = edge(&listener, |items| {
            if refusals > 0 {
                refusals -= 1;
                return Some((401, true));
            }
            taken += items.len();
            (taken < 3).then_some((200, true))
        });
        let mut ids = ids(&items);
        ids.sort_unstable();
        assert_eq!(ids, ["0", "1", "2"]);
        assert!(edge_publisher.finish(later()));
        assert_eq!(edge_publisher.figures().refused.load(Ordering::Relaxed), 0);
        assert_eq!(source.1.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn finish_is_bounded_in_time() {
        let (listener, port) = listener();
        drop(listener);
        let (source, lines) = (Fake::default(), Lines::default());
        source.put(0);
        let edge_publisher = edge_publisher(port, source.clone(), &lines);
        while lines.lock().expect("no panic").is_empty() {
            thread::yield_now();
        }
        // The thread ends by itself, and reports the unsent item.
        assert!(!edge_publisher.finish(later()));
        assert_eq!(edge_publisher.figures().taken.load(Ordering::Relaxed), 0);
        assert_eq!(source.1.load(Ordering::Relaxed), 0);
        let zeromq = Address::parse("tcp://127.0.0.1:5560").expect("an address");
        let begin = |_: Box<dyn FnOnce() + Send>| Ok(thread::current());
        let refused =
            EdgePublisher::begin(zeromq, LOOK, Fake::default(), Box::new(|_, _| {}), &begin);
        let refused = refused.err().expect("ZeroMQ").to_string();
        assert!(refused.contains("http://"), "{refused}");
    }
}
