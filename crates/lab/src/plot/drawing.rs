//! A drawing: a frame with title and style, and the shapes and text in it.
//!
//! Coordinates are points from the upper left corner. Shapes have classes instead of colors; colors and strokes of a
//! class stand in the [`Style`], once for the light and once for the dark theme.

use std::fmt::{self, Write};

use super::escape;

/// Width of every drawing, points.
pub const WIDTH: f64 = 960.0;

/// Width of a letter of 13 points, at most on average.
pub const LETTER: f64 = 7.2;

/// Breaks text into lines of this width, points, between words; a longer word has a line of its own.
pub fn lines(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}")) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the width of text, points.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// A position: x and y, points.
pub type Position = (f64, f64);

/// Additions of a drawing to the common style.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Custom properties with the drawing's colors in the light theme.
    pub light: &'static str,
    /// Custom properties with the drawing's colors in the dark theme.
    pub dark: &'static str,
    /// Further rules.
    pub rules: &'static str,
}

/// Horizontal alignment of text at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text begins at the position.
    Start,
    /// Text is centered at the position.
    Middle,
    /// Text ends at the position.
    End,
}

/// A drawing under construction.
#[derive(Clone, Debug)]
pub struct Drawing {
    shapes: String,
    width: f64,
}

impl Drawing {
    /// Creates an empty drawing; [`finish`](Drawing::finish) puts it into its frame.
    pub fn new() -> Drawing {
        Drawing::of_width(WIDTH)
    }

    /// Creates an empty drawing of another width, points.
    pub fn of_width(width: f64) -> Drawing {
        Drawing { shapes: String::new(), width }
    }

    /// Creates a drawing with a title.
    pub fn titled(title: &str) -> Drawing {
        let mut drawing = Drawing::new();
        drawing.title(0.0, title);
        drawing
    }

    /// Returns the SVG: a frame of this height with the drawing's style and shapes. The label is for screen readers.
    pub fn finish(self, height: f64, label: &str, style: &Style) -> String {
        let (label, Style { light, dark, rules }) = (escape(label), style);
        let width = self.width;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\"><style>\
             svg{{color-scheme:light dark;--ink:#1f2430;--faint:#8a91a0;--paper:#fff;{light}}}\
             @media(prefers-color-scheme:dark){{svg{{--ink:#e6e9ef;--paper:#14171c;{dark}}}}}\
             text{{font:13px system-ui,sans-serif;fill:var(--ink)}}.axis{{fill:var(--faint)}}.title{{font-weight:600}}\
             .paper{{fill:var(--paper)}}.grid{{stroke:var(--faint);stroke-opacity:.3}}\
             .line{{fill:none;stroke-width:1.8;stroke-linejoin:round}}{rules}</style>\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>{}</svg>\n",
            self.shapes
        )
    }

    /// Writes a title at the top of a part that begins at `top`.
    pub fn title(&mut self, top: f64, title: &str) {
        self.text("title", (16.0, top + 26.0), Align::Start, title);
    }

    /// Draws a line.
    pub fn line(&mut self, class: &str, from: Position, to: Position) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(Number);
        self.write(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" x2=\"{x2}\" y1=\"{y1}\" y2=\"{y2}\"/>"
        ));
    }

    /// Draws a line through these points.
    pub fn polyline(&mut self, class: &str, points: impl IntoIterator<Item = Position>) {
        let points = points.into_iter().map(|(x, y)| format!("{},{}", Number(x), Number(y)));
        let points = points.collect::<Vec<String>>().join(" ");
        self.write(format_args!("<polyline class=\"{class}\" points=\"{points}\"/>"));
    }

    /// Draws a circle; a name appears when the pointer is on it.
    pub fn circle(&mut self, class: &str, center: Position, radius: f64, name: Option<&str>) {
        let [x, y, r] = [center.0, center.1, radius].map(Number);
        self.write(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\""));
        match name {
            Some(name) => self.write(format_args!("><title>{}</title></circle>", escape(name))),
            None => self.write(format_args!("/>")),
        }
    }

    /// Draws a cross of 8 points.
    pub fn cross(&mut self, class: &str, center: Position) {
        let [x, y] = [center.0 - 4.0, center.1 - 4.0].map(Number);
        self.write(format_args!("<path class=\"{class}\" d=\"M{x} {y}l8 8m0 -8l-8 8\"/>"));
    }

    /// Draws a rectangle from its upper left corner.
    pub fn rectangle(&mut self, class: &str, corner: Position, (width, height): (f64, f64)) {
        let [x, y, width, height] = [corner.0, corner.1, width, height].map(Number);
        self.write(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ));
    }

    /// Writes text; the position is that of its baseline.
    pub fn text(&mut self, class: &str, (x, y): Position, align: Align, text: &str) {
        let ([x, y], text) = ([x, y].map(Number), escape(text));
        self.write(format_args!("<text{} x=\"{x}\" y=\"{y}\"{align}>{text}</text>", Class(class)));
    }

    /// Writes text from the bottom to the top, centered at its position.
    pub fn vertical_text(&mut self, class: &str, (x, y): Position, text: &str) {
        let ([x, y], text, align) = ([x, y].map(Number), escape(text), Align::Middle);
        self.write(format_args!(
            "<text{} x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\"{align}>{text}</text>",
            Class(class)
        ));
    }

    /// Appends SVG. Writing to a string does not fail.
    fn write(&mut self, svg: fmt::Arguments<'_>) {
        let _ = self.shapes.write_fmt(svg);
    }
}

impl Default for Drawing {
    fn default() -> Drawing {
        Drawing::new()
    }
}

impl fmt::Display for Align {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Align::Start => "",
            Align::Middle => " text-anchor=\"middle\"",
            Align::End => " text-anchor=\"end\"",
        })
    }
}

/// An attribute with classes, if there are any.
struct Class<'c>(&'c str);

impl fmt::Display for Class<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            class => write!(f, " class=\"{class}\""),
        }
    }
}

/// A coordinate, shown with at most one decimal.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Adding 0 turns -0 into 0.
        write!(f, "{}", (self.0 * 10.0).round() / 10.0 + 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { light: "--c:red", dark: "--c:blue", rules: ".c{fill:var(--c)}" };

    #[test]
    fn drawing_is_self_contained_and_escapes_text() {
        let drawing = Drawing::titled("a <b> & \"c\"").finish(100.0, "a <b> & \"c\"", &PLAIN);
        assert!(drawing.contains("aria-label=\"a &lt;b&gt; &amp; &quot;c&quot;\""), "{drawing}");
        assert!(drawing.contains(">a &lt;b&gt; &amp; &quot;c&quot;</text>"), "{drawing}");
        assert!(drawing.contains("viewBox=\"0 0 960 100\"") && drawing.ends_with("</svg>\n"));
        let (braces, ends) = (drawing.matches('{').count(), drawing.matches('}').count());
        assert_eq!(braces, ends, "the style is whole");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(lines("find the session", 8.0 * LETTER), ["find the", "session"]);
        assert_eq!(lines("reservation of a flow", 4.0 * LETTER), ["reservation", "of a", "flow"]);
        assert!(lines("", 9.0).is_empty());
    }

    #[test]
    fn shapes_have_their_class_and_coordinates() {
        let mut drawing = Drawing::new();
        drawing.line("grid", (1.0, 2.25), (3.04, -0.01));
        drawing.polyline("line", [(0.0, 1.5), (10.0, 20.0)]);
        drawing.circle("run", (1.0, 2.0), 3.0, Some("<r1>"));
        drawing.vertical_text("", (16.0, 50.0), "us");
        assert_eq!(
            drawing.shapes,
            "<line class=\"grid\" x1=\"1\" x2=\"3\" y1=\"2.3\" y2=\"0\"/>\
             <polyline class=\"line\" points=\"0,1.5 10,20\"/>\
             <circle class=\"run\" cx=\"1\" cy=\"2\" r=\"3\"><title>&lt;r1&gt;</title></circle>\
             <text x=\"16\" y=\"50\" transform=\"rotate(-90 16 50)\" text-anchor=\"middle\">us</text>"
        );
    }
}
