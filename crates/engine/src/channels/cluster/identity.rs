//! How workers are told apart, and the machines that they belong to: the id of a socket has both.

use fermata_io::random;

use super::memory::Outbox;

/// The upper half of a worker's identity is its machine's.
const MACHINE_SHIFT: u32 = 32;

/// The random number that tells one life of a worker from all others.
pub(crate) fn new_identity(outbox: Option<&Outbox>) -> u64 {
    let random = random::u64();
    match outbox {
        Some(outbox) => machine_of(outbox.node) << MACHINE_SHIFT | machine_of(random),
        None => random,
    }
}

/// Whether a worker is one of the machine with this node.
pub(super) fn is_of(identity: u64, node: u64) -> bool {
    identity >> MACHINE_SHIFT == machine_of(node)
}

fn machine_of(node: u64) -> u64 {
    node & ((1 << MACHINE_SHIFT) - 1)
}
