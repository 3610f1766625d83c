//! Raw-byte client and server starter for tests
