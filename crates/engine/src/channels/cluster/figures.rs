//! What the bridge has counted.

/// How the server and the log of its cluster get on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClusterFigures {
    /// Whether the log is there, and the bridge goes on.
    pub is_ready: bool,
    /// Events of this server that the log has taken, and notes about who is present.
    pub published: u64,
    /// Events of this server that the log never takes: too large, or of a channel that it does not allow.
    pub rejected: u64,
    /// Events that were read from the log, this server's own and such notes among them.
    pub received: u64,
    /// Times that clients were told that messages may be missing: the log was made anew, or had lost or removed what was not read.
    pub gaps: u64,
    /// Times that the log was there, and then was not.
    pub disconnects: u64,
}

impl ClusterFigures {
    /// The figures in the order in which they lie in shared memory.
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
