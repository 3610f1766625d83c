//! Connections as the kernel sees them: accepting, reading, writing, time-outs, the end.

pub(crate) mod accept;
pub(crate) mod backend;
pub(crate) mod balance;
pub(crate) mod buffer;
mod close;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod deadline;
pub(crate) mod ended;
pub(crate) mod gauges;
pub(crate) mod handover;
pub(crate) mod http2;
pub(crate) mod index;
pub(crate) mod input;
pub(crate) mod line;
pub(crate) mod listen_error;
pub(crate) mod listeners;
pub(crate) mod output;
pub(crate) mod own_addresses;
pub(crate) mod preface;
pub(crate) mod running;
pub(crate) mod slab;
pub(crate) mod timers;
pub(crate) mod tls;
pub(crate) mod token;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use fermata_config::Settings;
use fermata_io::buffer::Pool;
use fermata_io::wheel::{Fired, Wheel};
use fermata_io::{Deadline, Driver, Event, Fd};

use crate::admin::stats::Counts;
use crate::embed::wires::Wires;
use crate::log::Log;
use crate::missed::{Known, missed};
use crate::net::index::{ConnectionIndex, ExchangeIndex};
use crate::websocket::Silence;
use buffer::Input;
use connections::Connections;
use deadline::{ARMED_AHEAD_MS_MAX, Armed};
use ended::EndedConnections;
use fermata_proto::http2::{ErrorCode, hpack};
use fermata_proto::response;
use gauges::Gauges;
use handover::Handover;
use http2::Http2;
use line::{Carries, Line};
use own_addresses::OwnAddresses;
use running::Running;
use tls::ServerTls;

/// Bytes read from one socket at once. Larger reads save calls for large bodies, but make the
/// others wait longer for their turn.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Buffers kept for reuse, what a new one has room for, and the largest that is worth keeping.
const POOL_BUFFERS: usize = 256;
const POOL_BUFFER_BYTES: usize = 4 * 1024;
const POOL_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The connections of a worker, and what all of them share.
pub struct Net<D> {
    pub(crate) driver: D,
    /// This worker's slot in the hub.
    pub(crate) slot: u16,
    pub(crate) handover: Handover,
    pub(crate) settings: Arc<Settings>,
    pub(crate) running: Running,
    pub(crate) connections: Connections,
    pub(crate) http2: Http2,
    /// Connections of each address, where there is a limit for them.
    pub(crate) addresses: HashMap<IpAddr, u32>,
    /// Those of this machine that clients have connected to.
    pub(crate) own_addresses: OwnAddresses,
    pub(crate) wheel: Wheel,
    pub(crate) fired: Vec<Fired>,
    pub(crate) pool: Pool,
    pub(crate) counts: Counts,
    pub(crate) gauges: Gauges,

    pub(crate) listeners: Vec<Fd>,
    /// Those of `listeners` whose connections begin with a header of the PROXY protocol.
    pub(crate) prefaced: Vec<Fd>,
    pub(crate) control: Option<Fd>,
    pub(crate) metrics: Option<Fd>,
    pub(crate) tls: Option<ServerTls>,
    /// When accepting goes on after an error, if it has stopped.
    pub(crate) accept: Deadline,

    pub(crate) log: Log,
    /// How long WebSockets may be silent, by route.
    pub(crate) silences: Vec<Silence>,
    /// Sockets of the embedder.
    pub(crate) wires: Wires,
    pub(crate) input: Input,
    /// For what is composed within one call.
    pub(crate) scratch: Vec<u8>,
    /// When the events of this turn were collected.
    pub(crate) turn_ms: u64,
    /// The events of this turn, and how many of them have been taken.
    pub(crate) events: Vec<Event>,
    pub(crate) events_at: usize,
    /// Connections accepted in this turn.
    pub(crate) fresh: Vec<ConnectionIndex>,
    /// Connections with output for the end of the turn.
    pub(crate) dirty: Vec<ConnectionIndex>,
    /// Those that are gone, and other parts have not been told.
    pub(crate) ended: EndedConnections,
    /// Held clients that have taken everything: what is in their channels' logs can follow.
    pub(crate) flushed: Vec<ExchangeIndex>,
    /// Connections to go on with in the next turn without waiting for an event.
    pub(crate) again: Vec<ConnectionIndex>,
}

impl<D: Driver> Net<D> {
    /// Without listeners and connections.
    pub(crate) fn new(
        driver: D,
        settings: Arc<Settings>,
        log: Log,
        slot: u16,
        handover: Handover,
    ) -> Net<D> {
        let mut http2 = Http2::new();
        http2.configure(&settings);
        Net {
            slot,
            handover,
            running: Running::Serving,
            connections: Connections::new(),
            http2,
            addresses: HashMap::new(),
            own_addresses: OwnAddresses::default(),
            wheel: Wheel::new(driver.now_ms()),
            fired: Vec::new(),
            pool: Pool::new(POOL_BUFFERS, POOL_BUFFER_BYTES, POOL_BUFFER_BYTES_MAX),
            counts: Counts::new(),
            gauges: Gauges::default(),
            listeners: Vec::new(),
            prefaced: Vec::new(),
            control: None,
            metrics: None,
            tls: None,
            accept: Deadline::NEVER,
            input: Input::new(settings.header_bytes_max + READ_BYTES),
            log,
            silences: Vec::new(),
            wires: Wires::new(),
            scratch: Vec::new(),
            turn_ms: driver.now_ms(),
            events: Vec::new(),
            events_at: 0,
            fresh: Vec::new(),
            dirty: Vec::new(),
            ended: EndedConnections::new(),
            flushed: Vec::new(),
            again: Vec::new(),
            settings,
            driver,
        }
    }

    /// Connections with sockets: streams are not counted.
    pub(crate) fn sockets_len(&self) -> usize {
        self.connections.len() - self.http2.streams_len()
    }

    /// The socket of a connection, or that of the one that carries it.
    pub(crate) fn socket_of(&self, index: ConnectionIndex) -> Option<Fd> {
        let carrier = self.carrier_of(index)?;
        self.connections.at(carrier)?.line.socket()
    }

    /// The connection that has the socket of a connection: itself, or for a stream the one that carries it.
    pub(crate) fn carrier_of(&self, index: ConnectionIndex) -> Option<ConnectionIndex> {
        match self.connections.at(index)?.line.carries() {
            Carries::Socket(_) => Some(index),
            Carries::Stream(place) => self.http2.carrier_of(place),
        }
    }

    /// Tells a client that waits for it to send its body.
    pub(crate) fn send_continue(&mut self, index: ConnectionIndex) {
        let Some(connection) = self.connections.at_mut(index) else {
            return missed(());
        };
        match connection.line.stream() {
            None => {
                connection.out.extend_from_slice(response::CONTINUE);
                self.mark_dirty(index);
            }
            Some(place) => {
                let write = |block: &mut Vec<u8>| hpack::encode_status(block, 100);
                self.http2.send_head(place, 100, false, write);
            }
        }
    }

    /// Has the end of a connection, which comes next, tell its client that something is missing.
    pub(crate) fn reset_on_close(&mut self, line: Line) {
        match line.carries() {
            Carries::Socket(fd) => self.driver.reset_on_close(fd),
            Carries::Stream(place) => self.http2.reset(place, ErrorCode::INTERNAL_ERROR),
        }
    }

    /// Gives `index` a deadline. Moving a deadline back costs one store: its entry in the wheel
    /// fires early and is put in again then.
    ///
    /// While the client takes nothing, the write time-out rules alone; what is due then is set anew
    /// when it takes something again.
    #[inline]
    pub(crate) fn set_deadline(&mut self, index: ConnectionIndex, deadline: Deadline) {
        let latest_ms = self.driver.now_ms() + ARMED_AHEAD_MS_MAX;
        if let Some(connection) = self.connections.at_mut(index).known()
            && !connection.is_blocked
        {
            connection.deadline = deadline;
            if connection.armed.is_after(deadline.ms_until(latest_ms)) {
                self.arm(index);
            }
        }
    }

    /// Puts a connection into the wheel.
    pub(crate) fn arm(&mut self, index: ConnectionIndex) {
        let Some(key) = self.connections.key(index) else {
            return missed(());
        };
        let latest_ms = self.driver.now_ms() + ARMED_AHEAD_MS_MAX;
        if let Some(connection) = self.connections.at_mut(index).known()
            && connection.is_watched
            && !connection.deadline.is_never()
        {
            let due_ms = connection.deadline.ms_until(latest_ms);
            connection.armed = Armed::at(due_ms);
            self.wheel.arm(key.to_u64(), due_ms);
        }
    }

    /// Lists a connection for the flush at the end of the turn.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: ConnectionIndex) {
        if let Some(connection) = self.connections.at_mut(index).known()
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(index);
        }
    }

    /// Begins the next batch of events with those of connections that go on without one, `first` before the others.
    pub(crate) fn begin_batch(&mut self, first: &mut Vec<ConnectionIndex>) {
        self.events.clear();
        self.events_at = 0;
        // As in nearly every turn.
        if first.is_empty() && self.again.is_empty() {
            return;
        }
        for index in first.drain(..).chain(self.again.drain(..)) {
            // It may have been closed since it was listed.
            if let Some(key) = self.connections.key(index)
                && let Some(connection) = self.connections.at_mut(index)
            {
                connection.is_again = false;
                self.events.push(Event::readable(key.to_u64()));
            }
        }
    }

    /// Lists a connection for the next turn.
    pub(crate) fn go_on(&mut self, index: ConnectionIndex) {
        if let Some(connection) = self.connections.at_mut(index).known()
            && !connection.is_again
        {
            connection.is_again = true;
            self.again.push(index);
        }
    }
}
