//! Watchlists: the users about whom clients of this worker are notified when they come online or go offline.

use std::collections::{HashMap, HashSet};

use fermata_engine::SocketId;

/// Watchers and watched users, by `names::user_name`.
#[derive(Debug, Default)]
pub(crate) struct Watchlists {
    watched: HashMap<String, Watched>,
    /// The users that each socket watches.
    lists: HashMap<SocketId, Vec<String>>,
}

#[derive(Debug)]
struct Watched {
    sockets: HashSet<SocketId>,
    /// The state that the sockets received last.
    is_online: bool,
}

impl Watchlists {
    /// Adds a socket's watchlist. `is_online` returns the current state of a user.
    pub fn begin(
        &mut self,
        socket: SocketId,
        users: Vec<String>,
        is_online: impl Fn(&str) -> bool,
    ) {
        for user_name in &users {
            let watched = self.watched.entry(user_name.clone());
            let watched = watched.or_insert_with(|| Watched {
                sockets: HashSet::new(),
                is_online: is_online(user_name),
            });
            watched.sockets.insert(socket);
        }
        self.lists.insert(socket, users);
    }

    /// Removes a socket's watchlist.
    pub fn end(&mut self, socket: SocketId) {
        for user_name in self.lists.remove(&socket).unwrap_or_default() {
            // A list may contain a user twice.
            if let Some(watched) = self.watched.get_mut(&user_name) {
                watched.sockets.remove(&socket);
                if watched.sockets.is_empty() {
                    self.watched.remove(&user_name);
                }
            }
        }
    }

    /// Returns the last announced state of a watched user.
    pub fn is_online(&self, user_name: &str) -> bool {
        let watched = self.watched.get(user_name);
        watched.is_some_and(|watched| watched.is_online)
    }

    /// Records the state of a user; returns the sockets to notify.
    pub fn change(&mut self, user_name: &str, is_online: bool) -> Vec<SocketId> {
        match self.watched.get_mut(user_name) {
            Some(watched) if watched.is_online != is_online => {
                watched.is_online = is_online;
                watched.sockets.iter().copied().collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(raw: u64) -> SocketId {
        SocketId::from_raw(raw).expect("it is not zero")
    }

    #[test]
    fn notifies_watchers_once_per_change() {
        let mut watching = Watchlists::default();
        let users = || vec!["1:ann".to_owned(), "1:bob".to_owned()];
        watching.begin(socket(7), users(), |user_name| user_name == "1:ann");
        assert!(watching.is_online("1:ann") && !watching.is_online("1:bob"));
        assert!(watching.change("1:ann", true).is_empty());
        assert_eq!(watching.change("1:bob", true), [socket(7)]);
        watching.begin(socket(8), users(), |_| false);
        let mut notified = watching.change("1:bob", false);
        notified.sort_unstable();
        assert_eq!(notified, [socket(7), socket(8)]);
        watching.end(socket(7));
        assert_eq!(watching.change("1:bob", true), [socket(8)]);
        watching.end(socket(8));
        assert!(watching.watched.is_empty() && watching.lists.is_empty());
    }
}
