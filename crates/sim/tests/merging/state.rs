//! State of a network, and its differences from the desired state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use earmark_core::admission::{Demand, Service};
use earmark_core::{InterfaceId, Rate};
use earmark_node::{NeighborRow, Node, QueueView};
use earmark_sim::NodeId;
use earmark_wire::intserv::FlowSpec;

use crate::model::{Facts, Hop, Pipe, Request, Sender};
use crate::play::{PORT, Play, now};

/// A reservation on a link, as in listings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    hop: Hop,
    session: usize,
    destination: IpAddr,
    /// Senders in ascending order; one `None` for every sender.
    senders: Vec<Option<IpAddr>>,
    service: &'static str,
    rate: Rate,
    burst: u32,
}

/// Returns the differences of a settled network from the model.
pub(crate) fn differences(play: &Play) -> Vec<String> {
    let wanted = wanted(play);
    let mut differences = unlike_senders(play);
    differences.extend(compare("rows", &wanted, &rows(play)));
    differences.extend(compare("traffic control", &wanted, &traffic_control(play)));
    differences.extend(books(play, &wanted));
    for (session, sender, told) in told(play) {
        let heard = play.told.get(&(sender, session));
        if told.as_ref() != heard {
            differences
                .push(format!("s{sender} of session {session} was told {heard:?}, not {told:?}"));
        }
    }
    differences
}

/// Returns the differences from the model, but permits larger reservations for the same senders.
pub(crate) fn differences_but_in_rate(play: &Play) -> Vec<String> {
    let (wanted, rows) = (wanted(play), rows(play));
    let mut differences = unlike_senders(play);
    let plain = |lines: &[Line]| -> Vec<Line> {
        let plain = |line: &Line| Line { rate: Rate::ZERO, burst: 0, ..line.clone() };
        lines.iter().map(plain).collect()
    };
    differences.extend(compare("rows but for rates", &plain(&wanted), &plain(&rows)));
    differences.extend(compare("traffic control and rows", &rows, &traffic_control(play)));
    differences.extend(books(play, &rows));
    let place = |line: &Line| (line.hop, line.session, line.senders.clone());
    for line in &wanted {
        let row = rows.iter().find(|row| place(row) == place(line));
        if row.is_some_and(|row| row.rate < line.rate) {
            differences.push(format!("{row:?} instead of {line:?}"));
        }
    }
    for (session, sender, told) in told(play) {
        let heard = play.told.get(&(sender, session));
        if told.is_some() != heard.is_some() {
            differences
                .push(format!("s{sender} of session {session} was told {heard:?}, not {told:?}"));
        }
    }
    differences
}

/// Returns all reservations of the model.
fn wanted(play: &Play) -> Vec<Line> {
    let mut wanted = Vec::new();
    for session in 0..play.sessions.len() {
        let facts = play.facts(session);
        for hop in facts.trees.values().flatten().copied().collect::<BTreeSet<Hop>>() {
            let pipes = facts.pipes(hop);
            wanted.extend(pipes.iter().map(|pipe| line(play, hop, session, pipe)));
        }
    }
    wanted
}

/// Returns the flowspecs that the senders should get according to the model, by session and sender.
fn told(play: &Play) -> Vec<(usize, Sender, Option<FlowSpec>)> {
    let mut told = Vec::new();
    for session in 0..play.sessions.len() {
        let facts = play.facts(session);
        for (&sender, tree) in &facts.trees {
            let from = play.routers + sender;
            let first = tree.iter().find(|(start, _)| *start == from).expect("it leaves");
            told.push((session, sender, pipe_of(&facts, *first, sender).map(|pipe| pipe.flowspec)));
        }
    }
    told
}

/// Returns the nodes whose senders or styles differ from the model.
fn unlike_senders(play: &Play) -> Vec<String> {
    let mut differences = wrong_styles(play);
    // Number of senders that each node should know.
    let mut senders: BTreeMap<usize, usize> = BTreeMap::new();
    for session in 0..play.sessions.len() {
        for (&sender, tree) in &play.facts(session).trees {
            *senders.entry(play.routers + sender).or_default() += 1;
            tree.iter().for_each(|(_, to)| *senders.entry(*to).or_default() += 1);
        }
    }
    for (number, &node) in play.nodes.iter().enumerate() {
        let (known, model) = (known_senders(play, node), senders.get(&number).copied());
        if known != model.unwrap_or(0) {
            let name = play.bench.network.name(node);
            differences.push(format!("{name} knows {known} senders, not {model:?}"));
        }
    }
    differences
}

/// Returns the links with more reserved than possible, and differences between traffic control and the ledger.
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

/// Returns the requests that stop on their way up at a link that has room for them.
pub(crate) fn refused_though_it_fits(play: &Play) -> Vec<String> {
    let mut wrong = overcommitted(play);
    let rows = rows(play);
    wrong.extend(compare("traffic control and rows", &rows, &traffic_control(play)));
    wrong.extend(books(play, &rows));
    for session in 0..play.sessions.len() {
        let facts = play.facts(session);
        // A blockaded request for senders that no other request includes is sent all the same (RFC 2209, RESV REFRESH,
        // step 3), with the requests of others in its shared pipe: only requests for the same senders are separated.
        let several = |request: &Request| match request {
            Request::Explicit(senders, _) => facts.requests.iter().any(
                |(_, other)| matches!(other, Request::Explicit(others, _) if others != senders),
            ),
            _ => false,
        };
        for (at, request) in facts.requests.iter().filter(|(_, request)| !several(request)) {
            let alone = Facts { requests: vec![(*at, request.clone())], ..facts.clone() };
            let lacking = facts
                .trees
                .iter()
                .map(|(&sender, tree)| lacking(play, session, &alone, sender, tree, *at, &rows));
            // A failure on the path to one sender is blockaded for all behind the same hop in shared styles, and for that
            // sender alone in the other.
            let ways: Vec<Vec<Lacking>> = match request {
                Request::Wildcard(_) | Request::Explicit(..) => vec![lacking.flatten().collect()],
                _ => lacking.collect(),
            };
            let stopped = ways.iter().filter(|way| way.iter().all(|lacking| lacking.fits));
            let stopped = stopped.filter_map(|way| way.first());
            wrong.extend(stopped.map(|first| format!("fits, but is not there: {:?}", first.asked)));
        }
    }
    wrong
}

/// A link on which a sender has less than a receiver requested.
struct Lacking {
    asked: Line,
    /// Whether there is room for all of it.
    fits: bool,
}

/// Returns, upwards from a receiver, the links that have less for a sender than requested. A link without room prevents
/// larger requests of those below it, because blockade state forwards the failed one.
fn lacking(
    play: &Play,
    session: usize,
    alone: &Facts,
    sender: Sender,
    tree: &BTreeSet<Hop>,
    receiver: usize,
    rows: &[Line],
) -> Vec<Lacking> {
    let (mut at, mut lacking) = (receiver, Vec::new());
    while let Some(&hop) = tree.iter().find(|(_, to)| *to == at) {
        let Some(pipe) = pipe_of(alone, hop, sender) else { break };
        let asked = line(play, hop, session, &pipe);
        let source = Some(play.senders[sender]);
        let row = rows.iter().find(|row| {
            let includes = row.senders.contains(&source) || row.senders == [None];
            (row.hop, row.session) == (hop, session) && includes
        });
        let has = row.map_or(0, |row| row.rate.as_bps());
        let needs = asked.rate.as_bps().saturating_sub(has);
        if row.is_none() || needs > 0 {
            lacking.push(Lacking { asked, fits: needs <= free(play, hop) });
        }
        at = hop.0;
    }
    lacking
}

/// Whether a neighbour has state; one without is remembered for its capabilities.
fn has_state(neighbor: &NeighborRow) -> bool {
    neighbor.senders + neighbor.reservations > 0
}

/// Returns the remaining state of a network without senders and receivers.
pub(crate) fn remains(play: &Play) -> Vec<String> {
    let mut left = compare("rows", &[], &rows(play));
    left.extend(compare("traffic control", &[], &traffic_control(play)));
    left.extend(books(play, &[]));
    for &id in &play.nodes {
        let (name, node) = (play.bench.network.name(id), play.bench.network.node(id));
        let node = node.expect("all live");
        let counts = [
            ("senders", known_senders(play, id)),
            ("reservations", node.reservation_rows(now(play), |_| QueueView::default()).count()),
            ("neighbours", node.neighbor_rows(now(play)).filter(has_state).count()),
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

fn line(play: &Play, hop: Hop, session: usize, pipe: &Pipe) -> Line {
    let demand = Demand::from_flowspec(&pipe.flowspec);
    let mut senders = match &pipe.senders {
        Some(senders) => senders.iter().map(|&sender| Some(play.senders[sender])).collect(),
        None => vec![None],
    };
    senders.sort_unstable();
    Line {
        hop,
        session,
        destination: play.session(session).destination,
        senders,
        service: service(demand.service),
        rate: demand.rate,
        burst: demand.burst,
    }
}

fn service(service: Service) -> &'static str {
    match service {
        Service::ControlledLoad => "controlled-load",
        Service::Guaranteed => "guaranteed",
    }
}

/// Returns the rows of the nodes' listings, except the requests of their own receivers.
fn rows(play: &Play) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, &node) in play.nodes.iter().enumerate() {
        let Some(node) = play.bench.network.node(node) else { continue };
        for row in node.reservation_rows(now(play), |_| QueueView::default()) {
            let Some(name) = row.interface else { continue };
            let interface = node.interfaces().by_name(&name).expect("it has the interface").id;
            let mut senders: Vec<_> = row.senders.iter().map(|name| Some(name.address)).collect();
            senders.sort_unstable();
            if senders.is_empty() {
                senders.push(None);
            }
            lines.push(Line {
                hop: (number, play.behind(number, interface).expect("a link")),
                session: usize::from(row.destination_port - PORT),
                destination: row.destination,
                senders,
                service: if row.service == "guaranteed" { "guaranteed" } else { "controlled-load" },
                rate: Rate::from_bps(row.rate_bps),
                burst: row.burst_octets,
            });
        }
    }
    lines
}

/// Returns the rows with another style than that of their session.
fn wrong_styles(play: &Play) -> Vec<String> {
    let mut wrong = Vec::new();
    for &node in &play.nodes {
        let Some(node) = play.bench.network.node(node) else { continue };
        for row in node.reservation_rows(now(play), |_| QueueView::default()) {
            let style = play.sessions[usize::from(row.destination_port - PORT)].style.name();
            if row.style != style {
                wrong.push(format!("{} shows {} for {style}", node.name(), row.style));
            }
        }
    }
    wrong
}

/// Returns the reservations in traffic control of the nodes.
fn traffic_control(play: &Play) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, &node) in play.nodes.iter().enumerate() {
        for (interface, reserved) in play.bench.network.traffic_control(node) {
            let Some(first) = reserved.flows.first() else { continue };
            let mut senders: Vec<_> = reserved.flows.iter().map(|flow| flow.source).collect();
            senders.sort_unstable();
            lines.push(Line {
                hop: (number, play.behind(number, interface).expect("a link")),
                session: usize::from(first.destination_port - PORT),
                destination: first.destination,
                senders,
                service: service(reserved.demand.service),
                rate: reserved.demand.rate,
                burst: reserved.demand.burst,
            });
        }
    }
    lines
}

/// Returns the differences of the ledgers from these reservations.
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

/// Returns the unreserved bandwidth of a link, bits per second.
fn free(play: &Play, hop: Hop) -> u64 {
    let node = play.bench.network.node(play.nodes[hop.0]).expect("all live");
    let towards = |index| play.behind(hop.0, InterfaceId(index)) == Some(hop.1);
    let mut links = node.link_rows();
    let link = links.find(|link| towards(link.index)).expect("the hop is a link");
    link.reservable_bps.as_bps().saturating_sub(link.held_bps.as_bps())
}

/// Returns the reservation of a link that a sender's packets use.
fn pipe_of(facts: &Facts, hop: Hop, sender: Sender) -> Option<Pipe> {
    let uses = |pipe: &Pipe| pipe.senders.as_ref().is_none_or(|senders| senders.contains(&sender));
    facts.pipes(hop).into_iter().find(uses)
}

fn known_senders(play: &Play, node: NodeId) -> usize {
    play.bench.network.node(node).map_or(0, |node| node.session_rows(now(play)).count())
}
