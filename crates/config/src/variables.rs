//! Detects environment variables with the prefix of settings that no program reads.
//!
//! Such a variable is probably a mistyped setting, so every program warns about it. This file is the only list of variables
//! that tests, builds and tools read.

use crate::nearest::nearest;
use crate::program::Program;

/// Prefix of the environment variables of all settings.
pub(crate) const ENVIRONMENT_PREFIX: &str = "FERMATA_";

/// Prefix of the environment variables of the edge's settings.
pub const EDGE_PREFIX: &str = "FERMATA_EDGE_";

/// Variables that are not server settings, and the programs that read them.
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

/// Prefixes of groups of such variables, and the programs that read them.
const GROUPS: &[(&str, &str)] = &[
    ("FERMATA_TEST_", "tests; test_clock alone is a setting"),
    ("FERMATA_PHPT_", "tests of the extension"),
    ("FERMATA_BENCH_", "benchmarks"),
];

/// Maximum number of unknown variables listed by name; further ones are only counted.
pub(crate) const NAMED_MAX: usize = 8;

/// Maximum number of words of a name that are compared; more than any setting has.
const WORDS_MAX: usize = 16;

/// Maximum number of characters of a variable's name in a message.
const NAME_CHARS_MAX: usize = 64;

/// Returns true if a program other than a server reads the variable.
pub(crate) fn is_listed(variable: &str) -> bool {
    OTHERS.iter().any(|(name, _)| *name == variable)
        || GROUPS.iter().any(|(start, _)| variable.starts_with(start))
}

/// Returns true for a service discovery variable that Kubernetes or Docker sets in every container. A service called `fermata`
/// or `fermata-edge` produces names with the prefix of settings, such as `FERMATA_PORT_8080_TCP_ADDR`.
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
        return variable
            .strip_suffix("_PORT")
            .is_some_and(is_port_of_protocol);
    };
    is_port_of_protocol(&format!("_PORT_{port}"))
}

/// Returns true if the name contains a part such as `_PORT_8080_TCP`, followed by at most one word.
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

/// Collects the variables that no program reads and formats a warning for each.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    unknown: Vec<String>,
    more: usize,
    /// Settings of the edge, if this program is not the edge.
    misplaced: Vec<String>,
    /// Settings of PHP servers, if this program is not a PHP server.
    of_php: Vec<String>,
}

impl Strangers {
    /// Records a variable that is not a setting, unless another program reads it.
    pub fn take(&mut self, variable: &str, value: &str, program: Program) {
        let is_edges = variable.starts_with(EDGE_PREFIX);
        let is_read = is_edges && program == Program::Edge;
        if is_listed(variable) || is_service_variable(variable, value) || is_read {
            return;
        }
        let kept = if is_edges {
            &mut self.misplaced
        } else {
            &mut self.unknown
        };
        if kept.len() < NAMED_MAX {
            kept.push(shown(variable))
        } else {
            self.more += 1
        }
    }

    /// Records a setting of servers in PHP, found in the environment of another program. The list is bounded by the number of
    /// such settings.
    pub fn take_of_php(&mut self, variable: &str) {
        self.of_php.push(variable.to_owned());
    }

    /// Returns one sentence per variable, with the most similar variable of `settings` as a suggestion.
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

/// Returns the candidate that was probably intended: a similar spelling, or otherwise the shortest name that contains all words of
/// `variable`.
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

/// Returns true if a variable has the prefix of settings in any case. Lower case is included because it is a likely mistake:
/// variable names are case-sensitive.
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
