//! A node with two links, driven by messages as values instead of octets.
//!
//! ```text
//!   10.0.1.1 ----- eth1: 10.0.1.2 [ node ] 10.0.2.1 :eth2 ----- 10.0.2.2 ... 10.0.9.9
//!   upstream                                                  downstream   receiver
//! ```
#![allow(dead_code, unreachable_pub)]

use std::net::IpAddr;

use earmark_core::{
    Datagram, Effect, Effects, Hop, Installation, Interface, InterfaceId, Outgoing, Rate, Route,
    Time, Trust,
};
use earmark_node::{Event, HostUpdate, Input, Node, NodeConfig};
use earmark_wire::intserv::{Adspec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Message, Path, PathTear,
    Resv, RsvpHop, SenderDescriptor, SenderTemplate, Session, SourceSelector,
};

pub const ETH1: InterfaceId = InterfaceId(1);
pub const ETH2: InterfaceId = InterfaceId(2);
pub const UPSTREAM: &str = "10.0.1.1";
pub const DOWNSTREAM: &str = "10.0.2.2";
pub const RECEIVER: &str = "10.0.9.9";

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("test addresses are right")
}

/// A node with its time.
pub struct Bench {
    pub node: Node,
    pub now: Time,
}

/// An effect of an input, with messages as octets.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Sent(Outgoing, Vec<u8>),
    Installed(Installation),
    Removed(earmark_core::admission::ClaimId),
    Event(Event),
}

pub fn interface(id: InterfaceId, addresses: &[&str], bandwidth: Rate) -> Interface {
    Interface {
        id,
        name: format!("eth{}", id.0),
        addresses: addresses.iter().map(|a| ip(a)).collect(),
        mtu: 1_500,
        up: true,
        bandwidth,
        reservable: bandwidth.share(0.75),
        latency_us: 100,
        trust: Trust::CORE,
    }
}

/// Returns a router with links of 10 Mbit/s, 7.5 Mbit/s of which are reservable.
pub fn router() -> Bench {
    let config = NodeConfig { name: "r1".into(), seed: 7, ..NodeConfig::default() };
    let mut bench = Bench { node: Node::new(config), now: Time::from_secs(1_000) };
    for (id, address) in [(ETH1, "10.0.1.2"), (ETH2, "10.0.2.1")] {
        bench.host(HostUpdate::Interface(interface(id, &[address], Rate::from_mbps(10))));
    }
    bench.route("10.0.9.0/24", ETH2, DOWNSTREAM);
    bench
}

/// Returns a receiving host whose only link is eth1.
pub fn receiver() -> Bench {
    let mut bench = router();
    bench.host(HostUpdate::InterfaceGone(ETH2));
    let addresses = ["10.0.1.2", RECEIVER];
    bench.host(HostUpdate::Interface(interface(ETH1, &addresses, Rate::from_mbps(10))));
    bench
}

impl Bench {
    pub fn handle(&mut self, input: Input<'_>) -> Vec<Outcome> {
        let mut out = Effects::new();
        self.node.handle(self.now, input, &mut out);
        out.iter()
            .map(|effect| match effect {
                Effect::Send(how, range) => Outcome::Sent(*how, out.octets(range).to_vec()),
                Effect::Install(installation) => Outcome::Installed(*installation),
                Effect::Remove(claim) => Outcome::Removed(*claim),
                Effect::Notify(event) => Outcome::Event(event.clone()),
                other => panic!("no engine here does {other:?}"),
            })
            .collect()
    }

    pub fn host(&mut self, update: HostUpdate) -> Vec<Outcome> {
        self.handle(Input::Host(update))
    }

    pub fn route(&mut self, prefix: &str, interface: InterfaceId, gateway: &str) {
        let hop = Hop { interface, gateway: Some(ip(gateway)), source: None };
        let prefix = prefix.parse().expect("a prefix");
        self.host(HostUpdate::Route(Route { prefix, metric: 0, hop }));
    }

    /// Receives a Path from upstream.
    pub fn path(&mut self, path: Path<'_>) -> Vec<Outcome> {
        self.receive(ETH1, path.session.destination, Body::Path(path))
    }

    /// Receives the PathTear of a Path.
    pub fn path_tear(&mut self, path: Path<'_>) -> Vec<Outcome> {
        let Path { session, hop, carried, sender, .. } = path;
        let template = sender.template;
        let tear = PathTear { session, hop, carried, template, tspec: None };
        self.receive(ETH1, session.destination, Body::PathTear(tear))
    }

    /// Receives the downstream neighbor's Resv for the Path in `outcomes`.
    pub fn resv(&mut self, outcomes: &[Outcome], flows: &[FixedFilterFlow]) -> Vec<Outcome> {
        let (_, Body::Path(path)) = sent(outcomes)[0] else { panic!("a Path: {outcomes:?}") };
        let resv = Resv {
            session: path.session,
            hop: RsvpHop { address: ip(DOWNSTREAM), lih: path.hop.lih },
            refresh_ms: 30_000,
            confirm: None,
            scope: None,
            carried: Carried::NONE,
            flows: FlowDescriptors::FixedFilter(List::Items(flows)),
        };
        self.receive(ETH2, ip("10.0.2.1"), Body::Resv(resv))
    }

    fn receive(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        body: Body<'_>,
    ) -> Vec<Outcome> {
        let message = Message::new(63, body);
        let mut octets = vec![0xa5; message.buffer_len()];
        message.emit(&mut octets).expect("it fits");
        let source = ip(if interface == ETH1 { UPSTREAM } else { DOWNSTREAM });
        let payload = &octets[..];
        let datagram = Datagram {
            interface,
            source,
            destination,
            ttl: 63,
            router_alert: true,
            encapsulated: false,
            payload,
        };
        self.handle(Input::Datagram(earmark_rsvp::PROTOCOL, datagram))
    }

    /// Returns the reserved rate of a link.
    pub fn held(&self, name: &str) -> Option<Rate> {
        self.node.link_rows().find(|row| row.interface == name).map(|row| row.held_bps)
    }
}

/// Returns the sent messages with their destinations.
pub fn sent(outcomes: &[Outcome]) -> Vec<(Outgoing, Body<'_>)> {
    outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Sent(how, octets) => {
                Some((*how, Message::parse(octets).expect("what we send can be read").body))
            }
            _ => None,
        })
        .collect()
}

/// Returns the events.
pub fn events(outcomes: &[Outcome]) -> Vec<Event> {
    let event = |outcome: &Outcome| match outcome {
        Outcome::Event(event) => Some(event.clone()),
        _ => None,
    };
    outcomes.iter().filter_map(event).collect()
}

/// Returns the installed claims.
pub fn installed(outcomes: &[Outcome]) -> Vec<Installation> {
    let installation = |outcome: &Outcome| match outcome {
        Outcome::Installed(installation) => Some(*installation),
        _ => None,
    };
    outcomes.iter().filter_map(installation).collect()
}

pub fn session() -> Session {
    Session { destination: ip(RECEIVER), protocol: 17, flags: 0, port: 5_004 }
}

pub fn template() -> SenderTemplate {
    FilterSpec { source: ip("10.0.0.1"), selector: SourceSelector::Port(4_000) }
}

/// Returns `mbps` Mbit/s with a bucket for two packets of 1 500 octets.
pub fn tspec(mbps: u32) -> SenderTspec {
    TokenBucket {
        rate: mbps as f32 * 125_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    }
}

/// Returns the body of a sender's initial ADSPEC.
pub fn adspec() -> Vec<u8> {
    let adspec = Adspec::for_sender();
    let mut body = vec![0; adspec.buffer_len()];
    adspec.emit(&mut body).expect("it fits");
    body
}

/// Returns the Path of a sender of 2 Mbit/s from the upstream neighbor, refreshed every 30 s.
pub fn path(adspec: Option<&[u8]>) -> Path<'_> {
    Path {
        session: session(),
        hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
        refresh_ms: 30_000,
        carried: Carried::NONE,
        sender: SenderDescriptor { template: template(), tspec: tspec(2), adspec },
    }
}

/// Returns a controlled-load request of `mbps` Mbit/s.
pub fn flow(mbps: u32) -> FixedFilterFlow {
    let flowspec = earmark_wire::intserv::FlowSpec::ControlledLoad(tspec(mbps));
    FixedFilterFlow { flowspec: Some(flowspec), filter: template() }
}
