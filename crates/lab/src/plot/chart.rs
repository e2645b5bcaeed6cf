//! Chart of series over two axes: lines, dots or bars, each value with its interval. Published series are dashed.
//!
//! A [`Figure`] is plain data, so that it can be stored and drawn later.

use serde::{Deserialize, Serialize};

use super::axis::{Area, Scale, number};
use super::drawing::{Align, Drawing, Style, WIDTH};

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name for files.
    pub name: String,
    /// Title.
    pub title: String,
    /// Horizontal axis.
    pub across: Axis,
    /// Vertical axis.
    pub up: Axis,
    /// Kind of the chart.
    pub kind: Kind,
    /// Values, series by series.
    pub series: Vec<Series>,
}

/// Kind of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Joined by lines.
    Lines,
    /// Each a dot.
    Dots,
    /// Bars side by side, over the names of the axis.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Label with unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub logarithmic: bool,
    /// Names of the positions 0, 1, 2 ..; empty for numbers.
    pub names: Vec<String>,
    /// Greatest value, of a linear axis from 0; otherwise the axis ends at a round number beyond the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
}

/// A series of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name.
    pub name: String,
    /// Whether the values are published, not measured here.
    pub published: bool,
    /// Values.
    pub points: Vec<Point>,
}

impl Series {
    /// Returns a series of values that were measured here.
    pub fn measured(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        Series { name: name.into(), published: false, points: points.into_iter().collect() }
    }

    /// Returns a series of published values.
    pub fn published(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        Series { published: true, ..Series::measured(name, points) }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Interval of the value.
    pub interval: Option<[f64; 2]>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), ..Axis::default() }
    }

    /// Creates a linear axis from 0 to 100 %.
    pub fn percent() -> Axis {
        Axis { label: "%".to_owned(), maximum: Some(100.0), ..Axis::default() }
    }

    /// Creates a logarithmic axis; values must be above 0.
    pub fn logarithmic(label: &str) -> Axis {
        Axis { label: label.to_owned(), logarithmic: true, ..Axis::default() }
    }

    /// Creates an axis with names at the positions 0, 1, 2 ..
    pub fn named<S: AsRef<str>>(label: &str, names: &[S]) -> Axis {
        let names = names.iter().map(|name| name.as_ref().to_owned()).collect();
        Axis { label: label.to_owned(), names, ..Axis::default() }
    }
}

/// Style with the colors `c0` to `c7` for series without a color of their own; class `s3` selects `c3`.
pub const STYLE: Style = Style {
    light: "--c0:#1f6feb;--c1:#1a7f37;--c2:#c4432b;--c3:#9a6700;--c4:#8250df;--c5:#1b7c83;--c6:#bf3989;--c7:#57606a",
    dark: "--c0:#58a6ff;--c1:#3fb950;--c2:#f47067;--c3:#d29922;--c4:#bc8cff;--c5:#39c5cf;--c6:#f778ba;--c7:#b1bac4",
    rules: ".s0{--s:var(--c0)}.s1{--s:var(--c1)}.s2{--s:var(--c2)}.s3{--s:var(--c3)}.s4{--s:var(--c4)}.s5{--s:var(--c5)}\
            .s6{--s:var(--c6)}.s7{--s:var(--c7)}.line,.dot,.column,.interval{stroke:var(--s)}.dot,.column{fill:var(--s)}\
            .dot{fill-opacity:.5}.column{fill-opacity:.6}.published{stroke-dasharray:6 5}.dot.published{fill:none}\
            .column.published{fill-opacity:0}.interval{stroke-opacity:.5;stroke-width:3}",
};
/// Number of colors in [`STYLE`].
const COLORS: usize = 8;
const AREA: Area = Area { left: 84.0, right: WIDTH - 24.0, top: 44.0, bottom: 380.0 };
/// Height of a line of the legend.
const LINE: f64 = 20.0;
/// Width of a letter in the legend.
const LETTER: f64 = 7.2;
/// Room beside a name in the legend.
const BESIDE: f64 = 60.0;

/// Draws a figure as SVG, complete with its style.
pub fn svg(figure: &Figure) -> String {
    let mut plot = Plot::of(figure);
    plot.axes(figure);
    for (number, series) in figure.series.iter().enumerate() {
        match figure.kind {
            Kind::Lines => plot.line(number, series),
            Kind::Dots => plot.dots(number, series),
            Kind::Bars => plot.bars(number, figure.series.len(), series),
        }
    }
    let height = plot.legend(figure);
    plot.drawing.finish(height, &figure.title, &STYLE)
}

/// A chart under construction.
struct Plot {
    drawing: Drawing,
    across: Scale,
    up: Scale,
}

impl Plot {
    fn of(figure: &Figure) -> Plot {
        let points = || figure.series.iter().flat_map(|series| &series.points);
        let across = match figure.across.names.len() {
            0 => {
                let values = points().map(|point| point.x);
                Scale::around(values, figure.across.logarithmic, AREA.across())
            }
            names => Scale::linear(-0.5, names as f64 - 0.5, AREA.across()),
        };
        let up = match (figure.up.maximum, figure.up.logarithmic) {
            (Some(maximum), _) => Scale::linear(0.0, maximum, AREA.up()),
            (None, logarithmic) => {
                let ends =
                    points().flat_map(|point| [Some(point.y), point.interval.map(|ends| ends[1])]);
                let base = (!logarithmic).then_some(0.0);
                Scale::around(ends.flatten().chain(base), logarithmic, AREA.up())
            }
        };
        Plot { drawing: Drawing::titled(&figure.title), across, up }
    }

    fn axes(&mut self, figure: &Figure) {
        for value in self.up.ticks() {
            AREA.level(&mut self.drawing, self.up.place(value), &number(value));
        }
        if figure.across.names.is_empty() {
            for value in self.across.ticks() {
                AREA.tick(&mut self.drawing, self.across.place(value), &number(value));
            }
        }
        for (place, name) in figure.across.names.iter().enumerate() {
            AREA.tick(&mut self.drawing, self.across.place(place as f64), name);
        }
        AREA.label_across(&mut self.drawing, &figure.across.label);
        AREA.label_up(&mut self.drawing, &figure.up.label);
    }

    fn line(&mut self, number: usize, series: &Series) {
        for point in &series.points {
            self.interval(number, point, self.across.place(point.x));
        }
        let points = series.points.iter();
        let points = points.map(|point| (self.across.place(point.x), self.up.place(point.y)));
        self.drawing.polyline(&class("line", number, series), points);
    }

    fn dots(&mut self, number: usize, series: &Series) {
        for point in &series.points {
            let center = (self.across.place(point.x), self.up.place(point.y));
            self.interval(number, point, center.0);
            self.drawing.circle(&class("dot", number, series), center, 3.5, None);
        }
    }

    fn bars(&mut self, number: usize, count: usize, series: &Series) {
        let room = (self.across.place(1.0) - self.across.place(0.0)) * 0.8;
        let width = room / count as f64;
        for point in &series.points {
            let left = self.across.place(point.x) - room / 2.0 + width * number as f64;
            let top = self.up.place(point.y);
            let size = ((width - 2.0).max(1.0), AREA.bottom - top);
            self.drawing.rectangle(&class("column", number, series), (left, top), size);
            self.interval(number, point, left + width / 2.0);
        }
    }

    fn interval(&mut self, number: usize, point: &Point, x: f64) {
        let Some([low, high]) = point.interval.filter(|[low, high]| low < high) else { return };
        let class = format!("interval s{}", number % COLORS);
        self.drawing.line(&class, (x, self.up.place(low)), (x, self.up.place(high)));
    }

    /// Writes the legend below the plot, in columns; returns the height of the drawing.
    fn legend(&mut self, figure: &Figure) -> f64 {
        let names: Vec<String> = figure.series.iter().map(legend_name).collect();
        let letters = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let column = letters as f64 * LETTER + BESIDE;
        let per_line = (((AREA.right - AREA.left) / column) as usize).max(1);
        for (number, (series, name)) in figure.series.iter().zip(&names).enumerate() {
            let x = AREA.left + column * (number % per_line) as f64;
            let y = AREA.bottom + 64.0 + LINE * (number / per_line) as f64;
            self.drawing.line(&class("line", number, series), (x, y), (x + 26.0, y));
            self.drawing.text("", (x + 32.0, y + 4.0), Align::Start, name);
        }
        AREA.bottom + 60.0 + LINE * names.len().div_ceil(per_line) as f64
    }
}

/// Returns the classes of a shape of a series.
fn class(shape: &str, number: usize, series: &Series) -> String {
    let published = if series.published { " published" } else { "" };
    format!("{shape} s{}{published}", number % COLORS)
}

fn legend_name(series: &Series) -> String {
    let published = if series.published { " (published)" } else { "" };
    format!("{}{published}", series.name)
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
            series: vec![series("measured", false), series("<theirs>", true)],
        }
    }

    #[test]
    fn every_kind_is_drawn_within_its_frame() {
        let names = Axis::named("step", &["one", "two", "three"]);
        let kinds = [(Kind::Lines, "line"), (Kind::Dots, "dot"), (Kind::Bars, "column")];
        for (kind, shape) in kinds {
            for up in [Axis::linear("us"), Axis::logarithmic("us"), Axis::percent()] {
                let drawing = svg(&figure(kind, names.clone(), up));
                assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n"));
                assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
                assert!(drawing.contains("&lt;theirs&gt; (published)"), "{drawing}");
                assert!(drawing.contains(&format!("class=\"{shape} s1 published\"")), "{drawing}");
                assert_eq!(drawing.matches("class=\"interval").count(), 6, "{drawing}");
            }
        }
        let empty = Figure { series: Vec::new(), ..figure(Kind::Lines, names, Axis::linear("us")) };
        assert!(!svg(&empty).contains("NaN"));
    }

    #[test]
    fn every_series_color_has_both_themes() {
        let Style { light, dark, rules } = STYLE;
        for color in (0..COLORS).map(|number| format!("--c{number}:#")) {
            assert!(light.contains(&color) && dark.contains(&color), "{color}");
        }
        assert!((0..COLORS).all(|number| rules.contains(&format!(".s{number}{{"))), "{rules}");
    }

    /// The plot ends at 100 % whatever the values are, at the upper edge of the area.
    #[test]
    fn maximum_of_an_axis_is_its_end() {
        let names = Axis::named("step", &["one", "two", "three"]);
        let drawing = svg(&figure(Kind::Lines, names, Axis::percent()));
        assert!(drawing.contains(
            "y1=\"44\" y2=\"44\"/><text class=\"axis\" x=\"76\" y=\"48\" text-anchor=\"end\">100<"
        ));
    }
}
