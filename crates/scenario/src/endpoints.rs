//! Endpoints of flows: named pairs in turn, or random hosts.

use earmark_core::random::Stream;
use earmark_sim::distributions;
use serde::de::value::SeqAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use crate::topology::{Role, Topology};

/// Endpoints of flows in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Between {
    /// `[["a", "b"], ...]`: source and destination nodes; the first flow takes the first pair, and so on.
    Pairs(Vec<[String; 2]>),
    /// `"random"`: each flow is between two different hosts, any with the same probability.
    Random,
}

impl Between {
    /// Returns the node names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let pairs = match self {
            Between::Pairs(pairs) => &pairs[..],
            Between::Random => &[],
        };
        pairs.iter().flatten()
    }

    /// Returns whether there are pairs of nodes to send between, if the named ones are in the topology.
    pub(crate) fn has_pairs(&self, topology: &Topology) -> bool {
        match self {
            Between::Pairs(pairs) => !pairs.is_empty() && pairs.iter().all(|[a, b]| a != b),
            Between::Random => hosts(topology).nth(1).is_some(),
        }
    }

    /// Returns the endpoints in a topology. Unknown names are ignored.
    pub(crate) fn ends(&self, topology: &Topology) -> Ends {
        let pair = |[from, to]: &[String; 2]| Some([topology.node(from)?, topology.node(to)?]);
        match self {
            Between::Pairs(pairs) => Ends::Pairs(pairs.iter().filter_map(pair).collect()),
            Between::Random => Ends::Random(hosts(topology).collect()),
        }
    }
}

fn hosts(topology: &Topology) -> impl Iterator<Item = usize> {
    let nodes = topology.nodes.iter().enumerate();
    nodes.filter(|(_, node)| node.role == Role::Host).map(|(place, _)| place)
}

/// Endpoints by node index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Pairs(Vec<[usize; 2]>),
    Random(Vec<usize>),
}

impl Ends {
    /// Returns the endpoints of a flow: by its number if pairs are taken in turn, otherwise random. The random stream
    /// is for this purpose alone, so that other random values of the flow do not depend on it.
    pub(crate) fn of(&self, number: usize, dice: &mut Stream) -> Option<[usize; 2]> {
        match self {
            Ends::Pairs(pairs) => pairs.get(number.checked_rem(pairs.len())?).copied(),
            Ends::Random(hosts) => {
                let others = hosts.len().checked_sub(1).filter(|others| *others > 0)?;
                let from = distributions::below(dice, hosts.len() as u64) as usize;
                let to = distributions::below(dice, others as u64) as usize;
                // Numbers from `from` on stand for the next node, so that it is never chosen.
                let to = if to >= from { to + 1 } else { to };
                Some([hosts[from], hosts[to]])
            }
        }
    }
}

impl<'de> Deserialize<'de> for Between {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Between, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Between;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("pairs of nodes such as [[\"a\", \"b\"]], or \"random\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Between, E> {
                match text {
                    "random" => Ok(Between::Random),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, pairs: A) -> Result<Between, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(pairs)).map(Between::Pairs)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    #[test]
    fn random_endpoints_differ_and_cover_all_hosts() {
        let ends = Ends::Random(vec![3, 5, 8]);
        let mut dice = RandomStreams::new(1).stream("ends");
        let mut met = std::collections::BTreeMap::new();
        for number in 0..6_000 {
            let pair = ends.of(number, &mut dice).expect("there are hosts");
            *met.entry(pair).or_insert(0) += 1;
        }
        // 1000 expected of each of the six, standard deviation 29.
        assert_eq!(met.len(), 6);
        assert!(met.iter().all(|([a, b], n)| a != b && (860..1_140).contains(n)), "{met:?}");
        assert_eq!(Ends::Random(vec![3]).of(0, &mut dice), None);
    }

    #[test]
    fn pairs_are_taken_in_turn_without_random_numbers() {
        let ends = Ends::Pairs(vec![[0, 1], [2, 3]]);
        let mut dice = RandomStreams::new(1).stream("ends");
        let drawn: Vec<_> = (0..3).map(|number| ends.of(number, &mut dice)).collect();
        assert_eq!(drawn, [Some([0, 1]), Some([2, 3]), Some([0, 1])]);
        assert_eq!(dice, RandomStreams::new(1).stream("ends"));
        assert_eq!(Ends::Pairs(Vec::new()).of(0, &mut dice), None);
    }
}
