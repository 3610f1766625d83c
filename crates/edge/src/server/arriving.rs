//! Request bodies that arrive after their heads.
//!
//! A small body is collected first, because the edge may have to send a held client's request again. A large body is forwarded
//! while it arrives. While the origin accepts no bytes, the edge does not read from the client. A body without a length is
//! collected in a temporary file if the target needs the length.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::{Read, ReadError, RequestId};
use fermata_fastcgi::codec as fastcgi;

use crate::client::body::{Arriving, Collected, Collecting, PIECE_BYTES_MAX, TURN_BYTES_MAX};
use crate::client::clients::Clients;
use crate::client::request::Body;
use crate::client::source::{Engine, Owner, Source};
use crate::server::edge::Edge;
use crate::timers::{Timer, Timers};
use crate::upstream::codec::{Codec, write_end, write_piece};
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::UpstreamExchange;

/// Bytes read at a time from a body in a file.
pub(super) const FILE_PIECE_BYTES: usize = 64 * 1024;

impl Edge {
    /// Collects the body of a request up to the size with which a client may be held.
    pub(super) fn collect(&mut self, handle: RequestId, source: Source, sockjs: Option<usize>) {
        let collecting = Collecting {
            source,
            sockjs,
            body: Vec::new(),
            file: None,
        };
        if collecting.source.request.is_grpc() && collecting.may_stream() {
            // The client may wait for the response before it sends more.
            self.ask_collected(handle, collecting, false);
            return;
        }
        self.clients.bodies.collect(handle, collecting);
        self.collect_on(handle);
    }

    /// Handles body bytes that may have arrived.
    pub(super) fn on_body_arrived(&mut self, handle: RequestId) {
        if !self.collect_on(handle) {
            self.with_exchange_of(handle, |turn, exchange| turn.pump(exchange));
        }
    }

    /// Continues to read a body that is being collected. Returns false if no body of this request is being collected.
    fn collect_on(&mut self, handle: RequestId) -> bool {
        match self.clients.bodies.collect_on(&mut self.worker, handle) {
            None => return false,
            Some(Collected::Waits) => {}
            Some(Collected::Turn) => {
                let now_ms = self.worker.net.now_ms();
                self.timers.at(now_ms, Timer::Body(handle));
            }
            Some(Collected::Whole(it)) => self.ask_collected(handle, *it, true),
            Some(Collected::Streams(it)) => self.ask_collected(handle, *it, false),
            Some(Collected::Failed(ReadError::Gone)) => {
                self.clients.forget_request(&mut self.worker, handle)
            }
            Some(Collected::Failed(ReadError::Refused(status, reason))) => {
                self.clients
                    .answer_text(&mut self.worker, handle, status, &format!("{reason}."));
            }
            Some(Collected::Unstored(error)) => {
                self.clients.fail_to_store(&mut self.worker, handle, &error)
            }
        }
        true
    }

    fn ask_collected(&mut self, handle: RequestId, it: Collecting, is_whole: bool) {
        let Collecting {
            mut source,
            sockjs,
            body,
            file,
        } = it;
        let length = source.request.declared_length();
        let body = match file {
            Some((_, temporary, bytes)) => {
                let path = temporary.path().to_owned();
                self.clients.bodies.keep_temporary(handle, temporary);
                Body::File { path, bytes }
            }
            None if is_whole => Body::Memory(body),
            None => Body::Arriving {
                first: body,
                length,
            },
        };
        match Rc::get_mut(&mut source.request) {
            Some(request) => request.body = body,
            // Cannot happen: a request has only one owner while its body is collected.
            None => return,
        }
        match sockjs {
            Some(at) => self.begin_sockjs(handle, source, at, false),
            None => self.ask_with_session(handle, source),
        }
    }
}

impl UpstreamExchange {
    /// Opens the body of the request. Bytes in memory were sent with the head.
    pub(super) fn open_body(&mut self) -> Result<(), UpstreamError> {
        self.out.clear();
        self.sent = 0;
        self.arriving = None;
        self.file = None;
        match &self.source.request.body {
            Body::None | Body::Memory(_) => {}
            Body::Arriving { .. } => self.arriving = Some(Arriving::default()),
            Body::File { path, .. } => {
                let problem = |error| UpstreamError::Local(format!("{}: {error}", path.display()));
                self.file = Some(File::open(path).map_err(problem)?);
            }
        }
        Ok(())
    }

    /// Queues the next piece of the body. Returns false if none is available now.
    pub(super) fn refill(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        turn_bytes: &mut usize,
    ) -> io::Result<bool> {
        let Some(file) = &mut self.file else {
            return Ok(self.read_on(timers, worker, turn_bytes));
        };
        let mut piece = vec![0; FILE_PIECE_BYTES];
        let read = file.read(&mut piece)?;
        piece.truncate(read);
        self.out.clear();
        self.sent = 0;
        match (&self.codec, read) {
            (Codec::Http(_) | Codec::Zhttp(_) | Codec::Http2, _) => self.out = piece,
            (Codec::FastCgi(_), 0) => fastcgi::Request::body_end(&mut self.out),
            (Codec::FastCgi(_), _) => fastcgi::Request::body(&mut self.out, &piece),
        }
        if read == 0 {
            self.file = None;
        }
        Ok(true)
    }

    /// Reads more of the client's body. Sends directly from the receive buffer and queues the bytes that the origin does not
    /// accept. Returns false if nothing is queued.
    fn read_on(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        turn_bytes: &mut usize,
    ) -> bool {
        let Owner::Client(handle) = self.owner else {
            return false;
        };
        let Some(arriving) = &mut self.arriving else {
            return false;
        };
        if arriving.has_ended || arriving.failure.is_some() {
            return false;
        }
        if *turn_bytes >= TURN_BYTES_MAX {
            let now_ms = worker.net.now_ms();
            timers.at(now_ms, Timer::Body(handle));
            return false;
        }
        let read = worker.read_body(handle, PIECE_BYTES_MAX);
        let piece = match &read {
            Ok(Read::Pending) => return false,
            Err(failure) => {
                arriving.failure = Some(failure.clone());
                return false;
            }
            Ok(Read::Piece | Read::Last) => worker.http.body_piece(),
            Ok(Read::End) => &[],
        };
        arriving.has_begun = true;
        *turn_bytes += piece.len();
        self.noted.body_bytes += piece.len() as u64;
        self.out.clear();
        self.sent = 0;
        let has_length = self.source.request.declared_length().is_some();
        let is_as_it_came = has_length && matches!(self.codec, Codec::Http(_));
        let sent = match self.wire {
            // Ignore an error: the next write, which sends the rest, fails with the same error.
            Some(wire) if is_as_it_came && !piece.is_empty() => {
                let sent = worker.net.send_wire(wire, piece);
                sent.ok().flatten().unwrap_or_default()
            }
            _ => 0,
        };
        write_piece(&self.codec, has_length, &piece[sent..], &mut self.out);
        if read != Ok(Read::Piece) {
            arriving.has_ended = true;
            write_end(&self.codec, has_length, &mut self.out);
        }
        true
    }
}

impl Clients {
    fn fail_to_store(&mut self, worker: &mut Engine, handle: RequestId, error: &io::Error) {
        let line = format!(
            "a body cannot be stored in the folder for temporary files: {error}; free space there"
        );
        worker.net.log_for_client(LogLevel::Error, &line);
        let text = "The server cannot store the body; its log tells why.";
        self.answer_text(worker, handle, 507, text);
    }

    /// Handles an error of reading the rest of a body. The client receives an error; the origin does not receive the end of the
    /// body.
    pub(super) fn on_body_failure(
        &mut self,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
        failure: &ReadError,
    ) {
        let Owner::Client(handle) = exchange.owner else {
            return;
        };
        match failure {
            ReadError::Refused(status, reason) if !exchange.has_begun_answer() => {
                self.answer_text(worker, handle, *status, &format!("{reason}."));
            }
            _ => {
                worker.drop_stream(handle);
                self.forget_request(worker, handle);
            }
        }
    }
}
