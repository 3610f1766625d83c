//! What was asked of the server and is not answered.

use crate::past::Collector;

/// A request that awaits its reply; the server replies in order.
pub(super) enum Pending {
    Hello,
    /// Where the master is, as a Sentinel knows it.
    Master,
    Select,
    Load(usize),
    Open,
    /// These records, by their places in the outbox.
    Append(Vec<u64>),
    Read,
    Past(Box<Collector>),
}

/// Why a connection is of no more use.
pub(super) enum End {
    Failure(String),
    /// This server is the one, as the server says.
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
