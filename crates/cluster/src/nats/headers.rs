//! Headers of a record in the log.

pub(super) const HEADER_NAME: &str = "Fermata-Name";
pub(super) const HEADER_CONTENT: &str = "Fermata-Content";
pub(super) const HEADER_EXCEPT: &str = "Fermata-Except";
pub(super) const HEADER_APPLICATION: &str = "Fermata-App";
pub(super) const HEADER_ID: &str = "Nats-Msg-Id";

/// Value of `Fermata-Content` in a probe. A probe is sent only to test whether the log accepts messages, or where the log ends.
pub(super) const PROBE: &[u8] = b"probe";
