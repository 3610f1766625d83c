//! Settings of webhooks.

/// Kinds of webhook events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel has its first subscriber.
    ChannelOccupied,
    /// A channel has lost its last subscriber.
    ChannelVacated,
    /// A user has joined a presence channel.
    MemberAdded,
    /// A user has left a presence channel.
    MemberRemoved,
    /// A client has sent an event to others.
    ClientEvent,
    /// A subscriber of a cache channel found the channel empty.
    CacheMiss,
    /// The number of a channel's subscriptions has changed.
    SubscriptionCount,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] = [
        Kind::ChannelOccupied,
        Kind::ChannelVacated,
        Kind::MemberAdded,
        Kind::MemberRemoved,
        Kind::ClientEvent,
        Kind::CacheMiss,
        Kind::SubscriptionCount,
    ];

    /// Returns the name of the kind in webhooks and settings.
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

/// A webhook of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// URL of the POST requests. The embedder parses it.
    pub url: String,
    /// Kinds of events that the webhook receives.
    pub kinds: Vec<Kind>,
    /// Maximum duration of one attempt in milliseconds, including the time to connect.
    pub timeout_ms: u64,
    /// Time after which an unacknowledged event is dropped, in seconds. 0: the event is dropped
    /// after one attempt.
    pub retry_s: u64,
    /// Maximum number of events that wait to be sent.
    pub queue_events_max: usize,
}

impl Webhook {
    /// Creates a webhook that receives all kinds.
    pub fn new(url: &str) -> Webhook {
        Webhook {
            url: url.to_owned(),
            kinds: Kind::ALL.to_vec(),
            timeout_ms: 5_000,
            retry_s: 300,
            queue_events_max: 10_000,
        }
    }

    /// Returns true if the webhook receives events of this kind.
    pub fn wants(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}
