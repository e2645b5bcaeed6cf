//! A node with two links, driven by messages as values instead of octets.
//!
//! ```text
//!   10.0.1.1 ----- eth1: 10.0.1.2 [ node ] 10.0.2.1 :eth2 ----- 10.0.2.2 ... 10.0.9.9
//!   upstream                                                  downstream   receiver
//! ```
#![allow(dead_code, unreachable_pub, unused_imports)]

use std::net::IpAddr;

use earmark_core::{Datagram, Effects, Hop, Interface, InterfaceId, Outgoing, Rate, Route, Time};
use earmark_node::{Event, HostUpdate, Input, Node, NodeConfig};
use earmark_testkit::bench;
pub use earmark_testkit::bench::rsvp::*;
pub use earmark_testkit::bench::{events, installed, ip};
use earmark_wire::rsvp::{
    Body, Carried, FixedFilterFlow, Message, Path, PathTear, Resv, RsvpHop, SenderDescriptor,
};

/// A node with its time.
pub struct Bench {
    pub node: Node,
    pub now: Time,
}

/// An effect of an input, with messages as octets.
pub type Outcome = bench::Outcome<Event>;

pub fn interface(id: InterfaceId, addresses: &[&str], bandwidth: Rate) -> Interface {
    bench::interface(id, addresses, bandwidth, bandwidth.share(0.75))
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
        bench::outcomes(&out)
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
        let hop = RsvpHop { address: ip(DOWNSTREAM), lih: path.hop.lih };
        let resv = Resv { session: path.session, hop, ..resv(flows) };
        self.receive(ETH2, ip("10.0.2.1"), Body::Resv(resv))
    }

    pub fn receive(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        body: Body<'_>,
    ) -> Vec<Outcome> {
        let ttl = if matches!(body, Body::Path(_)) { 63 } else { 255 };
        let octets = octets(body, ttl);
        let source = ip(if interface == ETH1 { UPSTREAM } else { DOWNSTREAM });
        let payload = &octets[..];
        let datagram = Datagram {
            interface,
            source,
            destination,
            ttl,
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
    let parse = |(how, octets): (Outgoing, _)| {
        (how, Message::parse(octets).expect("what we send can be read").body)
    };
    bench::sent(outcomes).map(parse).collect()
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
