//! The load generator behind `fermata load`.
//!
//! A parent forks processes, each with one thread, one epoll loop and its share of the connections,
//! and collects what they report over pipes. It shows progress while they work and a result at the
//! end. [`run`] is all there is to call.
//!
//! - [`options`](Arguments): the command line, and what it asks each process to do.
//! - `exchange`: requests and answers, closed or open loop.
//! - `parent`, `link`, `report`, `totals`: processes and what they tell.
//! - `output`, `summary`: what a run shows.

#![forbid(unsafe_code)]
#![expect(
    dead_code,
    reason = "the scenarios with receivers, which follow, use the rest"
)]

mod clock;
mod counters;
mod error;
mod exchange;
mod link;
mod options;
mod output;
mod parent;
mod report;
mod response;
mod schedule;
mod summary;
mod target;
mod totals;

pub use error::Error;
pub use options::Arguments;

use options::Scenario;
use output::Outputs;
use parent::Course;
use totals::GroupSizes;

/// Runs a scenario and prints its result. `true`: verification passed.
///
/// Forks, so the caller must not have started a thread.
///
/// # Errors
/// An option that cannot be used, or something the system refused; the run has no result then.
pub fn run(arguments: &Arguments) -> Result<bool, Error> {
    let (common, jobs, labels, course) = match &arguments.scenario {
        Scenario::Http(http) => {
            let (jobs, labels) = http.jobs()?;
            let course = Course {
                hold_us: 0,
                settle_us: 0,
                sizes: GroupSizes {
                    clients: 0,
                    groups: 0,
                },
            };
            (&http.common, jobs, labels, course)
        }
    };
    let mut outputs = Outputs::new(common.quiet);
    let interval_us = clock::micros(common.interval);
    let outcome = parent::run(jobs, course, &mut outputs, interval_us)?;
    outputs.end();
    println!("{}", summary::text(&outcome, &labels).trim_end());
    if let Some(path) = &common.json {
        let options = std::env::args().skip(1).collect::<Vec<_>>();
        let result = summary::json(&outcome, &labels, options.into());
        let mut text = format!("{result:#}");
        text.push('\n');
        std::fs::write(path, text).map_err(Error::system(format!("writing {}", path.display())))?;
    }
    Ok(summary::passed(&outcome, &labels))
}
