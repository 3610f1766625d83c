//! The connection to the log: which server, since when, and when it is tried again.

use crate::address::Address;
use crate::exchange::{ANSWER_MS_MAX, retry_ms};

/// Most causes reported for one outage: one per server of the list, and what follows.
const CAUSES_MAX: usize = 8;
/// How often a server may name another one before the next of the list is tried: a Sentinel names the master, a server of a Redis
/// Cluster the one that has the log, and that one may have lost it meanwhile.
const REFERRALS_MAX: u32 = 4;

/// Causes of one outage that were reported to the caller, each once.
#[derive(Default)]
pub(crate) struct ReportedCauses(Vec<String>);

impl ReportedCauses {
    /// Whether a cause is new.
    pub fn add(&mut self, cause: &str) -> bool {
        let is_new = self.0.len() < CAUSES_MAX && !self.0.iter().any(|it| it == cause);
        if is_new {
            self.0.push(cause.to_owned());
        }
        is_new
    }

    /// The outage is over.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

enum State {
    /// None; tried again at this time.
    Down { retry_ms: u64 },
    /// The caller opens it.
    Opening { until_ms: u64 },
    /// It is open.
    Up,
}

/// One connection after the other, to one server after the other.
pub(crate) struct Link {
    state: State,
    /// Those that are tried in turn, and which one it is.
    servers: Vec<Address>,
    at: usize,
    /// The server that another one has named, and which one that was.
    referral: Option<(Address, String)>,
    referrals: u32,
    failures: u32,
    is_ready: bool,
}

impl Link {
    /// There is at least one server.
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

    /// The server.
    pub fn server(&self) -> &Address {
        match &self.referral {
            Some((server, _)) => server,
            None => &self.servers[self.at],
        }
    }

    /// What it is called in what is told.
    pub fn name(&self) -> String {
        match &self.referral {
            Some((server, by)) => format!("{server}, named by {by}"),
            None => self.servers[self.at].to_string(),
        }
    }

    /// Whether another server may be found when this one is of no use.
    pub fn has_others(&self) -> bool {
        self.servers.len() > 1 || self.referral.is_some()
    }

    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// The server to connect to, when it is time.
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

    /// Whether it should be open by now.
    pub fn is_late(&self, now_ms: u64) -> bool {
        matches!(self.state, State::Opening { until_ms } if until_ms <= now_ms)
    }

    /// When one of these two has something to say, while it is not open.
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

    /// The log can be written to and read from.
    pub fn handle_success(&mut self) {
        self.failures = 0;
        self.referrals = 0;
    }

    /// What the log had has been given. Whether that is news.
    pub fn note_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.is_ready, true)
    }

    /// Whether the connection may be left for the server that this one has named: not without end.
    pub fn can_be_referred(&self) -> bool {
        self.referrals < REFERRALS_MAX
    }

    /// The connection was left for that server, which is connected to at once. Whether the log was there.
    pub fn refer(&mut self, host: &str, port: u16, now_ms: u64) -> bool {
        let server = self.server();
        // One that is named in the setting has its own account.
        let named = { &self.servers }
            .iter()
            .find(|it| it.sentinel.is_none() && it.host == host && it.port == port);
        let to = named.map_or_else(|| server.referred_to(host, port), Address::clone);
        self.referral = Some((to, server.to_string()));
        self.referrals += 1;
        self.state = State::Down { retry_ms: now_ms };
        std::mem::replace(&mut self.is_ready, false)
    }

    /// The connection has ended; false: there was none.
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

    /// The log cannot be used, connected or not.
    pub fn note_away(&mut self) {
        self.is_ready = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_logged_in_at_by_its_own_account_where_the_setting_names_it() {
        let servers = Address::list("redis://one@a,two@b").expect("two servers");
        let mut link = Link::new(servers, 0);
        let mut token_at = |host: &str| {
            link.refer(host, 6379, 0);
            link.server().token.clone()
        };
        assert_eq!(token_at("b").as_deref(), Some("two"));
        assert_eq!(token_at("a").as_deref(), Some("one"));
        // Another one has that of the server that has named it.
        assert_eq!(token_at("c").as_deref(), Some("one"));
    }
}
