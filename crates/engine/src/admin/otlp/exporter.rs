//! The exporter process: collects spans from workers and posts them until the collector accepts
//! them.
//!
//! One thread receives and one posts, so that a slow collector fills the queue here and not the
//! kernel's. The queue is bounded; spans that do not fit are dropped and counted. Queued spans are
//! lost if the process crashes.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fermata_config::{LogLevel, Settings};
use fermata_io::{clock, random, thread};

use super::encode::{Encoding, Envelope, pairs};
use super::protobuf::{self, Value};
use super::{COUNT_BYTES, Otlp, Post, PostError, Posted, WAITING_BYTES_MAX};
use crate::admin::stats::Shared;
use crate::log::Logger;

/// Time in milliseconds that the exporter has to flush after the last worker has exited; then the
/// master kills it.
pub(crate) const FLUSH_MS_MAX: u64 = 3_000;
/// Time for flushing: `FLUSH_MS_MAX` minus a reserve for the exit of the process.
const FLUSH: Duration = Duration::from_millis(FLUSH_MS_MAX - 500);
/// Time for which the exporter collects spans before it posts them.
const GATHER: Duration = Duration::from_millis(1_000);
/// Maximum size of the spans of one post in bytes. With its envelope a post stays below 1 MiB, the
/// limit of nginx and other servers.
const POST_BYTES_MAX: usize = 960 * 1024;
/// Maximum size of queued spans in bytes.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Minimum and maximum pause between two attempts. The pause doubles after each attempt.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Maximum total time of attempts for the same spans, and maximum pause honored from `Retry-After`.
const TRY_MAX: Duration = Duration::from_secs(300);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// Interval of log lines about a collector that refuses spans.
const LOG_AGAIN: Duration = Duration::from_secs(60);
/// Stack size of the exporter's thread in bytes. A request over TLS needs less.
const STACK_BYTES: usize = 512 * 1024;
/// Maximum length of a collector's error text in the log, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// The state of the process.
pub(crate) struct Exporter {
    outlet: UnixDatagram,
    sender: Sender,
    queue: Arc<Queue>,
    stats: Shared,
}

/// The queue between the two threads.
#[derive(Default)]
struct Queue {
    inner: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Deadline for sending the rest, after the last worker has exited.
    ends: Option<Instant>,
}

/// Spans of one worker.
struct Piece {
    count: u64,
    spans: Vec<u8>,
}

/// The posting thread.
struct Sender {
    post: Box<dyn Post>,
    headers: Vec<(String, String)>,
    envelope: Envelope,
    timeout: Duration,
    queue: Arc<Queue>,
    stats: Shared,
    logger: Logger,
    /// Time of the last log line about refused spans; `None` = the collector accepts spans.
    logged_at: Option<Instant>,
}

/// Result of a post.
enum Outcome {
    /// Accepted, except for `rejected` spans.
    Taken { rejected: u64 },
    /// Refused permanently.
    Refused(String),
    /// To be retried, not before the time requested by the collector.
    Later(String, Option<Duration>),
}

impl Exporter {
    /// Starts in the forked process.
    ///
    /// # Errors
    /// The collector's URL has become unusable.
    pub fn new(
        otlp: Otlp,
        settings: &Settings,
        stats: Shared,
        logger: Logger,
    ) -> Result<Exporter, PostError> {
        let headers = settings.otlp_headers.as_deref().unwrap_or_default();
        let queue = Arc::new(Queue::default());
        Ok(Exporter {
            sender: Sender {
                post: (otlp.open)(&otlp.url)?,
                headers: pairs(headers).collect(),
                envelope: Envelope::new(settings),
                timeout: Duration::from_millis(settings.otlp_timeout_ms),
                queue: Arc::clone(&queue),
                stats,
                logger,
                logged_at: None,
            },
            outlet: otlp.outlet,
            queue,
            stats,
        })
    }

    /// Runs until the master reports that no worker is left, and the queue is empty or the flush
    /// time is over.
    ///
    /// # Errors
    /// The process cannot continue.
    pub fn run(self) -> io::Result<()> {
        let Exporter {
            outlet,
            sender,
            queue,
            stats,
        } = self;
        let posting = thread::begin("fermata-otlp", STACK_BYTES, move || sender.run())?;
        let mut buffer = vec![0; 2 * WAITING_BYTES_MAX];
        loop {
            match outlet.recv(&mut buffer) {
                Ok(0) => break,
                Ok(len) => {
                    if let Some(dropped) = queue.put(&buffer[..len]) {
                        stats.spans_dropped(dropped);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if posting.is_finished() {
                return Err(io::Error::other("the thread that posts spans has ended"));
            }
        }
        queue.end(Instant::now() + FLUSH);
        let _ = posting.join();
        Ok(())
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a datagram of a worker. Returns the number of spans if there was no room.
    fn put(&self, datagram: &[u8]) -> Option<u64> {
        let (count, spans) = datagram.split_first_chunk::<COUNT_BYTES>()?;
        let count = u64::from(u32::from_le_bytes(*count));
        let mut waiting = self.lock();
        if waiting.bytes + spans.len() > QUEUE_BYTES_MAX {
            return Some(count);
        }
        waiting.bytes += spans.len();
        let spans = spans.to_vec();
        waiting.pieces.push_back(Piece { count, spans });
        // The posting thread waits for the first piece, and for a full post.
        if waiting.pieces.len() == 1 || waiting.bytes >= POST_BYTES_MAX {
            self.changed.notify_one();
        }
        None
    }

    fn end(&self, at: Instant) {
        self.lock().ends = Some(at);
        self.changed.notify_one();
    }

    /// Waits for spans, then collects further spans for the same post. Returns `None` if the queue
    /// is empty and no worker is left.
    fn take(&self) -> Option<Vec<Piece>> {
        let mut waiting = self.lock();
        while waiting.pieces.is_empty() {
            if waiting.ends.is_some() {
                return None;
            }
            let waited = self.changed.wait(waiting);
            waiting = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + GATHER;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if waiting.ends.is_some() || waiting.bytes >= POST_BYTES_MAX || left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(piece) = waiting.pieces.front() {
            bytes += piece.spans.len();
            if bytes > POST_BYTES_MAX && !taken.is_empty() {
                break;
            }
            waiting.bytes -= piece.spans.len();
            taken.extend(waiting.pieces.pop_front());
        }
        Some(taken)
    }

    /// Waits before a retry. Returns false if the flush time is over.
    fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            match waiting.ends {
                Some(ends) if ends <= now || ends <= until => return false,
                _ if until <= now => return true,
                _ => {}
            }
            let waited = self.changed.wait_timeout(waiting, until - now);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ends(&self) -> Option<Instant> {
        self.lock().ends
    }
}

impl Sender {
    fn run(mut self) {
        while let Some(pieces) = self.queue.take() {
            let count = pieces.iter().map(|piece| piece.count).sum();
            let body = self.body(&pieces);
            drop(pieces);
            let dropped = self.send(count, &body);
            self.stats.spans_exported(count - dropped);
            if dropped > 0 {
                self.stats.spans_dropped(dropped);
            }
        }
    }

    fn body(&self, pieces: &[Piece]) -> Vec<u8> {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &*piece.spans).collect();
        self.envelope.around(&pieces)
    }

    /// Posts until the spans are accepted or the time is over. Returns the number of spans not
    /// accepted.
    fn send(&mut self, count: u64, body: &[u8]) -> u64 {
        let began = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            let (cause, named) = match self.post(body) {
                Outcome::Taken { rejected } => {
                    if self.logged_at.take().is_some() {
                        self.log(LogLevel::Info, "the collector accepts spans again");
                    }
                    return rejected.min(count);
                }
                Outcome::Refused(cause) => {
                    self.warn(&format!("{cause}; {count} spans were dropped"));
                    return count;
                }
                Outcome::Later(cause, named) => (cause, named),
            };
            // Random jitter of up to half the pause, so that servers whose connections broke
            // together do not retry together.
            let part = random::u64() % 1_000;
            let own = pause.mul_f64(0.5 + part as f64 / 1_000.0);
            // `Retry-After: 0` does not permit retries without a pause.
            let wait = named.map_or(own, |named| named.max(own).min(RETRY_AFTER_MAX));
            if began.elapsed() + wait > TRY_MAX || !self.queue.pause(wait) {
                self.warn(&format!("{cause}; {count} spans were dropped"));
                return count;
            }
            self.warn(&format!(
                "{cause}; further spans are dropped when the queue is full, and counted in spans_dropped"
            ));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn post(&mut self, body: &[u8]) -> Outcome {
        let left = self
            .queue
            .ends()
            .map(|ends| ends.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(self.timeout, |left| left.min(self.timeout));
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let encoding = self.envelope.encoding();
        let posted = (self.post).post(encoding.content_type(), &headers, body, timeout);
        match posted {
            Ok(posted) => judge(&posted, encoding),
            Err(error) => Outcome::Later(error.to_string(), None),
        }
    }

    /// Logs why the collector refuses spans, rate-limited.
    fn warn(&mut self, cause: &str) {
        if self
            .logged_at
            .is_none_or(|logged_at| logged_at.elapsed() >= LOG_AGAIN)
        {
            self.logged_at = Some(Instant::now());
            let line = format!("otlp_endpoint: the collector accepts no spans: {cause}");
            self.log(LogLevel::Warning, &line);
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, clock::unix_ms(), message);
    }
}

/// Interprets a response (OTLP, "OTLP/HTTP Response").
fn judge(posted: &Posted, encoding: Encoding) -> Outcome {
    match posted.status {
        200..=299 => Outcome::Taken {
            rejected: rejected(&posted.body, encoding),
        },
        429 | 502 | 503 | 504 => Outcome::Later(
            refusal(posted, encoding),
            posted.retry_after_s.map(Duration::from_secs),
        ),
        _ => Outcome::Refused(refusal(posted, encoding)),
    }
}

/// Returns the number of rejected spans of an accepted post.
fn rejected(body: &[u8], encoding: Encoding) -> u64 {
    if encoding == Encoding::Protobuf {
        let Some(Value::Bytes(partial)) = protobuf::find(body, answer::PARTIAL_SUCCESS) else {
            return 0;
        };
        return match protobuf::find(partial, answer::REJECTED_SPANS) {
            Some(Value::Varint(count)) => count,
            _ => 0,
        };
    }
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else {
        return 0;
    };
    match &answer["partialSuccess"]["rejectedSpans"] {
        serde_json::Value::String(text) => text.parse().unwrap_or(0),
        number => number.as_u64().unwrap_or(0),
    }
}

fn refusal(posted: &Posted, encoding: Encoding) -> String {
    let text = match encoding {
        // A proxy in front of the collector may respond with text.
        Encoding::Protobuf => match protobuf::find(&posted.body, answer::STATUS_MESSAGE) {
            Some(Value::Bytes(message)) => message,
            _ => &posted.body,
        },
        Encoding::Json => &posted.body,
    };
    let text = String::from_utf8_lossy(text);
    let text: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
    format!("it answers {} {}", posted.status, text.escape_debug())
}

/// Fields of `ExportTraceServiceResponse`, `ExportTracePartialSuccess` and `google.rpc.Status`.
mod answer {
    pub const PARTIAL_SUCCESS: u32 = 1;
    pub const REJECTED_SPANS: u32 = 1;
    pub const STATUS_MESSAGE: u32 = 2;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use fermata_config::LogFormat;

    use super::*;

    /// A collector that returns the given responses, and then 200.
    struct Scripted {
        answers: VecDeque<Result<Posted, PostError>>,
        posts: mpsc::Sender<(String, String)>,
    }

    impl Post for Scripted {
        fn post(
            &mut self,
            content_type: &'static str,
            headers: &[(&str, &str)],
            body: &[u8],
            _: Duration,
        ) -> Result<Posted, PostError> {
            assert_eq!(content_type, "application/json");
            let body = String::from_utf8(body.to_vec()).expect("JSON is text");
            let _ = self.posts.send((format!("{headers:?}"), body));
            self.answers.pop_front().unwrap_or_else(|| answer(200, ""))
        }
    }

    fn answer(status: u16, body: &str) -> Result<Posted, PostError> {
        Ok(Posted {
            status,
            retry_after_s: (status == 429).then_some(0),
            body: body.as_bytes().to_vec(),
        })
    }

    type Posts = mpsc::Receiver<(String, String)>;

    fn exporter(answers: Vec<Result<Posted, PostError>>) -> (Exporter, UnixDatagram, Posts) {
        let (inlet, outlet) = UnixDatagram::pair().expect("there are descriptors");
        let (posts, posted) = mpsc::channel();
        let settings = Settings {
            otlp_protocol: "http/json".to_owned(),
            otlp_headers: Some("api-key=a%2Cb".to_owned()),
            ..Settings::default()
        };
        let (queue, stats) = (Arc::new(Queue::default()), Shared::private());
        let headers = settings.otlp_headers.as_deref().unwrap_or_default();
        let sender = Sender {
            post: Box::new(Scripted {
                answers: answers.into(),
                posts,
            }),
            headers: pairs(headers).collect(),
            envelope: Envelope::new(&settings),
            timeout: Duration::from_secs(1),
            queue: Arc::clone(&queue),
            stats,
            logger: Logger::new(LogFormat::Text, LogLevel::Error, "test"),
            logged_at: None,
        };
        let exporter = Exporter {
            outlet,
            sender,
            queue,
            stats,
        };
        (exporter, inlet, posted)
    }

    fn datagram(count: u32, spans: &[u8]) -> Vec<u8> {
        [&count.to_le_bytes()[..], spans].concat()
    }

    /// Returns the posts and the numbers of accepted and dropped spans, after the master has
    /// stopped the exporter.
    fn run(
        answers: Vec<Result<Posted, PostError>>,
        datagrams: &[Vec<u8>],
    ) -> (Vec<(String, String)>, u64, u64) {
        let (exporter, inlet, posted) = exporter(answers);
        let stats = exporter.stats;
        for datagram in datagrams {
            inlet.send(datagram).expect("there is room");
        }
        inlet.send(&[]).expect("there is room");
        exporter.run().expect("it ends in order");
        let (exported, dropped) = stats.spans();
        (posted.try_iter().collect(), exported, dropped)
    }

    #[test]
    fn posts_spans_of_many_workers_together_and_flushes_at_exit() {
        let datagrams = [
            datagram(2, b"{\"a\":1},{\"a\":2}"),
            datagram(1, b"{\"a\":3}"),
        ];
        let (posts, exported, dropped) = run(Vec::new(), &datagrams);
        assert_eq!((posts.len(), exported, dropped), (1, 3, 0));
        assert_eq!(posts[0].0, "[(\"api-key\", \"a,b\")]");
        let body: serde_json::Value = serde_json::from_str(&posts[0].1).expect("JSON");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(*spans, serde_json::json!([{"a": 1}, {"a": 2}, {"a": 3}]));
    }

    #[test]
    fn retries_temporary_refusals() {
        let one = [datagram(1, b"{}")];
        let (posts, exported, dropped) = run(vec![answer(429, "")], &one);
        assert_eq!((posts.len(), exported, dropped), (2, 1, 0));
        assert_eq!(posts[0], posts[1]);
        let answers = vec![answer(503, "later"), Err("refused".into())];
        let (posts, exported, dropped) = run(answers, &one);
        assert_eq!((posts.len(), exported, dropped), (3, 1, 0));
    }

    #[test]
    fn pauses_before_a_retry_with_retry_after_0() {
        let answers = (0..10_000).map(|_| answer(429, "")).collect();
        let (posts, exported, dropped) = run(answers, &[datagram(1, b"{}")]);
        assert!((2..20).contains(&posts.len()), "{}", posts.len());
        assert_eq!((exported, dropped), (0, 1));
    }

    #[test]
    fn keeps_posts_below_the_limit_of_proxies() {
        let (exporter, ..) = exporter(Vec::new());
        let Exporter { sender, queue, .. } = exporter;
        for _ in 0..20 {
            let whole = vec![b'x'; WAITING_BYTES_MAX - COUNT_BYTES];
            assert_eq!(queue.put(&datagram(100, &whole)), None);
        }
        queue.end(Instant::now());
        let body = sender.body(&queue.take().expect("there are some"));
        assert!((900_000..=1 << 20).contains(&body.len()), "{}", body.len());
    }

    #[test]
    fn counts_permanently_refused_spans() {
        let many = [datagram(5, b"{},{},{},{},{}")];
        let (posts, exported, dropped) = run(vec![answer(400, "no")], &many);
        assert_eq!((posts.len(), exported, dropped), (1, 0, 5));
        let partial = r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"old"}}"#;
        let (posts, exported, dropped) = run(vec![answer(200, partial)], &many);
        assert_eq!((posts.len(), exported, dropped), (1, 3, 2));
    }

    #[test]
    fn parses_protobuf_responses() {
        let judged = |status, body: &[u8]| {
            let posted = Posted {
                status,
                retry_after_s: None,
                body: body.to_vec(),
            };
            match judge(&posted, Encoding::Protobuf) {
                Outcome::Taken { rejected } => format!("all but {rejected}"),
                Outcome::Refused(cause) | Outcome::Later(cause, _) => cause,
            }
        };
        assert_eq!(judged(200, b""), "all but 0");
        assert_eq!(judged(200, b"\x0a\x07\x08\x02\x12\x03old"), "all but 2");
        assert_eq!(judged(200, b"{}"), "all but 0");
        assert_eq!(judged(400, b"\x08\x03\x12\x03no!"), "it answers 400 no!");
        assert_eq!(judged(503, b"later"), "it answers 503 later");
    }

    #[test]
    fn exits_without_waiting_for_an_unreachable_collector() {
        let answers = (0..1000).map(|_| Err("refused".into())).collect();
        let began = Instant::now();
        let (posts, exported, dropped) = run(answers, &[datagram(4, b"{},{},{},{}")]);
        assert!(began.elapsed() < Duration::from_millis(FLUSH_MS_MAX));
        assert!(!posts.is_empty());
        assert_eq!((exported, dropped), (0, 4));
    }

    #[test]
    fn bounds_the_queue() {
        let queue = Queue::default();
        let large = datagram(3, &vec![b'x'; 60_000]);
        let fit = QUEUE_BYTES_MAX / 60_000;
        for _ in 0..fit {
            assert_eq!(queue.put(&large), None);
        }
        assert_eq!(queue.put(&large), Some(3));
        let mut taken = 0;
        queue.end(Instant::now());
        while let Some(pieces) = queue.take() {
            let bytes: usize = pieces.iter().map(|piece| piece.spans.len()).sum();
            assert!(bytes <= POST_BYTES_MAX);
            taken += pieces.len();
        }
        assert_eq!(taken, fit);
        assert_eq!(queue.lock().bytes, 0);
    }
}
