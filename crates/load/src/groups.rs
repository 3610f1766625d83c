//! Assignment of clients to groups of messages.

/// Contiguous distribution of clients over groups: client `i` of `clients` is in group `i * groups / clients`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupSizes {
    pub clients: u64,
    pub groups: u64,
}

/// Number that means all groups.
pub(crate) const ALL: u32 = u32::MAX;

impl GroupSizes {
    /// Returns the group of a client.
    pub fn group(self, client: u64) -> u32 {
        (u128::from(client) * u128::from(self.groups) / u128::from(self.clients.max(1))) as u32
    }

    /// Returns the number of clients in a group.
    pub fn size(self, group: u32) -> u64 {
        if group == ALL {
            return self.clients;
        }
        let first = |group: u64| (group * self.clients).div_ceil(self.groups.max(1));
        first(u64::from(group) + 1) - first(u64::from(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_in_a_group_of_the_size_told() {
        for (clients, groups) in [(10, 3), (3, 3), (1000, 7), (7, 1)] {
            let sizes = GroupSizes { clients, groups };
            let mut counted = vec![0; groups as usize];
            for client in 0..clients {
                counted[sizes.group(client) as usize] += 1;
            }
            let told: Vec<u64> = (0..groups as u32).map(|group| sizes.size(group)).collect();
            assert_eq!(counted, told, "{clients} in {groups}");
            assert_eq!(sizes.size(ALL), clients);
        }
    }
}
