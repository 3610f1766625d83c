//! The clients of this worker, for stats packets.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use crate::stats::mode::Mode;
use crate::stats::note::{Client, Note};

/// The modes, ordered by their numbers.
const MODES: [Mode; 3] = [Mode::Response, Mode::Stream, Mode::Socket];

/// Maximum number of shared route names; more exist only if route files change.
const ROUTES_KEPT: usize = 1_024;

/// Maximum number of queue entries of departed clients, in addition to the entries of present clients.
const LEFT_DUE_MAX: usize = 1_024;

/// A client. This struct takes about a hundred bytes, because there may be very many clients.
#[derive(Debug)]
struct Known {
    peer: Option<IpAddr>,
    /// Route of the client. All clients of a route share one copy.
    route: Rc<[u8]>,
    is_websocket: bool,
    is_tls: bool,
    /// Distinguishes this client from another client with the same handle.
    serial: u32,
    /// Id given by the client's origin. `None`: the origin gave no id.
    id: Option<Box<[u8]>>,
    /// Subscriptions of the client. The names are shared with `counts`.
    subscriptions: Vec<(Mode, Rc<[u8]>)>,
}

/// A client that starts being held.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Id given by the client's origin.
    pub id: Option<&'a [u8]>,
    /// Address of the client. `None`: the address is unknown, as on a Unix socket.
    pub peer: Option<IpAddr>,
    /// Id of the client's route. Empty: the route has no id.
    pub route: &'a [u8],
    /// True if the client uses a WebSocket.
    pub is_websocket: bool,
    /// True if the client uses TLS.
    pub is_tls: bool,
}

/// Clients of one route that are subscribed to one channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counted {
    route: Rc<[u8]>,
    channel: Rc<[u8]>,
}

/// All held clients of a worker.
#[derive(Debug)]
pub struct Clients {
    known: HashMap<u64, Known>,
    /// Number of subscriptions per route and channel, for each mode.
    counts: [HashMap<Counted, u64>; 3],
    /// Number of clients per route.
    by_route: HashMap<Rc<[u8]>, u64>,
    routes: HashSet<Rc<[u8]>>,
    /// Time of each client's next report.
    due: VecDeque<(u64, u64, u32)>,
    again_ms: u64,
    serial: u32,
    /// True if each client is reported.
    is_reported: bool,
    /// Prefix of the handles in client ids. It ensures that ids from an earlier process match no client.
    own: Own,
}

/// A worker and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Index of the worker.
    pub worker: u16,
    /// Number of the worker's process.
    pub process: u32,
}

impl Clients {
    /// Creates the collection without clients.
    pub fn new(again_ms: u64, is_reported: bool, own: Own) -> Self {
        Self {
            known: HashMap::new(),
            counts: Default::default(),
            by_route: HashMap::new(),
            routes: HashSet::new(),
            due: VecDeque::new(),
            again_ms: again_ms.max(1),
            serial: 0,
            is_reported,
            own,
        }
    }

    /// Returns true if this client is held.
    pub fn is_known(&self, handle: u64) -> bool {
        self.known.contains_key(&handle)
    }

    /// Finds a client by its id. Returns `Some(true)` if the client uses a WebSocket.
    pub fn find(&self, id: &[u8]) -> Option<bool> {
        let (_, handle) = std::str::from_utf8(id).ok()?.rsplit_once(':')?;
        let handle = u64::from_str_radix(handle, 16).ok()?;
        let known = self.known.get(&handle)?;
        let is_it = known.id.is_none() && id_of(self.own, handle) == id;
        is_it.then_some(known.is_websocket)
    }

    /// Adds a client that starts being held.
    pub fn enter(&mut self, now_ms: u64, handle: u64, held: Held<'_>, notes: &mut Vec<Note>) {
        self.leave(handle, notes);
        self.serial = self.serial.wrapping_add(1);
        let known = Known {
            peer: held.peer,
            route: self.route(held.route),
            is_websocket: held.is_websocket,
            is_tls: held.is_tls,
            id: held.id.map(Box::from),
            serial: self.serial,
            subscriptions: Vec::new(),
        };
        if self.is_reported {
            notes.push(Note::Client(known.reported(self.own, handle)));
            let entry = (now_ms + self.again_ms, handle, self.serial);
            self.due.push_back(entry);
        }
        let route = Rc::clone(&known.route);
        self.known.insert(handle, known);
        self.bound_due();
        if !route.is_empty() {
            let count = self.by_route.entry(Rc::clone(&route)).or_default();
            *count += 1;
            notes.push(connections(&route, *count));
        }
    }

    /// Removes a client that is not held any more.
    pub fn leave(&mut self, handle: u64, notes: &mut Vec<Note>) {
        let Some(known) = self.known.remove(&handle) else {
            // The client was never added, or was already removed.
            return;
        };
        let route = Rc::clone(&known.route);
        for (mode, channel) in known.subscriptions {
            self.count_down(mode, Rc::clone(&route), channel, notes);
        }
        if !route.is_empty() {
            let count = self.by_route.get(&route).map_or(0, |count| count - 1);
            notes.push(connections(&route, count));
            match count {
                0 => self.by_route.remove(&route),
                count => self.by_route.insert(Rc::clone(&route), count),
            };
        }
        if self.is_reported {
            notes.push(Note::Gone {
                id: known.id.map_or_else(|| id_of(self.own, handle), Vec::from),
                route: known.route.to_vec(),
            });
        }
    }

    /// Adds a subscription of a held client.
    pub fn subscribe(&mut self, handle: u64, mode: Mode, channel: &[u8], notes: &mut Vec<Note>) {
        let Some(known) = self.known.get_mut(&handle) else {
            // It has left.
            return;
        };
        let is_same = |it: &(Mode, Rc<[u8]>)| it.0 == mode && *it.1 == *channel;
        if known.subscriptions.iter().any(is_same) {
            return;
        }
        let counts = &mut self.counts[mode as usize];
        let counted = Counted {
            route: Rc::clone(&known.route),
            channel: Rc::from(channel),
        };
        // All clients share one copy of the name.
        let counted = match counts.get_key_value(&counted) {
            Some((counted, _)) => counted.clone(),
            None => counted,
        };
        // Most clients have one subscription.
        known.subscriptions.reserve_exact(1);
        known
            .subscriptions
            .push((mode, Rc::clone(&counted.channel)));
        let count = counts.entry(counted).or_default();
        *count += 1;
        notes.push(subscribers(mode, &known.route, channel, *count));
    }

    /// Removes a subscription of a client.
    pub fn unsubscribe(&mut self, handle: u64, channel: &[u8], notes: &mut Vec<Note>) {
        let Some(known) = self.known.get_mut(&handle) else {
            // The client has left.
            return;
        };
        let position = known.subscriptions.iter().position(|it| *it.1 == *channel);
        if let Some(at) = position {
            let (mode, channel) = known.subscriptions.swap_remove(at);
            let route = Rc::clone(&known.route);
            self.count_down(mode, route, channel, notes);
        }
    }

    /// Returns the channels of a client.
    pub fn channels(&self, handle: u64) -> Vec<Vec<u8>> {
        let known = self.known.get(&handle).map(|it| &it.subscriptions[..]);
        let all = known.unwrap_or_default().iter();
        all.map(|(_, channel)| channel.to_vec()).collect()
    }

    fn count_down(
        &mut self,
        mode: Mode,
        route: Rc<[u8]>,
        channel: Rc<[u8]>,
        notes: &mut Vec<Note>,
    ) {
        let counts = &mut self.counts[mode as usize];
        let counted = Counted { route, channel };
        let count = counts.get(&counted).map_or(0, |count| count - 1);
        notes.push(subscribers(mode, &counted.route, &counted.channel, count));
        match count {
            0 => counts.remove(&counted),
            count => counts.insert(counted, count),
        };
    }

    /// Returns a shared copy of the route name. Forgets all copies when there are more than [`ROUTES_KEPT`].
    fn route(&mut self, name: &[u8]) -> Rc<[u8]> {
        if let Some(known) = self.routes.get(name) {
            return Rc::clone(known);
        }
        if self.routes.len() >= ROUTES_KEPT {
            self.routes.clear();
        }
        let name: Rc<[u8]> = Rc::from(name);
        self.routes.insert(Rc::clone(&name));
        name
    }

    /// Removes queue entries of departed clients when they outnumber the other entries.
    fn bound_due(&mut self) {
        if self.due.len() > LEFT_DUE_MAX + 2 * self.known.len() {
            let known = &self.known;
            self.due.retain(|(_, handle, serial)| {
                known.get(handle).is_some_and(|it| it.serial == *serial)
            });
            self.due.shrink_to(LEFT_DUE_MAX + 2 * known.len());
        }
    }

    /// Appends the notes about clients that are due.
    pub fn expire(&mut self, now_ms: u64, notes: &mut Vec<Note>) {
        while let Some(&(due_ms, handle, serial)) = self.due.front()
            && due_ms <= now_ms
        {
            self.due.pop_front();
            if let Some(known) = self.known.get(&handle)
                && known.serial == serial
            {
                notes.push(Note::Client(known.reported(self.own, handle)));
                self.due.push_back((now_ms + self.again_ms, handle, serial));
            }
        }
    }

    /// Appends notes about everything, for a receiver without state.
    pub fn all(&self, notes: &mut Vec<Note>) {
        for (mode, counts) in MODES.iter().zip(&self.counts) {
            for (Counted { route, channel }, count) in counts {
                notes.push(subscribers(*mode, route, channel, *count));
            }
        }
        let by_route = self.by_route.iter();
        notes.extend(by_route.map(|(route, count)| connections(route, *count)));
        if self.is_reported {
            let clients = self.known.iter();
            notes.extend(clients.map(|(&handle, it)| Note::Client(it.reported(self.own, handle))));
        }
    }
}

impl Known {
    /// Returns the description of the client for notes.
    fn reported(&self, own: Own, handle: u64) -> Client {
        let given = self.id.as_ref().map(|id| id.to_vec());
        Client {
            id: given.unwrap_or_else(|| id_of(own, handle)),
            route: self.route.to_vec(),
            peer: self
                .peer
                .map_or(Vec::new(), |ip| ip.to_string().into_bytes()),
            is_websocket: self.is_websocket,
            is_tls: self.is_tls,
        }
    }
}

fn id_of(own: Own, handle: u64) -> Vec<u8> {
    let Own { worker, process } = own;
    format!("{worker}:{process}:{handle:x}").into_bytes()
}

fn connections(route: &[u8], count: u64) -> Note {
    Note::Connections {
        route: route.to_vec(),
        count,
    }
}

fn subscribers(mode: Mode, route: &[u8], channel: &[u8], count: u64) -> Note {
    Note::Subscribers {
        mode,
        route: route.to_vec(),
        channel: channel.to_vec(),
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Own = Own {
        worker: 7,
        process: 42,
    };

    const HELD: Held<'_> = Held {
        id: None,
        peer: None,
        route: b"r",
        is_websocket: false,
        is_tls: false,
    };

    fn client(id: &str) -> Client {
        Client {
            id: id.into(),
            route: b"r".to_vec(),
            peer: Vec::new(),
            is_websocket: false,
            is_tls: false,
        }
    }

    fn count(count: u64) -> Note {
        subscribers(Mode::Stream, b"r", b"c", count)
    }

    #[test]
    fn clients_count_until_they_leave() {
        let (mut clients, mut notes) = (Clients::new(10, true, OWN), Vec::new());
        clients.enter(0, 1, HELD, &mut notes);
        clients.subscribe(1, Mode::Stream, b"c", &mut notes);
        clients.subscribe(1, Mode::Stream, b"c", &mut notes);
        clients.enter(0, 2, HELD, &mut Vec::new());
        clients.subscribe(2, Mode::Stream, b"c", &mut notes);
        clients.unsubscribe(2, b"c", &mut notes);
        clients.leave(1, &mut notes);
        clients.leave(1, &mut notes);
        let gone = Note::Gone {
            id: b"7:42:1".to_vec(),
            route: b"r".to_vec(),
        };
        assert_eq!(
            notes,
            [
                Note::Client(client("7:42:1")),
                connections(b"r", 1),
                count(1),
                count(2),
                count(1),
                count(0),
                connections(b"r", 1),
                gone
            ]
        );
        notes.clear();
        clients.expire(10, &mut notes);
        clients.expire(19, &mut notes);
        assert_eq!(notes, [Note::Client(client("7:42:2"))]);
        assert!(clients.counts.iter().all(HashMap::is_empty));
        clients.leave(2, &mut notes);
        assert!(clients.by_route.is_empty());
    }

    #[test]
    fn finds_clients_by_reported_ids() {
        let (mut clients, mut notes) = (Clients::new(10, true, OWN), Vec::new());
        clients.enter(0, 0x1f, HELD, &mut notes);
        let named = Held {
            id: Some(b"7:42:20"),
            is_websocket: true,
            ..HELD
        };
        clients.enter(0, 0x20, named, &mut notes);
        let reported = |note: &Note| match note {
            Note::Client(client) => Some(client.id.clone()),
            _ => None,
        };
        let ids: Vec<Vec<u8>> = notes.iter().filter_map(reported).collect();
        assert_eq!(ids, [b"7:42:1f".to_vec(), b"7:42:20".to_vec()]);
        assert_eq!(clients.find(b"7:42:1f"), Some(false));
        // A client with an id from its origin is found only by that id. Ids from earlier processes match no client.
        for id in [
            "7:42:20", "7:43:1f", "8:42:1f", "7:42:1e", "7", ":1f", "7:42:x",
        ] {
            assert_eq!(clients.find(id.as_bytes()), None, "{id}");
        }
        clients.leave(0x1f, &mut notes);
        assert_eq!(clients.find(b"7:42:1f"), None);
    }

    #[test]
    fn departed_clients_are_not_reported() {
        let (mut clients, mut notes) = (Clients::new(60_000, true, OWN), Vec::new());
        let held = Held {
            id: None,
            peer: None,
            route: b"r",
            is_websocket: false,
            is_tls: false,
        };
        for now_ms in 0..20_000 {
            clients.enter(now_ms, now_ms, held, &mut notes);
            clients.leave(now_ms, &mut notes);
        }
        assert!(clients.due.len() <= 2 * 1_024, "{}", clients.due.len());
        clients.enter(20_000, 7, held, &mut notes);
        notes.clear();
        clients.expire(80_000, &mut notes);
        assert!(matches!(&notes[..], [Note::Client(_)]), "{notes:?}");
    }

    #[test]
    fn reports_only_channels_without_client_packets() {
        let (mut clients, mut notes) = (Clients::new(10, false, OWN), Vec::new());
        clients.enter(0, 1, HELD, &mut notes);
        clients.subscribe(1, Mode::Stream, b"c", &mut notes);
        clients.expire(100, &mut notes);
        clients.all(&mut notes);
        clients.leave(1, &mut notes);
        let (one, none) = (connections(b"r", 1), connections(b"r", 0));
        let reported = [one.clone(), count(1), count(1), one, count(0), none];
        assert_eq!(notes, reported);
    }
}
