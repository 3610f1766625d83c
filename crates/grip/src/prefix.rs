//! Channel prefix of a route. Publishers use the name `PREFIXroom` for the channel that the backend
//! calls `room`.

/// A prefix, possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(Vec<u8>);

impl Prefix {
    /// Creates a prefix.
    pub fn new(prefix: &[u8]) -> Self {
        Self(prefix.to_vec())
    }

    /// Returns the publishers' name of a backend's channel.
    pub fn public(&self, channel: &[u8]) -> Vec<u8> {
        [&self.0, channel].concat()
    }

    /// Returns the name that the backend uses for a channel of publishers. `None`: the channel does
    /// not have the prefix, so it belongs to another backend.
    pub fn own<'a>(&self, channel: &'a [u8]) -> Option<&'a [u8]> {
        channel.strip_prefix(&self.0[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_and_removes_the_prefix() {
        let prefix = Prefix::new(b"shop-");
        assert_eq!(prefix.public(b"a"), b"shop-a");
        assert_eq!(prefix.own(b"shop-a"), Some(&b"a"[..]));
        assert_eq!(prefix.own(b"sho-a"), None);
        assert_eq!(Prefix::default().own(b"a"), Some(&b"a"[..]));
    }
}
