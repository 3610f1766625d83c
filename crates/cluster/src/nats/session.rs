//! The connection to a server and the step that it has reached.
//!
//! Each state owns the data that exists only in that state: [`Step::Reading`] has the consumer,
//! [`Stage::Proving`](super::consumer::Stage) the held messages, and [`Live`] the times of the leader's descriptions.

use super::consumer::{Consumer, Held, Live, Proof, Stage};
use crate::exchange::{PING_MS, SILENCE_MS_MAX, answer_due_ms};

/// The connection.
pub(super) enum Link {
    /// Closed. The next attempt starts at `retry_ms`.
    Down { retry_ms: u64 },
    /// The caller opens the connection until `until_ms`.
    Opening { until_ms: u64 },
    /// Open.
    Up(Session),
}

/// An open connection.
pub(super) struct Session {
    pub step: Step,
    /// Start of the step.
    pub since_ms: u64,
    /// Time of the step's last request, which may be sent again.
    pub asked_ms: u64,
}

/// Steps of an open connection, in their order. Each step except the last waits for one response.
pub(super) enum Step {
    /// The server's INFO.
    Info,
    /// The caller's TLS handshake.
    Secure,
    /// The description of the stream.
    Stream,
    /// The creation of a missing stream.
    NewStream,
    /// An update that starts a new epoch of the stream.
    NewEpoch,
    /// The response to a probe for the log's end. The description ends before a message that this node knows.
    End,
    /// A consumer exists or is being created.
    Reading(Box<Consumer>),
}

impl Link {
    pub fn is_up(&self) -> bool {
        matches!(self, Link::Up(_))
    }

    pub fn step(&self) -> Option<&Step> {
        match self {
            Link::Up(session) => Some(&session.step),
            _ => None,
        }
    }

    pub fn consumer(&self) -> Option<&Consumer> {
        match self.step() {
            Some(Step::Reading(consumer)) => Some(consumer),
            _ => None,
        }
    }

    pub fn consumer_mut(&mut self) -> Option<&mut Consumer> {
        match self {
            Link::Up(Session {
                step: Step::Reading(consumer),
                ..
            }) => Some(consumer),
            _ => None,
        }
    }

    /// Returns the held messages. Returns `None` if the consumer is live, or if there is no consumer.
    pub fn held_mut(&mut self) -> Option<&mut Held> {
        match &mut self.consumer_mut()?.stage {
            Stage::Proving { held, .. } => Some(held),
            Stage::Live(_) => None,
        }
    }

    /// Returns the proof that the consumer waits for.
    pub fn proof(&self) -> Option<Proof> {
        match &self.consumer()?.stage {
            Stage::Proving { proof, .. } => Some(*proof),
            Stage::Live(_) => None,
        }
    }

    pub fn live(&self) -> Option<&Live> {
        match &self.consumer()?.stage {
            Stage::Live(live) => Some(live),
            Stage::Proving { .. } => None,
        }
    }

    pub fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.consumer_mut()?.stage {
            Stage::Live(live) => Some(live),
            Stage::Proving { .. } => None,
        }
    }

    pub fn is_live(&self) -> bool {
        self.live().is_some()
    }
}

/// Times of received bytes, and the PINGs of a connection.
pub(super) struct Liveness {
    /// Time of the last arrival of any bytes.
    received_ms: u64,
    /// Time of the last arrival of bytes that continued an incomplete message.
    arrived_ms: u64,
    /// Time of the last PING.
    pinged_ms: u64,
    /// Number of PINGs sent on this connection.
    pub pings: u64,
    /// Number of PONGs received on this connection.
    pub pongs: u64,
}

impl Liveness {
    pub fn new(now_ms: u64) -> Liveness {
        Liveness {
            received_ms: now_ms,
            arrived_ms: now_ms,
            pinged_ms: now_ms,
            pings: 0,
            pongs: 0,
        }
    }

    /// Restarts all timeouts, because the TLS handshake has finished.
    pub fn restart(&mut self, now_ms: u64) {
        (self.received_ms, self.arrived_ms, self.pinged_ms) = (now_ms, now_ms, now_ms);
    }

    pub fn note_received(&mut self, now_ms: u64) {
        self.received_ms = now_ms;
    }

    /// Records that the bytes received now have continued an incomplete message.
    pub fn note_arrival(&mut self, now_ms: u64) {
        self.arrived_ms = now_ms;
    }

    /// Sends a PING.
    pub fn ping(&mut self, output: &mut Vec<u8>, now_ms: u64) {
        self.pinged_ms = now_ms;
        self.pings += 1;
        output.extend_from_slice(b"PING\r\n");
    }

    /// Postpones the next PING.
    pub fn skip_ping(&mut self, now_ms: u64) {
        self.pinged_ms = now_ms;
    }

    /// Returns the time at which the response to a request sent at `since_ms` is overdue: `silence_ms` after the request, or
    /// after the last bytes that continued an incomplete message. On a slow connection, such a message may delay the response.
    pub fn response_due_ms(&self, since_ms: u64, silence_ms: u64) -> u64 {
        answer_due_ms(since_ms, silence_ms, self.arrived_ms)
    }

    pub fn silence_due_ms(&self) -> u64 {
        self.received_ms + SILENCE_MS_MAX
    }

    pub fn ping_due_ms(&self) -> u64 {
        self.pinged_ms + PING_MS
    }
}
