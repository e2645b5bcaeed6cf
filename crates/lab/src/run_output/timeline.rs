//! Timeline of every reservation attempt of the watched flows: time, node, and result, as text and as a drawing.
//!
//! Nodes are in the order of the flow's path, including those without an attempt: a reservation that is made hop by
//! hop against the direction of the stream shows in this order.

use std::fmt::Write;
use std::net::IpAddr;

use earmark_scenario::topology::Topology;
use earmark_scenario::{Attempted, FlowOutcome, Outcome};

use crate::plot::axis::{Area, Scale};
use crate::plot::drawing::{Drawing, Style};

/// Largest gap between attempts of one pass along the path, seconds.
const PASS: f64 = 1.0;

/// Returns the timeline as text: a line for each pass along the path, a column for each node; `+` granted, `-`
/// refused.
pub fn timeline(outcomes: &[Outcome], topology: &Topology) -> String {
    let mut out = String::new();
    for (title, flow) in flows(outcomes) {
        let nodes = path(flow, topology);
        let widths: Vec<usize> = nodes.iter().map(|node| node.chars().count()).collect();
        let heading: Vec<&str> = nodes.iter().map(String::as_str).collect();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{title}\n{:>10}  {}", "s", heading.join(" "));
        for pass in passes(&flow.attempts) {
            let mark = |(node, width): (&String, &usize)| {
                let attempt = pass.iter().find(|attempt| attempt.node == *node);
                let mark = attempt.map_or("", |attempt| if attempt.granted { "+" } else { "-" });
                format!("{mark:^width$}")
            };
            let marks: Vec<String> = nodes.iter().zip(&widths).map(mark).collect();
            let _ = writeln!(out, "{:>10.3}  {}", pass[0].at, marks.join(" ").trim_end());
        }
        out.push('\n');
    }
    out
}

/// Returns all flows with a reservation request, each with a line about its result.
fn flows(outcomes: &[Outcome]) -> impl Iterator<Item = (String, &FlowOutcome)> {
    outcomes.iter().flat_map(|outcome| {
        outcome.watched.iter().filter_map(|flow| {
            let became = match flow.completed_after {
                Some(after) => format!("completed after {after:.1} s"),
                None => "not completed".to_owned(),
            };
            let title = format!(
                "{} {} to {}, seed {}: asked at {:.1} s, {became}, {} retries",
                flow.flows, flow.from, flow.to, outcome.seed, flow.reserves?, flow.retries
            );
            Some((title, flow))
        })
    })
}

/// Groups attempts by passes along the path: a new pass begins at a second attempt at one node, or after some time.
fn passes(attempts: &[Attempted]) -> Vec<&[Attempted]> {
    let mut passes = Vec::new();
    let mut begin = 0;
    for (end, attempt) in attempts.iter().enumerate() {
        let pass = &attempts[begin..end];
        let is_other = pass.iter().any(|earlier| earlier.node == attempt.node)
            || pass.last().is_some_and(|last| attempt.at - last.at > PASS);
        if is_other {
            passes.push(pass);
            begin = end;
        }
    }
    if begin < attempts.len() {
        passes.push(&attempts[begin..]);
    }
    passes
}

/// Returns the nodes of the path from the source on, then others with an attempt. The receiver is left out, because
/// it reserves nothing.
fn path(flow: &FlowOutcome, topology: &Topology) -> Vec<String> {
    let ends = topology.node(&flow.from).zip(topology.node(&flow.to));
    let route = ends.map_or_else(Vec::new, |(from, to)| route(topology, from, to));
    let mut nodes: Vec<String> =
        route.into_iter().map(|node| topology.nodes[node].name.clone()).collect();
    for Attempted { node, .. } in &flow.attempts {
        if !nodes.contains(node) {
            nodes.push(node.clone());
        }
    }
    nodes
}

/// Returns the nodes on the route of packets from one node to another, without the last one.
fn route(topology: &Topology, from: usize, to: usize) -> Vec<usize> {
    let paths = topology.paths();
    let Some(address) = topology.address(to).map(IpAddr::from) else { return Vec::new() };
    let mut route = Vec::new();
    let mut at = from;
    while at != to && !route.contains(&at) {
        route.push(at);
        let own = topology.links.iter().filter_map(|link| {
            let ours = link.ends.iter().position(|end| end.node == at)?;
            Some((link.prefix, link.ends[1 - ours].node))
        });
        let routes = paths.routes(at).into_iter().filter_map(|route| {
            Some((route.prefix, topology.node(topology.owner_of(route.gateway)?)?))
        });
        let fit = own.chain(routes).filter(|(prefix, _)| prefix.contains(address));
        let Some((_, next)) = fit.max_by_key(|(prefix, _)| prefix.length()) else { break };
        at = next;
    }
    route
}

/// Left and right end of the plots.
const ACROSS: (f64, f64) = (96.0, 930.0);
/// Height of a node's line.
const LINE: f64 = 22.0;
/// Height of the text above a flow's plot.
const ABOVE: f64 = 44.0;
/// Height of the text below a flow's plot.
const BELOW: f64 = 42.0;

const STYLE: Style = Style {
    light: "--granted:#1a7f37;--refused:#c4432b",
    dark: "--granted:#3fb950;--refused:#f47067",
    rules: ".granted{fill:var(--granted)}.refused{stroke:var(--refused);stroke-width:1.6}\
            .whole{stroke:var(--ink);stroke-dasharray:2 3}",
};

/// Returns the timeline as a drawing: time from left to right, nodes from top to bottom; a dot is granted, a cross
/// refused, and the dashed line marks the complete reservation.
pub fn timeline_svg(outcomes: &[Outcome], topology: &Topology) -> String {
    let mut drawing = Drawing::new();
    let mut top = 0.0;
    for (title, flow) in flows(outcomes) {
        top = panel(&mut drawing, top, &title, flow, &path(flow, topology));
    }
    drawing.finish(top.max(ABOVE), "attempts to reserve", &STYLE)
}

/// Draws one flow; returns the top of the next one.
fn panel(
    drawing: &mut Drawing,
    top: f64,
    title: &str,
    flow: &FlowOutcome,
    nodes: &[String],
) -> f64 {
    let asked = flow.reserves.unwrap_or_default();
    let last = flow.attempts.last().map_or(asked, |attempt| attempt.at);
    let completed = flow.completed_after.map(|after| asked + after);
    let span = (last.max(completed.unwrap_or(last)) - asked).max(1.0);
    let (left, right) = ACROSS;
    let top = top + ABOVE;
    let area = Area { left, right, top, bottom: top + LINE * nodes.len() as f64 };
    let after = Scale::linear(0.0, span, area.across());
    let y = |line: usize| area.top + LINE * (line as f64 + 0.5);
    drawing.title(top - ABOVE, title);
    for (line, node) in nodes.iter().enumerate() {
        area.level(drawing, y(line), node);
    }
    let step = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0];
    let step = step.into_iter().find(|step| span / step <= 10.0).unwrap_or(span / 5.0);
    for seconds in after.every(step) {
        area.tick(drawing, after.place(seconds), &format!("{seconds} s"));
    }
    if let Some(completed) = completed {
        let x = after.place(completed - asked);
        drawing.line("whole", (x, area.top - 4.0), (x, area.bottom));
    }
    for attempt in &flow.attempts {
        let Some(line) = nodes.iter().position(|node| *node == attempt.node) else { continue };
        let center = (after.place(attempt.at - asked), y(line));
        match attempt.granted {
            true => drawing.circle("granted", center, 4.0, None),
            false => drawing.cross("refused", center),
        }
    }
    area.bottom + BELOW
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes;
    use super::*;

    /// Topology h0 - r1 - r2 - h1.
    fn topology() -> Topology {
        Topology::parse(
            r#"
            node = [{ name = "h0" }, { name = "r1" }, { name = "r2" }, { name = "h1" }]
            link = [
                { ends = ["h0", "r1"], bandwidth = "10Mbit" },
                { ends = ["r1", "r2"], bandwidth = "10Mbit" },
                { ends = ["r2", "h1"], bandwidth = "10Mbit" },
            ]"#,
        )
        .unwrap()
    }

    #[test]
    fn passes_are_lines_and_nodes_are_columns() {
        let text = timeline(&outcomes()[..1], &topology());
        assert_eq!(
            text,
            "test h0 to h1, seed 1: asked at 1.5 s, completed after 2.2 s, 1 retries\n         s  h0 r1 r2\n     1.500  +  -\n     3.750     +\n\n"
        );
        assert_eq!(timeline(&outcomes(), &topology()).matches("not completed").count(), 1);
    }

    /// The plot is 834 points wide for 2.25 s.
    #[test]
    fn attempts_are_drawn_to_scale() {
        let drawing = timeline_svg(&outcomes()[..1], &topology());
        assert!(drawing.contains("<circle class=\"granted\" cx=\"96\" cy=\"55\""), "{drawing}");
        assert!(drawing.contains("<path class=\"refused\" d=\"M99.4 73"), "{drawing}");
        assert!(drawing.contains("<circle class=\"granted\" cx=\"930\" cy=\"77\""), "{drawing}");
        assert!(drawing.contains("<line class=\"whole\" x1=\"930\""), "all was granted then");
        assert!(drawing.contains(">2 s</text>") && !drawing.contains("NaN"));
        let empty = timeline_svg(&[], &topology());
        assert!(empty.starts_with("<svg") && !empty.contains("NaN"));
    }
}
