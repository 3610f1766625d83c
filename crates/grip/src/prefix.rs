//! A route's channel prefix: what its backend calls `room` is `PREFIXroom` to publishers.

/// A prefix, maybe empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(Vec<u8>);

impl Prefix {
    /// This prefix.
    pub fn new(prefix: &[u8]) -> Self {
        Self(prefix.to_vec())
    }

    /// What publishers call a channel of the backend.
    pub fn public(&self, channel: &[u8]) -> Vec<u8> {
        [&self.0, channel].concat()
    }

    /// What the backend calls a channel of publishers. `None`: it is not the backend's.
    pub fn own<'a>(&self, channel: &'a [u8]) -> Option<&'a [u8]> {
        channel.strip_prefix(&self.0[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let prefix = Prefix::new(b"shop-");
        assert_eq!(prefix.public(b"a"), b"shop-a");
        assert_eq!(prefix.own(b"shop-a"), Some(&b"a"[..]));
        assert_eq!(prefix.own(b"sho-a"), None);
        assert_eq!(Prefix::default().own(b"a"), Some(&b"a"[..]));
    }
}
