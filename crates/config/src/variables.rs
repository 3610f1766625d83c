//! Environment variables that begin as settings do: which of them are somebody's, and which are nobody's.
//!
//! A variable that nothing reads is a setting that its user believes to have made, so every program tells of it. What tests,
//! builds and tools read is listed here and nowhere else.

use crate::nearest::nearest;
use crate::program::Program;

/// What every setting's environment variable starts with.
pub(crate) const ENVIRONMENT_PREFIX: &str = "FERMATA_";

/// What the environment variables of the edge's settings start with.
pub const EDGE_PREFIX: &str = "FERMATA_EDGE_";

/// Variables that are no settings of a server, and who reads them.
pub(crate) const OTHERS: &[(&str, &str)] = &[
    ("FERMATA_COMMAND", "tests and benchmarks: the command"),
    ("FERMATA_EXTENSION", "the command, tests: fermata.so"),
    ("FERMATA_PHP", "the command, make: which PHP"),
    ("FERMATA_FPM", "fermata serve: which PHP-FPM"),
    ("FERMATA_PUBLISH_KEY", "fermata publish"),
    ("FERMATA_DEVELOPMENT", "fermata dev tells its server"),
    ("FERMATA_DEVELOPMENT_CHANGED", "the same"),
    ("FERMATA_DEVELOPMENT_COLOURED", "the same"),
    ("FERMATA_DEVELOPMENT_GENERATION", "the same"),
    ("FERMATA_DEVELOPMENT_ROUTES", "the same"),
    ("FERMATA_DEVELOPMENT_THROWN", "the same"),
    ("FERMATA_LOOP_MAX", "Symfony's runtime"),
    ("FERMATA_ROOT", "builds: this repository"),
    ("FERMATA_CORE", "builds: the library"),
    ("FERMATA_BINARY", "releases: the command"),
    ("FERMATA_CACHE", "scripts: where downloads are kept"),
    ("FERMATA_PHP_CONFIGS", "releases: for which PHPs"),
    ("FERMATA_PHP_SOURCE", "tests: PHP's own"),
    ("FERMATA_PHP_LIBC", "tests: of a PHP from its source"),
    ("FERMATA_PHP_THREADS", "tests: how many at a time"),
    ("FERMATA_DEBIAN_MIRROR", "scripts"),
    ("FERMATA_APT_PAUSE_S", "scripts"),
    ("FERMATA_APT_WAIT_S", "scripts"),
    ("FERMATA_CHAT_COMMAND", "tests in browsers"),
    ("FERMATA_CHROMIUM", "tests in browsers"),
    ("FERMATA_FIREFOX", "tests in browsers"),
    ("FERMATA_OCTANE", "tests of frameworks"),
    ("FERMATA_PSR7_TESTS", "tests of frameworks"),
    ("FERMATA_LAMINAS", "tests of frameworks"),
    ("FERMATA_FRAMEWORKS", "tests of frameworks"),
    ("FERMATA_REVOLT", "tests of Revolt"),
    ("FERMATA_XDEBUG", "tests with a debugger"),
    ("FERMATA_ISOLATION_REQUESTS", "tests of frameworks"),
    ("FERMATA_SIMULATIONS", "tests of the hub: how many"),
    ("FERMATA_HPACK_VECTORS", "tests of HTTP/2"),
    ("FERMATA_HTTP2_ROUNDS", "tests of HTTP/2: what they cost"),
    ("FERMATA_PUBLISH_AMOUNTS", "tests of the hub: what it costs"),
];

/// What variables of whole groups begin with, and who reads them.
const GROUPS: &[(&str, &str)] = &[
    ("FERMATA_TEST_", "tests; test_clock alone is a setting"),
    ("FERMATA_PHPT_", "tests of the extension"),
    ("FERMATA_BENCH_", "benchmarks"),
];

/// Variables of one environment that are named; of more it is said how many there are.
pub(crate) const NAMED_MAX: usize = 8;

/// Words of a name that are compared; no setting has as many.
const WORDS_MAX: usize = 16;

/// Longest name that a variable is repeated by.
const NAME_CHARS_MAX: usize = 64;

/// Whether something else than a server reads the variable.
pub(crate) fn is_listed(variable: &str) -> bool {
    OTHERS.iter().any(|(name, _)| *name == variable)
        || GROUPS.iter().any(|(start, _)| variable.starts_with(start))
}

/// Whether it is one of those by which Kubernetes and Docker tell each container of every service: of one that is called
/// `fermata`, `fermata-edge` and so on they begin as settings do. `FERMATA_PORT_8080_TCP_ADDR`, for example.
pub fn is_service_variable(variable: &str, value: &str) -> bool {
    let protocols = ["tcp", "udp", "sctp"];
    if variable.ends_with("_SERVICE_HOST")
        || variable.ends_with("_SERVICE_PORT")
        || variable.contains("_SERVICE_PORT_")
    {
        return true;
    }
    let is_url = || {
        let scheme = value.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| protocols.contains(&scheme))
    };
    if variable.ends_with("_PORT") && is_url() {
        return true;
    }
    let Some((_, port)) = variable.rsplit_once("_PORT_") else {
        // `…_PORT_8080_TCP_PORT` is found by its last part but one.
        return variable
            .strip_suffix("_PORT")
            .is_some_and(is_port_of_protocol);
    };
    is_port_of_protocol(&format!("_PORT_{port}"))
}

/// Whether a name has `_PORT_8080_TCP`, and at most one word behind it.
fn is_port_of_protocol(variable: &str) -> bool {
    let Some((_, port)) = variable.rsplit_once("_PORT_") else {
        return false;
    };
    let mut words = port.split('_');
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let (number, protocol) = (words.next(), words.next());
    let last = words.next();
    number.is_some_and(is_number)
        && protocol.is_some_and(|word| ["TCP", "UDP", "SCTP"].contains(&word))
        && last.is_none_or(|word| ["PROTO", "PORT", "ADDR"].contains(&word))
        && words.next().is_none()
}

/// What an environment has that nobody reads, a sentence each.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    unknown: Vec<String>,
    more: usize,
    /// Of the edge, for which this program is none.
    misplaced: Vec<String>,
    /// Of servers in PHP, of which this program is none.
    of_php: Vec<String>,
}

impl Strangers {
    /// Takes a variable that is no setting, unless it is somebody's.
    pub fn take(&mut self, variable: &str, value: &str, program: Program) {
        let is_edges = variable.starts_with(EDGE_PREFIX);
        let is_read = is_edges && program == Program::Edge;
        if is_listed(variable) || is_service_variable(variable, value) || is_read {
            return;
        }
        let kept = match is_edges {
            true => &mut self.misplaced,
            false => &mut self.unknown,
        };
        match kept.len() < NAMED_MAX {
            true => kept.push(shown(variable)),
            false => self.more += 1,
        }
    }

    /// Takes a variable that is a setting of servers in PHP, for a program that is none. They are no more than there are such.
    pub fn take_of_php(&mut self, variable: &str) {
        self.of_php.push(variable.to_owned());
    }

    /// A sentence for each, with that of these settings' variables which was probably meant.
    pub fn sentences(self, settings: &[String]) -> Vec<String> {
        let mut sentences: Vec<String> = self
            .unknown
            .iter()
            .map(|variable| {
                let candidates = settings.iter().map(String::as_str);
                let candidates = candidates.chain(OTHERS.iter().map(|(name, _)| *name));
                let text = match meant(&variable.to_ascii_uppercase(), candidates) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => "docs/reference/settings.md lists them all".to_owned(),
                };
                format!(
                    "environment variable {variable} is not a setting and changes nothing; {text}"
                )
            })
            .collect();
        if !self.misplaced.is_empty() {
            sentences.push(format!(
                "of the environment, {} changes nothing here: variables with {EDGE_PREFIX} are settings of fermata edge alone",
                self.misplaced.join(", ")
            ));
        }
        if !self.of_php.is_empty() {
            sentences.push(format!(
                "of the environment, {} changes nothing here: that is for servers in PHP alone",
                self.of_php.join(", ")
            ));
        }
        if self.more > 0 {
            sentences.push(format!(
                "{} more environment variables begin with {ENVIRONMENT_PREFIX} and are no settings",
                self.more
            ));
        }
        sentences
    }
}

/// What was probably meant by a variable: what is written almost so, or has all of its words and as few others as possible.
fn meant<'a>(variable: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let own = variable.len() - ENVIRONMENT_PREFIX.len();
    let close = nearest(variable, candidates.clone());
    if let Some((close, _)) = close.filter(|(_, changes)| changes * 4 <= own + 3) {
        return Some(close);
    }
    let words: Vec<&str> = variable.split('_').take(WORDS_MAX).collect();
    candidates
        .filter(|it| {
            words
                .iter()
                .all(|word| it.split('_').any(|own| own == *word))
        })
        .min_by_key(|it| it.split('_').count())
}

/// Whether a variable begins as settings do, in whatever case: names of variables have one, and it is capitals.
pub(crate) fn is_ours(variable: &str) -> bool {
    let start = variable.get(..ENVIRONMENT_PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(ENVIRONMENT_PREFIX))
}

fn shown(variable: &str) -> String {
    let mut shown = variable.escape_debug();
    let text: String = shown.by_ref().take(NAME_CHARS_MAX).collect();
    match shown.next() {
        Some(_) => text + "…",
        None => text,
    }
}
