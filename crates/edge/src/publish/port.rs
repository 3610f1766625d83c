//! Kinds of ZeroMQ ports.

use fermata_grip::zmtp::Socket;

/// Kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// Items from publishers.
    Pull,
    /// Items from publishers, prefixed by their channels.
    Sub,
    /// Commands from publishers.
    Rep,
    /// Stats packets for subscribers.
    Stats,
    /// Connections of this service, or the connection to the worker that has the service's ports.
    Service(u16),
    /// Requests that open sessions, for any backend of this service.
    Requests(u16),
    /// Further packets of sessions, for their backends.
    Sessions(u16),
    /// Packets from backends.
    Responses,
    /// Questions from other workers.
    Questions,
}

impl Port {
    /// Returns the name of the port's setting.
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

    /// Returns the maximum bytes queued per connection.
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

/// Maximum number of bytes queued for one peer. The edge then sends the peer no further message, and stops reading from it.
pub(crate) const OUT_BYTES_MAX: usize = 1 << 20;

/// Like [`OUT_BYTES_MAX`], for a connection with the sessions of many clients, each of which may have a full window queued.
pub(crate) const SESSIONS_OUT_BYTES_MAX: usize = 16 << 20;

/// Number of the session service.
pub(crate) const SESSIONS: u16 = 0;
