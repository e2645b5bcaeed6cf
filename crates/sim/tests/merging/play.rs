//! Execution of a scenario in a simulated network: its hosts and applications, and its faults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use earmark_core::{InterfaceId, Rate, Routes, Time};
use earmark_node::{Command, Event};
use earmark_rsvp::{self as rsvp, Application, Rejection, ReserveRequest};
use earmark_sim::{Faults, LogEvent, NodeId};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::{ErrorCode, FilterSpec, Session, SourceSelector, Style};

use crate::common::{Bench, Family};
use crate::model::{Facts, Hop, Request};
use crate::scenario::{Destination, Plan, Scenario, Step};

/// Refresh period of all nodes.
const REFRESH: Duration = Duration::from_secs(2);
/// Interval at which applications read their events.
const SLICE: Duration = Duration::from_millis(20);
/// Time for everything to settle after the last fault. State without refresh expires after 10.5 s; a dead daemon's
/// reservations are removed after 12 s; lost messages are repeated within 3 s at each of nine nodes at most.
const SETTLING: Duration = Duration::from_secs(30);
/// Grace period for a dead daemon's reservations.
const GRACE: Duration = Duration::from_secs(12);
/// Data port of the first session, and of all senders.
pub(crate) const PORT: u16 = 5_000;

/// Trees of packets to groups whose sessions use a shared style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trees {
    /// One tree for all senders, so that the model has one solution.
    Shared,
    /// Shortest paths from each sender.
    Own,
}

/// A running scenario.
pub(crate) struct Play {
    pub(crate) bench: Bench,
    /// Routers, senders' hosts, receivers' hosts.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) routers: usize,
    pub(crate) senders: Vec<IpAddr>,
    pub(crate) receivers: Vec<IpAddr>,
    pub(crate) sessions: Vec<Plan>,
    family: Family,
    /// Whether all requests are totally ordered.
    ordered: bool,
    /// Number of links between routers, which come first.
    router_links: usize,
    dead: BTreeSet<usize>,
    /// Active senders, by sender and session.
    sending: BTreeSet<(usize, usize)>,
    /// Active receivers, by receiver and session.
    asking: BTreeMap<(usize, usize), Asking>,
    /// The last flowspec that each sender received for its packets to a session.
    pub(crate) told: BTreeMap<(usize, usize), FlowSpec>,
    /// Errors that receivers got for requests refused for lack of resources.
    pub(crate) refusals: Vec<String>,
}

/// Senders that a receiver requests, and those that it knows.
#[derive(Clone, Debug, Default)]
struct Asking {
    wanted: BTreeSet<usize>,
    amount: u8,
    known: BTreeSet<usize>,
}

impl Play {
    /// Creates the network of a scenario whose links between routers have this bandwidth. If that is not enough for
    /// all, requests should be `ordered`: of any two requests one is the larger in all respects.
    pub(crate) fn new(scenario: &Scenario, bandwidth: Rate, ordered: bool, trees: Trees) -> Play {
        let timing = rsvp::Timing { refresh: REFRESH, lifetime_factor: 3, ..Default::default() };
        // Neighbours are then also those beyond a router whose daemon is dead.
        let distant_neighbors = (0..40).map(|link| format!("link{link}")).collect();
        let config = rsvp::Config { timing, distant_neighbors, ..rsvp::Config::default() };
        let mut bench = Bench::new(scenario.seed, scenario.family, config);
        let routers: Vec<NodeId> =
            (0..scenario.routers()).map(|n| bench.router(&format!("r{n}"))).collect();
        for (n, &parent) in scenario.parents.iter().enumerate() {
            bench.connect(routers[n + 1], routers[parent], bandwidth);
        }
        for &(a, b) in &scenario.shortcuts {
            bench.connect(routers[a], routers[b], bandwidth);
        }
        let router_links = bench.links.len();
        let mut nodes = routers.clone();
        let mut hosts = |kind: &str, behind: &[usize]| -> Vec<IpAddr> {
            let host = |(n, &at): (usize, &usize)| {
                let name = format!("{kind}{n}");
                let (node, link) = bench.host(&name, routers[at], Rate::from_mbps(1_000));
                nodes.push(node);
                bench.links[link].addresses[0]
            };
            behind.iter().enumerate().map(host).collect()
        };
        let senders = hosts("s", &scenario.senders);
        let receivers = hosts("d", &scenario.receivers);
        bench.route();
        let mut play = Play {
            bench,
            nodes,
            routers: routers.len(),
            senders,
            receivers,
            sessions: scenario.sessions.clone(),
            family: scenario.family,
            ordered,
            router_links,
            dead: BTreeSet::new(),
            sending: BTreeSet::new(),
            asking: BTreeMap::new(),
            told: BTreeMap::new(),
            refusals: Vec::new(),
        };
        for (number, plan) in scenario.sessions.iter().enumerate() {
            let alike = trees == Trees::Shared && plan.style != Style::FixedFilter;
            if alike && plan.destination == Destination::Group {
                let group = group(scenario.family, number);
                play.bench.network.share_tree(group, play.nodes[0]);
            }
        }
        let share = |percent: u8| f64::from(percent) / 100.0;
        play.set_faults(Faults {
            loss: share(scenario.faults.loss),
            duplication: share(scenario.faults.duplication),
            corruption: share(scenario.faults.corruption),
            jitter: Duration::from_millis(scenario.faults.jitter.into()),
        });
        play
    }

    /// Lets time pass; receivers respond to the senders that become known.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.bench.network.now() + time;
        while self.bench.network.now() < end {
            let next = (self.bench.network.now() + SLICE).min(end);
            self.bench.network.run_until(next);
            self.react();
        }
    }

    /// Stops all faults, and waits until everything has settled.
    pub(crate) fn settle(&mut self) {
        self.set_faults(Faults::default());
        (0..self.router_links).for_each(|link| self.set_link_up(link, true));
        (0..self.routers).for_each(|router| self.start(router));
        self.pass(SETTLING);
    }

    /// Makes all senders and receivers leave.
    pub(crate) fn end(&mut self) {
        for (sender, session) in self.sending.clone() {
            self.stop(sender, session);
        }
        for (receiver, session) in self.asking.keys().copied().collect::<Vec<_>>() {
            self.leave(receiver, session);
        }
    }

    pub(crate) fn act(&mut self, step: Step) {
        let (senders, sessions) = (self.senders.len(), self.sessions.len());
        let (routers, links) = (self.routers, self.router_links);
        match step {
            Step::Send { sender, session, amount } => {
                self.send(sender % senders, session % sessions, amount);
            }
            Step::Stop { sender, session } => self.stop(sender % senders, session % sessions),
            Step::Ask { receiver, session, wanted, amount } => {
                let wanted = (0..senders).filter(|sender| wanted & (1 << sender) != 0).collect();
                let session = session % sessions;
                self.ask(self.receiver_of(session, receiver), session, wanted, amount);
            }
            Step::Leave { receiver, session } => {
                let session = session % sessions;
                self.leave(self.receiver_of(session, receiver), session);
            }
            Step::Kill { router } => {
                if self.dead.insert(router % routers) {
                    self.bench.network.kill(self.nodes[router % routers]);
                }
            }
            Step::Start { router } => self.start(router % routers),
            Step::Fail { link } if links > 0 => self.set_link_up(link % links, false),
            Step::Mend { link } if links > 0 => self.set_link_up(link % links, true),
            Step::Fail { .. } | Step::Mend { .. } => {}
        }
        self.react();
    }

    /// Returns the model's input about a session.
    pub(crate) fn facts(&self, session: usize) -> Facts {
        let senders = self.sending.iter().filter(|(_, to)| *to == session);
        let trees = senders.map(|&(sender, _)| (sender, self.tree(sender, session)));
        let trees: BTreeMap<usize, BTreeSet<Hop>> = trees.collect();
        let asking = self.asking.iter().filter(|((_, to), _)| *to == session);
        let requests = asking.map(|(&(receiver, _), asking)| {
            let flowspec = self.flowspec(receiver, session, asking.amount);
            let request = match self.sessions[session].style {
                Style::FixedFilter => {
                    let wanted = asking.wanted.iter();
                    Request::Distinct(wanted.map(|&sender| (sender, flowspec)).collect())
                }
                Style::SharedExplicit => Request::Explicit(asking.wanted.clone(), flowspec),
                Style::Wildcard => Request::Wildcard(flowspec),
            };
            (self.receiving_node(receiver), request)
        });
        Facts { requests: requests.collect(), trees }
    }

    /// Returns the number of the node behind an interface.
    pub(crate) fn behind(&self, node: usize, interface: InterfaceId) -> Option<usize> {
        let end = (self.nodes[node], interface);
        let mut links = self.bench.links.iter();
        let (peer, _) = links.find_map(|link| match link.ends {
            [near, far] if near == end => Some(far),
            [far, near] if near == end => Some(far),
            _ => None,
        })?;
        self.nodes.iter().position(|&node| node == peer)
    }

    /// Returns the links that a sender's packets to a session cross, by the routes of the nodes.
    fn tree(&self, sender: usize, session: usize) -> BTreeSet<Hop> {
        let destination = self.session(session).destination;
        let (mut tree, mut ends) = (BTreeSet::new(), vec![self.routers + sender]);
        while let Some(at) = ends.pop() {
            let node = self.bench.network.node(self.nodes[at]).expect("all live");
            let at_sender = at == self.routers + sender;
            let outgoing: Vec<InterfaceId> = if node.interfaces().is_local(destination) {
                Vec::new()
            } else if at_sender || !destination.is_multicast() {
                vec![node.routes().lookup(destination).expect("routes lead everywhere").interface]
            } else {
                let branches = node.routes().multicast(self.senders[sender], destination);
                branches.map_or(Vec::new(), |branches| branches.outgoing.to_vec())
            };
            for interface in outgoing {
                let next = self.behind(at, interface).expect("an interface has a link");
                assert!(tree.insert((at, next)), "routes lead round in a circle");
                ends.push(next);
            }
        }
        tree
    }

    fn send(&mut self, sender: usize, session: usize, amount: u8) {
        let (application, node) = (application(session), self.routers + sender);
        if self.sending.insert((sender, session)) {
            let session = self.session(session);
            self.command(node, rsvp::Command::Session { application, session });
        }
        // Always more than any request.
        let tspec = TokenBucket {
            rate: 1e6 * f32::from(amount),
            depth: 1e5,
            max_packet_size: 1_000,
            ..bucket(1)
        };
        let template = self.template(sender);
        self.command(node, rsvp::Command::Sender { application, template, tspec, ttl: 64 });
    }

    fn stop(&mut self, sender: usize, session: usize) {
        if self.sending.remove(&(sender, session)) {
            let application = application(session);
            self.command(self.routers + sender, rsvp::Command::Release { application });
            self.react();
            self.told.remove(&(sender, session));
        }
    }

    fn ask(&mut self, receiver: usize, session: usize, wanted: BTreeSet<usize>, amount: u8) {
        let style = self.sessions[session].style;
        let gives_up = self.asking.get(&(receiver, session)).is_some_and(|before| match style {
            // An application releases its fixed filters only all together.
            Style::FixedFilter => !wanted.is_superset(&before.wanted),
            Style::SharedExplicit => wanted.is_disjoint(&before.known),
            Style::Wildcard => false,
        });
        if gives_up {
            self.leave(receiver, session);
        }
        let opens = !self.asking.contains_key(&(receiver, session));
        let asking = self.asking.entry((receiver, session)).or_default();
        (asking.wanted, asking.amount) = (wanted, amount);
        let known = asking.known.clone();
        if opens {
            let (node, key) = (self.receiving_node(receiver), self.session(session));
            if key.destination.is_multicast() {
                self.bench.network.join(self.nodes[node], key.destination);
            }
            let application = application(session);
            self.command(node, rsvp::Command::Session { application, session: key });
        }
        known.into_iter().for_each(|sender| self.reserve(receiver, session, sender));
    }

    fn leave(&mut self, receiver: usize, session: usize) {
        if self.asking.remove(&(receiver, session)).is_some() {
            let (node, application) = (self.receiving_node(receiver), application(session));
            self.command(node, rsvp::Command::Release { application });
            let destination = self.session(session).destination;
            if destination.is_multicast() {
                self.bench.network.leave(self.nodes[node], destination);
            }
            // Earlier events do not concern the next application.
            self.react();
        }
    }

    /// Makes a receiver request what it wants after news of a sender.
    fn reserve(&mut self, receiver: usize, session: usize, sender: usize) {
        let asking = &self.asking[&(receiver, session)];
        let flowspec = self.flowspec(receiver, session, asking.amount);
        let request = match self.sessions[session].style {
            Style::Wildcard if !asking.known.is_empty() => ReserveRequest::Wildcard { flowspec },
            Style::FixedFilter if asking.wanted.contains(&sender) => {
                ReserveRequest::FixedFilter { filter: self.template(sender), flowspec }
            }
            Style::SharedExplicit if !asking.wanted.is_disjoint(&asking.known) => {
                let heard = asking.wanted.intersection(&asking.known);
                let filters = heard.map(|&sender| self.template(sender)).collect();
                ReserveRequest::SharedExplicit { filters, flowspec }
            }
            _ => return,
        };
        let application = application(session);
        let reserve = rsvp::Command::Reserve { application, request, confirm: false };
        self.command(self.receiving_node(receiver), reserve);
    }

    fn start(&mut self, router: usize) {
        if self.dead.remove(&router) {
            self.bench.network.restart(self.nodes[router], GRACE);
        }
    }

    fn set_link_up(&mut self, link: usize, up: bool) {
        let (node, interface) = self.bench.links[link].ends[0];
        self.bench.network.set_link_up(node, interface, up);
    }

    fn set_faults(&mut self, faults: Faults) {
        for link in self.bench.links.clone() {
            let (node, interface) = link.ends[0];
            self.bench.network.set_faults(node, interface, faults);
        }
    }

    fn command(&mut self, node: usize, command: rsvp::Command) {
        self.bench.network.command(self.nodes[node], Command::Rsvp(command));
    }

    /// Makes the applications read their events, until there are none.
    fn react(&mut self) {
        loop {
            let log = self.bench.network.take_log();
            if log.is_empty() {
                return;
            }
            for entry in log {
                let LogEvent::Event(Event::Rsvp(event)) = entry.what else { continue };
                let node = self.nodes.iter().position(|&node| node == entry.node);
                let host = node.expect("ours").checked_sub(self.routers);
                let Some(host) = host else { continue };
                match host.checked_sub(self.senders.len()) {
                    None => self.sender_hears(host, &event),
                    Some(receiver) => self.receiver_hears(receiver, &event),
                }
            }
        }
    }

    fn sender_hears(&mut self, sender: usize, event: &rsvp::Event) {
        match event {
            rsvp::Event::Resv { application, flowspec, .. } => {
                self.told.insert((sender, application.0 as usize), *flowspec);
            }
            rsvp::Event::ResvGone { application, .. } => {
                self.told.remove(&(sender, application.0 as usize));
            }
            rsvp::Event::Rejected { reason, .. } => panic!("s{sender}: {reason}"),
            _ => {}
        }
    }

    fn receiver_hears(&mut self, receiver: usize, event: &rsvp::Event) {
        let number = |template: FilterSpec| {
            let position = self.senders.iter().position(|&address| address == template.source);
            position.expect("one of ours")
        };
        match event {
            rsvp::Event::Path { application, template, .. } => {
                let (session, sender) = (application.0 as usize, number(*template));
                if let Some(asking) = self.asking.get_mut(&(receiver, session)) {
                    asking.known.insert(sender);
                    self.reserve(receiver, session, sender);
                }
            }
            rsvp::Event::PathGone { application, template, .. } => {
                let (session, sender) = (application.0 as usize, number(*template));
                if let Some(asking) = self.asking.get_mut(&(receiver, session)) {
                    asking.known.remove(&sender);
                }
            }
            rsvp::Event::ResvError { error, .. }
                if error.code == ErrorCode::AdmissionControlFailure =>
            {
                self.refusals.push(format!("d{receiver} heard of {error:?}"));
            }
            // The sender was gone before its event was read.
            rsvp::Event::Rejected { reason: Rejection::NoSuchSender, .. } => {}
            rsvp::Event::Rejected { reason, .. } => panic!("d{receiver}: {reason}"),
            _ => {}
        }
    }

    fn receiving_node(&self, receiver: usize) -> usize {
        self.routers + self.senders.len() + receiver
    }

    /// Returns the receiver of a step of a session: a unicast session has only one.
    fn receiver_of(&self, session: usize, receiver: usize) -> usize {
        let receiver = match self.sessions[session].destination {
            Destination::Group => receiver,
            Destination::Receiver(only) => only,
        };
        receiver % self.receivers.len()
    }

    pub(crate) fn session(&self, number: usize) -> Session {
        let destination = match self.sessions[number].destination {
            Destination::Group => group(self.family, number),
            Destination::Receiver(_) => self.receivers[self.receiver_of(number, 0)],
        };
        Session { destination, protocol: 17, flags: 0, port: PORT + number as u16 }
    }

    pub(crate) fn template(&self, sender: usize) -> FilterSpec {
        FilterSpec { source: self.senders[sender], selector: SourceSelector::Port(PORT) }
    }

    /// Returns the flowspec of a receiver: different for each, so that the least upper bound of several equals none of
    /// them.
    fn flowspec(&self, receiver: usize, session: usize, amount: u8) -> FlowSpec {
        let turned = if self.ordered { 1 } else { (receiver as u8 * 3 + amount) % 8 + 1 };
        let bucket = TokenBucket {
            depth: 1_000.0 * f32::from(turned),
            min_policed_unit: 64 + u32::from(turned),
            max_packet_size: 600 + u32::from(turned),
            ..bucket(amount)
        };
        if self.sessions[session].guaranteed {
            let rate = bucket.rate * (1.0 + f32::from(turned));
            FlowSpec::Guaranteed(
                bucket,
                Rspec { rate, slack_us: if self.ordered { 0 } else { u32::from(amount) } },
            )
        } else {
            FlowSpec::ControlledLoad(bucket)
        }
    }
}

/// Returns the application of a host that sends to a session, or receives.
fn application(session: usize) -> Application {
    Application(session as u64)
}

/// Returns the group of a session.
fn group(family: Family, session: usize) -> IpAddr {
    let number = session as u8 + 1;
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(239, 1, 0, number)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 1, number.into())),
    }
}

/// Returns a bucket of `amount` times 10 000 octets a second, 80 kbit/s.
fn bucket(amount: u8) -> TokenBucket {
    TokenBucket {
        rate: 10_000.0 * f32::from(amount),
        depth: 2_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 600,
    }
}

/// Returns the current time of a network.
pub(crate) fn now(play: &Play) -> Time {
    play.bench.network.now()
}
