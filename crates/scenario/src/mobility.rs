//! Hosts that move during a run. A host has links to all routers that it visits, and one of them is up at a time; where it is,
//! its address is reached.
//!
//! ```toml
//! [[mobility]]
//! nodes = ["h0", "h1"]        # hosts with links to several routers
//! stays = "exponential 60s"   # how long they stay at a router: a law, as of lifetimes
//! next = "random"             # then to any other router, the default; or "cycle": in the order of the topology's links
//! gap = "50ms"                # time without a link at each move; default 0
//!
//! [[mobility]]
//! nodes = ["h2"]
//! moves = [["60s", "r2"], ["130s", "r1"]] # times, in ascending order, and routers
//! ```
//!
//! A host has the address of its first link wherever it is, and all nodes have routes to it from the moment on in which it
//! arrives. With a law the run begins in the steady state: a host is at any router, and has been there for some time. With
//! `moves` it begins at the router of its first link.

mod walk;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use earmark_core::random::RandomStreams;
use serde::Deserialize;

pub use self::walk::{MobilityLaw, Order, Walk};
use crate::error::ScenarioError;
use crate::faults::Fault;
use crate::lifetime::{Lifetime, LifetimeLaw};
use crate::topology::{Role, Topology};
use crate::value_syntax;

/// Shortest stay: with shorter ones a run would never end.
const MIN_STAY: Duration = Duration::from_millis(1);
/// Limit of the expected number of moves of a scenario; each changes the routes of all nodes.
const MAX_MOVES: f64 = 1e6;

/// Hosts that move by one law; see the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mobility {
    /// Names of the hosts.
    pub nodes: Vec<String>,
    /// Law of the stays at a router.
    pub stays: Option<Lifetime>,
    /// Where the hosts go next.
    #[serde(default)]
    pub next: Order,
    /// Moves in place of a law.
    #[serde(default)]
    pub moves: Vec<Move>,
    /// Time without a link at each move.
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub gap: Duration,
    /// Another law, for a scenario that a program builds.
    #[serde(skip)]
    pub law: Option<OtherLaw>,
}

/// Time and router of a move.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Move(#[serde(deserialize_with = "value_syntax::time")] pub Duration, pub String);

/// A law of movement that a program gives. Two are equal if they are the same object.
#[derive(Clone, Debug)]
pub struct OtherLaw(pub Arc<dyn MobilityLaw>);

impl PartialEq for OtherLaw {
    fn eq(&self, other: &OtherLaw) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Movement of one host: its routers, in the order of its links, and its visits, by the place of the router among them.
struct Movement<'a> {
    routers: Vec<&'a str>,
    /// Start of each visit, in ascending order.
    visits: Vec<(Duration, usize)>,
}

impl Mobility {
    fn movement<'a>(
        &'a self,
        host: &str,
        topology: &'a Topology,
        end: Duration,
        random: &RandomStreams,
    ) -> Movement<'a> {
        let routers = routers_of(host, topology);
        let place = |name: &String| routers.iter().position(|router| *router == name);
        let visits = if self.moves.is_empty() {
            let mut dice = random.stream(&format!("moves {host}"));
            let walk;
            let law: &dyn MobilityLaw = match (&self.law, &self.stays) {
                (Some(law), _) => &*law.0,
                (None, stays) => {
                    walk =
                        Walk { stays: stays.clone().unwrap_or(Lifetime::Forever), next: self.next };
                    &walk
                }
            };
            let (mut at, mut stays) = law.first(routers.len(), &mut dice);
            let mut visits = vec![(Duration::ZERO, at)];
            let mut since = Duration::ZERO;
            while let Some(stay) = stays {
                since = since.saturating_add(stay.max(MIN_STAY));
                if since >= end {
                    break;
                }
                (at, stays) = law.next(at, routers.len(), &mut dice);
                visits.push((since, at));
            }
            visits
        } else {
            let moves = self.moves.iter().filter_map(|Move(at, to)| Some((*at, place(to)?)));
            [(Duration::ZERO, 0)].into_iter().chain(moves).collect()
        };
        Movement { routers, visits }
    }
}

impl Movement<'_> {
    /// Returns the outages of the host's links that its movement means, if it has no link for some time at each move.
    fn outages(&self, host: &str, gap: Duration) -> Vec<Fault> {
        let mut outages = Vec::new();
        for (place, router) in self.routers.iter().enumerate() {
            let mut down_from = Some(Duration::ZERO);
            for (number, &(since, at)) in self.visits.iter().enumerate() {
                let was_here = number > 0 && self.visits[number - 1].1 == place;
                if at != place {
                    down_from = down_from.or(Some(since));
                    continue;
                }
                if was_here {
                    continue;
                }
                let up = if number > 0 { since.saturating_add(gap) } else { since };
                let leaves = self.visits.get(number + 1).map(|(next, _)| *next);
                if leaves.is_some_and(|leaves| leaves <= up) {
                    continue; // gone before it has a link
                }
                if let Some(from) = down_from.take().filter(|from| *from < up) {
                    outages.push(outage(host, router, from, Some(up)));
                }
            }
            outages.extend(down_from.map(|from| outage(host, router, from, None)));
        }
        outages
    }
}

fn outage(host: &str, router: &str, from: Duration, until: Option<Duration>) -> Fault {
    let link = Some([host.to_owned(), router.to_owned()]);
    Fault { link, from, until, outage: true, ..Fault::default() }
}

/// Returns the names of the routers that a host has links to, in the order of the links.
fn routers_of<'a>(host: &str, topology: &'a Topology) -> Vec<&'a str> {
    let mut routers = Vec::new();
    let Some(host) = topology.node(host) else { return routers };
    for link in &topology.links {
        let ends = [link.ends[0].node, link.ends[1].node];
        let peer = ends.iter().position(|end| *end == host).map(|ours| ends[1 - ours]);
        let router = peer.map(|peer| &topology.nodes[peer]);
        if let Some(router) = router.filter(|router| router.role == Role::Router)
            && !routers.contains(&&*router.name)
        {
            routers.push(&*router.name);
        }
    }
    routers
}

/// Returns the outages of links that the movement of all hosts means, drawn for a seed.
pub(crate) fn outages(
    mobility: &[Mobility],
    topology: &Topology,
    end: Duration,
    seed: u64,
) -> Vec<Fault> {
    let random = RandomStreams::new(seed);
    let hosts = mobility.iter().flat_map(|law| law.nodes.iter().map(move |host| (law, host)));
    let outages = hosts
        .flat_map(|(law, host)| law.movement(host, topology, end, &random).outages(host, law.gap));
    outages.collect()
}

/// Returns the places of the hosts that move.
pub(crate) fn mobile_hosts(mobility: &[Mobility], topology: &Topology) -> Vec<usize> {
    mobility.iter().flat_map(|law| &law.nodes).filter_map(|host| topology.node(host)).collect()
}

/// Checks the movement of all hosts.
///
/// # Errors
/// The first error found.
pub(crate) fn check(
    mobility: &[Mobility],
    topology: &Topology,
    duration: Duration,
) -> Result<(), ScenarioError> {
    let mut moves = 0.0;
    let mut seen = Vec::new();
    for (number, law) in mobility.iter().enumerate() {
        let wrong = |field: &str, name: &str, why| {
            let (key, name) = (format!("mobility.{number}.{field}"), name.to_owned());
            Err(ScenarioError::Mobility { key, name, why })
        };
        for host in &law.nodes {
            let Some(node) = topology.node(host) else {
                return wrong("nodes", host, "the topology has no such node");
            };
            if topology.nodes[node].role != Role::Host {
                return wrong(
                    "nodes",
                    host,
                    "a router does not move; give a host: role = \"host\"",
                );
            }
            if routers_of(host, topology).len() < 2 {
                return wrong("nodes", host, "the host needs links to two routers or more");
            }
            if seen.contains(&node) {
                return wrong("nodes", host, "the host moves already");
            }
            seen.push(node);
        }
        match (&law.stays, law.moves.is_empty(), &law.law) {
            (Some(_), true, None) | (None, false, None) | (None, true, Some(_)) => {}
            _ => return wrong("stays", "", "give either stays = \"exponential 60s\" or moves"),
        }
        if !law.moves.is_sorted_by(|Move(one, _), Move(next, _)| one < next) {
            return wrong("moves", "", "the times are not in ascending order");
        }
        for Move(_, router) in &law.moves {
            let is_linked = |host: &String| routers_of(host, topology).contains(&&**router);
            if !law.nodes.iter().all(is_linked) {
                return wrong("moves", router, "a host has no link to this router");
            }
        }
        if let Some(mean) = law.stays.as_ref().and_then(LifetimeLaw::mean) {
            let visits = duration.as_secs_f64() / mean.max(MIN_STAY).as_secs_f64();
            moves += law.nodes.len() as f64 * visits;
        }
    }
    match moves > MAX_MOVES {
        true => {
            let (key, name) = ("mobility".to_owned(), String::new());
            let why = "more than a million moves; let the hosts stay longer";
            Err(ScenarioError::Mobility { key, name, why })
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAR: &str = r#"
        node = [{ name = "r1", role = "router" }, { name = "r2", role = "router" }, { name = "r3", role = "router" },
                { name = "h", role = "host" }]
        link = [{ ends = ["r1", "h"], bandwidth = "1Mbit", delay = "1ms" }, { ends = ["h", "r2"], bandwidth = "1Mbit", delay = "1ms" }, { ends = ["r3", "h"], bandwidth = "1Mbit", delay = "1ms" }, { ends = ["r3", "r2"], bandwidth = "1Mbit", delay = "1ms" },
                { ends = ["r1", "r2"], bandwidth = "1Mbit", delay = "1ms" }]
    "#;
    const RUN: Duration = Duration::from_secs(300);

    fn visits(mobility: &Mobility, seed: u64) -> Vec<(Duration, usize)> {
        let topology = Topology::parse(STAR).expect("a topology");
        mobility.movement("h", &topology, RUN, &RandomStreams::new(seed)).visits
    }

    /// Hosts begin anywhere, the number of moves is that of the steady state from the first instant on, and each router is visited
    /// next as often as the order says.
    #[test]
    fn movement_begins_in_the_steady_state() {
        for (stays, next) in [
            ("constant 50s", Order::Random),
            ("exponential 50s", Order::Cycle),
            ("uniform 0s 100s", Order::Random),
            ("pareto 50s 2.5", Order::Cycle),
        ] {
            let law = Mobility { stays: Some(stays.parse().unwrap()), next, ..Mobility::default() };
            let (mut at_start, mut early, mut moves, mut on) = ([0; 3], 0, 0, [0; 3]);
            for seed in 0..4_000 {
                let visits = visits(&law, seed);
                at_start[visits[0].1] += 1;
                moves += visits.len() - 1;
                early += visits.iter().filter(|(at, _)| !at.is_zero() && at.as_secs() < 10).count();
                for pair in visits.windows(2) {
                    on[(pair[1].1 + 3 - pair[0].1) % 3] += 1;
                }
            }
            let expected =
                |count: usize, mean: f64| (count as f64 / 4_000.0 / mean - 1.0).abs() < 0.06;
            assert!(expected(moves, 6.0), "{stays}: {moves} moves");
            assert!(expected(early, 0.2), "{stays}: {early} moves in the first 10 s");
            assert!(at_start.iter().all(|count| (1_200..1_470).contains(count)), "{at_start:?}");
            match next {
                Order::Cycle => assert_eq!(on, [0, moves, 0], "{stays}"),
                Order::Random => {
                    let share = f64::from(on[1] as u32) / moves as f64;
                    assert!(on[0] == 0 && (share - 0.5).abs() < 0.02, "{stays}: {on:?}");
                }
            }
        }
    }

    /// All links but one are down, and all of them during a gap.
    #[test]
    fn outages_leave_one_link() {
        let seconds = Duration::from_secs;
        let to = |at, router: &str| Move(seconds(at), router.to_owned());
        let moves = vec![to(60, "r2"), to(100, "r3"), to(105, "r1"), to(200, "r1")];
        let law = Mobility { moves, gap: seconds(10), ..Mobility::default() };
        let topology = Topology::parse(STAR).expect("a topology");
        let movement = law.movement("h", &topology, RUN, &RandomStreams::new(1));
        let outages: Vec<_> = movement
            .outages("h", law.gap)
            .into_iter()
            .map(|it| {
                (it.link.unwrap()[1].clone(), it.from.as_secs(), it.until.map(|it| it.as_secs()))
            })
            .collect();
        let down = |router: &str, from, until| (router.to_owned(), from, until);
        // It leaves r3 before it has a link there.
        assert_eq!(
            outages,
            [
                down("r1", 60, Some(115)),
                down("r2", 0, Some(70)),
                down("r2", 100, None),
                down("r3", 0, None),
            ]
        );
    }
}
