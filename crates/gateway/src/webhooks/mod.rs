//! Webhooks: HTTP POST requests that notify applications' backends of events in their channels.
//!
//! Worker 0 has a thread per webhook ([`Sender`]). So workers never wait for a backend, and a slow backend delays only its own
//! webhook. A thread suffices: one post per 50 ms needs no event loop, and blocking calls with a deadline include DNS.
//!
//! A thread has two sources. It reads joins and leaves of presence channels and client events from the ring itself. The
//! worker passes counts of subscriptions and cache misses through an [`Inbox`].
//!
//! The delivery state is in memory that the workers share ([`Kept`]): the acknowledged position on the ring, and the
//! channels that were reported as occupied. A replacement of worker 0 continues from there. It may send an event twice,
//! and loses only cache misses and counts.
//!
//! In a cluster one server sends ([`Role`]). The other servers read the same events and store the events that the sending server
//! has not reported as delivered. So any server can take over.

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
use fermata_origin::{HttpPoster, TlsError};
use fermata_pusher::App;
use fermata_pusher::webhook::{Kind, Webhook};

use inbox::{Inbox, Report, Role};
use kept::{Kept, WORDS};
use sender::Sender;

/// Maximum number of webhooks of all applications; each has a thread.
pub(crate) const WEBHOOKS_MAX: usize = 32;
/// Stack size of a webhook's thread in bytes. A request over TLS needs less.
const STACK_BYTES: usize = 512 * 1024;
/// Maximum time for sending the remaining events when the worker stops.
const FINISH: Duration = Duration::from_secs(2);

/// Memory that outlives a worker, created before the first worker starts.
pub(crate) struct Prepared {
    words: &'static [AtomicU64],
    files: Vec<File>,
    from_unix_ms: u64,
}

/// The senders of this worker. Only the first worker has senders.
#[derive(Default)]
pub(crate) struct Webhooks {
    senders: Vec<Running>,
}

/// Handle of a sender's thread.
struct Running {
    /// Index of the webhook's application in the settings.
    app: usize,
    kinds: Vec<Kind>,
    /// Index of the webhook in its application.
    number: usize,
    inbox: Arc<Inbox>,
    thread: Thread,
    ended: mpsc::Receiver<()>,
}

/// Reason why webhooks cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    /// The URL in the settings is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The system's trusted certificates cannot be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Memory or a file cannot be created.
    #[error("no memory for webhooks: {0}; the machine is out of memory or descriptors")]
    Memory(io::Error),
    /// A thread cannot be created.
    #[error(transparent)]
    Thread(io::Error),
}

/// Parses the URL of a webhook.
///
/// # Errors
/// The URL is invalid. The message never contains the URL, because it may hold a secret.
pub(crate) fn parse_url(webhook: &Webhook) -> Result<Url, UrlError> {
    Url::parse(&webhook.url)
}

impl Prepared {
    /// Creates the memory for all webhooks. Certificates are read now, so that errors are reported at the start.
    ///
    /// # Errors
    /// Memory or certificates are missing; the message has a fix.
    pub fn new(apps: &[App]) -> Result<Prepared, WebhookError> {
        let all = || apps.iter().flat_map(|app| &app.webhooks);
        let count = all().count();
        for webhook in all() {
            HttpPoster::new(parse_url(webhook)?, Duration::ZERO).prepare()?;
        }
        let shared = Shared::anonymous((count * WORDS).max(1)).map_err(WebhookError::Memory)?;
        let files = (0..count).map(|_| shm::anonymous_file());
        Ok(Prepared {
            words: shared.words(),
            files: files
                .collect::<io::Result<_>>()
                .map_err(WebhookError::Memory)?,
            // Use the clock of the ring's records, which lags behind other clocks by some milliseconds.
            from_unix_ms: clock::unix_ms(),
        })
    }

    /// Returns the start of the server, in milliseconds since 1970.
    pub fn began_unix_ms(&self) -> u64 {
        self.from_unix_ms
    }

    /// Starts the senders in the first worker.
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
                    let line = format!("cannot send a webhook of application {}: {error}", app.id);
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
        // A server does not send before it knows the other servers.
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
    /// Passes a channel's number of subscriptions to the webhooks that request `channel_occupied` or `channel_vacated` events.
    pub fn set_count(&self, app: usize, channel: &str, count: u64) {
        for sender in self.of(app, &[Kind::ChannelOccupied, Kind::ChannelVacated]) {
            sender.inbox.set_count(channel, count);
            sender.thread.unpark();
        }
    }

    /// Passes a channel's number of subscriptions to the webhooks that request `subscription_count` events.
    pub fn send_count(&self, app: usize, channel: &str, count: u64) {
        for sender in self.of(app, &[Kind::SubscriptionCount]) {
            sender.inbox.send_count(channel, count);
            sender.thread.unpark();
        }
    }

    /// Reports that a subscriber found a cache channel empty.
    pub fn miss(&self, app: usize, channel: &str) {
        for sender in self.of(app, &[Kind::CacheMiss]) {
            sender.inbox.miss(channel);
            sender.thread.unpark();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Sets the role of this server's senders. `sends` is true if this server sends the webhooks of the cluster.
    pub fn set_role(&self, sends: bool) {
        for sender in &self.senders {
            sender
                .inbox
                .set_role(if sends { Role::Sends } else { Role::Waits });
            sender.thread.unpark();
        }
    }

    /// Stores a delivery reported by the sending server: the last acknowledged event and the states of channels.
    pub fn add_deliveries(
        &self,
        app: usize,
        number: usize,
        acknowledged: Option<&str>,
        occupancies: Vec<(String, bool)>,
    ) {
        if let Some(sender) = self.find(app, number) {
            sender.inbox.add_deliveries(acknowledged, occupancies);
            sender.thread.unpark();
        }
    }

    /// Requests full reports for another server.
    pub fn report_all(&self) {
        for sender in &self.senders {
            sender.inbox.ask();
            sender.thread.unpark();
        }
    }

    /// Returns the deliveries since the last call: application, webhook and report.
    pub fn reports(&self) -> Vec<(usize, usize, Report)> {
        let reports = self.senders.iter().filter_map(|sender| {
            let report = sender.inbox.take_report()?;
            Some((sender.app, sender.number, report))
        });
        reports.collect()
    }

    /// Stores a report again that could not be sent to the other servers.
    pub fn put_back(
        &self,
        app: usize,
        number: usize,
        acknowledged: Option<String>,
        occupancies: Vec<(String, bool)>,
    ) {
        if let Some(sender) = self.find(app, number) {
            sender.inbox.put_back(acknowledged, occupancies);
        }
    }

    fn find(&self, app: usize, number: usize) -> Option<&Running> {
        let mut senders = self.senders.iter();
        senders.find(|sender| sender.app == app && sender.number == number)
    }

    /// Sends the remaining events before the worker exits. The next worker sends the events again that are not acknowledged in
    /// time.
    pub fn finish(&self) {
        let until = Instant::now() + FINISH;
        for sender in &self.senders {
            sender.inbox.end();
            sender.thread.unpark();
        }
        for sender in &self.senders {
            let left = until.saturating_duration_since(Instant::now());
            // The thread signals its exit by dropping its side of the channel.
            let _ = sender.ended.recv_timeout(left);
        }
    }

    fn of(&self, app: usize, kinds: &'static [Kind]) -> impl Iterator<Item = &Running> {
        self.senders.iter().filter(move |sender| {
            sender.app == app && kinds.iter().any(|kind| sender.kinds.contains(kind))
        })
    }
}
