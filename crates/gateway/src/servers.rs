//! Exchange of counts between a worker and the other servers of its cluster.

use fermata_config::LogLevel;

use crate::gateway::Gateway;
use crate::nodes::{AnnouncementId, LOOKS_PER_LEASE, NodeAnnouncer, NodeMessage};
use crate::worker_counts::WorkerMessage;

/// Interval in milliseconds at which the server that sends webhooks publishes their delivery state.
const DELIVERY_STATE_MS: u64 = 100;
/// Interval in milliseconds at which a worker with incomplete counts of other servers checks them.
const LEARNING_MS: u64 = 250;

impl Gateway<'_> {
    /// Sends a message to all workers of all other servers, if there is a cluster. Returns false if the message could not be sent.
    /// A sent message is lost if the log does not accept it soon.
    pub(crate) fn send_to_servers(&mut self, worker_message: &WorkerMessage) -> bool {
        let Ok(data) = serde_json::to_vec(worker_message) else {
            return false;
        };
        match self.worker.channels.send_to_servers(&data) {
            Ok(_) => true,
            Err(error) => {
                let line = format!("cannot send to the other servers: {error}");
                self.worker.net.log(LogLevel::Debug, &line);
                false
            }
        }
    }

    /// Returns true if this server does the work that must happen once per cluster. Without a cluster this is always true. In a
    /// cluster it requires that the server's log is reachable.
    pub(crate) fn is_first_server(&self) -> bool {
        let member = self.hub.member.as_ref();
        member.is_none_or(|member| member.is_first)
    }

    /// Returns the time of the next call of [`Gateway::look_at_servers`].
    pub(crate) fn cluster_due_ms(&mut self) -> Option<u64> {
        let now_ms = self.worker.net.now_ms();
        let member = self.hub.member.as_ref()?;
        Some(member.due_ms(&self.hub.worker_counts, now_ms))
    }

    pub(crate) fn on_node(&mut self, announcement: AnnouncementId, node_message: NodeMessage) {
        let now_ms = self.worker.net.now_ms();
        let Some(member) = &mut self.hub.member else {
            return;
        };
        if announcement.node == member.node {
            return;
        }
        let touched = self
            .hub
            .worker_counts
            .nodes()
            .take(announcement, node_message, now_ms);
        self.hub.worker_counts.touch_all(touched);
        if !self.hub.worker_counts.nodes().are_whole() {
            let member = self.hub.member.as_mut();
            let look_ms = now_ms + LEARNING_MS;
            if let Some(member) = member {
                member.look_ms = member.look_ms.min(look_ms);
            }
        }
    }

    pub(crate) fn on_question(&mut self, of: Option<u64>) {
        let Some(member) = &mut self.hub.member else {
            return;
        };
        if of.is_some_and(|of| of != member.node) {
            return;
        }
        if let Some(announcer) = &mut member.announcer {
            announcer.ask();
        }
        if member.is_first {
            self.hub.webhooks.report_all();
        }
    }

    /// Stops announcing, because another worker has replaced this one.
    pub(crate) fn stop_announcing(&mut self) {
        if let Some(member) = &mut self.hub.member {
            member.announcer = None;
        }
    }

    /// Sends pending messages to the other servers, and drops servers that were silent for the lease.
    pub(crate) fn look_at_servers(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let is_ready = self.worker.channels.is_log_ready();
        let Some(member) = &mut self.hub.member else {
            return;
        };
        let lease_ms = member.lease_ms;
        let pause_ms = now_ms - std::mem::replace(&mut member.looked_ms, now_ms);
        let nodes = self.hub.worker_counts.nodes();
        // This worker received no messages because the log was unreachable, or may not have read them because it was suspended.
        if !is_ready || pause_ms > lease_ms / 2 {
            nodes.renew_leases(now_ms);
        }
        let touched = nodes.expire(now_ms, lease_ms);
        let is_learning = !nodes.are_whole();
        member.look_ms = now_ms
            + if is_learning || !is_ready {
                LEARNING_MS
            } else {
                lease_ms / LOOKS_PER_LEASE
            };
        self.hub.worker_counts.touch_all(touched);
        if is_ready {
            self.ask_servers(now_ms);
            self.speak(now_ms, lease_ms);
        } else {
            self.fall_silent(now_ms);
        }
        self.decide_first(now_ms, is_ready);
        self.send_delivery_state(now_ms);
    }

    /// Pauses the messages of counts, because the log is unreachable or has refused a message.
    fn fall_silent(&mut self, now_ms: u64) {
        if let Some(member) = &mut self.hub.member {
            member.silent_until_ms = now_ms + LEARNING_MS;
        }
    }

    fn announcer(&mut self) -> Option<&mut NodeAnnouncer> {
        self.hub.member.as_mut()?.announcer.as_mut()
    }

    /// Requests the counts of all servers once, and the counts of servers that are incomplete.
    fn ask_servers(&mut self, now_ms: u64) {
        let owes = self.announcer().is_some_and(|it| it.owes_question());
        if owes
            && self.send_to_servers(&WorkerMessage::Ask { of: None })
            && let Some(announcer) = self.announcer()
        {
            announcer.note_question(now_ms);
        }
        for node in self.hub.worker_counts.nodes().unknown(now_ms) {
            self.send_to_servers(&WorkerMessage::Ask { of: Some(node) });
        }
    }

    /// Sends this server's messages that are due, until the log refuses one.
    fn speak(&mut self, now_ms: u64, lease_ms: u64) {
        let pending_changes = self.hub.worker_counts.take_pending_changes();
        if let Some(announcer) = self.announcer() {
            announcer.note(pending_changes);
        }
        loop {
            let member = self.hub.member.as_mut();
            let Some(announcer) = member.and_then(|member| member.announcer.as_mut()) else {
                return;
            };
            let Some((announcement, node_message)) =
                announcer.next(&self.hub.worker_counts, now_ms, lease_ms)
            else {
                return;
            };
            let worker_message = WorkerMessage::Node {
                announcement,
                node_message,
            };
            if !self.send_to_servers(&worker_message) {
                if let WorkerMessage::Node { node_message, .. } = &worker_message
                    && let Some(announcer) = self.announcer()
                {
                    announcer.put_back(node_message);
                }
                self.fall_silent(now_ms);
                return;
            }
        }
    }

    /// Decides whether this server does the work that must happen once per cluster.
    fn decide_first(&mut self, now_ms: u64, is_ready: bool) {
        let Some(member) = &mut self.hub.member else {
            return;
        };
        let Some(announcer) = &member.announcer else {
            member.is_first = false;
            return;
        };
        let nodes = self.hub.worker_counts.nodes();
        let was_first = member.is_first;
        // A server takes over only after it has received the counts of all servers. Before, it would announce counts that are too
        // low.
        member.is_first = is_ready
            && announcer.is_first(nodes)
            && (was_first || announcer.knows_all(nodes, now_ms));
        if member.is_first == was_first {
            return;
        }
        let is_first = member.is_first;
        self.hub.webhooks.set_role(is_first);
        if is_first {
            // The counts that the previous server announced last are unknown here, so announce the counts of all channels again.
            self.hub.counting.clear();
            self.hub.worker_counts.touch_channels();
        }
    }

    /// Sends the delivery state of webhooks to the servers that may have to take over.
    fn send_delivery_state(&mut self, now_ms: u64) {
        let has_webhooks = !self.hub.webhooks.is_empty();
        let Some(member) = &mut self.hub.member else {
            return;
        };
        member.delivery_state_ms =
            (member.is_first && has_webhooks).then_some(now_ms + DELIVERY_STATE_MS);
        if !member.is_first {
            return;
        }
        for (app, at, report) in self.hub.webhooks.reports() {
            let worker_message = WorkerMessage::Webhook {
                app: self.app(app).id.clone(),
                at,
                acknowledged: report.acknowledged,
                occupancies: report.occupancies,
            };
            if !self.send_to_servers(&worker_message)
                && let WorkerMessage::Webhook {
                    acknowledged,
                    occupancies,
                    ..
                } = worker_message
            {
                self.hub
                    .webhooks
                    .put_back(app, at, acknowledged, occupancies);
            }
        }
    }
}
