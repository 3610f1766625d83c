//! Connections that the kernel has accepted and the engine has not taken yet.

use std::collections::VecDeque;
use std::io;

use super::Uring;
use super::ring::Completion;
use super::slot::Listener;
use crate::Deadline;
use crate::descriptors::lift_raw;
use crate::driver::{Accepted, Fd};
use crate::sys::socket;

/// Maximum number of accepted connections of a listener that the engine has not taken. Above it, accepting stops until half of them
/// are taken. The completion queue may contain as many in addition.
const ACCEPTED_MAX: usize = 1024;
/// Intervals between checks of a listener's queue after it is first watched.
///
/// The kernel wakes one ring for a connection. The ring of a killed process is dismantled some time after its successor starts. If
/// the kernel selects that ring before, the connection is not accepted, and would wait until the next connection arrives.
pub(super) const LOOKS_MS: [u64; 4] = [10, 90, 900, 4_000];

impl Uring {
    fn listener(&mut self, fd: Fd) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|it| it.fd == fd)
    }

    pub(super) fn watch_listener(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        let generation = self.slot(fd).generation;
        if self.listener(fd).is_none() {
            self.listeners.push(Listener {
                fd,
                token,
                generation,
                is_watched: false,
                is_accepting: false,
                is_stopping: false,
                errno: 0,
                accepted: VecDeque::new(),
                look: Deadline::NEVER,
                looks: 0,
            });
        }
        let Some(listener) = self.listeners.iter_mut().find(|it| it.fd == fd) else {
            return Ok(());
        };
        if std::mem::replace(&mut listener.is_watched, true) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        listener.token = token;
        listener.errno = 0;
        listener.looks = 0;
        listener.look = Deadline::after(self.now_ms, LOOKS_MS[0]);
        self.accept_on();
        Ok(())
    }

    /// Stops watching a listener; returns `None` if `fd` is not a listener.
    pub(super) fn unwatch_listener(&mut self, fd: Fd) -> Option<io::Result<()>> {
        let listener = self.listener(fd)?;
        if !std::mem::replace(&mut listener.is_watched, false) {
            return Some(Err(io::ErrorKind::NotFound.into()));
        }
        if listener.is_accepting {
            let ticket = listener.ticket();
            // Connections accepted so far are reaped here. Later connections stay in the kernel's queue for other processes that
            // listen on the socket.
            let cancelled = self.ring.cancel_now(ticket);
            self.reap();
            return Some(cancelled);
        }
        Some(Ok(()))
    }

    /// Removes a listener. Returns true if `fd` was a listener.
    pub(super) fn close_listener(&mut self, fd: Fd) -> bool {
        // Fails if the listener is not watched, which has the same result.
        let _ = self.unwatch_listener(fd);
        let Some(at) = self.listeners.iter().position(|it| it.fd == fd) else {
            return false;
        };
        for fd in self.listeners.swap_remove(at).accepted {
            socket::close(fd);
        }
        true
    }

    pub(super) fn take_accepted(&mut self, fd: Fd) -> io::Result<Option<Accepted>> {
        let Some(listener) = self.listener(fd) else {
            return socket::accept(fd);
        };
        if let Some(fd) = listener.accepted.pop_front() {
            return match socket::peer_of(fd) {
                Ok(peer) => Ok(Some(Accepted {
                    fd: lift_raw(fd),
                    peer,
                })),
                Err(_) => {
                    socket::close(fd);
                    Err(io::ErrorKind::ConnectionAborted.into())
                }
            };
        }
        match std::mem::take(&mut listener.errno) {
            0 if listener.is_accepting => Ok(None),
            // The kernel accepts no connections for this listener now, so accept directly.
            0 => socket::accept(fd),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Starts accepting on watched listeners where the kernel does not.
    pub(super) fn accept_on(&mut self) {
        for listener in &mut self.listeners {
            if listener.is_watched
                && !listener.is_accepting
                && listener.errno == 0
                && listener.accepted.len() <= ACCEPTED_MAX / 2
            {
                listener.is_accepting = true;
                self.ring.accept(listener.ticket());
            }
        }
    }

    /// Returns the time of the next check of a listener.
    pub(super) fn look(&self) -> Deadline {
        let watched = self.listeners.iter().filter(|it| it.is_watched);
        watched.map(|it| it.look).min().unwrap_or(Deadline::NEVER)
    }

    /// Accepts connections that wait although the kernel accepts for their listener; see [`LOOKS_MS`].
    pub(super) fn look_at_listeners(&mut self) {
        let now_ms = self.now_ms;
        for listener in &mut self.listeners {
            if !listener.is_watched || !listener.look.is_due(now_ms) {
                continue;
            }
            listener.looks += 1;
            listener.look = match LOOKS_MS.get(listener.looks) {
                Some(after_ms) => Deadline::after(now_ms, *after_ms),
                None => Deadline::NEVER,
            };
            // Ignore errors such as a lack of descriptors: the kernel's own accept reports them.
            while listener.accepted.len() < ACCEPTED_MAX
                && let Ok(Some(accepted)) = socket::accept(listener.fd)
            {
                listener.accepted.push_back(accepted.fd);
            }
        }
    }

    pub(super) fn on_accept(&mut self, done: Completion) {
        let ticket = done.ticket;
        let listener = self.listeners.iter_mut().find(|it| it.ticket() == ticket);
        let Some(listener) = listener else {
            // The listener was closed, so the connection has no receiver.
            if done.result >= 0 {
                socket::close(done.result);
            }
            return;
        };
        if !done.has_more {
            listener.is_accepting = false;
            listener.is_stopping = false;
        }
        if done.result >= 0 {
            listener.accepted.push_back(done.result);
            if listener.accepted.len() >= ACCEPTED_MAX
                && listener.is_accepting
                && !std::mem::replace(&mut listener.is_stopping, true)
            {
                self.ring.cancel(ticket);
            }
        } else if done.result != -libc::ECANCELED {
            listener.errno = -done.result;
        }
    }
}
