//! Load generator of `fermata load`.
//!
//! A parent process forks children, each with one thread, one epoll loop and its share of the connections, and
//! collects their reports over pipes. It shows progress during the run and a result at the end. [`run`] is the entry
//! point.
//!
//! - [`options`](Arguments): the command line, and the plan of each process.
//! - `exchange`: requests and responses, closed or open loop.
//! - `fanout`: held WebSockets, and bursts that one of them sends to all.
//! - `subscribe`: held clients, and the process that publishes to them.
//! - `course`, `groups`: plan of a run.
//! - `parent`, `link`, `report`, `totals`: processes and their reports.
//! - `output`, `summary`: progress and result.
//!
//! It depends on `io` and `proto`, and on no crate of the server.

#![forbid(unsafe_code)]

mod clock;
mod counters;
mod course;
mod error;
mod exchange;
mod fanout;
mod groups;
mod link;
mod message;
mod options;
mod output;
mod parent;
mod processor;
mod report;
mod response;
mod schedule;
mod subscribe;
mod summary;
mod target;
mod tls;
mod totals;
mod websocket;

pub use error::Error;
pub use options::Arguments;

use std::path::Path;

use course::Course;
use options::{Scenario, WsScenario};
use output::Outputs;

/// Runs a scenario and prints its result. Returns true if verification passed.
///
/// The caller must not have started a thread, because this function forks.
///
/// # Errors
/// An invalid option, or a failed system call. The run then has no result.
pub fn run(arguments: &Arguments) -> Result<bool, Error> {
    let (common, jobs, course, labels) = match &arguments.scenario {
        Scenario::Http(http) => {
            let (jobs, labels) = http.jobs()?;
            (&http.common, jobs, Course::NONE, labels)
        }
        Scenario::Sse(sse) => {
            let (jobs, course, labels) = sse.jobs(options::subscribe::SSE)?;
            (&sse.common, jobs, course, labels)
        }
        Scenario::Hold(hold) => {
            let (jobs, course, labels) = hold.jobs(options::subscribe::HOLD)?;
            (&hold.common, jobs, course, labels)
        }
        Scenario::Ws(WsScenario::Echo(echo)) => {
            let (jobs, labels) = echo.jobs()?;
            (&echo.common, jobs, Course::NONE, labels)
        }
        Scenario::Ws(WsScenario::Upgrade(upgrade)) => {
            let (jobs, labels) = upgrade.jobs()?;
            (&upgrade.common, jobs, Course::NONE, labels)
        }
        Scenario::Ws(WsScenario::Fanout(fanout)) => {
            let (jobs, labels) = fanout.jobs()?;
            (&fanout.common, jobs, Course::NONE, labels)
        }
        Scenario::Ws(WsScenario::Broadcast(broadcast)) => {
            let (jobs, course, labels) = broadcast.jobs(options::subscribe::BROADCAST)?;
            (&broadcast.common, jobs, course, labels)
        }
    };
    // Check that output files are writable before the run, not after it.
    let is_printed = |path: &&Path| *path == Path::new(options::common::STANDARD_OUTPUT);
    let json_file = common.json.as_deref().filter(|path| !is_printed(path));
    for path in [json_file, common.svg.as_deref()].into_iter().flatten() {
        write(path, "")?;
    }
    let mut outputs = Outputs::new(common, labels.scenario)?;
    let interval_us = clock::micros(common.interval);
    let outcome = parent::run(jobs, course, &mut outputs, interval_us)?;
    outputs.end();
    let result = common.json.as_ref().map(|_| {
        let options = std::env::args().skip(1).collect::<Vec<_>>();
        format!("{:#}\n", summary::json(&outcome, &labels, options.into()))
    });
    match (&result, json_file) {
        (Some(result), None) => print!("{result}"),
        _ => println!("{}", summary::text(&outcome, &labels).trim()),
    }
    if let (Some(result), Some(path)) = (&result, json_file) {
        write(path, result)?;
    }
    if let Some(path) = &common.svg {
        write(path, &output::plot::svg(&outcome.totals.series, &labels))?;
    }
    Ok(summary::passed(&outcome, &labels))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(Error::system(format!("writing {}", path.display())))
}
