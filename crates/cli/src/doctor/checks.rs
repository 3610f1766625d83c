//! Checks of the machine, one function each.

use std::env;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use fermata_engine::unknown_variables;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::php::{self, Php};

/// Number of descriptors that a worker needs in addition to the descriptors of its clients.
const DESCRIPTORS_BESIDE: u64 = 300;
/// Minimum kernel version of the server, and of the io_uring operations that it uses.
const KERNEL_MIN: (u32, u32) = (5, 6);
const KERNEL_URING_MIN: (u32, u32) = (6, 1);
/// Backlog that the server requests for a listening socket.
const BACKLOG: u64 = 4_096;
/// Number of clients from which the sysctls for many clients are checked.
const MANY_CLIENTS: u64 = 20_000;
/// Minimum free memory in /dev/shm for the ring of a server with default settings.
const SHARED_BYTES_MIN: u64 = 128 * 1024 * 1024;
/// Earliest plausible time: 2025-01-01. An earlier clock was never set.
const CLOCK_MIN_S: u64 = 1_735_689_600;
/// Default of tls_ticket_period_ms in seconds, required to load certificates.
const TICKET_PERIOD_S: u32 = 21_600;
/// Magic bytes of a channel history file.
const HISTORY_MAGIC: &[u8; 8] = b"fermata\x01";

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Good,
    /// The server works, but with reduced performance or features.
    Warning,
    /// The server cannot start, or fails under load.
    Bad,
}

/// One check and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
    /// Observed state.
    pub found: String,
    /// Command to run or change to make; empty if none is needed.
    pub advice: String,
}

/// Runs all checks in the order in which a server depends on them.
pub fn all(php: &php::Arguments, listen: &str, clients: u64) -> Vec<Check> {
    let mut checks = vec![kernel(), io_uring()];
    match php.find() {
        Ok(php) => {
            checks.push(version(&php));
            checks.push(extension(&php));
            checks.push(opcache(&php));
            checks.extend(xdebug(&php));
            checks.push(memory(&php));
        }
        Err(error) => checks.push(bad("php", "not found", error.to_string())),
    }
    checks.push(cores());
    checks.push(descriptors(clients));
    checks.push(backlog());
    checks.extend(many_clients(clients));
    checks.push(shared_memory());
    checks.push(port(listen));
    checks.extend(certificate());
    checks.extend(history());
    checks.push(clock());
    checks.push(environment());
    checks
}

/// Checks the environment variables with the prefix of settings.
fn environment() -> Check {
    let variables = match fermata_engine::environment() {
        Ok(variables) => variables,
        Err(error) => return bad("environment", error.to_string(), ""),
    };
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
    let sentences = unknown_variables(variables);
    if sentences.is_empty() {
        good("environment", "each variable FERMATA_… is a setting")
    } else {
        warning(
            "environment",
            "variables FERMATA_… that are no settings",
            sentences.join("\n"),
        )
    }
}

fn good(name: &'static str, found: impl Into<String>) -> Check {
    check(name, Verdict::Good, found, "")
}

fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    check(name, Verdict::Warning, found, advice)
}

fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    check(name, Verdict::Bad, found, advice)
}

fn check(
    name: &'static str,
    verdict: Verdict,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> Check {
    Check {
        name,
        verdict,
        found: found.into(),
        advice: advice.into(),
    }
}

fn kernel_version() -> (String, (u32, u32)) {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut parts = release.split(|it: char| !it.is_ascii_digit());
    let mut next = || parts.next().and_then(|it| it.parse().ok()).unwrap_or(0);
    let version = (next(), next());
    (release, version)
}

fn kernel() -> Check {
    let (release, version) = kernel_version();
    let found = format!("Linux {release}");
    if version >= KERNEL_MIN {
        good("kernel", found)
    } else {
        bad("kernel", found, "Fermata needs Linux 5.6 or later")
    }
}

fn io_uring() -> Check {
    let (_, version) = kernel_version();
    let disabled = read_number("/proc/sys/kernel/io_uring_disabled");
    match (disabled, version >= KERNEL_URING_MIN) {
        (_, false) => good("io_uring", "the kernel is too old for it; epoll serves"),
        (Some(0), true) => good("io_uring", "there is; epoll is the default"),
        (None, true) => good("io_uring", "the kernel does not say; epoll is the default"),
        // No advice: epoll is equally good for nearly all loads.
        (Some(_), true) => good(
            "io_uring",
            "forbidden by kernel.io_uring_disabled; epoll serves",
        ),
    }
}

fn version(php: &Php) -> Check {
    let facts = &php.facts;
    let ini = facts.ini_file.as_deref().unwrap_or("no php.ini");
    let found = format!("PHP {} ({}, {ini})", facts.version, php.program.display());
    if !php::VERSIONS.contains(&facts.id) {
        return bad(
            "php",
            found,
            "Fermata needs 8.2 to 8.5; name another by --php",
        );
    }
    if facts.is_debug {
        return warning("php", found, "a debug build: several times slower");
    }
    good("php", found)
}

fn extension(php: &Php) -> Check {
    let place = match &php.extension {
        Some(file) => file.display().to_string(),
        None => "loaded by PHP itself".to_owned(),
    };
    match php.loaded_version() {
        Ok(version) if version == env!("CARGO_PKG_VERSION") => {
            good("extension", format!("Fermata {version}, {place}"))
        }
        Ok(version) => warning(
            "extension",
            format!("Fermata {version}, {place}"),
            format!(
                "this command is {}; install both from one build",
                env!("CARGO_PKG_VERSION")
            ),
        ),
        Err(error) if php.extension.is_some() => bad(
            "extension",
            place,
            format!(
                "{error}\nbuild it for this PHP: PHP={} make",
                php.program.display()
            ),
        ),
        Err(error) => bad(
            "extension",
            "none",
            format!("{error}; build it with `make`, or name it by --extension"),
        ),
    }
}

fn opcache(php: &Php) -> Check {
    let facts = &php.facts;
    match (facts.has_opcache, facts.has_jit) {
        (true, true) => good(
            "opcache",
            "OPcache and its JIT, which `fermata serve` switches on",
        ),
        (true, false) => good(
            "opcache",
            "OPcache without JIT; `fermata serve` switches it on",
        ),
        (false, _) => warning(
            "opcache",
            "not loaded",
            "handlers compile again in each worker and run slower: install PHP's opcache",
        ),
    }
}

fn xdebug(php: &Php) -> Option<Check> {
    let version = php.facts.xdebug.as_ref()?;
    Some(warning(
        "xdebug",
        format!("Xdebug {version} is loaded"),
        "it slows every call down and forbids the JIT: phpdismod -s cli xdebug, or xdebug.mode=off",
    ))
}

fn memory(php: &Php) -> Check {
    let limit = &php.facts.memory_limit;
    match limit.as_str() {
        "-1" => good(
            "memory_limit",
            "-1; workers have worker_memory_bytes_max (512 MiB)",
        ),
        _ => good("memory_limit", limit.clone()),
    }
}

fn cores() -> Check {
    match thread::available_parallelism() {
        Ok(count) => good("cores", format!("{count} usable: as many workers")),
        Err(error) => warning("cores", error.to_string(), "set workers by FERMATA_WORKERS"),
    }
}

fn descriptors(clients: u64) -> Check {
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current, limit.maximum);
    let needed = clients + DESCRIPTORS_BESIDE;
    let shown = |it: Option<u64>| it.map_or("unlimited".to_owned(), |it| it.to_string());
    let found = format!(
        "{} open files, up to {}; {clients} clients per worker need {needed}",
        shown(soft),
        shown(hard)
    );
    // The server raises its soft limit to the hard limit.
    if hard.is_none_or(|it| it >= needed) {
        good("descriptors", found)
    } else {
        warning(
            "descriptors",
            found,
            format!("LimitNOFILE={needed} in the systemd unit, or ulimit -n {needed} in the shell"),
        )
    }
}

fn backlog() -> Check {
    let found = read_number("/proc/sys/net/core/somaxconn");
    match found {
        Some(value) if value < BACKLOG => warning(
            "somaxconn",
            format!("{value} connections may wait to be accepted; the server asks for {BACKLOG}"),
            format!("sysctl -w net.core.somaxconn={BACKLOG}, and the same line in /etc/sysctl.d/"),
        ),
        Some(value) => good("somaxconn", value.to_string()),
        None => good("somaxconn", "not to be read here"),
    }
}

/// Checks sysctls for many clients; for fewer, the defaults suffice.
fn many_clients(clients: u64) -> Vec<Check> {
    if clients < MANY_CLIENTS {
        return Vec::new();
    }
    let mut checks = Vec::new();
    let mut at_least = |name, path: &str, key: &str, needed: u64| {
        let Some(value) = read_number(path) else {
            return;
        };
        checks.push(if value >= needed {
            good(name, value.to_string())
        } else {
            warning(
                name,
                format!("{value}, and {needed} are needed"),
                format!("sysctl -w {key}={needed}"),
            )
        });
    };
    at_least(
        "file-max",
        "/proc/sys/fs/file-max",
        "fs.file-max",
        clients + clients / 10,
    );
    at_least(
        "nr_open",
        "/proc/sys/fs/nr_open",
        "fs.nr_open",
        clients + DESCRIPTORS_BESIDE,
    );
    at_least(
        "syn_backlog",
        "/proc/sys/net/ipv4/tcp_max_syn_backlog",
        "net.ipv4.tcp_max_syn_backlog",
        2 * BACKLOG,
    );
    if let Some(1) = read_number("/proc/sys/net/ipv4/tcp_slow_start_after_idle") {
        checks.push(warning(
            "slow start",
            "streams are throttled after each pause",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
        ));
    }
    checks
}

fn shared_memory() -> Check {
    // The ring is in anonymous shared memory, but containers apply the limit of /dev/shm to it too.
    match rustix::fs::statvfs("/dev/shm") {
        Ok(it) => {
            let free = it.f_bavail * it.f_frsize;
            let found = format!("{} free in /dev/shm", crate::format::bytes(free));
            if free >= SHARED_BYTES_MIN {
                good("memory", found)
            } else {
                warning(
                    "memory",
                    found,
                    "a container with little shared memory: docker run --shm-size=256m, or a smaller history_bytes_max",
                )
            }
        }
        Err(error) => warning(
            "memory",
            format!("/dev/shm: {error}"),
            "mount a tmpfs there",
        ),
    }
}

fn port(listen: &str) -> Check {
    let first = listen.split(',').next().unwrap_or(listen);
    let Some((_, rest)) = first.split_once("://") else {
        return good(
            "port",
            format!("{first}: no TCP address, so it is not tried"),
        );
    };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let address = authority
        .to_socket_addrs()
        .ok()
        .and_then(|mut it| it.next());
    let Some(address) = address else {
        return bad(
            "port",
            format!("{first}: no address"),
            "name one as http://HOST:PORT",
        );
    };
    match TcpListener::bind(address) {
        Ok(_) => good("port", format!("{address} is free")),
        Err(error) => warning(
            "port",
            format!("{address}: {error}"),
            format!(
                "who has it: ss -ltnp 'sport = :{}'; another: FERMATA_LISTEN=http://127.0.0.1:{}",
                address.port(),
                address.port().saturating_add(1)
            ),
        ),
    }
}

fn certificate() -> Option<Check> {
    let paths = |name: &str| -> Vec<PathBuf> {
        let value = env::var(name).unwrap_or_default();
        let parts = value.split(',').filter(|it| !it.is_empty());
        parts.map(|it| PathBuf::from(it.trim())).collect()
    };
    let certificates = paths("FERMATA_TLS_CERTIFICATE");
    if certificates.is_empty() {
        return None;
    }
    let options = fermata_tls::Options {
        pairs: certificates
            .into_iter()
            .zip(paths("FERMATA_TLS_KEY"))
            .collect(),
        clients: None,
        is_tls13_only: false,
        ticket_period_s: TICKET_PERIOD_S,
        has_http2: false,
        names: fermata_tls::PairNames::default(),
    };
    let count = options.pairs.len();
    let loaded = fermata_tls::Certificates::new(options).and_then(|it| it.load(now_s()));
    Some(match loaded {
        Ok(loaded) if loaded.warnings.is_empty() => {
            good("certificates", format!("{count} can be served"))
        }
        Ok(loaded) => warning(
            "certificates",
            format!("{count} can be served"),
            loaded.warnings.join("\n"),
        ),
        Err(error) => bad("certificates", "cannot be served", error.to_string()),
    })
}

fn history() -> Option<Check> {
    let path = env::var_os("FERMATA_HISTORY_PATH").filter(|it| !it.is_empty())?;
    let path = Path::new(&path);
    let shown = path.display();
    Some(match fs::File::open(path) {
        Ok(mut file) => {
            let mut head = [0_u8; 8];
            match file.read_exact(&mut head) {
                Ok(()) if head == *HISTORY_MAGIC => {
                    good("history", format!("{shown} is a history"))
                }
                _ => warning(
                    "history",
                    format!("{shown} is no history of Fermata"),
                    "the server leaves it alone or moves it away; name another by FERMATA_HISTORY_PATH",
                ),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match path.parent().filter(|it| it.is_dir()) {
                Some(folder) => good(
                    "history",
                    format!("{shown} will be made in {}", folder.display()),
                ),
                None => bad(
                    "history",
                    format!("{shown}: its folder does not exist"),
                    "mkdir -p the folder, as the server's user",
                ),
            }
        }
        Err(error) => bad(
            "history",
            format!("{shown}: {error}"),
            "let the server's user read and write it",
        ),
    })
}

/// Checks the clock, on which event ids and certificates depend.
fn clock() -> Check {
    if now_s() >= CLOCK_MIN_S {
        good("clock", "set")
    } else {
        bad(
            "clock",
            "it stands before 2025",
            "set it, and keep it right: apt install chrony",
        )
    }
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_named_with_what_to_type() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = taken.local_addr().expect("bound");
        let check = port(&format!("http://{address}"));
        assert_eq!(check.verdict, Verdict::Warning);
        assert!(
            check.advice.contains(&address.port().to_string()),
            "{check:?}"
        );
    }

    #[test]
    fn addresses_that_are_none_are_told() {
        assert_eq!(port("http://nowhere.invalid:1").verdict, Verdict::Bad);
        assert_eq!(port("unix:/run/a.sock").verdict, Verdict::Good);
    }

    #[test]
    fn a_limit_below_the_clients_wanted_is_told() {
        assert_eq!(descriptors(0).verdict, Verdict::Good);
        let limit = getrlimit(Resource::Nofile).maximum;
        if let Some(limit) = limit {
            assert_eq!(descriptors(limit).verdict, Verdict::Warning);
        }
    }
}
