//! Networks of the comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::{Context, Result};
use earmark_core::random::RandomStreams;
use earmark_scenario::topology::{Role, Topology};
use earmark_scenario::{Scenario, network_of};

const ABILENE: &str = include_str!("../../../../../topologies/abilene.graphml");

earmark_core::named_enum! {
    /// A network.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Network {
        /// Five routers in a row, with four hosts each.
        Chain = "chain",
        /// The eleven routers of Abilene, with ten hosts each.
        Abilene = "abilene",
        /// A random network of 100 routers after Waxman, with four hosts each.
        Waxman100 = "waxman-100",
        /// A random network of 2 000 routers after Waxman, with two hosts each.
        Waxman2000 = "waxman-2000",
    }
}

/// Bandwidth of every link, bits per second; of links to hosts, ten times that.
pub(super) const BANDWIDTH_BPS: f64 = 10e9;
/// Reservable share of a link: the default of networks that are made, and of files.
pub(super) const RESERVABLE: f64 = 0.75;

/// The link between routers that most flows cross, if any two hosts are equally likely to have one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BusiestLink {
    /// Names of its nodes, in the direction of the flows.
    pub(super) ends: [String; 2],
    /// Share of the flows that cross it, 0 to 1.
    pub(super) share: f64,
    /// The link between routers that most flows cross among those without which the network still holds together.
    pub(super) spare: Option<[String; 2]>,
}

impl Network {
    /// Returns the `topology` key of a scenario. Files are beside the scenario.
    pub(super) fn topology(self) -> &'static str {
        match self {
            Network::Chain => "\"chain.toml\"",
            Network::Abilene => {
                "{ file = \"abilene.graphml\", hosts = 110, bandwidth = \"10Gbit\" }"
            }
            Network::Waxman100 => {
                "{ waxman = { routers = 100, alpha = 0.3, beta = 0.2, seed = 7 }, hosts = 400, bandwidth = \"10Gbit\" }"
            }
            Network::Waxman2000 => {
                "{ waxman = { routers = 2000, alpha = 0.1, beta = 0.05, seed = 7 }, hosts = 4000, bandwidth = \"10Gbit\" }"
            }
        }
    }

    /// Returns the name and the text of the file that the topology refers to.
    pub(super) fn file(self) -> Option<(&'static str, String)> {
        match self {
            Network::Chain => Some(("chain.toml", chain())),
            Network::Abilene => Some(("abilene.graphml", ABILENE.to_owned())),
            Network::Waxman100 | Network::Waxman2000 => None,
        }
    }

    /// Reads the file.
    pub(super) fn read(self, name: &str) -> io::Result<String> {
        let file = self.file().filter(|(known, _)| *known == name);
        file.map(|(_, text)| text).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the busiest link, by flows between hosts drawn at random.
    pub(super) fn busiest_link(self) -> Result<BusiestLink> {
        /// Number of drawn flows; the share is exact within 1 %.
        const DRAWN: u32 = 10_000;
        let text = format!(
            "name = \"paths\"\ntopology = {}\nprotocol = \"rsvp\"\nduration = \"1s\"\n",
            self.topology()
        );
        let scenario = Scenario::parse(&text)?;
        let topology = scenario.topology.build(|name| self.read(name))?;
        let (network, nodes) = network_of(&scenario, &topology, 1, |_| {})?;
        let hosts: Vec<usize> = (0..topology.nodes.len())
            .filter(|node| topology.nodes[*node].role == Role::Host)
            .collect();
        let mut dice = RandomStreams::new(1).stream("pairs");
        let mut draw =
            || hosts[((u128::from(dice.next_u64()) * hosts.len() as u128) >> 64) as usize];
        let mut crossed: BTreeMap<[String; 2], u32> = BTreeMap::new();
        let mut drawn = 0;
        while drawn < DRAWN {
            let (from, to) = (draw(), draw());
            if from == to {
                continue;
            }
            drawn += 1;
            let destination = topology.address(to).context("a host has an address")?;
            let path = network.path(nodes[from], destination.into()).context("all are joined")?;
            for hops in path.windows(2).skip(1) {
                let ends = [hops[0].0, hops[1].0].map(|node| network.name(node).to_owned());
                *crossed.entry(ends).or_default() += 1;
            }
        }
        let mut by_flows: Vec<([String; 2], u32)> = crossed.into_iter().collect();
        by_flows.sort_by_key(|(_, flows)| std::cmp::Reverse(*flows));
        let mut spare = by_flows.iter().map(|(ends, _)| ends);
        let spare = spare.find(|ends| holds_without(&topology, ends)).cloned();
        let (ends, flows) = by_flows.into_iter().next().context("flows cross links")?;
        Ok(BusiestLink { ends, share: f64::from(flows) / f64::from(DRAWN), spare })
    }
}

/// Returns whether all nodes still reach each other without the links between two nodes.
fn holds_without(topology: &Topology, ends: &[String; 2]) -> bool {
    let [one, other] = ends.each_ref().map(|name| topology.node(name));
    let cut = [one, other];
    let mut reached = BTreeSet::from([0]);
    let mut next = vec![0];
    while let Some(node) = next.pop() {
        for (_, link) in topology.interfaces(node) {
            let [a, b] = [link.ends[0].node, link.ends[1].node];
            if cut == [Some(a), Some(b)] || cut == [Some(b), Some(a)] {
                continue;
            }
            next.extend([a, b].into_iter().filter(|node| reached.insert(*node)));
        }
    }
    reached.len() == topology.nodes.len()
}

/// Returns the text of the row of routers.
fn chain() -> String {
    let routers = 1..=5;
    let mut nodes = Vec::new();
    let mut links = Vec::new();
    for router in routers {
        nodes.push(format!("{{ name = \"r{router}\", role = \"router\" }}"));
        if router > 1 {
            links.push(format!(
                "{{ ends = [\"r{}\", \"r{router}\"], bandwidth = \"10Gbit\", delay = \"5ms\" }}",
                router - 1
            ));
        }
        for host in 1..=4 {
            nodes.push(format!("{{ name = \"h{router}-{host}\" }}"));
            links.push(format!(
                "{{ ends = [\"h{router}-{host}\", \"r{router}\"], bandwidth = \"100Gbit\", delay = \"1ms\" }}"
            ));
        }
    }
    format!("node = [{}]\nlink = [{}]\n", nodes.join(", "), links.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 20 hosts in groups of four, 8 are on one side of the middle link and 12 on the other: 2 · 8 · 12 of 20 · 19 pairs cross
    /// it, half of them in each direction.
    #[test]
    fn busiest_link_of_the_chain_is_in_the_middle() {
        let busiest = Network::Chain.busiest_link().unwrap();
        let expected = 8.0 * 12.0 / (20.0 * 19.0);
        assert!((busiest.share - expected).abs() < 0.015, "{busiest:?}");
        let inner = ["r2", "r3", "r4"];
        assert!(busiest.ends.iter().all(|end| inner.contains(&end.as_str())), "{busiest:?}");
        assert_eq!(busiest.spare, None, "every link of a row is needed");
    }

    #[test]
    fn links_of_abilene_can_fail() {
        let busiest = Network::Abilene.busiest_link().unwrap();
        assert_eq!(busiest.spare, Some(busiest.ends.clone()));
        assert!((0.05..0.5).contains(&busiest.share), "{busiest:?}");
    }
}
