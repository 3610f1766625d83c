//! Channels as logs over a shared-memory ring
