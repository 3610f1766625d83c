//! Metadata of a connection: names and values.

/// Metadata of a connection, sorted by name. The origin sets the metadata, and filters read it.
///
/// Very many connections have a few entries each. A list needs less memory than a tree, whose smallest node has room
/// for eleven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta(Vec<(Vec<u8>, Vec<u8>)>);

impl Meta {
    /// Creates empty metadata.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a value. Returns the previous value, if there was one.
    pub fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) -> Option<Vec<u8>> {
        match self.find(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// Moves all entries of `other` into this metadata. They replace existing values.
    pub fn append(&mut self, other: &mut Self) {
        for (name, value) in other.0.drain(..) {
            self.insert(name, value);
        }
    }

    /// Removes and returns a value.
    pub fn remove(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let at = self.find(name).ok()?;
        Some(self.0.remove(at).1)
    }

    /// Returns the value with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Vec<u8>> {
        let at = self.find(name).ok()?;
        Some(&self.0[at].1)
    }

    /// Returns names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

impl FromIterator<(Vec<u8>, Vec<u8>)> for Meta {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Vec<u8>)>>(entries: I) -> Self {
        let mut meta = Self::new();
        for (name, value) in entries {
            meta.insert(name, value);
        }
        meta
    }
}

impl<const N: usize> From<[(Vec<u8>, Vec<u8>); N]> for Meta {
    fn from(entries: [(Vec<u8>, Vec<u8>); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for Meta {
    type Item = (Vec<u8>, Vec<u8>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_map(changes in prop::collection::vec((0u8..6, prop::option::of(any::<u8>())), 0..40)) {
            let (mut meta, mut model) = (Meta::new(), BTreeMap::new());
            for (name, value) in changes {
                let name = vec![name];
                match value {
                    Some(value) => prop_assert_eq!(
                        meta.insert(name.clone(), vec![value]),
                        model.insert(name, vec![value])
                    ),
                    None => prop_assert_eq!(meta.remove(&name), model.remove(&name)),
                }
                prop_assert!(meta.iter().eq(model.iter()));
                prop_assert_eq!(meta.is_empty(), model.is_empty());
                prop_assert_eq!(meta.get(&[3]), model.get(&[3][..]));
            }
            prop_assert_eq!(model.into_iter().collect::<Meta>(), meta);
        }
    }
}
