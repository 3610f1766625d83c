//! Output during a run.

mod events;
pub(crate) mod plot;
mod progress;
mod prometheus;
mod statsd;
pub(crate) mod text;

use fermata_io::sys::epoll::Epoll;

use crate::error::Error;
use crate::options::common::Common;
use crate::totals::{Point, Totals};
use events::Events;
use progress::Progress;
use prometheus::Prometheus;
use statsd::Statsd;

/// All outputs that receive each interval.
pub(crate) struct Outputs {
    scenario: &'static str,
    progress: Option<Progress>,
    events: Option<Events>,
    statsd: Option<Statsd>,
    prometheus: Option<Prometheus>,
}

impl Outputs {
    pub fn new(common: &Common, scenario: &'static str) -> Result<Self, Error> {
        let statsd = common.statsd.map(|address| {
            let prefix = format!("{}.{scenario}", common.statsd_prefix);
            Statsd::new(address, &prefix)
        });
        Ok(Self {
            scenario,
            progress: (!common.quiet).then(Progress::new),
            events: common.events.as_deref().map(Events::create).transpose()?,
            statsd: statsd.transpose()?,
            prometheus: common.prometheus.map(Prometheus::new).transpose()?,
        })
    }

    /// Starts to listen for Prometheus.
    pub fn watch(&mut self, epoll: &mut Epoll) -> Result<(), Error> {
        match &self.prometheus {
            Some(prometheus) => prometheus.watch(epoll),
            None => Ok(()),
        }
    }

    /// Shows a completed interval.
    pub fn show(&mut self, totals: &Totals, point: &Point, phase: &str) {
        if let Some(progress) = &mut self.progress {
            progress.show(totals, point, phase);
        }
        if let Some(events) = &mut self.events {
            events.show(point, phase);
        }
        if let Some(statsd) = &mut self.statsd {
            statsd.show(point);
        }
        if let Some(prometheus) = &mut self.prometheus {
            prometheus.show(totals, self.scenario);
        }
    }

    /// Reports the start of a step.
    pub fn begin_step(&mut self, name: &str, now_us: u64) {
        if let Some(events) = &mut self.events {
            events.step(name, "begins", now_us);
        }
    }

    /// Reports the end of a step.
    pub fn end_step(&mut self, name: &str, now_us: u64) {
        if let Some(events) = &mut self.events {
            events.step(name, "ends", now_us);
        }
    }

    /// Handles a ready descriptor that [`watch`](Self::watch) or a handler added.
    pub fn handle_event(&mut self, epoll: &mut Epoll, token: u64) {
        if let Some(prometheus) = &mut self.prometheus {
            prometheus.handle_event(epoll, token);
        }
    }

    /// Ends the progress output before the result.
    pub fn end(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.end();
        }
    }
}
