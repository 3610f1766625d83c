//! Randomness of the kernel, for epochs and hash keys.

use rustix::rand::{GetRandomFlags, getrandom};

/// 64 random bits that nobody can guess.
///
/// # Panics
/// When the kernel has no random numbers, which since Linux 3.17 only a sandbox that forbids the
/// call can cause: going on with guessable keys would be worse.
#[must_use]
pub fn u64() -> u64 {
    let mut bytes = [0_u8; 8];
    loop {
        match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
            Ok(8) => return u64::from_ne_bytes(bytes),
            // Interrupted while the pool is being seeded at boot.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                panic!("getrandom is not allowed here ({errno}); allow it in the sandbox")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_numbers_differ() {
        assert_ne!(super::u64(), super::u64());
    }
}
