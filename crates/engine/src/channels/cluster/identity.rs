//! Identities of workers and of their machines; a socket id contains both.

use fermata_io::random;

use super::memory::Outbox;

/// Shift of the machine's part in a worker's identity: its upper half.
const MACHINE_SHIFT: u32 = 32;

/// Creates a random identity, different for each start of a worker.
pub(crate) fn new_identity(outbox: Option<&Outbox>) -> u64 {
    let random = random::u64();
    match outbox {
        Some(outbox) => machine_of(outbox.node) << MACHINE_SHIFT | machine_of(random),
        None => random,
    }
}

/// Returns true if a worker belongs to the machine with this node number.
pub(super) fn is_of(identity: u64, node: u64) -> bool {
    identity >> MACHINE_SHIFT == machine_of(node)
}

fn machine_of(node: u64) -> u64 {
    node & ((1 << MACHINE_SHIFT) - 1)
}
