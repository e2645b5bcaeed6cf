//! Drawings of the study beyond charts: results of each run, and rates second by second.

use earmark_lab::plot::axis::{Area, Scale, number};
use earmark_lab::plot::drawing::{Align, Drawing, Style};

const LEFT: f64 = 150.0;
const RIGHT: f64 = 930.0;
const TOP: f64 = 50.0;

const STYLE: Style = Style {
    light: "--run:#1f6feb;--never:#c4432b",
    dark: "--run:#58a6ff;--never:#f47067",
    rules: ".run{fill:var(--run);fill-opacity:.45}.never{fill:var(--never);fill-opacity:.45}\
            .then{fill:none;stroke:var(--ink);stroke-width:2}.rate{fill:none;stroke:var(--run);stroke-width:1.2}",
};

/// Results of all runs of one kind.
pub(super) struct Strip {
    pub(super) name: String,
    /// Value of each run; a run at `most` had no end.
    pub(super) runs: Vec<f64>,
    /// Published value; `Some(None)` if the reservation was published as not made.
    pub(super) published: Option<Option<f64>>,
}

/// Draws a strip of dots for each kind, from 0 to `most`; a ring is the published value. A reservation that was
/// published as not made has words in its place.
pub(super) fn strips(title: &str, axis: &str, most: f64, strips: &[Strip]) -> String {
    const HEIGHT: f64 = 34.0;
    let bottom = TOP + HEIGHT * strips.len() as f64;
    let area = Area { left: LEFT, right: RIGHT, top: TOP, bottom };
    let across = Scale::linear(0.0, most, area.across());
    let mut drawing = Drawing::titled(title);
    for value in across.every(most / 6.0) {
        let x = across.place(value);
        area.upright(&mut drawing, "grid", x);
        area.tick(&mut drawing, x, &number(value));
    }
    area.label_across(&mut drawing, axis);
    for (number, strip) in strips.iter().enumerate() {
        let y = TOP + HEIGHT * (number as f64 + 0.5);
        drawing.text("", (LEFT - 12.0, y + 4.0), Align::End, &strip.name);
        for (place, run) in strip.runs.iter().enumerate() {
            // An offset separates dots of equal value.
            let off = (place * 7 % 15) as f64 - 7.0;
            let class = if *run >= most { "never" } else { "run" };
            drawing.circle(class, (across.place(*run), y + off), 3.0, None);
        }
        match strip.published {
            Some(Some(published)) => {
                drawing.circle("then", (across.place(published), y), 7.0, None);
            }
            Some(None) => {
                drawing.text("", (RIGHT - 12.0, y + 4.0), Align::End, "published: not made");
            }
            None => {}
        }
    }
    drawing.finish(bottom + 60.0, title, &STYLE)
}

/// A rate for each second, with the second of an event.
pub(super) type Panel<'r> = (String, &'r [u64], Option<f64>);

/// Draws rates, one panel below the other, with a line at each event; from 0 to `most`.
pub(super) fn panels(title: &str, most: f64, panels: &[Panel<'_>]) -> String {
    const HEIGHT: f64 = 70.0;
    let seconds = panels.iter().map(|(_, rates, _)| rates.len()).max().unwrap_or(1).max(1) as f64;
    let bottom = TOP + HEIGHT * panels.len() as f64;
    let all = Area { left: LEFT, right: RIGHT, top: TOP, bottom };
    let across = Scale::linear(0.0, seconds, all.across());
    let mut drawing = Drawing::titled(title);
    for (number, (name, rates, event)) in panels.iter().enumerate() {
        let bottom = TOP + HEIGHT * (number as f64 + 1.0) - 6.0;
        let area = Area { top: bottom - HEIGHT + 14.0, bottom, ..all };
        let up = Scale::linear(0.0, most, area.up());
        drawing.line("grid", (LEFT, bottom), (RIGHT, bottom));
        let points = rates.iter().enumerate();
        let point = |(second, rate): (usize, &u64)| {
            (across.place(second as f64 + 0.5), up.place(*rate as f64))
        };
        drawing.polyline("rate", points.map(point));
        drawing.text("", (LEFT - 12.0, bottom - HEIGHT / 2.0 + 10.0), Align::End, name);
        if let Some(event) = event {
            area.upright(&mut drawing, "then", across.place(*event));
        }
    }
    for second in across.every(100.0) {
        all.tick(&mut drawing, across.place(second), &format!("{second} s"));
    }
    drawing.finish(bottom + 40.0, title, &STYLE)
}
