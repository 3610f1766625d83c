//! A ZeroMQ port.

use fermata_grip::zmtp::Socket;

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// Items.
    Pull,
    /// Items behind their channels.
    Sub,
    /// Commands.
    Rep,
    /// Figures, for subscribers.
    Stats,
    /// Connections of the service with this number, or the one to the worker that has them.
    Service(u16),
    /// Requests that open sessions of this service, for any backend.
    Requests(u16),
    /// What belongs to sessions of this service, for those who have taken them.
    Sessions(u16),
    /// What backends say of sessions.
    Responses,
    /// Workers that ask them through this one.
    Questions,
}

impl Port {
    /// The setting it comes from.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Pull => "zmq_pull",
            Self::Sub => "zmq_sub",
            Self::Rep => "zmq_rep",
            Self::Stats => "zmq_stats",
            Self::Service(SESSIONS) => "zmq_state",
            Self::Requests(_) | Self::Sessions(_) | Self::Responses => "zhttp",
            Self::Service(_) | Self::Questions => "zhttpreq",
        }
    }

    /// Bytes that may wait for one connection.
    pub(crate) fn out_bytes_max(self) -> usize {
        match self {
            Self::Sessions(_) | Self::Questions => SESSIONS_OUT_BYTES_MAX,
            _ => OUT_BYTES_MAX,
        }
    }

    pub(crate) fn socket(self) -> Socket {
        match self {
            Self::Pull => Socket::Pull,
            Self::Sub => Socket::Sub,
            Self::Rep => Socket::Rep,
            Self::Stats => Socket::Pub,
            Self::Service(_) => Socket::Dealer,
            Self::Requests(_) => Socket::Push,
            Self::Sessions(_) | Self::Questions => Socket::Router,
            Self::Responses => Socket::Sub,
        }
    }
}

/// Bytes that wait for one peer; one that takes no replies is not listened to any longer.
pub(crate) const OUT_BYTES_MAX: usize = 1 << 20;

/// The same where sessions of many clients go over one connection, each with as much as it may have on its way.
pub(crate) const SESSIONS_OUT_BYTES_MAX: usize = 16 << 20;

/// The service that keeps sessions.
pub(crate) const SESSIONS: u16 = 0;
