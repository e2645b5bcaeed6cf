//! Schedulers of the links of a scenario.
//!
//! ```toml
//! scheduler = "wfq"                                            # of every link
//! scheduler = [{ link = ["r1", "r2"], discipline = "fifo" }]   # of some; the others have strict priority
//! ```

use earmark_core::InterfaceId;
use earmark_sim::{Fifo, Network, NodeId, StrictPriority, WeightedFairQueueing};
use serde::Deserialize;

use crate::data::Data;
use crate::error::ScenarioError;
use crate::faults::links_between;
use crate::topology::Topology;

/// Schedulers of the links; those that are not named have strict priority.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`priority`, `wfq`, `fifo`, or a list of { link, discipline }")]
pub enum Schedulers {
    /// One for every link.
    All(Discipline),
    /// Schedulers of some links; of several for one link the last counts.
    Links(Vec<LinkScheduler>),
}

/// The scheduler of the links between two nodes, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkScheduler {
    /// End nodes of the links.
    pub link: [String; 2],
    /// The scheduler.
    pub discipline: Discipline,
}

/// A scheduling discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discipline {
    /// Reserved classes first, as in the traffic control of a real node.
    #[default]
    Priority,
    /// Weighted fair queueing.
    Wfq,
    /// One queue; reservations have no effect on the data.
    Fifo,
}

impl Default for Schedulers {
    fn default() -> Schedulers {
        Schedulers::All(Discipline::Priority)
    }
}

impl Schedulers {
    /// Checks that the links exist, and that the data can be simulated.
    pub(crate) fn check(&self, topology: &Topology, data: Data) -> Result<(), ScenarioError> {
        let wrong = |why| Err(ScenarioError::Value { key: "scheduler".to_owned(), why });
        let disciplines: Vec<Discipline> = match self {
            Schedulers::All(discipline) => vec![*discipline],
            Schedulers::Links(rules) => rules.iter().map(|rule| rule.discipline).collect(),
        };
        if data == Data::Fluid && disciplines.contains(&Discipline::Wfq) {
            return wrong("wfq cannot be simulated with data = \"fluid\"; use \"packets\"");
        }
        if let Schedulers::Links(rules) = self
            && let Some(rule) = rules.iter().find(|rule| rule.links(topology).is_empty())
        {
            return Err(ScenarioError::NoSuchLink(rule.link.clone()));
        }
        Ok(())
    }

    /// Sets the schedulers in a network; `links` has an end of each link of the topology.
    pub(crate) fn apply(
        &self,
        topology: &Topology,
        links: &[(NodeId, InterfaceId)],
        network: &mut Network,
    ) {
        match self {
            // Every link has it from the beginning.
            Schedulers::All(Discipline::Priority) => {}
            Schedulers::All(discipline) => {
                links.iter().for_each(|end| discipline.apply(*end, network));
            }
            Schedulers::Links(rules) => {
                for rule in rules {
                    for link in rule.links(topology) {
                        rule.discipline.apply(links[link], network);
                    }
                }
            }
        }
    }
}

impl LinkScheduler {
    /// Returns the indices of the links.
    fn links(&self, topology: &Topology) -> Vec<usize> {
        let [one, other] = self.link.each_ref().map(|name| topology.node(name));
        let ends = one.zip(other);
        ends.map_or(Vec::new(), |(one, other)| links_between(topology, one, other).collect())
    }
}

impl Discipline {
    fn apply(self, (node, interface): (NodeId, InterfaceId), network: &mut Network) {
        match self {
            Discipline::Priority => network.set_scheduler::<StrictPriority>(node, interface),
            Discipline::Wfq => network.set_scheduler::<WeightedFairQueueing>(node, interface),
            Discipline::Fifo => network.set_scheduler::<Fifo>(node, interface),
        }
    }
}
