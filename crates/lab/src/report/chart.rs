//! Chart of the rate over time as SVG: stages shaded, the reserved rate dashed, one line per stream.

use std::time::Duration;

use crate::demo::{Mark, Series, Span, Timeline};
use crate::plot::axis::{Area, Scale};
use crate::plot::drawing::{Align, Drawing, Style};

/// Height of the drawing.
const HEIGHT: f64 = 420.0;
const AREA: Area = Area { left: 64.0, right: 940.0, top: 56.0, bottom: 360.0 };

const STYLE: Style = Style {
    light: "--shade:#1f6feb14;--reserved:#1a7f3722;--stream:#1a7f37;--flood:#c4432b",
    dark: "--shade:#58a6ff1a;--reserved:#3fb95026;--stream:#3fb950;--flood:#f47067",
    rules: ".mark{stroke:var(--ink);stroke-dasharray:2 3}\
            .note{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}\
            .span{fill:var(--shade)}.held{fill:var(--reserved)}\
            .limit{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:6 6}\
            .stream{stroke:var(--stream)}.flood{stroke:var(--flood)}",
};

/// Draws the chart, complete with its style.
pub fn svg(timeline: &Timeline, title: &str) -> String {
    let mut chart = Chart::of(timeline, title);
    for span in &timeline.spans {
        chart.span(span);
    }
    chart.axes();
    for series in &timeline.series {
        chart.line(series, timeline.bin);
    }
    // The limit is drawn over the lines, because a stream at exactly its rate would hide it.
    for span in timeline.spans.iter().filter(|span| span.reserved_bps > 0) {
        chart.limit(span);
    }
    chart.marks(&timeline.marks);
    chart.legend(&timeline.series);
    chart.drawing.finish(HEIGHT, title, &STYLE)
}

/// A chart under construction.
struct Chart {
    drawing: Drawing,
    /// Length of the horizontal axis, up to the last whole bin.
    seconds: f64,
    /// Length of the vertical axis.
    bps: f64,
    across: Scale,
    up: Scale,
}

impl Chart {
    fn of(timeline: &Timeline, title: &str) -> Chart {
        let bins = timeline.series.iter().map(|series| series.rates_bps.len()).max().unwrap_or(0);
        let peak = timeline.series.iter().flat_map(|series| &series.rates_bps).max().copied();
        let seconds = (bins as f64 * timeline.bin.as_secs_f64()).max(1.0);
        let bps = (peak.unwrap_or(0).max(1_000_000) as f64 / 2e6).ceil() * 2e6;
        let across = Scale::linear(0.0, seconds, AREA.across());
        let up = Scale::linear(0.0, bps, AREA.up());
        Chart { drawing: Drawing::titled(title), seconds, bps, across, up }
    }

    /// Returns the coordinates of begin and end of a span.
    fn ends(&self, span: &Span) -> (f64, f64) {
        let x = |at: Duration| self.across.place(at.as_secs_f64());
        (x(span.from), x(span.until))
    }

    /// Draws a stage: shaded, with its name above.
    fn span(&mut self, span: &Span) {
        let (from, until) = self.ends(span);
        let class = if span.reserved_bps > 0 { "held" } else { "span" };
        let size = (until - from, AREA.bottom - AREA.top);
        self.drawing.rectangle(class, (from, AREA.top), size);
        let above = ((from + until) / 2.0, AREA.top - 8.0);
        self.drawing.text("", above, Align::Middle, span.name);
    }

    /// Draws the reserved rate, dashed.
    fn limit(&mut self, span: &Span) {
        let ((from, until), y) = (self.ends(span), self.up.place(span.reserved_bps as f64));
        self.drawing.line("limit", (from, y), (until, y));
    }

    /// Draws the marks: a line through the plot, with its name beside it, halfway between the reserved rate and the
    /// flood.
    fn marks(&mut self, marks: &[Mark]) {
        let x = |mark: &Mark| self.across.place(mark.at.as_secs_f64());
        for mark in marks {
            AREA.upright(&mut self.drawing, "mark", x(mark));
        }
        for (index, mark) in marks.iter().enumerate() {
            // Names that are close together go one below the other.
            let y = (AREA.top + AREA.bottom) / 2.0 - 10.0 + 20.0 * (index % 4) as f64;
            self.drawing.text("note", (x(mark) + 6.0, y), Align::Start, mark.name);
        }
    }

    fn axes(&mut self) {
        let step = if self.bps > 12e6 { 5e6 } else { 2e6 };
        for bps in self.up.every(step) {
            AREA.level(&mut self.drawing, self.up.place(bps), &(bps / 1e6).to_string());
        }
        let step = if self.seconds > 40.0 { 10.0 } else { 5.0 };
        for seconds in self.across.every(step) {
            AREA.tick(&mut self.drawing, self.across.place(seconds), &format!("{seconds} s"));
        }
        let unit = "received, Mbit/s of IP packets";
        self.drawing.text("axis", (AREA.right, 26.0), Align::End, unit);
    }

    fn line(&mut self, series: &Series, bin: Duration) {
        let points = series.rates_bps.iter().enumerate().map(|(index, &bps)| {
            // The rate is drawn in the middle of its bin.
            let seconds = (index as f64 + 0.5) * bin.as_secs_f64();
            (self.across.place(seconds), self.up.place(bps as f64))
        });
        self.drawing.polyline(&format!("line {}", series.name), points);
    }

    fn legend(&mut self, series: &[Series]) {
        let (mut x, y) = (AREA.left, HEIGHT - 20.0);
        let names = series.iter().map(|series| (format!("line {}", series.name), series.name));
        let reserved = std::iter::once(("limit".to_owned(), "reserved rate"));
        for (class, name) in names.chain(reserved) {
            self.drawing.line(&class, (x, y), (x + 28.0, y));
            self.drawing.text("", (x + 36.0, y + 4.0), Align::Start, name);
            x += 150.0;
        }
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
        assert!(drawing.contains("points=\"107.8,360 195.4,208 283,56\""), "{drawing}");
        assert!(drawing.contains("y1=\"208\" y2=\"208\""), "the reserved rate");
        assert!(drawing.contains("reserved &lt;&amp;&gt;"));
    }

    #[test]
    fn an_empty_timeline_is_drawn_empty() {
        let drawing = svg(&Timeline::default(), "nothing");
        assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n"));
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
    }
}
