//! SVG plot of a run: connections, rates and latency over time.

use std::fmt::Write as _;

use super::text::{count, micros};
use crate::counters::Counter;
use crate::summary::Labels;
use crate::totals::Point;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const PANEL_HEIGHT: f64 = 180.0;
const PANEL_GAP: f64 = 50.0;
const TOP: f64 = 70.0;

/// One line in a panel.
struct Line {
    name: &'static str,
    colour: &'static str,
    values: Vec<f64>,
}

struct Panel {
    title: &'static str,
    lines: Vec<Line>,
    /// Formats an axis value.
    label: fn(f64) -> String,
    logarithmic: bool,
}

/// Plots a whole run.
pub(crate) fn svg(series: &[Point], labels: &Labels) -> String {
    let panels = panels(series);
    let height = TOP + panels.len() as f64 * (PANEL_HEIGHT + PANEL_GAP);
    let end_s = series.last().map_or(1.0, |point| point.at_s).max(1e-3);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">fermata load {}</text>\n\
         <text x=\"{LEFT}\" y=\"46\" fill=\"#555\">{}</text>\n",
        escape(labels.scenario),
        escape(&labels.what)
    );
    for (index, panel) in panels.iter().enumerate() {
        let top = TOP + index as f64 * (PANEL_HEIGHT + PANEL_GAP);
        draw(&mut out, panel, series, end_s, top);
    }
    out.push_str("</svg>\n");
    out
}

fn panels(series: &[Point]) -> Vec<Panel> {
    let line = |name, colour, value: &dyn Fn(&Point) -> f64| Line {
        name,
        colour,
        values: series.iter().map(value).collect(),
    };
    let rate =
        |counter: Counter| move |point: &Point| point.counters.get(counter) as f64 / point.length_s;
    let rates = [
        ("connects/s", "#888", Counter::Connects),
        ("responses/s", "#06c", Counter::Responses),
        ("published/s", "#c60", Counter::Published),
        ("deliveries/s", "#083", Counter::Deliveries),
    ];
    let rates = rates.map(|(name, colour, counter)| line(name, colour, &rate(counter)));
    let used = |line: &Line| line.values.iter().any(|&value| value > 0.0);
    vec![
        Panel {
            title: "open connections",
            lines: vec![line("open", "#06c", &|point| point.open as f64)],
            label: count,
            logarithmic: false,
        },
        Panel {
            title: "per second",
            lines: rates.into_iter().filter(used).collect(),
            label: count,
            logarithmic: false,
        },
        Panel {
            title: "latency",
            lines: vec![
                line("max", "#c33", &|point| point.max_us as f64),
                line("p99", "#c60", &|point| point.p99_us as f64),
                line("p50", "#083", &|point| point.p50_us as f64),
            ],
            label: |value| micros(value as u64),
            logarithmic: true,
        },
    ]
}

fn draw(out: &mut String, panel: &Panel, series: &[Point], end_s: f64, top: f64) {
    let values = panel.lines.iter().flat_map(|line| &line.values);
    let max = values.fold(0.0_f64, |max, &value| max.max(value));
    let scale = Scale::new(max, panel.logarithmic);
    let bottom = top + PANEL_HEIGHT;
    let right = WIDTH - RIGHT;
    let x = |at_s: f64| LEFT + at_s / end_s * (right - LEFT);
    let y = |value: f64| bottom - scale.share(value) * PANEL_HEIGHT;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
        top - 8.0,
        panel.title
    );
    for tick in scale.ticks() {
        let at = y(tick);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            escape(&(panel.label)(tick))
        );
    }
    for tick in Scale::new(end_s, false).ticks() {
        let at = x(tick);
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#555\">{tick} s</text>",
            bottom + 16.0
        );
    }
    for (index, line) in panel.lines.iter().enumerate() {
        let points = series.iter().zip(&line.values);
        let mut path = String::new();
        let mut pen_down = false;
        for (point, &value) in points {
            // A logarithmic axis cannot show zero.
            if panel.logarithmic && value <= 0.0 {
                pen_down = false;
                continue;
            }
            let command = if pen_down { 'L' } else { 'M' };
            pen_down = true;
            let _ = write!(path, "{command}{:.1} {:.1}", x(point.at_s), y(value));
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" \
             stroke-linecap=\"round\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" fill=\"{}\">{}</text>",
            line.colour,
            LEFT + 160.0 + index as f64 * 110.0,
            top - 8.0,
            line.colour,
            line.name
        );
    }
}

/// A value axis from zero, or from the first power of ten on a logarithmic one.
struct Scale {
    max: f64,
    logarithmic: bool,
}

impl Scale {
    fn new(max: f64, logarithmic: bool) -> Self {
        let max = if logarithmic {
            10_f64.powf(max.max(10.0).log10().ceil())
        } else {
            max.max(1e-9)
        };
        Self { max, logarithmic }
    }

    /// Returns the relative position of a value, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        if self.logarithmic {
            value.max(1.0).log10() / self.max.log10()
        } else {
            value / self.max
        }
    }

    /// Returns the values of grid lines: powers of ten, or up to six round numbers.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let powers = self.max.log10().round() as i32;
            return (0..=powers).map(|power| 10_f64.powi(power)).collect();
        }
        let rough = self.max / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        let count = (self.max / step + 1e-9).floor() as u32;
        // Rounded, because multiples of 0.1 are not exact.
        let round = |value: f64| (value * 1e6).round() / 1e6;
        (0..=count).map(|at| round(f64::from(at) * step)).collect()
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Scale::new(95.0, false).ticks(),
            [0.0, 20.0, 40.0, 60.0, 80.0]
        );
        assert_eq!(
            Scale::new(0.5, false).ticks(),
            [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
        );
        assert_eq!(Scale::new(250.0, true).ticks(), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn nothing_breaks_out_of_the_text() {
        let labels = Labels {
            scenario: "http",
            what: "GET http://x/?a=<b>&c".to_string(),
            latency: "latency",
            needed: Counter::Responses,
        };
        let svg = svg(&[], &labels);
        assert!(svg.contains("a=&lt;b&gt;&amp;c") && svg.ends_with("</svg>\n"));
    }
}
