//! Check of the metrics table in docs/metrics.md against the source.

use super::table::{Counter, Figure, Gauge};

const BEGIN: &str = "<!-- figures: written by `make generate` -->\n";
const END: &str = "<!-- end of figures -->\n";

#[test]
fn matches_the_committed_reference() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("the page exists");
    let (before, rest) = page.split_once(BEGIN).expect("the page has the mark");
    let (_, after) = rest.split_once(END).expect("the page has the second mark");
    let rendered = format!("{before}{BEGIN}{}{END}{after}", markdown());
    fermata_testkit::generated(path, &rendered);
}

fn markdown() -> String {
    let mut out = String::from("\n| JSON | Prometheus | Meaning |\n|---|---|---|\n");
    for table in [Counter::TABLE, Gauge::TABLE] {
        for figures in table.chunk_by(|one, other| one.key == other.key) {
            out += &row(figures);
        }
    }
    out + "\n"
}

/// Returns one row for all metrics with the same key.
fn row(figures: &[Figure]) -> String {
    let Figure {
        key, metric, help, ..
    } = figures[0];
    let labels: Vec<_> = figures.iter().filter_map(|figure| figure.label).collect();
    let values: Vec<_> = labels
        .iter()
        .map(|(_, value)| format!("`{value}`"))
        .collect();
    let (label, values) = match labels.first() {
        None => (String::new(), String::new()),
        Some((name, _)) => (format!("{{{name}}}"), format!(" {}.", values.join(", "))),
    };
    format!("| `{key}` | `fermata_{metric}{label}` | {help}{values} |\n")
}
