//! The master: binds, forks workers, replaces those that end, and stops them all.
//!
//! It holds every listener, so the connections that wait in a dead worker's queue are served by its
//! replacement. It serves nothing itself and runs no PHP after the fork.

mod banner;
mod blocking;
mod bridge_process;
mod companion;
mod companion_process;
mod descriptors;
pub(crate) mod error;
mod exporter_process;
mod frames;
mod helper_process;
mod identity;
mod inherit;
pub(crate) mod link;
mod manager;
mod open;
mod reload;
mod restarted_process;
mod spawn;
mod stall;
mod state;
mod supervise;
mod watch;

use std::path::PathBuf;

pub use companion::Companion;
pub use error::StartError;
pub use frames::Frames;
pub use identity::IdentityError;
pub use link::EXIT_RETIRED;
pub(crate) use state::{Master, Program};
pub use supervise::Started;

/// `unix:/path` or `/path`, as the settings allow.
pub fn control_path(control: &str) -> PathBuf {
    PathBuf::from(control.strip_prefix("unix:").unwrap_or(control))
}
