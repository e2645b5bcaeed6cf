//! Chart of the rate over time as SVG: stages shaded, the reserved rate dashed, one line per stream.

use std::fmt::Write;
use std::time::Duration;

use super::drawing::{self, Style, level, tick};
use super::escape;
use crate::demo::{Mark, Series, Span, Timeline};

/// Height of the drawing; the constants after it bound the plot.
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 940.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 360.0;

const STYLE: Style = Style {
    light: "--shade:#1f6feb14;--reserved:#1a7f3722;--stream:#1a7f37;--flood:#c4432b",
    dark: "--shade:#58a6ff1a;--reserved:#3fb95026;--stream:#3fb950;--flood:#f47067",
    rules: ".mark{stroke:var(--ink);stroke-dasharray:2 3}\
            .note{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}\
            .span{fill:var(--shade)}.held{fill:var(--reserved)}\
            .limit{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:6 6}\
            .stream{stroke:var(--stream)}.flood{stroke:var(--flood)}",
};

/// Mapping from rates and times to coordinates.
struct Scale {
    seconds: f64,
    bps: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * seconds / self.seconds
    }

    fn y(&self, bps: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (bps / self.bps).min(1.0)
    }

    /// Returns begin and end of a span, up to the last whole bin.
    fn ends(&self, span: &Span) -> (f64, f64) {
        let x = |at: Duration| self.x(at.as_secs_f64().min(self.seconds));
        (x(span.from), x(span.until))
    }
}

/// Draws the chart, complete with its style.
pub fn svg(timeline: &Timeline, title: &str) -> String {
    let bins = timeline.series.iter().map(|series| series.rates_bps.len()).max().unwrap_or(0);
    let peak = timeline.series.iter().flat_map(|series| &series.rates_bps).max().copied();
    let scale = Scale {
        seconds: (bins as f64 * timeline.bin.as_secs_f64()).max(1.0),
        bps: (peak.unwrap_or(0).max(1_000_000) as f64 / 2e6).ceil() * 2e6,
    };
    let mut out = drawing::begin_titled(HEIGHT, title, &STYLE);
    spans(&mut out, timeline, &scale);
    axes(&mut out, &scale);
    for series in &timeline.series {
        line(&mut out, series, timeline.bin.as_secs_f64(), &scale);
    }
    // The limit is drawn over the lines, because a stream at exactly its rate would hide it.
    limits(&mut out, &timeline.spans, &scale);
    marks(&mut out, &timeline.marks, &scale);
    legend(&mut out, &timeline.series);
    out.push_str("</svg>");
    out
}

/// Draws the stages: shaded, with their names above. Writing to a string does not fail, so these helpers ignore the
/// result.
fn spans(out: &mut String, timeline: &Timeline, scale: &Scale) {
    for span in &timeline.spans {
        let (from, until) = scale.ends(span);
        let class = if span.reserved_bps > 0 { "held" } else { "span" };
        let (width, height, middle) = (until - from, BOTTOM - TOP, (from + until) / 2.0);
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>\
             <text x=\"{middle:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            TOP - 8.0,
            escape(span.name)
        );
    }
}

/// Draws the reserved rate, dashed, if there is one.
fn limits(out: &mut String, spans: &[Span], scale: &Scale) {
    for span in spans.iter().filter(|span| span.reserved_bps > 0) {
        let ((from, until), y) = (scale.ends(span), scale.y(span.reserved_bps as f64));
        let _ = write!(
            out,
            "<line class=\"limit\" x1=\"{from:.1}\" x2=\"{until:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
    }
}

/// Draws the marks: a line through the plot, with its name beside it, halfway between the reserved rate and the
/// flood.
fn marks(out: &mut String, marks: &[Mark], scale: &Scale) {
    for mark in marks {
        let x = scale.x(mark.at.as_secs_f64());
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>"
        );
    }
    for (index, mark) in marks.iter().enumerate() {
        let x = scale.x(mark.at.as_secs_f64()) + 6.0;
        // Names that are close together go one below the other.
        let y = (TOP + BOTTOM) / 2.0 - 10.0 + 20.0 * (index % 4) as f64;
        let name = escape(mark.name);
        let _ = write!(out, "<text class=\"note\" x=\"{x:.1}\" y=\"{y:.0}\">{name}</text>");
    }
}

fn axes(out: &mut String, scale: &Scale) {
    let step = if scale.bps > 12e6 { 5.0 } else { 2.0 };
    let mut mbps = 0.0;
    while mbps * 1e6 <= scale.bps {
        level(out, (LEFT, RIGHT), scale.y(mbps * 1e6), &mbps.to_string());
        mbps += step;
    }
    let step = if scale.seconds > 40.0 { 10.0 } else { 5.0 };
    let mut seconds = 0.0;
    while seconds <= scale.seconds {
        tick(out, scale.x(seconds), BOTTOM, &format!("{seconds} s"));
        seconds += step;
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{RIGHT}\" y=\"26\" text-anchor=\"end\">received, Mbit/s of IP packets</text>"
    );
}

fn line(out: &mut String, series: &Series, bin: f64, scale: &Scale) {
    let _ = write!(out, "<polyline class=\"line {}\" points=\"", escape(series.name));
    for (index, &bps) in series.rates_bps.iter().enumerate() {
        // The rate is drawn in the middle of its bin.
        let x = scale.x((index as f64 + 0.5) * bin);
        let _ = write!(out, "{x:.1},{:.1} ", scale.y(bps as f64));
    }
    out.push_str("\"/>");
}

fn legend(out: &mut String, series: &[Series]) {
    let y = HEIGHT - 20.0;
    let mut x = LEFT;
    let names = series.iter().map(|series| (format!("line {}", series.name), series.name));
    let reserved = std::iter::once(("limit".to_owned(), "reserved rate"));
    for (class, name) in names.chain(reserved) {
        let _ = write!(
            out,
            "<line class=\"{}\" x1=\"{x}\" x2=\"{:.0}\" y1=\"{y}\" y2=\"{y}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            escape(&class),
            x + 28.0,
            x + 36.0,
            y + 4.0,
            escape(name)
        );
        x += 150.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        Timeline {
            bin: Duration::from_millis(100),
            spans: vec![Span {
                name: "reserved <&>",
                from: Duration::from_secs(1),
                until: Duration::from_secs(2),
                reserved_bps: 2_000_000,
            }],
            marks: vec![Mark { name: "kill -9", at: Duration::from_secs(2) }],
            series: vec![Series { name: "stream", rates_bps: vec![0, 2_000_000, 4_000_000] }],
        }
    }

    /// The plot is 304 points high for 4 Mbit/s, and a second of three tenths is one of ten bins.
    #[test]
    fn rates_are_drawn_to_scale() {
        let drawing = svg(&timeline(), "t");
        assert!(drawing.contains("points=\"107.8,360.0 195.4,208.0 283.0,56.0 \""), "{drawing}");
        assert!(drawing.contains("y1=\"208.0\" y2=\"208.0\""), "the reserved rate");
        assert!(drawing.contains("reserved &lt;&amp;&gt;"));
    }

    #[test]
    fn an_empty_timeline_is_drawn_empty() {
        let drawing = svg(&Timeline::default(), "nothing");
        assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>"));
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
    }
}
