//! Figures by the names that dashboards made for Pushpin know, at the address for Prometheus.

use fermata_engine::MoreMetrics;
use fermata_engine::stats::{Counter, Figures, Gauge};
use fermata_grip::stats::Figure;

use super::start::url;
use crate::settings::Settings;

const MINUTE_MS: u64 = 60_000;

/// The setting `prometheus` as the engine has addresses.
pub(super) fn prometheus_address(settings: &Settings) -> String {
    url("http", settings.text("prometheus"))
}

/// What stands behind the engine's own figures.
pub(super) fn more_metrics(settings: &Settings) -> Box<MoreMetrics> {
    let prefix = settings.text("prometheus_prefix").to_owned();
    Box::new(move |snapshot, out| {
        for figure in Figure::ALL {
            figure.write(out, &prefix, value(&snapshot.total, figure));
        }
    })
}

/// Clients that are connected and not just between two requests.
pub(super) fn connected(figures: &Figures) -> u64 {
    [Gauge::HttpActive, Gauge::Sse, Gauge::WebSocket]
        .into_iter()
        .map(|gauge| figures.gauge(gauge))
        .sum()
}

/// Whole minutes that clients have been connected, all added up.
pub(super) fn minutes(figures: &Figures) -> u64 {
    figures.counter(Counter::ConnectedMs) / MINUTE_MS
}

fn value(figures: &Figures, figure: Figure) -> u64 {
    match figure {
        Figure::RequestReceived => figures.counter(Counter::Requests),
        Figure::ConnectionConnected => connected(figures),
        Figure::ConnectionMinute => minutes(figures),
        Figure::MessageReceived => figures.counter(Counter::Published),
        Figure::MessageSent => figures.counter(Counter::Deliveries),
    }
}
