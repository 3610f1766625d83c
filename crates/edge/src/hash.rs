//! Hashes that are equal in all processes, so that they agree on slots of shared memory, on targets and on workers.

/// FNV-1a with a final mix: sufficient for names that the operator chooses, and to spread clients over workers or targets.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(sum)
}

/// Spreads differences in a few bits over all bits.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}
