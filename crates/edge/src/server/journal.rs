//! Log lines about requests, subscriptions and published items, worded as Pushpin has them.
//!
//! They are many where they are wanted, so they are collected and written at most ten times a second, and nobody who does
//! not want them pays more than a comparison.

use std::borrow::Cow;

use fermata_config::LogLevel;
use fermata_engine::Logger;
use fermata_grip::item::Item;

use super::edge::{Edge, Owner, Source};
use super::forward::Rewriting;
use super::origin::{Purpose, Talk};
use super::timers::Timer;
use crate::routes::Rule;
use crate::settings::Settings;

/// The level that these lines have: a route's or the setting's has to be at least this.
const LEVEL: u8 = 2;
/// The level of the setting at which they are written even if they are not asked for.
const LEVEL_ALL: u8 = 3;
/// How long a line waits for more.
const FLUSH_MS: u64 = 100;
/// Bytes that are not waited with.
const FLUSH_BYTES: usize = 32 * 1024;

/// What has become of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There was no response, or it is unknown.
    #[default]
    Failed,
    /// It got a response with this status.
    Answered(u16),
    /// Its client is held.
    Held,
    /// It got a file, with a status that the engine knows.
    File,
}

/// What is noted of a conversation for its line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noted {
    pub outcome: Outcome,
    /// Bytes of the response's body.
    pub bytes: u64,
    /// Bytes of the request's body that came while it was sent on.
    pub body_bytes: u64,
    is_written: bool,
}

/// Lines that are not written yet.
pub(super) struct Journal {
    logger: Logger,
    lines: String,
    /// Lines of routes without a level of their own are wanted.
    is_on: bool,
    has_addresses: bool,
    has_programs: bool,
}

impl Journal {
    pub fn new(settings: &Settings, logger: Logger) -> Self {
        let level = settings.number("log_level");
        let is_asked_for = settings.is_on("log_requests") && level >= u64::from(LEVEL);
        Self {
            logger,
            lines: String::new(),
            is_on: is_asked_for || level >= u64::from(LEVEL_ALL),
            has_addresses: settings.is_on("log_from"),
            has_programs: settings.is_on("log_user_agent"),
        }
    }

    /// Whether the lines of a route are wanted.
    fn wants(&self, rule: Option<&Rule>) -> bool {
        let own = rule.and_then(|rule| rule.log_level);
        own.map_or(self.is_on, |level| level >= LEVEL)
    }

    fn flush(&mut self, unix_ms: u64) {
        if !self.lines.is_empty() {
            self.logger.write_lines(unix_ms, &self.lines);
            self.lines.clear();
        }
    }
}

impl Edge {
    /// A conversation is over, or has become a WebSocket.
    pub(super) fn log_talk(&mut self, talk: &mut Talk) {
        if talk.noted.is_written || !self.journal.wants(talk.source.rule()) {
            return;
        }
        let is_opening = match talk.purpose {
            Purpose::Plain => false,
            Purpose::Upgrade(_) | Purpose::Events(Some(_)) => true,
            // What is said between two workers, and later requests of a WebSocket, are no requests of clients.
            Purpose::Worker | Purpose::Events(None) => return,
        };
        if matches!(talk.owner, Owner::Check(..)) {
            return;
        }
        talk.noted.is_written = true;
        let is_again = matches!(talk.owner, Owner::Client(_)) && !talk.last_ids.is_empty();
        let mut line = self.request_line(&talk.source, is_opening);
        match talk.noted.outcome {
            Outcome::Answered(status) => line += &format!(" code={status} {}", talk.noted.bytes),
            Outcome::Held => line += " accept",
            Outcome::File => line += " file",
            Outcome::Failed => line += " error",
        }
        if is_again {
            line += " retry";
        }
        if self.journal.has_programs
            && let Some(program) = talk.source.request.header("user-agent")
        {
            line += &format!(" ua={}", field(program));
        }
        for (channel, id) in &talk.last_ids {
            line += &format!(" #{}={}", field(channel), field(id));
        }
        self.journal_line(&line);
    }

    /// A request has no route.
    pub(super) fn log_unrouted(&mut self, source: &Source) {
        if self.journal.wants(None) {
            let line = self.request_line(source, source.request.is_websocket());
            self.journal_line(&format!("{line} error"));
        }
    }

    /// A client is subscribed to a channel, or is not any more.
    pub(super) fn log_subscription(
        &mut self,
        word: &str,
        source: &Source,
        is_socket: bool,
        channel: &[u8],
    ) {
        let rule = source.home().rule();
        if !self.journal.wants(rule) {
            return;
        }
        let channel = field(channel);
        let mut line = format!("{word} {} channel={channel}", uri(source, is_socket));
        if let Some(id) = rule.and_then(|rule| rule.id.as_deref()) {
            line += &format!(" route={id}");
        }
        self.journal_line(&line);
    }

    /// An item was published. How many get it is known where the stats socket asks for it.
    pub(super) fn log_published(&mut self, item: &Item) {
        if !self.journal.is_on {
            return;
        }
        let mut line = format!("publish channel={}", field(&item.channel));
        if let Some(receivers) = self.receivers(item) {
            line += &format!(" receivers={receivers}");
        }
        self.journal_line(&line);
    }

    pub(super) fn flush_journal(&mut self) {
        let unix_ms = self.worker.unix_ms();
        self.journal.flush(unix_ms);
    }

    fn journal_line(&mut self, line: &str) {
        let now_ms = self.worker.now_ms();
        let unix_ms = self.worker.unix_ms();
        let journal = &mut self.journal;
        journal
            .logger
            .append(&mut journal.lines, LogLevel::Info, unix_ms, line);
        match journal.lines.len() {
            FLUSH_BYTES.. => journal.flush(unix_ms),
            _ => self.timers.at(now_ms + FLUSH_MS, Timer::Journal),
        }
    }

    /// Method, URI, target and route; where it comes from, if that is wanted.
    fn request_line(&self, source: &Source, is_socket: bool) -> String {
        let request = &source.request;
        // An opening by a request is still the handshake of its client.
        let method = match is_socket {
            true => "GET".into(),
            false => String::from_utf8_lossy(&request.method),
        };
        let mut line = format!("{method} {}", uri(source, is_socket));
        if let Some(target) = source.target() {
            line += &format!(" -> {}", target.name);
            if is_socket && target.over_http {
                line += "[http]";
            }
        }
        if self.journal.has_addresses
            && let Some(address) = address(source, &self.rewriting)
        {
            line += &format!(" from={}", field(address.as_bytes()));
        }
        if let Some(page) = request.header("referer") {
            line += &format!(" ref={}", field(page));
        }
        if let Some(id) = source.rule().and_then(|rule| rule.id.as_deref()) {
            line += &format!(" route={id}");
        }
        line
    }
}

/// A value that others have written: in quotation marks where it could be taken for several fields.
fn field(value: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(value);
    let is_plain = |it: char| !it.is_whitespace() && !it.is_control() && it != '"';
    match text.chars().all(is_plain) {
        true => text,
        false => Cow::Owned(format!("{text:?}")),
    }
}

/// The client's address: as far as the settings believe what `X-Forwarded-For` says, the one that it begins with.
fn address(source: &Source, rewriting: &Rewriting) -> Option<String> {
    let list = rewriting.client_list(&source.request, source.is_trusted);
    let first = list
        .as_deref()
        .and_then(|list| list.split(|&byte| byte == b',').next());
    match first {
        Some(first) => Some(String::from_utf8_lossy(first).into_owned()),
        None => source.request.peer.ip().map(|ip| ip.to_string()),
    }
}

fn uri(source: &Source, is_socket: bool) -> String {
    let request = &source.request;
    let scheme = match (is_socket, request.is_tls) {
        (false, false) => "http",
        (false, true) => "https",
        (true, false) => "ws",
        (true, true) => "wss",
    };
    let (host, target) = (
        String::from_utf8_lossy(&request.host),
        String::from_utf8_lossy(&request.target),
    );
    format!("{scheme}://{host}{target}")
}

#[cfg(test)]
mod tests {
    use fermata_config::LogFormat;

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
                    .set("test", name, &[value.to_owned()])
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
