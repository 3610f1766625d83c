//! Requests that await a reply.

use crate::past::Collector;

/// A request that awaits its reply. The server replies in order.
pub(super) enum Pending {
    Hello,
    /// The address of the master, from a Sentinel.
    Master,
    Select,
    /// A script, by its index in `SCRIPTS`.
    Load(usize),
    Open,
    /// An append of these records, given by their positions in the outbox.
    Append(Vec<u64>),
    Read,
    Past(Box<Collector>),
}

/// Reason for the end of a connection.
pub(super) enum End {
    Failure(String),
    /// The server has named another server.
    Referral {
        host: String,
        port: u16,
    },
}

impl From<String> for End {
    fn from(cause: String) -> End {
        End::Failure(cause)
    }
}

impl From<&str> for End {
    fn from(cause: &str) -> End {
        End::Failure(cause.to_owned())
    }
}
