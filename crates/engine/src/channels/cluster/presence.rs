//! Presence of the complete cluster, maintained by the bridge in a table in shared memory with a
//! slot per server. It changes in the order of the log, so all servers report the same joins and
//! leaves at the same positions.
//!
//! Workers count clients in this machine's table, and put a *note* into the outbox when a user's
//! count has changed. The bridge reads the count and publishes it as a [`Fact`]. Counts are
//! absolute, so duplicate and outdated facts are harmless. A periodic comparison of both tables
//! repairs lost facts.
//!
//! A server with members publishes heartbeats. If none arrives for `cluster_lease_ms`, another
//! server publishes that each of its members has left. A server that was wrongly declared dead
//! publishes its members again. A server without the log's past requests the members of all others.
//! Until they have replied, it reports the joins and leaves that their senders observed.

use std::collections::VecDeque;

use fermata_cluster::Place;
use fermata_hub::{Kind, LockError, LogPlace, Owner, Presence, PresenceError, Present, Ring};
use fermata_io::Deadline;

use super::facts::{
    FLAG_ANNOUNCED, FLAG_CHANGES, FLAG_GONE, Fact, NO_CHANNEL, Note, OP_ASK, OP_BEAT, OP_GONE,
    OP_MEMBER, OP_REPEAT, flag, member_note, put_note,
};
use super::state::{Decision, NODES_MAX, State};
use crate::channels::presence::{Change, announcement, check_member};
use crate::misuse::Misuse;

/// Number of table entries examined per turn.
const WALK_ENTRIES: usize = 128;
/// Time in milliseconds without a reply of another server after which the members count as known.
const ANSWERS_QUIET_MS: u64 = 500;
/// Maximum time in milliseconds to wait for replies.
const ANSWERS_MS_MAX: u64 = 5_000;
/// Number of heartbeats within the lease.
const BEATS_PER_LEASE: u64 = 3;
/// Delay in milliseconds before a heartbeat is retried after the outbox was full.
const BEAT_RETRY_MS: u64 = 20;

/// A scan of a table, continued in each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// Users of this machine whose count in the cluster table differs.
    Local(usize),
    /// Users whom only the cluster table counts on this machine.
    Cluster(usize),
    /// All users of this machine, for a server that requested them.
    Answer(usize),
    /// Users of a server that was declared dead: its slot, the index at which to continue, and true
    /// if the scan has found a user.
    Gone(u32, usize, bool),
}

/// A user's entry in the cluster table.
#[derive(Default)]
struct Known {
    connections: u32,
    of_slot: u32,
    is_announced: bool,
    info: Vec<u8>,
}

/// State of the request for members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    NotAsked,
    Sent {
        at_ms: u64,
    },
    /// The log has the request; `quiet_ms` is the time of the last reply.
    Answered {
        at_ms: u64,
        quiet_ms: u64,
    },
}

/// A join or leave to be delivered to clients of this machine.
pub(super) struct LocalEvent {
    pub kind: Kind,
    pub data: Vec<u8>,
}

/// Why a presence record of the log is ignored.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoteError {
    /// Invalid channel or user.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The record was not written by this software.
    #[error("cannot parse a presence record")]
    Unreadable,
    /// The table of users is full.
    #[error(
        "a user is not in members(): members_max ({0}) users of the cluster are present already"
    )]
    Full(usize),
    /// The table has no slot for the server.
    #[error("a user is not in members(): more than {NODES_MAX} servers have members")]
    Nodes,
    /// The table is unavailable.
    #[error("who is present: {0}")]
    Table(PresenceError),
}

/// The bridge's presence state; see the module.
pub(super) struct Members {
    /// Presence tables of the cluster and of this machine.
    table: Ring,
    local: Ring,
    outbox: Ring,
    state: State,
    owner: Owner,
    node: u64,
    lease_ms: u64,
    question: Question,
    walks: VecDeque<Walk>,
    /// True if the current scan of this machine's table has found a user.
    is_compared: bool,
    /// True if this machine had users at the last complete scan, or has had one since. Only then
    /// does it send heartbeats.
    has_members: bool,
    /// Time of the next comparison of both tables.
    compare: Deadline,
    /// Time of the next heartbeat and check of other servers.
    beat: Deadline,
    /// Time of the last turn.
    turn_ms: u64,
    /// Buffer of the last encoded fact; reused.
    out: Vec<u8>,
}

/// Shared memory that presence is kept in.
pub(super) struct Rings {
    /// Presence of the cluster.
    pub table: Ring,
    /// Presence of this machine.
    pub local: Ring,
    pub outbox: Ring,
}

impl Members {
    pub fn new(
        rings: Rings,
        state: State,
        owner: Owner,
        node: u64,
        lease_ms: u64,
        now_ms: u64,
    ) -> Members {
        let mut members = Members {
            table: rings.table,
            local: rings.local,
            outbox: rings.outbox,
            state,
            owner,
            node,
            lease_ms,
            question: Question::NotAsked,
            walks: VecDeque::new(),
            is_compared: false,
            has_members: true,
            compare: Deadline::at(now_ms),
            beat: Deadline::at(now_ms),
            turn_ms: now_ms,
            out: Vec::new(),
        };
        // Complete the removal of users that a killed bridge has started.
        let _ = members.table.sweep(&members.owner, 0, &mut |_, _, _, _| {});
        members.state.hear_all(now_ms);
        members
    }

    /// Drops the presence of the cluster, because this machine starts to read the log again at
    /// another position.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn begin(&mut self) -> Result<(), LockError> {
        self.state.forget_presence();
        self.question = Question::NotAsked;
        self.walks.clear();
        self.table.clear_present(&self.owner)
    }

    /// Handles a new connection to the log: compares the tables and sends a heartbeat immediately.
    pub fn on_ready(&mut self, now_ms: u64) {
        self.state.hear_all(now_ms);
        self.compare = Deadline::at(now_ms);
        self.beat = Deadline::at(now_ms);
        if !self.state.is_presence_known() {
            self.question = Question::NotAsked;
        }
    }

    /// Returns the time by which [`Members::turn`] has to be called.
    pub fn due(&self, now_ms: u64) -> Deadline {
        if !self.state.is_ready(now_ms) {
            return Deadline::NEVER;
        }
        let is_used = self.state.is_presence_used();
        if is_used && (!self.walks.is_empty() || self.state.is_compare_wanted()) {
            return Deadline::at(now_ms + 1);
        }
        let question = match self.question {
            _ if self.state.is_presence_known() => Deadline::NEVER,
            // The outbox had no room for the request.
            Question::NotAsked => Deadline::at(now_ms + 1),
            Question::Sent { at_ms } => Deadline::after(at_ms, ANSWERS_MS_MAX),
            Question::Answered { at_ms, quiet_ms } => {
                let until = Deadline::after(at_ms, ANSWERS_MS_MAX);
                until.min(Deadline::after(quiet_ms, ANSWERS_QUIET_MS))
            }
        };
        if is_used {
            question.min(self.compare).min(self.beat)
        } else {
            question
        }
    }

    /// Runs due work, and puts notes into the outbox.
    pub fn turn(&mut self, now_ms: u64) {
        let stood_still = has_stood_still(now_ms.saturating_sub(self.turn_ms), self.lease_ms);
        self.turn_ms = now_ms;
        if !self.state.is_ready(now_ms) {
            return;
        }
        if stood_still {
            // The bridge has not yet read heartbeats that arrived while it was suspended.
            self.state.hear_all(now_ms);
        }
        self.ask(now_ms);
        if !self.state.is_presence_used() {
            return;
        }
        if self.beat.is_due(now_ms) {
            self.beat = Deadline::after(now_ms, self.lease_ms / BEATS_PER_LEASE);
            // If the outbox is full, retry soon, because other servers expect the heartbeat.
            if self.has_members && !self.note(NO_CHANNEL, &[OP_BEAT]) {
                self.beat = Deadline::after(now_ms, BEAT_RETRY_MS);
            }
            self.look_at_others(now_ms);
        }
        let is_wanted = self.state.take_compare_wanted();
        if self.compare.is_due(now_ms) || is_wanted {
            self.compare = Deadline::after(now_ms, self.lease_ms);
            if !self
                .walks
                .iter()
                .any(|walk| matches!(walk, Walk::Local(_) | Walk::Cluster(_)))
            {
                self.walks.push_back(Walk::Local(0));
            }
        }
        if let Some(walk) = self.walks.pop_front() {
            // Scans take turns. A scan for which the outbox has no room continues at the same entry
            // later.
            if let Some(next) = self.step(walk) {
                self.walks.push_back(next);
            }
        }
    }

    /// Requests the members of other servers if they are unknown.
    fn ask(&mut self, now_ms: u64) {
        if self.state.is_presence_known() {
            return;
        }
        match self.question {
            Question::NotAsked => self.begin_question(now_ms),
            // The request did not come back from the log: send it again.
            Question::Sent { at_ms } if at_ms + ANSWERS_MS_MAX <= now_ms => {
                self.question = Question::NotAsked;
            }
            Question::Answered { at_ms, quiet_ms }
                if quiet_ms + ANSWERS_QUIET_MS <= now_ms || at_ms + ANSWERS_MS_MAX <= now_ms =>
            {
                self.state.set_presence_known();
            }
            _ => {}
        }
    }

    fn begin_question(&mut self, now_ms: u64) {
        if self.note(NO_CHANNEL, &[OP_ASK]) {
            self.question = Question::Sent { at_ms: now_ms };
        }
    }

    /// Declares silent servers dead. The server with the lowest number publishes the declaration
    /// immediately, the other servers one lease later.
    fn look_at_others(&mut self, now_ms: u64) {
        let silent_ms = |heard_ms: u64| now_ms.saturating_sub(heard_ms);
        let nodes: Vec<(u32, u64, u64)> = self.state.nodes().collect();
        let is_first = !nodes
            .iter()
            .any(|&(_, node, heard_ms)| node < self.node && silent_ms(heard_ms) < self.lease_ms);
        let patience_ms = if is_first {
            self.lease_ms
        } else {
            2 * self.lease_ms
        };
        for (slot, node, heard_ms) in nodes {
            let is_walked = self
                .walks
                .iter()
                .any(|walk| matches!(walk, Walk::Gone(is, ..) if *is == slot));
            if node != self.node && silent_ms(heard_ms) >= patience_ms && !is_walked {
                self.walks.push_back(Walk::Gone(slot, 0, false));
            }
        }
    }

    /// Runs a part of a scan. Returns the scan to continue, if it is not complete.
    fn step(&mut self, walk: Walk) -> Option<Walk> {
        let own = self.state.slot_of(self.node).unwrap_or(NODES_MAX);
        let mut notes: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let (from, slot) = match walk {
            Walk::Local(from) | Walk::Answer(from) => (from, NODES_MAX),
            Walk::Cluster(from) => (from, own),
            Walk::Gone(slot, from, _) => (from, slot),
        };
        let mut found: Vec<(Vec<u8>, Vec<u8>, u32, u32)> = Vec::new();
        let mut each = |it: &Present<'_>| {
            found.push((
                it.channel.to_vec(),
                it.user.to_vec(),
                it.connections,
                it.of_slot,
            ));
        };
        let is_local = matches!(walk, Walk::Local(_) | Walk::Answer(_));
        let table = if is_local {
            &mut self.local
        } else {
            &mut self.table
        };
        let next = table
            .present_from(&self.owner, from, WALK_ENTRIES, slot, &mut each)
            // The lock is unavailable: scan the same entries in a later turn.
            .unwrap_or(Some(from));
        let node = self.state.node_of(slot);
        for (channel, user, connections, of_slot) in found {
            let data = match walk {
                Walk::Local(_) => {
                    self.is_compared |= true;
                    let known = self.known(&channel, &user, own);
                    // A user who is leaving counts until the leave is final.
                    (connections > 0 && known.of_slot != connections).then(|| member_note(&user))
                }
                Walk::Cluster(_) => {
                    (of_slot > 0 && !self.is_local(&channel, &user)).then(|| member_note(&user))
                }
                Walk::Answer(_) => Some([&[OP_REPEAT], &user[..]].concat()),
                Walk::Gone(..) => node
                    .filter(|_| of_slot > 0)
                    .map(|node| [&[OP_GONE], &node.to_le_bytes()[..], &user].concat()),
            };
            notes.extend(data.map(|data| (channel, data)));
        }
        let has_notes = !notes.is_empty();
        for (channel, data) in notes {
            if !self.note(&channel, &data) {
                return Some(walk);
            }
        }
        match (walk, next) {
            (Walk::Local(_), Some(next)) => Some(Walk::Local(next)),
            (Walk::Local(_), None) => {
                self.has_members = std::mem::take(&mut self.is_compared);
                Some(Walk::Cluster(0))
            }
            (Walk::Cluster(_), next) => next.map(Walk::Cluster),
            (Walk::Answer(_), next) => next.map(Walk::Answer),
            (Walk::Gone(slot, _, had), Some(next)) => {
                Some(Walk::Gone(slot, next, had || has_notes))
            }
            (Walk::Gone(slot, _, had), None) => {
                // The next check repeats the scan until no member is left. A server that sends
                // again may have members in entries that the scan has passed.
                let is_left = had || has_notes || node.is_some_and(|node| !self.is_silent(node));
                if !is_left {
                    self.state.forget_node(slot);
                }
                None
            }
        }
    }

    /// Returns true if a server has been silent for a lease.
    fn is_silent(&self, node: u64) -> bool {
        let mut nodes = self.state.nodes();
        nodes.any(|(_, is, heard_ms)| {
            is == node && self.turn_ms.saturating_sub(heard_ms) >= self.lease_ms
        })
    }

    fn known(&mut self, channel: &[u8], user: &[u8], slot: u32) -> Known {
        let mut known = Known::default();
        let _ = self
            .table
            .present(&self.owner, (channel, user), slot, &mut |it| {
                known = Known {
                    connections: it.connections,
                    of_slot: it.of_slot,
                    is_announced: it.is_announced,
                    info: it.info.to_vec(),
                };
            });
        known
    }

    fn is_local(&mut self, channel: &[u8], user: &[u8]) -> bool {
        let mut is_there = false;
        let _ = self
            .local
            .present(&self.owner, (channel, user), NODES_MAX, &mut |_| {
                is_there = true
            });
        is_there
    }

    /// Puts a note into the outbox. Returns false if it is full.
    fn note(&mut self, channel: &[u8], data: &[u8]) -> bool {
        put_note(&mut self.outbox, &self.owner, &Note { channel, data }, None)
    }

    /// Returns the fact to publish for a note; `None` if it is obsolete.
    pub fn fact_of(&mut self, note: &Note<'_>) -> Option<&[u8]> {
        let (&op, rest) = note.data.split_first()?;
        let info;
        let fact = match op {
            OP_BEAT | OP_ASK => Fact {
                op,
                node: self.node,
                connections: 0,
                flags: 0,
                user: b"",
                info: b"",
            },
            OP_GONE => {
                let (node, user) = rest.split_at_checked(8)?;
                let node = u64::from_le_bytes(node.try_into().ok()?);
                let slot = self.state.slot_of(node)?;
                let known = self.known(note.channel, user, slot);
                // Another server has already published the fact, or the silent server has sent a
                // message since.
                if known.of_slot == 0 || !self.is_silent(node) {
                    return None;
                }
                let changes = known.connections == known.of_slot && known.is_announced;
                info = known.info;
                let flags = FLAG_GONE | flag(FLAG_CHANGES, changes);
                let (op, connections, info) = (OP_MEMBER, 0, &info[..]);
                Fact {
                    op,
                    node,
                    connections,
                    flags,
                    user,
                    info,
                }
            }
            OP_MEMBER | OP_REPEAT => {
                let user = rest;
                let slot = self.state.slot_of(self.node).unwrap_or(NODES_MAX);
                let known = self.known(note.channel, user, slot);
                let mut local = None;
                let _ =
                    self.local
                        .present(&self.owner, (note.channel, user), NODES_MAX, &mut |it| {
                            local = Some((it.connections, it.is_announced, it.info.to_vec()));
                        });
                let (connections, is_announced) = match local {
                    // The user is leaving: do not change the count.
                    Some((0, ..)) if known.of_slot == 0 || op == OP_MEMBER => return None,
                    Some((0, is_announced, its)) => {
                        info = its;
                        (known.of_slot, is_announced)
                    }
                    Some((connections, is_announced, its)) => {
                        info = its;
                        (connections, is_announced)
                    }
                    None if op == OP_REPEAT => return None,
                    None => {
                        info = known.info;
                        (0, known.is_announced)
                    }
                };
                let others = known.connections - known.of_slot.min(known.connections);
                let changes = op == OP_MEMBER
                    && is_announced
                    && others == 0
                    && (known.of_slot == 0) != (connections == 0);
                let flags = flag(FLAG_ANNOUNCED, is_announced) | flag(FLAG_CHANGES, changes);
                let (node, info) = (self.node, &info[..]);
                Fact {
                    op,
                    node,
                    connections,
                    flags,
                    user,
                    info,
                }
            }
            _ => return None,
        };
        fact.write(&mut self.out);
        Some(&self.out)
    }

    /// Applies a record of the log. Returns the event for clients of this machine.
    pub fn take(
        &mut self,
        place: Place,
        channel: &[u8],
        data: &[u8],
        now_ms: u64,
    ) -> Result<Option<LocalEvent>, NoteError> {
        let Some(fact) = Fact::read(data) else {
            return Err(NoteError::Unreadable);
        };
        let place = LogPlace {
            epoch: place.epoch,
            seq: place.seq,
        };
        if self.state.is_applied(place) {
            return Ok(None);
        }
        if fact.op != OP_ASK {
            self.state.use_presence();
        }
        // A fact with FLAG_GONE was published by another server, so `fact.node` is still silent.
        if fact.flags & FLAG_GONE == 0 && fact.op != OP_ASK {
            self.state.hear(fact.node, now_ms);
        }
        match fact.op {
            OP_ASK => {
                if fact.node == self.node && matches!(self.question, Question::Sent { .. }) {
                    let (at_ms, quiet_ms) = (now_ms, now_ms);
                    self.question = Question::Answered { at_ms, quiet_ms };
                }
                // Restart the scan: the current scan may have passed entries that changed
                // afterwards.
                self.walks.retain(|walk| !matches!(walk, Walk::Answer(_)));
                if self.state.is_presence_used() {
                    self.walks.push_back(Walk::Answer(0));
                }
            }
            OP_MEMBER | OP_REPEAT => return self.take_member(place, channel, &fact, now_ms),
            _ => {}
        }
        self.state.set_applied(place);
        Ok(None)
    }

    fn take_member(
        &mut self,
        place: LogPlace,
        channel: &[u8],
        fact: &Fact<'_>,
        now_ms: u64,
    ) -> Result<Option<LocalEvent>, NoteError> {
        check_member(Some(fact.user), Some(fact.info))?;
        if let Question::Answered { quiet_ms, .. } = &mut self.question
            && fact.op == OP_REPEAT
        {
            *quiet_ms = now_ms;
        }
        let is_own = fact.node == self.node;
        self.has_members |= is_own && fact.connections > 0;
        if is_own && fact.flags & FLAG_GONE != 0 {
            // Another server has declared this server dead and removes its users. The comparison
            // publishes them again.
            self.state.want_compare();
        }
        let slot = match fact.connections {
            0 => self.state.slot_of(fact.node),
            _ => self.state.claim_slot(fact.node, now_ms),
        };
        let known = self.known(channel, fact.user, slot.unwrap_or(NODES_MAX));
        let is_announced = fact.flags & FLAG_ANNOUNCED != 0;
        let decision = self.state.decision(place).unwrap_or_else(|| {
            let others = known.connections - known.of_slot.min(known.connections);
            let changes = if self.state.is_presence_known() {
                slot.is_some() && others == 0 && (known.of_slot == 0) != (fact.connections == 0)
            } else {
                fact.flags & FLAG_CHANGES != 0
            };
            let has_other_info = self.state.is_presence_known()
                && slot.is_some()
                && known.connections > 0
                && known.info != fact.info;
            match fact.connections {
                _ if fact.op == OP_REPEAT => Decision::Nothing,
                1.. if has_other_info && is_announced && !changes => Decision::Change,
                _ if !changes => Decision::Nothing,
                0 if known.is_announced || !self.state.is_presence_known() => Decision::Leave,
                1.. if is_announced => Decision::Join,
                _ => Decision::Nothing,
            }
        });
        // If the bridge is killed between these steps, its replacement makes the same decision
        // again.
        self.state.decide(place, decision);
        if let Some(slot) = slot {
            let presence = Presence {
                channel,
                user: fact.user,
                info: fact.info,
                source: b"",
                announce: is_announced.then_some(b""),
                announce_changed: None,
            };
            match self
                .table
                .set_present(&self.owner, slot, &presence, fact.connections)
            {
                Ok(()) => {}
                Err(PresenceError::Full { .. }) => {
                    return Err(NoteError::Full(self.table.members_max()));
                }
                Err(error) => return Err(NoteError::Table(error)),
            }
        } else if fact.connections > 0 {
            return Err(NoteError::Nodes);
        }
        let kind = match decision {
            Decision::Join | Decision::Change => Kind::Join,
            Decision::Leave => Kind::Leave,
            Decision::Nothing => {
                self.state.set_applied(place);
                return Ok(None);
            }
        };
        let change = match decision {
            Decision::Change => Change::Info,
            Decision::Join | Decision::Leave | Decision::Nothing => Change::Presence,
        };
        let info = if known.info.is_empty() || kind == Kind::Join {
            fact.info
        } else {
            &known.info
        };
        Ok(Some(LocalEvent {
            kind,
            data: announcement(fact.user, Some(info), change),
        }))
    }

    /// Notes that the result of [`Members::take`] was delivered.
    pub fn set_applied(&self, place: Place) {
        self.state.set_applied(LogPlace {
            epoch: place.epoch,
            seq: place.seq,
        });
    }
}

/// Returns true if this process was suspended for so long that it may have missed the heartbeats of
/// other servers. The limit is half the lease: turns are at most a third of the lease apart unless
/// they are late, and the last message read before the suspension may be as old.
fn has_stood_still(since_turn_ms: u64, lease_ms: u64) -> bool {
    since_turn_ms >= lease_ms / 2
}

#[cfg(test)]
mod tests {
    use fermata_config::Settings;

    use super::super::memory::Cluster;
    use super::*;
    use crate::channels::{memory, test_ring};

    const LEASE_MS: u64 = 6_000;
    const USERS: usize = 3 * WALK_ENTRIES;

    /// Creates the state of a bridge on a server without members, and two other servers. Server
    /// `DEAD` has `users_of_dead` users; the other server has more users than one turn scans.
    fn members(users_of_dead: usize) -> Members {
        let settings = Settings {
            cluster: Some("nats://127.0.0.1:1".to_owned()),
            ..Settings::default()
        };
        let owner = memory::owner(0);
        let ring = test_ring::ring(&test_ring::CONFIG);
        let cluster = Cluster::open(&settings, 2, owner, (None, None))
            .expect("there is memory")
            .expect("a cluster is set");
        let rings = Rings {
            table: cluster.members,
            local: ring,
            outbox: cluster.ring,
        };
        let (state, node) = (cluster.state, cluster.node);
        let mut members = Members::new(rings, state, owner, node, LEASE_MS, 0);
        state.set_ready();
        state.use_presence();
        state.set_presence_known();
        for (node, count) in [(LIVES, USERS), (DEAD, users_of_dead)] {
            let slot = state.claim_slot(node, 0).expect("there are slots");
            for user in 0..count {
                let user = user.to_string();
                let presence = Presence {
                    channel: b"c",
                    user: user.as_bytes(),
                    info: b"",
                    source: b"",
                    announce: None,
                    announce_changed: None,
                };
                let outcome = members.table.set_present(&owner, slot, &presence, 1);
                outcome.expect("there is room");
            }
        }
        members
    }

    const LIVES: u64 = 1;
    const DEAD: u64 = 2;

    /// Advances time while one server sends heartbeats.
    fn pass(members: &mut Members, from_ms: u64, to_ms: u64) {
        for now_ms in (from_ms..to_ms).step_by(10) {
            members.state.beat(now_ms);
            members.state.hear(LIVES, now_ms);
            members.turn(now_ms);
        }
    }

    #[test]
    fn frees_the_slot_of_a_dead_server_with_many_users() {
        let mut members = members(0);
        pass(&mut members, 0, LEASE_MS);
        assert!(members.state.slot_of(DEAD).is_some());
        pass(&mut members, LEASE_MS, 4 * LEASE_MS);
        assert_eq!(members.state.slot_of(DEAD), None);
        assert!(members.state.slot_of(LIVES).is_some());
    }

    #[test]
    fn keeps_the_slot_of_a_dead_server_while_it_has_users() {
        let mut members = members(2);
        pass(&mut members, 0, 4 * LEASE_MS);
        assert!(members.state.slot_of(DEAD).is_some());
    }

    #[test]
    fn keeps_users_of_a_server_heard_again() {
        let mut members = members(2);
        pass(&mut members, 0, 2 * LEASE_MS);
        let data = [&[OP_GONE][..], &DEAD.to_le_bytes(), b"1"].concat();
        let note = Note {
            channel: b"c",
            data: &data,
        };
        assert!(members.fact_of(&note).is_some());
        members.state.hear(DEAD, 2 * LEASE_MS);
        assert!(members.fact_of(&note).is_none());
    }

    /// A server with only heartbeats once mistook each turn one millisecond late for a suspension.
    /// It reset the silence of dead servers each time, and their members stayed.
    #[test]
    fn detects_a_suspension_only_after_half_a_lease() {
        for lease_ms in [1_000, 6_000, 10_000, 3_600_000] {
            let beat_ms = lease_ms / BEATS_PER_LEASE;
            assert!(!has_stood_still(beat_ms + lease_ms / 7, lease_ms));
            let longest_ms = (0..=lease_ms)
                .rev()
                .find(|ms| !has_stood_still(*ms, lease_ms));
            assert!(longest_ms.expect("no time is none") + beat_ms < lease_ms);
            assert!(has_stood_still(lease_ms, lease_ms));
        }
    }
}
