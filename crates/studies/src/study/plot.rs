//! Drawings of studies: lines over an axis of names, and results of single runs. Like those of the demo they follow
//! the reader's light or dark theme.

use std::fmt::Write;

use earmark_lab::report::drawing::{COLOURS, SERIES, begin_titled, level, tick};
use earmark_lab::report::escape;

const LEFT: f64 = 150.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 50.0;

/// A line: its name, and for each position of the axis a value with the ends of its interval.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<Option<[f64; 3]>>,
}

/// Draws lines over an axis of names; values from 0 to `most`.
pub(super) fn lines(
    title: &str,
    axis: (&str, &[String]),
    value: &str,
    most: f64,
    lines: &[Line],
) -> String {
    let (bottom, (axis, places)) = (370.0, axis);
    let x =
        |place: usize| LEFT + (RIGHT - LEFT) * (place as f64 + 0.5) / (places.len().max(1) as f64);
    let y = |value: f64| bottom - (bottom - TOP) * (value / most).clamp(0.0, 1.0);
    let mut out = begin_titled(430.0, title, &SERIES);
    for part in 0..=5 {
        let value = most * f64::from(part) / 5.0;
        level(&mut out, (LEFT, RIGHT), y(value), &number(value));
    }
    for (place, name) in places.iter().enumerate() {
        tick(&mut out, x(place), bottom, name);
    }
    let _ = write!(
        out,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\
         <text x=\"16\" y=\"{:.0}\" transform=\"rotate(-90 16 {:.0})\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        bottom + 44.0,
        escape(axis),
        (TOP + bottom) / 2.0,
        (TOP + bottom) / 2.0,
        escape(value)
    );
    for (number, line) in lines.iter().enumerate() {
        let colour = number % COLOURS;
        let points: Vec<(f64, [f64; 3])> = line
            .values
            .iter()
            .enumerate()
            .filter_map(|(place, values)| Some((x(place), (*values)?)))
            .collect();
        let mut path = String::new();
        for (x, [median, low, high]) in &points {
            let _ = write!(path, "{x:.1},{:.1} ", y(*median));
            let _ = write!(
                out,
                "<line class=\"bar\" style=\"stroke:var(--c{colour})\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y(*low),
                y(*high)
            );
        }
        let _ = write!(
            out,
            "<polyline class=\"line\" style=\"stroke:var(--c{colour})\" points=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" style=\"fill:var(--c{colour})\">{}</text>",
            path.trim_end(),
            RIGHT + 16.0,
            TOP + 12.0 + 20.0 * number as f64,
            escape(&line.name)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Results of single runs of one kind.
pub(super) struct Strip {
    pub(super) name: String,
    /// Value of each run; a run at `most` had no end.
    pub(super) runs: Vec<f64>,
    /// Value of the published run.
    pub(super) published: Option<f64>,
}

/// Draws a strip of dots for each kind, from 0 to `most`; a ring is the published run.
pub(super) fn strips(title: &str, axis: &str, most: f64, strips: &[Strip]) -> String {
    const HEIGHT: f64 = 34.0;
    let bottom = TOP + HEIGHT * strips.len() as f64;
    let right = 930.0;
    let x = |value: f64| LEFT + (right - LEFT) * (value / most).clamp(0.0, 1.0);
    let mut out = begin_titled(bottom + 60.0, title, &SERIES);
    for part in 0..=6 {
        let value = most * f64::from(part) / 6.0;
        let x = x(value);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
        );
        tick(&mut out, x, bottom, &number(value));
    }
    let middle = (LEFT + right) / 2.0;
    let axis = escape(axis);
    let _ = write!(
        out,
        "<text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{axis}</text>",
        bottom + 44.0
    );
    for (number, strip) in strips.iter().enumerate() {
        let y = TOP + HEIGHT * (number as f64 + 0.5);
        let name = escape(&strip.name);
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            LEFT - 12.0,
            y + 4.0
        );
        for (place, run) in strip.runs.iter().enumerate() {
            // An offset separates dots of equal value.
            let off = (place * 7 % 15) as f64 - 7.0;
            let class = if *run >= most { "never" } else { "run" };
            let _ = write!(
                out,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                x(*run),
                y + off
            );
        }
        if let Some(published) = strip.published {
            let _ = write!(
                out,
                "<circle class=\"then\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"7\"/>",
                x(published)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Draws a rate for each second, one panel below the other, with a line at an event.
pub(super) fn panels(title: &str, most: f64, panels: &[(String, &[u64], Option<f64>)]) -> String {
    const HEIGHT: f64 = 70.0;
    let right = 930.0;
    let seconds = panels.iter().map(|(_, rates, _)| rates.len()).max().unwrap_or(1).max(1) as f64;
    let x = |second: f64| LEFT + (right - LEFT) * second / seconds;
    let bottom = TOP + HEIGHT * panels.len() as f64;
    let mut out = begin_titled(bottom + 40.0, title, &SERIES);
    for (number, (name, rates, moment)) in panels.iter().enumerate() {
        let base = TOP + HEIGHT * (number as f64 + 1.0) - 6.0;
        let y = |rate: f64| base - (HEIGHT - 14.0) * (rate / most).clamp(0.0, 1.0);
        let mut path = String::new();
        for (second, rate) in rates.iter().enumerate() {
            let _ = write!(path, "{:.1},{:.1} ", x(second as f64 + 0.5), y(*rate as f64));
        }
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/>\
             <polyline class=\"rate\" points=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            path.trim_end(),
            LEFT - 12.0,
            base - HEIGHT / 2.0 + 10.0,
            escape(name)
        );
        if let Some(moment) = moment {
            let x = x(*moment);
            let _ = write!(
                out,
                "<line class=\"then\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{base:.1}\"/>",
                base - HEIGHT + 14.0
            );
        }
    }
    for second in (0..=seconds as u32).step_by(100) {
        tick(&mut out, x(f64::from(second)), bottom, &format!("{second} s"));
    }
    out.push_str("</svg>\n");
    out
}

/// Formats a number of an axis.
fn number(value: f64) -> String {
    match value {
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}
