//! The connection to Redis: the server, the state, and the time of the next attempt.

use crate::address::Address;
use crate::exchange::{ANSWER_MS_MAX, retry_ms};

/// Maximum number of causes that are reported for one outage.
const CAUSES_MAX: usize = 8;
/// Maximum number of consecutive referrals. The next one counts as a failure, and the bridge tries the next server of the list.
/// One referral is usual, by a Sentinel or by a server of a Redis Cluster without the log. More occur if the log has moved
/// again in the meantime.
const REFERRALS_MAX: u32 = 4;

/// Reported causes of the present outage. Each is reported once.
#[derive(Default)]
pub(crate) struct ReportedCauses(Vec<String>);

impl ReportedCauses {
    /// Adds a cause. Returns true if the caller must report it.
    pub fn add(&mut self, cause: &str) -> bool {
        let is_new = self.0.len() < CAUSES_MAX && !self.0.iter().any(|it| it == cause);
        if is_new {
            self.0.push(cause.to_owned());
        }
        is_new
    }

    /// Clears the causes at the end of the outage.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

enum State {
    /// Closed. The next attempt starts at `retry_ms`.
    Down { retry_ms: u64 },
    /// The caller opens the connection until `until_ms`.
    Opening { until_ms: u64 },
    /// Open.
    Up,
}

/// The connection. There is one at a time, and the servers are tried one after the other.
pub(crate) struct Link {
    state: State,
    /// Servers of the setting `cluster`, and the index of the current one.
    servers: Vec<Address>,
    at: usize,
    /// Server that is used instead of the current one, and the name of the server that referred to it.
    referral: Option<(Address, String)>,
    referrals: u32,
    failures: u32,
    is_ready: bool,
}

impl Link {
    /// Creates the link. `servers` has at least one element.
    pub fn new(servers: Vec<Address>, now_ms: u64) -> Link {
        Link {
            state: State::Down { retry_ms: now_ms },
            servers,
            at: 0,
            referral: None,
            referrals: 0,
            failures: 0,
            is_ready: false,
        }
    }

    /// Returns the current server.
    pub fn server(&self) -> &Address {
        match &self.referral {
            Some((server, _)) => server,
            None => &self.servers[self.at],
        }
    }

    /// Returns the name of the present server for messages.
    pub fn name(&self) -> String {
        match &self.referral {
            Some((server, by)) => format!("{server}, named by {by}"),
            None => self.servers[self.at].to_string(),
        }
    }

    /// Returns true if another server may be reached when this one fails.
    pub fn has_others(&self) -> bool {
        self.servers.len() > 1 || self.referral.is_some()
    }

    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// Starts the next attempt if it is due. Returns the server to connect to.
    pub fn begin(&mut self, now_ms: u64) -> Option<&Address> {
        match self.state {
            State::Down { retry_ms } if retry_ms <= now_ms => {
                let until_ms = now_ms + ANSWER_MS_MAX;
                self.state = State::Opening { until_ms };
                Some(self.server())
            }
            _ => None,
        }
    }

    /// Returns true if opening has taken too long.
    pub fn is_late(&self, now_ms: u64) -> bool {
        matches!(self.state, State::Opening { until_ms } if until_ms <= now_ms)
    }

    /// Returns the time at which `begin` or `is_late` must be called, while the connection is not open.
    pub fn due_ms(&self) -> u64 {
        match self.state {
            State::Down { retry_ms } => retry_ms,
            State::Opening { until_ms } => until_ms,
            State::Up => u64::MAX,
        }
    }

    pub fn handle_connected(&mut self) {
        self.state = State::Up;
    }

    /// Resets the counts of failures and referrals. Called when the log accepts records.
    pub fn handle_success(&mut self) {
        self.failures = 0;
        self.referrals = 0;
    }

    /// Records that the log accepts records, and that all messages were read that it had at the start of the connection.
    /// Returns true if the log was not ready before.
    pub fn note_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.is_ready, true)
    }

    /// Returns true if another referral may be followed.
    pub fn can_be_referred(&self) -> bool {
        self.referrals < REFERRALS_MAX
    }

    /// Connects to a server that the current server has named. Returns true if the log was ready.
    pub fn refer(&mut self, host: &str, port: u16, now_ms: u64) -> bool {
        let server = self.server();
        // If the setting lists the named server, use the credentials that it has there.
        let named = { &self.servers }
            .iter()
            .find(|it| it.sentinel.is_none() && it.host == host && it.port == port);
        let to = named.map_or_else(|| server.referred_to(host, port), Address::clone);
        self.referral = Some((to, server.to_string()));
        self.referrals += 1;
        // A referral is no failure, so the next attempt needs no delay.
        self.state = State::Down { retry_ms: now_ms };
        std::mem::replace(&mut self.is_ready, false)
    }

    /// Handles the end of the connection. Returns false if the connection was already closed.
    pub fn end(&mut self, now_ms: u64) -> bool {
        if matches!(self.state, State::Down { .. }) {
            return false;
        }
        self.referral = None;
        self.referrals = 0;
        self.at = (self.at + 1) % self.servers.len();
        let retry_ms = now_ms + retry_ms(self.failures);
        self.failures += 1;
        self.state = State::Down { retry_ms };
        self.note_away();
        true
    }

    /// Records that the log is not ready, whether connected or not.
    pub fn note_away(&mut self) {
        self.is_ready = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referral_to_a_configured_server_uses_its_account() {
        let servers = Address::list("redis://one@a,two@b").expect("two servers");
        let mut link = Link::new(servers, 0);
        let mut token_at = |host: &str| {
            link.refer(host, 6379, 0);
            link.server().token.clone()
        };
        assert_eq!(token_at("b").as_deref(), Some("two"));
        assert_eq!(token_at("a").as_deref(), Some("one"));
        // Any other server gets the credentials of the server that has named it.
        assert_eq!(token_at("c").as_deref(), Some("one"));
    }
}
