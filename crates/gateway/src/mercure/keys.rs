//! Sets of keys (JWKS) that are named by their URL: fetched at the start, again from time to time, and when a token was signed
//! by a key that is none of them.
//!
//! The master fetches them before it forks, so that workers have keys when the first client comes. From then on each worker has a
//! thread for them: a fetch takes as long as a server far away needs, and none of the worker's clients waits for it but those
//! whose tokens were signed by a key that is not known. Keys that were fetched are kept while fetches fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_engine::{Logger, RequestId};
use fermata_io::{Deadline, clock, random};
use fermata_mercure::token::{KeyError, Verifier};
use fermata_origin::address::Url;
use fermata_origin::{ANSWER_BYTES_MAX, PostError, Poster};

use super::owned::OwnedRequest;
use crate::written::SettingsError;

/// How long one fetch may take, connecting included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// A token whose key is not known has the keys fetched at once, but not more often than this.
const UNKNOWN_PAUSE_MS: u64 = 30_000;
/// How soon it is tried again after a failure, first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often it is said that keys cannot be fetched.
const SAY_AGAIN: Duration = Duration::from_secs(600);
/// Requests of a worker that wait for keys; more are answered at once, by the keys that are there.
const WAITING_MAX: usize = 64;
/// How long they wait at most: a little longer than a fetch takes.
const WAIT_MS_MAX: u64 = 6_000;
/// How often it is looked whether the keys are there that they wait for.
const LOOK_MS: u64 = 20;
/// Enough for a request over TLS.
const STACK_BYTES: usize = 512 * 1024;
/// Characters of an error that are shown: it may repeat what was fetched.
const SHOWN_CHARS_MAX: usize = 300;
const ACCEPT: &str = "application/jwk-set+json, application/json";

/// Where a set of keys is, and who checks tokens by it.
#[derive(Clone)]
pub(crate) struct KeySource {
    /// The setting, for errors.
    name: String,
    url: Url,
    verifier: Verifier,
    /// The keys were fetched.
    fetched: Option<Instant>,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Post(#[from] PostError),
    #[error("the answer is {0}, not 200{1}")]
    Status(u16, &'static str),
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error(transparent)]
    Keys(#[from] KeyError),
}

impl KeySource {
    /// The set at a URL, which is not fetched yet.
    ///
    /// # Errors
    /// Why the URL cannot be used, without it.
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

    /// What checks tokens by the keys, once there are some.
    pub fn verifier(&self) -> Verifier {
        self.verifier.clone()
    }

    /// Fetches the keys in this thread. What the log has to say.
    ///
    /// # Errors
    /// The certificates that the system trusts cannot be read.
    pub fn fetch_first(&mut self) -> Result<Vec<String>, SettingsError> {
        let mut said = Vec::new();
        if !self.url.is_tls && !self.url.is_loopback() {
            said.push(format!(
                "{}: by http:// whoever is between this hub and {} chooses who may publish; use https://",
                self.name,
                self.url.authority()
            ));
        }
        let mut poster = self.poster();
        let prepared = poster.prepare();
        prepared.map_err(|error| SettingsError::new(format!("{}: {error}", self.name)))?;
        match fetch(&mut poster, &self.verifier) {
            Ok(()) => self.fetched = Some(Instant::now()),
            Err(error) => said.push(format!(
                "{}; it is tried again, and until then no token is believed",
                self.failure(&error)
            )),
        }
        Ok(said)
    }

    fn poster(&self) -> Poster {
        Poster::new(self.url.clone(), FETCH_TIMEOUT)
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
    /// Without the URL's path, which may hold a secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "KeySource({} {})",
            self.name,
            self.url.authority()
        )
    }
}

fn fetch(poster: &mut Poster, verifier: &Verifier) -> Result<(), FetchError> {
    let answer = poster.get(ACCEPT)?;
    if answer.status != 200 {
        let hint = match answer.status {
            300..400 => "; redirects are not followed, give the URL that it leads to",
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

/// What a worker and its thread tell each other about one source.
#[derive(Default)]
struct Ask {
    /// So many times the worker wanted the keys at once.
    asked: AtomicU64,
    /// So many times it was done, with or without success.
    answered: AtomicU64,
}

impl Ask {
    fn is_open(&self) -> bool {
        self.asked.load(Ordering::Acquire) != self.answered.load(Ordering::Acquire)
    }
}

/// The keys of one worker, and who waits for them.
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
    /// Begins to keep the keys of these sources fresh.
    ///
    /// # Errors
    /// There is no thread to be had.
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
                // It was said at the start.
                said: source.fetched.is_none().then(Instant::now),
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

    /// Whether the keys are being fetched by which a token that was refused just now may be good.
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

    /// Keeps a request until the keys are there.
    pub fn keep(&mut self, request: OwnedRequest, now_ms: u64) {
        self.waiting.push(Waiting {
            request,
            until_ms: now_ms + WAIT_MS_MAX,
        });
    }

    /// Takes back the requests that need not wait any longer.
    pub fn take_ready(&mut self, now_ms: u64) -> Vec<OwnedRequest> {
        let is_open = self.sources.iter().any(|it| it.ask.is_open());
        let is_ready = |it: &mut Waiting| !is_open || it.until_ms <= now_ms;
        let ready = self.waiting.extract_if(.., is_ready);
        ready.map(|it| it.request).collect()
    }

    /// Forgets the request of a client that has left. False: it is none of these.
    pub fn forget(&mut self, handle: RequestId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|it| it.request.handle != handle);
        self.waiting.len() < before
    }

    /// When `take_ready` is to be asked.
    pub fn due(&self, now_ms: u64) -> Deadline {
        match self.waiting.is_empty() {
            true => Deadline::NEVER,
            false => Deadline::after(now_ms, LOOK_MS),
        }
    }
}

/// What the thread does for one source.
struct Fetcher {
    source: KeySource,
    poster: Poster,
    refresh: Duration,
    ask: Arc<Ask>,
    due: Instant,
    pause: Duration,
    /// When it was said that it fails; `None`: it does not.
    said: Option<Instant>,
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
                if self.said.take().is_some() {
                    let line = format!("{}: the keys are fetched again", self.source.name);
                    self.log(LogLevel::Info, &line);
                }
                self.pause = PAUSE_MIN;
                self.due = Instant::now() + spread(self.refresh);
            }
            Err(error) => {
                let now = Instant::now();
                if self.said.is_none_or(|said| now - said >= SAY_AGAIN) {
                    let line = format!(
                        "{}; those that are known stay, and it is tried again",
                        self.source.failure(&error)
                    );
                    self.log(LogLevel::Warning, &line);
                    self.said = Some(now);
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

/// A little less, at random: so workers, and hubs that were started together, do not all ask in the same moment.
fn spread(refresh: Duration) -> Duration {
    refresh - refresh.mul_f64(random::u64() as f64 / u64::MAX as f64 / 10.0)
}
