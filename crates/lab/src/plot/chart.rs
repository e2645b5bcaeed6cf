//! Chart of series over two axes: lines, dots or bars, each value with its interval. Published series are dashed.
//!
//! A [`Figure`] is plain data, so that it can be stored and drawn later: [`svg`] for a page, [`narrow_svg`] for a
//! phone, where a scaled page could not be read. An axis whose values span more than two decades is logarithmic.

use serde::{Deserialize, Serialize};

use super::axis::{Area, Scale, number};
use super::drawing::{Align, Drawing, LETTER, Style, WIDTH, lines, text_width};

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
    /// Whether the axis is logarithmic in any case; otherwise it is if its values span more than two decades.
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
    /// Creates an axis that is linear unless its values span more than two decades.
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

    /// Returns whether the axis is logarithmic for these values.
    fn is_logarithmic(&self, values: impl Iterator<Item = f64> + Clone) -> bool {
        /// Quotient of the greatest and the least value above which a linear axis would hide the small ones.
        const TWO_DECADES: f64 = 100.0;
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let spans = least > 0.0 && values.fold(0.0, f64::max) > TWO_DECADES * least;
        let is_free = self.maximum.is_none() && self.names.is_empty();
        self.logarithmic || (is_free && spans)
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
/// Height of the plot.
const HEIGHT: f64 = 336.0;
/// Height of a line of text.
const LINE: f64 = 20.0;
/// Room beside a name in the legend.
const BESIDE: f64 = 60.0;
/// Room of the sign of a series in the legend.
const SIGN: f64 = 32.0;
/// Width of a chart for a narrow page.
const NARROW: f64 = 400.0;
/// Left edge of the plot, and room beside its right edge, by the width of the chart.
const MARGINS: [(f64, f64, f64); 2] = [(WIDTH, 84.0, 24.0), (NARROW, 66.0, 26.0)];
/// Factor by which a letter of a title is wider.
const BOLD: f64 = 1.08;

/// Draws a figure as SVG, complete with its style.
pub fn svg(figure: &Figure) -> String {
    draw(figure, MARGINS[0])
}

/// Draws a figure as SVG for a narrow page.
pub fn narrow_svg(figure: &Figure) -> String {
    draw(figure, MARGINS[1])
}

fn draw(figure: &Figure, margins: (f64, f64, f64)) -> String {
    let mut plot = Plot::of(figure, margins);
    let mut below = plot.axes(figure);
    for (number, series) in figure.series.iter().enumerate() {
        match figure.kind {
            Kind::Lines => plot.line(number, series),
            Kind::Dots => plot.dots(number, figure, series),
            Kind::Bars => plot.bars(number, figure.series.len(), series),
        }
    }
    below = plot.legend(figure, below);
    plot.drawing.finish(below, &figure.title, &STYLE)
}

/// A chart under construction.
struct Plot {
    drawing: Drawing,
    area: Area,
    across: Scale,
    up: Scale,
}

impl Plot {
    fn of(figure: &Figure, (width, left, right): (f64, f64, f64)) -> Plot {
        let mut drawing = Drawing::of_width(width);
        let title = lines(&figure.title, (width - LINE - 16.0) / BOLD);
        for (number, line) in title.iter().enumerate() {
            drawing.title(LINE * number as f64, line);
        }
        let top = 24.0 + LINE * title.len().max(1) as f64;
        let area = Area { left, right: width - right, top, bottom: top + HEIGHT };
        let points = || figure.series.iter().flat_map(|series| &series.points);
        let across = match figure.across.names.len() {
            0 => {
                let values = points().map(|point| point.x);
                let logarithmic = figure.across.is_logarithmic(values.clone());
                Scale::around(values, logarithmic, area.across())
            }
            names => Scale::linear(-0.5, names as f64 - 0.5, area.across()),
        };
        let logarithmic = figure.up.is_logarithmic(points().map(|point| point.y));
        let up = match figure.up.maximum {
            Some(maximum) => Scale::linear(0.0, maximum, area.up()),
            None => {
                let ends =
                    points().flat_map(|point| [Some(point.y), point.interval.map(|ends| ends[1])]);
                let base = (!logarithmic).then_some(0.0);
                Scale::around(ends.flatten().chain(base), logarithmic, area.up())
            }
        };
        Plot { drawing, area, across, up }
    }

    /// Draws the axes; returns the lower end of what was written below the plot.
    fn axes(&mut self, figure: &Figure) -> f64 {
        let area = self.area;
        for value in self.up.ticks() {
            area.level(&mut self.drawing, self.up.place(value), &number(value));
        }
        let mut below = area.bottom + LINE;
        if figure.across.names.is_empty() {
            for value in self.across.ticks() {
                area.tick(&mut self.drawing, self.across.place(value), &number(value));
            }
        } else {
            below = self.names(&figure.across.names);
        }
        for line in lines(&figure.across.label, area.right - area.left) {
            below += LINE;
            let middle = (area.left + area.right) / 2.0;
            self.drawing.text("", (middle, below), Align::Middle, &line);
        }
        area.label_up(&mut self.drawing, &figure.up.label);
        below
    }

    /// Writes names below the plot: in lines, or upwards if a word has no room; returns their lower end.
    fn names(&mut self, names: &[String]) -> f64 {
        let area = self.area;
        let room = (area.right - area.left) / names.len() as f64 - LETTER;
        let broken: Vec<Vec<String>> = names.iter().map(|name| lines(name, room)).collect();
        let fits = broken.iter().flatten().all(|line| text_width(line) <= room);
        if !fits {
            let length = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
            for (place, name) in names.iter().enumerate() {
                let (x, middle) = (self.across.place(place as f64), text_width(name) / 2.0);
                self.drawing.vertical_text("axis", (x + 4.0, area.bottom + 8.0 + middle), name);
            }
            return area.bottom + 8.0 + length;
        }
        for (place, name) in broken.iter().enumerate() {
            for (number, line) in name.iter().enumerate() {
                let position =
                    (self.across.place(place as f64), area.bottom + LINE * (number + 1) as f64);
                self.drawing.text("axis", position, Align::Middle, line);
            }
        }
        area.bottom + LINE * broken.iter().map(Vec::len).max().unwrap_or(1) as f64
    }

    fn line(&mut self, number: usize, series: &Series) {
        for point in &series.points {
            self.interval(number, point, self.across.place(point.x));
        }
        let points = series.points.iter();
        let points = points.map(|point| (self.across.place(point.x), self.up.place(point.y)));
        self.drawing.polyline(&class("line", number, series), points);
        // A single point makes no line.
        if let [point] = series.points.as_slice() {
            let center = (self.across.place(point.x), self.up.place(point.y));
            self.drawing.circle(&class("dot", number, series), center, 3.5, None);
        }
    }

    /// Draws dots; those of one name stand side by side.
    fn dots(&mut self, number: usize, figure: &Figure, series: &Series) {
        let spread = match figure.across.names.len() {
            0 => 0.0,
            names => {
                let room = (self.area.right - self.area.left) / names as f64 * 0.6;
                room * ((number as f64 + 0.5) / figure.series.len() as f64 - 0.5)
            }
        };
        for point in &series.points {
            let center = (self.across.place(point.x) + spread, self.up.place(point.y));
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
            let size = ((width - 2.0).max(1.0), self.area.bottom - top);
            self.drawing.rectangle(&class("column", number, series), (left, top), size);
            self.interval(number, point, left + width / 2.0);
        }
    }

    fn interval(&mut self, number: usize, point: &Point, x: f64) {
        let Some([low, high]) = point.interval.filter(|[low, high]| low < high) else { return };
        let class = format!("interval s{}", number % COLORS);
        self.drawing.line(&class, (x, self.up.place(low)), (x, self.up.place(high)));
    }

    /// Writes the legend below `below`, in columns; returns the height of the drawing.
    fn legend(&mut self, figure: &Figure, below: f64) -> f64 {
        let area = self.area;
        let names: Vec<String> = figure.series.iter().map(legend_name).collect();
        let longest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        let column = longest + BESIDE;
        let per_line = (((area.right - area.left) / column) as usize).max(1);
        let mut y = below + 6.0;
        for (row, part) in names.chunks(per_line).enumerate() {
            y += LINE;
            let mut most = 1;
            for (place, name) in part.iter().enumerate() {
                let (x, number) = (area.left + column * place as f64, row * per_line + place);
                let series = &figure.series[number];
                self.drawing.line(&class("line", number, series), (x, y), (x + 26.0, y));
                let room = if per_line > 1 { longest } else { area.right - x - SIGN };
                let broken = lines(name, room + 1.0);
                for (line, text) in broken.iter().enumerate() {
                    let position = (x + SIGN, y + 4.0 + LINE * line as f64);
                    self.drawing.text("", position, Align::Start, text);
                }
                most = most.max(broken.len());
            }
            y += LINE * (most - 1) as f64;
        }
        y + LINE
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
        assert!(
            narrow_svg(&figure(Kind::Bars, names.clone(), Axis::linear("us"))).contains("0 0 400")
        );
        let empty = Figure { series: Vec::new(), ..figure(Kind::Lines, names, Axis::linear("us")) };
        assert!(!svg(&empty).contains("NaN"));
    }

    /// More than two decades of positive values need a logarithmic axis, whatever the caller thought of.
    #[test]
    fn axis_over_two_decades_is_logarithmic() {
        let ticks = |y: [f64; 3], up: Axis| {
            let points = y.into_iter().enumerate();
            let points = points.map(|(x, y)| Point { x: x as f64, y, interval: None });
            let series = vec![Series::measured("one", points)];
            let axis = Axis::linear("n");
            let all = Figure { series, ..figure(Kind::Lines, axis, up) };
            Plot::of(&all, MARGINS[0]).up.ticks()
        };
        let decades = [0.1, 1.0, 10.0, 100.0];
        assert_eq!(ticks([0.34, 1.0, 62.0], Axis::linear("us")), decades);
        assert_eq!(ticks([1.0, 50.0, 100.0], Axis::linear("us"))[..2], [0.0, 20.0], "two decades");
        assert_eq!(
            ticks([0.0, 0.1, 90.0], Axis::linear("us"))[..2],
            [0.0, 20.0],
            "zero has no place"
        );
        assert_eq!(ticks([0.1, 1.0, 90.0], Axis::percent()).last(), Some(&100.0));
        let across = Figure {
            series: vec![Series::measured(
                "one",
                [1.0, 1e6].map(|x| Point { x, y: 1.0, interval: None }),
            )],
            ..figure(Kind::Lines, Axis::linear("sessions"), Axis::linear("us"))
        };
        assert_eq!(Plot::of(&across, MARGINS[0]).across.ticks().len(), 7);
    }

    /// Names without room beside each other are written upwards, others in lines.
    #[test]
    fn names_fit_their_room() {
        let long = ["find session", "reservation management", "tear path state"].map(str::to_owned);
        let many: Vec<String> = long.iter().cycle().take(24).cloned().collect();
        let drawing = |names: &[String]| {
            svg(&figure(Kind::Bars, Axis::named("step", names), Axis::linear("us")))
        };
        assert_eq!(drawing(&long).matches("rotate").count(), 1, "the label of the vertical axis");
        assert_eq!(drawing(&many).matches("rotate").count(), 25);
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
