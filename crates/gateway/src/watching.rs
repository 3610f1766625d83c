//! Watchlists: clients of this worker that want to know which users are online.

use std::collections::{HashMap, HashSet};

use fermata_engine::SocketId;

/// Watchers and watched users, by the names that users are counted by.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    watched: HashMap<String, Watched>,
    /// The users that each socket watches.
    lists: HashMap<SocketId, Vec<String>>,
}

#[derive(Debug)]
struct Watched {
    sockets: HashSet<SocketId>,
    /// What the sockets were told.
    is_online: bool,
}

impl Watching {
    /// A socket watches these users from now on. `is_online` knows who is.
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

    /// It is gone.
    pub fn end(&mut self, socket: SocketId) {
        for user_name in self.lists.remove(&socket).unwrap_or_default() {
            // A list may name a user twice.
            if let Some(watched) = self.watched.get_mut(&user_name) {
                watched.sockets.remove(&socket);
                if watched.sockets.is_empty() {
                    self.watched.remove(&user_name);
                }
            }
        }
    }

    /// What was told last of a user who is watched.
    pub fn is_online(&self, user_name: &str) -> bool {
        let watched = self.watched.get(user_name);
        watched.is_some_and(|watched| watched.is_online)
    }

    /// A user is online now, or is not: the sockets that are to be told.
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
    fn watchers_are_told_of_changes_once() {
        let mut watching = Watching::default();
        let users = || vec!["1:ann".to_owned(), "1:bob".to_owned()];
        watching.begin(socket(7), users(), |user_name| user_name == "1:ann");
        assert!(watching.is_online("1:ann") && !watching.is_online("1:bob"));
        assert!(watching.change("1:ann", true).is_empty());
        assert_eq!(watching.change("1:bob", true), [socket(7)]);
        watching.begin(socket(8), users(), |_| false);
        let mut told = watching.change("1:bob", false);
        told.sort_unstable();
        assert_eq!(told, [socket(7), socket(8)]);
        watching.end(socket(7));
        assert_eq!(watching.change("1:bob", true), [socket(8)]);
        watching.end(socket(8));
        assert!(watching.watched.is_empty() && watching.lists.is_empty());
    }
}
