//! The clients of this worker, as long as somebody may want to know of them.

use std::collections::{HashMap, VecDeque};

use super::super::notices::Mode;
use super::note::{Client, Note};

#[derive(Debug)]
struct Known {
    client: Client,
    subscriptions: Vec<(Mode, Vec<u8>)>,
    /// Tells it from another with the same handle.
    serial: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Clients {
    known: HashMap<u64, Known>,
    counts: HashMap<(Mode, Vec<u8>), u64>,
    /// When each is told of again.
    due: VecDeque<(u64, u64, u64)>,
    again_ms: u64,
    serial: u64,
    /// Whether each is told of.
    is_told: bool,
}

impl Clients {
    pub fn new(again_ms: u64, is_told: bool) -> Self {
        Self {
            known: HashMap::new(),
            counts: HashMap::new(),
            due: VecDeque::new(),
            again_ms: again_ms.max(1),
            serial: 0,
            is_told,
        }
    }

    pub fn is_known(&self, handle: u64) -> bool {
        self.known.contains_key(&handle)
    }

    /// One that is held from now on.
    pub fn enter(&mut self, now_ms: u64, handle: u64, client: Client, notes: &mut Vec<Note>) {
        self.leave(handle, notes);
        self.serial += 1;
        if self.is_told {
            notes.push(Note::Client(client.clone()));
            let entry = (now_ms + self.again_ms, handle, self.serial);
            self.due.push_back(entry);
        }
        let known = Known {
            client,
            subscriptions: Vec::new(),
            serial: self.serial,
        };
        self.known.insert(handle, known);
    }

    pub fn leave(&mut self, handle: u64, notes: &mut Vec<Note>) {
        let Some(known) = self.known.remove(&handle) else {
            return;
        };
        for key in known.subscriptions {
            self.count_down(key, notes);
        }
        if self.is_told {
            notes.push(Note::Gone {
                id: known.client.id,
                route: known.client.route,
            });
        }
    }

    pub fn subscribe(&mut self, handle: u64, mode: Mode, channel: &[u8], notes: &mut Vec<Note>) {
        let Some(known) = self.known.get_mut(&handle) else {
            return;
        };
        let key = (mode, channel.to_vec());
        if known.subscriptions.contains(&key) {
            return;
        }
        known.subscriptions.push(key.clone());
        let count = self.counts.entry(key.clone()).or_default();
        *count += 1;
        notes.push(subscribers(key, *count));
    }

    pub fn unsubscribe(&mut self, handle: u64, channel: &[u8], notes: &mut Vec<Note>) {
        let Some(known) = self.known.get_mut(&handle) else {
            return;
        };
        let position = known.subscriptions.iter().position(|it| it.1 == channel);
        if let Some(at) = position {
            let key = known.subscriptions.swap_remove(at);
            self.count_down(key, notes);
        }
    }

    /// The channels of one.
    pub fn channels(&self, handle: u64) -> Vec<Vec<u8>> {
        let known = self.known.get(&handle).map(|it| &it.subscriptions[..]);
        let all = known.unwrap_or_default().iter();
        all.map(|(_, channel)| channel.clone()).collect()
    }

    fn count_down(&mut self, key: (Mode, Vec<u8>), notes: &mut Vec<Note>) {
        let count = self.counts.get(&key).map_or(0, |count| count - 1);
        match count {
            0 => self.counts.remove(&key),
            count => self.counts.insert(key.clone(), count),
        };
        notes.push(subscribers(key, count));
    }

    /// Those to be told of again.
    pub fn expire(&mut self, now_ms: u64, notes: &mut Vec<Note>) {
        while let Some(&(due_ms, handle, serial)) = self.due.front()
            && due_ms <= now_ms
        {
            self.due.pop_front();
            if let Some(known) = self.known.get(&handle)
                && known.serial == serial
            {
                notes.push(Note::Client(known.client.clone()));
                self.due.push_back((now_ms + self.again_ms, handle, serial));
            }
        }
    }

    /// Everything, for one that knows nothing.
    pub fn all(&self, notes: &mut Vec<Note>) {
        for (key, count) in &self.counts {
            notes.push(subscribers(key.clone(), *count));
        }
        if self.is_told {
            let clients = self.known.values();
            notes.extend(clients.map(|it| Note::Client(it.client.clone())));
        }
    }
}

fn subscribers((mode, channel): (Mode, Vec<u8>), count: u64) -> Note {
    Note::Subscribers {
        mode,
        channel,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str) -> Client {
        Client {
            id: id.into(),
            route: Vec::new(),
            peer: Vec::new(),
            is_websocket: false,
            is_tls: false,
        }
    }

    fn count(count: u64) -> Note {
        subscribers((Mode::Stream, b"c".to_vec()), count)
    }

    #[test]
    fn clients_count_until_they_leave() {
        let (mut clients, mut notes) = (Clients::new(10, true), Vec::new());
        clients.enter(0, 1, client("a"), &mut notes);
        clients.subscribe(1, Mode::Stream, b"c", &mut notes);
        clients.subscribe(1, Mode::Stream, b"c", &mut notes);
        clients.enter(0, 2, client("b"), &mut Vec::new());
        clients.subscribe(2, Mode::Stream, b"c", &mut notes);
        clients.unsubscribe(2, b"c", &mut notes);
        clients.leave(1, &mut notes);
        clients.leave(1, &mut notes);
        let gone = Note::Gone {
            id: b"a".to_vec(),
            route: Vec::new(),
        };
        assert_eq!(
            notes,
            [
                Note::Client(client("a")),
                count(1),
                count(2),
                count(1),
                count(0),
                gone
            ]
        );
        notes.clear();
        clients.expire(10, &mut notes);
        clients.expire(19, &mut notes);
        assert_eq!(notes, [Note::Client(client("b"))]);
        assert!(clients.counts.is_empty());
    }

    #[test]
    fn without_packets_for_each_only_channels_are_told() {
        let (mut clients, mut notes) = (Clients::new(10, false), Vec::new());
        clients.enter(0, 1, client("a"), &mut notes);
        clients.subscribe(1, Mode::Stream, b"c", &mut notes);
        clients.expire(100, &mut notes);
        clients.all(&mut notes);
        clients.leave(1, &mut notes);
        assert_eq!(notes, [count(1), count(1), count(0)]);
    }
}
