//! Options of every scenario, and their limits.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value;

/// File name that means standard output.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// Maximum size of a request body from the command line or a file.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 20;

/// Options of every scenario.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Write the result as JSON to this file; without a file, or with `-`, to standard output instead of
    /// the summary
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = STANDARD_OUTPUT,
        help_heading = "Output"
    )]
    pub json: Option<PathBuf>,

    /// Write a plot of connections, rates and latency over time to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,

    /// Write a line of JSON to this file per interval, and when a step starts and ends
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub events: Option<PathBuf>,

    /// Send the numbers of every interval to this statsd server
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = value::address, help_heading = "Output")]
    pub statsd: Option<SocketAddr>,

    /// Prefix of statsd names
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fermata.load",
        help_heading = "Output"
    )]
    pub statsd_prefix: String,

    /// Serve the totals at /metrics of this address during the run
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = value::address, help_heading = "Output")]
    pub prometheus: Option<SocketAddr>,

    /// Interval between reports
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::interval, help_heading = "Output")]
    pub interval: Duration,

    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,

    /// A header of every request, as "Name: value"; repeatable
    #[arg(long = "header", short = 'H', value_name = "HEADER", value_parser = value::header)]
    pub headers: Vec<String>,
}

/// Returns the maximum number of connections per process: the descriptor limit minus the process's own descriptors.
pub(crate) fn descriptors_max() -> u32 {
    const OWN: u64 = 64;
    let limit = fermata_io::process::raise_descriptor_limit();
    u32::try_from(limit.saturating_sub(OWN)).unwrap_or(u32::MAX)
}
