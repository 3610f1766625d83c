//! Identity of an exchange with an origin.

/// Id of an exchange, unique within a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UpstreamExchangeId(u64);

impl UpstreamExchangeId {
    pub fn of(number: u64) -> Self {
        Self(number)
    }
}
