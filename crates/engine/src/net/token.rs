//! Event tokens that do not refer to a connection.

use fermata_config::LISTENERS_MAX;

/// Tokens outside the range of connection indexes. Listeners are numbered from the first.
pub(crate) const TOKEN_LISTENER: u64 = u64::MAX - 0xff;
pub(crate) const TOKEN_LISTENER_LAST: u64 = TOKEN_LISTENER + LISTENERS_MAX as u64 - 1;
pub(crate) const TOKEN_CONTROL: u64 = u64::MAX - 1;
pub(crate) const TOKEN_WAKE: u64 = u64::MAX - 2;
pub(crate) const TOKEN_LINK: u64 = u64::MAX - 3;
pub(crate) const TOKEN_SIGNAL: u64 = u64::MAX - 4;
pub(crate) const TOKEN_INBOX: u64 = u64::MAX - 5;
pub(crate) const TOKEN_METRICS: u64 = u64::MAX - 6;
pub(crate) const TOKEN_WATCH: u64 = u64::MAX - 7;
pub(crate) const TOKEN_FILES: u64 = u64::MAX - 8;
