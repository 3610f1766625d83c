//! How many connections, subscriptions and signed-in users there are, over all workers.
//!
//! Each worker counts its own and tells the others what has changed, as absolute numbers: a notice that comes twice or late
//! does no harm. A worker that starts says hello: what was counted for the one before it in its place is forgotten, and
//! everybody tells it all they have. What other servers of a cluster have is in [`Nodes`].

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::nodes::{Has, News, Nodes, Saying, Speaks, Touched};

/// Channels, applications and users in one notice, each, which has to fit into one record of the ring.
const NAMES_PER_NOTICE: usize = 100;

/// What workers tell each other.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum Notice {
    /// A worker has started.
    Hello {
        /// Its number.
        worker: u16,
    },
    /// Counts of a worker.
    Counts {
        /// Its number.
        worker: u16,
        /// Connections by application.
        connections: Vec<(String, u64)>,
        /// Subscriptions by the ring's name of their channel.
        channels: Vec<(String, u64)>,
        /// Connections by their signed-in user: see `names::user_name`.
        users: Vec<(String, u64)>,
    },
    /// A subscriber has found a cache channel empty, which the worker that sends webhooks is to know.
    CacheMiss {
        /// The application.
        app: String,
        /// The channel.
        channel: String,
    },
    /// A user's connections are to be ended.
    Terminate {
        /// The application.
        app: String,
        /// The user.
        user: String,
    },
    /// What another server of the cluster says.
    Node {
        /// Which.
        speaks: Speaks,
        /// What.
        saying: Saying,
    },
    /// Another server wants to know everything.
    Ask {
        /// Of which server; `None`: of all.
        of: Option<u64>,
    },
    /// What a backend has been told, of the server that sends webhooks to those that may have to go on.
    Webhook {
        /// The application.
        app: String,
        /// Which of its webhooks.
        at: usize,
        /// The id of the event up to which it has been told.
        told: Option<String>,
        /// Channels that it now believes occupied, or not.
        beliefs: Vec<(String, bool)>,
    },
}

/// What one worker knows.
#[derive(Debug)]
pub struct Census {
    worker: u16,
    own: Counts,
    others: HashMap<u16, Counts>,
    /// The other servers of the cluster.
    nodes: Nodes,
    /// What has changed on this server since the last [`Census::take_news`]; `None`: nobody tells it to others.
    news: Option<News>,
    changed_apps: HashSet<String>,
    changed_channels: HashSet<String>,
    changed_users: HashSet<String>,
    /// Users who may be online or offline since they were asked for.
    touched_users: HashSet<String>,
    /// Channels whose subscriptions may have changed in any worker; `None`: nobody wants to know.
    touched: Option<HashSet<String>>,
}

impl Census {
    pub fn new(worker: u16) -> Census {
        Census {
            worker,
            own: Counts::default(),
            others: HashMap::new(),
            nodes: Nodes::default(),
            news: None,
            changed_apps: HashSet::new(),
            changed_channels: HashSet::new(),
            changed_users: HashSet::new(),
            touched_users: HashSet::new(),
            touched: None,
        }
    }

    /// Remembers from now on which channels have changed: [`Census::take_touched`].
    pub fn observe(&mut self) {
        self.touched = Some(HashSet::new());
    }

    /// Remembers from now on what has changed on this server.
    pub fn speak(&mut self) {
        self.news = Some(News::default());
    }

    /// What has changed on this server since the last call.
    pub fn take_news(&mut self) -> News {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether there is something for [`Census::take_news`].
    pub fn has_news(&self) -> bool {
        self.news.as_ref().is_some_and(|news| !news.is_empty())
    }

    /// The other servers.
    pub fn nodes(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    /// These may have changed.
    pub fn touch_all(&mut self, touched: Touched) {
        for ring_name in &touched.channels {
            self.touch(ring_name);
        }
        self.touched_users.extend(touched.users);
    }

    /// All channels may have changed.
    pub fn touch_channels(&mut self) {
        let all = self.all().flat_map(|it| it.channels.keys());
        let channels: Vec<String> = all.cloned().collect();
        for ring_name in &channels {
            self.touch(ring_name);
        }
    }

    /// Whether [`Census::take_touched`] or [`Census::take_touched_users`] has something.
    pub fn is_touched(&self) -> bool {
        let touched = self.touched.as_ref();
        touched.is_some_and(|it| !it.is_empty()) || !self.touched_users.is_empty()
    }

    /// Channels whose subscriptions may have changed since the last call, by their names on the ring.
    pub fn take_touched(&mut self) -> HashSet<String> {
        self.touched
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// What a worker says when it starts.
    pub fn hello(&self) -> Notice {
        Notice::Hello {
            worker: self.worker,
        }
    }

    /// A connection of this worker has begun.
    pub fn connect(&mut self, app: &str) {
        add(&mut self.own.connections, app);
        self.note_app(app);
    }

    /// It has ended.
    pub fn disconnect(&mut self, app: &str) {
        remove(&mut self.own.connections, app);
        self.note_app(app);
    }

    /// A connection of this worker is subscribed.
    pub fn subscribe(&mut self, ring_name: &str) {
        add(&mut self.own.channels, ring_name);
        self.touch(ring_name);
        if let Some(news) = &mut self.news {
            note(&mut news.channels, ring_name);
        }
        note(&mut self.changed_channels, ring_name);
    }

    /// It is no longer.
    pub fn unsubscribe(&mut self, ring_name: &str) {
        remove(&mut self.own.channels, ring_name);
        self.touch(ring_name);
        if let Some(news) = &mut self.news {
            note(&mut news.channels, ring_name);
        }
        note(&mut self.changed_channels, ring_name);
    }

    /// A user has signed in on a connection of this worker.
    pub fn sign_in(&mut self, user_name: &str) {
        add(&mut self.own.users, user_name);
        if let Some(news) = &mut self.news {
            news.users.insert(user_name.to_owned());
        }
        self.changed_users.insert(user_name.to_owned());
        self.touched_users.insert(user_name.to_owned());
    }

    /// Such a connection has ended.
    pub fn sign_out(&mut self, user_name: &str) {
        remove(&mut self.own.users, user_name);
        if let Some(news) = &mut self.news {
            news.users.insert(user_name.to_owned());
        }
        self.changed_users.insert(user_name.to_owned());
        self.touched_users.insert(user_name.to_owned());
    }

    /// Whether a user is signed in anywhere.
    pub fn is_online(&self, user_name: &str) -> bool {
        self.all().any(|it| it.users.contains_key(user_name))
    }

    /// Users who may have come online or gone offline since the last call.
    pub fn take_touched_users(&mut self) -> HashSet<String> {
        std::mem::take(&mut self.touched_users)
    }

    /// Takes what another worker tells. Everything is told anew to one that has just started.
    pub fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Hello { worker } => {
                let ended = self.others.remove(&worker);
                if let Some(counts) = ended {
                    if let Some(news) = &mut self.news {
                        news.connections.extend(counts.connections.into_keys());
                        news.channels.extend(counts.channels.keys().cloned());
                        news.users.extend(counts.users.keys().cloned());
                    }
                    for ring_name in counts.channels.keys() {
                        touch(&mut self.touched, ring_name);
                    }
                    self.touched_users.extend(counts.users.into_keys());
                }
                // Beside what is to be told anyway: of what has become zero nothing is left to count.
                let apps = self.own.connections.keys().cloned();
                self.changed_apps.extend(apps);
                let channels = self.own.channels.keys().cloned();
                self.changed_channels.extend(channels);
                let users = self.own.users.keys().cloned();
                self.changed_users.extend(users);
            }
            Notice::Counts {
                worker,
                connections,
                channels,
                users,
            } => {
                let names = users.iter().map(|(user_name, _)| user_name.clone());
                self.touched_users.extend(names);
                if let Some(news) = &mut self.news {
                    for (names, list) in [
                        (&mut news.connections, &connections),
                        (&mut news.channels, &channels),
                        (&mut news.users, &users),
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
            Notice::CacheMiss { .. }
            | Notice::Terminate { .. }
            | Notice::Node { .. }
            | Notice::Ask { .. }
            | Notice::Webhook { .. } => {}
        }
    }

    /// Whether the others have something to be told.
    pub fn has_changed(&self) -> bool {
        !self.changed_apps.is_empty()
            || !self.changed_channels.is_empty()
            || !self.changed_users.is_empty()
    }

    /// The next part of what they are to be told; `None`: they know all.
    pub fn next_notice(&mut self) -> Option<Notice> {
        if !self.has_changed() {
            return None;
        }
        Some(Notice::Counts {
            worker: self.worker,
            connections: take_part(&mut self.changed_apps, &self.own.connections),
            channels: take_part(&mut self.changed_channels, &self.own.channels),
            users: take_part(&mut self.changed_users, &self.own.users),
        })
    }

    /// It could not be told, and is to be told later.
    pub fn put_back(&mut self, notice: Notice) {
        if let Notice::Counts {
            connections,
            channels,
            users,
            ..
        } = notice
        {
            self.changed_users
                .extend(users.into_iter().map(|(user, _)| user));
            self.changed_apps
                .extend(connections.into_iter().map(|(app, _)| app));
            self.changed_channels
                .extend(channels.into_iter().map(|(channel, _)| channel));
        }
    }

    /// Connections of an application.
    pub fn connections(&self, app: &str) -> u64 {
        self.all().map(|it| count(&it.connections, app)).sum()
    }

    /// Subscriptions of a channel.
    pub fn subscriptions(&self, ring_name: &str) -> u64 {
        self.all().map(|it| count(&it.channels, ring_name)).sum()
    }

    /// Channels with subscriptions whose names on the ring begin so, in order.
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
        if let Some(news) = &mut self.news {
            note(&mut news.connections, app);
        }
        note(&mut self.changed_apps, app);
    }

    /// Those of this server.
    fn workers(&self) -> impl Iterator<Item = &Counts> {
        std::iter::once(&self.own).chain(self.others.values())
    }

    fn all(&self) -> impl Iterator<Item = &Counts> {
        self.workers().chain(self.nodes.counts())
    }
}

/// What this server's workers have together.
impl Has for Census {
    fn names(&self) -> News {
        let mut names = News::default();
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

/// Some of the names that have changed, with their counts of now.
fn take_part(changed: &mut HashSet<String>, counts: &HashMap<String, u64>) -> Vec<(String, u64)> {
    let part: Vec<String> = changed.iter().take(NAMES_PER_NOTICE).cloned().collect();
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

/// Thousands come to one channel before it is told, and the name is copied for the first of them.
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

    /// Tells everybody what one worker has to tell.
    fn tell(workers: &mut [Census], from: usize) {
        while let Some(notice) = workers[from].next_notice() {
            let text = serde_json::to_vec(&notice).expect("JSON");
            for at in (0..workers.len()).filter(|at| *at != from) {
                workers[at].on_notice(serde_json::from_slice(&text).expect("a notice"));
            }
        }
    }

    #[test]
    fn a_notice_is_bounded() {
        let mut census = Census::new(0);
        for at in 0..250 {
            census.subscribe(&format!("{at}"));
        }
        let mut told = 0;
        while let Some(Notice::Counts { channels, .. }) = census.next_notice() {
            assert!(channels.len() <= NAMES_PER_NOTICE);
            told += channels.len();
        }
        assert_eq!(told, 250);
    }

    #[test]
    fn what_could_not_be_told_is_told_later() {
        let mut census = Census::new(0);
        census.connect("1");
        census.subscribe("a");
        let notice = census.next_notice().expect("something to tell");
        assert!(!census.has_changed());
        census.put_back(notice);
        assert!(matches!(
            census.next_notice(),
            Some(Notice::Counts { connections, channels, .. })
                if connections == [("1".to_owned(), 1)] && channels == [("a".to_owned(), 1)]
        ));
    }

    #[test]
    fn observers_are_told_of_every_change() {
        let mut workers: Vec<Census> = (0..2).map(Census::new).collect();
        workers[0].observe();
        let take = |census: &mut Census| {
            let mut touched: Vec<String> = census.take_touched().into_iter().collect();
            touched.sort();
            touched
        };
        workers[0].subscribe("a");
        workers[1].subscribe("b");
        workers[1].sign_in("1:ann");
        tell(&mut workers, 1);
        assert_eq!(take(&mut workers[0]), ["a", "b"]);
        assert_eq!(workers[0].take_touched_users().len(), 1);
        assert!(workers[0].is_online("1:ann") && !workers[0].is_touched());
        workers[0].unsubscribe("a");
        // The other one is killed, and nothing is left of what it had.
        workers[0].on_notice(Notice::Hello { worker: 1 });
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
    fn a_hello_forgets_nothing_that_is_to_be_told() {
        let mut workers: Vec<Census> = (0..3).map(Census::new).collect();
        workers[0].subscribe("a");
        workers[0].connect("1");
        tell(&mut workers, 0);
        workers[0].unsubscribe("a");
        workers[0].disconnect("1");
        workers[2] = Census::new(2);
        let hello = workers[2].hello();
        workers[0].on_notice(hello);
        tell(&mut workers, 0);
        assert_eq!(workers[1].subscriptions("a"), 0);
        assert_eq!(workers[1].connections("1"), 0);
    }

    proptest! {
        /// Whatever happens in whatever worker, and whichever is killed: once all have told, all know the same.
        #[test]
        fn all_workers_know_the_same(steps in proptest::collection::vec((0usize..3, 0u8..5, 0u8..3), 0..120)) {
            let mut workers: Vec<Census> = (0..3).map(Census::new).collect();
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
                    3 => tell(&mut workers, at),
                    4 => {
                        // It is killed, and another one comes in its place.
                        workers[at] = Census::new(at as u16);
                        model[at].clear();
                        let hello = serde_json::to_vec(&workers[at].hello()).expect("JSON");
                        for other in (0..3).filter(|other| *other != at) {
                            workers[other].on_notice(serde_json::from_slice(&hello).expect("a notice"));
                        }
                    }
                    _ => {}
                }
            }
            for at in 0..3 {
                tell(&mut workers, at);
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
