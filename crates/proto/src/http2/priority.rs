//! Priorities of responses (RFC 9218).

/// Urgency of a response, and whether the client can use parts of it. One byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Priority(u8);

/// Number of urgency levels.
pub(super) const URGENCIES: usize = 8;

const INCREMENTAL: u8 = 8;

impl Priority {
    /// Default without a priority from the client: urgency 3, not incremental (RFC 9218, section 4).
    pub const USUAL: Self = Self(3);

    /// Priority of event streams, which must share the connection: urgency 3, incremental.
    pub const STREAM: Self = Self(3 | INCREMENTAL);

    /// Creates a priority. `urgency` is 0 (most urgent) to 7; higher values become 7.
    #[must_use]
    pub const fn new(urgency: u8, incremental: bool) -> Self {
        let urgency = if urgency > 7 { 7 } else { urgency };
        Self(urgency | if incremental { INCREMENTAL } else { 0 })
    }

    /// Returns the urgency: 0 (most urgent) to 7.
    #[inline]
    #[must_use]
    pub fn urgency(self) -> u8 {
        self.0 & 7
    }

    /// Returns true if responses of the same urgency share the connection in turns.
    #[inline]
    #[must_use]
    pub fn is_incremental(self) -> bool {
        self.0 & INCREMENTAL != 0
    }

    /// Parses a `priority` header or the value of PRIORITY_UPDATE: a dictionary with the members `u` and `i` (RFC 9218,
    /// sections 4 and 5).
    ///
    /// Malformed or out-of-range members are ignored, so that they never fail a request.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self::USUAL;
        for member in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            // Parameters of a member have no meaning here.
            let member = member
                .split(|&byte| byte == b';')
                .next()
                .unwrap_or_default();
            match member.trim_ascii_end() {
                [b'u', b'=', digit @ b'0'..=b'7'] => {
                    priority.0 = priority.0 & INCREMENTAL | (digit - b'0');
                }
                b"i" | b"i=?1" => priority.0 |= INCREMENTAL,
                b"i=?0" => priority.0 &= !INCREMENTAL,
                _ => {}
            }
        }
        priority
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::USUAL
    }
}

impl std::fmt::Debug for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let incremental = if self.is_incremental() { ", i" } else { "" };
        write!(f, "u={}{incremental}", self.urgency())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=5", 5, true),
            ("i=?1", 3, true),
            ("i, i=?0", 3, false),
            ("u=1;x=2, i;y", 1, true),
            // Ignored: out of range, of another type, unknown.
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=\"1\", i", 3, true),
            ("u, i=1, foo, z=?1", 3, false),
            ("u=2,u=4", 4, false),
        ] {
            let priority = Priority::parse(value.as_bytes());
            assert_eq!(
                (priority.urgency(), priority.is_incremental()),
                (urgency, incremental),
                "{value}"
            );
            assert_eq!(Priority::new(urgency, incremental), priority);
        }
    }
}
