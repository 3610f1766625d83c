//! A thread that tells an edge what a server publishes, in order and at the edge's pace.
//!
//! It tries again until the edge has taken an item or refuses it for good; meanwhile what is published waits where the
//! source keeps it. What the source no longer keeps then is counted, and the ids tell the edge that something is missing.
//! An item that is never taken, while others are, is given up: one of them must not stop all.

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

/// How long an edge that takes nothing is left alone, first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A thread that is told of nothing looks by itself so often.
const LOOK: Duration = Duration::from_secs(60);
/// How often it is said of an edge that it takes nothing.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// After so many refusals that may be for good it is found out whether a single item is to blame.
const DOUBTS: u32 = 4;

/// What a source has next.
pub enum Next {
    /// An item.
    Item(Item),
    /// Some items are gone that were not read in time.
    Lost,
    /// Nothing as yet.
    Nothing,
}

/// Where items come from.
pub trait Source: Send + 'static {
    /// The next one.
    fn next(&mut self) -> Next;

    /// The edge has those up to this place, or will never take them.
    fn acknowledge(&mut self, place: u64);
}

/// What a courier has done so far.
#[derive(Default)]
pub struct Figures {
    /// Items that the edge has taken.
    pub taken: AtomicU64,
    /// Items that it has refused for good.
    pub refused: AtomicU64,
    /// Times that items were gone before they could be told.
    pub lost: AtomicU64,
}

/// How bad a line for the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Warning,
    /// It works again.
    Info,
}

/// Writes a line to the log.
pub type Log = Box<dyn Fn(Level, &str) + Send>;

/// Begins a thread: names differ by system.
pub type Begin<'a> = &'a dyn Fn(Box<dyn FnOnce() + Send>) -> std::io::Result<Thread>;

/// The thread's other end.
pub struct Courier {
    shared: Arc<Shared>,
    thread: Thread,
    ended: mpsc::Receiver<bool>,
}

#[derive(Default)]
struct Shared {
    /// It ends when there is nothing more to tell, or an edge takes nothing.
    is_over: AtomicBool,
    /// It ends with the next answer.
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
    /// When it was last said that the edge takes nothing, if it still takes nothing.
    said_away: Option<Instant>,
    /// Refusals one after the other that may be for good.
    doubts: u32,
    /// How many of the first are sent one by one: one of them is to blame, and the others are not to suffer for it.
    singly: usize,
}

/// What follows a try.
enum Step {
    Next,
    Pause,
}

/// Why an edge cannot be told what is published.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// Its address is a ZeroMQ endpoint.
    #[error(
        "give the http:// address of the edge's control port: ZeroMQ does not tell whether an item was taken"
    )]
    ZeroMq,
    /// What the system trusts.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kernel.
    #[error("no thread can be had: {0}")]
    Thread(io::Error),
}

impl Courier {
    /// Begins to tell the edge at an address what a source has.
    ///
    /// # Errors
    /// The address is no HTTP control port, or no thread can be had.
    pub fn begin(
        address: Address,
        timeout: Duration,
        source: impl Source,
        log: Log,
        begin: Begin<'_>,
    ) -> Result<Self, CourierError> {
        let Transport::Http(url) = &address.transport else {
            return Err(CourierError::ZeroMq);
        };
        let mut client = Client::new(url.clone(), timeout);
        // In its own thread it would look at an environment that the program may change.
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
            said_away: None,
            doubts: 0,
            singly: 0,
        };
        let thread = begin(Box::new(move || {
            let is_all_told = work.run();
            // The receiver may have been dropped.
            let _ = end.send(is_all_told);
        }))
        .map_err(CourierError::Thread)?;
        Ok(Self {
            shared,
            thread,
            ended,
        })
    }

    /// The thread to unpark when the source has something new.
    pub fn thread(&self) -> Thread {
        self.thread.clone()
    }

    /// What it has done.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.shared.figures)
    }

    /// Has it end when everything so far has been told, or with the first try that fails.
    pub fn end(&self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Ends it, and waits until then, or a time. Whether everything has been told.
    pub fn finish(&self, until: Instant) -> bool {
        self.end();
        let left = until.saturating_duration_since(Instant::now());
        let outcome = self.ended.recv_timeout(left);
        self.shared.is_late.store(true, Ordering::Release);
        outcome.unwrap_or(false)
    }
}

impl<S: Source> Work<S> {
    /// Whether everything has been told.
    fn run(mut self) -> bool {
        let mut pause = PAUSE_MIN;
        loop {
            // Before looking: what is published until then is still told.
            let is_over = self.shared.is_over.load(Ordering::Acquire);
            self.fill();
            if self.pending.is_empty() {
                if is_over {
                    return true;
                }
                thread::park_timeout(LOOK);
                continue;
            }
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
                        "the edge at {} is too far behind: what it misses is no longer kept (history_bytes_max)",
                        self.client.authority()
                    );
                    (self.log)(Level::Warning, &message);
                }
                Next::Nothing => return,
            }
        }
    }

    /// Tells the edge the first of what is pending.
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
        self.say_away(&error);
        self.doubts = match error.is_doubtful() {
            true => self.doubts + 1,
            false => 0,
        };
        match self.doubts {
            ..DOUBTS => Step::Pause,
            _ if count > 1 => self.doubt(count, &error),
            _ => self.compare(&error),
        }
    }

    /// One of the first is to blame; it is given up when it is known.
    fn doubt(&mut self, count: usize, error: &PublishError) -> Step {
        self.doubts = 0;
        match count {
            1 => self.give_up(0, error),
            _ => self.singly = count,
        }
        Step::Next
    }

    /// Gives the first item up when the edge takes the second one and still refuses the first.
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
        // The edge may have come to its senses in between.
        match self.try_once(0..1) {
            Ok(()) => {}
            Err(again) if again.is_doubtful() || again.is_final() => self.give_up(0, error),
            Err(_) => return Step::Pause,
        }
        Step::Next
    }

    fn give_up(&mut self, at: usize, error: &PublishError) {
        self.shared.figures.refused.fetch_add(1, Ordering::Relaxed);
        let message = format!("an event is not told to an edge: {error}");
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
        if self.said_away.take().is_some() {
            let message = format!("the edge at {} takes items again", self.client.authority());
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
        // One before it may still have to be told.
        if is_first {
            self.source.acknowledge(place);
        }
    }

    fn say_away(&mut self, error: &PublishError) {
        if self.said_away.is_none_or(|at| at.elapsed() >= SAY_AGAIN) {
            self.said_away = Some(Instant::now());
            (self.log)(Level::Warning, &format!("events wait for an edge: {error}"));
        }
    }

    /// Waits, whatever is published meanwhile. False when it is over.
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

    /// Items that tests put in, and the place up to which they were told.
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

    fn courier(port: u16, source: Fake, lines: &Lines) -> Courier {
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).expect("an address");
        let lines = Arc::clone(lines);
        let log = Box::new(move |level, line: &str| {
            lines
                .lock()
                .expect("no panic")
                .push((level, line.to_owned()));
        });
        let begin = |work: Box<dyn FnOnce() + Send>| Ok(thread::spawn(work).thread().clone());
        Courier::begin(address, Duration::from_secs(10), source, log, &begin).expect("a thread")
    }

    /// Answers requests on one connection after the other as `answer` says, until it says nothing; the items they had.
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

    /// Where an edge is, or is not.
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
    fn items_are_told_in_order_over_one_connection() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::default(), Lines::default());
        let courier = courier(port, source.clone(), &lines);
        for id in 0..250 {
            source.put(id);
        }
        courier.thread().unpark();
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
        assert!(courier.finish(later()));
        assert_eq!(courier.figures().taken.load(Ordering::Relaxed), 250);
        assert_eq!(source.1.load(Ordering::Relaxed), 250);
        assert_eq!(*lines.lock().expect("no panic"), []);
    }

    #[test]
    fn an_edge_that_is_away_gets_everything_later() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(3), Lines::default());
        let courier = courier(port, source.clone(), &lines);
        let mut answers = VecDeque::from([Some((503, false)), Some((429, true)), None]);
        let items = edge(&listener, |_| answers.pop_front().flatten());
        assert_eq!(ids(&items), ["0", "1", "2"]);
        assert!(courier.finish(later()));
        let lines = lines.lock().expect("no panic");
        let levels: Vec<Level> = lines.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [Level::Warning, Level::Info], "{lines:?}");
        assert!(lines[0].1.contains("503"), "{lines:?}");
    }

    #[test]
    fn an_item_that_is_refused_costs_no_other() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(3), Lines::default());
        source.0.lock().expect("no panic").push_front(Next::Lost);
        let courier = courier(port, source.clone(), &lines);
        let items = edge(&listener, |items| match ids(items)[..] {
            ["2"] => None,
            ref ids if ids.contains(&"1") => Some((400, true)),
            _ => Some((200, true)),
        });
        assert_eq!(ids(&items), ["0", "2"]);
        assert!(courier.finish(later()));
        let figures = courier.figures();
        let counts = [&figures.taken, &figures.refused, &figures.lost];
        assert_eq!(counts.map(|it| it.load(Ordering::Relaxed)), [2, 1, 1]);
        assert_eq!(lines.lock().expect("no panic").len(), 2);
        assert_eq!(source.1.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn an_item_that_is_never_taken_does_not_stop_the_others() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(4), Lines::default());
        let courier = courier(port, source.clone(), &lines);
        let items = edge(&listener, |items| match ids(items)[..] {
            // As a filter in front of it would.
            ref ids if ids.contains(&"1") => Some((403, true)),
            ["3"] => None,
            _ => Some((200, true)),
        });
        assert_eq!(ids(&items), ["0", "2", "3"]);
        assert!(courier.finish(later()));
        let figures = courier.figures();
        let counts = [&figures.taken, &figures.refused, &figures.lost];
        assert_eq!(counts.map(|it| it.load(Ordering::Relaxed)), [3, 1, 0]);
        assert_eq!(source.1.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn an_edge_that_refuses_all_of_them_gets_them_later() {
        let (listener, port) = listener();
        let (source, lines) = (Fake::with(3), Lines::default());
        let courier = courier(port, source.clone(), &lines);
        // Its key is wrong for a while: for the batch, then for single items, then for others beside the first.
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
        assert!(courier.finish(later()));
        assert_eq!(courier.figures().refused.load(Ordering::Relaxed), 0);
        assert_eq!(source.1.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn its_end_is_not_waited_for_without_bound() {
        let (listener, port) = listener();
        drop(listener);
        let (source, lines) = (Fake::default(), Lines::default());
        source.put(0);
        let courier = courier(port, source.clone(), &lines);
        while lines.lock().expect("no panic").is_empty() {
            thread::yield_now();
        }
        // The thread ends by itself, and says that the item is left to others.
        assert!(!courier.finish(later()));
        assert_eq!(courier.figures().taken.load(Ordering::Relaxed), 0);
        assert_eq!(source.1.load(Ordering::Relaxed), 0);
        let zeromq = Address::parse("tcp://127.0.0.1:5560").expect("an address");
        let begin = |_: Box<dyn FnOnce() + Send>| Ok(thread::current());
        let refused = Courier::begin(zeromq, LOOK, Fake::default(), Box::new(|_, _| {}), &begin);
        let refused = refused.err().expect("ZeroMQ").to_string();
        assert!(refused.contains("http://"), "{refused}");
    }
}
