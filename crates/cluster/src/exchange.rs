//! Types that a bridge and its caller exchange, and the bounds and timeouts of each kind of log.

use crate::address::Address;
use crate::nkey::Credentials;

/// Maximum number of records that were sent and have no acknowledgement. At this number, the bridge accepts no further records.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Maximum number of concurrent requests for older messages.
pub const PAST_REQUESTS_MAX: usize = 8;
/// Number of bytes waiting for the socket at which the bridge accepts no further records.
pub(crate) const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Maximum time to wait for the response in each step of a new connection, and for an acknowledgement. After that the bridge
/// closes the connection.
pub(crate) const ANSWER_MS_MAX: u64 = 5_000;
/// Maximum to which arriving bytes extend a timeout, as during a large response over a slow connection.
pub(crate) const ARRIVAL_MS_MAX: u64 = 60_000;
/// Delay before the first retry of a connection or a probe. The delay doubles with each failure.
const RETRY_MS_MIN: u64 = 100;
/// Maximum of this delay.
const RETRY_MS_MAX: u64 = 2_000;
/// Interval of PINGs to NATS. For Redis, the time after which the bridge reads without having been notified of new messages.
pub(crate) const PING_MS: u64 = 2_000;
/// Maximum time without received bytes. After that the bridge closes the connection.
pub(crate) const SILENCE_MS_MAX: u64 = 6_000;

/// A position in the log. An event has the same position on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Epoch of the log, never zero. The epoch is greater after the log was recreated or has lost messages.
    pub epoch: u64,
    /// Sequence, ascending in the order of the log.
    pub seq: u64,
}

/// Settings of a bridge, constant for its lifetime.
#[derive(Clone, Debug)]
pub struct Options {
    /// Servers, which the bridge tries one after the other.
    pub servers: Vec<Address>,
    /// Prefix that separates applications of one log: letters, digits, `_` and `-`.
    pub prefix: String,
    /// Inbox of this bridge. The name is random, and new for each process.
    pub inbox: String,
    /// Name of the outbox. It stays the same for the lifetime of the outbox's records.
    pub outbox: String,
    /// Unix time in milliseconds at which the caller's clock was zero.
    pub zero_unix_ms: u64,
    /// Maximum age of messages in milliseconds, for a log that is created.
    pub age_ms_max: u64,
    /// Maximum size in bytes, for a log that is created.
    pub bytes_max: u64,
    /// Number of copies, for a log that is created.
    pub replicas: u16,
    /// Maximum number of events of a log in Redis, whose streams have no limit in bytes.
    pub events_max: u64,
    /// Maximum number of older messages that a new node reads.
    pub past_max: u64,
    /// Fingerprints of the application, separated by commas. A record without any of these fingerprints is from another application
    /// that uses the prefix by mistake. `None`: every record is accepted.
    pub application: Option<String>,
}

impl Options {
    /// Returns true if a record with this fingerprint belongs to the application.
    pub(crate) fn is_own(&self, application: Option<&[u8]>) -> bool {
        match (&self.application, application) {
            (Some(own), Some(other)) => other
                .split(|byte| *byte == b',')
                .any(|other| own.split(',').any(|own| own.as_bytes() == other)),
            // A server of an older version, or without the setting, sends no fingerprint. Accept its records.
            _ => true,
        }
    }

    /// Reports a record of another application.
    pub(crate) fn intruder(&self, application: Option<&[u8]>) -> Event {
        let other = String::from_utf8_lossy(application.unwrap_or_default());
        let own = self.application.as_deref().unwrap_or_default();
        Event::Intruder(format!(
            "cluster_prefix: another application writes to the log of {}: records with the fingerprint {other:?} are not accepted, \
             this server's is {own:?}; give each application its own cluster_prefix, or all servers of one application the same \
             secrets or the same cluster_application",
            self.prefix
        ))
    }
}

/// Credentials for servers whose address has none. An empty text means that the value is not set. Errors of a bridge name the
/// settings.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// User (`cluster_user`).
    pub user: String,
    /// Password (`cluster_password`); for NATS without a user, the token.
    pub password: String,
    /// Key that replaces user and password, for NATS only (`cluster_credentials`).
    pub credentials: Option<Credentials>,
}

/// Omits secrets.
impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    /// Returns the credentials for a server. These are the ones in the server's address, or else `self`. A Sentinel uses only the
    /// credentials in its address.
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

    /// Returns advice for an operator whose server refuses these credentials.
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

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Content {
    /// An event of the channel.
    #[default]
    Event,
    /// A presence record of the servers. The servers define its data.
    Presence,
    /// A message for the one subscriber that `except` names. The servers define its data.
    Direct,
    /// A message for all workers of the other servers. `except` names a worker of the sender.
    Workers,
}

/// A record of the outbox.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Position in the outbox.
    pub outbox: u64,
    /// Kind.
    pub content: Content,
    /// Channel.
    pub channel: &'a [u8],
    /// Name of the event, without line breaks.
    pub name: Option<&'a [u8]>,
    /// Data of the event.
    pub data: &'a [u8],
    /// Worker and key of a socket that does not receive the event. For [`Content::Direct`], the socket that receives it.
    pub except: Option<(u64, u64)>,
}

/// A record that the log refuses for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Position in the outbox.
    pub outbox: u64,
    /// Cause.
    pub cause: String,
    /// For a record that is too large, its size in bytes as the log counts it, and the maximum size.
    pub too_large: Option<(u64, u64)>,
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Position.
    pub place: Place,
    /// Kind.
    pub content: Content,
    /// Channel.
    pub channel: Vec<u8>,
    /// Name of the event.
    pub name: Option<Vec<u8>>,
    /// Data of the event. The data may be any bytes, because other programs may publish to the log.
    pub data: Vec<u8>,
    /// Worker and key of a socket that does not receive the event. For [`Content::Direct`], the socket that receives it.
    pub except: Option<(u64, u64)>,
    /// Time when the log stored the event, in Unix milliseconds.
    pub unix_ms: u64,
}

/// A request for a part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRequest {
    /// Id, returned with the result.
    pub id: u64,
    /// Epoch of the log.
    pub epoch: u64,
    /// Sequence before the first message.
    pub after: u64,
    /// Sequence of the last message.
    pub up_to: u64,
    /// Messages stored before this Unix time in milliseconds count as missing.
    pub oldest_ms: u64,
    /// Maximum number of events. If there are more, the newest ones are returned.
    pub events_max: usize,
    /// Maximum size of the events' names and data in bytes. If there are more, the newest events are returned.
    pub bytes_max: usize,
    /// Channels.
    pub channels: Vec<Vec<u8>>,
    /// True if only events are requested. Other messages of a channel then cause no gap.
    pub events_only: bool,
}

/// An entry of a result with older messages, in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastEntry {
    /// An event.
    Event(Received),
    /// Messages up to this sequence may be missing.
    Gap(u64),
}

/// An event for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a connection to this server, then call `handle_connected` or `handle_closed`. The server is one of `Options::servers`,
    /// or one that such a server has named. A connection to Redis with TLS begins with the handshake. A connection to NATS begins
    /// in plain text, and [`Event::Secure`] requests the handshake.
    Connect(Box<Address>),
    /// Start TLS on the connection, then call `handle_secured` or `handle_closed`.
    Secure,
    /// Close the connection, without a call of `handle_closed`.
    Disconnect,
    /// End of the log at the start of a connection. The log is ready only after all messages up to this position were read.
    LogEnd {
        /// Position of the last message.
        place: Place,
        /// Time when the log stored this message in Unix milliseconds, if known.
        stored_ms: Option<u64>,
    },
    /// Messages up to this position may be missing. The records after this position follow.
    Begin(Place),
    /// The next record.
    Record(Received),
    /// The message at this position was read, but is not a record.
    Passed(Place),
    /// The log has stored a record of the outbox.
    Accepted {
        /// Position in the outbox.
        outbox: u64,
        /// Position in the log.
        place: Place,
    },
    /// The log refuses a record of the outbox for ever.
    Rejected(Rejected),
    /// Records of the outbox up to this one may be dropped.
    Released(u64),
    /// Send the records of the outbox again, from the oldest one that is not released.
    Rewind,
    /// The result of a request for older messages.
    Past {
        /// Id of the request.
        id: u64,
        /// Entries in the log's order.
        entries: Vec<PastEntry>,
    },
    /// The connection has ended before this request was answered.
    PastLost(u64),
    /// The log accepts records, and all messages were delivered that it had at the start of the connection.
    Ready,
    /// The log is unreachable, with the cause. Each cause is reported once per outage.
    Away(String),
    /// A notice for an operator.
    Notice(String),
    /// A record of another application was skipped.
    Intruder(String),
}

/// Returns the delay in milliseconds before the next retry, after a number of failures.
pub(crate) fn retry_ms(failures: u32) -> u64 {
    (RETRY_MS_MIN << failures.min(8)).min(RETRY_MS_MAX)
}

/// Returns the time at which a response awaited since `since_ms` counts as missing, with a timeout of `silence_ms`. `arrived_ms` is
/// the last arrival of bytes of the response, or of bytes before it. Arriving bytes extend the timeout up to [`ARRIVAL_MS_MAX`].
pub(crate) fn answer_due_ms(since_ms: u64, silence_ms: u64, arrived_ms: u64) -> u64 {
    let due_ms = since_ms.max(arrived_ms) + silence_ms;
    due_ms.min(since_ms + ARRIVAL_MS_MAX)
}

impl Content {
    /// Returns the text of the kind in the log. Returns `None` for events.
    pub(crate) fn text(self) -> Option<&'static [u8]> {
        match self {
            Content::Event => None,
            Content::Presence => Some(b"presence"),
            Content::Direct => Some(b"direct"),
            Content::Workers => Some(b"workers"),
        }
    }

    /// Parses the text of a kind. Returns `None` for a kind of a later version.
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

/// Parses the `except` of a record: 32 hexadecimal digits.
pub(crate) fn read_except(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() == 32)?;
    let number = |digits: Option<&str>| u64::from_str_radix(digits?, 16).ok();
    Some((number(text.get(..16))?, number(text.get(16..))?))
}
