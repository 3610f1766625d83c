//! Metrics under the names of Pushpin's dashboards, at the Prometheus address.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use fermata_engine::MoreMetrics;
use fermata_engine::stats::{Counter, Figures, Gauge};
use fermata_grip::stats::Figure;
use fermata_io::clock;

use crate::client::source::Table;
use crate::prepared::url;
use crate::routes::figures::{Count, RouteFigures};
use crate::settings::Settings;
use crate::upstream::targets::Targets;
use crate::upstream::{Health, State};

const MINUTE_MS: u64 = 60_000;

/// Converts the setting `prometheus` to the engine's address format.
pub(super) fn prometheus_address(settings: &Settings) -> String {
    url("http", &settings.prometheus)
}

/// Appends the edge's metrics to those of the engine.
pub(super) fn more_metrics(
    settings: &Settings,
    targets: Targets,
    routes: RouteFigures,
    shown: Rc<RefCell<Rc<Table>>>,
) -> Box<MoreMetrics> {
    let prefix = settings.prometheus_prefix.clone();
    Box::new(move |snapshot, out| {
        for figure in Figure::ALL {
            figure.write(out, &prefix, value(&snapshot.total, figure));
        }
        write_targets(out, &shown.borrow(), targets.health, clock::monotonic_ms());
        write_routes(out, &shown.borrow(), routes);
    })
}

/// Writes the state of targets of routes with several targets or checks, for all workers together.
fn write_targets(out: &mut String, table: &Table, health: Health, now_ms: u64) {
    let mut slots = Vec::new();
    for (rule, watched) in table.routes.rules().iter().zip(&table.watched) {
        let Some(watched) = watched else {
            continue;
        };
        for (target, slot) in rule.targets.iter().zip(&watched.slots) {
            let (route, target) = (escaped(&rule.label()), escaped(&target.name));
            let labels = format!("{{route=\"{route}\",target=\"{target}\"}}");
            // A target that is listed twice in a route is counted once.
            if let Some(slot) = *slot
                && !slots.iter().any(|(known, _)| *known == labels)
            {
                slots.push((labels, slot));
            }
        }
    }
    if slots.is_empty() {
        return;
    }
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(_) -> u64| {
        // Writing to a String cannot fail.
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, slot) in &slots {
            let _ = writeln!(out, "{name}{labels} {}", value(*slot));
        }
    };
    let help = "Whether requests are sent to a target (1) or only when no other is left (0).";
    family("fermata_edge_target_up", "gauge", help, &|slot| {
        u64::from(health.state(slot, now_ms) == State::Up)
    });
    let help = "Requests that a target was chosen for.";
    family(
        "fermata_edge_target_requests_total",
        "counter",
        help,
        &|slot| health.figures(slot).requests,
    );
    let help = "Requests that a target failed.";
    family(
        "fermata_edge_target_failures_total",
        "counter",
        help,
        &|slot| health.figures(slot).failed,
    );
}

/// Writes the counters of routes with an id, for all workers together.
fn write_routes(out: &mut String, table: &Table, routes: RouteFigures) {
    let counted = routes.by_route(&table.routes);
    if counted.is_empty() {
        return;
    }
    let mut family = |name: &str, help: &str, counts: &[(&str, Count)]| {
        // Writing to a String cannot fail.
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} counter\n");
        for (id, values) in &counted {
            for (label, count) in counts {
                let route = escaped(id);
                let value = values[*count as usize];
                let _ = writeln!(out, "{name}{{route=\"{route}\"{label}}} {value}");
            }
        }
    };
    let help = "Requests of clients by a route with an id, handshakes of WebSockets among them.";
    family(
        "fermata_edge_route_requests_total",
        help,
        &[("", Count::Requests)],
    );
    let help = "Those that no target has answered.";
    family(
        "fermata_edge_route_failures_total",
        help,
        &[("", Count::Failed)],
    );
    let of_kinds = |received_of_client, sent_to_client, received_of_server, sent_to_server| {
        [
            (",kind=\"client_received\"", received_of_client),
            (",kind=\"client_sent\"", sent_to_client),
            (",kind=\"server_received\"", received_of_server),
            (",kind=\"server_sent\"", sent_to_server),
        ]
    };
    let help = "Bytes of bodies and of messages of WebSockets by a route with an id: from and to clients, from and to backends; without heads, and without what is published.";
    let kinds = of_kinds(
        Count::ClientReceived,
        Count::ClientSent,
        Count::ServerReceived,
        Count::ServerSent,
    );
    family("fermata_edge_route_bytes_total", help, &kinds);
    let help = "Bytes of heads by a route with an id: methods, targets, statuses, reasons, and names and values of headers.";
    let kinds = of_kinds(
        Count::ClientHeadReceived,
        Count::ClientHeadSent,
        Count::ServerHeadReceived,
        Count::ServerHeadSent,
    );
    family("fermata_edge_route_header_bytes_total", help, &kinds);
    let help = "Messages of WebSockets by a route with an id, without what is published.";
    let kinds = of_kinds(
        Count::ClientMessagesReceived,
        Count::ClientMessagesSent,
        Count::ServerMessagesReceived,
        Count::ServerMessagesSent,
    );
    family("fermata_edge_route_messages_total", help, &kinds);
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns the number of clients with a request in progress or held.
pub(super) fn connected(figures: &Figures) -> u64 {
    [Gauge::HttpActive, Gauge::Sse, Gauge::WebSocket]
        .into_iter()
        .map(|gauge| figures.gauge(gauge))
        .sum()
}

/// Returns the sum of connected minutes of all clients.
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
