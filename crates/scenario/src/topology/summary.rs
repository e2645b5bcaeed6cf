//! Summary of a topology: its size, the degrees of its routers, and their distances.

use serde::Serialize;

use super::{Role, Topology};

/// Summary of a topology. Paths and degrees count only routers and links between them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name.
    pub name: String,
    /// Number of routers.
    pub routers: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of links between routers.
    pub links: usize,
    /// Number of links of a router to others.
    pub degree: Spread,
    /// Number of links of the shortest path between two routers; the maximum is the diameter.
    pub path_links: Spread,
    /// Propagation delay of such a path, milliseconds.
    pub path_delay_ms: Spread,
    /// Ordered pairs of routers by the links of the shortest path between them; the first number is of one link.
    pub pairs_by_links: Vec<u64>,
    /// Number of routes that a router needs besides those of its own links.
    pub routes: Spread,
}

/// Minimum, mean, and maximum of some numbers; 0 if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Minimum.
    pub least: f64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub most: f64,
}

impl Summary {
    /// Creates the summary of a topology.
    pub fn of(topology: &Topology) -> Summary {
        let is_router = |node: usize| topology.nodes[node].role == Role::Router;
        let routers: Vec<usize> =
            (0..topology.nodes.len()).filter(|node| is_router(*node)).collect();
        let mut degrees = vec![0_u32; topology.nodes.len()];
        let mut links = 0;
        for link in &topology.links {
            let ends = [link.ends[0].node, link.ends[1].node];
            if ends.into_iter().all(is_router) {
                links += 1;
                ends.into_iter().for_each(|end| degrees[end] += 1);
            }
        }
        let paths = topology.paths();
        let (mut path_links, mut delays, mut pairs) = (Sum::default(), Sum::default(), Vec::new());
        let (mut degree, mut routes) = (Sum::default(), Sum::default());
        for &router in &routers {
            degree.add(degrees[router].into());
            routes.add(paths.routes(router).len() as f64);
            for (links, delay) in paths.to_routers(router) {
                path_links.add(links.into());
                delays.add(delay.as_secs_f64() * 1e3);
                let place = (links as usize).saturating_sub(1);
                pairs.resize(pairs.len().max(place + 1), 0);
                pairs[place] += 1;
            }
        }
        Summary {
            name: topology.name.clone(),
            routers: routers.len(),
            hosts: topology.nodes.len() - routers.len(),
            links,
            degree: degree.spread(),
            path_links: path_links.spread(),
            path_delay_ms: delays.spread(),
            pairs_by_links: pairs,
            routes: routes.spread(),
        }
    }
}

#[derive(Default)]
struct Sum {
    count: f64,
    sum: f64,
    spread: Option<(f64, f64)>,
}

impl Sum {
    fn add(&mut self, number: f64) {
        let (least, most) = self.spread.unwrap_or((number, number));
        self.spread = Some((least.min(number), most.max(number)));
        self.count += 1.0;
        self.sum += number;
    }

    fn spread(&self) -> Spread {
        let Some((least, most)) = self.spread else { return Spread::default() };
        Spread { least, mean: self.sum / self.count, most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two routers in a row.
    #[test]
    fn demo_summary_has_expected_values() {
        let topology = Topology::parse(super::super::DEMO).expect("a topology");
        let summary = Summary::of(&topology);
        assert_eq!((summary.routers, summary.hosts, summary.links), (2, 2, 1));
        let one = Spread { least: 1.0, mean: 1.0, most: 1.0 };
        assert_eq!((summary.degree, summary.path_links, summary.routes), (one, one, one));
        assert_eq!(summary.pairs_by_links, [2]);
    }
}
