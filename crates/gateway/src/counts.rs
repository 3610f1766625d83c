//! Counts by name, as servers and workers exchange them.

use std::collections::HashMap;

/// Counts of connections, subscriptions and users by name.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) connections: HashMap<String, u64>,
    pub(crate) channels: HashMap<String, u64>,
    pub(crate) users: HashMap<String, u64>,
}

impl Counts {
    /// Stores counts. Removes names whose count is zero.
    pub fn set(
        &mut self,
        connections: Vec<(String, u64)>,
        channels: Vec<(String, u64)>,
        users: Vec<(String, u64)>,
    ) {
        set_all(&mut self.connections, connections);
        set_all(&mut self.channels, channels);
        set_all(&mut self.users, users);
    }
}

fn set_all(counts: &mut HashMap<String, u64>, received: Vec<(String, u64)>) {
    for (name, count) in received {
        match count {
            0 => {
                counts.remove(&name);
            }
            count => {
                counts.insert(name, count);
            }
        }
    }
}
