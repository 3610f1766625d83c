//! Random numbers of the kernel, for epochs, hash keys and masks of WebSocket frames.

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 64 unpredictable bits.
///
/// # Panics
/// Panics if the kernel returns no random numbers. Since Linux 3.17 only a sandbox that forbids the call can cause this, and
/// predictable keys would be unsafe.
#[must_use]
pub fn u64() -> u64 {
    let mut bytes = [0_u8; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Fills at most 256 bytes, which the kernel returns in one piece.
fn fill(bytes: &mut [u8]) {
    debug_assert!(bytes.len() <= MASKS_BYTES);
    loop {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(filled) if filled == bytes.len() => return,
            // Interrupted while the kernel's pool is being seeded at boot.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                panic!("getrandom is not allowed here ({errno}); allow it in the sandbox")
            }
        }
    }
}

/// Bytes per system call; a larger request could be interrupted.
const MASKS_BYTES: usize = 256;

/// Masks for a client's WebSocket frames (RFC 6455, section 5.3), from one system call for 64 masks.
///
/// Starts empty, so that processes forked before the first mask have different masks.
#[derive(Debug)]
pub struct Masks {
    bytes: [u8; MASKS_BYTES],
    used: usize,
}

impl Default for Masks {
    fn default() -> Self {
        Self {
            bytes: [0; MASKS_BYTES],
            used: MASKS_BYTES,
        }
    }
}

impl Masks {
    /// Returns the next mask, which earlier masks do not reveal.
    ///
    /// # Panics
    /// As [`u64`].
    #[expect(clippy::should_implement_trait, reason = "they do not end")]
    pub fn next(&mut self) -> [u8; 4] {
        if self.used == MASKS_BYTES {
            fill(&mut self.bytes);
            self.used = 0;
        }
        let mut mask = [0; 4];
        mask.copy_from_slice(&self.bytes[self.used..self.used + 4]);
        self.used += 4;
        mask
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{MASKS_BYTES, Masks};

    /// Masks have 32 bits, so two of some hundred masks may be equal. Many equal masks would mean that random bytes are reused.
    #[test]
    fn no_mask_is_given_twice() {
        let mut masks = Masks::default();
        let given: HashSet<[u8; 4]> = (0..MASKS_BYTES).map(|_| masks.next()).collect();
        assert!(given.len() > MASKS_BYTES - 4, "{}", given.len());
    }

    #[test]
    fn two_numbers_differ() {
        assert_ne!(super::u64(), super::u64());
    }
}
