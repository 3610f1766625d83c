//! What servers of a cluster tell each other of their clients: how many connections, subscriptions and signed-in users each has.
//!
//! The first worker of a server is its [`Speaker`]: it tells what all its workers have together, as absolute numbers, by
//! notices that go through the log and are numbered. Every worker of the other servers keeps what each of them has said
//! ([`Nodes`]). Whoever finds a number missing, or a server that it does not know, asks for everything; then the speaker tells
//! all it has, and what was not named is gone. A server that has said nothing for the lease is forgotten with its clients.
//!
//! Of all servers the one that began first does what is done once in the cluster ([`Speaker::is_first`]).

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::counts::Counts;

/// Connections, channels and users in one notice, each, which has to fit into one record.
const NAMES_PER_NOTICE: usize = 100;
/// Servers that are kept: as many as have members in the engine.
const NODES_MAX: usize = 64;
/// A server that does not answer is asked again.
pub(crate) const ASK_AGAIN_MS: u64 = 2_000;
/// How long the workers of a server have for telling a new speaker of theirs what they count.
const SETTLE_MS: u64 = 500;
/// How often everything is told at most, however many ask.
const WHOLE_MS: u64 = 1_000;
/// After the question to all servers, how long they have for making themselves known.
const KNOWN_MS: u64 = 1_500;
/// Signs of life within a lease.
pub(crate) const LOOKS_PER_LEASE: u64 = 3;

/// A speaker, and the place in what it says.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Speaks {
    /// The server.
    pub node: u64,
    /// When it began: milliseconds since 1970.
    pub began_unix_ms: u64,
    /// When its speaker began, by a clock of that machine: a later one takes the place of one before.
    pub life: u64,
    /// How many notices of counts there were up to this one.
    pub number: u64,
}

/// What it says.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum Saying {
    /// It lives.
    Alive {},
    /// Counts by name, which are as they are in `census::Notice::Counts`.
    Counts {
        /// Connections by application.
        connections: Vec<(String, u64)>,
        /// Subscriptions by channel.
        channels: Vec<(String, u64)>,
        /// Connections by user.
        users: Vec<(String, u64)>,
        /// All that it has begins or ends here.
        whole: Whole,
    },
}

/// Which part of all that a server has is told.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Whole {
    /// The first.
    pub begins: bool,
    /// The last.
    pub ends: bool,
}

/// Names whose counts may have changed.
#[derive(Debug, Default)]
pub struct Touched {
    /// Channels.
    pub channels: Vec<String>,
    /// Users.
    pub users: Vec<String>,
}

impl Touched {
    fn add(&mut self, counts: &Counts) {
        self.channels.extend(counts.channels.keys().cloned());
        self.users.extend(counts.users.keys().cloned());
    }
}

#[derive(Debug)]
struct Node {
    speaks: Speaks,
    heard_ms: u64,
    asked_ms: Option<u64>,
    counts: Counts,
    /// What was told since it has begun to tell everything.
    staging: Option<Counts>,
    is_whole: bool,
}

/// What a worker knows of the other servers.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: HashMap<u64, Node>,
}

impl Nodes {
    /// What each of the others counts.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.nodes.values().map(|node| &node.counts)
    }

    /// Takes what another server says.
    pub fn take(&mut self, speaks: Speaks, saying: Saying, now_ms: u64) -> Touched {
        let mut touched = Touched::default();
        if !self.nodes.contains_key(&speaks.node) && self.nodes.len() >= NODES_MAX {
            return touched;
        }
        let node = self.nodes.entry(speaks.node).or_insert_with(|| Node {
            speaks: Speaks {
                number: 0,
                ..speaks
            },
            heard_ms: now_ms,
            asked_ms: None,
            counts: Counts::default(),
            staging: None,
            is_whole: false,
        });
        if speaks.life < node.speaks.life {
            return touched;
        }
        node.heard_ms = now_ms;
        if speaks.life > node.speaks.life {
            // What the one before has said counts until this one has said everything.
            node.speaks = Speaks {
                number: 0,
                ..speaks
            };
            node.staging = None;
            node.is_whole = false;
        }
        let next = match saying {
            Saying::Alive {} => node.speaks.number,
            Saying::Counts { .. } => node.speaks.number + 1,
        };
        if speaks.number > next {
            node.staging = None;
            node.is_whole = false;
        }
        node.speaks.number = node.speaks.number.max(speaks.number);
        let Saying::Counts {
            connections,
            channels,
            users,
            whole,
        } = saying
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
            touched.add(&node.counts);
            node.counts = staging;
            node.is_whole = true;
            node.asked_ms = None;
        }
        touched
    }

    /// Nothing could be heard until now.
    pub fn hear_all(&mut self, now_ms: u64) {
        for node in self.nodes.values_mut() {
            node.heard_ms = now_ms;
        }
    }

    /// Forgets servers that have said nothing for so long.
    pub fn expire(&mut self, now_ms: u64, lease_ms: u64) -> Touched {
        let mut touched = Touched::default();
        self.nodes.retain(|_, node| {
            let lives = now_ms.saturating_sub(node.heard_ms) < lease_ms;
            if !lives {
                touched.add(&node.counts);
            }
            lives
        });
        touched
    }

    /// Servers that are to be asked for everything, which are noted as asked.
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

    /// Whether everything is known of all that were heard.
    pub fn are_whole(&self) -> bool {
        self.nodes.values().all(|node| node.is_whole)
    }
}

/// What a server has.
pub trait Has {
    /// All names that something is counted of.
    fn names(&self) -> News;
    /// Connections of an application.
    fn connections(&self, app: &str) -> u64;
    /// Subscriptions of a channel.
    fn subscriptions(&self, channel: &str) -> u64;
    /// Connections of a user.
    fn signed_in(&self, user: &str) -> u64;
}

/// Names of this server whose counts have changed and have not been told.
#[derive(Debug, Default)]
pub struct News {
    pub connections: HashSet<String>,
    pub channels: HashSet<String>,
    pub users: HashSet<String>,
}

impl News {
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.channels.is_empty() && self.users.is_empty()
    }

    fn extend(&mut self, other: News) {
        self.connections.extend(other.connections);
        self.channels.extend(other.channels);
        self.users.extend(other.users);
    }

    /// Takes some of the names, with their counts of now.
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
        taken <= NAMES_PER_NOTICE
    });
    let part: Vec<String> = part.take(NAMES_PER_NOTICE).collect();
    part.into_iter()
        .map(|name| {
            let count = count(&name);
            (name, count)
        })
        .collect()
}

/// The first worker of a server, which speaks for all.
#[derive(Debug)]
pub struct Speaker {
    speaks: Speaks,
    began_ms: u64,
    news: News,
    /// Names of all that this server has which are still to be told, while that is being done.
    whole: Option<News>,
    owes_whole: bool,
    whole_ms: Option<u64>,
    asked_all_ms: Option<u64>,
    alive_ms: u64,
}

impl Speaker {
    pub fn new(node: u64, began_unix_ms: u64, life: u64, now_ms: u64) -> Speaker {
        Speaker {
            speaks: Speaks {
                node,
                began_unix_ms,
                life,
                number: 0,
            },
            began_ms: now_ms,
            news: News::default(),
            whole: None,
            owes_whole: true,
            whole_ms: None,
            asked_all_ms: None,
            alive_ms: 0,
        }
    }

    /// These have changed.
    pub fn note(&mut self, news: News) {
        self.news.extend(news);
    }

    /// A node asks for everything.
    pub fn ask(&mut self) {
        self.owes_whole = true;
    }

    /// Whether all servers are to be asked who they are.
    pub fn owes_question(&self) -> bool {
        self.asked_all_ms.is_none()
    }

    /// They were.
    pub fn note_question(&mut self, now_ms: u64) {
        self.asked_all_ms = Some(now_ms);
    }

    /// Whether the other servers have had time to make themselves known, and have.
    pub fn knows_all(&self, nodes: &Nodes, now_ms: u64) -> bool {
        self.asked_all_ms
            .is_some_and(|asked_ms| asked_ms + KNOWN_MS <= now_ms)
            && nodes.are_whole()
    }

    /// Whether this server does what is done once in the cluster.
    pub fn is_first(&self, nodes: &Nodes) -> bool {
        let rank = |speaks: &Speaks| (speaks.began_unix_ms, speaks.node);
        let mut others = nodes.nodes.values().map(|node| rank(&node.speaks));
        others.all(|other| rank(&self.speaks) < other)
    }

    /// When there is something to say if nothing changes.
    pub fn due_ms(&self, now_ms: u64, lease_ms: u64) -> u64 {
        let whole_ms = match (self.whole.is_some(), self.owes_whole) {
            (true, _) => now_ms,
            (false, true) => self.may_begin_ms(),
            (false, false) => u64::MAX,
        };
        let news_ms = match self.may_tell() && !self.news.is_empty() {
            true => now_ms,
            false => u64::MAX,
        };
        let known_ms = self.asked_all_ms.map(|at| at + KNOWN_MS);
        let known_ms = known_ms.filter(|at| *at > now_ms).unwrap_or(u64::MAX);
        let alive_ms = self.alive_ms + lease_ms / LOOKS_PER_LEASE;
        whole_ms.min(news_ms).min(known_ms).min(alive_ms)
    }

    fn may_begin_ms(&self) -> u64 {
        match self.whole_ms {
            Some(at) => at + WHOLE_MS,
            None => self.began_ms + SETTLE_MS,
        }
    }

    /// Before everything was told once, changes mean nothing to anybody.
    fn may_tell(&self) -> bool {
        self.whole_ms.is_some()
    }

    /// What is to be said next; `None`: nothing now. `has` is what this server's workers have together.
    pub fn next(&mut self, has: &impl Has, now_ms: u64, lease_ms: u64) -> Option<(Speaks, Saying)> {
        let begins = self.owes_whole && self.whole.is_none() && self.may_begin_ms() <= now_ms;
        let saying = if begins || self.whole.is_some() {
            let whole = self.whole.get_or_insert_with(|| has.names());
            let [connections, channels, users] = whole.take(has);
            let ends = whole.is_empty();
            if begins {
                (self.owes_whole, self.whole_ms) = (false, Some(now_ms));
            }
            if ends {
                self.whole = None;
            }
            Saying::Counts {
                connections,
                channels,
                users,
                whole: Whole { begins, ends },
            }
        } else if self.may_tell() && !self.news.is_empty() {
            let [connections, channels, users] = self.news.take(has);
            Saying::Counts {
                connections,
                channels,
                users,
                whole: Whole::default(),
            }
        } else if self.alive_ms + lease_ms / LOOKS_PER_LEASE <= now_ms {
            Saying::Alive {}
        } else {
            return None;
        };
        self.alive_ms = now_ms;
        self.speaks.number += u64::from(saying != Saying::Alive {});
        Some((self.speaks, saying))
    }

    /// It could not be said. Everything is told anew later.
    pub fn put_back(&mut self, saying: &Saying) {
        self.alive_ms = 0;
        if let Saying::Counts { .. } = saying {
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
        fn names(&self) -> News {
            News {
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

    fn speaker(node: u64) -> Speaker {
        Speaker::new(node, node, 1, 0)
    }

    fn counts(channels: &[(String, u64)]) -> Counts {
        let mut counts = Counts::default();
        counts.set(Vec::new(), channels.to_vec(), Vec::new());
        counts
    }

    #[test]
    fn a_server_that_says_nothing_is_forgotten_and_one_that_lives_is_not() {
        let (mut nodes, mut speaker) = (Nodes::default(), speaker(1));
        let has = [("a".to_owned(), 2)];
        let (speaks, saying) = speaker
            .next(&counts(&has), SETTLE_MS, LEASE_MS)
            .expect("everything");
        assert_eq!(nodes.take(speaks, saying, SETTLE_MS).channels.len(), 2);
        let mut last_ms = SETTLE_MS;
        for now_ms in (SETTLE_MS..3 * LEASE_MS).step_by(100) {
            if let Some((speaks, saying)) = speaker.next(&counts(&has), now_ms, LEASE_MS) {
                assert_eq!(saying, Saying::Alive {});
                nodes.take(speaks, saying, now_ms);
                last_ms = now_ms;
            }
            assert!(nodes.expire(now_ms, LEASE_MS).channels.is_empty());
        }
        assert!(nodes.unknown(last_ms).is_empty() && nodes.are_whole());
        assert_eq!(nodes.expire(last_ms + LEASE_MS, LEASE_MS).channels, ["a"]);
        assert!(nodes.nodes.is_empty());
    }

    #[test]
    fn the_server_that_began_first_is_the_first() {
        let (mut nodes, mut old) = (Nodes::default(), speaker(1));
        let new = speaker(2);
        assert!(new.is_first(&nodes) && old.is_first(&nodes));
        let (speaks, saying) = old
            .next(&Counts::default(), SETTLE_MS, LEASE_MS)
            .expect("everything");
        nodes.take(speaks, saying, 0);
        assert!(!new.is_first(&nodes));
        nodes.expire(LEASE_MS, LEASE_MS);
        assert!(new.is_first(&nodes));
    }

    #[test]
    fn as_many_servers_are_kept_as_there_may_be() {
        let mut nodes = Nodes::default();
        for node in 0..2 * NODES_MAX as u64 {
            let speaks = speaker(node).speaks;
            nodes.take(speaks, Saying::Alive {}, 0);
        }
        assert_eq!(nodes.nodes.len(), NODES_MAX);
    }

    proptest! {
        /// Whatever changes, whatever is lost on the way and whenever the speaker is killed: once it is asked and nothing is lost
        /// any more, what it has is known.
        #[test]
        fn what_was_lost_is_asked_for(steps in proptest::collection::vec((0u8..8, 0usize..250), 0..200)) {
            let (mut nodes, mut teller) = (Nodes::default(), speaker(1));
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
                        teller.news.channels.insert(name);
                    }
                    3 => {
                        has.remove(&name);
                        teller.news.channels.insert(name);
                    }
                    4 => {
                        // It is lost.
                        teller.next(&all(&has), now_ms, LEASE_MS);
                    }
                    5 => if let Some((_, saying)) = teller.next(&all(&has), now_ms, LEASE_MS) {
                        teller.put_back(&saying);
                    },
                    6 => {
                        life += 1;
                        teller = Speaker::new(1, 1, life, now_ms);
                    }
                    _ => while let Some((speaks, saying)) = teller.next(&all(&has), now_ms, LEASE_MS) {
                        nodes.take(speaks, saying, now_ms);
                    },
                }
            }
            for _ in 0..100 {
                now_ms += 100;
                while let Some((speaks, saying)) = teller.next(&all(&has), now_ms, LEASE_MS) {
                    nodes.take(speaks, saying, now_ms);
                }
                if !nodes.unknown(now_ms).is_empty() {
                    teller.ask();
                }
            }
            prop_assert!(nodes.are_whole());
            let known: HashMap<String, u64> = nodes.counts().flat_map(|it| it.channels.clone()).collect();
            prop_assert_eq!(known, has);
        }
    }
}
