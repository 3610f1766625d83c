//! The position where a client's events start.

/// Start of a client's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since<'a> {
    /// From now on.
    Now,
    /// All stored events.
    Earliest,
    /// Start after the event with this id.
    After(&'a [u8]),
}

impl<'a> Since<'a> {
    /// Returns the start for a client with this last event id. A client without one starts with the
    /// stored events if `from_start` is true.
    pub fn of(id: Option<&'a [u8]>, from_start: bool) -> Since<'a> {
        match id {
            Some(id) => Since::After(id),
            None if from_start => Since::Earliest,
            None => Since::Now,
        }
    }
}
