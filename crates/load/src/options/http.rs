//! The scenario `http`.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;

use super::common::{BODY_BYTES_MAX, Common};
use super::value;
use crate::clock::micros;
use crate::counters::Counter;
use crate::course::{Job, Role};
use crate::error::Error;
use crate::exchange::http::{Http, Request};
use crate::exchange::{self, Plan};
use crate::summary::Labels;
use crate::target::{Target, Template};

/// Default duration of a run with a number of requests.
const COUNTED_DURATION: Duration = Duration::from_secs(3600);
/// Default duration of other runs.
const DURATION: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Args)]
pub(crate) struct HttpArguments {
    /// URL of requests; {n} is replaced by the number of the request
    #[arg(value_name = "URL")]
    url: String,

    #[command(flatten)]
    pub exchange: ExchangeArguments,

    /// Use a new connection for each request
    #[arg(long)]
    no_keep_alive: bool,

    /// Method of requests
    #[arg(long, short = 'X', value_parser = value::method, default_value = "GET", default_value_if("body", clap::builder::ArgPredicate::IsPresent, "POST"))]
    method: String,

    /// Body of requests, or @FILE; {n} is replaced by the number of the request
    #[arg(long, short = 'd', value_name = "TEXT")]
    body: Option<String>,

    /// Accepted statuses
    #[arg(long, value_name = "RANGE", default_value = "200-399", value_parser = value::statuses)]
    accept_status: RangeInclusive<u16>,

    #[command(flatten)]
    pub common: Common,
}

/// How requests follow each other.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExchangeArguments {
    /// Number of connections of all processes
    #[arg(long, short, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,

    /// Number of requests in flight per connection
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub pipeline: u32,

    /// Requests per second, on schedule (open loop); without a rate, each connection sends the next
    /// request after the response (closed loop)
    #[arg(long, short, value_name = "PER_SECOND", value_parser = value::rate)]
    pub rate: Option<f64>,

    /// Duration of the run [default: 10s, or 1h with --requests]
    #[arg(long, short = 't', value_name = "TIME", value_parser = value::duration)]
    pub duration: Option<Duration>,

    /// Number of requests of all processes
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,

    /// Time at the start that is not measured
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = value::duration)]
    pub warmup: Duration,

    /// Maximum time to wait for a response
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::duration)]
    pub timeout: Duration,

    /// Number of processes that share the connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub processes: u32,
}

impl HttpArguments {
    /// Returns the processes of this scenario and the labels of their result.
    pub fn jobs(&self) -> Result<(Vec<Job>, Labels), Error> {
        let target = Target::parse("URL", &self.url, "http")?;
        let body = self.body.as_deref().map(read_body).transpose()?;
        if self.no_keep_alive && self.exchange.pipeline > 1 {
            let cause = "there is nothing to pipeline with --no-keep-alive";
            return Err(Error::option("--pipeline", cause, "leave one of them out"));
        }
        let request = Request {
            method: self.method.clone(),
            host: target.host.clone(),
            path: target.path.clone(),
            headers: self.common.headers.concat().into_bytes(),
            body: body.as_deref().map(Template::parse),
        };
        let plans = self
            .exchange
            .plans(&target, !self.no_keep_alive, &self.common)?;
        let jobs = plans.into_iter().map(|plan| {
            let close = self.no_keep_alive;
            let protocol = Http::new(request.clone(), close, self.accept_status.clone());
            Job {
                role: Role::Exchanger,
                work: Box::new(move |clock, link| exchange::run(plan, protocol, clock, link)),
            }
        });
        let labels = Labels {
            scenario: "http",
            what: format!("{} {} {}", self.method, self.url, self.exchange.describe()),
            latency: "latency",
            needed: Counter::Responses,
        };
        Ok((jobs.collect(), labels))
    }
}

impl ExchangeArguments {
    /// Returns the plan of each process.
    pub fn plans(&self, target: &Target, reuse: bool, common: &Common) -> Result<Vec<Plan>, Error> {
        let processes = self.processes.min(self.connections);
        if self.connections.div_ceil(processes) > super::common::descriptors_max() {
            let cause = format!(
                "{} connections in {processes} processes are more than their descriptor limit ({})",
                self.connections,
                super::common::descriptors_max()
            );
            return Err(Error::option("--connections", cause, "raise --processes"));
        }
        let duration = self.duration.unwrap_or(match self.requests {
            Some(_) => COUNTED_DURATION,
            None => DURATION,
        });
        if self.warmup >= duration {
            let cause = "nothing is left to measure";
            return Err(Error::option(
                "--warmup",
                cause,
                "make it shorter than --duration",
            ));
        }
        let share = |total: u64, index: u64| {
            let processes = u64::from(processes);
            total * (index + 1) / processes - total * index / processes
        };
        let plans = (0..u64::from(processes)).map(|index| Plan {
            address: target.address,
            source: None,
            connections: share(u64::from(self.connections), index) as usize,
            depth: self.pipeline as usize,
            reuse,
            rate: self.rate.unwrap_or(0.0) / f64::from(processes),
            duration_us: micros(duration),
            warmup_us: micros(self.warmup),
            requests: self.requests.map(|total| share(total, index)),
            numbers: (index, u64::from(processes)),
            timeout_us: micros(self.timeout),
            interval_us: micros(common.interval),
        });
        Ok(plans.collect())
    }

    /// Describes the load briefly.
    pub fn describe(&self) -> String {
        let depth = match self.pipeline {
            1 => String::new(),
            depth => format!(", {depth} deep"),
        };
        match self.rate {
            Some(rate) => format!(
                "({} connections{depth}, open loop at {rate}/s)",
                self.connections
            ),
            None => format!("({} connections{depth}, closed loop)", self.connections),
        }
    }
}

/// Returns the text itself, or the content of the file after `@`.
fn read_body(text: &str) -> Result<Vec<u8>, Error> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(text.as_bytes().to_vec());
    };
    let fix = "give --body @FILE with a readable file, or the text itself";
    let meta = std::fs::metadata(path);
    if meta.is_ok_and(|meta| meta.len() > BODY_BYTES_MAX) {
        let cause = format!("{path} is larger than {BODY_BYTES_MAX} bytes");
        return Err(Error::option("--body", cause, "use a smaller file"));
    }
    std::fs::read(path).map_err(|error| Error::option("--body", format!("{path}: {error}"), fix))
}
