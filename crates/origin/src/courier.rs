//! A thread that tells an edge what a server publishes, in order and at the edge's pace.
//!
//! It tries again until the edge has taken an item or refuses it for good; meanwhile what is published waits where the
//! source keeps it. What the source no longer keeps then is counted, and the ids tell the edge that something is missing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::address::{Address, Transport};
use crate::client::{Client, PublishError};

/// Items of one request at most, and bytes of their content after which no more is added: half of what Pushpin takes.
const BATCH_ITEMS_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 400_000;
/// How long an edge that takes nothing is left alone, first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A thread that is told of nothing looks by itself so often.
const LOOK: Duration = Duration::from_secs(60);

/// Something that was published.
pub struct Item {
    /// The channel's name.
    pub channel: String,
    /// Its id.
    pub id: String,
    /// The id of the channel's item before it, if that is known.
    pub previous: Option<String>,
    /// What event streams get.
    pub stream: String,
    /// What long polls and WebSockets get, if anything.
    pub message: Option<String>,
}

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
    ended: mpsc::Receiver<()>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    figures: Arc<Figures>,
}

struct Work<S> {
    source: S,
    address: Address,
    client: Client,
    log: Log,
    shared: Arc<Shared>,
    /// Whether the edge could not be reached when last tried.
    is_away: bool,
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
    ) -> Result<Self, String> {
        let Transport::Http(url) = &address.transport else {
            return Err("give the http:// address of the edge's control port: ZeroMQ does not tell whether an item was taken".to_owned());
        };
        let client = Client::new(url.clone(), timeout);
        let shared = Arc::new(Shared::default());
        let (end, ended) = mpsc::channel();
        let work = Work {
            source,
            client,
            address,
            log,
            shared: Arc::clone(&shared),
            is_away: false,
        };
        let thread = begin(Box::new(move || {
            work.run();
            // Nobody may be waiting for it.
            let _ = end.send(());
        }))
        .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self {
            shared,
            thread,
            ended,
        })
    }

    /// Whom to unpark when the source has something new.
    pub fn thread(&self) -> Thread {
        self.thread.clone()
    }

    /// What it has done.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.shared.figures)
    }

    /// Ends it when everything so far has been told, or after so long. Whether everything was.
    pub fn finish(&self, wait: Duration) -> bool {
        self.shared.is_over.store(true, Ordering::Release);
        self.thread.unpark();
        self.ended.recv_timeout(wait).is_ok()
    }
}

impl<S: Source> Work<S> {
    fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            // Before looking: what is published until then is still told.
            let is_over = self.shared.is_over.load(Ordering::Acquire);
            self.fill(&mut batch);
            if !batch.is_empty() {
                self.tell(&batch);
                batch.clear();
            } else if is_over {
                return;
            } else {
                thread::park_timeout(LOOK);
            }
        }
    }

    fn fill(&mut self, batch: &mut Vec<Value>) {
        let mut bytes = 0;
        while batch.len() < BATCH_ITEMS_MAX && bytes < BATCH_BYTES_MAX {
            match self.source.next() {
                Next::Item(item) => {
                    bytes += item.stream.len() + item.message.as_ref().map_or(0, String::len);
                    batch.push(to_json(item));
                }
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

    /// Tells the edge, however often it takes.
    fn tell(&mut self, items: &[Value]) {
        let mut pause = PAUSE_MIN;
        loop {
            let Err(error) = self.try_once(items) else {
                self.shared
                    .figures
                    .taken
                    .fetch_add(items.len() as u64, Ordering::Relaxed);
                if std::mem::replace(&mut self.is_away, false) {
                    let message =
                        format!("the edge at {} takes items again", self.client.authority());
                    (self.log)(Level::Info, &message);
                }
                return;
            };
            if error.is_final() {
                match items {
                    // One of them is to blame, and the others are not to suffer for it.
                    [_, _, ..] => items.chunks(1).for_each(|item| self.tell(item)),
                    _ => {
                        self.shared.figures.refused.fetch_add(1, Ordering::Relaxed);
                        (self.log)(
                            Level::Warning,
                            &format!("an event is not told to an edge: {error}"),
                        );
                    }
                }
                return;
            }
            if !std::mem::replace(&mut self.is_away, true) {
                (self.log)(Level::Warning, &format!("events wait for an edge: {error}"));
            }
            if !self.pause(pause) {
                return;
            }
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    fn try_once(&mut self, items: &[Value]) -> Result<(), PublishError> {
        let authorization = self
            .address
            .authorization(None, None)
            .map_err(PublishError::Unreachable)?;
        self.client.publish(authorization.as_deref(), items)
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

fn to_json(item: Item) -> Value {
    let mut formats = Map::new();
    if let Some(message) = item.message {
        formats.insert("http-response".into(), json!({ "body": &message }));
        formats.insert("ws-message".into(), json!({ "content": message }));
    }
    formats.insert("http-stream".into(), json!({ "content": item.stream }));
    let mut value = json!({ "channel": item.channel, "id": item.id, "formats": formats });
    if let Some(previous) = item.previous {
        value["prev-id"] = previous.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;

    use super::*;

    /// Items that tests put in.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<VecDeque<Next>>>);

    impl Fake {
        fn put(&self, id: usize) {
            let item = Item {
                channel: "c".into(),
                id: id.to_string(),
                previous: id.checked_sub(1).map(|id| id.to_string()),
                stream: format!("data: {id}\n\n"),
                message: (id != 1).then(|| id.to_string()),
            };
            self.0.lock().expect("no panic").push_back(Next::Item(item));
        }
    }

    impl Source for Fake {
        fn next(&mut self) -> Next {
            let next = self.0.lock().expect("no panic").pop_front();
            next.unwrap_or(Next::Nothing)
        }
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

    fn ids(items: &[Value]) -> Vec<&str> {
        items
            .iter()
            .filter_map(|item| item["id"].as_str())
            .collect()
    }

    #[test]
    fn items_are_told_in_order_over_one_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
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
        assert!(courier.finish(Duration::from_secs(10)));
        assert_eq!(courier.figures().taken.load(Ordering::Relaxed), 250);
        assert_eq!(*lines.lock().expect("no panic"), []);
    }

    #[test]
    fn an_edge_that_is_away_gets_everything_later() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (source, lines) = (Fake::default(), Lines::default());
        for id in 0..3 {
            source.put(id);
        }
        let courier = courier(port, source.clone(), &lines);
        let mut answers = VecDeque::from([Some((503, false)), Some((429, true)), None]);
        let items = edge(&listener, |_| answers.pop_front().flatten());
        assert_eq!(ids(&items), ["0", "1", "2"]);
        assert!(courier.finish(Duration::from_secs(10)));
        let lines = lines.lock().expect("no panic");
        let levels: Vec<Level> = lines.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [Level::Warning, Level::Info], "{lines:?}");
        assert!(lines[0].1.contains("503"), "{lines:?}");
    }

    #[test]
    fn an_item_that_is_refused_costs_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (source, lines) = (Fake::default(), Lines::default());
        for id in 0..3 {
            source.put(id);
        }
        source.0.lock().expect("no panic").push_front(Next::Lost);
        let courier = courier(port, source.clone(), &lines);
        let items = edge(&listener, |items| match ids(items)[..] {
            ["2"] => None,
            ref ids if ids.contains(&"1") => Some((400, true)),
            _ => Some((200, true)),
        });
        assert_eq!(ids(&items), ["0", "2"]);
        assert!(courier.finish(Duration::from_secs(10)));
        let figures = courier.figures();
        let counts = [&figures.taken, &figures.refused, &figures.lost];
        assert_eq!(counts.map(|it| it.load(Ordering::Relaxed)), [2, 1, 1]);
        assert_eq!(lines.lock().expect("no panic").len(), 2);
    }

    #[test]
    fn its_end_is_not_waited_for_without_bound() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let (source, lines) = (Fake::default(), Lines::default());
        source.put(0);
        let courier = courier(port, source, &lines);
        while lines.lock().expect("no panic").is_empty() {
            thread::yield_now();
        }
        // The item is given up, and the thread ends by itself.
        assert!(courier.finish(Duration::from_secs(10)));
        assert_eq!(courier.figures().taken.load(Ordering::Relaxed), 0);
        let zeromq = Address::parse("tcp://127.0.0.1:5560").expect("an address");
        let begin = |_: Box<dyn FnOnce() + Send>| Ok(thread::current());
        let refused = Courier::begin(zeromq, LOOK, Fake::default(), Box::new(|_, _| {}), &begin);
        assert!(refused.err().expect("ZeroMQ").contains("http://"));
    }
}
