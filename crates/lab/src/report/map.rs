//! Map of a network as SVG: routers at their positions, or on a circle, with their hosts around them.

use std::f64::consts::TAU;

use earmark_scenario::topology::{Role, Topology};

use crate::plot::drawing::{Align, Drawing, Position, Style, WIDTH};

/// Height of the drawing.
const HEIGHT: f64 = 640.0;
/// Margin around the routers.
const MARGIN: f64 = 70.0;
/// Distance from a router to its hosts.
const ARM: f64 = 16.0;
/// Number of routers above which names are left out, because they would hide the routers.
const MAX_NAMES: usize = 60;
/// Number of hosts above which hosts are left out, because they would hide the network.
const MAX_HOSTS: usize = 300;

const STYLE: Style = Style {
    light: "--router:#1f6feb;--host:#1a7f37",
    dark: "--router:#58a6ff;--host:#3fb950",
    rules: "text{font-size:12px;paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}\
            .title{font-size:14px}.link{stroke:var(--faint)}.arm{stroke:var(--faint);stroke-opacity:.5}\
            .router{fill:var(--router)}.host{fill:var(--host)}",
};

/// Draws the map, complete with its style.
pub fn map(topology: &Topology) -> String {
    let routers: Vec<usize> = by_role(topology, Role::Router);
    let hosts: Vec<usize> = by_role(topology, Role::Host);
    let points = points(topology, &routers, &hosts);
    let shown = |node: usize| topology.nodes[node].role == Role::Router || hosts.len() <= MAX_HOSTS;
    let title = format!("{}: {} routers, {} hosts", topology.name, routers.len(), hosts.len());
    let mut drawing = Drawing::titled(&title);
    for link in &topology.links {
        let ends = [link.ends[0].node, link.ends[1].node];
        if !ends.into_iter().all(shown) {
            continue;
        }
        let is_trunk = ends.iter().all(|end| topology.nodes[*end].role == Role::Router);
        let class = if is_trunk { "link" } else { "arm" };
        let [from, to] = ends.map(|end| points[end]);
        drawing.line(class, from, to);
    }
    for &node in routers.iter().chain(&hosts).filter(|node| shown(**node)) {
        let (class, radius) = match topology.nodes[node].role {
            Role::Router if routers.len() > MAX_NAMES => ("router", 2.5),
            Role::Router => ("router", 5.0),
            Role::Host => ("host", 2.0),
        };
        drawing.circle(class, points[node], radius, Some(&topology.nodes[node].name));
    }
    for &node in routers.iter().filter(|_| routers.len() <= MAX_NAMES) {
        let (x, y) = points[node];
        drawing.text("", (x + 8.0, y - 6.0), Align::Start, &topology.nodes[node].name);
    }
    drawing.finish(HEIGHT, &title, &STYLE)
}

fn by_role(topology: &Topology, role: Role) -> Vec<usize> {
    let nodes = topology.nodes.iter().enumerate();
    nodes.filter(|(_, node)| node.role == role).map(|(place, _)| place).collect()
}

/// Returns the position of each node.
fn points(topology: &Topology, routers: &[usize], hosts: &[usize]) -> Vec<Position> {
    let mut points = vec![(WIDTH / 2.0, HEIGHT / 2.0); topology.nodes.len()];
    // In a network without routers, the hosts are its core.
    let core = if routers.is_empty() { hosts } else { routers };
    let places: Option<Vec<Position>> = core
        .iter()
        .map(|node| topology.nodes[*node].place)
        .map(|place| place.map(|place| (place.east.into(), -f64::from(place.north))))
        .collect();
    let places = places.unwrap_or_else(|| circle(core.len()));
    for (&node, point) in core.iter().zip(fitted(&places)) {
        points[node] = point;
    }
    // The hosts of a router are placed around it, at equal angles.
    let mut around = vec![Vec::new(); topology.nodes.len()];
    for link in &topology.links {
        let [a, b] = [link.ends[0].node, link.ends[1].node];
        for (router, host) in [(a, b), (b, a)] {
            let roles = [router, host].map(|node| topology.nodes[node].role);
            if roles == [Role::Router, Role::Host] {
                around[router].push(host);
            }
        }
    }
    for (router, hosts) in around.iter().enumerate() {
        for (number, &host) in hosts.iter().enumerate() {
            let angle = TAU * (number as f64 + 0.5) / hosts.len() as f64;
            let (x, y) = points[router];
            points[host] = (x + ARM * angle.cos(), y + ARM * angle.sin());
        }
    }
    points
}

fn circle(count: usize) -> Vec<Position> {
    let angle = |number: usize| TAU * number as f64 / count as f64;
    (0..count).map(|number| (-angle(number).cos(), -angle(number).sin())).collect()
}

/// Scales positions to the size of the drawing.
fn fitted(places: &[Position]) -> Vec<Position> {
    let range = |of: fn(&Position) -> f64| {
        let numbers = || places.iter().map(of);
        (numbers().fold(f64::MAX, f64::min), numbers().fold(f64::MIN, f64::max))
    };
    let ((west, east), (top, bottom)) = (range(|place| place.0), range(|place| place.1));
    let scale = ((WIDTH - 2.0 * MARGIN) / (east - west).max(1e-9))
        .min((HEIGHT - 2.0 * MARGIN) / (bottom - top).max(1e-9));
    let x = |place: f64| WIDTH / 2.0 + (place - (west + east) / 2.0) * scale;
    let y = |place: f64| HEIGHT / 2.0 + (place - (top + bottom) / 2.0) * scale;
    places.iter().map(|place| (x(place.0), y(place.1))).collect()
}

#[cfg(test)]
mod tests {
    use earmark_scenario::topology::DEMO;

    use super::*;

    #[test]
    fn every_node_and_link_is_drawn_within_the_drawing() {
        let topology = Topology::parse(DEMO).expect("a topology");
        let drawing = map(&topology);
        assert_eq!(drawing.matches("<circle").count(), topology.nodes.len());
        assert_eq!(drawing.matches("<line").count(), topology.links.len());
        let places = fitted(&[(-3.0, 5.0), (1.0, 6.0), (2.0, 9.0)]);
        assert!(
            places.iter().all(|(x, y)| (0.0..=WIDTH).contains(x) && (0.0..=HEIGHT).contains(y))
        );
        assert_eq!((places[0].1, places[2].1), (MARGIN, HEIGHT - MARGIN));
    }
}
