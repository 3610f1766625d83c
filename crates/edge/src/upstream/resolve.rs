//! Addresses of origins. A name is looked up by threads beside the loop, when it is first needed and again when its
//! addresses fail or are old; an address is itself.
//!
//! What the system's resolver does cannot be interrupted and may take half a minute, so nobody waits for it in the loop:
//! whoever needs a name that is not known is told to come back, which the loop is woken for by a byte on a socket pair.
//! The threads begin when the first name is asked for, which is after the worker was forked.

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

/// How long the addresses of a name are believed, and for how long they are better than waiting for new ones.
const AGE_MS_MAX: u64 = 60_000;
const STALE_MS_MAX: u64 = 10 * AGE_MS_MAX;

/// How soon a name is looked up again when it has no address, or its addresses fail.
const RETRY_MS: u64 = 5_000;

/// Names that are remembered, and that are being looked up.
const NAMES_MAX: usize = 1_024;
const ASKED_MAX: usize = 256;

/// Threads that look names up: one that waits for a dead name server does not hold the others up.
const THREADS_MAX: usize = 4;

/// Stack of such a thread: the system's resolver has its buffers there.
const STACK_BYTES: usize = 512 * 1024;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// How a name is looked up.
type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

/// A name, and what was found.
type Answer = (String, io::Result<Vec<IpAddr>>);

/// What is known of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Its addresses, the most useful first.
    Addresses(Vec<SocketAddr>),
    /// It is being looked up: [`Resolver::answers`] says when it has been.
    Later,
}

/// What is known of names.
pub(crate) struct Resolver {
    look_up: LookUp,
    known: HashMap<String, Known>,
    /// Names that are being looked up.
    asked: HashSet<String>,
    threads: Option<Threads>,
}

#[derive(Debug, Default)]
struct Known {
    addresses: Vec<IpAddr>,
    /// When these were found, and when they were last looked for.
    found_ms: u64,
    tried_ms: u64,
    /// It has no address, or none that answers.
    has_failed: bool,
    /// Why there is none.
    problem: String,
}

struct Threads {
    count: usize,
    questions: Sender<String>,
    /// What the threads take from.
    queue: Arc<Mutex<Receiver<String>>>,
    answers: Receiver<Answer>,
    answer: Sender<Answer>,
    /// Wakes the loop; the other end is for it to take.
    bell: Arc<UnixStream>,
    heard: Option<OwnedFd>,
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

    /// The addresses of a host.
    ///
    /// # Errors
    /// It has none; or too many names are being looked up.
    pub fn find(&mut self, host: &str, port: u16, now_ms: u64) -> Result<Found, UpstreamError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Found::Addresses(vec![SocketAddr::new(address, port)]));
        }
        if self.threads.as_ref().is_some_and(|it| it.heard.is_some()) {
            // The loop does not watch for the wake-up yet.
            self.answers(now_ms);
        }
        let is_fresh = self.known.get(host).is_some_and(|known| {
            let believed_ms = match known.has_failed {
                true => RETRY_MS,
                false => AGE_MS_MAX,
            };
            now_ms.saturating_sub(known.tried_ms) < believed_ms
        });
        let asked = match is_fresh {
            true => Ok(()),
            false => self.ask(host),
        };
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
            // It is we who cannot look it up.
            _ => asked.map(|()| Found::Later),
        }
    }

    /// The addresses of a host do not answer.
    pub fn failed(&mut self, host: &str) {
        if let Some(known) = self.known.get_mut(host) {
            known.has_failed = true;
        }
    }

    /// The socket that has something to read when names have been looked up, once: the first time that one is asked for.
    pub fn take_bell(&mut self) -> Option<OwnedFd> {
        self.threads.as_mut()?.heard.take()
    }

    /// It was not taken after all.
    pub fn return_bell(&mut self, bell: OwnedFd) {
        if let Some(threads) = &mut self.threads {
            threads.heard = Some(bell);
        }
    }

    /// Takes in what was found; returns the names.
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
            // Links name hosts, too, and any number of them.
            self.known.clear();
        }
        let known = self.known.entry(name).or_default();
        known.tried_ms = now_ms;
        match found {
            Ok(mut addresses) => {
                // Servers on the machine itself listen there at least.
                addresses.sort_by_key(IpAddr::is_ipv6);
                addresses.dedup();
                addresses.truncate(ADDRESSES_MAX);
                known.found_ms = now_ms;
                known.has_failed = addresses.is_empty();
                known.addresses = addresses;
            }
            // Old addresses are better than none, for a while; that there is none is remembered, or every request would
            // wait for it.
            Err(error) => {
                known.has_failed = true;
                known.problem = error.to_string();
            }
        }
    }

    /// Has a name looked up, unless it is being looked up.
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
                // The others do it.
                Ok(()) | Err(_) => {}
            }
        }
        // The receiver is ours, too, so it is there.
        let _ = threads.questions.send(name.to_owned());
        self.asked.insert(name.to_owned());
        Ok(())
    }
}

impl Known {
    /// Whether it has addresses that are still to be believed.
    fn has_addresses(&self, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(self.found_ms);
        !self.addresses.is_empty() && age_ms < STALE_MS_MAX
    }
}

impl Threads {
    fn new() -> io::Result<Self> {
        let (bell, heard) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
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
            heard: Some(OwnedFd::from(heard)),
        })
    }

    /// Starts one more; it ends with the process.
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
                // When there is no room the loop has been told enough.
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

    /// `gone…` has no address, `slow…` never gets one, any other counts how often it was asked for.
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

    /// Waits for the bell as the loop does.
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
        // Old ones do until there are new ones, for a while.
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
    fn a_name_that_is_gone_is_believed_no_longer_than_one_that_nobody_asks_for() {
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
    fn names_are_found_though_nobody_hears_the_bell() {
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
    fn a_slow_name_holds_nobody_else_up_and_their_number_is_bounded() {
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
