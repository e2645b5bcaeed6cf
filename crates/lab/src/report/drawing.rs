//! Common parts of all drawings: a frame, colors that follow the reader's light or dark theme, and lines and names of
//! axes.
//!
//! The drawings are written directly: a plotting library would add fonts and pixels, and could not follow the theme,
//! which style sheet classes can. Every drawing includes its style, so that it is complete in itself.

use std::fmt::Write;

use super::escape;

/// Width of every drawing, points.
pub const WIDTH: f64 = 960.0;

/// Additions of a drawing to the common style.
pub struct Style {
    /// Custom properties with the drawing's colors in the light theme.
    pub light: &'static str,
    /// Custom properties with the drawing's colors in the dark theme.
    pub dark: &'static str,
    /// Further rules.
    pub rules: &'static str,
}

/// Style with the colors `c0` to `c7`, for series without a color of their own.
pub const SERIES: Style = Style {
    light: "--c0:#1f6feb;--c1:#1a7f37;--c2:#c4432b;--c3:#9a6700;--c4:#8250df;--c5:#1b7c83;--c6:#bf3989;--c7:#57606a",
    dark: "--c0:#58a6ff;--c1:#3fb950;--c2:#f47067;--c3:#d29922;--c4:#bc8cff;--c5:#39c5cf;--c6:#f778ba;--c7:#b1bac4",
    rules: ".bar{stroke-opacity:.5;stroke-width:3}.run{fill:var(--c0);fill-opacity:.45}.never{fill:var(--c2);fill-opacity:.45}\
            .then{fill:none;stroke:var(--ink);stroke-width:2}.rate{fill:none;stroke:var(--c0);stroke-width:1.2}",
};

/// Number of colors in [`SERIES`].
pub const COLOURS: usize = 8;

/// Begins the frame of a drawing, which `</svg>` is to end; the label is for screen readers.
pub fn begin(height: f64, label: &str, style: &Style) -> String {
    let (label, Style { light, dark, rules }) = (escape(label), style);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\"><style>\
         svg{{color-scheme:light dark;--ink:#1f2430;--faint:#8a91a0;--paper:#fff;{light}}}\
         @media(prefers-color-scheme:dark){{svg{{--ink:#e6e9ef;--paper:#14171c;{dark}}}}}\
         text{{font:13px system-ui,sans-serif;fill:var(--ink)}}.axis{{fill:var(--faint)}}.title{{font-weight:600}}\
         .paper{{fill:var(--paper)}}.grid{{stroke:var(--faint);stroke-opacity:.3}}\
         .line{{fill:none;stroke-width:1.8;stroke-linejoin:round}}{rules}</style>\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>"
    )
}

/// Begins a frame with the label as the visible title of the whole drawing.
pub fn begin_titled(height: f64, title: &str, style: &Style) -> String {
    let mut out = begin(height, title, style);
    self::title(&mut out, 0.0, title);
    out
}

/// Writes a title at the top of a part that begins at `top`. Writing to a string does not fail, here and below.
pub fn title(out: &mut String, top: f64, title: &str) {
    let (y, title) = (top + 26.0, escape(title));
    let _ = write!(out, "<text class=\"title\" x=\"16\" y=\"{y:.0}\">{title}</text>");
}

/// Draws a line across the plot, with its name to the left.
pub fn level(out: &mut String, (left, right): (f64, f64), y: f64, name: &str) {
    let _ = write!(
        out,
        "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"axis\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        left - 8.0,
        y + 4.0,
        escape(name)
    );
}

/// Writes a name below the plot that ends at `bottom`.
pub fn tick(out: &mut String, x: f64, bottom: f64, name: &str) {
    let (y, name) = (bottom + 20.0, escape(name));
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{name}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_is_self_contained_and_escapes_text() {
        let drawing = begin_titled(100.0, "a <b> & \"c\"", &SERIES);
        assert!(drawing.contains("aria-label=\"a &lt;b&gt; &amp; &quot;c&quot;\""), "{drawing}");
        assert!(drawing.contains(">a &lt;b&gt; &amp; &quot;c&quot;</text>"), "{drawing}");
        let (braces, ends) = (drawing.matches('{').count(), drawing.matches('}').count());
        assert_eq!(braces, ends, "the style is whole");
        assert!((0..COLOURS).all(|colour| drawing.matches(&format!("--c{colour}:")).count() == 2));
    }

    #[test]
    fn axes_are_named() {
        let mut out = String::new();
        level(&mut out, (64.0, 940.0), 10.0, "<1");
        tick(&mut out, 5.25, 360.0, "2 s");
        assert!(out.contains("x1=\"64\" x2=\"940\" y1=\"10.0\" y2=\"10.0\""), "{out}");
        assert!(out.contains("x=\"56\" y=\"14.0\" text-anchor=\"end\">&lt;1<"), "{out}");
        assert!(out.contains("x=\"5.2\" y=\"380\" text-anchor=\"middle\">2 s<"), "{out}");
    }
}
