//! The metrics and health endpoint: plain HTTP, read-only, separate from public listeners.
//!
//! `GET /metrics` returns Prometheus text, `GET /stats` the same values as JSON. `GET /health/live`
//! succeeds while a worker's loop runs. `GET /health/ready` returns 503 when the server stops or
//! its cluster log is unreachable, so that a load balancer removes it. All workers share the
//! listener: any free worker reports for the complete server.

use fermata_io::Driver;

use crate::admin::stats::{self, Reporter};
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::net::Net;
use crate::net::index::ExchangeIndex;

const TEXT: &[u8] = b"text/plain; charset=utf-8";

impl<D: Driver> Net<D> {
    /// Adds to a counter of this worker.
    pub fn count(&mut self, counter: stats::Counter, by: u64) {
        self.counts.add(counter, by);
    }
}

impl Reporter {
    /// Copies the counters to shared memory.
    pub(crate) fn report<D: Driver>(
        &mut self,
        channels: &mut Channels,
        to: &mut Clients<'_, D>,
        now_ms: u64,
    ) {
        let unix_ms = to.net.driver.unix_ms();
        let counts = &mut to.net.counts;
        to.http.trace.write_log(counts, &mut to.net.log, unix_ms);
        to.net.log.logger().log_dropped(unix_ms);
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

    /// Answers the current request of the metrics endpoint.
    pub(crate) fn answer_metrics<D: Driver>(
        &mut self,
        channels: &mut Channels,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
    ) {
        let view = to.http.request.view(&to.net.input.bytes);
        // A website can make its name resolve to 127.0.0.1 (DNS rebinding). Other addresses need no
        // check: they are reachable from the network without it.
        let host = view.host();
        let is_loopback = to.net.settings.has_loopback_metrics();
        let hosts = to.http.hosts.clone().unwrap_or_default();
        if is_loopback && !hosts.allows(host) {
            let text =
                "This address answers localhost, addresses and the hosts of allowed_hosts.\n";
            return to.http.refuse(to.net, index, 403, text);
        }
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
            (b"GET" | b"HEAD", b"/health/ready")
                if !channels.is_presence_known() && channels.is_log_ready() =>
            {
                (
                    503,
                    TEXT,
                    "who is present on other servers is not known yet\n".to_owned(),
                )
            }
            (b"GET" | b"HEAD", b"/health/ready") => match channels.log_trouble() {
                None => (200, TEXT, "ready\n".to_owned()),
                Some(trouble) => (503, TEXT, format!("{trouble}\n")),
            },
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
