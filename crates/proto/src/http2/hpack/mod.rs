//! Header compression (RFC 7541).
//!
//! [`Decoder`] has a dynamic table, whose memory exists only once the peer has inserted something. The encoder uses the
//! static table alone: it has no state, so a block that was encoded once is good for every connection.
//!
//! Price: heads that a server repeats are not shortened to an index. They cost bytes, not memory per connection.

mod decode;
mod encode;
mod fixed;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Field};
pub use encode::{SIZE_UPDATE_TO_ZERO, encode, encode_indexed, encode_secret, encode_status};
pub use fixed::static_name_index;

/// Octets that each entry of a table counts beyond its name and value (RFC 7541, 4.1; RFC 9113, 6.5.2).
pub const ENTRY_OVERHEAD: usize = 32;

/// Why a block cannot be decoded. Each one ends the connection with COMPRESSION_ERROR (RFC 9113, 4.3): both tables no
/// longer agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The block ends inside a field (RFC 7541, 3.1).
    #[error("a header block ends inside a field")]
    Truncated,
    /// An integer above 2^31 or with needless octets (RFC 7541, 5.1).
    #[error("an integer of a header block is too large")]
    Integer,
    /// Index 0, or one behind the end of both tables (RFC 7541, 2.3.3).
    #[error("a header block refers to an entry that does not exist")]
    Index,
    /// A code that does not exist, EOS, or padding that is too long or not of ones (RFC 7541, 5.2).
    #[error("a Huffman-coded string of a header block is malformed")]
    Huffman,
    /// A change of the table's size behind a field (RFC 7541, 4.2).
    #[error("a header block changes the table's size behind its first field")]
    SizeUpdateLate,
    /// A table's size above the announced one (RFC 7541, 6.3).
    #[error("a header block makes the table larger than SETTINGS_HEADER_TABLE_SIZE")]
    SizeUpdateTooLarge,
    /// The announced size went below the one in use, and the next block did not say that it keeps to it (RFC 7541, 4.2).
    #[error("a header block does not confirm the smaller SETTINGS_HEADER_TABLE_SIZE")]
    SizeUpdateMissing,
}
