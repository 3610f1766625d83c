//! Connections from workers to the worker with the stats socket.
//!
//! A worker connects at its start and after each disconnect, and then sends its complete state.

use std::os::fd::OwnedFd;
use std::path::Path;

use fermata_config::LogLevel;
use fermata_engine::{WireEvent, WireId};

use crate::pushpin::stats::Role;
use crate::server::notices::Reports;
use crate::server::stats::Note;

/// Maximum number of bytes queued for the worker with the stats socket. Above it, the connection is closed, and the complete state
/// is sent again.
const OUT_BYTES_MAX: usize = 16 << 20;

impl Reports<'_> {
    /// Accepts connections of the other workers.
    pub fn listen_to_workers(&mut self, listener: OwnedFd) -> std::io::Result<()> {
        let wire = self.worker.net.listen_wires(listener)?;
        if let Some(Role::StatsPublisher(publisher)) = self.stats.as_mut().map(|it| &mut it.role) {
            publisher.feeders.listener = Some(wire);
        }
        Ok(())
    }

    /// Handles an event of a connection between workers. Returns false if the event belongs to another connection.
    pub fn on_feed(&mut self, event: WireEvent, buffer: &mut [u8]) -> bool {
        match self.stats.as_mut().map(|it| &mut it.role) {
            Some(Role::StatsPublisher(publisher))
                if publisher.feeders.listener == Some(event.wire) =>
            {
                self.accept_feeders(event.wire);
                true
            }
            Some(Role::StatsPublisher(publisher)) => {
                match publisher.feeders.inputs.remove(&event.wire) {
                    Some(input) => {
                        self.read_notes((event.wire, input), buffer);
                        true
                    }
                    None => false,
                }
            }
            Some(Role::Reporter(feed)) if feed.wire == Some(event.wire) => {
                if event.hangup {
                    self.end_feed()
                } else {
                    self.flush_feed()
                }
                true
            }
            Some(Role::Reporter(_)) | None => false,
        }
    }

    fn accept_feeders(&mut self, listener: WireId) {
        while let Ok(Some((wire, _))) = self.worker.net.accept_wire(listener) {
            if let Some(Role::StatsPublisher(publisher)) =
                self.stats.as_mut().map(|it| &mut it.role)
            {
                publisher.feeders.inputs.insert(wire, Vec::new());
            }
        }
    }

    fn read_notes(&mut self, (wire, mut input): (WireId, Vec<u8>), buffer: &mut [u8]) {
        let mut notes = Vec::new();
        let stays = loop {
            match self.worker.net.recv_wire(wire, buffer) {
                Ok(None) => break true,
                Ok(Some(0)) | Err(_) => break false,
                Ok(Some(len)) => {
                    input.extend_from_slice(&buffer[..len]);
                    if !Note::take(&mut input, &mut notes) {
                        break false;
                    }
                }
            }
        };
        self.take_notes(wire.to_raw(), notes);
        let now_ms = self.worker.net.now_ms();
        let Some(Role::StatsPublisher(publisher)) = self.stats.as_mut().map(|it| &mut it.role)
        else {
            return;
        };
        if stays {
            publisher.feeders.inputs.insert(wire, input);
            return;
        }
        let mut changes = Vec::new();
        publisher
            .channel_counts
            .forget(now_ms, wire.to_raw(), &mut changes);
        publisher.routes.forget(wire.to_raw());
        self.worker.net.close_wire(wire);
        self.send_changes(changes);
    }

    /// Connects to the worker with the stats socket, if not connected.
    pub(super) fn keep_feed(&mut self) {
        let Some(stats) = self.stats else {
            return;
        };
        let Role::Reporter(feed) = &mut stats.role else {
            return;
        };
        if feed.wire.is_some() {
            return;
        }
        // The next tick tries again.
        let Ok(wire) = self.worker.net.connect_unix(Path::new(&feed.path)) else {
            return;
        };
        feed.wire = Some(wire);
        feed.out.clear();
        let mut notes = Vec::new();
        stats.clients.all(&mut notes);
        self.send_notes(&notes);
    }

    /// Sends changes to the worker with the stats socket. Drops them without a connection, because the complete state is sent after
    /// connecting.
    pub(super) fn send_notes(&mut self, notes: &[Note]) {
        let Some(Role::Reporter(feed)) = self.stats.as_mut().map(|it| &mut it.role) else {
            return;
        };
        if feed.wire.is_none() {
            return;
        }
        let was_waiting = !feed.out.is_empty();
        for note in notes {
            note.write(&mut feed.out);
        }
        if feed.out.len() > OUT_BYTES_MAX {
            let line = "zmq_stats: the worker with the socket is behind, so all statistics are sent to it again";
            self.worker.net.log_for_client(LogLevel::Warning, line);
            self.end_feed();
        } else if !was_waiting {
            self.flush_feed();
        }
    }

    fn flush_feed(&mut self) {
        let Some(Role::Reporter(feed)) = self.stats.as_mut().map(|it| &mut it.role) else {
            return;
        };
        let Some(wire) = feed.wire else {
            return;
        };
        let mut sent = 0;
        let stays = loop {
            if sent == feed.out.len() {
                break true;
            }
            match self.worker.net.send_wire(wire, &feed.out[sent..]) {
                Ok(Some(len)) => sent += len,
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        feed.out.drain(..sent);
        if !stays {
            self.end_feed();
        }
    }

    fn end_feed(&mut self) {
        if let Some(Role::Reporter(feed)) = self.stats.as_mut().map(|it| &mut it.role) {
            feed.out.clear();
            if let Some(wire) = feed.wire.take() {
                self.worker.net.close_wire(wire);
            }
        }
    }
}
