//! Header compression (RFC 7541).
//!
//! [`Decoder`] has a dynamic table, which uses memory only after the peer inserts an entry. The encoder uses only the
//! static table: it has no state, so an encoded block is valid on every connection.
//!
//! Cost: headers that a server repeats are not shortened to an index. They need more bytes, but no memory per connection.

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

/// Octets that each table entry counts in addition to name and value (RFC 7541, section 4.1; RFC 9113, section 6.5.2).
pub const ENTRY_OVERHEAD: usize = 32;

/// Reason why a block cannot be decoded. Each one is a connection error COMPRESSION_ERROR (RFC 9113, section 4.3),
/// because the two tables no longer match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The block ends within a field (RFC 7541, section 3.1).
    #[error("a header block ends inside a field")]
    Truncated,
    /// An integer above 2^31 or with too many octets (RFC 7541, section 5.1).
    #[error("an integer of a header block is too large")]
    Integer,
    /// Index 0, or an index beyond the end of both tables (RFC 7541, section 2.3.3).
    #[error("a header block refers to an entry that does not exist")]
    Index,
    /// The code is invalid or EOS, or the padding is too long or does not consist of one bits (RFC 7541, section 5.2).
    #[error("a Huffman-coded string of a header block is malformed")]
    Huffman,
    /// A dynamic table size update after a field (RFC 7541, section 4.2).
    #[error("a header block changes the table's size after its first field")]
    SizeUpdateLate,
    /// A table size above the announced limit (RFC 7541, section 6.3).
    #[error("a header block makes the table larger than SETTINGS_HEADER_TABLE_SIZE")]
    SizeUpdateTooLarge,
    /// The limit fell below the size in use, but the next block did not start with a size update (RFC 7541, section 4.2).
    #[error("a header block does not confirm the smaller SETTINGS_HEADER_TABLE_SIZE")]
    SizeUpdateMissing,
}
