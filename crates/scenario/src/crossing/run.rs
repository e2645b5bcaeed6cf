//! One case, from its request to the violated invariants.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::{InterfaceId, Rate, Time};
use earmark_node::{Command, NodeConfig};
use earmark_sim::{LogEntry, Network, NodeId};

use super::applications::{Applications, Reserved, is};
use super::case::{Case, LAST_EVENT_OVER, NETWORK, REQUEST};
use super::effects::{Effects, Location};
use super::ends;
use super::event::{Event, EventKind, Place};
use super::violation::{Crossing, Violation, ViolationKind};
use crate::build::{Built, build_in};
use crate::explore::{disagreements, remaining_state};
use crate::faults::{FaultSchedule, links_between};
use crate::protocols::{Commands, CommonSettings, End, Protocols, Proxy, carry_out};
use crate::reservation::ReservationRequest;
use crate::routing::Routing;
use crate::topology::Topology;

/// Refresh period of all protocols.
const REFRESH: Duration = Duration::from_secs(1);
/// Time of the check, some lifetimes after the last event, and of the release.
const SETTLED: Duration = Duration::from_secs(LAST_EVENT_OVER.as_secs() + 40);
/// Time after the release until all soft state has expired: GIST keeps routing state for 120 s without use, then a peer for
/// 300 s.
const DRAIN_TIME: Duration = Duration::from_secs(600);
/// Time for which a daemon with new settings keeps unclaimed reservations.
const GRACE: Duration = Duration::from_secs(10);
/// Time by which the clock of another machine is behind that of the first one. Its messages are replays until its sequence numbers
/// have reached those that may be reordered.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(15);
/// Interval of the checks of all nodes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Plays a case.
pub fn play_case(case: &Case, protocols: &Protocols) -> Crossing {
    play_logged(case, protocols, |_, _| {})
}

/// Plays a case, and passes on what happens at each node, by its name.
pub fn play_logged(
    case: &Case,
    protocols: &Protocols,
    mut log: impl FnMut(&str, &LogEntry),
) -> Crossing {
    let mut run = Run::new(case, protocols, &mut log);
    run.run_until(Time::ZERO + REQUEST);
    run.set_proxy();
    run.carry_out(case.variant.request);
    run.run_until(Time::ZERO + SETTLED);
    run.check_settled();
    run.remove_proxy();
    run.carry_out(case.variant.release);
    run.network.run_until(Time::ZERO + SETTLED + DRAIN_TIME);
    run.read_log();
    run.check_empty();
    run.crossing.events = run.network.event_count();
    run.crossing.took_effect = run.effects.took_effect().to_vec();
    run.crossing
}

/// Returns the changes of the rate, the last first; none if the daemon of the source crashes, whose application is gone then.
fn changes(case: &Case) -> Vec<(Time, Rate)> {
    if case.crashes_at(Place::Source) {
        return Vec::new();
    }
    let changes = case.changes().into_iter().rev();
    changes.map(|(at, rate)| (Time::ZERO + at, rate)).collect()
}

/// Returns the times at which settings change, or the machine does, and the events that change them, the last first.
fn setting_changes(case: &Case) -> Vec<(Time, usize)> {
    let changes = |event: &Event| case.has_setting(event) || event.replaces();
    let numbered = case.events.iter().enumerate().filter(|(_, event)| changes(event));
    let times = numbered
        .flat_map(|(number, event)| [event.from, event.last()].map(|at| (Time::ZERO + at, number)));
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.dedup();
    times.reverse();
    times
}

/// Sets what differs between two machines in the same place: `is_other` for the one that replaces the first.
fn set_machine(case: &Case, place: usize, is_other: bool, config: &mut NodeConfig) {
    if let Some(identify) = case.variant.identify {
        identify(2 * place as u32 + u32::from(is_other) + 1, config); // a network of few nodes
    }
    if is_other {
        case.protocol.set_clock_back(CLOCK_DIFFERENCE, config);
    }
}

struct Run<'c> {
    case: &'c Case,
    /// Settings of every node without changes.
    config: NodeConfig,
    topology: Topology,
    network: Network,
    nodes: Vec<NodeId>,
    routing: Routing,
    faults: FaultSchedule,
    effects: Effects,
    /// Indices of the nodes to which it reserves.
    members: Vec<usize>,
    /// Requests, one for each member.
    requests: Vec<ReservationRequest>,
    /// Node that is a proxy, and its interface towards the end.
    proxy: Option<(usize, String, Proxy)>,
    /// Changes of settings and machines that are to come, by the number of their event, the last first.
    settings: Vec<(Time, usize)>,
    /// Changes of the rate that are to come, the last first.
    changes: Vec<(Time, Rate)>,
    /// Rates that the application has requested, the last at the end.
    requested: Vec<Rate>,
    applications: Applications,
    next_check: Time,
    crossing: Crossing,
    log: &'c mut dyn FnMut(&str, &LogEntry),
}

impl<'c> Run<'c> {
    fn new(
        case: &'c Case,
        protocols: &Protocols,
        log: &'c mut dyn FnMut(&str, &LogEntry),
    ) -> Run<'c> {
        let topology = Topology::parse(NETWORK).expect("the network of crossings is valid");
        let mut config = protocols.node_config();
        let settings = CommonSettings {
            refresh: REFRESH,
            refresh_reduction: true,
            has_priorities: false,
            opens_paths: false,
        };
        for protocol in protocols.all() {
            protocol.configure(&settings, &mut config);
        }
        (case.variant.configure)(&mut config);
        let Built { mut network, nodes, routing, .. } =
            build_in(case.family, &topology, case.seed, &config);
        network.watch_attempts();
        for (place, &node) in nodes.iter().enumerate() {
            (case.variant.prepare)(&mut network, node, &ends::towards_hosts(place, &topology));
        }
        if case.variant.identify.is_some() {
            for (place, &node) in nodes.iter().enumerate() {
                let mut config = config.clone();
                set_machine(case, place, false, &mut config);
                network.set_config(node, config);
                network.kill(node);
                network.restart(node, GRACE);
            }
        }
        let changes = changes(case);
        let locations = case.events.iter().map(|event| location(event, &topology));
        let effects = Effects::new(case, locations.collect(), !changes.is_empty());
        let requests = ends::requests(case, &topology, &nodes);
        ends::join(&requests, &mut network, &routing);
        Run {
            log,
            faults: FaultSchedule::new(&case.faults(), &topology),
            case,
            network,
            nodes,
            routing,
            members: ends::members(case, &topology),
            applications: Applications::new(case, &requests),
            requests,
            topology,
            effects,
            proxy: None,
            settings: setting_changes(case),
            config,
            changes,
            requested: vec![case.rate()],
            next_check: Time::ZERO + CHECK_INTERVAL,
            crossing: Crossing {
                is_reserved: false,
                took_effect: Vec::new(),
                events: 0,
                violations: Vec::new(),
            },
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let fault = self.faults.next().filter(|at| *at <= end);
            let check = Some(self.next_check).filter(|at| *at <= end);
            let change = self.changes.last().map(|(at, _)| *at).filter(|at| *at <= end);
            let setting = self.settings.last().map(|(at, _)| *at).filter(|at| *at <= end);
            let Some(at) = [fault, check, change, setting].into_iter().flatten().min() else {
                break;
            };
            self.network.run_until(at);
            self.read_log();
            if fault == Some(at) {
                self.note_effects();
                let Run { faults, network, nodes, topology, routing, .. } = self;
                faults.apply(network, nodes, topology, routing);
                self.read_log();
            } else if setting == Some(at) {
                self.change_settings();
            } else if change == Some(at) {
                self.change();
            } else {
                self.next_check = at + CHECK_INTERVAL;
                self.check_books();
            }
        }
        self.network.run_until(end);
        self.read_log();
    }

    /// Changes the settings of a node to those of its present events: of the running daemon, or with the next one; or replaces its
    /// machine.
    fn change_settings(&mut self) {
        let Some((_, number)) = self.settings.pop() else { return };
        let event = &self.case.events[number];
        let place = index(&self.topology, &event.node());
        if event.replaces() {
            self.network.set_config(self.nodes[place], self.config_of(place));
            return self.network.replace(self.nodes[place]);
        }
        let Some(setting) = event.kind.setting() else { return };
        self.configure(place, self.case.protocol.is_reloaded(setting));
    }

    /// Returns the present settings of a node: with those of its events, as a proxy, and of the machine in its place.
    fn config_of(&self, place: usize) -> NodeConfig {
        let now = self.network.now();
        let mut config = self.config.clone();
        if let Some((_, interface, proxy)) = self.proxy.as_ref().filter(|(at, ..)| *at == place) {
            (proxy.configure)(&self.requests[0], interface, &mut config);
        }
        let mut is_other = false;
        for event in &self.case.events {
            let is_over = Time::ZERO + event.until <= now && event.kind != EventKind::Replaced;
            let is_now = Time::ZERO + event.from <= now && !is_over;
            let is_here = index(&self.topology, &event.node()) == place;
            is_other |= event.replaces() && is_now && is_here;
            if let Some(setting) = event.kind.setting().filter(|_| is_now && is_here) {
                self.case.protocol.set(setting, &mut config);
            }
        }
        set_machine(self.case, place, is_other, &mut config);
        config
    }

    /// Gives a node its present settings: to the running daemon, or to the next one, which starts now.
    fn configure(&mut self, place: usize, is_reloaded: bool) {
        let (node, config) = (self.nodes[place], self.config_of(place));
        self.network.set_config(node, config.clone());
        if self.network.node(node).is_none() {
            return; // until the next daemon starts
        }
        match self.case.protocol.reload(&config).filter(|_| is_reloaded) {
            Some(command) => self.network.command(node, command),
            None => {
                self.network.kill(node);
                self.network.restart(node, GRACE);
            }
        }
        self.read_log();
    }

    /// Makes the router of an end its proxy, if the variant has one.
    fn set_proxy(&mut self) {
        let Some(proxy) = self.case.variant.proxy else { return };
        let (place, interface) = ends::router_of(proxy.of, &self.topology);
        self.proxy = Some((place, interface, proxy));
        self.configure(place, true);
    }

    /// Ends the proxy.
    fn remove_proxy(&mut self) {
        if let Some((place, ..)) = self.proxy.take() {
            self.configure(place, true);
        }
    }

    /// Notes the effects of the events that begin or end now.
    fn note_effects(&mut self) {
        let path: Vec<_> = self.paths().into_iter().flatten().collect();
        let network = (&self.network, &self.nodes[..]);
        self.effects.note_change(self.case, network, &self.routing, &path);
    }

    /// Returns the present path to each member, by index of node; empty if there is none.
    fn paths(&self) -> Vec<BTreeSet<(usize, InterfaceId)>> {
        let down = self.faults.down();
        let path = |&member: &usize| self.routing.path(&self.topology, down, 0, member);
        let without = self.case.variant.proxy.filter(|proxy| !proxy.reserves_link);
        let reserved = |path: Option<Vec<_>>| {
            let mut path = path.unwrap_or_default();
            match without.map(|proxy| proxy.of) {
                None => {}
                Some(End::Source) => path = path.into_iter().skip(1).collect(),
                Some(End::Destination) => _ = path.pop(),
            }
            path.into_iter().collect()
        };
        self.members.iter().map(path).map(reserved).collect()
    }

    /// Changes the rate of the reservation.
    fn change(&mut self) {
        let Some((_, rate)) = self.changes.pop() else { return };
        let Some(change) = self.case.variant.change else { return };
        self.requests.iter_mut().for_each(|request| request.rate = rate);
        self.requested.push(rate);
        self.effects.note_rate_change(self.case, self.network.now());
        self.carry_out(change);
    }

    /// Carries out the commands of the source and the first member, and then those of the other members.
    fn carry_out(&mut self, commands: Commands) {
        for request in &self.requests {
            let is_its =
                |(end, _): &(End, Command)| request.number == 1 || *end == End::Destination;
            let commands = commands(request).into_iter().filter(is_its).collect();
            carry_out(commands, request, &mut self.network);
        }
    }

    /// Reads what has happened at each node.
    fn read_log(&mut self) {
        for entry in self.network.take_log() {
            (self.log)(self.network.name(entry.node), &entry);
            if let Some(node) = self.nodes.iter().position(|node| *node == entry.node) {
                self.effects.note_log(self.case, entry.at, node, &entry.what, &self.routing);
            }
            self.applications.note_log(self.case, &entry);
        }
    }

    fn check_books(&mut self) {
        for node in self.nodes.clone() {
            let Some(engines) = self.network.node(node) else { continue };
            let classes: Vec<_> = self.network.traffic_control(node).collect();
            for what in disagreements(engines, &classes) {
                self.violation(ViolationKind::BooksDisagree, node, &what);
            }
        }
    }

    fn check_settled(&mut self) {
        // The flow cannot arrive, or nobody can send it. A protocol may ask on for it, and hold for a while what it asks for.
        if self.case.loses_address() {
            return;
        }
        let paths = self.paths();
        let path: BTreeSet<(usize, InterfaceId)> = paths.iter().flatten().copied().collect();
        let (mut reserved, mut rates) = (Vec::new(), Vec::new());
        for (place, &node) in self.nodes.iter().enumerate() {
            for (interface, class) in self.network.traffic_control(node) {
                reserved.push((place, interface));
                rates.push(class.demand.rate);
            }
        }
        let links: BTreeSet<(usize, InterfaceId)> = reserved.iter().copied().collect();
        let source = self.nodes[0];
        if links.len() < reserved.len() {
            self.violation(ViolationKind::Twice, source, &format!("{reserved:?}"));
        }
        let is_reserved = links == path;
        if !is_reserved && !links.is_empty() && !paths.contains(&links) {
            let what = format!("reserved on {links:?}, and the path is {path:?}");
            self.violation(ViolationKind::NotOnThePath, source, &what);
            return;
        }
        self.crossing.is_reserved = is_reserved;
        if !is_reserved && !self.effects.may_prevent(self.case) {
            self.violation(ViolationKind::NotReserved, source, "no event could prevent it");
        }
        self.check_rates(&rates);
        let reserved = Reserved {
            links: &links,
            paths: &paths,
            rate: rates.first().copied(),
            is_change_refused: rates.first().is_some_and(|&rate| !is(rate, self.last_rate())),
        };
        for (kind, node, what) in self.applications.check(self.case, reserved) {
            self.violation(kind, node, &what);
        }
    }

    /// Checks that all links have the same rate: the last one that was requested, or if a change could fail another one.
    fn check_rates(&mut self, rates: &[Rate]) {
        let source = self.nodes[0];
        let Some(&first) = rates.first() else { return };
        let is_known = match self.effects.may_prevent(self.case) {
            true => self.requested.iter().any(|&rate| is(first, rate)),
            false => is(first, self.last_rate()),
        };
        let is_possible = self.topology.links.iter().all(|link| first <= link.reservable);
        if !is_known || !is_possible || rates.iter().any(|&rate| !is(rate, first)) {
            let what = format!("reserved {rates:?}, and requested {:?}", self.requested);
            self.violation(ViolationKind::WrongRate, source, &what);
        }
    }

    fn last_rate(&self) -> Rate {
        self.requested.last().copied().unwrap_or(self.case.rate())
    }

    fn check_empty(&mut self) {
        for node in self.nodes.clone() {
            let Some(engines) = self.network.node(node) else { continue };
            let classes = self.network.traffic_control(node).count();
            for what in remaining_state(engines, classes) {
                self.violation(ViolationKind::LeftBehind, node, &what);
            }
        }
    }

    fn violation(&mut self, kind: ViolationKind, node: NodeId, what: &str) {
        let mut known = self.crossing.violations.iter();
        if known.all(|violation| violation.kind != kind) {
            let at = self.network.now().as_secs_f64();
            let what = format!("{}: {what}", self.network.name(node));
            self.crossing.violations.push(Violation { kind, at, what });
        }
    }
}

/// Returns where an event is.
fn location(event: &Event, topology: &Topology) -> Location {
    let [one, other] = event.link().map(|name| index(topology, &name));
    let link = links_between(topology, one, other).next().expect("its nodes are joined");
    Location { node: index(topology, &event.node()), link }
}

fn index(topology: &Topology, name: &str) -> usize {
    topology.node(name).expect("events are in the network of crossings")
}
