//! What names a conversation with an origin.

/// The number of a conversation; none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TalkId(u64);

impl TalkId {
    pub fn of(number: u64) -> Self {
        Self(number)
    }
}
