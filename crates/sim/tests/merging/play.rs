//! A story in a simulated network: its hosts and applications, and what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{InterfaceId, Rate, Routes, Time};
use earmark_node::{Command, Event};
use earmark_rsvp::{self as rsvp, Application, Rejection, ReserveRequest};
use earmark_sim::{Faults, NodeId, What};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};

use crate::common::Bench;
use crate::model::{Facts, Hop, Request};
use crate::scenario::{Scenario, Step};

/// Refresh period of all nodes.
const REFRESH: Duration = Duration::from_secs(2);
/// How often applications look for news.
const SLICE: Duration = Duration::from_millis(20);
/// Enough for everything to settle once nothing goes wrong any more. State that nobody refreshes lives 10.5 s; what a
/// dead daemon left is taken out after 12 s; what was lost comes again within 3 s at each of nine nodes at most.
const SETTLING: Duration = Duration::from_secs(30);
/// How long what a dead daemon left is kept for the next one.
const GRACE: Duration = Duration::from_secs(12);
/// Data port of the receivers, and of the senders.
const PORT: u16 = 5_000;

/// A story that is being played.
pub(crate) struct Play {
    pub(crate) bench: Bench,
    /// Routers, senders' hosts, receivers' hosts.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) routers: usize,
    pub(crate) senders: Vec<IpAddr>,
    pub(crate) receivers: Vec<IpAddr>,
    guaranteed: bool,
    /// Links between routers are the first ones.
    router_links: usize,
    dead: BTreeSet<usize>,
    /// Who sends to whom, by sender and receiver.
    sending: BTreeSet<(usize, usize)>,
    asking: BTreeMap<usize, Asking>,
    /// What each sender was last told of the reservation for what it sends to a receiver.
    pub(crate) told: BTreeMap<(usize, usize), FlowSpec>,
}

/// What a receiver wants, and which senders it has heard of.
#[derive(Clone, Debug, Default)]
struct Asking {
    wanted: BTreeSet<usize>,
    amount: u8,
    known: BTreeSet<usize>,
}

impl Play {
    /// The network of a story whose links between routers have this bandwidth.
    pub(crate) fn new(scenario: &Scenario, bandwidth: Rate) -> Play {
        let timing = rsvp::Timing { refresh: REFRESH, lifetime_factor: 3 };
        let config = rsvp::Config { timing, ..rsvp::Config::default() };
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
            guaranteed: scenario.guaranteed,
            router_links,
            dead: BTreeSet::new(),
            sending: BTreeSet::new(),
            asking: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        let share = |percent: u8| f64::from(percent) / 100.0;
        play.set_faults(Faults {
            loss: share(scenario.faults.loss),
            duplication: share(scenario.faults.duplication),
            corruption: share(scenario.faults.corruption),
            jitter: Duration::from_millis(scenario.faults.jitter.into()),
        });
        play
    }

    /// Lets time pass; receivers answer the senders that they hear of.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.bench.network.now() + time;
        while self.bench.network.now() < end {
            let next = (self.bench.network.now() + SLICE).min(end);
            self.bench.network.run_until(next);
            self.react();
        }
    }

    /// Nothing goes wrong any more, for as long as it takes.
    pub(crate) fn settle(&mut self) {
        self.set_faults(Faults::default());
        (0..self.router_links).for_each(|link| self.set_link_up(link, true));
        (0..self.routers).for_each(|router| self.start(router));
        self.pass(SETTLING);
    }

    /// Everybody leaves.
    pub(crate) fn end(&mut self) {
        for (sender, receiver) in self.sending.clone() {
            self.stop(sender, receiver);
        }
        for receiver in self.asking.keys().copied().collect::<Vec<_>>() {
            self.leave(receiver);
        }
    }

    pub(crate) fn act(&mut self, step: Step) {
        let (senders, receivers, routers) =
            (self.senders.len(), self.receivers.len(), self.routers);
        let links = self.router_links;
        match step {
            Step::Send { sender, receiver, amount } => {
                self.send(sender % senders, receiver % receivers, amount);
            }
            Step::Stop { sender, receiver } => self.stop(sender % senders, receiver % receivers),
            Step::Ask { receiver, wanted, amount } => {
                let wanted = (0..senders).filter(|sender| wanted & (1 << sender) != 0).collect();
                self.ask(receiver % receivers, wanted, amount);
            }
            Step::Leave { receiver } => self.leave(receiver % receivers),
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

    /// What the model has to know of the session of a receiver.
    pub(crate) fn facts(&self, receiver: usize) -> Facts {
        let senders = self.sending.iter().filter(|(_, to)| *to == receiver);
        let trees = senders.map(|&(sender, _)| {
            (sender, self.way(self.routers + sender, self.receivers[receiver]))
        });
        let trees: BTreeMap<usize, BTreeSet<Hop>> = trees.collect();
        let requests = self.asking.get(&receiver).map(|asking| {
            let flowspec = self.flowspec(receiver, asking.amount);
            let wanted = asking.wanted.iter().filter(|sender| trees.contains_key(sender));
            let request = Request::Distinct(wanted.map(|&sender| (sender, flowspec)).collect());
            (self.routers + self.senders.len() + receiver, request)
        });
        Facts { requests: requests.into_iter().collect(), trees }
    }

    /// The number of the node that a hop leads to, by where it leaves.
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

    /// The links that lead from a node to a destination, by the routes that the nodes have.
    fn way(&self, from: usize, destination: IpAddr) -> BTreeSet<Hop> {
        let (mut way, mut at) = (BTreeSet::new(), from);
        loop {
            let node = self.bench.network.node(self.nodes[at]).expect("all live");
            if node.interfaces().is_local(destination) {
                return way;
            }
            let hop = node.routes().lookup(destination).expect("routes lead everywhere");
            let next = self.behind(at, hop.interface).expect("an interface has a link");
            assert!(way.insert((at, next)), "routes lead round in a circle");
            at = next;
        }
    }

    fn send(&mut self, sender: usize, receiver: usize, amount: u8) {
        let application = Application(receiver as u64);
        let node = self.routers + sender;
        if self.sending.insert((sender, receiver)) {
            let session = self.session(receiver);
            self.command(node, rsvp::Command::Session { application, session });
        }
        // Always more than anybody asks for.
        let tspec = TokenBucket { rate: 1e6 * f32::from(amount), depth: 1e5, ..bucket(1) };
        let template = self.template(sender);
        self.command(node, rsvp::Command::Sender { application, template, tspec, ttl: 64 });
    }

    fn stop(&mut self, sender: usize, receiver: usize) {
        if self.sending.remove(&(sender, receiver)) {
            let application = Application(receiver as u64);
            self.command(self.routers + sender, rsvp::Command::Release { application });
            self.told.remove(&(sender, receiver));
        }
    }

    fn ask(&mut self, receiver: usize, wanted: BTreeSet<usize>, amount: u8) {
        // A fixed filter is given up only with all others of the application.
        let before = self.asking.get(&receiver);
        if before.is_some_and(|before| !wanted.is_superset(&before.wanted)) {
            self.leave(receiver);
        }
        let opens = !self.asking.contains_key(&receiver);
        let asking = self.asking.entry(receiver).or_default();
        (asking.wanted, asking.amount) = (wanted, amount);
        let known = asking.known.clone();
        if opens {
            let (application, session) = (receiving(), self.session(receiver));
            let node = self.receiving_node(receiver);
            self.command(node, rsvp::Command::Session { application, session });
        }
        known.into_iter().for_each(|sender| self.reserve(receiver, sender));
    }

    fn leave(&mut self, receiver: usize) {
        if self.asking.remove(&receiver).is_some() {
            let application = receiving();
            self.command(self.receiving_node(receiver), rsvp::Command::Release { application });
            // What was reported before does not concern the next application.
            self.react();
        }
    }

    /// A receiver asks for what it wants for a sender that it has heard of, if it wants anything.
    fn reserve(&mut self, receiver: usize, sender: usize) {
        let asking = &self.asking[&receiver];
        if asking.wanted.contains(&sender) {
            let flowspec = self.flowspec(receiver, asking.amount);
            let filter = self.template(sender);
            let request = ReserveRequest::FixedFilter { filter, flowspec };
            let reserve =
                rsvp::Command::Reserve { application: receiving(), request, confirm: false };
            self.command(self.receiving_node(receiver), reserve);
        }
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

    /// The applications read what was reported to them, until there is nothing more.
    fn react(&mut self) {
        loop {
            let log = self.bench.network.take_log();
            if log.is_empty() {
                return;
            }
            for entry in log {
                let What::Event(Event::Rsvp(event)) = entry.what else { continue };
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
        let Some(asking) = self.asking.get_mut(&receiver) else { return };
        let number = |template: FilterSpec| {
            self.senders.iter().position(|&address| address == template.source)
        };
        match event {
            rsvp::Event::Path { template, .. } => {
                let sender = number(*template).expect("one of ours");
                asking.known.insert(sender);
                self.reserve(receiver, sender);
            }
            rsvp::Event::PathGone { template, .. } => {
                asking.known.remove(&number(*template).expect("one of ours"));
            }
            // The sender has gone before its news were read.
            rsvp::Event::Rejected { reason: Rejection::NoSuchSender, .. } => {}
            rsvp::Event::Rejected { reason, .. } => panic!("d{receiver}: {reason}"),
            _ => {}
        }
    }

    fn receiving_node(&self, receiver: usize) -> usize {
        self.routers + self.senders.len() + receiver
    }

    pub(crate) fn session(&self, receiver: usize) -> Session {
        Session { destination: self.receivers[receiver], protocol: 17, flags: 0, port: PORT }
    }

    pub(crate) fn template(&self, sender: usize) -> FilterSpec {
        FilterSpec { source: self.senders[sender], selector: SourceSelector::Port(PORT) }
    }

    /// What a receiver asks for: each in another way, so that the least upper bound of several is none of them.
    fn flowspec(&self, receiver: usize, amount: u8) -> FlowSpec {
        let turned = (receiver as u8 * 3 + amount) % 8 + 1;
        let bucket = TokenBucket {
            depth: 1_000.0 * f32::from(turned),
            max_packet_size: 600 + u32::from(turned),
            ..bucket(amount)
        };
        if self.guaranteed {
            let rate = bucket.rate * (1.0 + f32::from(turned));
            FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us: u32::from(amount) })
        } else {
            FlowSpec::ControlledLoad(bucket)
        }
    }
}

/// The application of a receiver's host.
fn receiving() -> Application {
    Application(0)
}

/// `amount` times 10 000 octets a second, 80 kbit/s.
fn bucket(amount: u8) -> TokenBucket {
    TokenBucket {
        rate: 10_000.0 * f32::from(amount),
        depth: 2_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 600,
    }
}

/// The present of a network.
pub(crate) fn now(play: &Play) -> Time {
    play.bench.network.now()
}
