//! Fair share: connections that stay are spread evenly over the workers.
//!
//! The kernel chooses a worker by a hash of addresses and ports, which is even for many short
//! connections and costs nothing, but leaves one of eight workers with twice its share of a hundred
//! long ones. A connection has proved to be long when its first answer has gone out and it is still
//! open. If another worker has fewer of those then, it is handed over: nothing of it is in this
//! process but its descriptor. The price is one message between two processes in the life of a
//! connection that is moved, and two atomic additions in that of one that stays; a connection per
//! request pays neither.
//!
//! Held clients, WebSockets and encrypted connections are counted but stay where they are: they have
//! state that cannot move.

use std::sync::Arc;

use fermata_config::LogLevel;
use fermata_io::handover::Taken;
use fermata_io::{Deadline, Driver, Fd, Peer};

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::http::exchange::Exchange;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Awaited, Connection, Origin, Phase};
use crate::net::index::ConnectionIndex;
use crate::net::line::Line;
use crate::net::running::Running;

/// A worker may have this part more than the one with the fewest: exact balance among many would
/// move every second connection.
const SLACK_DIVISOR: u64 = 32;

/// A worker that is in the same handler for so long gets nothing handed over.
const BUSY_MS: u64 = 50;

/// Connections taken over in a row before other clients get their turn.
const TAKE_BATCH: usize = 64;

impl<D: Driver> Net<D> {
    /// Counts a connection that has proved to stay, or hands it to another worker: true, and it is
    /// gone from here.
    #[cold]
    pub(crate) fn settle(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        if self
            .input
            .current
            .is_some_and(|current| current.index == index)
        {
            // Sent in the middle of a turn: what follows in the input is not parsed yet. Asked again
            // after the next answer.
            return false;
        }
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(false);
        };
        if connection.origin != Origin::Public || !self.handover.balances {
            connection.is_settled = true;
            return false;
        }
        if exchange.is_handling() && connection.phase == Phase::Open && exchange.body.is_none() {
            // So is the next request, which has come already and waits for being begun.
            return false;
        }
        if can_move(connection, exchange)
            && self.running == Running::Serving
            && let Some(slot) = self.better_worker()
            && self.hand_over(http, index, slot)
        {
            return true;
        }
        self.mark_settled(index);
        false
    }

    /// The worker that has fewer connections than we, if our share is more than fair.
    fn better_worker(&self) -> Option<u16> {
        let shared = &self.handover.shared;
        let own = shared.settled(self.slot);
        if own == 0 {
            return None;
        }
        let busy_before_unix_ms = self.driver.unix_ms().saturating_sub(BUSY_MS);
        let slots = self.handover.inboxes.len() as u16;
        let (slot, least) = shared.least_settled(slots, busy_before_unix_ms)?;
        (own > least + least / SLACK_DIVISOR && slot != self.slot).then_some(slot)
    }

    /// Gives a connection to another worker, or to the replacement of this one, which retires or ends alone. True when it is
    /// gone from here.
    pub(crate) fn give_away(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        let is_whole = |(it, exchange): (&Connection, &Exchange)| {
            it.origin == Origin::Public
                && it.inbox.is_empty()
                && !it.is_dirty
                && !exchange.has_output(it)
        };
        if !self
            .connections
            .pair(index.exchange())
            .is_some_and(is_whole)
        {
            return false;
        }
        let busy_before_unix_ms = self.driver.unix_ms().saturating_sub(BUSY_MS);
        let slots = self.handover.inboxes.len() as u16;
        // A server in the process of its test has none but itself.
        if slots == 0 {
            return false;
        }
        let shared = &self.handover.shared;
        let heir = shared.least_settled(slots, busy_before_unix_ms);
        self.hand_over(http, index, heir.map_or(self.slot, |(slot, _)| slot))
    }

    /// Takes, at its start, what is left in the inboxes of `retired` workers and of those that have ended.
    pub(crate) fn inherit(&mut self, retired: &[u16]) {
        for slot in 0..self.handover.inboxes.len() as u16 {
            // The master leaves it there when it finds no worker that takes connections, which this one does by now.
            if retired.contains(&slot) || self.handover.shared.is_vacant(slot) {
                self.take_from(slot, true);
            }
        }
    }

    /// Gives a connection away. False when it stays, as it was.
    pub(crate) fn hand_over(&mut self, http: &mut Http, index: ConnectionIndex, slot: u16) -> bool {
        let Some(connection) = self.connections.at(index) else {
            return missed(false);
        };
        let (peer, is_watched) = (connection.peer, connection.is_watched);
        let Some(fd) = connection.line.socket() else {
            return false;
        };
        let Some(inbox) = self.handover.inboxes.get(usize::from(slot)) else {
            return missed(false);
        };
        if !self.driver.release(fd) {
            return false;
        }
        // Counted first: the other worker may have taken and closed it before `put` returns.
        self.handover.shared.add_settled(slot);
        if inbox.put(fd, peer).is_err() {
            self.handover.shared.remove_settled(slot);
            let key = self.connections.key(index);
            if let (true, Some(key)) = (is_watched, key)
                && self.driver.add_stream(fd, key.to_u64()).is_err()
            {
                self.close(http, index);
                return true;
            }
            return false;
        }
        self.counts.add(Counter::Moved, 1);
        self.close(http, index);
        if slot != self.slot && !self.handover.shared.takes(slot) {
            // It has looked into its inbox for the last time, maybe before this was there, and so may its replacement.
            self.take_from(slot, true);
        }
        true
    }

    /// Takes the connections that others have handed to us.
    pub(crate) fn take_over(&mut self) {
        // What comes to a worker that has begun to end, it has put there itself.
        if self.running == Running::Serving {
            self.take_from(self.slot, false);
        }
    }

    fn take_from(&mut self, slot: u16, is_inherited: bool) {
        let inboxes = Arc::clone(&self.handover.inboxes);
        // A worker without a master has none.
        let Some(inbox) = inboxes.get(usize::from(slot)) else {
            return;
        };
        let batch = if is_inherited { usize::MAX } else { TAKE_BATCH };
        for _ in 0..batch {
            let taken = inbox.take();
            if is_inherited && !matches!(taken, Taken::Nothing) {
                // It was counted for the one that has left it.
                self.handover.shared.add_settled(self.slot);
            }
            match taken {
                Taken::Nothing => return,
                Taken::Connection(accepted) => self.open_moved(accepted.fd, accepted.peer),
                Taken::Lost => self.lose_moved(),
            }
        }
    }
}

impl<D: Driver> Net<D> {
    /// Counts a connection that stays, if it is not counted yet.
    pub(crate) fn mark_settled(&mut self, index: ConnectionIndex) {
        if let Some(connection) = self.connections.at_mut(index).known()
            && !connection.line.is_stream()
            && !std::mem::replace(&mut connection.is_settled, true)
        {
            self.handover.shared.add_settled(self.slot);
        }
    }

    /// A client was handed to us for which we have no descriptor: it finds its connection closed.
    fn lose_moved(&mut self) {
        self.handover.shared.remove_settled(self.slot);
        let line = "a connection of another worker is lost, as no descriptor is left for it; raise the limit of \
                    open files (ulimit -n) or find what the program opens and never closes";
        self.log_for_client(LogLevel::Warning, line);
    }

    fn open_moved(&mut self, fd: Fd, peer: Peer) {
        if self.sockets_len() >= self.settings.connections_max {
            // Between two requests a server may close without a word; the client comes again.
            self.handover.shared.remove_settled(self.slot);
            self.driver.close(fd);
            return;
        }
        let mut connection = Connection::new(Line::of_socket(fd), peer, Origin::Public);
        connection.is_settled = true;
        // It has had its first request: from now on the time between two counts.
        connection.awaited = Awaited::Next;
        let deadline = Deadline::after(self.driver.now_ms(), self.settings.idle_timeout_ms);
        self.insert(connection, deadline);
    }
}

/// Whether nothing of a connection is here but its descriptor.
fn can_move(connection: &Connection, exchange: &Exchange) -> bool {
    connection.phase == Phase::Open
        && exchange.awaits_head()
        && connection.keeps_alive
        && connection.inbox.is_empty()
        && !connection.has_unread
        && !connection.has_hung_up
        && !connection.has_ended
        && !connection.is_dirty
        && !connection.is_again
        && !exchange.has_output(connection)
}
