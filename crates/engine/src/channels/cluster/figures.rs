//! Counters of the bridge.

/// State and counters of the connection between this server and its cluster log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClusterFigures {
    /// True if the log is reachable and the bridge is not stuck.
    pub is_ready: bool,
    /// Events and presence messages of this server that the log accepted.
    pub published: u64,
    /// Events of this server that the log refused permanently: too large, or on a channel that it
    /// does not permit.
    pub rejected: u64,
    /// Events and presence messages read from the log, including this server's own.
    pub received: u64,
    /// Number of times that clients were notified of possibly missing messages: the log was
    /// recreated, lost messages, or deleted messages that this server had not read.
    pub gaps: u64,
    /// Times that the log became unreachable.
    pub disconnects: u64,
}

impl ClusterFigures {
    /// Returns the counters in their order in shared memory.
    pub(super) fn counters(&mut self) -> [&mut u64; 5] {
        [
            &mut self.published,
            &mut self.rejected,
            &mut self.received,
            &mut self.gaps,
            &mut self.disconnects,
        ]
    }
}
