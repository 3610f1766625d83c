//! The master: binds, forks workers, replaces exited ones, and stops them.
//!
//! It keeps all listeners open, so the replacement of a crashed worker serves the connections in
//! its queue. It serves no requests and runs no PHP after the fork.

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

/// Parses the path of the setting `control`: `unix:/path` or `/path`.
pub fn control_path(control: &str) -> PathBuf {
    PathBuf::from(control.strip_prefix("unix:").unwrap_or(control))
}
