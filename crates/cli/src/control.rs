//! Which server a command asks.

use std::path::PathBuf;

use fermata_engine::PublisherError;
use fermata_engine::stats::{self, Snapshot};

/// How long the server may take to answer: it does so between two requests.
const TIMEOUT_MS: u64 = 5_000;

/// The option that names the server.
#[derive(clap::Args)]
pub struct Control {
    /// The server's control socket: what its setting `control` says
    #[arg(
        long = "control",
        env = "FERMATA_CONTROL",
        value_name = "unix:/PATH",
        value_parser = path
    )]
    path: PathBuf,
}

impl Control {
    /// Asks the server for its figures.
    pub fn snapshot(&self) -> Result<Snapshot, PublisherError> {
        stats::fetch(&self.path, TIMEOUT_MS)
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    let path = fermata_engine::control_path(text);
    if path.as_os_str().is_empty() {
        return Err("name a socket, such as unix:/run/fermata/control.sock".to_owned());
    }
    Ok(path)
}
