//! What every scenario knows, and what bounds them all.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value;

/// What stands for standard output in place of a file.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// The longest body of a request that is given on the command line or in a file.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 20;

/// What every scenario knows.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Write the result as JSON to this file; without one, or with `-`, to standard output in place of
    /// the summary
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = STANDARD_OUTPUT,
        help_heading = "Output"
    )]
    pub json: Option<PathBuf>,

    /// Draw connections, rates and latency over time into this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,

    /// Write a line of JSON per interval, and when a step begins and ends, to this file while the run
    /// goes on
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub events: Option<PathBuf>,

    /// Send every interval to this statsd server
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = value::address, help_heading = "Output")]
    pub statsd: Option<SocketAddr>,

    /// What the names of statsd begin with
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fermata.load",
        help_heading = "Output"
    )]
    pub statsd_prefix: String,

    /// Serve the totals at /metrics of this address while the run goes on
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = value::address, help_heading = "Output")]
    pub prometheus: Option<SocketAddr>,

    /// How often to report
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::interval, help_heading = "Output")]
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
