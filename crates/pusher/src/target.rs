//! Where an application gets its channels' events sent, and which.

/// What a webhook is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel has its first subscriber.
    ChannelOccupied,
    /// It has lost its last one.
    ChannelVacated,
    /// A user has come into a presence channel.
    MemberAdded,
    /// A user has left it.
    MemberRemoved,
    /// A client has sent an event to others.
    ClientEvent,
    /// A subscriber of a cache channel found it empty.
    CacheMiss,
    /// The number of a channel's subscriptions has changed.
    SubscriptionCount,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::ChannelOccupied,
        Kind::ChannelVacated,
        Kind::MemberAdded,
        Kind::MemberRemoved,
        Kind::ClientEvent,
        Kind::CacheMiss,
        Kind::SubscriptionCount,
    ];

    /// As webhooks and settings name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ChannelOccupied => "channel_occupied",
            Kind::ChannelVacated => "channel_vacated",
            Kind::MemberAdded => "member_added",
            Kind::MemberRemoved => "member_removed",
            Kind::ClientEvent => "client_event",
            Kind::CacheMiss => "cache_miss",
            Kind::SubscriptionCount => "subscription_count",
        }
    }
}

/// Where an application gets its channels' events sent, and what bounds that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Where it is posted to. The embedder reads it.
    pub url: String,
    /// What it is told of.
    pub kinds: Vec<Kind>,
    /// Milliseconds that one attempt may take, connecting included.
    pub timeout_ms: u64,
    /// Seconds after which an event is given up that was not taken; 0: after one attempt.
    pub retry_s: u64,
    /// Events that wait to be sent.
    pub queue_events_max: usize,
}

impl Webhook {
    /// One that is told of everything.
    pub fn new(url: &str) -> Webhook {
        Webhook {
            url: url.to_owned(),
            kinds: Kind::ALL.to_vec(),
            timeout_ms: 5_000,
            retry_s: 300,
            queue_events_max: 10_000,
        }
    }

    /// Whether it is told of that.
    pub fn wants(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}
