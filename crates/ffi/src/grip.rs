//! GRIP edges in front of the server: turns holds into instructions for an edge, and sends published events to the
//! edges.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fermata_config::{LogLevel, Settings};
use fermata_engine::{
    Followed, Follower, Hold, HoldError, Last, Logger, Misuse, RequestId, Worker,
};
use fermata_grip::last;
use fermata_io::shm::Shared;
use fermata_io::{Driver, thread};
use fermata_origin::address::AddressError;
use fermata_origin::edge_publisher::{EdgePublisherError, Level, Log};
use fermata_origin::edges::EdgeError;
use fermata_origin::{EdgePublisher, Edges, Item, Next, Source, answer};

use crate::abi::{FmStr, array};

/// Maximum age in milliseconds of events that a starting server sends, so that a restarted server continues where the previous one
/// stopped. Edges remember the ids of one minute and drop duplicates.
const AGAIN_MS: u64 = 30_000;
/// Time to send the remaining events when a worker stops, and again after the last worker has exited.
const FINISH: Duration = Duration::from_secs(2);
/// Stack size of a sending thread, enough for a request over TLS.
const STACK_BYTES: usize = 512 * 1024;

/// Data that an edge added to a request.
#[repr(C)]
pub struct FmGrip {
    /// Value of the Grip-Sig header.
    pub signature: FmStr,
    /// Request-target as sent.
    pub target: FmStr,
    /// Values of the Grip-Last headers.
    pub lasts: *const FmStr,
    /// Number of `lasts`.
    pub lasts_len: usize,
}

impl FmGrip {
    fn lasts(&self) -> &[FmStr] {
        // SAFETY: C sets both fields: an array and its length.
        unsafe { array(self.lasts, self.lasts_len) }
    }
}

/// Edges of a server before it has workers.
pub(crate) struct Front {
    edges: Edges,
    progress: Progress,
}

/// Sending progress of each edge, two words per edge, shared by the processes that send.
#[derive(Clone, Copy)]
struct Progress {
    words: &'static [AtomicU64],
    from_unix_ms: u64,
    /// True if Pusher or Mercure is configured.
    has_doors: bool,
}

/// Words per edge: the last position that it acknowledged, and the number of processes that have started to send to
/// it.
const WORDS: usize = 2;

/// A worker's connection to the edges.
pub(crate) struct Grip {
    edges: Edges,
    edge_publishers: Vec<EdgePublisher>,
}

/// Reasons why the edges cannot be set up. All but the last are errors in the setting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontError {
    #[error("setting grip_url (Server gripUrl): {0}")]
    Address(#[from] AddressError),
    #[error("setting grip_url (Server gripUrl): {0}")]
    Edge(#[from] EdgeError),
    /// A failure of the machine, not of the setting.
    #[error(
        "setting grip_url (Server gripUrl): no memory for it: {0}; the machine is out of memory or descriptors"
    )]
    Memory(#[source] std::io::Error),
}

/// Parses the edges of the settings. Returns `None` if there are none. With `has_doors` (Pusher or Mercure), events of their
/// internal channels are not sent, because no client of an edge subscribes to those.
///
/// # Errors
/// Describes the error in an address, without its text, which may contain a secret.
pub(crate) fn front(settings: &Settings, has_doors: bool) -> Result<Option<Front>, FrontError> {
    let Some(text) = &settings.grip_url else {
        return Ok(None);
    };
    let edges = Edges::parse(text)?;
    edges.check()?;
    if edges.is_empty() {
        return Ok(None);
    }
    let shared = Shared::anonymous(edges.len() * WORDS).map_err(FrontError::Memory)?;
    let progress = Progress {
        words: shared.words(),
        from_unix_ms: unix_ms().saturating_sub(AGAIN_MS),
        has_doors,
    };
    Ok(Some(Front { edges, progress }))
}

impl Front {
    /// Returns true if the signatures of the edges can be verified.
    pub(crate) fn can_verify(&self) -> bool {
        self.edges.can_verify()
    }

    /// Sends the events that no worker sent, after all workers have exited.
    pub(crate) fn finish(
        self,
        settings: &Settings,
        published: &dyn Fn() -> Follower,
        logger: &Logger,
    ) {
        let timeout = FINISH.min(publish_timeout(settings));
        let until = Instant::now() + FINISH;
        let begun = self.progress.begin(self.edges, timeout, published, logger);
        let edge_publishers: Vec<EdgePublisher> = begun
            .into_iter()
            .filter_map(|edge_publisher| warn(edge_publisher, logger))
            .collect();
        for edge_publisher in &edge_publishers {
            edge_publisher.end();
        }
        for edge_publisher in &edge_publishers {
            if !edge_publisher.finish(until) {
                let message = "an edge is not told what was published last (grip_url): it does not take it in time";
                logger.write(LogLevel::Warning, unix_ms(), message);
            }
        }
    }
}

impl Progress {
    fn begin(
        self,
        edges: Edges,
        timeout: Duration,
        published: &dyn Fn() -> Follower,
        logger: &Logger,
    ) -> Vec<Result<EdgePublisher, EdgePublisherError>> {
        let words = self.words.chunks_exact(WORDS);
        let each = edges.into_addresses().into_iter().zip(words);
        each.map(|(address, words)| {
            let records = Records::begin(published(), words, self);
            EdgePublisher::begin(address, timeout, records, log(logger.clone()), &|work| {
                let handle = thread::begin("fermata-grip", STACK_BYTES, work)?;
                Ok(handle.thread().clone())
            })
        })
        .collect()
    }
}

impl Grip {
    /// Starts the sending threads. Only the first worker has these threads. They send the events of all workers.
    pub(crate) fn begin<D: Driver>(front: Front, worker: &mut Worker<D>) -> Box<Grip> {
        let Front { edges, progress } = front;
        let mut edge_publishers = Vec::new();
        if worker.index() == 0 {
            let settings = worker.settings();
            let timeout = publish_timeout(settings);
            // The server parsed the text when it started, so this cannot fail.
            let again = settings.grip_url.as_deref().map(Edges::parse);
            let begun = match again {
                Some(Ok(edges)) => progress.begin(
                    edges,
                    timeout,
                    &|| worker.channels.follow(),
                    &worker.net.logger(),
                ),
                _ => Vec::new(),
            };
            for edge_publisher in begun {
                let Some(edge_publisher) = warn(edge_publisher, &worker.net.logger()) else {
                    continue;
                };
                worker.channels.tell_follower(edge_publisher.thread(), {
                    let figures = edge_publisher.figures();
                    Box::new(move || {
                        [&figures.taken, &figures.refused, &figures.lost]
                            .map(|it| it.load(Ordering::Relaxed))
                    })
                });
                edge_publishers.push(edge_publisher);
            }
        }
        Box::new(Grip {
            edges,
            edge_publishers,
        })
    }

    /// Responds to a hold with an instruction if one of the edges signed the request. Returns `None` if this server must hold the
    /// client itself.
    pub(crate) fn instruct<D: Driver>(
        &mut self,
        worker: &mut Worker<D>,
        request: RequestId,
        hold: &Hold<'_>,
        grip: &FmGrip,
    ) -> Option<Result<(), HoldError>> {
        let (signature, target) = (grip.signature.bytes(), grip.target.bytes());
        if let Err(error) = self.edges.verify(signature, unix_ms() / 1_000) {
            let message = format!("Grip-Sig: {error}; the client is held here (grip_url)");
            worker.net.log_for_client(LogLevel::Warning, &message);
            return None;
        }
        let lasts: Vec<&[u8]> = grip.lasts().iter().map(FmStr::bytes).collect();
        Some(answer_instruction(worker, request, hold, target, &lasts))
    }

    /// Sends the remaining events before the worker exits. The next worker sends those that an edge does not accept
    /// in time.
    pub(crate) fn finish(&self) {
        let until = Instant::now() + FINISH;
        for edge_publisher in &self.edge_publishers {
            edge_publisher.end();
        }
        for edge_publisher in &self.edge_publishers {
            edge_publisher.finish(until);
        }
    }
}

fn answer_instruction<D: Driver>(
    worker: &mut Worker<D>,
    request: RequestId,
    hold: &Hold<'_>,
    target: &[u8],
    lasts: &[&[u8]],
) -> Result<(), HoldError> {
    let lasts: Vec<(&[u8], &[u8])> = lasts
        .iter()
        .map(|value| (last::HEADER.as_bytes(), *value))
        .collect();
    let lasts: Vec<Last> = last::read(&lasts);
    let opening = worker.opening(hold, &lasts)?;
    let settings = worker.settings();
    let newest = opening.newest.iter().map(Option::as_deref);
    let channels: Vec<_> = hold.channels.iter().copied().zip(newest).collect();
    let instruction = answer::headers(&answer::Hold {
        channels: &channels,
        keep_alive_ms: hold.keep_alive_ms.unwrap_or(settings.keep_alive_ms),
        user: hold.user,
        link_timeout_s: match settings.grip_link_timeout_ms {
            0 => None,
            ms => Some(ms.div_ceil(1_000)),
        },
        target,
    })
    .map_err(|error| Misuse::Edge(error.to_string()))?;
    let instruction = if worker.net.is_head(request) {
        &[][..]
    } else {
        &instruction
    };
    let Worker { http, net, .. } = worker;
    http.respond_elsewhere(net, request, hold, instruction, &opening.body)
        .map_err(|_| HoldError::Gone)
}

fn publish_timeout(settings: &Settings) -> Duration {
    Duration::from_millis(settings.grip_publish_timeout_ms)
}

fn warn(
    edge_publisher: Result<EdgePublisher, EdgePublisherError>,
    logger: &Logger,
) -> Option<EdgePublisher> {
    edge_publisher
        .inspect_err(|error| {
            logger.write(LogLevel::Error, unix_ms(), &format!("grip_url: {error}"))
        })
        .ok()
}

fn log(logger: Logger) -> Log {
    Box::new(move |level, message| {
        let level = match level {
            Level::Warning => LogLevel::Warning,
            Level::Info => LogLevel::Info,
        };
        logger.write(level, unix_ms(), message);
    })
}

/// Reads events from the ring as items for an edge.
struct Records {
    follower: Follower,
    acknowledged: &'static AtomicU64,
    /// Number of the process that sends to the edge. Each new process increments it, so that earlier processes stop sending.
    turns: &'static AtomicU64,
    turn: u64,
    has_doors: bool,
}

impl Records {
    /// Continues after the last acknowledged event. `words` are the edge's two words in shared memory.
    fn begin(mut follower: Follower, words: &'static [AtomicU64], of: Progress) -> Self {
        let [acknowledged, turns] = words else {
            unreachable!("chunks of two");
        };
        let turn = turns.fetch_add(1, Ordering::AcqRel) + 1;
        match acknowledged.load(Ordering::Acquire) {
            0 => follower.begin_after(0, of.from_unix_ms),
            place => follower.begin_after(place, 0),
        }
        Self {
            follower,
            acknowledged,
            turns,
            turn,
            has_doors: of.has_doors,
        }
    }
}

impl Source for Records {
    fn next(&mut self) -> Next {
        // A draining worker leaves the remaining events to the next worker.
        if self.turns.load(Ordering::Acquire) != self.turn {
            return Next::Nothing;
        }
        // Bounded by the events in the ring.
        let event = loop {
            match self.follower.next_event() {
                Followed::Event(event)
                    if self.has_doors && fermata_gateway::is_own(event.channel) => {}
                Followed::Event(event) => break event,
                Followed::Lost => return Next::Lost,
                Followed::Nothing => return Next::Nothing,
            }
        };
        let mut stream = Vec::new();
        event.write_sse(&mut stream);
        let message = event.message().map(<[u8]>::to_vec);
        Next::Item(Item {
            place: event.place,
            channel: String::from_utf8_lossy(event.channel).into_owned(),
            id: event.id,
            previous: event.previous,
            stream,
            message,
        })
    }

    fn acknowledge(&mut self, place: u64) {
        self.acknowledged.fetch_max(place, Ordering::AcqRel);
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
