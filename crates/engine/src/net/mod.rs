//! Connections: accepting, reading, writing, timeouts and closing.

pub(crate) mod accept;
pub(crate) mod backend;
pub(crate) mod balance;
pub(crate) mod buffer;
pub(crate) mod buffered;
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
pub(crate) mod relief;
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
use buffered::{Buffered, RELIEF};
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

/// Maximum number of bytes read from a socket in one call. Larger reads need fewer calls for large
/// bodies, but delay other clients.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Number of pooled buffers, the capacity of a new one, and the maximum capacity worth pooling.
const POOL_BUFFERS: usize = 256;
const POOL_BUFFER_BYTES: usize = 4 * 1024;
const POOL_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The connections of a worker, and their shared state.
pub struct Net<D> {
    pub(crate) driver: D,
    /// This worker's slot in the hub.
    pub(crate) slot: u16,
    pub(crate) handover: Handover,
    pub(crate) settings: Arc<Settings>,
    pub(crate) running: Running,
    /// True if this worker hands over requests whose handlers have not started to other workers,
    /// because PHP cannot start more handlers.
    pub(crate) gives_requests: bool,
    pub(crate) connections: Connections,
    pub(crate) http2: Http2,
    /// Number of connections per address, if limited.
    pub(crate) addresses: HashMap<IpAddr, u32>,
    /// Local addresses to which clients have connected.
    pub(crate) own_addresses: OwnAddresses,
    pub(crate) wheel: Wheel,
    pub(crate) fired: Vec<Fired>,
    pub(crate) pool: Pool,
    pub(crate) counts: Counts,
    pub(crate) gauges: Gauges,
    /// Bytes buffered for clients.
    pub(crate) buffered: Buffered,

    pub(crate) listeners: Vec<Fd>,
    /// The members of `listeners` whose connections start with a PROXY protocol header.
    pub(crate) prefaced: Vec<Fd>,
    pub(crate) control: Option<Fd>,
    pub(crate) metrics: Option<Fd>,
    pub(crate) tls: Option<ServerTls>,
    /// Time at which accepting resumes after an error.
    pub(crate) accept: Deadline,

    pub(crate) log: Log,
    /// Maximum silence of WebSockets, by route.
    pub(crate) silences: Vec<Silence>,
    /// Sockets of the embedder.
    pub(crate) wires: Wires,
    pub(crate) input: Input,
    /// Reused buffer for output composed within one call.
    pub(crate) scratch: Vec<u8>,
    /// Time at which this turn's events were collected.
    pub(crate) turn_ms: u64,
    /// The events of this turn, and the number of events that were processed.
    pub(crate) events: Vec<Event>,
    pub(crate) events_at: usize,
    /// Events postponed to the next turn: clients were closed at a limit, and PHP has to be
    /// notified first.
    pub(crate) later: Vec<Event>,
    /// Connections accepted in this turn.
    pub(crate) fresh: Vec<ConnectionIndex>,
    /// Connections with output for the end of the turn.
    pub(crate) dirty: Vec<ConnectionIndex>,
    /// Closed connections of which other parts were not notified yet.
    pub(crate) ended: EndedConnections,
    /// Held clients whose output is empty, ready for their channels' logs.
    pub(crate) flushed: Vec<ExchangeIndex>,
    /// Connections to continue in the next turn without an event.
    pub(crate) again: Vec<ConnectionIndex>,
}

impl<D: Driver> Net<D> {
    /// Creates the state without listeners and connections.
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
            gives_requests: false,
            connections: Connections::new(),
            http2,
            addresses: HashMap::new(),
            own_addresses: OwnAddresses::default(),
            wheel: Wheel::new(driver.now_ms()),
            fired: Vec::new(),
            pool: Pool::new(POOL_BUFFERS, POOL_BUFFER_BYTES, POOL_BUFFER_BYTES_MAX),
            counts: Counts::new(),
            gauges: Gauges::default(),
            buffered: Buffered::new(&settings),
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
            later: Vec::new(),
            fresh: Vec::new(),
            dirty: Vec::new(),
            ended: EndedConnections::new(),
            flushed: Vec::new(),
            again: Vec::new(),
            settings,
            driver,
        }
    }

    /// Returns the number of connections with sockets, excluding HTTP/2 streams.
    pub(crate) fn sockets_len(&self) -> usize {
        self.connections.len() - self.http2.streams_len()
    }

    /// Returns the socket of a connection; for an HTTP/2 stream, the socket of its carrier.
    pub(crate) fn socket_of(&self, index: ConnectionIndex) -> Option<Fd> {
        let carrier = self.carrier_of(index)?;
        self.connections.at(carrier)?.line.socket()
    }

    /// Returns the connection that has the socket: the connection itself, or the carrier of a
    /// stream.
    pub(crate) fn carrier_of(&self, index: ConnectionIndex) -> Option<ConnectionIndex> {
        match self.connections.at(index)?.line.carries() {
            Carries::Socket(_) => Some(index),
            Carries::Stream(place) => self.http2.carrier_of(place),
        }
    }

    /// Sends `100 Continue` to a client that waits for it.
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

    /// Makes the following close a reset, so that the client detects missing data.
    pub(crate) fn reset_on_close(&mut self, line: Line) {
        match line.carries() {
            Carries::Socket(fd) => self.driver.reset_on_close(fd),
            Carries::Stream(place) => self.http2.reset(place, ErrorCode::INTERNAL_ERROR),
        }
    }

    /// Sets the deadline of a connection. Postponing costs one store: the timer entry fires early
    /// and is then armed again.
    ///
    /// While the client is blocked, only the write timeout applies; other deadlines are set again
    /// afterwards.
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

    /// Arms a connection's timer.
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

    /// Starts the next batch with events for connections that continue without an event, the
    /// connections in `first` before the others.
    pub(crate) fn begin_batch(&mut self, first: &mut Vec<ConnectionIndex>) {
        self.events.clear();
        self.events_at = 0;
        // Fast path for nearly all turns.
        if first.is_empty() && self.again.is_empty() {
            return;
        }
        for index in first.drain(..).chain(self.again.drain(..)) {
            // The connection may have been closed after it was listed.
            if let Some(key) = self.connections.key(index)
                && let Some(connection) = self.connections.at_mut(index)
            {
                connection.is_again = false;
                self.events.push(Event::readable(key.to_u64()));
            }
        }
        self.events.append(&mut self.later);
    }

    /// Postpones the rest of this turn's input to the next turn. The connections in `first` then
    /// precede others.
    #[cold]
    pub(crate) fn put_input_off(&mut self, first: &mut Vec<ConnectionIndex>) {
        if let Some(current) = self.input.current
            && let Some(connection) = self.connections.at_mut(current.index).known()
        {
            connection.has_unread = true;
            self.stash();
        }
        if self.events_at < self.events.len() {
            self.later.extend(self.events.drain(self.events_at..));
            // Make the next batch include `later`. No connection has this index.
            first.push(RELIEF.connection());
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
