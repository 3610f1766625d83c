//! GRIP edges in front: holds become instructions, and what is published is told to them.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fermata_config::{LogLevel, Settings};
use fermata_engine::{Followed, Follower, Hold, HoldError, Last, Logger, Worker};
use fermata_grip::last;
use fermata_io::{Driver, thread};
use fermata_origin::courier::{Level, Log};
use fermata_origin::{Courier, Edges, Item, Next, Source, answer};

use crate::abi::FmStr;
use crate::worker::FmWorker;

/// What was published so long before a worker began is not told again when it takes the place of one that has died. Edges
/// know the ids of a minute, and leave out what they have had.
const AGAIN_MS: u64 = 30_000;
/// How long a worker that stops waits for an edge to take the rest.
const FINISH: Duration = Duration::from_secs(2);
/// Enough for a request over TLS.
const STACK_BYTES: usize = 512 * 1024;

/// What an edge has said with a request.
#[repr(C)]
pub struct FmGrip {
    /// The value of Grip-Sig.
    pub signature: FmStr,
    /// The target, as it was sent.
    pub target: FmStr,
    /// The values of Grip-Last.
    pub lasts: *const FmStr,
    /// Their number.
    pub lasts_len: usize,
}

/// A worker's side of it.
pub(crate) struct Grip {
    edges: Edges,
    couriers: Vec<Courier>,
}

/// The edges of the settings; `None`: there are none.
///
/// # Errors
/// What is wrong with an address, and never its text.
pub(crate) fn edges(settings: &Settings) -> Result<Option<Edges>, String> {
    let Some(text) = &settings.grip_url else {
        return Ok(None);
    };
    let edges = Edges::parse(text)
        .map_err(|error| format!("setting grip_url (Server gripUrl): {error}"))?;
    Ok((!edges.is_empty()).then_some(edges))
}

impl Grip {
    /// The first worker tells the edges what all of them publish.
    pub(crate) fn begin<D: Driver>(edges: Edges, worker: &mut Worker<D>) -> Box<Grip> {
        let mut couriers = Vec::new();
        if worker.index() == 0 {
            let settings = worker.settings();
            let timeout = Duration::from_millis(settings.grip_publish_timeout_ms);
            // The text was read before, when the server started.
            let again = settings.grip_url.as_deref().map(Edges::parse);
            let addresses = again.and_then(Result::ok).map(Edges::into_addresses);
            for address in addresses.unwrap_or_default() {
                let records = Records {
                    follower: worker.follow(),
                    from_unix_ms: unix_ms().saturating_sub(AGAIN_MS),
                };
                let begun =
                    Courier::begin(address, timeout, records, log(worker.logger()), &|work| {
                        let handle = thread::begin("fermata-grip", STACK_BYTES, work)?;
                        Ok(handle.thread().clone())
                    });
                match begun {
                    Ok(courier) => {
                        worker.tell_follower(courier.thread(), {
                            let figures = courier.figures();
                            Box::new(move || {
                                [&figures.taken, &figures.refused, &figures.lost]
                                    .map(|it| it.load(Ordering::Relaxed))
                            })
                        });
                        couriers.push(courier);
                    }
                    Err(error) => worker.log(LogLevel::Error, &format!("grip_url: {error}")),
                }
            }
        }
        Box::new(Grip { edges, couriers })
    }

    /// Lets the edges have the rest before the worker ends.
    pub(crate) fn finish(&self) {
        for courier in &self.couriers {
            courier.finish(FINISH);
        }
    }
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

/// What the ring has, as items.
struct Records {
    follower: Follower,
    from_unix_ms: u64,
}

impl Source for Records {
    fn next(&mut self) -> Next {
        loop {
            let event = match self.follower.next_event() {
                Followed::Event(event) => event,
                Followed::Lost => return Next::Lost,
                Followed::Nothing => return Next::Nothing,
            };
            if event.unix_ms < self.from_unix_ms {
                continue;
            }
            let mut stream = Vec::new();
            event.write_sse(&mut stream);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            return Next::Item(Item {
                channel: text(event.channel),
                id: event.id,
                previous: event.previous,
                stream: text(&stream),
                message: event.message.map(text),
            });
        }
    }
}

impl FmWorker {
    /// Answers a hold by an instruction when one of the edges has signed the request. `None`: it is to be held here.
    ///
    /// # Safety
    /// The strings of `grip` are valid.
    pub(crate) unsafe fn instruct(
        &mut self,
        request: u64,
        hold: &Hold<'_>,
        grip: &FmGrip,
    ) -> Option<Result<(), HoldError>> {
        let edges = &mut self.grip.as_mut()?.edges;
        // SAFETY: valid by this function's contract.
        let (signature, target) = unsafe { (grip.signature.bytes(), grip.target.bytes()) };
        if let Err(error) = edges.verify(signature, unix_ms() / 1_000) {
            let message = format!("Grip-Sig: {error}; the client is held here (grip_url)");
            self.worker.log_for_client(LogLevel::Warning, &message);
            return None;
        }
        // SAFETY: the same contract.
        let lasts: Vec<&[u8]> = unsafe { crate::abi::array(grip.lasts, grip.lasts_len) }
            .iter()
            // SAFETY: the same contract.
            .map(|value| unsafe { value.bytes() })
            .collect();
        Some(self.answer_instruction(request, hold, target, &lasts))
    }

    fn answer_instruction(
        &mut self,
        request: u64,
        hold: &Hold<'_>,
        target: &[u8],
        lasts: &[&[u8]],
    ) -> Result<(), HoldError> {
        let lasts: Vec<(&[u8], &[u8])> = lasts
            .iter()
            .map(|value| (last::HEADER.as_bytes(), *value))
            .collect();
        let lasts: Vec<Last> = last::read(&lasts);
        let opening = self.worker.opening(hold, &lasts)?;
        let settings = self.worker.settings();
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
        .map_err(HoldError::Misuse)?;
        let instruction = match self.worker.is_head(request) {
            true => &[][..],
            false => &instruction,
        };
        self.worker
            .respond_elsewhere(request, hold, instruction, &opening.body)
            .map_err(|_| HoldError::Gone)
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Whether `fm_hold` has to be told what an edge has said.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_has_edges(worker: *const FmWorker) -> bool {
    // SAFETY: the pointer is valid by this function's contract.
    unsafe { (*worker).grip.is_some() }
}
