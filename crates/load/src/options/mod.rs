//! The command line of `fermata load`.

pub(crate) mod http;
mod value;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

/// The longest body of a request that is given on the command line or in a file.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Put a server under load and verify what it answers.
///
/// The exit code is 0 when everything was as expected, 1 when verification failed, 2 when an option
/// cannot be used.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) scenario: Scenario,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Send HTTP/1.1 requests
    Http(http::HttpArguments),
}

/// What every scenario knows.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,

    /// How often to report
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::duration, help_heading = "Output")]
    pub interval: Duration,

    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,

    /// A header of every request, as "Name: value"; may be repeated
    #[arg(long = "header", short = 'H', value_name = "HEADER", value_parser = value::header)]
    pub headers: Vec<String>,
}

/// Connections that one process may hold: its descriptor limit less what it needs for itself.
pub(crate) fn descriptors_max() -> u32 {
    const OWN: u64 = 64;
    let limit = fermata_io::process::raise_descriptor_limit();
    u32::try_from(limit.saturating_sub(OWN)).unwrap_or(u32::MAX)
}
