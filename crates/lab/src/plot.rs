//! Plots as SVG: a drawing of lines, circles and text ([`drawing`]), axes ([`axis`]), and a chart of series over two
//! axes ([`chart`]).
//!
//! Drawings are written directly: a plotting library would add fonts and pixels, and could not follow the reader's
//! light or dark theme, which style sheet classes can. Every drawing includes its style, so that it is complete in
//! itself.

pub mod axis;
pub mod chart;
pub mod drawing;

/// Escapes the special characters of HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
