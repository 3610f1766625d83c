//! One connection's TLS state: records in and out of the kernel, plaintext to and from the owner.
//!
//! rustls keeps no buffers here (its "unbuffered" interface), so a session at rest is its keys and
//! three empty vectors. Reading follows the contract of `Driver::recv`: a short result means that the
//! socket was emptied and the next byte raises an event.

use std::io;

use fermata_io::{Driver, Fd};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{Error, HandshakeKind};

use crate::handle::Failure;

/// Ciphertext that one read takes at most.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Plaintext that is encrypted before the kernel is asked to take it: what a client that takes
/// nothing can make us keep.
pub(crate) const SEND_BYTES: usize = 64 * 1024;

/// Room for [`SEND_BYTES`] as records, and for what rustls wants to say before them.
pub(crate) const SEND_BUFFER_BYTES: usize = SEND_BYTES + 16 * 1024;

/// Answers to a client's key updates, tickets and alerts that may wait for the kernel besides data.
const UNSENT_BYTES_MAX: usize = 2 * SEND_BUFFER_BYTES;

/// Reads in a row that may give nothing for the owner before other clients get their turn.
const READS_MAX: usize = 16;

/// What a browser that was sent to the wrong scheme reads.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 59\r\nConnection: close\r\n\r\n\
    This port speaks TLS: the address begins with https or wss\n";

/// A failure that the owner may want to log; it travels inside an `io::Error`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("TLS: {text}")]
pub struct SessionError {
    /// What went wrong in the handshake; `None` after it.
    pub failure: Option<Failure>,
    /// Whether another name might have had another end.
    is_about_name: bool,
    text: String,
}

impl SessionError {
    /// Why a handshake failed, when that is what `error` tells.
    pub fn failure_in(error: &io::Error) -> Option<Failure> {
        error.get_ref()?.downcast_ref::<SessionError>()?.failure
    }

    fn is_about_name(error: &io::Error) -> bool {
        let told = error.get_ref().and_then(|it| it.downcast_ref::<Self>());
        told.is_some_and(|it| it.is_about_name)
    }
}

/// Whether a connection to a server has failed because of the name that it was asked for: its certificate is for others,
/// or it has refused the handshake, as servers do that have no certificate for a name.
pub fn is_about_name(error: &io::Error) -> bool {
    SessionError::is_about_name(error)
}

/// Of what rustls tells, the same.
fn blames_name(error: &rustls::Error) -> bool {
    use rustls::{CertificateError, Error};
    matches!(
        error,
        Error::AlertReceived(_)
            | Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            )
    )
}

/// Which end we are. A server has thousands of the one and none of the other, whose larger state is
/// therefore boxed.
#[expect(clippy::large_enum_variant)]
enum Conn {
    Server(UnbufferedServerConnection),
    Client(Box<UnbufferedClientConnection>),
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A client has not sent anything.
    Fresh,
    /// Keys are being agreed on.
    Handshaking,
    /// Data flows.
    Open,
    /// It broke; the alert that says why may still be on its way.
    Failed,
}

/// One encrypted connection.
pub(crate) struct Session {
    conn: Conn,
    pub phase: Phase,
    /// The token its owner watches it with.
    pub token: Option<u64>,
    /// The front of a record or handshake message whose rest has not arrived.
    incoming: Vec<u8>,
    /// Plaintext that did not fit the owner's buffer.
    plain: Vec<u8>,
    /// Ciphertext that the kernel has not taken, and how much of its front it has since.
    outgoing: Vec<u8>,
    outgoing_sent: usize,
    /// The peer will send nothing more.
    pub has_ended: bool,
    /// Our last record has been produced: nothing more is encrypted.
    has_finished: bool,
    /// End the kernel's sending side when everything has gone out.
    shuts_down: bool,
    /// What the next call has to report.
    error: Option<io::Error>,
    /// The socket may hold more, and its owner is to come back without an event of the kernel.
    has_more: bool,
    /// Listed to be reported once more, because the kernel does not know what we have.
    pub is_listed: bool,
}

impl Session {
    pub fn server(conn: UnbufferedServerConnection) -> Session {
        Session::new(Conn::Server(conn), Phase::Fresh)
    }

    pub fn client(conn: UnbufferedClientConnection) -> Session {
        let mut session = Session::new(Conn::Client(Box::new(conn)), Phase::Handshaking);
        // Its first flight depends on nothing that the server says.
        session.process(&mut Vec::new(), &mut Sink::none());
        session
    }

    fn new(conn: Conn, phase: Phase) -> Session {
        Session {
            conn,
            phase,
            token: None,
            incoming: Vec::new(),
            plain: Vec::new(),
            outgoing: Vec::new(),
            outgoing_sent: 0,
            has_ended: false,
            has_finished: false,
            shuts_down: false,
            error: None,
            has_more: false,
            is_listed: false,
        }
    }

    /// Reads and decrypts until the socket is empty or `buf` is full.
    pub fn recv<D: Driver>(
        &mut self,
        driver: &mut D,
        fd: Fd,
        buf: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> io::Result<Option<usize>> {
        let kept = self.plain.len().min(buf.len());
        buf[..kept].copy_from_slice(&self.plain[..kept]);
        self.plain.drain(..kept);
        if self.plain.is_empty() {
            self.plain = Vec::new();
        }
        let mut sink = Sink {
            buf,
            filled: kept,
            rest: Vec::new(),
        };
        let mut reads = 0;
        self.has_more = false;
        while sink.has_room() && !self.has_ended && self.error.is_none() {
            if reads == READS_MAX {
                self.has_more = true;
                break;
            }
            reads += 1;
            let emptied = self.read(driver, fd, &mut sink, scratch);
            // An owner who gets nothing would not come back for an end of stream that was reported
            // together with what we have used up, so it is looked for here.
            if emptied == Emptied::Wholly || (emptied == Emptied::ByShortRead && sink.filled > 0) {
                break;
            }
        }
        let filled = sink.filled;
        if !sink.rest.is_empty() {
            self.plain = sink.rest;
        }
        if filled > 0 {
            return Ok(Some(filled));
        }
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        Ok(self.has_ended.then_some(0))
    }

    /// Goes on with a handshake that its owner does not drive by reading.
    pub fn advance<D: Driver>(&mut self, driver: &mut D, fd: Fd, scratch: &mut Vec<u8>) {
        let mut sink = Sink::none();
        if self.flush(driver, fd) {
            // A server's flight is far smaller than so many reads.
            for _ in 0..READS_MAX {
                if self.has_ended || self.error.is_some() {
                    break;
                }
                if self.read(driver, fd, &mut sink, scratch) == Emptied::Wholly {
                    break;
                }
            }
        }
        self.plain.append(&mut sink.rest);
    }

    /// One read of the socket and what follows from it.
    fn read<D: Driver>(
        &mut self,
        driver: &mut D,
        fd: Fd,
        sink: &mut Sink<'_>,
        scratch: &mut Vec<u8>,
    ) -> Emptied {
        let kept = self.incoming.len();
        if scratch.len() < kept + READ_BYTES {
            scratch.resize(kept + READ_BYTES, 0);
        }
        scratch[..kept].copy_from_slice(&self.incoming);
        let emptied = match driver.recv(fd, &mut scratch[kept..kept + READ_BYTES]) {
            Ok(Some(0)) => {
                // Without a close_notify it may have been cut by somebody else. HTTP and WebSocket
                // frame their messages, so what was cut is seen to be incomplete there.
                self.has_ended = true;
                return Emptied::Wholly;
            }
            Ok(Some(read)) => {
                let mut records = std::mem::take(scratch);
                let filled = kept + read;
                self.handle_records(&mut records[..filled], sink);
                *scratch = records;
                if read < READ_BYTES {
                    Emptied::ByShortRead
                } else {
                    Emptied::Unknown
                }
            }
            Ok(None) => return Emptied::Wholly,
            Err(error) => {
                self.fail_io(error);
                return Emptied::Wholly;
            }
        };
        if !self.outgoing.is_empty() {
            self.flush(driver, fd);
        }
        emptied
    }

    /// Takes in what has arrived and keeps what is incomplete.
    fn handle_records(&mut self, records: &mut [u8], sink: &mut Sink<'_>) {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Handshaking;
            // No TLS record begins with a letter, and every method of HTTP does.
            if records.first().is_some_and(u8::is_ascii_uppercase) {
                self.outgoing.extend_from_slice(PLAIN_HTTP_ANSWER);
                self.fail_with(
                    Some(Failure::PlainHttp),
                    "plain HTTP on a TLS port".to_owned(),
                );
                return;
            }
        }
        let used = self.process_slice(records, sink);
        if self.has_ended || self.phase == Phase::Failed || used == records.len() {
            self.incoming = Vec::new();
        } else {
            self.incoming.clear();
            self.incoming.extend_from_slice(&records[used..]);
        }
        if self.outgoing.len() > UNSENT_BYTES_MAX {
            let text = "the peer makes us answer and reads nothing".to_owned();
            self.fail_with(None, text);
        }
    }

    fn process(&mut self, records: &mut Vec<u8>, sink: &mut Sink<'_>) {
        let used = self.process_slice(records, sink);
        records.drain(..used);
    }

    /// Lets rustls work until it needs more. Returns how many bytes it is done with.
    fn process_slice(&mut self, records: &mut [u8], sink: &mut Sink<'_>) -> usize {
        let mut used = 0;
        loop {
            let (discard, step) = self.step(&mut records[used..], sink, Job::Read);
            used += discard;
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Waits | Step::Written(_)) => return used,
                Ok(Step::PeerEnded) => self.has_ended = true,
                Err(error) => {
                    let failure = self.is_handshaking().then(|| Failure::of(&error));
                    self.fail(SessionError {
                        failure,
                        is_about_name: self.is_client() && failure.is_some() && blames_name(&error),
                        text: error.to_string(),
                    });
                    // What rustls has to say before the alert that tells the peer why, and the alert. It still refers
                    // to the same bytes, looks at them again when it has said all, and then fails again.
                    while let (discard, Ok(Step::Again)) =
                        self.step(&mut records[used..], &mut Sink::none(), Job::Read)
                    {
                        used += discard;
                    }
                    return records.len();
                }
            }
        }
    }

    /// Encrypts `bytes` and gives them to the kernel. `None`: nothing was taken, an event comes.
    pub fn send<D: Driver>(
        &mut self,
        driver: &mut D,
        fd: Fd,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> io::Result<Option<usize>> {
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        match self.phase {
            Phase::Open if !self.has_finished => {}
            // The server waits until the client writes; a client, until it may write.
            Phase::Handshaking if matches!(self.conn, Conn::Client(_)) => return Ok(None),
            _ => return Err(io::ErrorKind::NotConnected.into()),
        }
        if !self.flush(driver, fd) {
            return self.take_error().map_or(Ok(None), Err);
        }
        scratch.resize(SEND_BUFFER_BYTES, 0);
        let mut taken = 0;
        for piece in bytes.chunks(SEND_BYTES) {
            let length = self.encrypt(Some(piece), scratch)?;
            taken += piece.len();
            if !self.transmit(driver, fd, &scratch[..length])? {
                break;
            }
        }
        Ok(Some(taken))
    }

    /// Gives fresh ciphertext to the kernel and keeps what it does not take. True: it took all.
    fn transmit<D: Driver>(&mut self, driver: &mut D, fd: Fd, bytes: &[u8]) -> io::Result<bool> {
        let sent = driver.send_one(fd, bytes)?.unwrap_or(0);
        self.outgoing.extend_from_slice(&bytes[sent..]);
        Ok(sent == bytes.len())
    }

    /// Encrypts `piece`, or our goodbye when there is none, and before it whatever rustls wants to
    /// say first.
    fn encrypt(&mut self, piece: Option<&[u8]>, out: &mut [u8]) -> io::Result<usize> {
        debug_assert!(self.outgoing.is_empty());
        let mut incoming = std::mem::take(&mut self.incoming);
        let mut sink = Sink::none();
        let mut outcome = Err(io::ErrorKind::NotConnected.into());
        loop {
            let job = match piece {
                Some(piece) => Job::Encrypt(piece, out),
                None => Job::Notify(out),
            };
            let (discard, step) = self.step(&mut incoming, &mut sink, job);
            incoming.drain(..discard);
            match step {
                Ok(Step::Again) => continue,
                Ok(Step::PeerEnded) => {
                    self.has_ended = true;
                    continue;
                }
                Ok(Step::Written(length)) => outcome = Ok(length),
                Ok(Step::Waits) => {}
                Err(error) => outcome = Err(io::Error::other(error)),
            }
            break;
        }
        self.incoming = incoming;
        self.plain.append(&mut sink.rest);
        let length = outcome?;
        // Rare: rustls had something to say first.
        let first = std::mem::take(&mut self.outgoing);
        if first.is_empty() {
            return Ok(length);
        }
        if first.len() + length > out.len() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        out.copy_within(..length, first.len());
        out[..first.len()].copy_from_slice(&first);
        Ok(first.len() + length)
    }

    /// Sends what waits. True when nothing is left, or nothing ever will go.
    pub fn flush<D: Driver>(&mut self, driver: &mut D, fd: Fd) -> bool {
        while self.has_unsent() {
            match driver.send_one(fd, &self.outgoing[self.outgoing_sent..]) {
                Ok(Some(sent)) => self.outgoing_sent += sent,
                Ok(None) => return false,
                Err(error) => {
                    self.outgoing_sent = self.outgoing.len();
                    self.fail_io(error);
                }
            }
        }
        self.outgoing = Vec::new();
        self.outgoing_sent = 0;
        if std::mem::take(&mut self.shuts_down) {
            driver.shutdown_write(fd);
        }
        true
    }

    /// Says goodbye behind everything that was sent.
    pub fn finish(&mut self, scratch: &mut Vec<u8>) {
        if self.phase == Phase::Open && !self.has_finished {
            self.has_finished = true;
            scratch.resize(SEND_BUFFER_BYTES, 0);
            let mut unsent = std::mem::take(&mut self.outgoing);
            if let Ok(length) = self.encrypt(None, scratch) {
                unsent.extend_from_slice(&scratch[..length]);
            }
            self.outgoing = unsent;
        }
    }

    /// Says goodbye and ends the sending side behind it.
    pub fn shutdown_write<D: Driver>(&mut self, driver: &mut D, fd: Fd, scratch: &mut Vec<u8>) {
        self.finish(scratch);
        self.shuts_down = true;
        self.flush(driver, fd);
    }

    pub fn has_unsent(&self) -> bool {
        self.outgoing_sent < self.outgoing.len()
    }

    /// What the kernel has not taken, for somebody who goes on without the session.
    pub fn into_unsent(mut self) -> Vec<u8> {
        self.outgoing.drain(..self.outgoing_sent);
        self.outgoing
    }

    /// There is something to report that no event of the kernel will tell.
    pub fn has_news(&self) -> bool {
        !self.plain.is_empty() || self.has_ended || self.has_more || self.error.is_some()
    }

    /// Nothing has arrived so far.
    pub fn is_fresh(&self) -> bool {
        self.phase == Phase::Fresh
    }

    pub fn has_failed(&self) -> bool {
        self.phase == Phase::Failed
    }

    pub fn is_client(&self) -> bool {
        matches!(self.conn, Conn::Client(_))
    }

    pub fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Fresh | Phase::Handshaking)
    }

    /// True once: the handshake has just been completed.
    pub fn take_completion(&mut self) -> bool {
        let is_handshaking = match &self.conn {
            Conn::Server(conn) => conn.is_handshaking(),
            Conn::Client(conn) => conn.is_handshaking(),
        };
        let is_complete = self.phase == Phase::Handshaking && !is_handshaking;
        if is_complete {
            self.phase = Phase::Open;
        }
        is_complete
    }

    pub fn is_resumed(&self) -> bool {
        let kind = match &self.conn {
            Conn::Server(conn) => conn.handshake_kind(),
            Conn::Client(conn) => conn.handshake_kind(),
        };
        kind == Some(HandshakeKind::Resumed)
    }

    /// The application protocol (ALPN) that both ends have agreed on.
    pub fn protocol(&self) -> Option<&[u8]> {
        match &self.conn {
            Conn::Server(conn) => conn.alpn_protocol(),
            Conn::Client(conn) => conn.alpn_protocol(),
        }
    }

    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        match &self.conn {
            Conn::Server(conn) => conn.peer_certificates()?.first(),
            Conn::Client(conn) => conn.peer_certificates()?.first(),
        }
    }

    fn take_error(&mut self) -> Option<io::Error> {
        match self.error.take() {
            None if self.phase == Phase::Failed => Some(io::ErrorKind::NotConnected.into()),
            error => error,
        }
    }

    fn fail_io(&mut self, error: io::Error) {
        self.phase = Phase::Failed;
        self.incoming = Vec::new();
        self.error.get_or_insert(error);
    }

    fn fail(&mut self, error: SessionError) {
        self.fail_io(io::Error::new(io::ErrorKind::InvalidData, error));
    }

    fn fail_with(&mut self, failure: Option<Failure>, text: String) {
        self.fail(SessionError {
            failure,
            is_about_name: false,
            text,
        });
    }

    fn step(
        &mut self,
        records: &mut [u8],
        sink: &mut Sink<'_>,
        job: Job<'_>,
    ) -> (usize, Result<Step, Error>) {
        let out = &mut self.outgoing;
        match &mut self.conn {
            Conn::Server(conn) => act(conn.process_tls_records(records), sink, out, job),
            Conn::Client(conn) => act(conn.process_tls_records(records), sink, out, job),
        }
    }
}

/// Whether a read has left nothing in the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Emptied {
    /// It has, or there will never be more.
    Wholly,
    /// It has, but an end of stream may stand behind it.
    ByShortRead,
    /// There may be more.
    Unknown,
}

/// What to do when rustls has nothing else to do.
enum Job<'a> {
    /// Nothing: this is about what has arrived.
    Read,
    /// Encrypt these bytes to that place.
    Encrypt(&'a [u8], &'a mut [u8]),
    /// Write our goodbye to that place.
    Notify(&'a mut [u8]),
}

/// What rustls has done.
enum Step {
    /// Something; there may be more to do.
    Again,
    /// It needs more from the peer.
    Waits,
    /// The job, which has produced so many bytes.
    Written(usize),
    /// The peer has said goodbye.
    PeerEnded,
}

/// Where plaintext goes: to the owner's buffer, and what does not fit to the session.
struct Sink<'a> {
    buf: &'a mut [u8],
    filled: usize,
    rest: Vec<u8>,
}

impl Sink<'_> {
    /// Everything goes to the session.
    fn none() -> Sink<'static> {
        Sink {
            buf: &mut [],
            filled: 0,
            rest: Vec::new(),
        }
    }

    fn has_room(&self) -> bool {
        self.filled < self.buf.len()
    }

    fn put(&mut self, bytes: &[u8]) {
        let space = &mut self.buf[self.filled..];
        let fits = bytes.len().min(space.len());
        space[..fits].copy_from_slice(&bytes[..fits]);
        self.filled += fits;
        self.rest.extend_from_slice(&bytes[fits..]);
    }
}

/// Does what rustls asks for. Returns the bytes at the front of the records that are done with.
fn act<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    sink: &mut Sink<'_>,
    outgoing: &mut Vec<u8>,
    job: Job<'_>,
) -> (usize, Result<Step, Error>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let step = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        sink.put(record.payload);
                    }
                    Err(error) => return (discard, Err(error)),
                }
            }
            Step::Again
        }
        ConnectionState::EncodeTlsData(mut message) => {
            let at = outgoing.len();
            // The first attempt asks for the length.
            if let Err(EncodeError::InsufficientSize(missing)) = message.encode(&mut []) {
                outgoing.resize(at + missing.required_size, 0);
                let written = message.encode(&mut outgoing[at..]).unwrap_or(0);
                outgoing.truncate(at + written);
            }
            Step::Again
        }
        ConnectionState::TransmitTlsData(message) => {
            // `outgoing` is sent in this order before anything else.
            message.done();
            Step::Again
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            let written = match job {
                Job::Read => return (discard, Ok(Step::Waits)),
                Job::Encrypt(bytes, out) => traffic.encrypt(bytes, out),
                Job::Notify(out) => traffic.queue_close_notify(out),
            };
            match written {
                Ok(length) => Step::Written(length),
                Err(error) => return (discard, Err(Error::General(error.to_string()))),
            }
        }
        ConnectionState::PeerClosed => Step::PeerEnded,
        // `BlockedHandshake` and `Closed`; early data is switched off.
        _ => Step::Waits,
    };
    (discard, Ok(step))
}
