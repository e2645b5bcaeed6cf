//! Random backbones by Waxman's model ("Routing of multipoint connections", IEEE JSAC 6(9), 1988).
//!
//! Routers are at random positions of a square. Two of them at distance d are linked with the probability `alpha *
//! exp(-d / (beta * L))`, where L is the maximum distance, the diagonal. Parts that are not connected are joined by
//! the shortest links. Delay is proportional to distance.

use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_sim::distributions;
use serde::Deserialize;

use super::Place;
use super::backbone::{Backbone, MAX_ROUTERS, MAX_TRUNKS, Site, Trunk};
use super::error::ChoiceError;
use crate::value_syntax;

/// Length of the diagonal of a square.
const DIAGONAL: f64 = std::f64::consts::SQRT_2;
/// Minimum delay of a link.
const MIN_DELAY: Duration = Duration::from_micros(10);

/// Parameters of a random backbone.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waxman {
    /// Number of routers.
    pub routers: usize,
    /// Density of links, above 0 and up to 1. The default gives routers `degree` links on average.
    pub alpha: Option<f64>,
    /// Share of long links, above 0.
    #[serde(default = "beta")]
    pub beta: f64,
    /// Mean number of links of a router, if `alpha` is not given; without those that join parts.
    #[serde(default = "degree")]
    pub degree: f64,
    /// Delay from one side of the square to the other.
    #[serde(default = "width", deserialize_with = "value_syntax::time")]
    pub width: Duration,
    /// Random seed: one seed gives one backbone, whatever the seed of the run.
    #[serde(default = "one")]
    pub seed: u64,
}

fn beta() -> f64 {
    0.15
}

fn degree() -> f64 {
    4.0
}

fn width() -> Duration {
    Duration::from_millis(20)
}

fn one() -> u64 {
    1
}

impl Waxman {
    /// Returns the parameters for so many routers, with defaults for the rest.
    pub fn of(routers: usize) -> Waxman {
        let (beta, degree, width) = (beta(), degree(), width());
        Waxman { routers, alpha: None, beta, degree, width, seed: one() }
    }

    /// Draws the backbone.
    pub(super) fn draw(&self) -> Result<Backbone, ChoiceError> {
        self.check()?;
        let random = RandomStreams::new(self.seed);
        let mut dice = random.stream("waxman places");
        let places: Vec<Point> =
            (0..self.routers).map(|_| [0; 2].map(|_| distributions::fraction(&mut dice))).collect();
        let alpha = self.alpha.unwrap_or_else(|| self.alpha_for_degree(&places));
        let mut dice = random.stream("waxman links");
        let mut links = Vec::new();
        let mut parts = Parts::new(places.len());
        for (first, second) in pairs(places.len()) {
            if distributions::happens(
                &mut dice,
                alpha * self.nearness(places[first], places[second]),
            ) {
                links.push([first, second]);
                parts.join(first, second);
                if links.len() > MAX_TRUNKS {
                    return Err(ChoiceError::TooLarge { what: "links", most: MAX_TRUNKS });
                }
            }
        }
        links.extend(shortest_tree(&places).into_iter().filter(|[a, b]| parts.join(*a, *b)));
        let trunk = |ends: [usize; 2]| {
            let [from, to] = ends.map(|end| places[end]);
            let nanos = self.width.as_nanos() as f64 * distance(from, to);
            let delay = Duration::from_nanos(nanos as u64).max(MIN_DELAY);
            Trunk { ends, delay, bandwidth: None }
        };
        let micro = |part: f64| (part * 1e6) as i32;
        let site = |(number, &[east, north]): (usize, &Point)| Site {
            name: format!("r{}", number + 1),
            place: Some(Place { east: micro(east), north: micro(north) }),
        };
        Ok(Backbone {
            name: format!("waxman-{}-{}", self.routers, self.seed),
            routers: places.iter().enumerate().map(site).collect(),
            trunks: links.into_iter().map(trunk).collect(),
        })
    }

    fn check(&self) -> Result<(), ChoiceError> {
        let wrong = |setting, range| Err(ChoiceError::OutOfRange { setting, range });
        if !(2..=MAX_ROUTERS).contains(&self.routers) {
            return wrong("waxman.routers", "2 to 2048");
        }
        if self.alpha.is_some_and(|alpha| !(alpha > 0.0 && alpha <= 1.0)) {
            return wrong("waxman.alpha", "above 0, up to 1");
        }
        if !(self.beta > 0.0 && self.beta <= 1e6) {
            return wrong("waxman.beta", "above 0");
        }
        if !(self.degree >= 0.0 && self.degree <= 1e6) {
            return wrong("waxman.degree", "0 or more");
        }
        if self.width > Duration::from_secs(5) {
            return wrong("waxman.width", "5s at most");
        }
        Ok(())
    }

    /// Returns the nearness of two positions, 0 to 1; 1 at the same position.
    fn nearness(&self, from: Point, to: Point) -> f64 {
        libm::exp(-distance(from, to) / (self.beta * DIAGONAL))
    }

    /// Returns the alpha for which the expected number of links matches the degree, as long as no two routers are
    /// linked for certain.
    fn alpha_for_degree(&self, places: &[Point]) -> f64 {
        let all: f64 = pairs(places.len()).map(|(a, b)| self.nearness(places[a], places[b])).sum();
        (self.degree * places.len() as f64 / 2.0 / all).min(1.0)
    }
}

/// Position in a square of side 1.
type Point = [f64; 2];

fn distance(from: Point, to: Point) -> f64 {
    libm::sqrt(squared(from, to))
}

fn squared(from: Point, to: Point) -> f64 {
    let [east, north] = [from[0] - to[0], from[1] - to[1]];
    east * east + north * north
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |first| (first + 1..count).map(move |second| (first, second)))
}

/// Returns the links of the minimum spanning tree (Prim), the shortest one first. The shortest link between any two
/// parts of the whole is among them.
fn shortest_tree(places: &[Point]) -> Vec<[usize; 2]> {
    let mut outside: Vec<(f64, usize)> =
        places.iter().map(|place| (squared(places[0], *place), 0)).collect();
    let mut is_in = vec![false; places.len()];
    is_in[0] = true;
    let mut links = Vec::new();
    for _ in 1..places.len() {
        let near = (0..places.len()).filter(|place| !is_in[*place]);
        let Some(next) = near.min_by(|a, b| outside[*a].0.total_cmp(&outside[*b].0)) else { break };
        is_in[next] = true;
        links.push((outside[next].0, [outside[next].1, next]));
        for (place, from) in outside.iter_mut().enumerate() {
            let here = squared(places[next], places[place]);
            if here < from.0 {
                *from = (here, next);
            }
        }
    }
    links.sort_by(|(a, _), (b, _)| a.total_cmp(b)); // stable
    links.into_iter().map(|(_, link)| link).collect()
}

/// Connected parts (union-find).
struct Parts {
    parents: Vec<usize>,
}

impl Parts {
    fn new(count: usize) -> Parts {
        Parts { parents: (0..count).collect() }
    }

    fn root(&mut self, mut of: usize) -> usize {
        while self.parents[of] != of {
            self.parents[of] = self.parents[self.parents[of]];
            of = self.parents[of];
        }
        of
    }

    /// Joins two parts. Returns whether they were separate.
    fn join(&mut self, first: usize, second: usize) -> bool {
        let [first, second] = [first, second].map(|place| self.root(place));
        self.parents[second] = first;
        first != second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 routers with 4 links on average have 400 links in expectation, with a standard deviation below 20; some
    /// more join parts.
    #[test]
    fn link_count_matches_degree_and_short_links_prevail() {
        let backbone = Waxman::of(200).draw().expect("a backbone");
        assert!((340..500).contains(&backbone.trunks.len()), "{}", backbone.trunks.len());
        let short = Duration::from_millis(5); // a quarter of the side: of a sixth of all pairs
        let count = backbone.trunks.iter().filter(|trunk| trunk.delay < short).count();
        assert!(3 * count > backbone.trunks.len(), "{count}");
        assert_eq!(backbone, Waxman::of(200).draw().expect("the same"));
        let other = Waxman { seed: 2, ..Waxman::of(200) };
        assert_ne!(backbone.trunks, other.draw().expect("another").trunks);
    }

    /// With almost no links drawn, the result is a tree.
    #[test]
    fn separate_parts_are_joined_by_shortest_links() {
        let sparse = Waxman { alpha: Some(1e-12), ..Waxman::of(50) };
        let backbone = sparse.draw().expect("a backbone");
        assert_eq!(backbone.trunks.len(), 49);
        let longest = backbone.trunks.iter().map(|trunk| trunk.delay).max();
        assert!(longest < Some(Duration::from_millis(8)), "{longest:?}");
    }

    #[test]
    fn setting_out_of_range_is_named() {
        let well = Waxman::of(10);
        for (wrong, named) in [
            (Waxman { routers: 1, ..well }, "waxman.routers"),
            (Waxman { routers: 2_049, ..well }, "waxman.routers"),
            (Waxman { alpha: Some(0.0), ..well }, "waxman.alpha"),
            (Waxman { alpha: Some(f64::NAN), ..well }, "waxman.alpha"),
            (Waxman { beta: -1.0, ..well }, "waxman.beta"),
            (Waxman { degree: f64::INFINITY, ..well }, "waxman.degree"),
            (Waxman { width: Duration::from_secs(6), ..well }, "waxman.width"),
            (Waxman { routers: 2_000, alpha: Some(1.0), beta: 1e6, ..well }, "links"),
        ] {
            let error = wrong.draw().expect_err(named);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
