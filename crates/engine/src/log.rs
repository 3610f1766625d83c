//! Log lines on standard error: one line per event, text or JSON.
//!
//! Lines that peers can cause at will (refused requests, slow clients) go through `Log::write_limited`, so that
//! an attack fills neither the disk nor the loop's time; what was left out is counted and said.
//!
//! Logging never blocks: a line that standard error does not take at once is left out and counted,
//! and the first line it takes again says how many there were.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use fermata_config::{LogFormat, LogLevel, mask_secrets};
use fermata_io::log_file::LogFile;
use fermata_io::process::{self, Pid};

use crate::admin::stats;

/// How many peer-caused lines a worker writes per second before it only counts them.
pub const PEER_LINES_PER_SECOND_MAX: u32 = 10;

/// Standard error of this process, opened with the first logger and inherited by every fork. Threads of a
/// worker write to it as well; none holds the lock for longer than a write that does not wait.
static STANDARD_ERROR: Mutex<Option<Outlet>> = Mutex::new(None);

/// Has the lines of this process go to `file`; `None` = to standard error again.
pub(crate) fn redirect(file: Option<LogFile>) {
    let guard = STANDARD_ERROR.lock();
    *guard.unwrap_or_else(PoisonError::into_inner) = file.map(Outlet::new);
}

/// Bytes of a stack trace that a line takes with it; what is longer is cut.
const TRACE_BYTES_MAX: usize = 8192;

/// What a line says besides its message, of the program's code that has caused it. Empty = not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// The pattern of its route.
    pub route: &'a str,
    /// The class of what was thrown.
    pub exception: &'a str,
    /// Where.
    pub file: &'a str,
    /// The line in `file`.
    pub line: u32,
    /// The calls that have led there, one a line.
    pub trace: &'a str,
}

impl Detail<'_> {
    /// The message with the place and the request, for a reader who has nothing but the line.
    fn sentence(&self, message: &str) -> String {
        let mut text = message.to_owned();
        if !self.file.is_empty() {
            let _ = write!(text, " in {}:{}", self.file, self.line);
        }
        if !self.route.is_empty() {
            let gap = if self.method.is_empty() { "" } else { " " };
            let _ = write!(text, " ({}{gap}{})", self.method, self.route);
        }
        text
    }

    fn trace(&self) -> &str {
        let mut end = self.trace.len().min(TRACE_BYTES_MAX);
        while !self.trace.is_char_boundary(end) {
            end -= 1;
        }
        &self.trace[..end]
    }
}

/// A process' logger. Cheap to clone; holds no file handle of its own.
#[derive(Clone)]
pub struct Logger {
    format: LogFormat,
    level: LogLevel,
    /// `master` or `worker N`, part of every line.
    process: String,
    /// Where lines that were left out are counted.
    stats: Option<stats::Shared>,
}

/// Where lines go, and what it has not taken.
struct Outlet {
    file: LogFile,
    /// The process that has counted: a fork begins anew, its parent tells of what was before.
    pid: Pid,
    /// Lines left out since it last took one.
    dropped: u64,
    /// Only a part of the last line was taken.
    is_cut: bool,
}

impl Logger {
    /// A logger that writes lines of `level` and above in `format`, marked with `process`.
    pub fn new(format: LogFormat, level: LogLevel, process: &str) -> Logger {
        Logger {
            format,
            level,
            process: process.to_owned(),
            stats: None,
        }
    }

    /// The same logger, which counts in `stats` what it has to leave out.
    pub(crate) fn counted(&self, stats: stats::Shared) -> Logger {
        Logger {
            stats: Some(stats),
            ..self.clone()
        }
    }

    /// The same logger under another process name, for use after a fork.
    #[must_use]
    pub fn named(&self, process: &str) -> Logger {
        Logger {
            process: process.to_owned(),
            ..self.clone()
        }
    }

    /// Whether a line of `level` would be written.
    pub fn is_on(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    /// Writes one line, or leaves it out and counts it when that would have to wait.
    pub fn write(&self, level: LogLevel, unix_ms: u64, message: &str) {
        self.write_detailed(level, unix_ms, message, &Detail::default());
    }

    /// The same with what is known of the program's code. As text, a stack trace follows in lines of its own.
    pub fn write_detailed(
        &self,
        level: LogLevel,
        unix_ms: u64,
        message: &str,
        detail: &Detail<'_>,
    ) {
        if self.is_on(level) {
            self.put(unix_ms, &self.line(level, unix_ms, message, detail));
        }
    }

    /// A line that a process writes by itself when nothing else of it can run any more, and therefore without a time.
    pub(crate) fn last_words(&self, message: &str) -> Vec<u8> {
        let message = mask_secrets(message);
        match self.format {
            LogFormat::Text => format!("error   {message}\n").into_bytes(),
            LogFormat::Json => {
                let fields = serde_json::json!({ "level": "error", "message": message });
                format!("{fields}\n").into_bytes()
            }
        }
    }

    /// Writes text for a person at a terminal as it is.
    pub(crate) fn write_plain(&self, unix_ms: u64, text: &str) {
        self.put(unix_ms, text);
    }

    /// Says what was left out, if standard error takes it by now.
    pub(crate) fn tell_dropped(&self, unix_ms: u64) {
        self.put(unix_ms, "");
    }

    /// Has panics of this process end in this log, as one line.
    pub(crate) fn take_panics(&self) {
        let logger = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let unix_ms = fermata_io::clock::unix_ms();
            let mut message = panic.to_string();
            let trace = Backtrace::capture();
            if trace.status() == BacktraceStatus::Captured {
                let _ = write!(message, "\n{trace}");
            }
            logger.write(LogLevel::Error, unix_ms, &message);
        }));
    }

    fn put(&self, unix_ms: u64, text: &str) {
        let guard = STANDARD_ERROR.lock();
        let mut guard = guard.unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = LogFile::stderr().ok().map(Outlet::new);
        }
        // Without a standard error there is nobody to tell.
        let Some(outlet) = guard.as_mut() else {
            return;
        };
        let dropped = outlet.begin();
        let told = (dropped > 0).then(|| {
            let message = format!(
                "{dropped} lines of this process were left out: whoever reads standard error did not take them"
            );
            self.line(LogLevel::Warning, unix_ms, &message, &Detail::default())
        });
        if !outlet.put(told.as_deref(), text)
            && let Some(stats) = &self.stats
        {
            text.lines().for_each(|_| stats.log_dropped());
        }
    }

    /// Appends a line to those that [`write_lines`](Self::write_lines) takes, whatever its level.
    pub fn append(&self, lines: &mut String, level: LogLevel, unix_ms: u64, message: &str) {
        lines.push_str(&self.line(level, unix_ms, message, &Detail::default()));
    }

    /// Writes lines that were collected, or leaves all of them out and counts them.
    pub fn write_lines(&self, unix_ms: u64, lines: &str) {
        self.put(unix_ms, lines);
    }

    fn line(&self, level: LogLevel, unix_ms: u64, message: &str, detail: &Detail<'_>) -> String {
        let time = rfc3339(unix_ms);
        let sentence = detail.sentence(message);
        let (message, trace) = (mask_secrets(&sentence), mask_secrets(detail.trace()));
        let level = match level {
            LogLevel::Error => "error",
            LogLevel::Warning => "warning",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        };
        match self.format {
            LogFormat::Text => {
                let mut clean = String::with_capacity(message.len() + 48);
                let _ = write!(clean, "{time} {level:7} [{}] ", self.process);
                push_clean(&mut clean, &message);
                clean.push('\n');
                for call in trace.lines() {
                    clean.push_str("    ");
                    push_clean(&mut clean, call);
                    clean.push('\n');
                }
                clean
            }
            LogFormat::Json => {
                let mut fields = serde_json::json!({
                    "time": time, "level": level, "process": self.process, "message": message,
                });
                let known = [
                    ("method", detail.method),
                    ("route", detail.route),
                    ("exception", detail.exception),
                    ("file", detail.file),
                    ("trace", &*trace),
                ];
                for (name, value) in known.into_iter().filter(|(_, value)| !value.is_empty()) {
                    fields[name] = value.into();
                }
                if !detail.file.is_empty() {
                    fields["line"] = detail.line.into();
                }
                format!("{fields}\n")
            }
        }
    }
}

impl Outlet {
    fn new(file: LogFile) -> Outlet {
        Outlet {
            file,
            pid: process::pid(),
            dropped: 0,
            is_cut: false,
        }
    }

    /// Lines that this process has left out.
    fn begin(&mut self) -> u64 {
        if self.dropped > 0 && self.pid != process::pid() {
            self.dropped = 0;
        }
        self.dropped
    }

    /// Writes what is `told` of lines left out, and then `text`. False when the text was left out.
    fn put(&mut self, told: Option<&str>, text: &str) -> bool {
        // What was cut has no end yet.
        let is_told =
            (!self.is_cut || self.write("\n")) && told.is_none_or(|told| self.write(told));
        if is_told {
            self.dropped = 0;
        }
        if is_told && self.write(text) {
            return true;
        }
        // Nothing but what was left out before was to be said.
        if text.is_empty() {
            return true;
        }
        self.pid = process::pid();
        self.dropped += text.lines().count() as u64;
        false
    }

    /// Whether all of `text` was taken.
    fn write(&mut self, text: &str) -> bool {
        let taken = self.file.write(text.as_bytes()).unwrap_or(0);
        self.is_cut = (self.is_cut && taken == 0) || (taken > 0 && taken < text.len());
        taken == text.len()
    }
}

/// Control characters would let a peer forge lines or drive the terminal.
fn push_clean(to: &mut String, text: &str) {
    for character in text.chars() {
        if character.is_control() {
            let _ = write!(to, "{}", character.escape_default());
        } else {
            to.push(character);
        }
    }
}

/// The log of a worker: a logger, and how many lines peers have caused.
pub(crate) struct Log {
    logger: Logger,
    limiter: Limiter,
}

impl Log {
    pub fn new(logger: Logger) -> Log {
        Log {
            logger,
            limiter: Limiter::default(),
        }
    }

    /// Writes a line.
    pub fn write(&self, level: LogLevel, unix_ms: u64, message: &str) {
        self.logger.write(level, unix_ms, message);
    }

    /// The same with what is known of the program's code.
    pub fn write_detailed(
        &self,
        level: LogLevel,
        unix_ms: u64,
        message: &str,
        detail: &Detail<'_>,
    ) {
        self.logger.write_detailed(level, unix_ms, message, detail);
    }

    /// Writes a line that peers can cause at will: at most so many per second.
    pub fn write_limited(&mut self, level: LogLevel, unix_ms: u64, message: &str) {
        self.write_limited_detailed(level, unix_ms, message, &Detail::default());
    }

    /// The same with what is known of the program's code.
    pub fn write_limited_detailed(
        &mut self,
        level: LogLevel,
        unix_ms: u64,
        message: &str,
        detail: &Detail<'_>,
    ) {
        let Log { logger, limiter } = self;
        limiter.write(logger, level, unix_ms, message, detail);
    }

    /// Lines that were left out in this second.
    #[cfg(test)]
    pub fn left_out(&self) -> u64 {
        self.limiter.suppressed
    }

    /// What it writes with.
    pub fn logger(&self) -> &Logger {
        &self.logger
    }
}

/// Bounds the lines that peers can cause.
#[derive(Debug, Default)]
struct Limiter {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl Limiter {
    /// Writes the line unless this second's share is used up.
    fn write(
        &mut self,
        logger: &Logger,
        level: LogLevel,
        unix_ms: u64,
        message: &str,
        detail: &Detail<'_>,
    ) {
        if !logger.is_on(level) {
            return;
        }
        let second = unix_ms / 1000;
        if second != self.second {
            if self.suppressed > 0 {
                let more = format!("{} more lines like these were left out", self.suppressed);
                logger.write(level, unix_ms, &more);
            }
            *self = Limiter {
                second,
                written: 0,
                suppressed: 0,
            };
        }
        if self.written < PEER_LINES_PER_SECOND_MAX {
            self.written += 1;
            logger.write_detailed(level, unix_ms, message, detail);
        } else {
            self.suppressed += 1;
        }
    }
}

/// `2026-11-21T07:30:00.123Z` (RFC 3339, UTC).
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let (days, ms) = ((unix_ms / 86_400_000) as i64, unix_ms % 86_400_000);
    // Days to civil date; the era arithmetic counts from 1 March of year 0, so that the leap day is
    // the last day of a counting year.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(rfc3339(1_795_244_400_000), "2026-11-21T07:00:00.000Z");
    }

    #[test]
    fn a_message_cannot_forge_a_line() {
        let logger = Logger::new(LogFormat::Text, LogLevel::Info, "worker 0");
        let line = logger.line(LogLevel::Info, 0, "a\nb\u{1b}[2J", &Detail::default());
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains('\u{1b}'));
        let logger = Logger::new(LogFormat::Json, LogLevel::Info, "master");
        let line = logger.line(LogLevel::Info, 0, "a\n\"b\"", &Detail::default());
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.contains("\\\"b\\\""));
    }

    #[test]
    fn a_trace_follows_as_lines_and_is_a_field_of_json() {
        let detail = Detail {
            method: "GET",
            route: "/a/{id}",
            exception: "LogicException",
            file: "a.php",
            line: 7,
            trace: "#0 a.php(7): f()\n#1 {main}\u{1b}",
        };
        let logger = Logger::new(LogFormat::Text, LogLevel::Info, "worker 0");
        let line = logger.line(LogLevel::Info, 0, "boom", &detail);
        assert!(line.ends_with(
            "boom in a.php:7 (GET /a/{id})\n    #0 a.php(7): f()\n    #1 {main}\\u{1b}\n"
        ));
        let logger = Logger::new(LogFormat::Json, LogLevel::Info, "worker 0");
        let line = logger.line(LogLevel::Info, 0, "boom", &detail);
        let fields: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(fields["route"], "/a/{id}");
        assert_eq!(fields["line"], 7);
        assert_eq!(fields["trace"], detail.trace);
    }
}
