//! Log lines on standard error: one line per event, text or JSON.
//!
//! Lines that peers can trigger at will (refused requests, slow clients) go through
//! `Log::write_limited`. An attack thus fills neither the disk nor the loop's time. Suppressed
//! lines are counted and reported.
//!
//! Logging never blocks. A line that standard error does not accept immediately is dropped and
//! counted. The first line it accepts again reports the count.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use fermata_config::{LogFormat, LogLevel, mask_secrets};
use fermata_io::log_file::LogFile;
use fermata_io::process::{self, Pid};

use crate::admin::stats;

/// Maximum number of peer-triggered lines that a worker writes per second. Further lines are only
/// counted.
pub const PEER_LINES_PER_SECOND_MAX: u32 = 10;

/// Standard error of this process, opened with the first logger and inherited by every fork.
/// Threads of a worker also write to it. A thread holds the lock only for one non-blocking write.
static STANDARD_ERROR: Mutex<Option<Outlet>> = Mutex::new(None);

/// Redirects the lines of this process to `file`; `None` restores standard error.
pub(crate) fn redirect(file: Option<LogFile>) {
    let guard = STANDARD_ERROR.lock();
    *guard.unwrap_or_else(PoisonError::into_inner) = file.map(Outlet::new);
}

/// Maximum size of a stack trace in a line, in bytes. A longer stack trace is truncated.
const TRACE_BYTES_MAX: usize = 8192;

/// Fields of a line about the application code that caused it. Empty = unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// HTTP method of the request.
    pub method: &'a str,
    /// Pattern of the route.
    pub route: &'a str,
    /// Class of the exception.
    pub exception: &'a str,
    /// File in which the exception was thrown.
    pub file: &'a str,
    /// Line in `file`.
    pub line: u32,
    /// Stack trace, one call per line.
    pub trace: &'a str,
}

impl Detail<'_> {
    /// Returns the message with source location and request, for text logs.
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

/// A logger of a process. Cheap to clone; holds no file handle.
#[derive(Clone)]
pub struct Logger {
    format: LogFormat,
    level: LogLevel,
    /// `master` or `worker N`, part of every line.
    process: String,
    /// Counter of dropped lines.
    stats: Option<stats::Shared>,
}

/// Destination of lines, and the number of dropped lines.
struct Outlet {
    file: LogFile,
    /// The process that counted the dropped lines. A forked child restarts at 0; its parent reports
    /// the earlier drops.
    pid: Pid,
    /// Lines dropped since the last successful write.
    dropped: u64,
    /// Only a part of the last line was written.
    is_cut: bool,
}

impl Logger {
    /// Creates a logger that writes lines of `level` and above in `format`, marked with `process`.
    pub fn new(format: LogFormat, level: LogLevel, process: &str) -> Logger {
        Logger {
            format,
            level,
            process: process.to_owned(),
            stats: None,
        }
    }

    /// Returns a copy of this logger that counts dropped lines in `stats`.
    pub(crate) fn counted(&self, stats: stats::Shared) -> Logger {
        Logger {
            stats: Some(stats),
            ..self.clone()
        }
    }

    /// Returns a copy of this logger with another process name, for use after a fork.
    #[must_use]
    pub fn named(&self, process: &str) -> Logger {
        Logger {
            process: process.to_owned(),
            ..self.clone()
        }
    }

    /// Returns true if a line of `level` would be written.
    pub fn is_on(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    /// Writes one line; drops and counts it if the write would block.
    pub fn write(&self, level: LogLevel, unix_ms: u64, message: &str) {
        self.write_detailed(level, unix_ms, message, &Detail::default());
    }

    /// Writes one line with details of the application code. In text format, a stack trace follows
    /// on separate lines.
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

    /// Writes a line that a script printed to standard error as a warning, whatever the log level
    /// is.
    pub fn write_text(&self, unix_ms: u64, line: &str) {
        let line = self.line(LogLevel::Warning, unix_ms, line, &Detail::default());
        self.put(unix_ms, &line);
    }

    /// Builds a line that a process writes when no other code of the process can run. The line
    /// therefore contains no time.
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

    /// Writes text for a person at a terminal, unchanged.
    pub(crate) fn write_plain(&self, unix_ms: u64, text: &str) {
        self.put(unix_ms, text);
    }

    /// Reports the number of dropped lines, if standard error accepts writes again.
    pub(crate) fn log_dropped(&self, unix_ms: u64) {
        self.put(unix_ms, "");
    }

    /// Installs a panic hook that logs panics of this process as one line.
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
        // Without standard error the line is lost.
        let Some(outlet) = guard.as_mut() else {
            return;
        };
        let dropped = outlet.begin();
        let report = (dropped > 0).then(|| {
            let message =
                format!("dropped {dropped} lines of this process: standard error was not read");
            self.line(LogLevel::Warning, unix_ms, &message, &Detail::default())
        });
        if !outlet.put(report.as_deref(), text)
            && let Some(stats) = &self.stats
        {
            text.lines().for_each(|_| stats.log_dropped());
        }
    }

    /// Appends a line to a buffer for [`write_lines`](Self::write_lines), whatever its level.
    pub fn append(&self, lines: &mut String, level: LogLevel, unix_ms: u64, message: &str) {
        lines.push_str(&self.line(level, unix_ms, message, &Detail::default()));
    }

    /// Writes collected lines, or drops and counts all of them.
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

    /// Returns the number of lines that this process has dropped.
    fn begin(&mut self) -> u64 {
        if self.dropped > 0 && self.pid != process::pid() {
            self.dropped = 0;
        }
        self.dropped
    }

    /// Writes the report about dropped lines (`report`), then `text`. Returns false if `text` was
    /// dropped.
    fn put(&mut self, report: Option<&str>, text: &str) -> bool {
        // A report that was written partially still needs its line break.
        let is_written =
            (!self.is_cut || self.write("\n")) && report.is_none_or(|report| self.write(report));
        if is_written {
            self.dropped = 0;
        }
        if is_written && self.write(text) {
            return true;
        }
        // There is no text to write, only the report about dropped lines.
        if text.is_empty() {
            return true;
        }
        self.pid = process::pid();
        self.dropped += text.lines().count() as u64;
        false
    }

    /// Writes `text`; returns true if all of it was accepted.
    fn write(&mut self, text: &str) -> bool {
        let taken = self.file.write(text.as_bytes()).unwrap_or(0);
        self.is_cut = (self.is_cut && taken == 0) || (taken > 0 && taken < text.len());
        taken == text.len()
    }
}

/// Appends `text` with control characters escaped: a peer could forge lines or control the
/// terminal.
fn push_clean(to: &mut String, text: &str) {
    for character in text.chars() {
        if character.is_control() {
            let _ = write!(to, "{}", character.escape_default());
        } else {
            to.push(character);
        }
    }
}

/// The log of a worker: a logger and a limiter for peer-triggered lines.
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

    /// Writes a line with details of the application code.
    pub fn write_detailed(
        &self,
        level: LogLevel,
        unix_ms: u64,
        message: &str,
        detail: &Detail<'_>,
    ) {
        self.logger.write_detailed(level, unix_ms, message, detail);
    }

    /// Writes a peer-triggered line, within the limit per second.
    pub fn write_limited(&mut self, level: LogLevel, unix_ms: u64, message: &str) {
        self.write_limited_detailed(level, unix_ms, message, &Detail::default());
    }

    /// Writes a peer-triggered line with details of the application code.
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

    /// Returns the lines suppressed in this second.
    #[cfg(test)]
    pub fn left_out(&self) -> u64 {
        self.limiter.suppressed
    }

    /// Returns its logger.
    pub fn logger(&self) -> &Logger {
        &self.logger
    }
}

/// Limits lines that peers can trigger.
#[derive(Debug, Default)]
struct Limiter {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl Limiter {
    /// Writes the line unless this second's limit is reached.
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
                let more = format!("dropped {} more lines like these", self.suppressed);
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

/// Formats a time as `2026-11-21T07:30:00.123Z` (RFC 3339, UTC).
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let (days, ms) = ((unix_ms / 86_400_000) as i64, unix_ms % 86_400_000);
    // Converts days to a civil date. Eras start on 1 March of year 0, so that the leap day is the
    // last day of a counted year.
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
    fn formats_civil_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(rfc3339(1_795_244_400_000), "2026-11-21T07:00:00.000Z");
    }

    #[test]
    fn escapes_line_breaks_in_messages() {
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
    fn writes_a_trace_as_lines_or_a_json_field() {
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
