//! Unix sockets whose queue is full: whoever waits for a place there gets it in the order of coming, and the first tries
//! for all. A program that has enough to do is not asked more often the more wait for it.

use std::path::Path;

use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::room::WAITING_MAX;
use crate::upstream::talk::Talk;
use crate::upstream::unopened::Unopened;

/// How soon a socket that was full is tried again.
const ROOM_MS: u64 = 10;

impl Edge {
    /// A connection to a Unix socket; `None`: it has to wait for room.
    pub(super) fn connect_unix(
        &mut self,
        talk: &Talk,
        path: &str,
    ) -> Result<Option<u64>, Unopened> {
        let id = talk.id();
        if self.rooms.may_try(path, id) {
            match self.worker.connect_unix(Path::new(path)) {
                // Its program has enough to do for now.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                connected => {
                    self.rooms.leave(path, id);
                    return connected
                        .map(Some)
                        .map_err(|error| Unopened::of_connect(path, &error));
                }
            }
        }
        if !self.rooms.wait(path, id) {
            let reason = format!("{path}: it is full, and {WAITING_MAX} requests wait for room");
            return Err(Unopened::Target(reason));
        }
        let due_ms = self.worker.now_ms() + ROOM_MS;
        self.timers.at(due_ms, Timer::Room);
        Ok(None)
    }

    /// Unix sockets may have room again.
    pub(super) fn on_room(&mut self) {
        let paths: Vec<String> = self.rooms.0.keys().cloned().collect();
        for path in paths {
            while let Some(id) = self.rooms.first(&path) {
                let waits = |edge: &Self| {
                    let talk = edge.talks.get(&id);
                    talk.is_some_and(|talk| talk.waits_at(&path))
                };
                if waits(self) {
                    self.with_talk(id, |edge, talk| edge.open(talk, true));
                    if waits(self) && self.rooms.first(&path) == Some(id) {
                        break;
                    }
                }
                self.rooms.leave(&path, id);
            }
        }
        if !self.rooms.0.is_empty() {
            let due_ms = self.worker.now_ms() + ROOM_MS;
            self.timers.at(due_ms, Timer::Room);
        }
    }
}
