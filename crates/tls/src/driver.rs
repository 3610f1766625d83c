//! The driver that adds TLS: maps descriptors to sessions, and reports events that the kernel does not know.

use std::fs::File;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;

use fermata_io::{Accepted, Driver, Event, Fd};
use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;

use crate::fd_map::{FdMap, FdSet};
use crate::handle::{Failure, Handle};
use crate::leaving::Leaving;
use crate::session::{SEND_BYTES, Session, SessionError};

/// First token for connections that were closed before their owner watched them. Owners' tokens have an index in their
/// low half and are outside of this range.
const OWN_TOKENS: u64 = 0xffff_fffe_f000_0000;

/// A driver that encrypts connections.
///
/// For connections without TLS it adds a comparison to each call.
pub struct Tls<D> {
    inner: D,
    handle: Rc<Handle>,
    /// Listeners whose connections use TLS.
    secured: FdSet,
    /// Listeners whose connections start with a plain-text header before TLS. Also these connections, with their tokens.
    prefaced: FdSet,
    awaited: FdMap<Fd, Option<u64>>,
    sessions: FdMap<Fd, Box<Session>>,
    /// Watched sessions that must process events before their owner does. Such a session has ciphertext that the kernel has not
    /// accepted, or is in a client's handshake.
    busy: FdMap<u64, Fd>,
    leaving: Leaving,
    /// Sessions with an event that the kernel does not report. The next wait reports these events.
    listed: Vec<Fd>,
    /// Buffers for received ciphertext and for ciphertext to send.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Buffer for the pieces of a `send`.
    gathered: Vec<u8>,
}

impl<D: Driver> Tls<D> {
    /// Wraps `inner`. `handle` contains the configuration and collects statistics.
    pub fn new(inner: D, handle: Rc<Handle>) -> Tls<D> {
        Tls {
            inner,
            handle,
            secured: FdSet::default(),
            prefaced: FdSet::default(),
            awaited: FdMap::default(),
            sessions: FdMap::default(),
            busy: FdMap::default(),
            leaving: Leaving::default(),
            listed: Vec::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// Makes connections accepted from `listener` use TLS from now on.
    pub fn secure(&mut self, listener: Fd) {
        self.secured.insert(listener);
    }

    /// Makes connections accepted from `listener` use TLS after a plain-text header. TLS starts when the owner has read the header
    /// and calls `begin`.
    pub fn secure_later(&mut self, listener: Fd) {
        self.secured.insert(listener);
        self.prefaced.insert(listener);
    }

    /// Starts TLS on an accepted connection. If this fails, the connection must be closed, because it must never continue
    /// unencrypted.
    fn begin_session(&mut self, fd: Fd) -> io::Result<()> {
        let conn = self
            .handle
            .config()
            .ok_or_else(|| io::Error::other("a TLS listener without a configuration"))
            .and_then(|config| UnbufferedServerConnection::new(config).map_err(io::Error::other))?;
        self.sessions.insert(fd, Box::new(Session::server(conn)));
        self.handle.opened(fd);
        Ok(())
    }

    /// Starts TLS on `fd`, an outgoing connection to the server `name`. Call this before `add_stream`.
    ///
    /// The handshake runs inside `wait`. The connection is reported as writable when the handshake is complete. Until then a send
    /// would block. A failure is reported as a hang-up, and `recv` returns the error.
    ///
    /// # Errors
    /// The configuration does not support the name.
    pub fn connect(
        &mut self,
        fd: Fd,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), rustls::Error> {
        let conn = UnbufferedClientConnection::new(config, name)?;
        self.sessions.insert(fd, Box::new(Session::client(conn)));
        self.handle.opened(fd);
        Ok(())
    }

    /// Returns the application protocol (ALPN) of a connection. Returns `None` if no protocol was negotiated or there is no
    /// session.
    pub fn protocol(&self, fd: Fd) -> Option<&[u8]> {
        self.sessions.get(&fd)?.protocol()
    }

    /// Returns the wrapped driver, for connections without a session.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Updates statistics and lists after a call on a session.
    fn settle(&mut self, fd: Fd) {
        let Some(session) = self.sessions.get_mut(&fd) else {
            // A connection without TLS.
            return;
        };
        if session.take_completion() {
            self.handle.count_handshake(session.is_resumed());
            if let Some(certificate) = session.peer_certificate()
                && !session.is_client()
            {
                self.handle.set_client(fd, certificate);
            }
        }
        if let Some(token) = session.token {
            let is_connecting = session.is_client() && session.is_handshaking();
            if session.has_unsent() || is_connecting {
                self.busy.insert(token, fd);
            }
        }
    }

    /// Records the owner's token of a descriptor, whose session may already have events.
    #[inline(never)]
    fn watch_session(&mut self, fd: Fd, token: u64) {
        let Some(session) = self.sessions.get_mut(&fd) else {
            // A connection without TLS.
            return;
        };
        session.token = Some(token);
        let has_events = session.has_events();
        self.settle(fd);
        if has_events {
            self.list(fd);
        }
    }

    /// Makes the next wait report `fd`, although the kernel will not.
    fn list(&mut self, fd: Fd) {
        if let Some(session) = self.sessions.get_mut(&fd)
            && session.token.is_some()
            && !std::mem::replace(&mut session.is_listed, true)
        {
            self.listed.push(fd);
        }
    }

    // This is a separate function, so that connections without a session need only a comparison and no stack frame.
    #[inline(never)]
    fn recv_session(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(session) = self.sessions.get_mut(&fd) else {
            // A connection without TLS.
            return self.inner.recv(fd, buf);
        };
        let received = session.recv(&mut self.inner, fd, buf, &mut self.incoming);
        match &received {
            // After this short read, the owner waits for an event before it reads again, so list the session.
            Ok(read) if *read != Some(0) && *read != Some(buf.len()) && session.has_events() => {
                self.list(fd);
            }
            Err(error) => {
                if let Some(failure) = SessionError::failure_in(error) {
                    self.handle.count_failure(failure);
                }
            }
            _ => {}
        }
        self.settle(fd);
        received
    }

    #[inline(never)]
    fn send_session(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        let Some(session) = self.sessions.get_mut(&fd) else {
            // A connection without TLS.
            return self.inner.send_one(fd, buf);
        };
        let sent = session.send(&mut self.inner, fd, buf, &mut self.outgoing);
        self.settle(fd);
        sent
    }

    /// Removes everything stored about a session.
    fn forget_session(&mut self, fd: Fd, session: &Session) {
        self.handle.closed(fd);
        if let Some(token) = session.token {
            self.busy.remove(&token);
        }
        if session.is_handshaking() && !session.is_fresh() && !session.is_client() {
            self.handle.count_failure(Failure::Abandoned);
        }
    }

    #[inline(never)]
    fn close_session(&mut self, fd: Fd, mut session: Box<Session>) {
        self.forget_session(fd, &session);
        session.finish(&mut self.outgoing);
        if session.flush(&mut self.inner, fd) {
            self.inner.close(fd);
            return;
        }
        let token = match session.token {
            Some(token) => token,
            None => {
                let token = OWN_TOKENS | u64::from(fd.cast_unsigned());
                if self.inner.add_stream(fd, token).is_err() {
                    self.inner.close(fd);
                    return;
                }
                token
            }
        };
        let bytes = session.into_unsent();
        self.leaving.add(&mut self.inner, fd, token, bytes);
        self.handle.set_leaving(self.leaving.len());
    }

    /// Processes an event. Returns the event for the owner, or `None`.
    fn handle_event(&mut self, mut event: Event) -> Option<Event> {
        if self.leaving.handle_event(&mut self.inner, &event) {
            self.handle.set_leaving(self.leaving.len());
            return None;
        }
        let Some(&fd) = self.busy.get(&event.token) else {
            // An event of a connection without a busy session.
            return Some(event);
        };
        let session = self.sessions.get_mut(&fd)?;
        let was_connecting = session.is_client() && session.is_handshaking();
        if was_connecting {
            session.advance(&mut self.inner, fd, &mut self.incoming);
        } else if event.writable {
            event.writable = session.flush(&mut self.inner, fd);
        }
        let has_unsent = session.has_unsent();
        let has_events = session.has_events();
        self.settle(fd);
        let session = self.sessions.get(&fd)?;
        if was_connecting {
            event.readable = has_events;
            event.writable = !session.is_handshaking() && !has_unsent;
            event.hangup = session.has_failed() || session.has_ended;
            event.readable |= event.hangup;
        }
        let is_connecting = session.is_client() && session.is_handshaking();
        if !has_unsent && !is_connecting {
            self.busy.remove(&event.token);
        }
        (event.readable || event.writable || event.hangup).then_some(event)
    }

    #[inline(never)]
    fn wait_with_sessions(
        &mut self,
        events: &mut Vec<Event>,
        timeout_ms: Option<u64>,
    ) -> io::Result<()> {
        let mut timeout_ms = timeout_ms;
        if !self.listed.is_empty() {
            timeout_ms = Some(0);
        } else if let Some(due_ms) = self.leaving.due_ms() {
            let rest_ms = due_ms.saturating_sub(self.inner.now_ms());
            timeout_ms = Some(timeout_ms.map_or(rest_ms, |ms| ms.min(rest_ms)));
        }
        let first = events.len();
        self.inner.wait(events, timeout_ms)?;
        if !self.busy.is_empty() || !self.leaving.is_empty() {
            let mut kept = first;
            for at in first..events.len() {
                if let Some(event) = self.handle_event(events[at]) {
                    events[kept] = event;
                    kept += 1;
                }
            }
            events.truncate(kept);
            self.leaving.expire(&mut self.inner);
            self.handle.set_leaving(self.leaving.len());
        }
        for fd in self.listed.drain(..) {
            // The descriptor may have been closed since then, and its number reused.
            if let Some(session) = self.sessions.get_mut(&fd)
                && std::mem::take(&mut session.is_listed)
                && let Some(token) = session.token
            {
                events.push(Event {
                    token,
                    readable: true,
                    writable: false,
                    hangup: session.has_ended || session.has_failed(),
                });
            }
        }
        Ok(())
    }
}

impl<D: Driver> Driver for Tls<D> {
    #[inline]
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    #[inline]
    fn refresh_now(&mut self) -> u64 {
        self.inner.refresh_now()
    }

    #[inline]
    fn now_us(&self) -> u64 {
        self.inner.now_us()
    }

    #[inline]
    fn unix_ms(&self) -> u64 {
        self.inner.unix_ms()
    }

    fn add_listener(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.inner.add_listener(fd, token)
    }

    #[inline]
    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.inner.add_stream(fd, token)?;
        // Only for connections that start with a plain-text header.
        if let Some(known) = self.awaited.get_mut(&fd) {
            *known = Some(token);
        }
        if !self.sessions.is_empty() {
            self.watch_session(fd, token);
        }
        Ok(())
    }

    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.inner.add_wake(fd, token)
    }

    fn remove(&mut self, fd: Fd) -> io::Result<()> {
        self.inner.remove(fd)
    }

    /// Returns false for TLS connections, because their keys cannot move to another process.
    fn release(&mut self, fd: Fd) -> bool {
        !self.sessions.contains_key(&fd)
            && !self.awaited.contains_key(&fd)
            && self.inner.release(fd)
    }

    /// Waits like the wrapped driver. Appends events of sessions beyond the maximum.
    #[inline]
    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()> {
        if self.sessions.is_empty() && self.leaving.is_empty() {
            return self.inner.wait(events, timeout_ms);
        }
        self.wait_with_sessions(events, timeout_ms)
    }

    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>> {
        let accepted = self.inner.accept(listener)?;
        if !self.secured.is_empty()
            && let Some(Accepted { fd, .. }) = accepted
            && self.secured.contains(&listener)
        {
            if self.prefaced.contains(&listener) {
                self.awaited.insert(fd, None);
            } else if let Err(error) = self.begin_session(fd) {
                self.inner.close(fd);
                return Err(error);
            }
        }
        Ok(accepted)
    }

    #[inline]
    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if self.sessions.is_empty() {
            return self.inner.recv(fd, buf);
        }
        self.recv_session(fd, buf)
    }

    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if self.sessions.is_empty() || !self.sessions.contains_key(&fd) {
            return self.inner.send(fd, bufs);
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut total = 0;
        let mut outcome = Ok(Some(0));
        let mut bufs = bufs.iter().peekable();
        while outcome.as_ref().is_ok_and(Option::is_some) && bufs.peek().is_some() {
            // Gather at least one piece, whatever its length is.
            gathered.clear();
            while let Some(buf) =
                bufs.next_if(|buf| gathered.is_empty() || gathered.len() + buf.len() <= SEND_BYTES)
            {
                gathered.extend_from_slice(buf);
            }
            outcome = self.send_session(fd, &gathered);
            if let Ok(Some(taken)) = outcome {
                total += taken;
                if taken < gathered.len() {
                    break;
                }
            }
        }
        if gathered.capacity() <= 2 * SEND_BYTES {
            self.gathered = gathered;
        }
        match outcome {
            Ok(None) if total > 0 => Ok(Some(total)),
            Ok(Some(_)) => Ok(Some(total)),
            outcome => outcome,
        }
    }

    #[inline]
    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        if self.sessions.is_empty() {
            return self.inner.send_one(fd, buf);
        }
        self.send_session(fd, buf)
    }

    fn can_send_file(&self, fd: Fd) -> bool {
        !self.sessions.contains_key(&fd) && self.inner.can_send_file(fd)
    }

    fn send_file(
        &mut self,
        fd: Fd,
        file: &File,
        offset: u64,
        len: usize,
    ) -> io::Result<Option<usize>> {
        if self.sessions.contains_key(&fd) {
            // Never send unencrypted on a TLS connection.
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.inner.send_file(fd, file, offset, len)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn leaving(&self) -> usize {
        self.leaving.len() + self.inner.leaving()
    }

    fn shutdown_write(&mut self, fd: Fd) {
        match self.sessions.get_mut(&fd) {
            Some(session) => {
                session.shutdown_write(&mut self.inner, fd, &mut self.outgoing);
                self.settle(fd);
            }
            None => self.inner.shutdown_write(fd),
        }
    }

    fn reset_on_close(&mut self, fd: Fd) {
        // Drop the session. Otherwise closing would wait until the client has received the ciphertext.
        if let Some(session) = self.sessions.remove(&fd) {
            self.forget_session(fd, &session);
        }
        self.inner.reset_on_close(fd);
    }

    fn unacknowledged(&self, fd: Fd) -> Option<usize> {
        self.inner.unacknowledged(fd)
    }

    fn begin(&mut self, fd: Fd) -> io::Result<()> {
        let Some(token) = self.awaited.remove(&fd) else {
            // TLS has already started, or the connection does not use it.
            return Ok(());
        };
        self.begin_session(fd)?;
        if let Some(token) = token {
            self.watch_session(fd, token);
        }
        Ok(())
    }

    #[inline]
    fn close(&mut self, fd: Fd) {
        if !self.sessions.is_empty()
            && let Some(session) = self.sessions.remove(&fd)
        {
            self.close_session(fd, session);
            return;
        }
        if !self.secured.is_empty() {
            self.secured.remove(&fd);
            self.prefaced.remove(&fd);
            self.awaited.remove(&fd);
        }
        self.inner.close(fd);
    }
}
