//! Log of requests, subscriptions and items.

use std::borrow::Cow;

use fermata_engine::Logger;

use crate::routes::Rule;
use crate::settings::Settings;

/// Level of the log lines in this file. They are written if the level of the route or of the
/// setting is at least this.
const LEVEL: u8 = 2;

/// Level of the setting from which the lines are written even without `log_requests`.
const LEVEL_ALL: u8 = 3;

/// Outcome of a request, for its log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No response, or unknown.
    #[default]
    Failed,
    /// A response with this status.
    Answered(u16),
    /// The client is held.
    Held,
    /// A file; the engine has the status.
    File,
}

/// Fields of an exchange's log line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    pub outcome: Outcome,
    /// Size of the response body.
    pub bytes: u64,
    /// Bytes of the request body that were forwarded while they arrived.
    pub body_bytes: u64,
    pub(crate) is_written: bool,
}

/// Buffered log lines.
pub(crate) struct Journal {
    pub(crate) logger: Logger,
    pub(crate) lines: String,
    /// Lines of routes without `log_level` are written.
    pub(crate) is_on: bool,
    pub(crate) has_addresses: bool,
    pub(crate) has_programs: bool,
}

impl Journal {
    pub fn new(settings: &Settings, logger: Logger) -> Self {
        Self {
            logger,
            lines: String::new(),
            is_on: Self::is_on(settings),
            has_addresses: settings.log_from,
            has_programs: settings.log_user_agent,
        }
    }

    /// Returns true if lines of routes without `log_level` are written.
    pub(crate) fn is_on(settings: &Settings) -> bool {
        let level = settings.log_level;
        let is_asked_for = settings.log_requests && level >= u64::from(LEVEL);
        is_asked_for || level >= u64::from(LEVEL_ALL)
    }

    /// Returns true if the lines of a route are written.
    pub(crate) fn wants(&self, rule: Option<&Rule>) -> bool {
        let own = rule.and_then(|rule| rule.log_level);
        own.map_or(self.is_on, |level| level >= LEVEL)
    }

    pub(crate) fn flush(&mut self, unix_ms: u64) {
        if !self.lines.is_empty() {
            self.logger.write_lines(unix_ms, &self.lines);
            self.lines.clear();
        }
    }
}

/// Formats a client-supplied value. Quotes it if it could be read as several fields.
pub(crate) fn field(value: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(value);
    let is_plain = |it: char| !it.is_whitespace() && !it.is_control() && it != '"';
    if text.chars().all(is_plain) {
        text
    } else {
        Cow::Owned(format!("{text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use fermata_config::LogFormat;

    use fermata_config::LogLevel;

    use super::*;
    use crate::routes::Routes;

    #[test]
    fn a_value_is_one_field() {
        for (value, expected) in [
            ("curl/8.0", "curl/8.0"),
            ("a code=200", r#""a code=200""#),
            ("a\nb", r#""a\nb""#),
            (r#"a"b"#, r#""a\"b""#),
            ("", ""),
        ] {
            assert_eq!(field(value.as_bytes()), expected);
        }
    }

    #[test]
    fn lines_are_wanted_as_levels_say() {
        let (routes, problems) =
            Routes::read("a b:1\nb,log_level=1 b:1\nc,log_level=2 b:1", |_| Ok(()));
        assert_eq!(problems, []);
        for (level, is_asked_for, expected) in [
            ("0", "true", [false, false, true]),
            ("2", "false", [false, false, true]),
            ("2", "true", [true, false, true]),
            ("3", "false", [true, false, true]),
        ] {
            let mut settings = Settings::default();
            for (name, value) in [("log_level", level), ("log_requests", is_asked_for)] {
                settings
                    .set(fermata_config::Place::Option, name, &[value.to_owned()])
                    .expect("a value");
            }
            let logger = Logger::new(LogFormat::Text, LogLevel::Info, "test");
            let journal = Journal::new(&settings, logger);
            let wanted = routes.rules().iter().map(|rule| journal.wants(Some(rule)));
            assert_eq!(
                wanted.collect::<Vec<_>>(),
                expected,
                "{level} {is_asked_for}"
            );
        }
    }
}
