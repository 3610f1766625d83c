//! The address for metrics and health: plain HTTP, read only, away from the public listeners.
//!
//! `GET /metrics` is the text for Prometheus, `GET /stats` the same figures as JSON. `GET /health/live`
//! answers as long as a worker's loop goes round; `GET /health/ready` turns 503 when the server stops or
//! the log of its cluster is not there, so that a load balancer sends nobody more. The listener is shared: any worker that is free answers
//! for all.

use fermata_io::Driver;

use crate::admin::stats::{self, Reporter};
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::net::Net;
use crate::net::index::ExchangeIndex;

const TEXT: &[u8] = b"text/plain; charset=utf-8";

impl<D: Driver> Net<D> {
    /// Adds to what this worker has counted.
    pub fn count(&mut self, counter: stats::Counter, by: u64) {
        self.counts.add(counter, by);
    }
}

impl Reporter {
    /// Copies the figures to where others read them.
    pub(crate) fn report<D: Driver>(
        &mut self,
        channels: &mut Channels,
        to: &mut Clients<'_, D>,
        now_ms: u64,
    ) {
        let unix_ms = to.net.driver.unix_ms();
        let counts = &mut to.net.counts;
        to.http.trace.write_log(counts, &mut to.net.log, unix_ms);
        to.net.log.logger().tell_dropped(unix_ms);
        channels.report_followers(counts);
        self.copy(to.net, &mut channels.local, now_ms);
    }

    fn metrics_text<D: Driver>(&self, channels: &Channels, to: &Clients<'_, D>) -> String {
        let snapshot = self.snapshot(channels, to.net);
        let mut text = snapshot.to_prometheus(to.http.passes_on);
        if let Some(more) = &self.more_metrics {
            more(&snapshot, &mut text);
        }
        text
    }

    /// Answers the current request, which came in at the address for metrics.
    pub(crate) fn answer_metrics<D: Driver>(
        &mut self,
        channels: &mut Channels,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
    ) {
        let view = to.http.request.view(&to.net.input.bytes);
        let is_known = |path: &[u8]| {
            matches!(
                path,
                b"/metrics" | b"/stats" | b"/health/live" | b"/health/ready"
            )
        };
        let (status, content_type, body) = match (view.method(), view.path()) {
            (b"GET" | b"HEAD", b"/metrics") => {
                self.report(channels, to, to.net.driver.now_ms());
                (200, stats::PROMETHEUS, self.metrics_text(channels, to))
            }
            (b"GET" | b"HEAD", b"/stats") => {
                self.report(channels, to, to.net.driver.now_ms());
                (
                    200,
                    &b"application/json"[..],
                    self.json_snapshot(channels, to.net),
                )
            }
            (b"GET" | b"HEAD", b"/health/live") => (200, TEXT, "live\n".to_owned()),
            (b"GET" | b"HEAD", b"/health/ready") if self.shared.is_stopping() => {
                (503, TEXT, "stopping\n".to_owned())
            }
            (b"GET" | b"HEAD", b"/health/ready") if !channels.is_log_ready() => {
                let away = "the log of the cluster is not there";
                let text = match channels.log_trouble() {
                    Some(cause) => format!("{away}: {cause}\n"),
                    None => format!("{away}\n"),
                };
                (503, TEXT, text)
            }
            (b"GET" | b"HEAD", b"/health/ready") if !channels.is_presence_known() => (
                503,
                TEXT,
                "who is present on other servers is not known yet\n".to_owned(),
            ),
            (b"GET" | b"HEAD", b"/health/ready") => (200, TEXT, "ready\n".to_owned()),
            (_, path) if is_known(path) => (405, TEXT, "Figures are read by GET.\n".to_owned()),
            _ => {
                let known = "Here are GET /metrics, /stats, /health/live and /health/ready.\n";
                (404, TEXT, known.to_owned())
            }
        };
        let headers = [(&b"Cache-Control"[..], &b"no-store"[..])];
        to.http.answer(
            to.net,
            index,
            status,
            Some(content_type),
            headers.into_iter(),
            body.as_bytes(),
        );
    }
}
