//! Presence of the whole cluster, as the bridge keeps it: a table in shared memory with a slot for each server, changed in
//! the order of the log, so that all servers tell of the same joins and leaves at the same places.
//!
//! Workers count their clients in the table of this machine, as ever, and leave a *note* in the outbox when a user's count has
//! changed. The bridge looks up the count and publishes it ([`Fact`]). Counts are absolute: one that comes twice, or that a later
//! one has overtaken, does no harm, and what was lost is found by comparing both tables from time to time.
//!
//! A server with members shows in the log that it lives. When it has not for `cluster_lease_ms`, another one publishes that each
//! of its members has gone; a server of which that was wrong publishes them again. A server that has seen nothing of the log's
//! past asks all others for their members; until they have answered it tells of the joins and leaves that their senders saw.

use std::collections::VecDeque;

use fermata_cluster::Place;
use fermata_hub::{
    Kind, LockError, LogPlace, Message, Owner, Presence, PresenceError, Present, Ring, Subscriber,
};
use fermata_io::Deadline;

use super::memory::{Decision, MARK_BYTES, MARK_NOTE, NOBODY, NODES_MAX, State};
use crate::channels::presence::{announcement, check_member};
use crate::misuse::Misuse;

/// In the place of a channel's name where a record is about none.
pub(super) const NO_CHANNEL: &[u8] = b"-";
/// Entries of a table that one turn of the loop looks at.
const WALK_ENTRIES: usize = 128;
/// How long other servers are waited for after the last answer, and at most.
const ANSWERS_QUIET_MS: u64 = 500;
const ANSWERS_MS_MAX: u64 = 5_000;
/// How often a server shows that it lives within the lease.
const BEATS_PER_LEASE: u64 = 3;
/// Before it is tried again, when the outbox had no room.
const BEAT_RETRY_MS: u64 = 20;

const OP_MEMBER: u8 = b'm';
const OP_REPEAT: u8 = b'r';
const OP_GONE: u8 = b'g';
const OP_BEAT: u8 = b'b';
const OP_ASK: u8 = b'a';

const FLAG_ANNOUNCED: u8 = 1;
/// Another server says so.
const FLAG_GONE: u8 = 2;
/// The sender has seen that the user comes or goes by this.
const FLAG_CHANGES: u8 = 4;

/// Before the user's name in a fact: what it is, the server, connections, flags, length of the name.
const FACT_BYTES: usize = 15;

/// What a worker or the bridge leaves in the outbox: the bridge looks up what is to be published when its turn comes.
pub(super) struct Note<'a> {
    pub channel: &'a [u8],
    pub data: &'a [u8],
}

/// The note of a worker whose count of a user has changed.
pub(super) fn member_note(user: &[u8]) -> Vec<u8> {
    [&[OP_MEMBER], user].concat()
}

/// How many connections a server has of a user in a channel, as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fact<'a> {
    op: u8,
    node: u64,
    connections: u32,
    flags: u8,
    user: &'a [u8],
    info: &'a [u8],
}

impl<'a> Fact<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(self.op);
        out.extend_from_slice(&self.node.to_le_bytes());
        out.extend_from_slice(&self.connections.to_le_bytes());
        out.push(self.flags);
        out.push(self.user.len() as u8);
        out.extend_from_slice(self.user);
        out.extend_from_slice(self.info);
    }

    fn read(data: &'a [u8]) -> Option<Fact<'a>> {
        let (head, rest) = data.split_at_checked(FACT_BYTES)?;
        let (user, info) = rest.split_at_checked(usize::from(head[14]))?;
        Some(Fact {
            op: head[0],
            node: u64::from_le_bytes(head[1..9].try_into().ok()?),
            connections: u32::from_le_bytes(head[9..13].try_into().ok()?),
            flags: head[13],
            user,
            info,
        })
    }
}

/// A walk through a table, a piece in each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// Users of this machine of whom the cluster has another count.
    Local(usize),
    /// Users that the cluster has of this machine, and this machine has not.
    Cluster(usize),
    /// All users of this machine, for a server that has asked.
    Answer(usize),
    /// Users of a server that is gone, by its slot, and whether there were some.
    Gone(u32, usize, bool),
}

/// What is known of a user in the table of the cluster.
#[derive(Default)]
struct Known {
    connections: u32,
    of_slot: u32,
    is_announced: bool,
    info: Vec<u8>,
}

/// How far the question for members has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    NotAsked,
    Sent {
        at_ms: u64,
    },
    /// The log has it; the last answer came at `quiet_ms`.
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

/// Why a note of the log does not count here.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoteError {
    /// Its channel or its user is none.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// It was written by something else than a server of this kind.
    #[error("what it says of who is present cannot be read")]
    Unreadable,
    /// The table of users has no room.
    #[error(
        "a user is not in members(): members_max ({0}) users of the cluster are present already"
    )]
    Full(usize),
    /// The table has no column for the server.
    #[error("a user is not in members(): more than {NODES_MAX} servers have members")]
    Nodes,
    /// The table is not to be had.
    #[error("who is present: {0}")]
    Table(PresenceError),
}

/// See the module.
pub(super) struct Members {
    /// Presence of the cluster, and of this machine.
    table: Ring,
    local: Ring,
    outbox: Ring,
    state: State,
    owner: Owner,
    node: u64,
    lease_ms: u64,
    question: Question,
    walks: VecDeque<Walk>,
    is_compared: bool,
    has_members: bool,
    /// When both tables are compared, this server shows that it lives, and the others are looked at.
    compare: Deadline,
    beat: Deadline,
    turn_ms: u64,
    out: Vec<u8>,
}

impl Members {
    pub fn new(
        (table, local, outbox): (Ring, Ring, Ring),
        state: State,
        owner: Owner,
        node: u64,
        lease_ms: u64,
        now_ms: u64,
    ) -> Members {
        let mut members = Members {
            table,
            local,
            outbox,
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
        // Those whom a bridge before was about to remove.
        let _ = members.table.sweep(&members.owner, 0, &mut |_, _, _, _| {});
        members.state.hear_all(now_ms);
        members
    }

    /// The log has begun anew for this machine: what it told of before does not count.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn begin(&mut self) -> Result<(), LockError> {
        self.state.forget_presence();
        self.question = Question::NotAsked;
        self.walks.clear();
        self.table.clear_present(&self.owner)
    }

    /// The log is there again.
    pub fn on_ready(&mut self, now_ms: u64) {
        self.state.hear_all(now_ms);
        self.compare = Deadline::at(now_ms);
        self.beat = Deadline::at(now_ms);
        if !self.state.is_presence_known() {
            self.question = Question::NotAsked;
        }
    }

    /// When [`Members::turn`] is to be called at the latest.
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
            // It found no room in the outbox.
            Question::NotAsked => Deadline::at(now_ms + 1),
            Question::Sent { at_ms } => Deadline::after(at_ms, ANSWERS_MS_MAX),
            Question::Answered { at_ms, quiet_ms } => {
                let until = Deadline::after(at_ms, ANSWERS_MS_MAX);
                until.min(Deadline::after(quiet_ms, ANSWERS_QUIET_MS))
            }
        };
        match is_used {
            true => question.min(self.compare).min(self.beat),
            false => question,
        }
    }

    /// Does what is due; notes for the outbox are put there.
    pub fn turn(&mut self, now_ms: u64) {
        let stood_still = has_stood_still(now_ms.saturating_sub(self.turn_ms), self.lease_ms);
        self.turn_ms = now_ms;
        if !self.state.is_ready(now_ms) {
            return;
        }
        if stood_still {
            // What others have said meanwhile has not been read yet.
            self.state.hear_all(now_ms);
        }
        self.ask(now_ms);
        if !self.state.is_presence_used() {
            return;
        }
        if self.beat.is_due(now_ms) {
            self.beat = Deadline::after(now_ms, self.lease_ms / BEATS_PER_LEASE);
            // Without room it is tried again soon: others would miss it.
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
            // Pieces of several walks take turns; one that finds no room stays where it is.
            if let Some(next) = self.step(walk) {
                self.walks.push_back(next);
            }
        }
    }

    /// Asks the others for their members, when this server does not know them.
    fn ask(&mut self, now_ms: u64) {
        if self.state.is_presence_known() {
            return;
        }
        match self.question {
            Question::NotAsked => self.begin_question(now_ms),
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

    /// Takes servers that show no life for gone. The one with the lowest name says so, the others a lease later.
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

    /// A piece of a walk. Returns where it goes on.
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
            .unwrap_or(Some(from));
        let node = self.state.node_of(slot);
        for (channel, user, connections, of_slot) in found {
            let data = match walk {
                Walk::Local(_) => {
                    self.is_compared |= true;
                    let known = self.known(&channel, &user, own);
                    // One that is leaving counts as before until it has left.
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
                // Walked again at the next look, until nothing is left of it. One that was heard meanwhile may have members
                // where the walk had passed.
                let is_left = had || has_notes || node.is_some_and(|node| !self.is_silent(node));
                if !is_left {
                    self.state.forget_node(slot);
                }
                None
            }
        }
    }

    /// Whether nothing was heard of a server for a lease.
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

    /// Leaves a note in the outbox. `false`: it has no room now.
    fn note(&mut self, channel: &[u8], data: &[u8]) -> bool {
        put_note(&mut self.outbox, &self.owner, &Note { channel, data }, None)
    }

    /// What is to be published for a note; `None`: nothing any more.
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
                // Another has said so, or it was heard since the note was left.
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
                    // It is leaving: its count stays as it is.
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

    /// Takes what the log says. Returns what clients of this machine are told of it.
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
        if fact.flags & FLAG_GONE == 0 && fact.op != OP_ASK {
            self.state.hear(fact.node, now_ms);
        }
        match fact.op {
            OP_ASK => {
                if fact.node == self.node && matches!(self.question, Question::Sent { .. }) {
                    let (at_ms, quiet_ms) = (now_ms, now_ms);
                    self.question = Question::Answered { at_ms, quiet_ms };
                }
                // A walk that has begun may have passed by what has changed since.
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
            // Others take this server for gone.
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
            let changes = match self.state.is_presence_known() {
                true => {
                    slot.is_some() && others == 0 && (known.of_slot == 0) != (fact.connections == 0)
                }
                false => fact.flags & FLAG_CHANGES != 0,
            };
            match fact.connections {
                _ if !changes || fact.op == OP_REPEAT => Decision::Nothing,
                0 if known.is_announced || !self.state.is_presence_known() => Decision::Leave,
                1.. if is_announced => Decision::Join,
                _ => Decision::Nothing,
            }
        });
        // A bridge that goes on after a death between these steps announces the same.
        self.state.decide(place, decision);
        if let Some(slot) = slot {
            let presence = Presence {
                channel,
                user: fact.user,
                info: fact.info,
                source: b"",
                announce: is_announced.then_some(b""),
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
            Decision::Join => Kind::Join,
            Decision::Leave => Kind::Leave,
            Decision::Nothing => {
                self.state.set_applied(place);
                return Ok(None);
            }
        };
        let info = if known.info.is_empty() || kind == Kind::Join {
            fact.info
        } else {
            &known.info
        };
        Ok(Some(LocalEvent {
            kind,
            data: announcement(fact.user, Some(info)),
        }))
    }

    /// What [`Members::take`] gave has been told.
    pub fn set_applied(&self, place: Place) {
        self.state.set_applied(LogPlace {
            epoch: place.epoch,
            seq: place.seq,
        });
    }
}

/// Whether this process has not run for so long that others may seem silent who are not. A turn is due with each beat at the
/// latest, and may come late; what another said just before this process stood still is a beat old.
fn has_stood_still(since_turn_ms: u64, lease_ms: u64) -> bool {
    since_turn_ms >= lease_ms / 2
}

fn flag(flag: u8, is_set: bool) -> u8 {
    if is_set { flag } else { 0 }
}

/// Leaves a note in the outbox. `false`: it has no room now, or its lock is not to be had.
///
/// `except` is who is not told of what the note makes known.
pub(super) fn put_note(
    outbox: &mut Ring,
    owner: &Owner,
    note: &Note<'_>,
    except: Option<Subscriber>,
) -> bool {
    let [low, high] = NOBODY.to_le_bytes();
    let mark: [u8; MARK_BYTES] = [low, high, MARK_NOTE];
    let message = Message {
        channel: note.channel,
        kind: Kind::Message,
        name: Some(&mark),
        data: note.data,
    };
    outbox.publish_about(owner, &message, except, 0).is_ok()
}

#[cfg(test)]
mod tests {
    use fermata_config::Settings;

    use super::super::memory::Cluster;
    use super::*;
    use crate::channels::{memory, test_ring};

    const LEASE_MS: u64 = 6_000;
    const USERS: usize = 3 * WALK_ENTRIES;

    /// The part of a bridge, on a server that nobody is on, and two others: `DEAD` with as many users as are asked for, and one
    /// with more than a walk looks at in one turn.
    fn members(users_of_dead: usize) -> Members {
        let settings = Settings {
            cluster: Some("nats://127.0.0.1:1".to_owned()),
            ..Settings::default()
        };
        let owner = memory::owner(0);
        let ring = test_ring::ring(&test_ring::CONFIG);
        let cluster = Cluster::open(&settings, 2, owner, None)
            .expect("there is memory")
            .expect("a cluster is set");
        let tables = (cluster.members, ring, cluster.ring);
        let (state, node) = (cluster.state, cluster.node);
        let mut members = Members::new(tables, state, owner, node, LEASE_MS, 0);
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
                };
                let outcome = members.table.set_present(&owner, slot, &presence, 1);
                outcome.expect("there is room");
            }
        }
        members
    }

    const LIVES: u64 = 1;
    const DEAD: u64 = 2;

    /// Lets time pass in which one server beats.
    fn pass(members: &mut Members, from_ms: u64, to_ms: u64) {
        for now_ms in (from_ms..to_ms).step_by(10) {
            members.state.beat(now_ms);
            members.state.hear(LIVES, now_ms);
            members.turn(now_ms);
        }
    }

    #[test]
    fn a_dead_server_leaves_its_slot_to_others_however_many_users_there_are() {
        let mut members = members(0);
        pass(&mut members, 0, LEASE_MS);
        assert!(members.state.slot_of(DEAD).is_some());
        pass(&mut members, LEASE_MS, 4 * LEASE_MS);
        assert_eq!(members.state.slot_of(DEAD), None);
        assert!(members.state.slot_of(LIVES).is_some());
    }

    #[test]
    fn a_dead_server_keeps_its_slot_while_it_has_users() {
        let mut members = members(2);
        pass(&mut members, 0, 4 * LEASE_MS);
        assert!(members.state.slot_of(DEAD).is_some());
    }

    #[test]
    fn a_server_that_was_heard_since_it_was_taken_for_dead_keeps_its_users() {
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

    /// A server that has nothing to do but to beat took each of its turns for the first after a standstill when they came a
    /// millisecond late, so that it heard silent servers anew each time, and their members stayed.
    #[test]
    fn a_turn_that_comes_late_is_no_standstill_and_a_standstill_makes_nobody_silent() {
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
