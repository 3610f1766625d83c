//! Counters of a run and their names in JSON, statsd and Prometheus.

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($variant:ident $name:literal $help:literal;)*) => {
        /// A counted quantity.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Counter { $($variant,)* }

        impl Counter {
            /// All counters, in numeric order.
            pub const ALL: &[Counter] = &[$(Counter::$variant,)*];

            /// Returns the name used in every output.
            pub fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }

            /// Returns a description of one line.
            pub fn help(self) -> &'static str {
                match self { $(Counter::$variant => $help,)* }
            }
        }

        const COUNT: usize = [$($name,)*].len();
    };
}

counters! {
    Connects "connects" "Connections opened.";
    ConnectFailures "connect_failures" "Connections that could not be opened.";
    Disconnects "disconnects" "Connections that ended although they were wanted.";
    Refusals "refusals" "Attempts to connect that failed and were repeated.";
    NotHeld "not_held" "Clients that were not connected at the end.";
    Churned "churned" "Clients that left and came back because --churn says so.";
    Reconnects "reconnects" "Clients that came back after their connection had ended.";
    Requests "requests" "Requests or messages sent.";
    Responses "responses" "Responses or echoes received.";
    BadResponses "bad_responses" "Responses with a status that was not expected, or a wrong echo.";
    Failures "failures" "Requests that ended without a response.";
    Timeouts "timeouts" "Requests or connects that took longer than the time-out.";
    Unsent "unsent" "Requests that were due in an open loop and could not be sent before the end.";
    BytesReceived "bytes_received" "Bytes received.";
    BytesSent "bytes_sent" "Bytes sent.";
    Published "published" "Messages published and confirmed.";
    PublishFailures "publish_failures" "Messages that may or may not have been published.";
    PublishSkipped "publish_skipped" "Messages that were due and not sent, because too many waited.";
    Deliveries "deliveries" "Messages received and verified.";
    Lost "lost" "Messages that a client missed between two others.";
    Missing "missing" "Messages that had not come at the end.";
    Repeated "repeated" "Messages that came again, or after a later one.";
    Corrupt "corrupt" "Messages whose content was not what was sent.";
    Misdirected "misdirected" "Messages of another group.";
    Unconfirmed "unconfirmed" "Skipped messages whose publishing had failed; no fault.";
    Foreign "foreign" "Events that are no message of this run.";
    WatchedCpuNs "watched_cpu_ns" "Nanoseconds that the processes of --watch were on a processor.";
    GapEvents "gap_events" "Events named gap: the server says that messages are gone.";
}

/// One value per [`Counter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters([u64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Counters {
    pub fn add(&mut self, counter: Counter, count: u64) {
        self.0[counter as usize] += count;
    }

    pub fn increment(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    pub fn clear(&mut self, counter: Counter) {
        self.0[counter as usize] = 0;
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    pub fn merge(&mut self, other: &Counters) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Returns the increase of each counter since `before`.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters(std::array::from_fn(|at| self.0[at] - before.0[at]))
    }
}
