//! What a bridge and its caller give each other, and how long and how much a bridge waits for; the same for each kind of log.

use crate::address::Address;
use crate::nkey::Credentials;

/// Most records that are sent and not acknowledged.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Most requests for the past that are on their way at a time.
pub const PAST_REQUESTS_MAX: usize = 8;
/// Most bytes that wait to be taken by the socket before no more records are.
pub(crate) const UNSENT_BYTES_MAX: usize = 1 << 20;
/// How long the log is waited for: each step of a new connection, and an acknowledgement.
pub(crate) const ANSWER_MS_MAX: u64 = 5_000;
/// How long at most while bytes come that stand before the answer, or are a part of it: a large one over a slow connection.
pub(crate) const ARRIVAL_MS_MAX: u64 = 60_000;
/// Before something is tried again: a connection, or whether a log takes records that has refused some. It doubles up to the
/// other.
const RETRY_MS_MIN: u64 = 100;
const RETRY_MS_MAX: u64 = 2_000;
/// How often a silent connection is asked whether it lives, and how long its silence may be.
pub(crate) const PING_MS: u64 = 2_000;
pub(crate) const SILENCE_MS_MAX: u64 = 6_000;

/// A place in the log: the same for one event on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Tells logs apart: another one begins when the log was made anew. Never zero.
    pub epoch: u64,
    /// Ascending in the order of the log.
    pub seq: u64,
}

/// What a bridge needs to know. None of it changes while it lives.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers, tried in turn.
    pub servers: Vec<Address>,
    /// Tells applications apart that share a log: letters, digits, `_` and `-`.
    pub prefix: String,
    /// Tells this bridge's conversations from all others'; random, and new for each life of the process.
    pub inbox: String,
    /// What the outbox is called; the same as long as its records are.
    pub outbox: String,
    /// What the log is made with when it is not there: oldest message, most bytes, copies.
    pub age_ms_max: u64,
    /// Most bytes of it.
    pub bytes_max: u64,
    /// On how many servers it is.
    pub replicas: u16,
    /// Most events of it, where it cannot be bounded by bytes: Redis.
    pub events_max: u64,
    /// Most messages of the past that a node begins with.
    pub past_max: u64,
}

/// The bridge's credentials for servers whose addresses have none; an empty text is none. Their settings are named
/// in what a bridge says when a server refuses it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user (`cluster_user`).
    pub user: String,
    /// The password (`cluster_password`); for NATS without a user the token.
    pub password: String,
    /// In their place, for NATS alone (`cluster_credentials`).
    pub credentials: Option<Credentials>,
}

/// Without what is secret.
impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    /// This, as far as an address does not say it itself. A Sentinel has its own alone.
    pub(crate) fn of(&self, server: &Address) -> Login {
        if let Some(sentinel) = &server.sentinel {
            return Login {
                user: sentinel.user.clone(),
                password: sentinel.password.clone(),
                credentials: None,
            };
        }
        match (&server.account, &server.token) {
            (Some((user, password)), _) => Login {
                user: user.clone(),
                password: password.clone(),
                credentials: None,
            },
            (None, Some(token)) => Login {
                user: String::new(),
                password: token.clone(),
                credentials: None,
            },
            (None, None) => self.clone(),
        }
    }

    /// What to look at when a server refuses it.
    pub(crate) fn hint(&self, server: &Address) -> &'static str {
        if server.sentinel.is_some() {
            return "check sentinel_username and sentinel_password behind the ? in cluster";
        }
        match server.account.is_some() || server.token.is_some() {
            true => "check the user and password before the host in cluster",
            false if self.credentials.is_some() => "check cluster_credentials",
            false if self.user.is_empty() && self.password.is_empty() => {
                "give cluster_user and cluster_password_file, or a user and password before the host in cluster"
            }
            false => "check cluster_user and cluster_password_file (or cluster_password)",
        }
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Content {
    /// An event of the channel.
    #[default]
    Event,
    /// What servers tell each other of who is present; its data is theirs.
    Presence,
    /// A message for the one subscriber that `except` names; its data is the servers'.
    Direct,
    /// A message for all workers of the other servers; `except` is a worker of the server that sends it.
    Workers,
}

/// A record of the outbox.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Its place in the outbox.
    pub outbox: u64,
    /// What it is.
    pub content: Content,
    /// The channel.
    pub channel: &'a [u8],
    /// The event's name; no line breaks.
    pub name: Option<&'a [u8]>,
    /// The event's data.
    pub data: &'a [u8],
    /// The socket that is left out; of [`Content::Direct`], the one that gets it.
    pub except: Option<(u64, u64)>,
}

/// A record that the log will never take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the outbox.
    pub outbox: u64,
    /// Why.
    pub cause: String,
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its place.
    pub place: Place,
    /// What it is.
    pub content: Content,
    /// The channel.
    pub channel: Vec<u8>,
    /// The event's name.
    pub name: Option<Vec<u8>>,
    /// The event's data: any bytes, others publish to the log as well.
    pub data: Vec<u8>,
    /// The socket that is left out; of [`Content::Direct`], the one that gets it.
    pub except: Option<(u64, u64)>,
    /// When the log has stored it.
    pub unix_ms: u64,
}

/// A part of the log that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRequest {
    /// Names it in the answer.
    pub id: u64,
    /// Of which log.
    pub epoch: u64,
    /// What comes after this place.
    pub after: u64,
    /// And not after this one.
    pub up_to: u64,
    /// Messages that the log has stored before are left out, and count as missing.
    pub oldest_ms: u64,
    /// Most events, the newest ones.
    pub events_max: usize,
    /// Most bytes of their names and data, the newest ones.
    pub bytes_max: usize,
    /// Of these channels.
    pub channels: Vec<Vec<u8>>,
    /// Events alone are wanted: what else a channel has is none that is missing.
    pub events_only: bool,
}

/// What the log has, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastEntry {
    /// An event.
    Event(Received),
    /// Something up to this place is missing.
    Gap(u64),
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a connection to this server, one of `Options::servers` or one that has been named by one of them; with TLS where Redis
    /// is spoken to over TLS: NATS begins in the clear and asks for it by [`Event::Secure`]. Then `handle_connected` or
    /// `handle_closed`.
    Connect(Box<Address>),
    /// Speak TLS on the connection from here on, then `handle_secured`; or `handle_closed`.
    Secure,
    /// Close the connection. `handle_closed` is not called for it.
    Disconnect,
    /// Everything up to this place is not to be had, or not known to be whole: records follow from behind it.
    Begin(Place),
    /// The next record.
    Record(Received),
    /// The log has a record of the outbox.
    Accepted {
        /// Its place in the outbox.
        outbox: u64,
        /// Its place in the log.
        place: Place,
    },
    /// The log does not take a record of the outbox.
    Rejected(Rejected),
    /// Records of the outbox up to this one are not needed any more.
    Released(u64),
    /// Hand over the records of the outbox again, from the oldest that is not released.
    Rewind,
    /// What the log has of a part of the past that was asked for.
    Past {
        /// Which one.
        id: u64,
        /// In the log's order.
        entries: Vec<PastEntry>,
    },
    /// The connection has ended before the log has answered that request.
    PastLost(u64),
    /// The log is there, and what it had has been given.
    Ready,
    /// The log is not there. Why: once for each cause, until it is there again.
    Away(String),
    /// Something that an operator should know.
    Notice(String),
}

/// How long to wait after so many failures.
pub(crate) fn retry_ms(failures: u32) -> u64 {
    (RETRY_MS_MIN << failures.min(8)).min(RETRY_MS_MAX)
}

/// When something counts as missing that is awaited since `since_ms` and may be silent for `silence_ms`. `arrived_ms` is when
/// bytes came the last time that are a part of it or stand before it.
pub(crate) fn answer_due_ms(since_ms: u64, silence_ms: u64, arrived_ms: u64) -> u64 {
    let due_ms = since_ms.max(arrived_ms) + silence_ms;
    due_ms.min(since_ms + ARRIVAL_MS_MAX)
}

impl Content {
    /// How it stands in the log; events have nothing.
    pub(crate) fn text(self) -> Option<&'static [u8]> {
        match self {
            Content::Event => None,
            Content::Presence => Some(b"presence"),
            Content::Direct => Some(b"direct"),
            Content::Workers => Some(b"workers"),
        }
    }

    /// What it says there. `None`: something that this version does not know.
    pub(crate) fn read(text: Option<&[u8]>) -> Option<Content> {
        match text {
            None => Some(Content::Event),
            Some(b"presence") => Some(Content::Presence),
            Some(b"direct") => Some(Content::Direct),
            Some(b"workers") => Some(Content::Workers),
            Some(_) => None,
        }
    }
}

/// The socket that a record leaves out, as it was written with it.
pub(crate) fn read_except(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() == 32)?;
    let number = |digits: Option<&str>| u64::from_str_radix(digits?, 16).ok();
    Some((number(text.get(..16))?, number(text.get(16..))?))
}
