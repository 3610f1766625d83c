//! Log lines about requests, subscriptions and published items, in Pushpin's wording.
//!
//! Lines are buffered and written at most ten times a second. When they are disabled, they cost one comparison.

use fermata_config::LogLevel;
use fermata_grip::item::Item;

use crate::client::journal::{Journal, Outcome, field};
use crate::client::source::{Engine, Owner, Source};
use crate::server::policy::EdgePolicy;
use crate::timers::{Timer, Timers};
use crate::upstream::exchange::{Purpose, UpstreamExchange};
use crate::upstream::forward::Rewriting;

/// Maximum time for which a line is buffered.
const FLUSH_MS: u64 = 100;

/// Size at which the buffer is written immediately.
const FLUSH_BYTES: usize = 32 * 1024;

impl Journal {
    /// Logs a published item with the number of its receivers in all workers.
    pub(super) fn log_published(
        &mut self,
        receivers: Option<u64>,
        timers: &mut Timers,
        worker: &mut Engine,
        item: &Item,
    ) {
        let mut line = format!("publish channel={}", field(&item.channel));
        if let Some(receivers) = receivers {
            line += &format!(" receivers={receivers}");
        }
        self.journal_line(timers, worker, &line);
    }

    /// Logs an exchange that ended or became a WebSocket.
    pub(super) fn log_exchange(
        &mut self,
        policy: &EdgePolicy,
        timers: &mut Timers,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
    ) {
        if exchange.noted.is_written || !self.wants(exchange.source.rule()) {
            return;
        }
        let is_opening = match exchange.purpose {
            Purpose::Plain => false,
            Purpose::Upgrade(_) | Purpose::Events(Some(_)) => true,
            // Requests between workers, and later requests of a WebSocket, are not requests of clients.
            Purpose::Worker | Purpose::Events(None) => return,
        };
        if matches!(exchange.owner, Owner::Check(..)) {
            return;
        }
        exchange.noted.is_written = true;
        let is_again = matches!(exchange.owner, Owner::Client(_)) && !exchange.last_ids.is_empty();
        let mut line = self.request_line(policy, &exchange.source, is_opening);
        match exchange.noted.outcome {
            Outcome::Answered(status) => {
                line += &format!(" code={status} {}", exchange.noted.bytes)
            }
            Outcome::Held => line += " accept",
            Outcome::File => line += " file",
            Outcome::Failed => line += " error",
        }
        if is_again {
            line += " retry";
        }
        if self.has_programs
            && let Some(program) = exchange.source.request.header("user-agent")
        {
            line += &format!(" ua={}", field(program));
        }
        for (channel, id) in &exchange.last_ids {
            line += &format!(" #{}={}", field(channel), field(id));
        }
        self.journal_line(timers, worker, &line);
    }

    /// Logs a request without a route.
    pub(super) fn log_unrouted(
        &mut self,
        policy: &EdgePolicy,
        timers: &mut Timers,
        worker: &mut Engine,
        source: &Source,
    ) {
        if self.wants(None) {
            let line = self.request_line(policy, source, source.request.is_websocket());
            self.journal_line(timers, worker, &format!("{line} error"));
        }
    }

    /// Logs a subscription or its end.
    pub(super) fn log_subscription(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        word: &str,
        source: &Source,
        is_socket: bool,
        channel: &[u8],
    ) {
        let rule = source.home().rule();
        if !self.wants(rule) {
            return;
        }
        let channel = field(channel);
        let mut line = format!("{word} {} channel={channel}", uri(source, is_socket));
        if let Some(id) = rule.and_then(|rule| rule.id.as_deref()) {
            line += &format!(" route={id}");
        }
        self.journal_line(timers, worker, &line);
    }

    pub(super) fn flush_journal(&mut self, worker: &Engine) {
        let unix_ms = worker.net.unix_ms();
        self.flush(unix_ms);
    }

    fn journal_line(&mut self, timers: &mut Timers, worker: &mut Engine, line: &str) {
        let now_ms = worker.net.now_ms();
        let unix_ms = worker.net.unix_ms();
        let journal = self;
        journal
            .logger
            .append(&mut journal.lines, LogLevel::Info, unix_ms, line);
        match journal.lines.len() {
            FLUSH_BYTES.. => journal.flush(unix_ms),
            _ => timers.at(now_ms + FLUSH_MS, Timer::Journal),
        }
    }

    /// Formats method, URI, target and route, and the client's address if enabled.
    fn request_line(&self, policy: &EdgePolicy, source: &Source, is_socket: bool) -> String {
        let request = &source.request;
        // A WebSocket-over-HTTP request represents the client's handshake, which is a GET.
        let method = if is_socket {
            "GET".into()
        } else {
            String::from_utf8_lossy(&request.method)
        };
        let mut line = format!("{method} {}", uri(source, is_socket));
        if let Some(target) = source.target() {
            line += &format!(" -> {}", target.name);
            if is_socket && target.over_http {
                line += "[http]";
            }
        }
        if self.has_addresses
            && let Some(address) = address(source, &policy.rewriting)
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

/// Returns the client's address: the first address of `X-Forwarded-For` that the settings trust.
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
