//! Resolves host names of origins. Threads look a name up on its first use, and again when its addresses fail or are older than a
//! minute.
//!
//! The system's resolver cannot be interrupted and may block for half a minute, so the event loop never calls it. An
//! exchange that needs an unknown name waits; a byte on a socket pair wakes the loop when a lookup finishes. The threads
//! start with the first lookup, after the worker was forked.

use std::collections::{HashMap, HashSet};
use std::io;
use std::io::Write;
use std::net::ToSocketAddrs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use fermata_io::thread;

use crate::upstream::error::UpstreamError;

/// Age of addresses in milliseconds after which their name is looked up again.
const AGE_MS_MAX: u64 = 60_000;
/// Age in milliseconds up to which addresses are still used while the name is looked up again.
const STALE_MS_MAX: u64 = 10 * AGE_MS_MAX;

/// Time in milliseconds after which a name without an address, or whose addresses failed, is looked up again.
const RETRY_MS: u64 = 5_000;

/// Maximum number of cached names. Above it, the cache is cleared.
const NAMES_MAX: usize = 1_024;
/// Maximum number of lookups in progress. A further lookup fails immediately.
const ASKED_MAX: usize = 256;

/// Maximum number of threads. With several threads, lookups continue while one thread waits for an unreachable name server.
const THREADS_MAX: usize = 4;

/// Stack size of a thread in bytes; the system's resolver has its buffers on the stack.
const STACK_BYTES: usize = 512 * 1024;

/// Maximum number of addresses tried per name.
const ADDRESSES_MAX: usize = 8;

/// Blocking lookup of a name.
type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

/// A name and its addresses.
type Answer = (String, io::Result<Vec<IpAddr>>);

/// Result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Addresses of the name in the order in which they are tried.
    Addresses(Vec<SocketAddr>),
    /// The lookup is in progress; [`Resolver::answers`] returns the name when it finishes.
    Later,
}

/// Cache of host names, with the threads that look them up.
pub(crate) struct Resolver {
    look_up: LookUp,
    known: HashMap<String, Known>,
    /// Lookups in progress.
    asked: HashSet<String>,
    threads: Option<Threads>,
}

#[derive(Debug, Default)]
struct Known {
    addresses: Vec<IpAddr>,
    /// Time of the last successful lookup.
    found_ms: u64,
    /// Time of the last lookup.
    tried_ms: u64,
    /// True if the last lookup failed or none of the addresses accepted a connection.
    has_failed: bool,
    /// Error of the last failed lookup.
    problem: String,
}

struct Threads {
    count: usize,
    questions: Sender<String>,
    /// Receiver of `questions`, shared by the threads.
    queue: Arc<Mutex<Receiver<String>>>,
    answers: Receiver<Answer>,
    answer: Sender<Answer>,
    /// Wakes the event loop. `receiver` is the other end, until it is moved to the loop.
    bell: Arc<UnixStream>,
    receiver: Option<OwnedFd>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(|name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl Resolver {
    fn new(look_up: LookUp) -> Self {
        Self {
            look_up,
            known: HashMap::new(),
            asked: HashSet::new(),
            threads: None,
        }
    }

    /// Returns the addresses of a host, or starts a lookup.
    ///
    /// # Errors
    /// The host has no address, or too many lookups are in progress.
    pub fn find(&mut self, host: &str, port: u16, now_ms: u64) -> Result<Found, UpstreamError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Found::Addresses(vec![SocketAddr::new(address, port)]));
        }
        if self
            .threads
            .as_ref()
            .is_some_and(|it| it.receiver.is_some())
        {
            // The event loop does not watch the socket yet.
            self.answers(now_ms);
        }
        let is_fresh = self.known.get(host).is_some_and(|known| {
            let believed_ms = if known.has_failed {
                RETRY_MS
            } else {
                AGE_MS_MAX
            };
            now_ms.saturating_sub(known.tried_ms) < believed_ms
        });
        let asked = if is_fresh { Ok(()) } else { self.ask(host) };
        match self.known.get(host) {
            Some(known) if known.has_addresses(now_ms) => {
                let addresses = known.addresses.iter();
                Ok(Found::Addresses(
                    addresses
                        .map(|&address| SocketAddr::new(address, port))
                        .collect(),
                ))
            }
            Some(known) if is_fresh => {
                let reason = format!("{host} has no address: {}", known.problem);
                Err(UpstreamError::Target(reason))
            }
            // There is no cached result. An error means that the lookup could not be started.
            _ => asked.map(|()| Found::Later),
        }
    }

    /// Notes that no address of a host responds, so that the host is looked up again soon.
    pub fn failed(&mut self, host: &str) {
        if let Some(known) = self.known.get_mut(host) {
            known.has_failed = true;
        }
    }

    /// Returns the socket that becomes readable when lookups finish. Returns it only once.
    pub fn take_bell(&mut self) -> Option<OwnedFd> {
        self.threads.as_mut()?.receiver.take()
    }

    /// Stores the socket again if it could not be watched.
    pub fn return_bell(&mut self, bell: OwnedFd) {
        if let Some(threads) = &mut self.threads {
            threads.receiver = Some(bell);
        }
    }

    /// Stores the results of finished lookups and returns their names.
    pub fn answers(&mut self, now_ms: u64) -> Vec<String> {
        let Some(threads) = &self.threads else {
            return Vec::new();
        };
        let answers: Vec<Answer> = threads.answers.try_iter().collect();
        let names = answers.iter().map(|(name, _)| name.clone()).collect();
        for (name, found) in answers {
            self.learn(name, found, now_ms);
        }
        names
    }

    fn learn(&mut self, name: String, found: io::Result<Vec<IpAddr>>, now_ms: u64) {
        self.asked.remove(&name);
        if self.known.len() >= NAMES_MAX && !self.known.contains_key(&name) {
            // Origins choose the hosts in GRIP links, so the number of names has no other limit.
            self.known.clear();
        }
        let known = self.known.entry(name).or_default();
        known.tried_ms = now_ms;
        match found {
            Ok(mut addresses) => {
                // Try IPv4 first: servers on the same machine often listen only on IPv4.
                addresses.sort_by_key(IpAddr::is_ipv6);
                addresses.dedup();
                addresses.truncate(ADDRESSES_MAX);
                known.found_ms = now_ms;
                known.has_failed = addresses.is_empty();
                known.addresses = addresses;
            }
            // Old addresses stay in use for a while. The failure is stored, because otherwise each request would wait for a further
            // lookup.
            Err(error) => {
                known.has_failed = true;
                known.problem = error.to_string();
            }
        }
    }

    /// Starts a lookup unless one is in progress.
    fn ask(&mut self, name: &str) -> Result<(), UpstreamError> {
        if self.asked.contains(name) {
            return Ok(());
        }
        if self.asked.len() >= ASKED_MAX {
            return Err(UpstreamError::Local(format!(
                "{name} is not looked up: {ASKED_MAX} other names are"
            )));
        }
        let problem =
            |error: io::Error| UpstreamError::Local(format!("{name} cannot be looked up: {error}"));
        let threads = match &mut self.threads {
            Some(threads) => threads,
            none => none.insert(Threads::new().map_err(problem)?),
        };
        if threads.count <= self.asked.len() && threads.count < THREADS_MAX {
            match threads.start(self.look_up) {
                Err(error) if threads.count == 0 => return Err(problem(error)),
                // The running threads do the lookup.
                Ok(()) | Err(_) => {}
            }
        }
        // Cannot fail: `queue` keeps the receiver alive.
        let _ = threads.questions.send(name.to_owned());
        self.asked.insert(name.to_owned());
        Ok(())
    }
}

impl Known {
    /// Returns true if the entry has addresses that are not too old.
    fn has_addresses(&self, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(self.found_ms);
        !self.addresses.is_empty() && age_ms < STALE_MS_MAX
    }
}

impl Threads {
    fn new() -> io::Result<Self> {
        let (bell, receiver) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let (questions, queue) = channel();
        let (answer, answers) = channel();
        Ok(Self {
            count: 0,
            questions,
            queue: Arc::new(Mutex::new(queue)),
            answers,
            answer,
            bell: Arc::new(bell),
            receiver: Some(OwnedFd::from(receiver)),
        })
    }

    /// Starts a further thread, which runs until the process exits.
    fn start(&mut self, look_up: LookUp) -> io::Result<()> {
        let (queue, answer, bell) = (
            Arc::clone(&self.queue),
            self.answer.clone(),
            Arc::clone(&self.bell),
        );
        let work = move || {
            loop {
                let question = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(name) = question else {
                    return;
                };
                let found = look_up(&name);
                if answer.send((name, found)).is_err() {
                    return;
                }
                // A full socket already has bytes that wake the loop.
                let _ = (&*bell).write(&[0]);
            }
        };
        thread::begin("resolver", STACK_BYTES, work)?;
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static COUNT: AtomicUsize = AtomicUsize::new(0);

    /// Fails for `gone…`, blocks forever for `slow…`, and counts the lookups of `two`.
    fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            name if name.starts_with("gone") => Err(io::Error::other("gone")),
            name if name.starts_with("slow") => loop {
                std::thread::park();
            },
            "two" => {
                COUNT.fetch_add(1, Ordering::SeqCst);
                Ok(vec![
                    IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
                    IpAddr::from([10, 0, 0, 1]),
                ])
            }
            _ => Ok(vec![IpAddr::from([10, 0, 0, 2])]),
        }
    }

    /// Waits for the wake-up byte, like the event loop.
    fn wait(resolver: &mut Resolver, bell: &mut UnixStream, now_ms: u64) -> Vec<String> {
        bell.set_nonblocking(false).expect("a socket");
        bell.read_exact(&mut [0]).expect("a bell");
        resolver.answers(now_ms)
    }

    fn bell(resolver: &mut Resolver) -> UnixStream {
        UnixStream::from(resolver.take_bell().expect("threads"))
    }

    #[test]
    fn names_are_looked_up_beside_the_loop_and_remembered() {
        let mut resolver = Resolver::new(look_up);
        let address = "192.0.2.1:80".parse().expect("an address");
        assert_eq!(
            resolver.find("192.0.2.1", 80, 0),
            Ok(Found::Addresses(vec![address]))
        );
        assert!(resolver.take_bell().is_none());
        assert_eq!(resolver.find("two", 80, 0), Ok(Found::Later));
        let mut bell = bell(&mut resolver);
        assert_eq!(resolver.find("two", 80, 0), Ok(Found::Later));
        assert_eq!(wait(&mut resolver, &mut bell, 0), ["two"]);
        let both = ["10.0.0.1:80", "[::1]:80"].map(|it| it.parse().expect("an address"));
        let found = Ok(Found::Addresses(both.to_vec()));
        assert_eq!(resolver.find("two", 80, AGE_MS_MAX - 1), found);
        assert_eq!(COUNT.load(Ordering::SeqCst), 1);
        // Old addresses stay in use until new ones arrive, for a limited time.
        assert_eq!(resolver.find("two", 80, AGE_MS_MAX), found);
        assert_eq!(wait(&mut resolver, &mut bell, AGE_MS_MAX), ["two"]);
        assert_eq!(COUNT.load(Ordering::SeqCst), 2);
        assert_eq!(
            resolver.find("two", 80, AGE_MS_MAX + STALE_MS_MAX),
            Ok(Found::Later)
        );
    }

    #[test]
    fn a_name_without_address_is_not_looked_up_each_time() {
        let mut resolver = Resolver::new(look_up);
        assert_eq!(resolver.find("gone", 80, 0), Ok(Found::Later));
        let mut bell = bell(&mut resolver);
        assert_eq!(wait(&mut resolver, &mut bell, 10), ["gone"]);
        assert_eq!(
            resolver.find("gone", 80, 9 + RETRY_MS),
            Err(UpstreamError::Target(
                "gone has no address: gone".to_owned()
            ))
        );
        assert!(resolver.asked.is_empty());
        assert_eq!(resolver.find("gone", 80, 10 + RETRY_MS), Ok(Found::Later));
    }

    #[test]
    fn addresses_that_fail_are_looked_up_again_soon() {
        let mut resolver = Resolver::new(look_up);
        resolver.learn("a".to_owned(), Ok(vec![IpAddr::from([10, 0, 0, 2])]), 0);
        resolver.failed("a");
        let found = resolver.find("a", 80, RETRY_MS);
        assert!(matches!(found, Ok(Found::Addresses(_))) && resolver.asked.contains("a"));
    }

    #[test]
    fn failed_lookups_keep_old_addresses_for_a_bounded_time() {
        let mut resolver = Resolver::new(look_up);
        let address = IpAddr::from([10, 0, 0, 2]);
        resolver.learn("a".to_owned(), Ok(vec![address]), 0);
        for now_ms in (AGE_MS_MAX..=STALE_MS_MAX).step_by(RETRY_MS as usize) {
            resolver.learn("a".to_owned(), Err(io::Error::other("gone")), now_ms);
        }
        let found = Ok(Found::Addresses(vec![SocketAddr::new(address, 80)]));
        assert_eq!(resolver.find("a", 80, STALE_MS_MAX - 1), found);
        let gone = Err(UpstreamError::Target("a has no address: gone".to_owned()));
        assert_eq!(resolver.find("a", 80, STALE_MS_MAX), gone);
    }

    #[test]
    fn finds_names_without_the_wake_up() {
        let mut resolver = Resolver::new(look_up);
        assert_eq!(resolver.find("other", 80, 0), Ok(Found::Later));
        let bell = resolver.take_bell().expect("threads");
        resolver.return_bell(bell);
        let found = Ok(Found::Addresses(vec![
            "10.0.0.2:80".parse().expect("an address"),
        ]));
        let is_found = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            resolver.find("other", 80, 0) == found
        });
        assert!(is_found && resolver.take_bell().is_some());
    }

    #[test]
    fn slow_names_delay_no_other_name_and_are_bounded() {
        let mut resolver = Resolver::new(look_up);
        for name in 0..THREADS_MAX - 1 {
            assert_eq!(
                resolver.find(&format!("slow{name}"), 80, 0),
                Ok(Found::Later)
            );
        }
        assert_eq!(resolver.find("other", 80, 0), Ok(Found::Later));
        let mut bell = bell(&mut resolver);
        assert_eq!(wait(&mut resolver, &mut bell, 0), ["other"]);
        for name in THREADS_MAX - 1..ASKED_MAX {
            assert_eq!(
                resolver.find(&format!("slow{name}"), 80, 0),
                Ok(Found::Later)
            );
        }
        let problem = resolver.find("one more", 80, 0);
        assert!(
            matches!(problem, Err(UpstreamError::Local(it)) if it.contains("256 other names")),
            "bounded"
        );
        assert_eq!(resolver.threads.map(|it| it.count), Some(THREADS_MAX));
    }
}
