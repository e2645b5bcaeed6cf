//! What a network holds, and how that differs from what it should hold.

use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_core::Rate;
use earmark_core::admission::Demand;
use earmark_node::Node;
use earmark_sim::NodeId;
use earmark_wire::intserv::FlowSpec;

use crate::model::{Hop, Sender};
use crate::play::{Play, now};

/// A reservation on a link, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    hop: Hop,
    destination: IpAddr,
    source: Option<IpAddr>,
    service: &'static str,
    rate: Rate,
    burst: u32,
}

/// How a settled network differs from the model.
pub(crate) fn differences(play: &Play) -> Vec<String> {
    let mut wanted = Vec::new();
    let mut differences = Vec::new();
    // At each node, how many senders it should know.
    let mut senders: BTreeMap<usize, usize> = BTreeMap::new();
    for receiver in 0..play.receivers.len() {
        let facts = play.facts(receiver);
        let hops = || facts.trees.values().flatten().copied();
        for hop in hops().collect::<std::collections::BTreeSet<Hop>>() {
            for pipe in facts.pipes(hop) {
                for sender in pipe.senders.expect("fixed filters") {
                    wanted.push(line(play, hop, sender, receiver, &pipe.flowspec));
                }
            }
        }
        for (&sender, tree) in &facts.trees {
            let from = play.routers + sender;
            *senders.entry(from).or_default() += 1;
            tree.iter().for_each(|(_, to)| *senders.entry(*to).or_default() += 1);
            let first = tree.iter().find(|(start, _)| *start == from).expect("it leaves");
            let pipe = facts.pipes(*first).into_iter().find(|pipe| {
                pipe.senders.as_ref().is_some_and(|senders| senders.contains(&sender))
            });
            let (model, told) =
                (pipe.map(|pipe| pipe.flowspec), play.told.get(&(sender, receiver)));
            if model.as_ref() != told {
                differences
                    .push(format!("s{sender} to d{receiver} was told {told:?}, not {model:?}"));
            }
        }
    }
    differences.extend(compare("rows", &wanted, &rows(play)));
    differences.extend(compare("traffic control", &wanted, &traffic_control(play)));
    differences.extend(books(play, &wanted));
    for (number, &node) in play.nodes.iter().enumerate() {
        let (known, model) = (known_senders(play, node), senders.get(&number).copied());
        if known != model.unwrap_or(0) {
            let name = play.bench.network.name(node);
            differences.push(format!("{name} knows {known} senders, not {model:?}"));
        }
    }
    differences
}

/// Where more is held than there is, or traffic control holds something else than the ledger.
pub(crate) fn overcommitted(play: &Play) -> Vec<String> {
    let mut wrong = Vec::new();
    for &node in &play.nodes {
        let name = play.bench.network.name(node);
        let rows = play.bench.network.node(node).into_iter().flat_map(Node::link_rows);
        for link in rows {
            if link.held_bps > link.reservable_bps {
                wrong.push(format!("{name} {}: holds {}", link.interface, link.held_bps.as_bps()));
            }
        }
    }
    wrong
}

/// The requests that stop on their way up at a link that has room for them.
pub(crate) fn refused_though_it_fits(play: &Play) -> Vec<String> {
    let mut wrong = overcommitted(play);
    let rows = rows(play);
    wrong.extend(compare("traffic control and rows", &rows, &traffic_control(play)));
    wrong.extend(books(play, &rows));
    for receiver in 0..play.receivers.len() {
        let facts = play.facts(receiver);
        for (&sender, tree) in &facts.trees {
            let mut at = play.routers + play.senders.len() + receiver;
            // Upwards from the receiver, to the first link that does not have what was asked for.
            while let Some(&hop) = tree.iter().find(|(_, to)| *to == at) {
                let Some(pipe) = facts.pipes(hop).into_iter().find(|pipe| {
                    pipe.senders.as_ref().is_some_and(|senders| senders.contains(&sender))
                }) else {
                    break;
                };
                let asked = line(play, hop, sender, receiver, &pipe.flowspec);
                if rows.contains(&asked) {
                    at = hop.0;
                    continue;
                }
                let same = |row: &&Line| {
                    row.hop == hop
                        && (row.destination, row.source) == (asked.destination, asked.source)
                };
                let has = rows.iter().find(same).map_or(Rate::ZERO, |row| row.rate);
                let needs = asked.rate.as_bps().saturating_sub(has.as_bps());
                if needs <= free(play, hop) {
                    wrong.push(format!("fits, but is not there: {asked:?}"));
                }
                break;
            }
        }
    }
    wrong
}

/// What is left in a network that everybody has left.
pub(crate) fn remains(play: &Play) -> Vec<String> {
    let mut left = compare("rows", &[], &rows(play));
    left.extend(compare("traffic control", &[], &traffic_control(play)));
    left.extend(books(play, &[]));
    for &id in &play.nodes {
        let (name, node) = (play.bench.network.name(id), play.bench.network.node(id));
        let node = node.expect("all live");
        let counts = [
            ("senders", known_senders(play, id)),
            ("reservations", node.reservation_rows(now(play), |_| None).count()),
            ("neighbours", node.neighbor_rows(now(play)).count()),
            ("timers", node.next_deadline().iter().count()),
        ];
        let some = counts.iter().filter(|(_, count)| *count > 0);
        left.extend(some.map(|(what, count)| format!("{name} has {count} {what} left")));
    }
    left
}

fn compare(what: &str, wanted: &[Line], found: &[Line]) -> Vec<String> {
    let count = |lines: &[Line], line: &Line| lines.iter().filter(|other| *other == line).count();
    let mut all: Vec<&Line> = wanted.iter().chain(found).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
        .filter_map(|line| {
            let (wanted, found) = (count(wanted, line), count(found, line));
            (wanted != found).then(|| format!("{what}: {found} instead of {wanted} of {line:?}"))
        })
        .collect()
}

fn line(play: &Play, hop: Hop, sender: Sender, receiver: usize, flowspec: &FlowSpec) -> Line {
    let demand = Demand::from_flowspec(flowspec);
    Line {
        hop,
        destination: play.receivers[receiver],
        source: Some(play.senders[sender]),
        service: match flowspec {
            FlowSpec::ControlledLoad(_) => "controlled-load",
            FlowSpec::Guaranteed(..) => "guaranteed",
        },
        rate: demand.rate,
        burst: demand.burst,
    }
}

/// What the nodes show, but for the requests of their own receivers.
fn rows(play: &Play) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, &node) in play.nodes.iter().enumerate() {
        let Some(node) = play.bench.network.node(node) else { continue };
        for row in node.reservation_rows(now(play), |_| None) {
            let Some(name) = row.interface else { continue };
            let interface = node.interfaces().by_name(&name).expect("it has the interface").id;
            lines.push(Line {
                hop: (number, play.behind(number, interface).expect("a link")),
                destination: row.destination,
                source: row.senders.first().map(|sender| sender.address),
                service: match &*row.service {
                    "guaranteed" => "guaranteed",
                    _ => "controlled-load",
                },
                rate: Rate::from_bps(row.rate_bps),
                burst: row.burst_octets,
            });
        }
    }
    lines
}

/// What traffic control of the nodes has.
fn traffic_control(play: &Play) -> Vec<Line> {
    use earmark_core::admission::Service;
    let mut lines = Vec::new();
    for (number, &node) in play.nodes.iter().enumerate() {
        for (interface, reserved) in play.bench.network.traffic_control(node) {
            for flow in &reserved.flows {
                lines.push(Line {
                    hop: (number, play.behind(number, interface).expect("a link")),
                    destination: flow.destination,
                    source: flow.source,
                    service: match reserved.demand.service {
                        Service::ControlledLoad => "controlled-load",
                        Service::Guaranteed => "guaranteed",
                    },
                    rate: reserved.demand.rate,
                    burst: reserved.demand.burst,
                });
            }
        }
    }
    lines
}

/// Where the ledgers hold something else than these reservations.
fn books(play: &Play, reservations: &[Line]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, &id) in play.nodes.iter().enumerate() {
        let Some(node) = play.bench.network.node(id) else { continue };
        for link in node.link_rows() {
            let interface = node.interfaces().by_name(&link.interface).expect("its own").id;
            let hop = (number, play.behind(number, interface).expect("a link"));
            let mine: Vec<&Line> = reservations.iter().filter(|line| line.hop == hop).collect();
            let held: Rate = mine.iter().map(|line| line.rate).sum();
            if (link.held_bps, link.claims as usize, link.adopted) != (held, mine.len(), 0) {
                wrong.push(format!(
                    "{} {}: the ledger holds {} bit/s of {} claims and {} adopted flows, not {held:?} of {}",
                    play.bench.network.name(id),
                    link.interface,
                    link.held_bps.as_bps(),
                    link.claims,
                    link.adopted,
                    mine.len(),
                ));
            }
        }
    }
    wrong
}

/// What is not held of a link, bits per second.
fn free(play: &Play, hop: Hop) -> u64 {
    let node = play.bench.network.node(play.nodes[hop.0]).expect("all live");
    let towards = |index| play.behind(hop.0, earmark_core::InterfaceId(index)) == Some(hop.1);
    let mut links = node.link_rows();
    let link = links.find(|link| towards(link.index)).expect("the hop is a link");
    link.reservable_bps.as_bps().saturating_sub(link.held_bps.as_bps())
}

fn known_senders(play: &Play, node: NodeId) -> usize {
    play.bench.network.node(node).map_or(0, |node| node.session_rows(now(play)).count())
}
