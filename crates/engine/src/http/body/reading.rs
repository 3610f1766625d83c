//! The worker's part of bodies that handlers read while they arrive.

use fermata_io::{Deadline, Driver};

use super::early::{ARRIVING, Read, ReadError, StreamedBody};
use super::{BodyError, BodyRest, Partial, Plan, Sink, Temporary};
use crate::embed::waiting::WaitEvent;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::exchange::{Exchange, Stage};
use crate::http::request::Place;
use crate::id::RequestId;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Connection, Phase, Writing};
use crate::net::index::ExchangeIndex;
use crate::net::input::Step;
use crate::net::running::Running;

impl<D: Driver> Net<D> {
    /// Prepares a read: returns an earlier failure, and sends `100 Continue` if the client waits
    /// for it.
    fn begin_reading(&mut self, handle: RequestId) -> Result<(), ReadError> {
        let index = handle.exchange();
        let (_, exchange) = open_early(self.connections.pair_mut(index), handle)?;
        // An interim response must not interrupt a response that has started.
        let may_ask = exchange.body.is_none();
        let Some(early) = exchange.early_mut() else {
            return Err(ReadError::Gone);
        };
        if let Some(failure) = &early.failure {
            return Err(failure.clone());
        }
        if std::mem::take(&mut early.is_expected) && may_ask {
            self.send_continue(index.connection());
        }
        Ok(())
    }

    /// Notes that the handler waits for bytes, and sets the deadline.
    fn wait_for_body(&mut self, handle: RequestId) -> Result<Read, ReadError> {
        let index = handle.exchange();
        let now_ms = self.driver.refresh_now();
        let (_, exchange) = open_early(self.connections.pair_mut(index), handle)?;
        let earned_ms = exchange
            .early()
            .map(|(partial, _)| partial.pace.earned_ms(partial.received));
        if let Some(early) = exchange.early_mut()
            && early.waits_since_ms.is_none()
        {
            early.waits_since_ms = Some(now_ms);
            // A fast body must not save up time for a pause.
            early.waited_ms = early.waited_ms.max(earned_ms.unwrap_or(0));
        }
        let deadline = self.body_deadline(index);
        if deadline.is_due(now_ms) {
            self.end_waiting(index);
            let (_, exchange) = open_early(self.connections.pair_mut(index), handle)?;
            self.counts.refusal(408);
            return Err(fail_in(exchange, too_late()));
        }
        self.set_deadline(index.connection(), deadline);
        Ok(Read::Pending)
    }

    /// Returns the deadline of a handler that waits for the body; never if the handler does not
    /// wait.
    pub(crate) fn body_deadline(&self, index: ExchangeIndex) -> Deadline {
        let exchange = self.connections.exchange(index);
        let Some((partial, early)) = exchange.and_then(Exchange::early) else {
            return Deadline::NEVER;
        };
        let Some(since_ms) = early.waits_since_ms else {
            return Deadline::NEVER;
        };
        let allowed_ms = partial.pace.allowed_ms(partial.received);
        Deadline::after(since_ms, allowed_ms.saturating_sub(early.waited_ms))
    }

    /// Notes that the handler no longer waits for the body. Returns true if the handler was
    /// waiting.
    fn end_waiting(&mut self, index: ExchangeIndex) -> bool {
        let now_ms = self.driver.now_ms();
        let Some((connection, exchange)) = self.connections.pair_mut(index) else {
            return missed(false);
        };
        let is_blocked = connection.is_blocked;
        let Some(early) = exchange.early_mut() else {
            return false;
        };
        let Some(since_ms) = early.waits_since_ms.take() else {
            return false;
        };
        early.waited_ms += now_ms.saturating_sub(since_ms);
        if !is_blocked {
            connection.deadline = Deadline::NEVER;
        }
        true
    }
}

impl Http {
    /// Creates a temporary file for a body that the application stores itself. Returns it open for
    /// writing; dropping the second value deletes it.
    ///
    /// # Errors
    /// The file cannot be created in the directory for temporary files.
    pub fn new_temporary(&self) -> std::io::Result<(std::fs::File, Temporary)> {
        match self.spools.create() {
            Ok(spool) => Ok(spool.into_parts()),
            Err(BodyError::Io { source, .. }) => Err(source),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }

    /// Creates an unnamed file in the directory for temporary files. The kernel deletes the file
    /// when it is closed, also after a crash.
    ///
    /// # Errors
    /// It cannot be created there.
    pub fn new_unnamed(&self) -> std::io::Result<std::fs::File> {
        self.spools.create_unnamed()
    }

    /// Returns the bytes of the last [`Read::Piece`].
    pub fn body_piece(&self) -> &[u8] {
        &self.uploads.piece
    }
}

impl Http {
    /// See `Worker::read_body`.
    pub(crate) fn read_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        handle: RequestId,
        bytes_max: usize,
    ) -> Result<Read, ReadError> {
        let index = handle.exchange();
        if net
            .input
            .current
            .is_some_and(|current| current.index == index.connection())
        {
            // Move the bytes that arrived with the head to the inbox.
            net.stash();
        }
        let bytes_max = bytes_max.clamp(1, net.settings.body_piece_bytes_max);
        self.uploads.take_back_piece();
        net.begin_reading(handle)?;
        loop {
            let turn = self.uploads.turn;
            let (connection, exchange) = open_early(net.connections.pair_mut(index), handle)?;
            if let Some(early) = exchange.early_mut()
                && early.has_had_its_turn(turn)
            {
                early.awaits_turn = true;
                net.go_on(index.connection());
                return Ok(Read::Pending);
            }
            let raw = &mut self.uploads.raw;
            if !connection.inbox.is_empty() {
                let taken = connection.inbox.len().min(bytes_max);
                raw.clear();
                raw.extend_from_slice(&connection.inbox[..taken]);
                connection.inbox.drain(..taken);
                net.http2.consumed(connection.line, taken);
                if connection.inbox.is_empty() {
                    net.pool.give(std::mem::take(&mut connection.inbox));
                }
            } else if let Some(stream) = connection.line.stream() {
                if net.http2.is_reset(stream) {
                    return Err(fail_in(exchange, ReadError::Gone));
                }
                if !connection.has_ended {
                    set_drained(exchange, true);
                    return net.wait_for_body(handle);
                }
                raw.clear();
            } else if is_drained(exchange) {
                return net.wait_for_body(handle);
            } else {
                let Some(fd) = connection.line.socket() else {
                    return Err(ReadError::Gone);
                };
                raw.resize(bytes_max, 0);
                match net.driver.recv(fd, raw) {
                    Ok(Some(0)) => {
                        connection.has_ended = true;
                        return Err(fail_in(exchange, ReadError::Gone));
                    }
                    Ok(Some(read)) => {
                        raw.truncate(read);
                        set_drained(exchange, read < bytes_max && !connection.has_hung_up);
                        net.counts
                            .add(crate::admin::stats::Counter::BytesReceived, read as u64);
                    }
                    Ok(None) => {
                        set_drained(exchange, true);
                        return net.wait_for_body(handle);
                    }
                    Err(error) => {
                        net.note_recv_error(index.connection(), &error);
                        net.close_broken(self, index.connection(), &error);
                        return Err(ReadError::Gone);
                    }
                }
            }
            if let Some(early) = exchange.early_mut() {
                early.turn_bytes += self.uploads.raw.len();
            }
            if let Some(read) = self.take_piece(net, waiting, handle)? {
                return Ok(read);
            }
        }
    }
}

impl Http {
    /// Decodes the bytes that were read. `None` if they contain no content.
    fn take_piece<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        handle: RequestId,
    ) -> Result<Option<Read>, ReadError> {
        let index = handle.exchange();
        let is_serving = net.running == Running::Serving;
        let (connection, exchange) = open_early(net.connections.pair_mut(index), handle)?;
        let Stage::Handling(Some(partial)) = &mut exchange.stage else {
            return Err(ReadError::Gone);
        };
        let (raw, piece) = (&mut self.uploads.raw, &mut self.uploads.piece);
        let (consumed, is_done) = match &mut partial.rest {
            BodyRest::Length(missing) => {
                let taken = (*missing).min(raw.len() as u64) as usize;
                *missing -= taken as u64;
                if taken == raw.len() {
                    // All bytes belong to the body: no copy is needed.
                    std::mem::swap(raw, piece);
                } else {
                    piece.extend_from_slice(&raw[..taken]);
                }
                (taken, *missing == 0)
            }
            BodyRest::Stream { .. } if partial.received + raw.len() as u64 > partial.bytes_max => {
                let message = format!("the body is larger than {} bytes", partial.bytes_max);
                net.counts.refusal(413);
                return Err(fail_in(exchange, ReadError::Refused(413, message)));
            }
            BodyRest::Stream { .. } => {
                std::mem::swap(raw, piece);
                (
                    piece.len(),
                    connection.has_ended && connection.inbox.is_empty(),
                )
            }
            BodyRest::Chunked(decoder) => match decoder.decode(raw, piece, partial.bytes_max) {
                Ok(decoded) => (decoded.consumed, decoded.done),
                Err(refusal) => {
                    let message = match refusal.status() {
                        413 => format!("the body is larger than {} bytes", partial.bytes_max),
                        _ => refusal.to_string(),
                    };
                    net.counts.refusal(refusal.status());
                    let failure = ReadError::Refused(refusal.status(), message);
                    return Err(fail_in(exchange, failure));
                }
            },
        };
        partial.received += piece.len() as u64;
        if is_done {
            let keeps_alive = partial.early.as_ref().is_some_and(|it| it.keeps_alive);
            // A response head that was already sent has announced the close.
            connection.keeps_alive = keeps_alive && is_serving && exchange.body.is_none();
            if consumed < raw.len() {
                let mut inbox = net.pool.take();
                inbox.extend_from_slice(&raw[consumed..]);
                inbox.extend_from_slice(&connection.inbox);
                net.pool
                    .give(std::mem::replace(&mut connection.inbox, inbox));
            }
            let is_empty = piece.is_empty();
            waiting.end_reading(net, index);
            return Ok(Some(if is_empty { Read::End } else { Read::Last }));
        }
        Ok((!piece.is_empty()).then_some(Read::Piece))
    }
}

impl Waiting {
    /// Handles the end of the body. From here on, a client that closes its side counts as
    /// disconnected.
    fn end_reading<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        if let Some((connection, exchange)) = net.connections.pair_mut(index).known() {
            exchange.stage = Stage::Handling(None);
            if connection.has_hung_up {
                self.note_left(net, index);
            }
        }
    }

    /// Handles new bytes on a connection whose handler runs.
    pub(crate) fn note_arrived<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let Some(exchange) = net.connections.exchange_mut(index) else {
            return missed(());
        };
        let handle = exchange.handle(index);
        let Some(early) = exchange.early_mut() else {
            return;
        };
        early.is_drained = false;
        if std::mem::take(&mut early.awaits_turn) || net.end_waiting(index) {
            self.events.push_back(WaitEvent::Body(handle));
        }
    }

    /// Notifies a waiting handler that no more of its request's body can be read.
    pub(crate) fn wake_reader<D: Driver>(&mut self, net: &Net<D>, index: ExchangeIndex) {
        if let Some(exchange) = net.connections.exchange(index).known() {
            self.wake_reader_of(index, exchange);
        }
    }

    pub(crate) fn wake_reader_of(&mut self, index: ExchangeIndex, exchange: &Exchange) {
        if let Some((_, early)) = exchange.early()
            && early.is_waited_for()
        {
            self.events
                .push_back(WaitEvent::Body(exchange.handle(index)));
        }
    }

    /// Handles the deadline of a body that a handler reads.
    pub(crate) fn on_body_deadline<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        if net.body_deadline(index).is_never() || !net.end_waiting(index) {
            return;
        }
        net.counts.refusal(408);
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            fail_in(exchange, too_late());
            let handle = exchange.handle(index);
            self.events.push_back(WaitEvent::Body(handle));
        }
    }
}

impl Http {
    /// Delivers a request whose body has not arrived. The head is in `Request::head_bytes`.
    pub(crate) fn hand_out_early<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        rest: BodyRest,
        is_expected: bool,
        plan: &Plan,
    ) -> Step {
        let pace = net.body_pace(plan);
        let Some(connection) = net.connections.at_mut(index.connection()) else {
            return missed(Step::Starved);
        };
        let early = StreamedBody {
            keeps_alive: connection.keeps_alive,
            is_expected,
            is_drained: false,
            waits_since_ms: None,
            waited_ms: 0,
            turn: self.uploads.turn,
            turn_bytes: 0,
            awaits_turn: false,
            failure: None,
        };
        let partial = Box::new(Partial {
            head_bytes: Vec::new(),
            head: Default::default(),
            body: Vec::new(),
            rest,
            bytes_max: plan.bytes_max,
            pace,
            sink: Sink::Memory,
            received: 0,
            begun_ms: 0,
            early: Some(early),
        });
        // A response before the end of the body closes the connection: the client may still be
        // sending.
        connection.keeps_alive = false;
        connection.has_unread = true;
        self.request.body_bytes.clear();
        self.take_request(net, index, Place::Owned);
        if let Some(exchange) = net.connections.exchange_mut(index).known() {
            exchange.stage = Stage::Handling(Some(partial));
        }
        self.request.upload = ARRIVING;
        Step::Request
    }
}

/// Returns the connection of an open request whose body is read while it arrives.
fn open_early<'a>(
    pair: Option<(&'a mut Connection, &'a mut Exchange)>,
    handle: RequestId,
) -> Result<(&'a mut Connection, &'a mut Exchange), ReadError> {
    let serial = handle.serial();
    pair.filter(|(connection, exchange)| {
        exchange.serial == serial
            && exchange.early().is_some()
            && connection.writing == Writing::Open
            && connection.phase == Phase::Open
    })
    .ok_or(ReadError::Gone)
}

fn is_drained(exchange: &Exchange) -> bool {
    exchange.early().is_some_and(|(_, early)| early.is_drained)
}

fn set_drained(exchange: &mut Exchange, is_drained: bool) {
    if let Some(early) = exchange.early_mut() {
        early.is_drained = is_drained;
    }
}

/// Stores why no more can be read.
fn fail_in(exchange: &mut Exchange, failure: ReadError) -> ReadError {
    if let Some(early) = exchange.early_mut() {
        early.failure = Some(failure.clone());
    }
    failure
}

fn too_late() -> ReadError {
    let message = "the body took longer than body_timeout_ms";
    ReadError::Refused(408, message.to_owned())
}
