//! Counts of connections, subscriptions and signed-in users that servers of a cluster exchange.
//!
//! The first worker of a server is its [`NodeAnnouncer`]. The announcer sends the sums over the server's workers as absolute
//! numbers, in numbered messages through the log. Every worker of the other servers stores the sums ([`Nodes`]). A worker that
//! misses a number, or receives a message of an unknown server, requests all counts. The announcer then sends all counts, and
//! receivers drop the names that are not among them. A server that is silent for the lease is dropped with its clients.
//!
//! The server that started first does the work that must happen once per cluster ([`NodeAnnouncer::is_first`]).

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::counts::Counts;

/// Maximum number of connections, of channels and of users per message. A message has to fit into one record.
const NAMES_PER_MESSAGE: usize = 100;
/// Maximum number of servers stored. The engine has the same limit for servers with members.
const NODES_MAX: usize = 64;
/// Interval in milliseconds after which the counts of a server that did not respond are requested again.
pub(crate) const ASK_AGAIN_MS: u64 = 2_000;
/// Time in milliseconds that the workers of a server have to send their counts to a new announcer.
const SETTLE_MS: u64 = 500;
/// Minimum interval in milliseconds between two full reports, regardless of the number of requests.
const WHOLE_MS: u64 = 1_000;
/// Time in milliseconds that this server waits for responses after it has requested the counts of all servers.
const KNOWN_MS: u64 = 1_500;
/// Number of messages without counts ([`NodeMessage::Alive`]) that a server sends within the lease.
pub(crate) const LOOKS_PER_LEASE: u64 = 3;

/// Identifies an announcer and the position of a message in its sequence.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct AnnouncementId {
    /// Id of the server.
    pub node: u64,
    /// Start of the server in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Start time of the announcer, by the clock of its machine. A later announcer replaces an earlier announcer.
    pub life: u64,
    /// Number of messages of counts up to and including this one.
    pub number: u64,
}

/// Content of a message between servers.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum NodeMessage {
    /// The server is running. Sent if it has no counts to send.
    Alive {},
    /// Counts by name, as in `worker_counts::WorkerMessage::Counts`.
    Counts {
        /// Number of connections by application.
        connections: Vec<(String, u64)>,
        /// Number of subscriptions by channel.
        channels: Vec<(String, u64)>,
        /// Number of connections by user.
        users: Vec<(String, u64)>,
        /// Position of this message in a full report.
        whole: Whole,
    },
}

/// Position of a message in a full report of a server's counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Whole {
    /// Set on the first message.
    pub begins: bool,
    /// Set on the last message.
    pub ends: bool,
}

/// Names whose counts may have changed.
#[derive(Debug, Default)]
pub struct ChangedNames {
    /// Ring names of channels.
    pub channels: Vec<String>,
    /// Names of users.
    pub users: Vec<String>,
}

impl ChangedNames {
    fn add(&mut self, counts: &Counts) {
        self.channels.extend(counts.channels.keys().cloned());
        self.users.extend(counts.users.keys().cloned());
    }
}

#[derive(Debug)]
struct Node {
    /// Announcer of the server, and the number of its newest message.
    announcement: AnnouncementId,
    /// Time at which the last message was received.
    received_ms: u64,
    /// Time at which the counts were requested last.
    asked_ms: Option<u64>,
    counts: Counts,
    /// Counts of a full report that is not complete yet.
    staging: Option<Counts>,
    /// True if no message was missed since the last full report.
    is_whole: bool,
}

/// The other servers from which a worker has received messages, with their counts.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: HashMap<u64, Node>,
}

impl Nodes {
    /// Returns the counts of each server.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.nodes.values().map(|node| &node.counts)
    }

    /// Handles a message of another server and returns the names that may have changed.
    pub fn take(
        &mut self,
        announcement: AnnouncementId,
        node_message: NodeMessage,
        now_ms: u64,
    ) -> ChangedNames {
        let mut touched = ChangedNames::default();
        if !self.nodes.contains_key(&announcement.node) && self.nodes.len() >= NODES_MAX {
            return touched;
        }
        let node = self.nodes.entry(announcement.node).or_insert_with(|| Node {
            announcement: AnnouncementId {
                number: 0,
                ..announcement
            },
            received_ms: now_ms,
            asked_ms: None,
            counts: Counts::default(),
            staging: None,
            is_whole: false,
        });
        // A message of an announcer that was replaced.
        if announcement.life < node.announcement.life {
            return touched;
        }
        node.received_ms = now_ms;
        if announcement.life > node.announcement.life {
            // Keep the old announcer's counts until the new one has sent its full state.
            node.announcement = AnnouncementId {
                number: 0,
                ..announcement
            };
            node.staging = None;
            node.is_whole = false;
        }
        let next = match node_message {
            NodeMessage::Alive {} => node.announcement.number,
            NodeMessage::Counts { .. } => node.announcement.number + 1,
        };
        // At least one message was missed. `unknown` then returns this server, so that its counts are requested.
        if announcement.number > next {
            node.staging = None;
            node.is_whole = false;
        }
        node.announcement.number = node.announcement.number.max(announcement.number);
        let NodeMessage::Counts {
            connections,
            channels,
            users,
            whole,
        } = node_message
        else {
            return touched;
        };
        if whole.begins {
            node.staging = Some(Counts::default());
        }
        let named = |list: &[(String, u64)]| -> Vec<String> {
            list.iter().map(|(name, _)| name.clone()).collect()
        };
        (touched.channels, touched.users) = (named(&channels), named(&users));
        if let Some(staging) = &mut node.staging {
            staging.set(connections.clone(), channels.clone(), users.clone());
        }
        node.counts.set(connections, channels, users);
        if whole.ends
            && let Some(staging) = node.staging.take()
        {
            // Names that are not in the full report are dropped with the previous counts.
            touched.add(&node.counts);
            node.counts = staging;
            node.is_whole = true;
            node.asked_ms = None;
        }
        touched
    }

    /// Restarts the lease of every server, because this worker could receive no message until now.
    pub fn renew_leases(&mut self, now_ms: u64) {
        for node in self.nodes.values_mut() {
            node.received_ms = now_ms;
        }
    }

    /// Drops servers that were silent for the lease, and returns the names that may have changed.
    pub fn expire(&mut self, now_ms: u64, lease_ms: u64) -> ChangedNames {
        let mut touched = ChangedNames::default();
        self.nodes.retain(|_, node| {
            let lives = now_ms.saturating_sub(node.received_ms) < lease_ms;
            if !lives {
                touched.add(&node.counts);
            }
            lives
        });
        touched
    }

    /// Returns the servers whose counts have to be requested, and records these requests.
    pub fn unknown(&mut self, now_ms: u64) -> Vec<u64> {
        let mut nodes = Vec::new();
        for (id, node) in &mut self.nodes {
            let is_due = node.asked_ms.is_none_or(|at| at + ASK_AGAIN_MS <= now_ms);
            if !node.is_whole && is_due {
                node.asked_ms = Some(now_ms);
                nodes.push(*id);
            }
        }
        nodes
    }

    /// Returns true if the counts of every known server are complete.
    pub fn are_whole(&self) -> bool {
        self.nodes.values().all(|node| node.is_whole)
    }
}

/// Provides the sums of a server's counts.
pub trait Has {
    /// Returns all names with a count.
    fn names(&self) -> PendingChanges;
    /// Returns the number of connections of an application.
    fn connections(&self, app: &str) -> u64;
    /// Returns the number of subscriptions of a channel.
    fn subscriptions(&self, channel: &str) -> u64;
    /// Returns the number of connections of a user.
    fn signed_in(&self, user: &str) -> u64;
}

/// Local names whose counts changed since the last broadcast.
#[derive(Debug, Default)]
pub struct PendingChanges {
    pub connections: HashSet<String>,
    pub channels: HashSet<String>,
    pub users: HashSet<String>,
}

impl PendingChanges {
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.channels.is_empty() && self.users.is_empty()
    }

    fn extend(&mut self, other: PendingChanges) {
        self.connections.extend(other.connections);
        self.channels.extend(other.channels);
        self.users.extend(other.users);
    }

    /// Removes some of the names and returns them with their current counts.
    fn take(&mut self, has: &impl Has) -> [Vec<(String, u64)>; 3] {
        [
            take_part(&mut self.connections, |name| has.connections(name)),
            take_part(&mut self.channels, |name| has.subscriptions(name)),
            take_part(&mut self.users, |name| has.signed_in(name)),
        ]
    }
}

fn take_part(names: &mut HashSet<String>, count: impl Fn(&str) -> u64) -> Vec<(String, u64)> {
    let mut taken = 0;
    let part = names.extract_if(|_| {
        taken += 1;
        taken <= NAMES_PER_MESSAGE
    });
    let part: Vec<String> = part.take(NAMES_PER_MESSAGE).collect();
    part.into_iter()
        .map(|name| {
            let count = count(&name);
            (name, count)
        })
        .collect()
}

/// Announces the counts of a server to the cluster; runs in its first worker.
#[derive(Debug)]
pub struct NodeAnnouncer {
    announcement: AnnouncementId,
    /// Time at which this announcer started.
    began_ms: u64,
    pending_changes: PendingChanges,
    /// Names still to be sent while a full report is in progress.
    whole: Option<PendingChanges>,
    /// True if a full report has to be sent.
    owes_whole: bool,
    /// Time at which the last full report started; `None` before the first one.
    whole_ms: Option<u64>,
    /// Time at which the counts of all servers were requested; `None` if they were not.
    asked_all_ms: Option<u64>,
    /// Time of the last message; 0 if one has to be sent immediately.
    alive_ms: u64,
}

impl NodeAnnouncer {
    pub fn new(node: u64, began_unix_ms: u64, life: u64, now_ms: u64) -> NodeAnnouncer {
        NodeAnnouncer {
            announcement: AnnouncementId {
                node,
                began_unix_ms,
                life,
                number: 0,
            },
            began_ms: now_ms,
            pending_changes: PendingChanges::default(),
            whole: None,
            owes_whole: true,
            whole_ms: None,
            asked_all_ms: None,
            alive_ms: 0,
        }
    }

    /// Records changed names.
    pub fn note(&mut self, pending_changes: PendingChanges) {
        self.pending_changes.extend(pending_changes);
    }

    /// Records that a server requested all counts.
    pub fn ask(&mut self) {
        self.owes_whole = true;
    }

    /// Returns true if the counts of all servers were not requested yet.
    pub fn owes_question(&self) -> bool {
        self.asked_all_ms.is_none()
    }

    /// Records that the counts of all servers were requested.
    pub fn note_question(&mut self, now_ms: u64) {
        self.asked_all_ms = Some(now_ms);
    }

    /// Returns true if the other servers had time to respond and their counts are complete.
    pub fn knows_all(&self, nodes: &Nodes, now_ms: u64) -> bool {
        self.asked_all_ms
            .is_some_and(|asked_ms| asked_ms + KNOWN_MS <= now_ms)
            && nodes.are_whole()
    }

    /// Returns true if this server does the work that must happen once per cluster.
    pub fn is_first(&self, nodes: &Nodes) -> bool {
        let rank = |announcement: &AnnouncementId| (announcement.began_unix_ms, announcement.node);
        let mut others = nodes.nodes.values().map(|node| rank(&node.announcement));
        others.all(|other| rank(&self.announcement) < other)
    }

    /// Returns the time of the next message if no count changes until then.
    pub fn due_ms(&self, now_ms: u64, lease_ms: u64) -> u64 {
        let whole_ms = match (self.whole.is_some(), self.owes_whole) {
            (true, _) => now_ms,
            (false, true) => self.may_begin_ms(),
            (false, false) => u64::MAX,
        };
        let changes_ms = if self.may_send_changes() && !self.pending_changes.is_empty() {
            now_ms
        } else {
            u64::MAX
        };
        let known_ms = self.asked_all_ms.map(|at| at + KNOWN_MS);
        let known_ms = known_ms.filter(|at| *at > now_ms).unwrap_or(u64::MAX);
        let alive_ms = self.alive_ms + lease_ms / LOOKS_PER_LEASE;
        whole_ms.min(changes_ms).min(known_ms).min(alive_ms)
    }

    fn may_begin_ms(&self) -> u64 {
        match self.whole_ms {
            Some(at) => at + WHOLE_MS,
            None => self.began_ms + SETTLE_MS,
        }
    }

    /// Returns false before the first full report, because receivers cannot use changes without it.
    fn may_send_changes(&self) -> bool {
        self.whole_ms.is_some()
    }

    /// Returns the next message to send; `None` if there is none now. `has` provides the sums over this server's workers.
    pub fn next(
        &mut self,
        has: &impl Has,
        now_ms: u64,
        lease_ms: u64,
    ) -> Option<(AnnouncementId, NodeMessage)> {
        let begins = self.owes_whole && self.whole.is_none() && self.may_begin_ms() <= now_ms;
        let node_message = if begins || self.whole.is_some() {
            let whole = self.whole.get_or_insert_with(|| has.names());
            let [connections, channels, users] = whole.take(has);
            let ends = whole.is_empty();
            if begins {
                (self.owes_whole, self.whole_ms) = (false, Some(now_ms));
            }
            if ends {
                self.whole = None;
            }
            NodeMessage::Counts {
                connections,
                channels,
                users,
                whole: Whole { begins, ends },
            }
        } else if self.may_send_changes() && !self.pending_changes.is_empty() {
            let [connections, channels, users] = self.pending_changes.take(has);
            NodeMessage::Counts {
                connections,
                channels,
                users,
                whole: Whole::default(),
            }
        } else if self.alive_ms + lease_ms / LOOKS_PER_LEASE <= now_ms {
            NodeMessage::Alive {}
        } else {
            return None;
        };
        self.alive_ms = now_ms;
        self.announcement.number += u64::from(node_message != NodeMessage::Alive {});
        Some((self.announcement, node_message))
    }

    /// Handles a message that could not be sent. Its number is used up, so a full report replaces a lost message of counts.
    pub fn put_back(&mut self, node_message: &NodeMessage) {
        self.alive_ms = 0;
        if let NodeMessage::Counts { .. } = node_message {
            self.whole = None;
            self.owes_whole = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE_MS: u64 = 6_000;

    impl Has for Counts {
        fn names(&self) -> PendingChanges {
            PendingChanges {
                connections: self.connections.keys().cloned().collect(),
                channels: self.channels.keys().cloned().collect(),
                users: self.users.keys().cloned().collect(),
            }
        }

        fn connections(&self, app: &str) -> u64 {
            self.connections.get(app).copied().unwrap_or_default()
        }

        fn subscriptions(&self, channel: &str) -> u64 {
            self.channels.get(channel).copied().unwrap_or_default()
        }

        fn signed_in(&self, user: &str) -> u64 {
            self.users.get(user).copied().unwrap_or_default()
        }
    }

    fn announcer(node: u64) -> NodeAnnouncer {
        NodeAnnouncer::new(node, node, 1, 0)
    }

    fn counts(channels: &[(String, u64)]) -> Counts {
        let mut counts = Counts::default();
        counts.set(Vec::new(), channels.to_vec(), Vec::new());
        counts
    }

    #[test]
    fn expires_a_silent_server_and_keeps_a_live_one() {
        let (mut nodes, mut announcer) = (Nodes::default(), announcer(1));
        let has = [("a".to_owned(), 2)];
        let (announcement, node_message) = announcer
            .next(&counts(&has), SETTLE_MS, LEASE_MS)
            .expect("everything");
        assert_eq!(
            nodes
                .take(announcement, node_message, SETTLE_MS)
                .channels
                .len(),
            2
        );
        let mut last_ms = SETTLE_MS;
        for now_ms in (SETTLE_MS..3 * LEASE_MS).step_by(100) {
            if let Some((announcement, node_message)) =
                announcer.next(&counts(&has), now_ms, LEASE_MS)
            {
                assert_eq!(node_message, NodeMessage::Alive {});
                nodes.take(announcement, node_message, now_ms);
                last_ms = now_ms;
            }
            assert!(nodes.expire(now_ms, LEASE_MS).channels.is_empty());
        }
        assert!(nodes.unknown(last_ms).is_empty() && nodes.are_whole());
        assert_eq!(nodes.expire(last_ms + LEASE_MS, LEASE_MS).channels, ["a"]);
        assert!(nodes.nodes.is_empty());
    }

    #[test]
    fn first_server_is_the_one_that_started_first() {
        let (mut nodes, mut old) = (Nodes::default(), announcer(1));
        let new = announcer(2);
        assert!(new.is_first(&nodes) && old.is_first(&nodes));
        let (announcement, node_message) = old
            .next(&Counts::default(), SETTLE_MS, LEASE_MS)
            .expect("everything");
        nodes.take(announcement, node_message, 0);
        assert!(!new.is_first(&nodes));
        nodes.expire(LEASE_MS, LEASE_MS);
        assert!(new.is_first(&nodes));
    }

    #[test]
    fn bounds_the_number_of_servers() {
        let mut nodes = Nodes::default();
        for node in 0..2 * NODES_MAX as u64 {
            let announcement = announcer(node).announcement;
            nodes.take(announcement, NodeMessage::Alive {}, 0);
        }
        assert_eq!(nodes.nodes.len(), NODES_MAX);
    }

    proptest! {
        /// After any changes, losses and crashes of the announcer, a request without further loss restores all counts.
        #[test]
        fn requests_lost_counts(steps in proptest::collection::vec((0u8..8, 0usize..250), 0..200)) {
            let (mut nodes, mut announcer) = (Nodes::default(), announcer(1));
            let mut has: HashMap<String, u64> = HashMap::new();
            let mut now_ms = 0;
            let mut life = 1;
            let all = |has: &HashMap<String, u64>| {
                counts(&has.iter().map(|(name, count)| (name.clone(), *count)).collect::<Vec<_>>())
            };
            for (what, at) in steps {
                let name = format!("channel-{at}");
                now_ms += 100;
                match what {
                    0..=2 => {
                        *has.entry(name.clone()).or_default() += 1;
                        announcer.pending_changes.channels.insert(name);
                    }
                    3 => {
                        has.remove(&name);
                        announcer.pending_changes.channels.insert(name);
                    }
                    4 => {
                        // The message is lost.
                        announcer.next(&all(&has), now_ms, LEASE_MS);
                    }
                    5 => if let Some((_, node_message)) = announcer.next(&all(&has), now_ms, LEASE_MS) {
                        announcer.put_back(&node_message);
                    },
                    6 => {
                        life += 1;
                        announcer = NodeAnnouncer::new(1, 1, life, now_ms);
                    }
                    _ => while let Some((announcement, node_message)) = announcer.next(&all(&has), now_ms, LEASE_MS) {
                        nodes.take(announcement, node_message, now_ms);
                    },
                }
            }
            for _ in 0..100 {
                now_ms += 100;
                while let Some((announcement, node_message)) = announcer.next(&all(&has), now_ms, LEASE_MS) {
                    nodes.take(announcement, node_message, now_ms);
                }
                if !nodes.unknown(now_ms).is_empty() {
                    announcer.ask();
                }
            }
            prop_assert!(nodes.are_whole());
            let known: HashMap<String, u64> = nodes.counts().flat_map(|it| it.channels.clone()).collect();
            prop_assert_eq!(known, has);
        }
    }
}
