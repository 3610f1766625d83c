//! Key sets (JWKS) named by a URL. They are fetched at the start, at intervals, and when a token names an unknown key.
//!
//! The master fetches them before it forks, so workers have keys when the first client connects. Later, a thread in each worker
//! fetches them, because the remote server may be slow. Only clients whose tokens name an unknown key wait for the thread. If a
//! fetch fails, the previous keys stay in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_engine::{Logger, RequestId};
use fermata_io::{Deadline, clock, random};
use fermata_mercure::token::{KeyError, Verifier};
use fermata_origin::address::Url;
use fermata_origin::{ANSWER_BYTES_MAX, HttpPoster, PostError};

use super::owned::OwnedRequest;
use crate::written::SettingsError;

/// Maximum duration of one fetch, including the connection.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum interval in milliseconds between two fetches that tokens with unknown keys have caused.
const UNKNOWN_PAUSE_MS: u64 = 30_000;
/// Delay before the next attempt after a failure: the first and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Minimum interval between log messages about failed fetches.
const LOG_AGAIN: Duration = Duration::from_secs(600);
/// Maximum number of requests of a worker that wait for keys. Further requests are checked immediately with the present keys.
const WAITING_MAX: usize = 64;
/// Maximum time that a request waits: slightly longer than a fetch.
const WAIT_MS_MAX: u64 = 6_000;
/// Interval at which waiting requests are checked.
const LOOK_MS: u64 = 20;
/// Enough for a request over TLS.
const STACK_BYTES: usize = 512 * 1024;
/// Maximum number of characters shown of an error, which may quote the fetched text.
const SHOWN_CHARS_MAX: usize = 300;
const ACCEPT: &str = "application/jwk-set+json, application/json";

/// Location of a key set, with the verifier that uses it.
#[derive(Clone)]
pub(crate) struct KeySource {
    /// Name of the setting, for errors.
    name: String,
    url: Url,
    verifier: Verifier,
    /// Time of the last successful fetch.
    fetched: Option<Instant>,
}

/// Reason why keys could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Post(#[from] PostError),
    #[error("the response status is {0}, not 200{1}")]
    Status(u16, &'static str),
    #[error("the response has more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error(transparent)]
    Keys(#[from] KeyError),
}

impl KeySource {
    /// Creates a source for the set at a URL, without fetching it.
    ///
    /// # Errors
    /// The URL cannot be used. The message does not contain the URL.
    pub fn new(name: &str, url: &str) -> Result<KeySource, SettingsError> {
        let wrong = |error| {
            SettingsError::new(format!("{name}: {error}; give https://HOST/PATH of a JWKS"))
        };
        Ok(KeySource {
            name: name.to_owned(),
            url: Url::parse(url).map_err(wrong)?,
            verifier: Verifier::empty(),
            fetched: None,
        })
    }

    /// Returns the verifier that checks tokens with the fetched keys.
    pub fn verifier(&self) -> Verifier {
        self.verifier.clone()
    }

    /// Fetches the keys in this thread. Returns lines for the log.
    ///
    /// # Errors
    /// The system's trusted certificates cannot be read.
    pub fn fetch_first(&mut self) -> Result<Vec<String>, SettingsError> {
        let mut warnings = Vec::new();
        if !self.url.is_tls && !self.url.is_loopback() {
            warnings.push(format!(
                "{}: with http://, anyone between this hub and {} can replace the keys; use https://",
                self.name,
                self.url.authority()
            ));
        }
        let mut poster = self.poster();
        let prepared = poster.prepare();
        prepared.map_err(|error| SettingsError::new(format!("{}: {error}", self.name)))?;
        match fetch(&mut poster, &self.verifier) {
            Ok(()) => self.fetched = Some(Instant::now()),
            Err(error) => warnings.push(format!(
                "{}; retrying, and no token is accepted until then",
                self.failure(&error)
            )),
        }
        Ok(warnings)
    }

    fn poster(&self) -> HttpPoster {
        HttpPoster::new(self.url.clone(), FETCH_TIMEOUT)
    }

    fn failure(&self, error: &FetchError) -> String {
        let text: String = error.to_string().chars().take(SHOWN_CHARS_MAX).collect();
        format!(
            "{}: the keys cannot be fetched from {}: {}",
            self.name,
            self.url.authority(),
            text.escape_debug()
        )
    }
}

impl std::fmt::Debug for KeySource {
    /// Omits the URL's path, which may hold a secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "KeySource({} {})",
            self.name,
            self.url.authority()
        )
    }
}

fn fetch(poster: &mut HttpPoster, verifier: &Verifier) -> Result<(), FetchError> {
    let answer = poster.get(ACCEPT)?;
    if answer.status != 200 {
        let hint = match answer.status {
            300..400 => "; redirects are not followed, use their target URL",
            _ => "",
        };
        return Err(FetchError::Status(answer.status, hint));
    }
    if answer.is_cut() {
        return Err(FetchError::TooLong);
    }
    let body = answer.into_body();
    let keys = Verifier::from_jwks(&String::from_utf8_lossy(&body))?;
    verifier.replace(&keys);
    Ok(())
}

/// Counters by which a worker requests a fetch from its thread.
#[derive(Default)]
struct Ask {
    /// Number of fetches that the worker requested.
    asked: AtomicU64,
    /// The value of `asked` when the last fetch finished, with or without success.
    answered: AtomicU64,
}

impl Ask {
    fn is_open(&self) -> bool {
        self.asked.load(Ordering::Acquire) != self.answered.load(Ordering::Acquire)
    }
}

/// The key sources of one worker, and the requests that wait for keys.
pub(super) struct Keys {
    sources: Vec<Source>,
    thread: Thread,
    waiting: Vec<Waiting>,
}

struct Source {
    verifier: Verifier,
    ask: Arc<Ask>,
    asked_ms: Option<u64>,
}

struct Waiting {
    request: OwnedRequest,
    until_ms: u64,
}

impl Keys {
    /// Starts the thread that refreshes the keys.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn begin(
        sources: &[KeySource],
        refresh: Duration,
        logger: &Logger,
    ) -> std::io::Result<Keys> {
        let mut watched = Vec::new();
        let mut fetchers = Vec::new();
        for source in sources {
            let ask = Arc::new(Ask::default());
            watched.push(Source {
                verifier: source.verifier(),
                ask: Arc::clone(&ask),
                asked_ms: None,
            });
            fetchers.push(Fetcher {
                poster: source.poster(),
                due: match source.fetched {
                    Some(fetched) => fetched + spread(refresh),
                    None => Instant::now(),
                },
                source: source.clone(),
                refresh,
                ask,
                pause: PAUSE_MIN,
                // The failure was logged at the start.
                logged_at: source.fetched.is_none().then(Instant::now),
                logger: logger.clone(),
            });
        }
        let handle = fermata_io::thread::begin("fermata-keys", STACK_BYTES, move || run(fetchers))?;
        Ok(Keys {
            sources: watched,
            thread: handle.thread().clone(),
            waiting: Vec::new(),
        })
    }

    /// Returns true if a fetch is in progress that may provide the key of the token just refused.
    pub fn are_coming(&mut self, now_ms: u64) -> bool {
        let mut are_coming = false;
        for source in &mut self.sources {
            if !source.verifier.take_missed() {
                continue;
            }
            let is_early = source
                .asked_ms
                .is_some_and(|asked_ms| now_ms < asked_ms + UNKNOWN_PAUSE_MS);
            if !is_early {
                source.asked_ms = Some(now_ms);
                source.ask.asked.fetch_add(1, Ordering::AcqRel);
                self.thread.unpark();
            }
            are_coming |= source.ask.is_open();
        }
        are_coming && self.waiting.len() < WAITING_MAX
    }

    /// Stores a request until the fetch finishes.
    pub fn keep(&mut self, request: OwnedRequest, now_ms: u64) {
        self.waiting.push(Waiting {
            request,
            until_ms: now_ms + WAIT_MS_MAX,
        });
    }

    /// Returns the requests whose wait is over.
    pub fn take_ready(&mut self, now_ms: u64) -> Vec<OwnedRequest> {
        let is_open = self.sources.iter().any(|it| it.ask.is_open());
        let is_ready = |it: &mut Waiting| !is_open || it.until_ms <= now_ms;
        let ready = self.waiting.extract_if(.., is_ready);
        ready.map(|it| it.request).collect()
    }

    /// Drops the request of a client that left. Returns false if the request does not wait here.
    pub fn forget(&mut self, handle: RequestId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|it| it.request.handle != handle);
        self.waiting.len() < before
    }

    /// Returns the time of the next call of `take_ready`.
    pub fn due(&self, now_ms: u64) -> Deadline {
        if self.waiting.is_empty() {
            Deadline::NEVER
        } else {
            Deadline::after(now_ms, LOOK_MS)
        }
    }
}

/// State of the thread for one source.
struct Fetcher {
    source: KeySource,
    poster: HttpPoster,
    refresh: Duration,
    ask: Arc<Ask>,
    due: Instant,
    pause: Duration,
    /// Time of the last log message about a failure; `None` if the last fetch succeeded.
    logged_at: Option<Instant>,
    logger: Logger,
}

fn run(mut fetchers: Vec<Fetcher>) {
    loop {
        for fetcher in &mut fetchers {
            fetcher.step();
        }
        let due = fetchers.iter().map(|it| it.due).min();
        let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
        thread::park_timeout(wait.unwrap_or(PAUSE_MAX));
    }
}

impl Fetcher {
    fn step(&mut self) {
        let asked = self.ask.asked.load(Ordering::Acquire);
        let is_asked = asked != self.ask.answered.load(Ordering::Acquire);
        if !is_asked && Instant::now() < self.due {
            return;
        }
        match fetch(&mut self.poster, &self.source.verifier) {
            Ok(()) => {
                if self.logged_at.take().is_some() {
                    let line = format!("{}: fetched the keys again", self.source.name);
                    self.log(LogLevel::Info, &line);
                }
                self.pause = PAUSE_MIN;
                self.due = Instant::now() + spread(self.refresh);
            }
            Err(error) => {
                let now = Instant::now();
                if self
                    .logged_at
                    .is_none_or(|logged_at| now - logged_at >= LOG_AGAIN)
                {
                    let line = format!(
                        "{}; the present keys stay in use, retrying",
                        self.source.failure(&error)
                    );
                    self.log(LogLevel::Warning, &line);
                    self.logged_at = Some(now);
                }
                self.due = now + self.pause.min(self.refresh);
                self.pause = (self.pause * 2).min(PAUSE_MAX);
            }
        }
        self.ask.answered.store(asked, Ordering::Release);
    }

    fn log(&self, level: LogLevel, line: &str) {
        self.logger.write(level, clock::unix_ms(), line);
    }
}

/// Shortens the interval by up to a tenth at random, so that workers and servers started together do not fetch
/// simultaneously.
fn spread(refresh: Duration) -> Duration {
    refresh - refresh.mul_f64(random::u64() as f64 / u64::MAX as f64 / 10.0)
}
