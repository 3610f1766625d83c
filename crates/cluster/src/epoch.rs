//! Numbers that tell logs apart.

/// Tells two logs of one name apart: a number of what is known of its beginning, never zero.
///
/// FNV-1a, folded to 48 bits so that ids stay short.
pub(crate) fn epoch_of(beginning: &str) -> u64 {
    let hash = beginning
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    ((hash >> 48 ^ hash) & 0xffff_ffff_ffff).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_differ() {
        let (a, b) = (
            epoch_of("2026-11-22T14:00:00.000000001Z"),
            epoch_of("2026-11-22T14:00:00.000000002Z"),
        );
        assert_ne!(a, b);
        assert!(a < 1 << 48 && b < 1 << 48);
    }
}
