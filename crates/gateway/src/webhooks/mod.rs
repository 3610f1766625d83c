//! What applications are told of their channels: HTTP POSTs to their backends.
//!
//! Worker 0 has a thread for each webhook ([`Sender`]), so no worker waits for a backend, and a slow backend delays its own
//! webhook alone. A thread and not the worker's loop: a post every 50 ms needs no event loop, and blocking calls with a
//! deadline also look names up.
//!
//! A thread has two sources. Joins and leaves of presence channels and what clients send are on the ring, and it reads that
//! by itself. Counts of subscriptions and misses of caches come from the worker by an [`Inbox`].
//!
//! What a backend has been told is kept outside of the process, in memory that the workers share: how far the ring is told,
//! and which channels it believes occupied ([`Kept`]). So the worker that takes the place of worker 0 goes on where that
//! was killed: it may tell something twice, and forgets misses of caches and counts alone.
//!
//! In a cluster one server sends ([`Role`]). The others read along, keep what it has not said that it has told, and learn from
//! it what backends believe, so that any of them can go on.

mod inbox;
mod journal;
mod kept;
mod sender;

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::Thread;
use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_engine::Worker;
use fermata_io::shm::{self, Shared};
use fermata_io::{Driver, clock, thread};
use fermata_origin::address::{Url, UrlError};
use fermata_origin::{Poster, TlsError};
use fermata_pusher::App;
use fermata_pusher::webhook::{Kind, Webhook};

use inbox::{Inbox, Report, Role};
use kept::{Kept, WORDS};
use sender::Sender;

/// Webhooks of all applications together: each has a thread.
pub(crate) const WEBHOOKS_MAX: usize = 32;
/// Enough for a request over TLS.
const STACK_BYTES: usize = 512 * 1024;
/// How long what waits may take to be sent when the worker stops.
const FINISH: Duration = Duration::from_secs(2);

/// What outlives a worker, made before there is one.
pub(crate) struct Prepared {
    words: &'static [AtomicU64],
    files: Vec<File>,
    from_unix_ms: u64,
}

/// The senders of this worker. Only the first worker has any.
#[derive(Default)]
pub(crate) struct Webhooks {
    senders: Vec<Running>,
}

/// A sender's thread.
struct Running {
    /// Its application, by its place in the settings.
    app: usize,
    kinds: Vec<Kind>,
    /// Which of its application's webhooks it is.
    number: usize,
    inbox: Arc<Inbox>,
    thread: Thread,
    ended: mpsc::Receiver<()>,
}

/// Why webhooks cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    /// The setting's.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// That of the certificates the system trusts.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The machine's.
    #[error("no memory for webhooks: {0}; the machine is out of memory or descriptors")]
    Memory(io::Error),
    /// The machine's, too.
    #[error(transparent)]
    Thread(io::Error),
}

/// Where a webhook goes.
///
/// # Errors
/// Why it cannot; never with the URL, which may hold a secret.
pub(crate) fn parse_url(webhook: &Webhook) -> Result<Url, UrlError> {
    Url::parse(&webhook.url)
}

impl Prepared {
    /// Memory for the webhooks of these applications. Certificates are read, so that what is wrong with them is said now.
    ///
    /// # Errors
    /// What is missing, and what helps.
    pub fn new(apps: &[App]) -> Result<Prepared, WebhookError> {
        let all = || apps.iter().flat_map(|app| &app.webhooks);
        let count = all().count();
        for webhook in all() {
            Poster::new(parse_url(webhook)?, Duration::ZERO).prepare()?;
        }
        let shared = Shared::anonymous((count * WORDS).max(1)).map_err(WebhookError::Memory)?;
        let files = (0..count).map(|_| shm::anonymous_file());
        Ok(Prepared {
            words: shared.words(),
            files: files
                .collect::<io::Result<_>>()
                .map_err(WebhookError::Memory)?,
            // By the clock of the ring's records, which is behind others by some milliseconds.
            from_unix_ms: clock::unix_ms(),
        })
    }

    /// When the server began.
    pub fn began_unix_ms(&self) -> u64 {
        self.from_unix_ms
    }

    /// Begins to send in the first worker.
    pub fn begin<D: Driver>(self, apps: &[App], worker: &mut Worker<D>) -> Webhooks {
        let mut senders = Vec::new();
        if worker.index() != 0 {
            return Webhooks { senders };
        }
        let each = apps.iter().enumerate().flat_map(|(at, app)| {
            let webhooks = app.webhooks.iter().enumerate();
            webhooks.map(move |(number, webhook)| (at, app, number, webhook))
        });
        let places = self.words.chunks_exact(WORDS).zip(self.files);
        for ((at, app, number, webhook), (words, file)) in each.zip(places) {
            match begin(
                (at, app),
                (number, webhook),
                Kept::begin(words, file),
                self.from_unix_ms,
                worker,
            ) {
                Ok(running) => senders.push(running),
                Err(error) => {
                    let line = format!("a webhook of application {} is not sent: {error}", app.id);
                    worker.net.log(LogLevel::Error, &line);
                }
            }
        }
        Webhooks { senders }
    }
}

fn begin<D: Driver>(
    (at, app): (usize, &App),
    (number, webhook): (usize, &Webhook),
    kept: Kept,
    from_unix_ms: u64,
    worker: &mut Worker<D>,
) -> Result<Running, WebhookError> {
    let reads_ring = [Kind::MemberAdded, Kind::MemberRemoved, Kind::ClientEvent]
        .into_iter()
        .any(|kind| webhook.wants(kind));
    let follower = reads_ring.then(|| {
        let mut follower = worker.channels.follow();
        match kept.place() {
            0 => follower.begin_after(0, from_unix_ms),
            place => follower.begin_after(place, 0),
        }
        follower
    });
    let role = match worker.channels.cluster_node() {
        None => Role::Alone,
        // Until it is known who else there is.
        Some(_) => Role::Waits,
    };
    let inbox = Arc::new(Inbox::new(role));
    let sender = Sender::new(
        app.clone(),
        webhook.clone(),
        parse_url(webhook)?,
        follower,
        kept,
        Arc::clone(&inbox),
        worker.net.logger(),
    );
    let (end, ended) = mpsc::channel::<()>();
    let handle = thread::begin("fermata-webhook", STACK_BYTES, move || {
        sender.run();
        drop(end);
    })
    .map_err(WebhookError::Thread)?;
    let thread = handle.thread().clone();
    if reads_ring {
        worker
            .channels
            .tell_follower(thread.clone(), Box::new(|| [0; 3]));
    }
    Ok(Running {
        app: at,
        kinds: webhook.kinds.clone(),
        number,
        inbox,
        thread,
        ended,
    })
}

impl Webhooks {
    /// A channel has so many subscriptions now.
    pub fn set_count(&self, app: usize, channel: &str, count: u64) {
        for sender in self.of(app, &[Kind::ChannelOccupied, Kind::ChannelVacated]) {
            sender.inbox.set_count(channel, count);
            sender.thread.unpark();
        }
    }

    /// The application is told how many subscriptions a channel has.
    pub fn tell_count(&self, app: usize, channel: &str, count: u64) {
        for sender in self.of(app, &[Kind::SubscriptionCount]) {
            sender.inbox.tell_count(channel, count);
            sender.thread.unpark();
        }
    }

    /// A subscriber of a cache channel has found it empty.
    pub fn miss(&self, app: usize, channel: &str) {
        for sender in self.of(app, &[Kind::CacheMiss]) {
            sender.inbox.miss(channel);
            sender.thread.unpark();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Whether this server of a cluster is the one that sends.
    pub fn set_role(&self, sends: bool) {
        for sender in &self.senders {
            sender.inbox.set_role(match sends {
                true => Role::Sends,
                false => Role::Waits,
            });
            sender.thread.unpark();
        }
    }

    /// The server that sends has told a backend this: up to the event with an id, and of channels that are occupied or not.
    pub fn hear(
        &self,
        app: usize,
        number: usize,
        told: Option<&str>,
        beliefs: Vec<(String, bool)>,
    ) {
        if let Some(sender) = self.find(app, number) {
            sender.inbox.hear(told, beliefs);
            sender.thread.unpark();
        }
    }

    /// Another server wants to know all that backends have been told.
    pub fn tell_all(&self) {
        for sender in &self.senders {
            sender.inbox.ask();
            sender.thread.unpark();
        }
    }

    /// What backends have been told since the last call: application, webhook and what.
    pub fn reports(&self) -> Vec<(usize, usize, Report)> {
        let reports = self.senders.iter().filter_map(|sender| {
            let report = sender.inbox.take_report()?;
            Some((sender.app, sender.number, report))
        });
        reports.collect()
    }

    /// The others could not be told that.
    pub fn put_back(
        &self,
        app: usize,
        number: usize,
        told: Option<String>,
        beliefs: Vec<(String, bool)>,
    ) {
        if let Some(sender) = self.find(app, number) {
            sender.inbox.put_back(told, beliefs);
        }
    }

    fn find(&self, app: usize, number: usize) -> Option<&Running> {
        let mut senders = self.senders.iter();
        senders.find(|sender| sender.app == app && sender.number == number)
    }

    /// Sends what waits, before the worker ends. What is not taken in time the next worker sends again.
    pub fn finish(&self) {
        let until = Instant::now() + FINISH;
        for sender in &self.senders {
            sender.inbox.end();
            sender.thread.unpark();
        }
        for sender in &self.senders {
            let left = until.saturating_duration_since(Instant::now());
            // It ends by dropping its side.
            let _ = sender.ended.recv_timeout(left);
        }
    }

    fn of(&self, app: usize, kinds: &'static [Kind]) -> impl Iterator<Item = &Running> {
        self.senders.iter().filter(move |sender| {
            sender.app == app && kinds.iter().any(|kind| sender.kinds.contains(kind))
        })
    }
}
