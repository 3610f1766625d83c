//! Unix sockets whose queue is full: whoever waits for a place there gets it in the order of coming, and the first tries
//! for all. A program that has enough to do is not asked more often the more wait for it.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use crate::routes::Origin;

use super::edge::Edge;
use super::origin::{Talk, Wait};
use super::timers::Timer;
use super::unopened::Unopened;

/// How soon a socket that was full is tried again.
const ROOM_MS: u64 = 10;

/// Conversations that may wait for one socket.
const WAITING_MAX: usize = 4_096;

/// Who waits, by the socket's path. Conversations that have ended meanwhile are passed over when it is their turn.
#[derive(Debug, Default)]
pub(super) struct Rooms(HashMap<String, VecDeque<u64>>);

impl Rooms {
    /// Whether a conversation may try: nobody waits, or it is the first.
    fn may_try(&self, path: &str, id: u64) -> bool {
        self.first(path).is_none_or(|first| first == id)
    }

    /// A conversation waits, where it was if it was the first; false: too many do.
    fn wait(&mut self, path: &str, id: u64) -> bool {
        let queue = self.0.entry(path.to_owned()).or_default();
        if queue.front() == Some(&id) {
            return true;
        }
        let has_room = queue.len() < WAITING_MAX;
        if has_room {
            queue.push_back(id);
        }
        has_room
    }

    /// The first waits no longer, if it is this one.
    fn leave(&mut self, path: &str, id: u64) {
        let Some(queue) = self.0.get_mut(path) else {
            return;
        };
        if queue.front() == Some(&id) {
            queue.pop_front();
        }
        if queue.is_empty() {
            self.0.remove(path);
        }
    }

    fn first(&self, path: &str) -> Option<u64> {
        self.0.get(path)?.front().copied()
    }
}

impl Talk {
    /// Whether it waits for room at a socket.
    fn waits_at(&self, path: &str) -> bool {
        let target = self.source.target().map(|it| &it.origin);
        let is_there = match target {
            Some(Origin::Unix(own) | Origin::FastCgiUnix(own)) => own == path,
            _ => false,
        };
        is_there && self.waits == Some(Wait::Room)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_came_is_the_first_that_tries() {
        let mut rooms = Rooms::default();
        assert!(rooms.may_try("a", 1) && rooms.wait("a", 1));
        assert!(!rooms.may_try("a", 2) && rooms.wait("a", 2));
        assert!(rooms.may_try("b", 2));
        // It was tried in vain.
        assert!(rooms.may_try("a", 1) && rooms.wait("a", 1));
        assert_eq!(rooms.first("a"), Some(1));
        rooms.leave("a", 2);
        rooms.leave("a", 1);
        assert!(rooms.may_try("a", 2) && !rooms.may_try("a", 3));
        rooms.leave("a", 2);
        assert!(rooms.0.is_empty());
    }

    #[test]
    fn who_waits_is_bounded() {
        let mut rooms = Rooms::default();
        assert!((0..WAITING_MAX as u64).all(|id| rooms.wait("a", id)));
        assert!(!rooms.wait("a", u64::MAX) && rooms.wait("a", 0));
    }
}
