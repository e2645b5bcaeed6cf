//! Drawings of a report: lines, dots and bars over linear or logarithmic axes, each value with its interval.
//! Published series are dashed.

use std::fmt::Write;

use super::chapter::{Axis, Figure, Kind, Point, Series};
use earmark_lab::report::drawing::{self, COLOURS, SERIES, WIDTH, level, tick};
use earmark_lab::report::escape;

const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 380.0;
/// Height of a line of the legend.
const LINE: f64 = 20.0;
/// Width of a letter in the legend.
const LETTER: f64 = 7.2;
/// Room beside a name in the legend.
const BESIDE: f64 = 60.0;
/// Suffix of the names of published series.
const PUBLISHED: &str = " (published)";

/// Draws a figure as SVG, complete with its style.
pub fn svg(figure: &Figure) -> String {
    let letters = figure.series.iter().map(|series| legend_name(series).chars().count()).max();
    let column = letters.unwrap_or(0) as f64 * LETTER + BESIDE;
    let per_line = (((RIGHT - LEFT) / column) as usize).max(1);
    let lines = figure.series.len().div_ceil(per_line);
    let mut out =
        drawing::begin_titled(BOTTOM + 60.0 + LINE * lines as f64, &figure.title, &SERIES);
    let points = || figure.series.iter().flat_map(|series| &series.points);
    let across = match figure.across.names.len() {
        0 => Scale::of(&figure.across, points().map(|point| point.x), (LEFT, RIGHT)),
        names => Scale::between(-0.5, names as f64 - 0.5, (LEFT, RIGHT)),
    };
    let heights = points().flat_map(|point| [Some(point.y), point.interval.map(|ends| ends[1])]);
    let mut heights: Vec<f64> = heights.flatten().collect();
    if !figure.up.logarithmic {
        heights.push(0.0);
    }
    let up = Scale::of(&figure.up, heights.into_iter(), (BOTTOM, TOP));
    axes(&mut out, figure, &across, &up);
    for (number, series) in figure.series.iter().enumerate() {
        match figure.kind {
            Kind::Lines => line(&mut out, number, series, &across, &up),
            Kind::Dots => dots(&mut out, number, series, &across, &up),
            Kind::Bars => bars(&mut out, (number, figure.series.len()), series, &across, &up),
        }
        let (place, row) = (number % per_line, number / per_line);
        let at = (LEFT + column * place as f64, BOTTOM + 64.0 + LINE * row as f64);
        legend(&mut out, number, series, at);
    }
    out.push_str("</svg>\n");
    out
}

/// Mapping from values to coordinates.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    ends: (f64, f64),
}

impl Scale {
    /// Creates a scale from the minimum to the maximum of these values, or to round numbers around them.
    fn of(axis: &Axis, values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        let usable = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let (mut low, mut high) =
            values.filter(usable).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if axis.logarithmic {
            (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
            if low == high {
                high *= 10.0;
            }
        } else {
            let step = step(high - low.min(0.0));
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
            if low == high {
                high += step;
            }
        }
        Scale { low, high, logarithmic: axis.logarithmic, ends }
    }

    fn between(low: f64, high: f64, ends: (f64, f64)) -> Scale {
        Scale { low, high, logarithmic: false, ends }
    }

    /// Returns the coordinate of a value, limited to the ends.
    fn place(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.ends.0 + (self.ends.1 - self.ends.0) * share.clamp(0.0, 1.0)
    }

    /// Returns the round values of the tick marks.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|power| self.low * 10_f64.powi(power)).collect();
        }
        let step = step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as u32;
        (0..=count).map(|number| self.low + step * f64::from(number)).collect()
    }
}

/// Returns a round step of which about six fit in a range.
fn step(range: f64) -> f64 {
    let rough = range.max(f64::MIN_POSITIVE) / 6.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let fit = [1.0, 2.0, 5.0].into_iter().find(|part| part * decade >= rough);
    fit.unwrap_or(10.0) * decade
}

fn axes(out: &mut String, figure: &Figure, across: &Scale, up: &Scale) {
    for value in up.ticks() {
        level(out, (LEFT, RIGHT), up.place(value), &number(value));
    }
    match figure.across.names.as_slice() {
        [] => {
            for value in across.ticks() {
                tick(out, across.place(value), BOTTOM, &number(value));
            }
        }
        names => {
            for (place, name) in names.iter().enumerate() {
                tick(out, across.place(place as f64), BOTTOM, name);
            }
        }
    }
    let (middle, height) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
    // Writing to a string does not fail, here and below.
    let _ = write!(
        out,
        "<text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\
         <text x=\"16\" y=\"{height:.0}\" transform=\"rotate(-90 16 {height:.0})\" text-anchor=\"middle\">{}</text>",
        BOTTOM + 42.0,
        escape(&figure.across.label),
        escape(&figure.up.label)
    );
}

/// Returns the color, and whether the stroke is dashed.
fn stroke(number: usize, series: &Series) -> String {
    let dash = if series.published { ";stroke-dasharray:6 5" } else { "" };
    format!("style=\"stroke:var(--c{}){dash}\"", number % COLOURS)
}

fn whiskers(out: &mut String, number: usize, point: &Point, x: f64, up: &Scale) {
    let Some([low, high]) = point.interval.filter(|[low, high]| low < high) else { return };
    let _ = write!(
        out,
        "<line class=\"bar\" style=\"stroke:var(--c{})\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
        number % COLOURS,
        up.place(low),
        up.place(high)
    );
}

fn line(out: &mut String, number: usize, series: &Series, across: &Scale, up: &Scale) {
    let mut path = String::new();
    for point in &series.points {
        let x = across.place(point.x);
        let _ = write!(path, "{x:.1},{:.1} ", up.place(point.y));
        whiskers(out, number, point, x, up);
    }
    let (stroke, path) = (stroke(number, series), path.trim_end());
    let _ = write!(out, "<polyline class=\"line\" {stroke} points=\"{path}\"/>");
}

fn dots(out: &mut String, number: usize, series: &Series, across: &Scale, up: &Scale) {
    for point in &series.points {
        let (x, y) = (across.place(point.x), up.place(point.y));
        whiskers(out, number, point, x, up);
        let stroke = stroke(number, series);
        let fill = if series.published {
            "none".to_owned()
        } else {
            format!("var(--c{})", number % COLOURS)
        };
        let _ = write!(
            out,
            "<circle {stroke} fill=\"{fill}\" fill-opacity=\".5\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"
        );
    }
}

fn bars(
    out: &mut String,
    (number, count): (usize, usize),
    series: &Series,
    across: &Scale,
    up: &Scale,
) {
    let room = (across.place(1.0) - across.place(0.0)) * 0.8;
    let width = room / count as f64;
    for point in &series.points {
        let left = across.place(point.x) - room / 2.0 + width * number as f64;
        let top = up.place(point.y);
        let stroke = stroke(number, series);
        let opacity = if series.published { "0" } else { ".6" };
        let _ = write!(
            out,
            "<rect {stroke} fill=\"var(--c{})\" fill-opacity=\"{opacity}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\"/>",
            number % COLOURS,
            (width - 2.0).max(1.0),
            BOTTOM - top
        );
        whiskers(out, number, point, left + width / 2.0, up);
    }
}

fn legend(out: &mut String, number: usize, series: &Series, (x, y): (f64, f64)) {
    let _ = write!(
        out,
        "<line class=\"line\" {} x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"{y:.0}\" y2=\"{y:.0}\"/>\
         <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
        stroke(number, series),
        x + 26.0,
        x + 32.0,
        y + 4.0,
        escape(&legend_name(series))
    );
}

fn legend_name(series: &Series) -> String {
    let published = if series.published { PUBLISHED } else { "" };
    format!("{}{published}", series.name)
}

/// Formats a number of an axis briefly.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value == 0.0 => "0".to_owned(),
        _ if size >= 1e6 => format!("{} M", trimmed(value / 1e6)),
        _ if size >= 1e4 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let decimals = if value.abs() >= 1.0 { 1 } else { 4 };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(kind: Kind, across: Axis, up: Axis) -> Figure {
        let point = |x: f64, y: f64| Point { x, y, interval: Some([y * 0.5, y * 2.0]) };
        let series = |name: &str, published| Series {
            name: name.to_owned(),
            published,
            points: vec![point(0.0, 1.0), point(1.0, 100.0), point(2.0, 10.0)],
        };
        Figure {
            name: "some".to_owned(),
            title: "a < b".to_owned(),
            across,
            up,
            kind,
            series: vec![series("ours", false), series("<theirs>", true)],
        }
    }

    #[test]
    fn every_kind_is_drawn_within_its_frame() {
        let names = Axis::named("step", &["one", "two", "three"]);
        for kind in [Kind::Lines, Kind::Dots, Kind::Bars] {
            for up in [Axis::linear("us"), Axis::logarithmic("us")] {
                let drawing = svg(&figure(kind, names.clone(), up));
                assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n"));
                assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
                assert!(drawing.contains("&lt;theirs&gt; (published)"), "{drawing}");
                assert!(drawing.contains("stroke-dasharray:6 5"), "what is published is dashed");
            }
        }
        let empty = Figure { series: Vec::new(), ..figure(Kind::Lines, names, Axis::linear("us")) };
        assert!(!svg(&empty).contains("NaN"));
    }

    #[test]
    fn values_are_drawn_to_scale() {
        let logarithmic =
            Scale::of(&Axis::logarithmic(""), [2.0, 300.0, 0.0].into_iter(), (0.0, 300.0));
        assert_eq!(logarithmic.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!([1.0, 10.0, 1_000.0].map(|value| logarithmic.place(value)), [0.0, 100.0, 300.0]);
        assert_eq!(logarithmic.place(0.0), 0.0);
        let linear = Scale::of(&Axis::linear(""), [0.0, 57.0].into_iter(), (100.0, 0.0));
        assert_eq!(linear.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(linear.place(30.0), 50.0);
        let one = Scale::of(&Axis::logarithmic(""), [10.0].into_iter(), (0.0, 1.0));
        assert_eq!(one.ticks(), [10.0, 100.0]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.05, 2.5, 20.0, 1_537.0, 60_000.0, 1e6].map(number);
        assert_eq!(shown, ["0", "0.05", "2.5", "20", "1537", "60 k", "1 M"]);
    }
}
