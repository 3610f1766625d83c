//! Freed memory that the C library retains.

/// Returns freed memory to the kernel. Takes about a millisecond per 100 MB; does nothing with C libraries other than
/// glibc.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the argument is a number, and the call does not change allocated memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
