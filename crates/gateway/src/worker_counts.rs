//! Counts of connections, subscriptions and signed-in users over all workers.
//!
//! Each worker counts its own clients and sends changes to the other workers as absolute numbers, so a repeated or late message
//! does no harm. A starting worker sends a hello. The other workers then drop the counts of its predecessor and send all their own
//! counts again. Counts of other servers in a cluster are in [`Nodes`].

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::nodes::{AnnouncementId, ChangedNames, Has, NodeMessage, Nodes, PendingChanges};

/// Maximum number of channels, of applications and of users per message. A message has to fit into one record of the ring.
const NAMES_PER_MESSAGE: usize = 100;

/// A message between workers.
///
/// The names in `serde(rename)` must not change: servers of different versions exchange these messages.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum WorkerMessage {
    /// A worker has started.
    Hello {
        /// Its index.
        worker: u16,
    },
    /// Changed counts of one worker.
    Counts {
        /// Its index.
        worker: u16,
        /// Number of connections per application.
        connections: Vec<(String, u64)>,
        /// Subscriptions per channel, by ring name.
        channels: Vec<(String, u64)>,
        /// Connections per signed-in user, by `names::user_name`.
        users: Vec<(String, u64)>,
    },
    /// A subscriber found a cache channel empty. The worker that sends webhooks reports it.
    CacheMiss {
        /// Application id.
        app: String,
        /// Channel name.
        channel: String,
    },
    /// Close all connections of a user.
    Terminate {
        /// Application id.
        app: String,
        /// User id.
        user: String,
    },
    /// A message of another server in the cluster.
    Node {
        /// Sender of the message and its position in the sequence.
        #[serde(rename = "speaks")]
        announcement: AnnouncementId,
        /// Its content.
        #[serde(rename = "saying")]
        node_message: NodeMessage,
    },
    /// Another server requests all counts.
    Ask {
        /// The server that has to send its counts; `None` = every server.
        of: Option<u64>,
    },
    /// Delivery state of a webhook. The sending server reports it to the servers that may have to take over.
    Webhook {
        /// Application id.
        app: String,
        /// Index of the webhook in its application.
        at: usize,
        /// Id of the last event that the backend acknowledged.
        #[serde(rename = "told")]
        acknowledged: Option<String>,
        /// Channels whose state the backend has received; true: occupied.
        #[serde(rename = "beliefs")]
        occupancies: Vec<(String, bool)>,
    },
}

/// All counts that one worker stores: its own, and those received from others.
#[derive(Debug)]
pub struct WorkerCounts {
    worker: u16,
    own: Counts,
    others: HashMap<u16, Counts>,
    /// Counts of the other servers in the cluster.
    nodes: Nodes,
    /// Changes on this server since the last [`WorkerCounts::take_pending_changes`]; `None` = this worker announces no changes.
    pending_changes: Option<PendingChanges>,
    changed_apps: HashSet<String>,
    changed_channels: HashSet<String>,
    changed_users: HashSet<String>,
    /// Users who may have come online or gone offline since the last [`WorkerCounts::take_touched_users`].
    touched_users: HashSet<String>,
    /// Channels whose subscription count may have changed in any worker; `None` = changes are not observed.
    touched: Option<HashSet<String>>,
}

impl WorkerCounts {
    pub fn new(worker: u16) -> WorkerCounts {
        WorkerCounts {
            worker,
            own: Counts::default(),
            others: HashMap::new(),
            nodes: Nodes::default(),
            pending_changes: None,
            changed_apps: HashSet::new(),
            changed_channels: HashSet::new(),
            changed_users: HashSet::new(),
            touched_users: HashSet::new(),
            touched: None,
        }
    }

    /// Starts to record changed channels for [`WorkerCounts::take_touched`].
    pub fn observe(&mut self) {
        self.touched = Some(HashSet::new());
    }

    /// Starts to record changes on this server for [`WorkerCounts::take_pending_changes`].
    pub fn speak(&mut self) {
        self.pending_changes = Some(PendingChanges::default());
    }

    /// Returns and clears the changes on this server since the last call.
    pub fn take_pending_changes(&mut self) -> PendingChanges {
        self.pending_changes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns true if [`WorkerCounts::take_pending_changes`] would return a change.
    pub fn has_pending_changes(&self) -> bool {
        self.pending_changes
            .as_ref()
            .is_some_and(|pending_changes| !pending_changes.is_empty())
    }

    /// Returns the counts of the other servers.
    pub fn nodes(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    /// Marks channels and users as possibly changed.
    pub fn touch_all(&mut self, touched: ChangedNames) {
        for ring_name in &touched.channels {
            self.touch(ring_name);
        }
        self.touched_users.extend(touched.users);
    }

    /// Marks all channels as possibly changed.
    pub fn touch_channels(&mut self) {
        let all = self.all().flat_map(|it| it.channels.keys());
        let channels: Vec<String> = all.cloned().collect();
        for ring_name in &channels {
            self.touch(ring_name);
        }
    }

    /// Returns true if [`WorkerCounts::take_touched`] or [`WorkerCounts::take_touched_users`] would return a name.
    pub fn is_touched(&self) -> bool {
        let touched = self.touched.as_ref();
        touched.is_some_and(|it| !it.is_empty()) || !self.touched_users.is_empty()
    }

    /// Returns the ring names of channels whose subscriptions may have changed since the last call.
    pub fn take_touched(&mut self) -> HashSet<String> {
        self.touched
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns the message that a worker sends when it starts.
    pub fn hello(&self) -> WorkerMessage {
        WorkerMessage::Hello {
            worker: self.worker,
        }
    }

    /// Counts a new connection of this worker.
    pub fn connect(&mut self, app: &str) {
        add(&mut self.own.connections, app);
        self.note_app(app);
    }

    /// Counts a closed connection of this worker.
    pub fn disconnect(&mut self, app: &str) {
        remove(&mut self.own.connections, app);
        self.note_app(app);
    }

    /// Counts a new subscription of this worker.
    pub fn subscribe(&mut self, ring_name: &str) {
        add(&mut self.own.channels, ring_name);
        self.touch(ring_name);
        if let Some(pending_changes) = &mut self.pending_changes {
            note(&mut pending_changes.channels, ring_name);
        }
        note(&mut self.changed_channels, ring_name);
    }

    /// Counts a subscription of this worker that ended.
    pub fn unsubscribe(&mut self, ring_name: &str) {
        remove(&mut self.own.channels, ring_name);
        self.touch(ring_name);
        if let Some(pending_changes) = &mut self.pending_changes {
            note(&mut pending_changes.channels, ring_name);
        }
        note(&mut self.changed_channels, ring_name);
    }

    /// Counts a connection of this worker on which a user has signed in.
    pub fn sign_in(&mut self, user_name: &str) {
        add(&mut self.own.users, user_name);
        if let Some(pending_changes) = &mut self.pending_changes {
            pending_changes.users.insert(user_name.to_owned());
        }
        self.changed_users.insert(user_name.to_owned());
        self.touched_users.insert(user_name.to_owned());
    }

    /// Counts a closed connection on which a user had signed in.
    pub fn sign_out(&mut self, user_name: &str) {
        remove(&mut self.own.users, user_name);
        if let Some(pending_changes) = &mut self.pending_changes {
            pending_changes.users.insert(user_name.to_owned());
        }
        self.changed_users.insert(user_name.to_owned());
        self.touched_users.insert(user_name.to_owned());
    }

    /// Returns true if a user is signed in on any worker or server.
    pub fn is_online(&self, user_name: &str) -> bool {
        self.all().any(|it| it.users.contains_key(user_name))
    }

    /// Returns the users who may have come online or gone offline since the last call.
    pub fn take_touched_users(&mut self) -> HashSet<String> {
        std::mem::take(&mut self.touched_users)
    }

    /// Handles a message of another worker. If the worker has just started, all counts are sent to it again.
    pub fn on_message(&mut self, worker_message: WorkerMessage) {
        match worker_message {
            WorkerMessage::Hello { worker } => {
                let ended = self.others.remove(&worker);
                if let Some(counts) = ended {
                    if let Some(pending_changes) = &mut self.pending_changes {
                        pending_changes
                            .connections
                            .extend(counts.connections.into_keys());
                        pending_changes
                            .channels
                            .extend(counts.channels.keys().cloned());
                        pending_changes.users.extend(counts.users.keys().cloned());
                    }
                    for ring_name in counts.channels.keys() {
                        touch(&mut self.touched, ring_name);
                    }
                    self.touched_users.extend(counts.users.into_keys());
                }
                // Add all names to the changed names, which may already contain names whose count has become zero.
                let apps = self.own.connections.keys().cloned();
                self.changed_apps.extend(apps);
                let channels = self.own.channels.keys().cloned();
                self.changed_channels.extend(channels);
                let users = self.own.users.keys().cloned();
                self.changed_users.extend(users);
            }
            WorkerMessage::Counts {
                worker,
                connections,
                channels,
                users,
            } => {
                let names = users.iter().map(|(user_name, _)| user_name.clone());
                self.touched_users.extend(names);
                if let Some(pending_changes) = &mut self.pending_changes {
                    for (names, list) in [
                        (&mut pending_changes.connections, &connections),
                        (&mut pending_changes.channels, &channels),
                        (&mut pending_changes.users, &users),
                    ] {
                        names.extend(list.iter().map(|(name, _)| name.clone()));
                    }
                }
                for (ring_name, _) in &channels {
                    self.touch(ring_name);
                }
                let counts = self.others.entry(worker).or_default();
                counts.set(connections, channels, users);
            }
            WorkerMessage::CacheMiss { .. }
            | WorkerMessage::Terminate { .. }
            | WorkerMessage::Node { .. }
            | WorkerMessage::Ask { .. }
            | WorkerMessage::Webhook { .. } => {}
        }
    }

    /// Returns true if there are changes to send to the other workers.
    pub fn has_changed(&self) -> bool {
        !self.changed_apps.is_empty()
            || !self.changed_channels.is_empty()
            || !self.changed_users.is_empty()
    }

    /// Returns the next message with changes; `None` if all changes were sent.
    pub fn next_message(&mut self) -> Option<WorkerMessage> {
        if !self.has_changed() {
            return None;
        }
        Some(WorkerMessage::Counts {
            worker: self.worker,
            connections: take_part(&mut self.changed_apps, &self.own.connections),
            channels: take_part(&mut self.changed_channels, &self.own.channels),
            users: take_part(&mut self.changed_users, &self.own.users),
        })
    }

    /// Stores a message again that could not be sent, for another attempt.
    pub fn put_back(&mut self, worker_message: WorkerMessage) {
        if let WorkerMessage::Counts {
            connections,
            channels,
            users,
            ..
        } = worker_message
        {
            self.changed_users
                .extend(users.into_iter().map(|(user, _)| user));
            self.changed_apps
                .extend(connections.into_iter().map(|(app, _)| app));
            self.changed_channels
                .extend(channels.into_iter().map(|(channel, _)| channel));
        }
    }

    /// Returns the number of connections of an application.
    pub fn connections(&self, app: &str) -> u64 {
        self.all().map(|it| count(&it.connections, app)).sum()
    }

    /// Returns the number of subscriptions of a channel.
    pub fn subscriptions(&self, ring_name: &str) -> u64 {
        self.all().map(|it| count(&it.channels, ring_name)).sum()
    }

    /// Returns the channels with subscriptions whose ring names start with `prefix`, sorted.
    pub fn channels(&self, prefix: &str) -> Vec<(String, u64)> {
        let mut totals: HashMap<&str, u64> = HashMap::new();
        for counts in self.all() {
            for (channel, count) in &counts.channels {
                if channel.starts_with(prefix) {
                    *totals.entry(channel).or_default() += count;
                }
            }
        }
        let mut channels: Vec<(String, u64)> = totals
            .into_iter()
            .map(|(channel, count)| (channel.to_owned(), count))
            .collect();
        channels.sort();
        channels
    }

    fn touch(&mut self, ring_name: &str) {
        touch(&mut self.touched, ring_name);
    }

    fn note_app(&mut self, app: &str) {
        if let Some(pending_changes) = &mut self.pending_changes {
            note(&mut pending_changes.connections, app);
        }
        note(&mut self.changed_apps, app);
    }

    /// Returns the counts of each of this server's workers.
    fn workers(&self) -> impl Iterator<Item = &Counts> {
        std::iter::once(&self.own).chain(self.others.values())
    }

    fn all(&self) -> impl Iterator<Item = &Counts> {
        self.workers().chain(self.nodes.counts())
    }
}

/// Provides sums over this server's workers.
impl Has for WorkerCounts {
    fn names(&self) -> PendingChanges {
        let mut names = PendingChanges::default();
        for counts in self.workers() {
            names.connections.extend(counts.connections.keys().cloned());
            names.channels.extend(counts.channels.keys().cloned());
            names.users.extend(counts.users.keys().cloned());
        }
        names
    }

    fn connections(&self, app: &str) -> u64 {
        self.workers().map(|it| count(&it.connections, app)).sum()
    }

    fn subscriptions(&self, channel: &str) -> u64 {
        self.workers().map(|it| count(&it.channels, channel)).sum()
    }

    fn signed_in(&self, user: &str) -> u64 {
        self.workers().map(|it| count(&it.users, user)).sum()
    }
}

fn touch(touched: &mut Option<HashSet<String>>, ring_name: &str) {
    if let Some(touched) = touched {
        note(touched, ring_name);
    }
}

/// Removes up to [`NAMES_PER_MESSAGE`] changed names and returns them with their current counts.
fn take_part(changed: &mut HashSet<String>, counts: &HashMap<String, u64>) -> Vec<(String, u64)> {
    let part: Vec<String> = changed.iter().take(NAMES_PER_MESSAGE).cloned().collect();
    part.into_iter()
        .map(|name| {
            changed.remove(&name);
            let count = count(counts, &name);
            (name, count)
        })
        .collect()
}

fn count(counts: &HashMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}

/// Copies the name only if it is not in the set: thousands of clients may subscribe to one channel before the next message.
fn note(names: &mut HashSet<String>, name: &str) {
    if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

fn add(counts: &mut HashMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.to_owned(), 1);
        }
    }
}

fn remove(counts: &mut HashMap<String, u64>, name: &str) {
    let left = counts.get_mut(name).map(|count| {
        *count -= 1;
        *count
    });
    debug_assert!(left.is_some(), "{name} was counted");
    if left == Some(0) {
        counts.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sends all pending messages of one worker to the others.
    fn send_to_workers(workers: &mut [WorkerCounts], from: usize) {
        while let Some(worker_message) = workers[from].next_message() {
            let text = serde_json::to_vec(&worker_message).expect("JSON");
            for at in (0..workers.len()).filter(|at| *at != from) {
                workers[at].on_message(serde_json::from_slice(&text).expect("a message"));
            }
        }
    }

    /// Servers of different versions exchange these texts.
    #[test]
    fn messages_between_servers_keep_their_names() {
        let node = WorkerMessage::Node {
            announcement: AnnouncementId {
                node: 1,
                began_unix_ms: 2,
                life: 3,
                number: 4,
            },
            node_message: NodeMessage::Alive {},
        };
        let webhook = WorkerMessage::Webhook {
            app: "1".to_owned(),
            at: 0,
            acknowledged: None,
            occupancies: vec![("a".to_owned(), true)],
        };
        let texts = [node, webhook].map(|it| serde_json::to_string(&it).expect("JSON"));
        assert_eq!(
            texts,
            [
                r#"{"Node":{"speaks":{"node":1,"began_unix_ms":2,"life":3,"number":4},"saying":{"Alive":{}}}}"#,
                r#"{"Webhook":{"app":"1","at":0,"told":null,"beliefs":[["a",true]]}}"#,
            ]
        );
    }

    #[test]
    fn bounds_the_names_of_a_message() {
        let mut worker_counts = WorkerCounts::new(0);
        for at in 0..250 {
            worker_counts.subscribe(&format!("{at}"));
        }
        let mut sent = 0;
        while let Some(WorkerMessage::Counts { channels, .. }) = worker_counts.next_message() {
            assert!(channels.len() <= NAMES_PER_MESSAGE);
            sent += channels.len();
        }
        assert_eq!(sent, 250);
    }

    #[test]
    fn resends_counts_that_were_put_back() {
        let mut worker_counts = WorkerCounts::new(0);
        worker_counts.connect("1");
        worker_counts.subscribe("a");
        let worker_message = worker_counts.next_message().expect("a pending change");
        assert!(!worker_counts.has_changed());
        worker_counts.put_back(worker_message);
        assert!(matches!(
            worker_counts.next_message(),
            Some(WorkerMessage::Counts { connections, channels, .. })
                if connections == [("1".to_owned(), 1)] && channels == [("a".to_owned(), 1)]
        ));
    }

    #[test]
    fn records_every_change_for_observers() {
        let mut workers: Vec<WorkerCounts> = (0..2).map(WorkerCounts::new).collect();
        workers[0].observe();
        let take = |worker_counts: &mut WorkerCounts| {
            let mut touched: Vec<String> = worker_counts.take_touched().into_iter().collect();
            touched.sort();
            touched
        };
        workers[0].subscribe("a");
        workers[1].subscribe("b");
        workers[1].sign_in("1:ann");
        send_to_workers(&mut workers, 1);
        assert_eq!(take(&mut workers[0]), ["a", "b"]);
        assert_eq!(workers[0].take_touched_users().len(), 1);
        assert!(workers[0].is_online("1:ann") && !workers[0].is_touched());
        workers[0].unsubscribe("a");
        // The other worker was killed, and its counts are dropped.
        workers[0].on_message(WorkerMessage::Hello { worker: 1 });
        assert!(workers[0].is_touched());
        assert_eq!(take(&mut workers[0]), ["a", "b"]);
        assert_eq!(workers[0].subscriptions("b"), 0);
        assert_eq!(workers[0].take_touched_users().len(), 1);
        assert!(!workers[0].is_online("1:ann"));
        workers[1].take_touched_users();
        workers[1].subscribe("c");
        assert!(!workers[1].is_touched());
    }

    #[test]
    fn hello_preserves_pending_changes() {
        let mut workers: Vec<WorkerCounts> = (0..3).map(WorkerCounts::new).collect();
        workers[0].subscribe("a");
        workers[0].connect("1");
        send_to_workers(&mut workers, 0);
        workers[0].unsubscribe("a");
        workers[0].disconnect("1");
        workers[2] = WorkerCounts::new(2);
        let hello = workers[2].hello();
        workers[0].on_message(hello);
        send_to_workers(&mut workers, 0);
        assert_eq!(workers[1].subscriptions("a"), 0);
        assert_eq!(workers[1].connections("1"), 0);
    }

    proptest! {
        /// After any changes and crashes, once all messages are delivered, all workers have the same counts.
        #[test]
        fn all_workers_agree_on_counts(steps in proptest::collection::vec((0usize..3, 0u8..5, 0u8..3), 0..120)) {
            let mut workers: Vec<WorkerCounts> = (0..3).map(WorkerCounts::new).collect();
            let mut model: Vec<HashMap<String, u64>> = vec![HashMap::new(); 3];
            for (at, what, channel) in steps {
                let name = format!("pusher:1:{channel}");
                match what {
                    0 | 1 => {
                        workers[at].subscribe(&name);
                        add(&mut model[at], &name);
                    }
                    2 if count(&model[at], &name) > 0 => {
                        workers[at].unsubscribe(&name);
                        remove(&mut model[at], &name);
                    }
                    3 => send_to_workers(&mut workers, at),
                    4 => {
                        // The worker is killed and replaced.
                        workers[at] = WorkerCounts::new(at as u16);
                        model[at].clear();
                        let hello = serde_json::to_vec(&workers[at].hello()).expect("JSON");
                        for other in (0..3).filter(|other| *other != at) {
                            workers[other].on_message(serde_json::from_slice(&hello).expect("a message"));
                        }
                    }
                    _ => {}
                }
            }
            for at in 0..3 {
                send_to_workers(&mut workers, at);
            }
            for channel in 0..3 {
                let name = format!("pusher:1:{channel}");
                let total: u64 = model.iter().map(|counts| count(counts, &name)).sum();
                for worker in &workers {
                    prop_assert_eq!(worker.subscriptions(&name), total);
                    prop_assert_eq!(worker.channels("pusher:1:").iter().any(|(it, _)| *it == name), total > 0);
                }
            }
        }
    }
}
