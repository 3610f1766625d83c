//! A worker's membership in a cluster.

use fermata_engine::Worker;
use fermata_io::{Driver, clock};

use crate::SEND_MS;
use crate::nodes::NodeAnnouncer;
use crate::worker_counts::WorkerCounts;

/// Cluster state of one worker.
pub(crate) struct Membership {
    /// Announcer of this server's counts. Only the first worker has one, until another worker
    /// replaces it.
    pub announcer: Option<NodeAnnouncer>,
    /// Number of this server in the cluster.
    pub node: u64,
    /// The setting `cluster_lease_ms`.
    pub lease_ms: u64,
    /// Time of the next check of the other servers.
    pub look_ms: u64,
    /// Time of the last check of the other servers.
    pub looked_ms: u64,
    /// Result of the last decision: true if this server does the work that must happen once per
    /// cluster.
    pub is_first: bool,
    /// Time at which the delivery state of webhooks is sent next; `None` if this server does not send webhooks.
    pub delivery_state_ms: Option<u64>,
    /// Time before which no counts are sent, because the log is unreachable or has refused a message.
    pub silent_until_ms: u64,
}

impl Membership {
    /// Creates the membership. Returns `None` if there is no cluster. `began_unix_ms` is the start
    /// time of the server.
    pub fn begin<D: Driver>(worker: &mut Worker<D>, began_unix_ms: u64) -> Option<Membership> {
        let node = worker.channels.cluster_node()?;
        let now_ms = worker.net.now_ms();
        let announcer = (worker.index() == 0)
            .then(|| NodeAnnouncer::new(node, began_unix_ms, clock::monotonic_ms(), now_ms));
        Some(Membership {
            announcer,
            node,
            lease_ms: worker.settings().cluster_lease_ms,
            look_ms: now_ms,
            looked_ms: now_ms,
            is_first: false,
            delivery_state_ms: None,
            silent_until_ms: 0,
        })
    }

    /// Returns true if this worker announces counts to the other servers.
    pub fn announces(&self) -> bool {
        self.announcer.is_some()
    }

    pub fn due_ms(&self, worker_counts: &WorkerCounts, now_ms: u64) -> u64 {
        let announcer = self.announcer.as_ref();
        let announcement_ms = announcer.map(|announcer| announcer.due_ms(now_ms, self.lease_ms));
        let changes_ms = if self.announces() && worker_counts.has_pending_changes() {
            now_ms
        } else {
            u64::MAX
        };
        let delivery_state_ms = self.delivery_state_ms.unwrap_or(u64::MAX);
        // Collect changes for a moment, to send fewer messages.
        let soon_ms = announcement_ms.unwrap_or(u64::MAX).min(changes_ms);
        let soon_ms = soon_ms.max(now_ms + SEND_MS).max(self.silent_until_ms);
        soon_ms.min(delivery_state_ms).min(self.look_ms)
    }
}
