//! The network, the requests of its hosts, and the service of its packets.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use earmark_boomerang::{self as boomerang, Selector};
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_node::{Command, Listen, NodeConfig};
use earmark_nsis::{Command as NsisCommand, Config as NsisConfig, qos};
use earmark_rsvp as rsvp;
use earmark_sim::{Keep, Network, NodeId, Reserved, Source, StreamId, TrafficPattern};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector, Style};
use earmark_wire::yessir::{Flowspec, OctetRate, Style as Sharing};
use earmark_yessir as yessir;
use proptest::sample::Index;

use super::model::{self, Claim, Claimant, Ends, PORTS, Share};
use crate::common::{Bench, Family};

/// Unit of rates.
const UNIT: Rate = Rate::from_bps(50_000);
/// Refresh period of every protocol, seconds.
const REFRESH: u16 = 1;
/// Number of refreshes that may be missing: more than during the restart of r1's daemon, when the flood displaces those
/// of others.
const MISSED: u32 = 6;
/// Validity of GIST routing state.
const VALIDITY: Duration = Duration::from_secs(4);
/// Burst of the reservations, octets.
const BURST: u32 = 1_500;

const CORE: Rate = Rate::from_mbps(6);
const FLOOD: Rate = Rate::from_mbps(12);
const FLOOD_OCTETS: u32 = 1_000;
/// Octets of the counted packets.
const OCTETS: u32 = 125;
/// Number of measured flows.
const FLOWS: u64 = 3;
/// Rate of the permanent streams, one for each flow.
const STEADY: Rate = Rate::from_bps(10_000);
/// Rate of packets without a claim.
const UNCLAIMED: Rate = Rate::from_bps(125_000);

/// Longer than a message takes to every node and back, and than the wait for it.
const SETTLE: Duration = Duration::from_secs(3);
/// Longer than the lifetime of state without refresh.
const SILENCE: Duration = Duration::from_secs(12);
/// Grace period for a dead daemon's reservations.
const GRACE: Duration = Duration::from_secs(6);
/// Limit of the queue of a reserved class, packets.
const QUEUE: u64 = 200;
/// Longer than the time to fill an empty bucket at the lowest rate.
const REFILL: Duration = Duration::from_secs(1);

/// Hosts that reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    H1,
    /// The other host.
    X,
}

/// A network with its reservations.
pub(crate) struct Play {
    bench: Bench,
    h1: NodeId,
    x: NodeId,
    r1: NodeId,
    /// Interface of r1 towards r2.
    core: InterfaceId,
    ends: Ends,
    /// Destination of the flood.
    sink: IpAddr,
    styles: [Style; 2],
    standing: BTreeMap<Claimant, Rate>,
    applications: BTreeMap<Claimant, Vec<u64>>,
    next_application: u64,
    /// Permanent streams of few packets, by flow: the simulator caches their classes.
    steady: Vec<StreamId>,
    /// Failures during the restart of r1's daemon, and while claims were installed again.
    meanwhile: Vec<String>,
}

impl fmt::Debug for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Play { styles, standing, .. } = self;
        f.debug_struct("Play").field("styles", styles).field("standing", standing).finish()
    }
}

fn config() -> NodeConfig {
    let refresh = Duration::from_secs(REFRESH.into());
    let timing = rsvp::Timing { refresh, lifetime_factor: MISSED, ..Default::default() };
    let burst = Duration::from_millis(10);
    let mut nsis = NsisConfig::default();
    (nsis.qos.refresh, nsis.qos.lost_refreshes) = (refresh, MISSED);
    // A peer that was skipped while its daemon was dead is found again when this is renewed.
    nsis.gist.validity = VALIDITY;
    nsis.gist.shortest_validity = VALIDITY;
    NodeConfig {
        rsvp: rsvp::Config { timing, ..rsvp::Config::default() },
        boomerang: boomerang::Config {
            refresh_interval: REFRESH as u8,
            lifetime_multiplier: MISSED as u8,
            burst,
            min_burst: BURST,
            ..boomerang::Config::default()
        },
        yessir: yessir::Config {
            interval: REFRESH,
            missed: MISSED,
            burst,
            min_burst: BURST,
            ..yessir::Config::default()
        },
        nsis,
        ..NodeConfig::default()
    }
}

impl Play {
    pub(crate) fn new(seed: u64, styles: [Style; 2]) -> Play {
        let mut bench = Bench::with(seed, Family::V4, config());
        let fast = Rate::from_mbps(100);
        let [r1, r2] = ["r1", "r2"].map(|name| bench.router(name));
        let (h1, _) = bench.host("h1", r1, fast);
        let (h2, _) = bench.host("h2", r2, fast);
        let (x, _) = bench.host("x", r1, fast);
        bench.plain_host("sink", r2, fast);
        let core = bench.connect(r1, r2, CORE);
        bench.route();
        let address = |link: usize| bench.links[link].addresses[0];
        let ends = Ends { source: address(0), destination: address(1) };
        let (sink, core) = (address(3), bench.links[core].ends[0].1);
        for (port, style, application) in [(PORTS[0], styles[0], 1), (PORTS[1], styles[1], 2)] {
            let listen = Listen::new(rsvp::Application(application), session(ends, port));
            bench.network.command(h2, Command::Listen(Listen { style, ..listen }));
        }
        let listen = qos::Listen::default();
        let listen = qos::Command::Listen { application: qos::Application(3), listen };
        bench.network.command(h2, Command::Nsis(NsisCommand::Qos(listen)));
        let mut play = Play {
            bench,
            h1,
            x,
            r1,
            core,
            ends,
            sink,
            styles,
            standing: BTreeMap::new(),
            applications: BTreeMap::new(),
            next_application: 10,
            steady: Vec::new(),
            meanwhile: Vec::new(),
        };
        let forever = Duration::from_secs(1_000_000);
        play.steady =
            (0..FLOWS as usize).map(|number| play.stream(number, STEADY, forever)).collect();
        play
    }

    /// Reserves this many units, or changes the reserved rate to it.
    pub(crate) fn set(&mut self, claimant: Claimant, units: u8) {
        let rate = Rate::from_bps(UNIT.as_bps() * u64::from(units));
        let flows = claimant.flows(self.ends);
        let is_new = self.standing.insert(claimant, rate).is_none();
        if is_new {
            let first = self.next_application;
            self.next_application += flows.len() as u64;
            self.applications.insert(claimant, (first..self.next_application).collect());
        }
        let applications = self.applications[&claimant].clone();
        for (flow, application) in flows.into_iter().zip(applications) {
            for command in self.commands(claimant, application, flow, rate, is_new) {
                self.command(claimant, command);
            }
        }
        self.run(SETTLE);
    }

    /// Releases one of the reservations.
    pub(crate) fn release(&mut self, index: Index) {
        let all: Vec<Claimant> = self.standing.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let claimant = *index.get(&all);
        self.standing.remove(&claimant);
        for application in self.applications.remove(&claimant).unwrap_or_default() {
            self.command(claimant, release(claimant, application));
        }
        self.run(SETTLE);
    }

    /// Kills the daemon of a host until its reservations have expired.
    pub(crate) fn silence(&mut self, host: Host) {
        let node = self.node(host);
        self.bench.network.kill(node);
        self.run(SILENCE);
        self.standing.retain(|claimant, _| claimant.host() != host);
        self.applications.retain(|claimant, _| claimant.host() != host);
        self.bench.network.restart(node, Duration::from_secs(1));
        self.run(SETTLE);
    }

    /// Kills the daemon of r1; packets keep their service for some seconds, then the next daemon starts.
    pub(crate) fn restart(&mut self) {
        self.bench.network.kill(self.r1);
        self.run(Duration::from_millis(300));
        for number in 0..self.steady.len() {
            let broken = self.promise(number, self.share(number).best).err();
            self.meanwhile.extend(broken.map(|what| format!("while the daemon is dead, {what}")));
        }
        self.bench.network.restart(self.r1, GRACE);
        for number in 0..self.steady.len() {
            let broken = self.promise(number, self.share(number).adopted).err();
            self.meanwhile.extend(broken.map(|what| format!("after the restart, {what}")));
        }
        self.run(GRACE + SILENCE);
    }

    /// Returns the differences of r1's claims and of the packets' service from the model.
    pub(crate) fn differences(&mut self) -> Vec<String> {
        let expected = model::claims(&self.standing, self.ends, self.styles);
        let held = self.bench.network.traffic_control(self.r1);
        let held = held.filter(|(interface, _)| *interface == self.core);
        let claim = |(_, reserved): (_, Reserved)| Claim {
            flows: reserved.flows,
            rate: reserved.demand.rate,
        };
        let mut held: Vec<Claim> = held.map(claim).collect();
        held.sort();
        let mut differences = std::mem::take(&mut self.meanwhile);
        if held != expected {
            differences.push(format!("r1 holds {held:?} instead of {expected:?}"));
        }
        for number in 0..self.steady.len() {
            let share = self.share(number);
            differences.extend(self.promise(number, share.best).err());
            if share.best > Rate::ZERO {
                differences.extend(self.limit(number, share).err());
            }
        }
        differences
    }

    /// Returns the rates of a flow by the model. h1 limits it to its own claims, all of which r1 has.
    fn share(&self, number: usize) -> Share {
        let flow = &model::flows(self.ends)[number];
        let mut own = self.standing.clone();
        own.retain(|claimant, _| claimant.host() == Host::H1);
        let of = |standing| model::share(&model::claims(standing, self.ends, self.styles), flow);
        let (own, all) = (of(&own), of(&self.standing));
        match own {
            Share { best: Rate::ZERO, .. } => all,
            own => Share { adopted: own.best.min(all.adopted), ..own },
        }
    }

    /// Checks that during a flood streams of 95 % of the best claim lose nothing, and one without a claim loses
    /// packets.
    fn promise(&mut self, number: usize, best: Rate) -> Result<(), String> {
        let [ramp, length] = [200, 600].map(Duration::from_millis);
        self.flood(ramp + length);
        self.run(ramp);
        let before = self.bench.network.counts(self.steady[number]);
        let rate = match best {
            Rate::ZERO => UNCLAIMED,
            best => Rate::from_bps(best.as_bps() * 95 / 100 - FLOWS * STEADY.as_bps()),
        };
        let stream = self.stream(number, rate, length);
        self.run(length + ramp);
        let after = self.bench.network.counts(self.steady[number]);
        let (sent, received) = self.bench.network.counts(stream);
        // One packet of the permanent stream may be in flight, before and after.
        let lost = sent - received + (after.0 - before.0).saturating_sub(after.1 - before.1 + 1);
        let kept = if best == Rate::ZERO { lost * 10 > sent } else { lost == 0 };
        let failed = || format!("flow {number}, best {best}: {lost} of {sent} packets are lost");
        if kept { Ok(()) } else { Err(failed()) }
    }

    /// Checks that during a flood a flow of more than it can use gets exactly what it can.
    fn limit(&mut self, number: usize, share: Share) -> Result<(), String> {
        // Before the last second it uses up the tokens in the buckets.
        let [begin, second] = [400, 1_000].map(Duration::from_millis);
        self.flood(begin + second);
        let rate = Rate::from_bps(share.all.as_bps() + 1_000_000);
        let stream = self.stream(number, rate, begin + second);
        let steady = self.steady[number];
        self.run(begin);
        let arrived = |network: &Network| network.counts(stream).1 + network.counts(steady).1;
        let before = arrived(&self.bench.network);
        self.run(second);
        let received = arrived(&self.bench.network) - before;
        let spare = share.best.as_bps() - FLOWS * STEADY.as_bps();
        let drain = QUEUE * u64::from(OCTETS) * 8 * 1_000 / spare; // at least one unit, less the streams
        self.run(Duration::from_millis(drain) + REFILL);
        let packets = |rate: Rate| rate.as_bps() / 8 / u64::from(OCTETS);
        let (expected, tolerance) = (packets(share.all), 3 + packets(share.all) / 50);
        // The other flows may use as much of the shared claims.
        let others = (FLOWS - 1) * packets(STEADY);
        if (expected - others - tolerance..=expected + tolerance).contains(&received) {
            return Ok(());
        }
        Err(format!("flow {number}, {share:?}: {received} packets a second, not {expected}"))
    }

    /// Fills the core link twice, from now on.
    fn flood(&mut self, length: Duration) {
        let flood =
            Flow { destination: self.sink, source_port: 7_000, ..model::flows(self.ends)[0] };
        let from = self.x;
        self.add(from, &flood, FLOOD, FLOOD_OCTETS, length);
    }

    fn stream(&mut self, number: usize, rate: Rate, length: Duration) -> StreamId {
        let (from, flow) = (self.h1, model::flows(self.ends)[number]);
        self.add(from, &flow, rate, OCTETS, length)
    }

    fn add(
        &mut self,
        node: NodeId,
        flow: &Flow,
        rate: Rate,
        packet_octets: u32,
        length: Duration,
    ) -> StreamId {
        let now = self.bench.network.now();
        self.bench.network.add_source(Source {
            node,
            port: flow.source_port,
            destination: flow.destination,
            destination_port: flow.destination_port,
            dscp: 0,
            pattern: TrafficPattern::Constant(rate),
            packet_octets,
            from: now,
            until: now + length,
            keep: Keep::Counts,
        })
    }

    fn run(&mut self, time: Duration) {
        let until = self.bench.network.now() + time;
        self.bench.network.run_until(until);
        self.bench.network.take_log();
    }

    fn node(&self, host: Host) -> NodeId {
        match host {
            Host::H1 => self.h1,
            Host::X => self.x,
        }
    }

    fn command(&mut self, claimant: Claimant, command: Command) {
        let node = self.node(claimant.host());
        self.bench.network.command(node, command);
    }

    /// Returns the commands of a claimant for one of its flows.
    fn commands(
        &self,
        claimant: Claimant,
        application: u64,
        flow: Flow,
        rate: Rate,
        is_new: bool,
    ) -> Vec<Command> {
        use Claimant::*;
        match claimant {
            RsvpTwo | RsvpOne => {
                let application = rsvp::Application(application);
                let session = session(self.ends, flow.destination_port);
                let open = rsvp::Command::Session { application, session };
                let selector = SourceSelector::Port(flow.source_port);
                let template = FilterSpec { source: self.ends.source, selector };
                let tspec = TokenBucket {
                    rate: rate.as_octets_per_second(),
                    depth: BURST as f32,
                    peak: f32::INFINITY,
                    min_policed_unit: OCTETS,
                    max_packet_size: BURST,
                };
                let send = rsvp::Command::Sender { application, template, tspec, ttl: 64 };
                let commands = is_new.then_some(open).into_iter().chain([send]);
                commands.map(Command::Rsvp).collect()
            }
            BoomerangFirst | BoomerangHosts | BoomerangStranger | BoomerangRange => {
                let application = boomerang::Application(application);
                let rates = boomerang::RequestedRates { forward: rate, reverse: Rate::ZERO };
                let selector = Selector::of_flow(&flow);
                let request = boomerang::Request::new(self.ends.destination, selector, rates);
                vec![Command::Boomerang(match is_new {
                    true => boomerang::Command::Reserve { application, request },
                    false => boomerang::Command::Modify { application, rates: [rates].into() },
                })]
            }
            YessirAlone | YessirShared => {
                let application = yessir::Application(application);
                let attachment = yessir::Attachment {
                    stream: yessir::Stream {
                        source: self.ends.source,
                        destination: flow.destination,
                        source_port: flow.source_port,
                        destination_port: flow.destination_port,
                    },
                    ssrc: None,
                    cname: "somebody@h1".into(),
                    multiplexed: false,
                    flowspec: Flowspec::Class {
                        dscp: 46,
                        rate: OctetRate(rate.as_octets_per_second()),
                    },
                    style: match claimant {
                        YessirShared => Sharing::Shared,
                        _ => Sharing::Individual,
                    },
                    passive: false,
                    interval: REFRESH,
                    ttl: 64,
                    token: None,
                };
                vec![Command::Yessir(yessir::Command::Attach { application, attachment })]
            }
            NsisFirst | NsisSecond | NsisRange => {
                let application = qos::Application(application);
                let wanted = qos::RequestedQos { burst: BURST, ..qos::RequestedQos::of(rate) };
                let on_refusal = qos::OnRefusal::Retry;
                let request = qos::Request { on_refusal, ..qos::Request::new(flow, wanted) };
                let command = match is_new {
                    true => qos::Command::Reserve { application, request },
                    false => qos::Command::Modify { application, qos: wanted },
                };
                vec![Command::Nsis(NsisCommand::Qos(command))]
            }
        }
    }
}

fn session(ends: Ends, port: u16) -> Session {
    Session { destination: ends.destination, protocol: 17, flags: 0, port }
}

fn release(claimant: Claimant, application: u64) -> Command {
    use Claimant::*;
    match claimant {
        RsvpTwo | RsvpOne => {
            Command::Rsvp(rsvp::Command::Release { application: rsvp::Application(application) })
        }
        BoomerangFirst | BoomerangHosts | BoomerangStranger | BoomerangRange => {
            let application = boomerang::Application(application);
            Command::Boomerang(boomerang::Command::Release { application })
        }
        YessirAlone | YessirShared => {
            let application = yessir::Application(application);
            Command::Yessir(yessir::Command::Release { application })
        }
        NsisFirst | NsisSecond | NsisRange => {
            let application = qos::Application(application);
            Command::Nsis(NsisCommand::Qos(qos::Command::Release { application }))
        }
    }
}
