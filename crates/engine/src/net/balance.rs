//! Load balancing: keep-alive connections are spread evenly over the workers.
//!
//! The kernel selects a worker by a hash of addresses and ports. This is even for many short connections, but gives one of eight
//! workers twice its share of a hundred long ones. A connection counts as long if it is still open after its first response. If
//! another worker then has fewer long connections, the connection is handed over; only its descriptor has to move. Cost: one
//! message between two processes for a connection that moves, two atomic additions for one that stays. A connection with a single
//! request needs neither.
//!
//! Held clients, WebSockets and TLS connections are counted but stay: their state cannot move.

use std::sync::Arc;

use fermata_config::LogLevel;
use fermata_io::handover::Taken;
use fermata_io::{Deadline, Driver, Fd, Peer};

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::http::exchange::Exchange;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Awaited, Connection, Origin, Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::net::line::Line;
use crate::net::running::Running;

/// Tolerated excess over the worker with the fewest connections, as a divisor: exact balance would
/// move every second connection.
const SLACK_DIVISOR: u64 = 32;

/// Time in milliseconds in the same handler after which a worker is excluded from receiving connections.
const BUSY_MS: u64 = 50;

/// Maximum number of connections taken over in a row before other clients are served.
const TAKE_BATCH: usize = 64;

/// Maximum number of reads per connection of bytes that the kernel has already read for this worker (`io_uring`) when the
/// connection is handed over.
const GIVEN_READS_MAX: usize = 4;

/// Maximum size of such a read in bytes.
const GIVEN_PIECE_BYTES: usize = 4 * 1024;

impl<D: Driver> Net<D> {
    /// Counts a long connection, or hands it to another worker. Returns true if it has left this
    /// worker.
    #[cold]
    pub(crate) fn settle(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        if self
            .input
            .current
            .is_some_and(|current| current.index == index)
        {
            // Input that arrived within the turn is not parsed yet. The next response checks again.
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
            // The next request has arrived and waits to start.
            return false;
        }
        if can_move(connection, exchange)
            && self.running == Running::Serving
            && let Some(slot) = self.better_worker()
            && self.hand_over(http, index, slot, b"")
        {
            return true;
        }
        self.mark_settled(index);
        false
    }

    /// Returns a worker with fewer connections, if this worker exceeds its fair share.
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

    /// Hands an idle connection to another worker, or to the replacement of this one, when this worker retires, or drains while the
    /// server continues. Returns true if the connection has left this worker.
    pub(crate) fn give_away(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        let gives_input = self.gives_requests && !self.handover.shared.is_stopping();
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(false);
        };
        let is_whole = connection.origin == Origin::Public
            && (connection.inbox.is_empty() || gives_input)
            && !connection.line.is_stream()
            && !connection.is_dirty
            && !exchange.has_output(connection);
        if !is_whole {
            return false;
        }
        let mut input = std::mem::take(&mut connection.inbox);
        // The replacement reads this worker's inbox.
        let slot = self.heir().unwrap_or(self.slot);
        if self.give_with(http, index, slot, &mut input) {
            self.pool.give(input);
            return true;
        }
        if let Some(connection) = self.connections.at_mut(index).known()
            && !input.is_empty()
        {
            connection.inbox = input;
        }
        false
    }

    /// Returns the worker with the fewest connections among those that accept connections and are
    /// not busy.
    fn heir(&self) -> Option<u16> {
        let busy_before_unix_ms = self.driver.unix_ms().saturating_sub(BUSY_MS);
        let slots = self.handover.inboxes.len() as u16;
        let least = self
            .handover
            .shared
            .least_settled(slots, busy_before_unix_ms);
        least.map(|(slot, _)| slot)
    }

    /// Hands a connection to the worker of `slot`, with its unprocessed `input`. Returns true if
    /// the connection has left this worker.
    ///
    /// With `io_uring`, the kernel may already have read bytes for this worker. A worker that hands over its requests appends these
    /// bytes to `input`, up to the size of a worker's input buffer. They move with the connection, or stay in `input`.
    fn give_with(
        &mut self,
        http: &mut Http,
        index: ConnectionIndex,
        slot: u16,
        input: &mut Vec<u8>,
    ) -> bool {
        // An in-process server has no inboxes.
        let max = self.input.bytes.len();
        if self.handover.inboxes.is_empty() || input.len() > max {
            return false;
        }
        for _ in 0..GIVEN_READS_MAX {
            if self.hand_over(http, index, slot, input) {
                return true;
            }
            let Some(connection) = self.connections.at(index) else {
                return missed(false);
            };
            if !self.gives_requests || self.handover.shared.is_stopping() {
                return false;
            }
            let read = read_unread(&mut self.driver, connection.line, input, max);
            if read == 0 {
                return false;
            }
            if connection.origin == Origin::Public {
                self.counts.add(Counter::BytesReceived, read as u64);
            }
        }
        false
    }

    /// Hands the current request, whose handler has not started, and its connection to another
    /// worker. Returns true if they have left this worker.
    ///
    /// The request stays if its body is not in memory, it is an HTTP/2 stream, the connection uses
    /// TLS, or the client has not read earlier responses.
    #[cold]
    pub(crate) fn give_request(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        if !self.gives_requests || self.handover.shared.is_stopping() {
            return false;
        }
        let is_movable = |(it, exchange): (&Connection, &Exchange)| {
            it.origin == Origin::Public
                && it.phase == Phase::Open
                && it.writing == Writing::Open
                && it.line.socket().is_some()
                && exchange.body.is_none()
        };
        let pair = self.connections.pair(index.exchange());
        if !pair.is_some_and(is_movable) {
            return false;
        }
        let mut bytes = Vec::new();
        if !http.request.write_again(&self.input.bytes, &mut bytes) {
            return false;
        }
        if let Some(current) = self.input.current.filter(|it| it.index == index) {
            bytes.extend_from_slice(&self.input.bytes[current.at..current.filled]);
        }
        // Earlier responses to the same client are sent first.
        let connection = self.connections.at(index);
        if connection.is_some_and(|it| it.unsent() > 0) {
            self.flush(http, index);
            self.driver.flush();
        }
        // The client disconnected: sending has closed the connection.
        let Some(connection) = self.connections.at(index) else {
            return true;
        };
        if connection.unsent() > 0 {
            return false;
        }
        bytes.extend_from_slice(&connection.inbox);
        // The replacement may have read this worker's inbox already. Then use a busy worker, rather than wait for this worker to
        // exit.
        let any = || {
            let slots = self.handover.inboxes.len() as u16;
            self.handover.shared.least_settled(slots, 0)
        };
        let heir = self.heir().or_else(|| any().map(|(slot, _)| slot));
        let entry = http.trace.take_entry(index.exchange());
        let own = bytes.len();
        let is_given = self.give_with(http, index, heir.unwrap_or(self.slot), &mut bytes);
        if !is_given {
            http.trace.put_back(index.exchange(), entry);
            if let (Some(connection), Some(unread)) =
                (self.connections.at_mut(index), bytes.get(own..))
            {
                connection.inbox.extend_from_slice(unread);
            }
        }
        is_given
    }

    /// Takes over, at startup, connections in the inboxes of `retired` and exited workers.
    pub(crate) fn inherit(&mut self, retired: &[u16]) {
        for slot in 0..self.handover.inboxes.len() as u16 {
            // The master leaves connections in an inbox if no worker accepts them. This worker accepts now.
            if retired.contains(&slot) || self.handover.shared.is_vacant(slot) {
                self.take_from(slot, true);
            }
        }
    }

    /// Hands over a connection to the worker in `slot`. Returns false if the connection stays with
    /// this worker, unchanged.
    pub(crate) fn hand_over(
        &mut self,
        http: &mut Http,
        index: ConnectionIndex,
        slot: u16,
        input: &[u8],
    ) -> bool {
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
        // Count first: the other worker may close the connection before `put` returns.
        self.handover.shared.add_settled(slot);
        if inbox.put(fd, peer, input).is_err() {
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
            // The other worker has read its inbox for the last time, maybe before this entry, and so may its replacement.
            self.take_from(slot, true);
        }
        true
    }

    /// Takes over connections from this worker's inbox.
    pub(crate) fn take_over(&mut self) {
        // A draining worker has put the connections into its own inbox.
        if self.running == Running::Serving {
            self.take_from(self.slot, false);
        }
    }

    fn take_from(&mut self, slot: u16, is_inherited: bool) {
        let inboxes = Arc::clone(&self.handover.inboxes);
        // A worker without a master has no inbox.
        let Some(inbox) = inboxes.get(usize::from(slot)) else {
            return;
        };
        let batch = if is_inherited { usize::MAX } else { TAKE_BATCH };
        for _ in 0..batch {
            let taken = inbox.take();
            if is_inherited && !matches!(taken, Taken::Nothing) {
                // The connection was counted for the worker that put it there.
                self.handover.shared.add_settled(self.slot);
            }
            match taken {
                Taken::Nothing => return,
                Taken::Connection(accepted, input) => {
                    self.open_moved(accepted.fd, accepted.peer, &input);
                }
                Taken::Lost => self.lose_moved(),
            }
        }
    }
}

impl<D: Driver> Net<D> {
    /// Counts a long connection, unless it is already counted.
    pub(crate) fn mark_settled(&mut self, index: ConnectionIndex) {
        if let Some(connection) = self.connections.at_mut(index).known()
            && !connection.line.is_stream()
            && !std::mem::replace(&mut connection.is_settled, true)
        {
            self.handover.shared.add_settled(self.slot);
        }
    }

    /// Handles a handed-over connection whose descriptor was lost: the kernel has closed it for the client.
    fn lose_moved(&mut self) {
        self.handover.shared.remove_settled(self.slot);
        let line = "a connection of another worker is lost, as no descriptor is left for it; raise the limit of \
                    open files (ulimit -n) or find what the program opens and never closes";
        self.log_for_client(LogLevel::Warning, line);
    }

    fn open_moved(&mut self, fd: Fd, peer: Peer, input: &[u8]) {
        let is_too_large = input.len() > self.input.bytes.len();
        if self.sockets_len() >= self.settings.connections_max || is_too_large {
            // A server may close a connection between two requests; the client reconnects.
            self.handover.shared.remove_settled(self.slot);
            self.driver.close(fd);
            return;
        }
        let mut connection = Connection::new(Line::of_socket(fd), peer, Origin::Public);
        connection.is_settled = true;
        // The connection has had its first request, so the idle time limit applies.
        connection.awaited = Awaited::Next;
        if !input.is_empty() {
            connection.inbox = self.pool.take();
            connection.inbox.extend_from_slice(input);
        }
        let deadline = Deadline::after(self.driver.now_ms(), self.settings.idle_timeout_ms);
        let index = self.insert(connection, deadline);
        if !input.is_empty() {
            // The kernel reports no event for this input.
            self.go_on(index);
        }
    }
}

/// Returns true if a connection consists only of its descriptor.
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

/// Appends to `input` the bytes that the driver has already read from a connection, up to `max` bytes in total. Returns the number
/// of appended bytes.
fn read_unread(driver: &mut impl Driver, line: Line, input: &mut Vec<u8>, max: usize) -> usize {
    let Some(fd) = line.socket() else {
        return 0;
    };
    // On the stack: most connections have no such bytes, so no buffer is retained for them.
    let mut piece = [0; GIVEN_PIECE_BYTES];
    let from = input.len();
    while input.len() + GIVEN_PIECE_BYTES <= max {
        match driver.recv(fd, &mut piece) {
            Ok(Some(read)) if read > 0 => input.extend_from_slice(&piece[..read]),
            _ => break,
        }
    }
    input.len() - from
}
