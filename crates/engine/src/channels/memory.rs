//! Shared memory of the server's processes: the channel ring, in a file if it is to survive a
//! restart, and the counters. The master opens the memory before it forks the workers.

use std::path::{Path, PathBuf};

use fermata_config::{LogLevel, Settings};
use fermata_hub::{Config, ConfigError, Layout, OpenError, Owner, Ring};
use fermata_io::shm::{Held, Shared};
use fermata_io::{process, random};

use crate::admin::stats;
use crate::log::Logger;

/// Maximum number of slots for worker processes.
pub(crate) const SLOTS: u16 = fermata_hub::WORKERS_MAX as u16;

/// Slots in the ring's memory are allocated in multiples of this number. A history file therefore
/// fits any number of workers up to the multiple. A slot costs one cache line, and 8 bytes per
/// present user.
const SLOTS_STEP: u16 = 64;

/// Minimum number of slots beyond one per worker: a retired worker keeps its slot until its last
/// client has disconnected.
const SPARE_SLOTS: u16 = 6;

/// Returns the number of workers. Automatic counts are limited to what any history file supports.
pub(crate) fn workers(settings: &Settings) -> u16 {
    match settings.workers {
        0 => process::usable_cores().min(usize::from(SLOTS_STEP)) as u16,
        workers => workers,
    }
}

/// Returns the number of slots for `workers`: a draining worker keeps its slot while its
/// replacement starts.
pub(crate) fn slots(workers: u16) -> u16 {
    let max = if workers > SLOTS_STEP {
        SLOTS
    } else {
        SLOTS_STEP
    };
    (workers + workers.max(SPARE_SLOTS)).min(max)
}

/// Returns the number of slots in the ring's memory.
fn ring_slots(settings: &Settings) -> u16 {
    slots(workers(settings)).next_multiple_of(SLOTS_STEP)
}

/// Buckets of the channel index per MiB of ring: one per 128 records of 128 bytes.
const INDEX_BUCKETS_PER_MIB: usize = 1024;

/// Exit code of a process whose history file was truncated or failed (`EX_IOERR`).
const EXIT_LOST: i32 = 74;

/// Why the ring's memory is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Contradictory sizes.
    #[error("history_bytes_max and its relatives: {0}")]
    Config(#[from] ConfigError),
    /// No memory or no file.
    #[error("{}: {source}; {fix}", place(path.as_deref()))]
    Io {
        /// The history file; `None`: anonymous memory.
        path: Option<PathBuf>,
        /// The cause.
        source: std::io::Error,
        /// Suggested fix.
        fix: &'static str,
    },
    /// The history file does not match.
    #[error("history_path: {}: {source}; the file was left as it is: move it away, name another one, or set the sizes it was made with", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The mismatch between the file and the settings.
        source: OpenError,
    },
}

fn place(path: Option<&Path>) -> String {
    path.map_or("shared memory".to_owned(), |path| {
        format!("history_path: {}", path.display())
    })
}

/// Allocates the shared memory of counters, before the workers are forked.
pub(crate) fn open_stats() -> Result<stats::Shared, HubError> {
    let shared = Shared::anonymous(stats::Shared::WORDS).map_err(|source| HubError::Io {
        path: None,
        source,
        fix: "it is for counters; the machine is out of memory or descriptors",
    })?;
    Ok(stats::Shared::new(shared.words()))
}

fn config_of(settings: &Settings) -> Config {
    Config {
        ring_bytes: settings.history_bytes_max,
        index_buckets: (settings.history_bytes_max >> 20).max(1) * INDEX_BUCKETS_PER_MIB,
        record_bytes_max: settings.event_bytes_max,
        workers_max: u32::from(ring_slots(settings)),
        history_count_max: settings.history_count_max,
        history_age_ms_max: settings.history_age_ms_max,
        members_max: settings.members_max as u32,
        leave_delay_ms: settings.leave_delay_ms,
    }
}

/// Returns the size of the ring's memory in words.
pub(crate) fn words(settings: &Settings) -> Result<usize, HubError> {
    Ok(Layout::new(&config_of(settings))?.words())
}

/// Creates a ring in zeroed memory of the right size. The ring's content is lost when the process
/// exits.
pub(crate) fn begin_in(shared: &Shared, settings: &Settings) -> Result<Ring, HubError> {
    create(shared, &config_of(settings))
}

/// Opens or creates the ring's memory, before the workers are forked.
pub(crate) fn open(settings: &Settings, logger: &Logger) -> Result<Ring, HubError> {
    let config = config_of(settings);
    let words = Layout::new(&config)?.words();
    let Some(path) = &settings.history_path else {
        let shared = Shared::anonymous(words).map_err(|source| HubError::Io {
            path: None,
            source,
            fix: "lower history_bytes_max",
        })?;
        return create(&shared, &config);
    };
    let held = hold_file(path)?;
    if held.bytes() == 0 {
        return begin(path, held, words, &config, logger);
    }
    match reopen(path, held, &config, logger)? {
        Ok(mut ring) => {
            if ring.adopt(boot(), random::u64()) {
                let message = format!(
                    "history_path: {}: the machine went down while it was in use; clients are \
                     told that messages may be missing",
                    path.display()
                );
                logger.write(LogLevel::Warning, unix_ms(), &message);
            }
            Ok(ring)
        }
        Err(OpenError::Damaged) => {
            // The history is optional. Start without it instead of refusing to start.
            let aside = aside(path);
            let message = format!(
                "history_path: {} is damaged; moved to {}, starting without history",
                path.display(),
                aside.display()
            );
            logger.write(LogLevel::Error, unix_ms(), &message);
            let failed = |source| HubError::Io {
                path: Some(path.clone()),
                source,
                fix: "the damaged file could not be moved aside; move it yourself",
            };
            std::fs::rename(path, &aside).map_err(failed)?;
            begin(path, hold_file(path)?, words, &config, logger)
        }
        Err(source) => Err(HubError::File {
            path: path.clone(),
            source,
        }),
    }
}

/// Creates a ring in a new file.
fn begin(
    path: &Path,
    held: Held,
    words: usize,
    config: &Config,
    logger: &Logger,
) -> Result<Ring, HubError> {
    let shared = map_file(path, held, words, logger)?;
    let mut ring = create(&shared, config)?;
    ring.adopt(boot(), random::u64());
    Ok(ring)
}

/// Opens the ring in an existing file. A file that cannot be opened is left unchanged; one made for
/// more workers is accepted.
fn reopen(
    path: &Path,
    held: Held,
    config: &Config,
    logger: &Logger,
) -> Result<Result<Ring, OpenError>, HubError> {
    let head = held.head().map_err(|source| HubError::Io {
        path: Some(path.to_owned()),
        source,
        fix: "the server must be able to read and write it",
    })?;
    let mut config = config.clone();
    while let Err(error) = Ring::check_head(&head, &config) {
        let is_last = config.workers_max + u32::from(SLOTS_STEP) > u32::from(SLOTS);
        if is_last || !matches!(error, OpenError::OtherSizes) {
            return Ok(Err(error));
        }
        config.workers_max += u32::from(SLOTS_STEP);
    }
    let words = Layout::new(&config)?.words();
    if held.bytes() < (words * size_of::<u64>()) as u64 {
        // The header has our sizes, but the file is shorter: it was truncated.
        return Ok(Err(OpenError::Damaged));
    }
    let shared = map_file(path, held, words, logger)?;
    Ok(Ring::open(shared.words(), &config))
}

/// Returns an unused name for a damaged file.
fn aside(path: &Path) -> PathBuf {
    let first = path.with_extension("damaged");
    let numbered = (2..).map(|number| path.with_extension(format!("damaged-{number}")));
    std::iter::once(first)
        .chain(numbered)
        .find(|name| name.symlink_metadata().is_err())
        .unwrap_or_default()
}

fn hold_file(path: &Path) -> Result<Held, HubError> {
    Held::open(path).map_err(|source| unusable(path, source))
}

fn map_file(path: &Path, held: Held, words: usize, logger: &Logger) -> Result<Shared, HubError> {
    let shared = held.map(words).map_err(|source| unusable(path, source))?;
    let message = format!(
        "history_path: a part of {} is missing: the file was truncated or its disk failed; this process exits. Started \
         again, the server moves what is left aside",
        path.display()
    );
    let last_words = logger.last_words(&message);
    if let Err(error) = shared.tell_loss(last_words, EXIT_LOST) {
        let message = format!("history_path: cannot install the SIGBUS handler: {error}");
        logger.write(LogLevel::Warning, unix_ms(), &message);
    }
    Ok(shared)
}

fn unusable(path: &Path, source: std::io::Error) -> HubError {
    let fix = match source.kind() {
        std::io::ErrorKind::WouldBlock => "another server is using this file; give each its own",
        std::io::ErrorKind::NotFound => "create its directory first",
        _ => "the server must be able to read and write it",
    };
    HubError::Io {
        path: Some(path.to_owned()),
        source,
        fix,
    }
}

fn create(shared: &Shared, config: &Config) -> Result<Ring, HubError> {
    Ring::create(shared.words(), config, random::u64(), random::u64()).map_err(|source| {
        HubError::File {
            path: PathBuf::from("shared memory"),
            source,
        }
    })
}

/// Returns the boot id of the machine as a number. 0 if the kernel provides none.
fn boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

fn unix_ms() -> u64 {
    fermata_io::clock::unix_ms()
}

/// Returns how a process identifies itself to the shared lock.
pub(crate) fn owner(slot: u32) -> Owner {
    let pid = process::pid() as u32;
    Owner {
        slot,
        pid,
        alive: |pid| process::is_alive(pid as i32),
    }
}
