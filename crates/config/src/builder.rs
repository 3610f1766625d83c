//! Merges the sources of settings and checks the settings against each other.

use crate::declare::Setting;
use crate::error::{SettingError, quoted};
use crate::listen::{Listen, Transport, parse_port};
use crate::otel::{self, Otel};
use crate::program::Program;
use crate::table::{Settings, declared, table};
use crate::value_error::ValueError;
use crate::variables::{ENVIRONMENT_PREFIX, Strangers, is_listed, is_ours, is_service_variable};

/// Environment variable in which hosting platforms pass the port to listen at.
const PORT_VARIABLE: &str = "PORT";

/// Environment variable in which GRIP libraries expect the URLs of edges.
const GRIP_VARIABLE: &str = "GRIP_URL";

/// Prefixes of addresses in `GRIP_URL` that a server skips: ZeroMQ sockets and control sockets of servers.
const OTHER_PUBLISHERS: [&str; 3] = ["tcp:", "ipc:", "unix:"];

/// Maximum edit distance at which an unknown environment variable counts as a mistyped setting and is rejected. More distant
/// names only cause a warning, because they may belong to deployment scripts.
const TYPO_DISTANCE_MAX: usize = 2;

/// Minimum number of largest events that fit into the ring; with fewer, every publish would wait for the
/// slowest worker.
const EVENTS_IN_RING_MIN: usize = 4;

/// Space that an event needs in the ring in addition to its name and data: header, channel name and padding.
const EVENT_OVERHEAD_BYTES: usize = 512;

/// Source of a value, in increasing precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Built-in default.
    Default,
    /// `fermata.<name>` in `php.ini` or `php -d`.
    Ini,
    /// Argument of `Server`, `Limits`, `History` or `Log`.
    Code,
    /// A program with a settings table of its own, such as the edge.
    Program,
    /// `FERMATA_<NAME>`.
    Environment,
}

/// Checks the value of a command-line option that is passed on as a setting.
///
/// # Errors
/// See [`Builder::set`]; the message contains the option instead of the setting.
pub fn check_option(option: &str, setting: &str, value: &str) -> Result<(), SettingError> {
    let mut checked = Builder::new().set(setting, value, Source::Environment);
    if let Err(SettingError::Invalid { place, .. }) = &mut checked {
        option.clone_into(place);
    }
    checked
}

/// Returns the reason why a value is invalid for the setting `name`. Returns `None` if the value is valid or the setting does not
/// exist. For programs that have a setting of their own instead of `name`.
pub fn problem(name: &str, value: &str) -> Option<ValueError> {
    let (_, setting) = declared().find(name)?;
    Settings::default().assign(setting, &[value]).err()
}

/// Checks the addresses of a setting that replaces `listen` in a program. `url` converts an address to the format of `listen`.
///
/// # Errors
/// Fails for the first invalid address; the message contains `setting` and `fix`.
pub fn check_addresses(
    setting: &str,
    addresses: &[String],
    url: impl Fn(&str) -> String,
    fix: &str,
) -> Result<(), SettingError> {
    for address in addresses {
        if let Some(cause) = problem("listen", &url(address)) {
            return Err(SettingError::Invalid {
                place: setting.to_owned(),
                value: quoted(address),
                cause,
                fix: fix.to_owned(),
            });
        }
    }
    Ok(())
}

/// Collects values from all sources, in any order, and builds the [`Settings`].
///
/// ```
/// use fermata_config::{Builder, Source};
///
/// let mut builder = Builder::new();
/// builder.set("workers", "2", Source::Code)?;
/// builder.environment([("FERMATA_WORKERS".to_owned(), "4".to_owned())])?;
/// assert_eq!(builder.build()?.workers, 4);
/// # Ok::<(), fermata_config::SettingError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    settings: Settings,
    /// Source of each setting's current value, in the order of the table.
    sources: Vec<Source>,
    /// Port from `PORT`; replaces the port in `listen` unless `FERMATA_LISTEN` is set.
    port: Option<u16>,
    /// Warnings about probable mistakes.
    warnings: Vec<String>,
    /// Program that reads the settings.
    program: Program,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Creates a builder with the default of every setting.
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            sources: vec![Source::Default; table().len()],
            port: None,
            warnings: Vec::new(),
            program: Program::Php,
        }
    }

    /// Sets the program that reads the settings; the default is a server in PHP. The edge reads variables with the prefix
    /// [`crate::EDGE_PREFIX`] itself.
    pub fn set_program(&mut self, program: Program) {
        self.program = program;
    }

    /// Sets a value unless the setting already has one from a source with higher precedence.
    ///
    /// # Errors
    /// `Unknown` if the setting does not exist, `Invalid` if the value is invalid. An invalid value is
    /// rejected even if a source with higher precedence overrides it.
    pub fn set(&mut self, name: &str, value: &str, source: Source) -> Result<(), SettingError> {
        let Some((index, setting)) = declared().find(name) else {
            return Err(unknown(name, source));
        };
        let value = match source {
            Source::Ini => setting.kind.as_php_read(value),
            _ => value,
        };
        let wins = source >= self.sources[index];
        let target = if wins {
            &mut self.settings
        } else {
            &mut Settings::default()
        };
        target.assign(setting, &[value]).map_err(|cause| {
            SettingError::invalid(place(setting, source), &setting.kind, value, cause)
        })?;
        if wins {
            self.sources[index] = source;
        }
        Ok(())
    }

    /// Reads `FERMATA_<NAME>`, `PORT`, `GRIP_URL` and the OpenTelemetry variables; ignores all others.
    ///
    /// # Errors
    /// See [`Builder::set`]. An unknown `FERMATA_…` variable is an error only if it resembles a
    /// setting; otherwise it adds a warning.
    pub fn environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingError> {
        let mut grip = None;
        let mut otel = Otel::default();
        let mut strangers = Strangers::default();
        for (variable, value) in variables {
            if variable == PORT_VARIABLE {
                self.port = Some(parse_port(&value).map_err(|cause| SettingError::Invalid {
                    place: format!("environment variable {PORT_VARIABLE}"),
                    value: quoted(&value),
                    cause: cause.into(),
                    fix: "a number from 0 to 65535".to_owned(),
                })?);
                continue;
            }
            if variable == GRIP_VARIABLE {
                grip = Some(value);
                continue;
            }
            if variable.starts_with(otel::PREFIX) {
                otel.insert(variable, value);
                continue;
            }
            if !is_ours(&variable) {
                continue;
            }
            let name = variable.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or("");
            let name = name.to_ascii_lowercase();
            let is_typo = || {
                !is_listed(&variable)
                    && !is_service_variable(&variable, &value)
                    && declared()
                        .nearest(&name)
                        .is_some_and(|(_, far)| far <= TYPO_DISTANCE_MAX)
            };
            if declared().find(&name).is_some() && !self.program.reads(&name) {
                strangers.take_of_php(&variable);
            } else if declared().find(&name).is_some() || is_typo() {
                self.set(&name, &value, Source::Environment)?;
            } else {
                strangers.take(&variable, &value, self.program);
            }
        }
        let names = table().iter().map(|setting| setting.environment_name());
        let names: Vec<String> = names.collect();
        self.warnings.extend(strangers.sentences(&names));
        // Many programs share these variables, so this server's own settings take precedence.
        self.set_otel(&otel);
        match grip {
            Some(value) if !self.has("grip_url") => self.set_grip(&value),
            _ => Ok(()),
        }
    }

    /// Removes and returns the warnings about probable mistakes, one sentence each.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Sets `grip_url` from `GRIP_URL`. Other libraries share this variable, so addresses that are not HTTP control ports are
    /// skipped with a warning.
    fn set_grip(&mut self, value: &str) -> Result<(), SettingError> {
        let (others, ports): (Vec<&str>, Vec<&str>) =
            value.split_whitespace().partition(|address| {
                let starts = |scheme: &&str| {
                    let start = address.get(..scheme.len());
                    start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
                };
                OTHER_PUBLISHERS.iter().any(starts)
            });
        if !others.is_empty() {
            self.warnings.push(format!(
                "environment variable {GRIP_VARIABLE}: {} of its addresses begin with {}; this server publishes only to control ports of edges, so these are ignored",
                others.len(),
                OTHER_PUBLISHERS.join(", "),
            ));
        }
        match ports[..] {
            [] => Ok(()),
            _ => self.set("grip_url", &ports.join(" "), Source::Default),
        }
    }

    /// Applies the OpenTelemetry variables. Other programs share them, so an invalid value causes a warning instead of an error.
    fn set_otel(&mut self, otel: &Otel) {
        let (settings, notice) = otel.settings();
        self.warnings.extend(notice);
        for (name, variable, value) in settings {
            if self.has(name) {
                continue;
            }
            if let Err(error) = self.set(name, &value, Source::Default) {
                let message = format!("environment variable {variable} is ignored: {error}");
                self.warnings.push(message);
            }
        }
    }

    /// Returns true if a source other than the default set the value.
    fn has(&self, name: &str) -> bool {
        declared()
            .find(name)
            .is_some_and(|(index, _)| self.sources[index] > Source::Default)
    }

    /// Checks the settings against each other and returns them.
    ///
    /// # Errors
    /// `Conflict` if two settings contradict each other.
    pub fn build(mut self) -> Result<Settings, SettingError> {
        let listen_source = declared()
            .find("listen")
            .map(|(index, _)| self.sources[index]);
        if let Some(port) = self.port
            && listen_source != Some(Source::Environment)
        {
            let mut addresses = self.settings.listen_addresses();
            let first = addresses
                .iter_mut()
                .find(|listen| listen.transport == Transport::Tcp);
            if let Some(first) = first {
                first.port = port;
            }
            let texts: Vec<String> = addresses.iter().map(Listen::to_string).collect();
            self.settings.listen = texts.join(",");
        }
        check(&self.settings)?;
        Ok(self.settings)
    }
}

/// Returns the name of the setting as spelled in the source of the value.
fn place(setting: &Setting, source: Source) -> String {
    match (source, setting.alias) {
        (Source::Environment, _) => format!("environment variable {}", setting.environment_name()),
        (Source::Ini, _) => format!("INI setting {}", setting.ini_name()),
        (Source::Code, Some(code)) => format!("setting {} ({code})", setting.name),
        (Source::Code | Source::Program | Source::Default, _) => {
            format!("setting {}", setting.name)
        }
    }
}

/// Checks the constraints that involve more than one setting.
fn check(settings: &Settings) -> Result<(), SettingError> {
    let event = settings.event_bytes_max;
    let ring = settings.history_bytes_max;
    let event_in_ring_max = (ring / EVENTS_IN_RING_MIN).saturating_sub(EVENT_OVERHEAD_BYTES);
    let target = settings.target_bytes_max;
    let header = settings.header_bytes_max;
    fit_all(
        "target_bytes_max",
        target,
        &[("header_bytes_max", header, header)],
    )?;
    let (log, queue) = (settings.channel_log_bytes_max, settings.queue_bytes_max);
    fit_all(
        "event_bytes_max",
        event,
        &[
            ("history_bytes_max", ring, event_in_ring_max),
            ("channel_log_bytes_max", log, log),
            ("queue_bytes_max", queue, queue),
        ],
    )?;
    if settings.test_clock == "on" && settings.workers != 1 {
        return Err(SettingError::Conflict {
            name: "test_clock",
            value: settings.test_clock.clone(),
            cause: "each worker would have a time of its own".to_owned(),
            fix: "set workers to 1, or leave test_clock out: it is for tests".to_owned(),
        });
    }
    check_cluster(settings)?;
    check_tls(settings)
}

/// Checks `cluster` and related settings. Messages contain neither its value nor a password.
fn check_cluster(settings: &Settings) -> Result<(), SettingError> {
    let Some(cluster) = &settings.cluster else {
        return Ok(());
    };
    let refuse = |name, cause: &str, fix: &str| {
        Err(SettingError::Conflict {
            name,
            value: "set".to_owned(),
            cause: cause.to_owned(),
            fix: fix.to_owned(),
        })
    };
    if settings.cluster_credentials.is_some() {
        let is_nats = ["tls://", "nats://"]
            .iter()
            .any(|it| cluster.starts_with(it));
        let has_password =
            settings.cluster_password.is_some() || settings.cluster_password_file.is_some();
        if !is_nats {
            let cause = "cluster is Redis, which has none";
            let fix = "give cluster_user and cluster_password_file";
            return refuse("cluster_credentials", cause, fix);
        }
        if has_password || !settings.cluster_user.is_empty() {
            let cause = "a user or password is set as well";
            return refuse("cluster_credentials", cause, "leave one of the two out");
        }
    }
    let files = [
        ("cluster_ca", &settings.cluster_ca),
        ("cluster_certificate", &settings.cluster_certificate),
        ("cluster_key", &settings.cluster_key),
    ];
    let is_tls = ["tls://", "rediss://", "rediss+sentinel://"]
        .iter()
        .any(|it| cluster.starts_with(it));
    if !is_tls && let Some((name, _)) = files.iter().find(|(_, file)| file.is_some()) {
        let cause = "cluster has no TLS, and all would be sent in the clear";
        return refuse(
            *name,
            cause,
            "write tls:// (NATS) or rediss:// (Redis) there, or leave it out",
        );
    }
    if settings.cluster_certificate.is_some() && settings.cluster_key.is_none() {
        return refuse(
            "cluster_certificate",
            "cluster_key is not",
            "give both, or none",
        );
    }
    if settings.cluster_certificate.is_none() && settings.cluster_key.is_some() {
        return refuse(
            "cluster_key",
            "cluster_certificate is not",
            "give both, or none",
        );
    }
    if settings.cluster_password.is_some() && settings.cluster_password_file.is_some() {
        return refuse(
            "cluster_password",
            "cluster_password_file is set as well",
            "leave one of the two out",
        );
    }
    Ok(())
}

fn check_tls(settings: &Settings) -> Result<(), SettingError> {
    let certificates = settings.tls_certificate.len();
    let keys = settings.tls_key.len();
    if certificates != keys {
        return Err(SettingError::Conflict {
            name: "tls_certificate",
            value: format!("{certificates} files"),
            cause: format!("tls_key is {keys}"),
            fix: "give one key for each certificate, in the same order".to_owned(),
        });
    }
    if settings.has_https() && certificates == 0 && settings.tls_development == "off" {
        return Err(SettingError::Conflict {
            name: "listen",
            value: settings.listen.clone(),
            cause: "https needs a certificate".to_owned(),
            fix: "give tls_certificate and tls_key, or tls_development for localhost".to_owned(),
        });
    }
    if !settings.has_https() && (certificates > 0 || settings.tls_development == "on") {
        return Err(SettingError::Conflict {
            name: "listen",
            value: settings.listen.clone(),
            cause: "TLS is set up, and without an https address all would be sent in the clear"
                .to_owned(),
            fix: "write https:// there, or leave tls_certificate and tls_development out"
                .to_owned(),
        });
    }
    Ok(())
}

/// Rejects a value that exceeds the maximum that other settings imply. `others` contains name, value and implied maximum of each of
/// these settings.
fn fit_all(
    name: &'static str,
    value: usize,
    others: &[(&str, usize, usize)],
) -> Result<(), SettingError> {
    let small: Vec<_> = others.iter().filter(|(_, _, max)| value > *max).collect();
    let Some(max) = small.iter().map(|(_, _, max)| max).min() else {
        return Ok(());
    };
    let causes = small
        .iter()
        .map(|(other, is, _)| format!("{other} is only {is}"));
    let names: Vec<&str> = small.iter().map(|(other, ..)| *other).collect();
    Err(SettingError::Conflict {
        name,
        value: value.to_string(),
        cause: causes.collect::<Vec<_>>().join(", "),
        fix: format!("lower {name} to {max} or raise {}", names.join(" and ")),
    })
}

fn unknown(name: &str, source: Source) -> SettingError {
    let written = |name: &str| match source {
        Source::Environment => format!("{ENVIRONMENT_PREFIX}{}", name.to_ascii_uppercase()),
        Source::Ini => format!("fermata.{name}"),
        Source::Code | Source::Program | Source::Default => name.to_owned(),
    };
    declared().unknown(quoted(&written(name)), name, written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Kind;

    fn environment(pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
        let mut builder = Builder::new();
        builder.set("listen", "http://127.0.0.2:9000", Source::Code)?;
        builder.environment(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        )?;
        builder.build()
    }

    #[test]
    fn precedence_does_not_depend_on_order() {
        let sources = [Source::Ini, Source::Code, Source::Environment];
        for first in sources {
            for second in sources {
                let mut builder = Builder::new();
                builder.set("workers", "1", first).expect("valid");
                builder.set("workers", "2", second).expect("valid");
                let expected = if second >= first { 2 } else { 1 };
                assert_eq!(builder.build().expect("valid").workers, expected);
            }
        }
    }

    #[test]
    fn a_bad_value_is_refused_even_where_it_would_lose() {
        let mut builder = Builder::new();
        builder
            .set("workers", "1", Source::Environment)
            .expect("valid");
        assert!(builder.set("workers", "many", Source::Ini).is_err());
        assert_eq!(builder.build().expect("valid").workers, 1);
    }

    #[test]
    fn port_replaces_the_port_and_fermata_listen_the_whole() {
        let listen = |pairs| environment(pairs).expect("valid").listen;
        assert_eq!(listen(&[("PORT", "80")]), "http://127.0.0.2:80");
        assert_eq!(
            listen(&[("FERMATA_LISTEN", "http://[::]:1")]),
            "http://[::]:1"
        );
        let both = [("PORT", "80"), ("FERMATA_LISTEN", "http://[::]:1")];
        assert_eq!(listen(&both), "http://[::]:1");
    }

    #[test]
    fn bounds_are_refused_all_at_once() {
        let error = environment(&[("FERMATA_EVENT_BYTES_MAX", "16m")]).unwrap_err();
        let text = error.to_string();
        let others = [
            "history_bytes_max",
            "channel_log_bytes_max",
            "queue_bytes_max",
        ];
        assert!(others.iter().all(|it| text.contains(it)), "{text}");
        assert!(
            text.ends_with("raise history_bytes_max and channel_log_bytes_max and queue_bytes_max"),
            "{text}"
        );
    }

    #[test]
    fn errors_name_setting_value_cause_and_fix() {
        for (pair, sentence) in [
            (
                ("FERMATA_HEADER_BYTES_MAX", "16q"),
                "environment variable FERMATA_HEADER_BYTES_MAX is \"16q\": that is not a size; \
                 give a size from 1024 (1 KiB) to 1048576 (1 MiB), such as 65536, 64k or 1m",
            ),
            (
                ("FERMATA_LOG_LEVEL", "loud"),
                "environment variable FERMATA_LOG_LEVEL is \"loud\": that is not known; \
                 give one of error, warning, info, debug",
            ),
            (
                ("FERMATA_IDLE_TIMOUT_MS", "1"),
                "\"FERMATA_IDLE_TIMOUT_MS\" is not a setting; did you mean FERMATA_IDLE_TIMEOUT_MS?",
            ),
            (
                ("PORT", "http"),
                "environment variable PORT is \"http\": that is not a port from 0 to 65535; \
                 give a number from 0 to 65535",
            ),
            (
                ("FERMATA_EVENT_BYTES_MAX", "2m"),
                "event_bytes_max is 2097152, but channel_log_bytes_max is only 262144, queue_bytes_max is only 1048576; \
                 lower event_bytes_max to 262144 or raise channel_log_bytes_max and queue_bytes_max",
            ),
        ] {
            let error = environment(&[pair]).expect_err(sentence);
            assert_eq!(error.to_string(), sentence);
        }
    }

    #[test]
    fn suggested_sizes_and_times_are_accepted() {
        let mut suggestions = 0;
        for setting in crate::table() {
            let numeric = matches!(setting.kind, Kind::Bytes { .. } | Kind::Milliseconds { .. });
            let fix = setting.kind.fix();
            let Some((_, examples)) = fix.split_once(", such as ").filter(|_| numeric) else {
                continue;
            };
            let words = examples.split([',', ' ']);
            for example in words.filter(|it| it.starts_with(|c: char| c.is_ascii_digit())) {
                suggestions += 1;
                let set = Builder::new().set(setting.name, example, Source::Code);
                assert!(set.is_ok(), "{} = {example}: {set:?}", setting.name);
            }
        }
        assert!(suggestions > 50, "{suggestions}");
    }

    #[test]
    fn on_and_off_are_known_as_php_reads_them() {
        let mut builder = Builder::new();
        for (given, expected) in [("1", "on"), ("", "off"), ("on", "on"), ("off", "off")] {
            builder
                .set("compression", given, Source::Ini)
                .expect("PHP's own spelling");
            assert_eq!(builder.settings.compression, expected, "{given:?}");
        }
        assert!(builder.set("compression", "1", Source::Code).is_err());
        assert!(builder.set("compression", "2", Source::Ini).is_err());
        assert!(builder.set("log_level", "", Source::Ini).is_err());
    }

    #[test]
    fn code_and_ini_are_named_as_the_user_wrote_them() {
        let mut builder = Builder::new();
        let code = builder
            .set("header_bytes_max", "1", Source::Code)
            .expect_err("too small");
        assert!(
            code.to_string()
                .starts_with("setting header_bytes_max (Limits headerBytes) is")
        );
        let ini = builder
            .set("header_bytes_max", "1", Source::Ini)
            .expect_err("too small");
        assert!(
            ini.to_string()
                .starts_with("INI setting fermata.header_bytes_max is \"1\"")
        );
        let unknown = builder
            .set("colour", "red", Source::Ini)
            .expect_err("unknown");
        assert_eq!(
            unknown.to_string(),
            "\"fermata.colour\" is not a setting; docs/reference/settings.md lists them all"
        );
    }

    #[test]
    fn grip_url_of_everybody_gives_way_and_is_never_shown() {
        let url = |pairs: &[(&str, &str)]| environment(pairs).map(|settings| settings.grip_url);
        let text = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(url(&[]), Ok(None));
        assert_eq!(
            url(&[("GRIP_URL", "http://a https://b")]),
            text("http://a https://b")
        );
        assert_eq!(
            url(&[("GRIP_URL", "tcp://a:5560 unix:/run/app.sock")]),
            Ok(None)
        );
        assert_eq!(
            url(&[("GRIP_URL", "IPC:///a http://b?key=c tcp://d:1")]),
            text("http://b?key=c")
        );
        let mut builder = Builder::new();
        let variable = |value: &str| [("GRIP_URL".to_owned(), value.to_owned())];
        assert_eq!(builder.environment(variable("http://a")), Ok(()));
        assert_eq!(builder.take_warnings(), [""; 0]);
        assert_eq!(builder.environment(variable("tcp://a:1")), Ok(()));
        let warnings = builder.take_warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("GRIP_URL: 1 of"),
            "{warnings:?}"
        );
        let (own, other) = (("FERMATA_GRIP_URL", "http://a"), ("GRIP_URL", "tcp://b"));
        assert_eq!(url(&[own, other]), text("http://a"));
        assert_eq!(url(&[other, own]), text("http://a"));
        assert_eq!(url(&[("FERMATA_GRIP_URL", ""), other]), Ok(None));
        let error = url(&[("GRIP_URL", "localhost?key=hidden")]).expect_err("no URL");
        let error = error.to_string();
        assert!(
            error.contains("grip_url") && !error.contains("hidden"),
            "{error}"
        );
    }

    #[test]
    fn variables_of_others_are_left_alone() {
        let pairs = [
            ("FERMATA_EXTENSION", "x"),
            ("FERMATA_ROOT", "/"),
            ("FERMATA_PORT", "tcp://10.0.0.1:80"),
            ("FERMATA_TEST_SEED", "7"),
            ("HOME", "/root"),
        ];
        assert!(environment(&pairs).is_ok());
        let mut builder = Builder::new();
        let variables = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter();
            let owned = owned.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            owned.collect::<Vec<_>>()
        };
        builder.environment(variables(&pairs)).expect("valid");
        assert_eq!(builder.take_warnings(), [""; 0]);
        let edges = [("FERMATA_EDGE_LISTEN", ":1"), ("FERMATA_EDGE_CONTROL", "")];
        builder.environment(variables(&edges)).expect("valid");
        let warnings = builder.take_warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let words = [
            "FERMATA_EDGE_LISTEN",
            "FERMATA_EDGE_CONTROL",
            "fermata edge",
        ];
        assert!(
            words.iter().all(|it| warnings[0].contains(it)),
            "{warnings:?}"
        );
        builder.set_program(Program::Edge);
        builder.environment(variables(&edges)).expect("valid");
        assert_eq!(builder.take_warnings(), [""; 0]);
    }

    #[test]
    fn variables_of_servers_in_php_are_told_by_other_programs() {
        let given = [
            ("FERMATA_HANDLERS_MAX", "7"),
            ("FERMATA_RETRY_MS", "9"),
            ("FERMATA_UPLOADS_MAX", "3"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (program, is_read) in [
            (Program::Php, true),
            (Program::Edge, false),
            (Program::Hub, false),
        ] {
            let mut builder = Builder::new();
            builder.set_program(program);
            builder.environment(given.clone()).expect("valid");
            let warnings = builder.take_warnings();
            assert_eq!(warnings.is_empty(), is_read, "{program:?}: {warnings:?}");
            for warning in &warnings {
                let both = "FERMATA_HANDLERS_MAX, FERMATA_UPLOADS_MAX changes nothing here";
                assert!(warning.contains(both), "{warning}");
                assert!(warning.contains("servers in PHP") && !warning.contains("RETRY_MS"));
            }
            let settings = builder.build().expect("valid");
            assert_eq!(settings.handlers_max == 7, is_read);
            assert_eq!(settings.retry_ms, 9);
        }
    }

    #[test]
    fn settings_of_servers_in_php_are_settings() {
        let of_php = table().iter().filter(|it| !Program::Hub.reads(it.name));
        assert_eq!(of_php.count(), crate::program::OF_PHP.len());
    }

    #[test]
    fn a_variable_that_is_nobodys_is_told() {
        let mut builder = Builder::new();
        let stranger = ("FERMATA_BODY_MAX_BYTES".to_owned(), "1m".to_owned());
        builder.environment([stranger]).expect("a warning alone");
        let warnings = builder.take_warnings();
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].contains("FERMATA_BODY_MAX_BYTES"),
            "{warnings:?}"
        );
    }

    #[test]
    fn https_needs_a_certificate_and_each_certificate_a_key() {
        let https = ("FERMATA_LISTEN", "https://127.0.0.1:8443");
        let certificate = ("FERMATA_TLS_CERTIFICATE", "a.pem,b.pem");
        for (pairs, words) in [
            (
                vec![https],
                "but https needs a certificate; give tls_certificate",
            ),
            (
                vec![https, certificate],
                "tls_certificate is 2 files, but tls_key is 0",
            ),
            (
                vec![certificate, ("FERMATA_TLS_KEY", "a.key,b.key")],
                "but TLS is set up, and without an https address",
            ),
            (
                vec![("FERMATA_TLS_DEVELOPMENT", "on")],
                "write https:// there",
            ),
            (
                vec![https, certificate, ("FERMATA_TLS_KEY", "a.key")],
                "tls_certificate is 2 files, but tls_key is 1",
            ),
        ] {
            let error = environment(&pairs).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(environment(&[https, certificate, ("FERMATA_TLS_KEY", "a.key,b.key")]).is_ok());
        assert!(environment(&[https, ("FERMATA_TLS_DEVELOPMENT", "on")]).is_ok());
    }

    #[test]
    fn events_must_fit_the_ring_several_times() {
        let mut builder = Builder::new();
        builder
            .set("history_bytes_max", "128k", Source::Code)
            .expect("in range");
        let error = builder.build().expect_err("64k events in a 128k ring");
        assert_eq!(
            error.to_string(),
            "event_bytes_max is 65536, but history_bytes_max is only 131072; \
             lower event_bytes_max to 32256 or raise history_bytes_max"
        );
    }
}
