//! TLS state of one connection: records from and to the kernel, plaintext from and to the owner.
//!
//! rustls keeps no buffers here (its "unbuffered" interface), so an idle session is its keys and three empty vectors.
//! Reading follows the contract of `Driver::recv`: a short result means that the socket is empty and the next byte
//! raises an event.

use std::io;

use fermata_io::{Driver, Fd};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{Error, HandshakeKind};

use crate::handle::Failure;
use crate::server::HTTP2;

/// Maximum ciphertext per read.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Maximum plaintext that is encrypted before the kernel accepts it: the memory that a client can occupy by not
/// reading.
pub(crate) const SEND_BYTES: usize = 64 * 1024;

/// Space for [`SEND_BYTES`] as records, and for messages of rustls before them.
pub(crate) const SEND_BUFFER_BYTES: usize = SEND_BYTES + 16 * 1024;

/// Maximum unsent bytes of responses to key updates, tickets and alerts, in addition to data.
const UNSENT_BYTES_MAX: usize = 2 * SEND_BUFFER_BYTES;

/// Maximum consecutive reads without plaintext for the owner, before other clients get their turn.
const READS_MAX: usize = 16;

/// Response for a browser that connects with the wrong scheme.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 59\r\nConnection: close\r\n\r\n\
    This port speaks TLS: the address begins with https or wss\n";

/// A failure that the owner may log; it is the inner error of an `io::Error`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("TLS: {text}")]
pub struct SessionError {
    /// Reason of a failed handshake; `None` after the handshake.
    pub failure: Option<Failure>,
    /// True if another server name might have succeeded.
    is_about_name: bool,
    text: String,
}

impl SessionError {
    /// Returns the reason of a failed handshake, if `error` contains such a reason.
    pub fn failure_in(error: &io::Error) -> Option<Failure> {
        error.get_ref()?.downcast_ref::<SessionError>()?.failure
    }

    fn is_about_name(error: &io::Error) -> bool {
        let told = error.get_ref().and_then(|it| it.downcast_ref::<Self>());
        told.is_some_and(|it| it.is_about_name)
    }
}

/// Returns true if a connection to a server failed because of the requested name. Either the certificate is for other
/// names, or the server rejected the handshake, as servers without a certificate for the name do.
pub fn is_about_name(error: &io::Error) -> bool {
    SessionError::is_about_name(error)
}

/// Returns true if the rustls error depends on the requested name.
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

/// Side of the connection. Servers have thousands of sessions and hardly any clients, so the larger client state is
/// boxed.
#[expect(clippy::large_enum_variant)]
enum Conn {
    Server(UnbufferedServerConnection),
    Client(Box<UnbufferedClientConnection>),
}

/// Progress of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client has not sent anything.
    Fresh,
    /// The handshake is in progress.
    Handshaking,
    /// The handshake is complete.
    Open,
    /// The session failed; its alert may not be sent yet.
    Failed,
}

/// Start of every HTTP/2 connection (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Header of an empty DATA frame on stream 0, which is invalid.
const EMPTY_DATA_FRAME: [u8; 9] = [0; 9];

/// One encrypted connection.
pub(crate) struct Session {
    conn: Conn,
    pub phase: Phase,
    /// Token that the owner watches the connection with.
    pub token: Option<u64>,
    /// Start of an incomplete record or handshake message.
    incoming: Vec<u8>,
    /// Plaintext that did not fit into the owner's buffer.
    plain: Vec<u8>,
    /// Ciphertext that the kernel had not accepted, and the number of its bytes sent since.
    outgoing: Vec<u8>,
    outgoing_sent: usize,
    /// True if the peer will send nothing more.
    pub has_ended: bool,
    /// True once the last record was produced: nothing more is encrypted.
    has_finished: bool,
    /// True to close the kernel's sending side when everything is sent.
    shuts_down: bool,
    /// Error for the next call to return.
    error: Option<io::Error>,
    /// True if the socket may hold more, so that the owner must read again without an event of the kernel.
    has_more: bool,
    /// True if listed for a report, because the kernel does not know the stored data.
    pub is_listed: bool,
    /// Number of bytes of the HTTP/2 preface that the client has sent. `None`: no preface is expected, or it is complete.
    preface: Option<u8>,
}

impl Session {
    pub fn server(conn: UnbufferedServerConnection) -> Session {
        let mut session = Session::new(Conn::Server(conn), Phase::Fresh);
        session.preface = Some(0);
        session
    }

    pub fn client(conn: UnbufferedClientConnection) -> Session {
        let mut session = Session::new(Conn::Client(Box::new(conn)), Phase::Handshaking);
        // The first flight does not depend on the server.
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
            preface: None,
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
        let received = self.decrypt(driver, fd, buf, scratch);
        if let (Some(seen), &Ok(Some(read @ 1..))) = (self.preface, &received) {
            return self.check_preface(usize::from(seen), buf, read);
        }
        received
    }

    /// Enforces the negotiated `h2`. Other bytes than the preface reach the owner as a preface followed by an invalid
    /// frame. They therefore cause an HTTP/2 connection error (RFC 9113, section 3.4) and are never parsed as another
    /// protocol.
    #[cold]
    fn check_preface(
        &mut self,
        seen: usize,
        buf: &mut [u8],
        read: usize,
    ) -> io::Result<Option<usize>> {
        if self.protocol() != Some(HTTP2) {
            self.preface = None;
            return Ok(Some(read));
        }
        let rest = &HTTP2_PREFACE[seen..];
        let compared = rest.len().min(read);
        if rest[..compared] == buf[..compared] {
            let seen = seen + compared;
            self.preface = (seen < HTTP2_PREFACE.len()).then_some(seen as u8);
            return Ok(Some(read));
        }
        self.preface = None;
        let instead = [rest, &EMPTY_DATA_FRAME].concat();
        match buf.get_mut(..instead.len()) {
            Some(room) => {
                room.copy_from_slice(&instead);
                Ok(Some(instead.len()))
            }
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn decrypt<D: Driver>(
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
            // Look for an end of stream that was reported together with the processed bytes: an owner that gets no bytes
            // would not read again.
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

    /// Continues a client's handshake, which its owner does not drive by reading.
    pub fn advance<D: Driver>(&mut self, driver: &mut D, fd: Fd, scratch: &mut Vec<u8>) {
        let mut sink = Sink::none();
        if self.flush(driver, fd) {
            // The handshake messages of a server need far fewer reads. The limit stops a server that sends without end.
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

    /// Reads the socket once and processes the bytes.
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
                // Without close_notify an attacker may have truncated the stream. HTTP and WebSocket frame their
                // messages, so they detect the truncation.
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

    /// Processes received records and stores an incomplete record.
    fn handle_records(&mut self, records: &mut [u8], sink: &mut Sink<'_>) {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Handshaking;
            // No TLS record starts with a letter, and every HTTP method does.
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

    /// Lets rustls process records until it needs more. Returns the number of bytes consumed.
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
                    // Collect pending messages and the alert with the reason. rustls still refers to the same bytes,
                    // processes them again after its last message, and then fails again.
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

    /// Encrypts `bytes` and passes them to the kernel. Returns `None` if nothing was accepted; an event follows.
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
            // A server's send fails before the handshake is complete; a client waits until it can write.
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

    /// Passes new ciphertext to the kernel and stores the bytes that it does not accept. Returns true if it accepted all.
    fn transmit<D: Driver>(&mut self, driver: &mut D, fd: Fd, bytes: &[u8]) -> io::Result<bool> {
        let sent = driver.send_one(fd, bytes)?.unwrap_or(0);
        self.outgoing.extend_from_slice(&bytes[sent..]);
        Ok(sent == bytes.len())
    }

    /// Encrypts `piece`, or a close_notify if it is `None`, preceded by pending messages of rustls.
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
        // Rare: rustls had messages to send first.
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

    /// Sends stored ciphertext. Returns true if nothing is left, or the connection is broken.
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

    /// Appends close_notify after everything that was sent.
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

    /// Sends close_notify and closes the sending side after it.
    pub fn shutdown_write<D: Driver>(&mut self, driver: &mut D, fd: Fd, scratch: &mut Vec<u8>) {
        self.finish(scratch);
        self.shuts_down = true;
        self.flush(driver, fd);
    }

    pub fn has_unsent(&self) -> bool {
        self.outgoing_sent < self.outgoing.len()
    }

    /// Returns the unsent bytes, to be sent without the session.
    pub fn into_unsent(mut self) -> Vec<u8> {
        self.outgoing.drain(..self.outgoing_sent);
        self.outgoing
    }

    /// Returns true if there is something to report for which the kernel raises no event.
    pub fn has_events(&self) -> bool {
        !self.plain.is_empty() || self.has_ended || self.has_more || self.error.is_some()
    }

    /// Returns true if nothing has arrived yet.
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

    /// Returns true once, when the handshake has completed.
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

    /// Returns the negotiated application protocol (ALPN).
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

/// State of the socket after a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Emptied {
    /// Empty, and nothing more will arrive without an event.
    Wholly,
    /// Empty, but the end of the stream may follow without an event.
    ByShortRead,
    /// Possibly not empty.
    Unknown,
}

/// Work to do when rustls has no other.
enum Job<'a> {
    /// There is no other work. Only process received records.
    Read,
    /// Encrypt these bytes into that buffer.
    Encrypt(&'a [u8], &'a mut [u8]),
    /// Write close_notify into that buffer.
    Notify(&'a mut [u8]),
}

/// Result of one step of rustls.
enum Step {
    /// Progress; there may be more to do.
    Again,
    /// More bytes from the peer are needed.
    Waits,
    /// The job is done and produced this many bytes.
    Written(usize),
    /// The peer sent close_notify.
    PeerEnded,
}

/// Destination of plaintext: the owner's buffer, then the session.
struct Sink<'a> {
    buf: &'a mut [u8],
    filled: usize,
    rest: Vec<u8>,
}

impl Sink<'_> {
    /// Creates a sink that stores all plaintext in the session.
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

/// Performs the action that rustls requests. Returns the number of consumed bytes at the front of the records.
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
            // The first call returns the required length.
            if let Err(EncodeError::InsufficientSize(missing)) = message.encode(&mut []) {
                outgoing.resize(at + missing.required_size, 0);
                let written = message.encode(&mut outgoing[at..]).unwrap_or(0);
                outgoing.truncate(at + written);
            }
            Step::Again
        }
        ConnectionState::TransmitTlsData(message) => {
            // `outgoing` is always sent first and in order.
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
        // `BlockedHandshake` and `Closed`; early data is disabled.
        _ => Step::Waits,
    };
    (discard, Ok(step))
}
