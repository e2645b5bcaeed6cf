//! Test bench of one engine: a router between two links (or a host at the end of one), virtual time, and messages as
//! values instead of octets.
//!
//! ```text
//!   10.0.1.1 ----- eth1: 10.0.1.2 [ engine ] 10.0.2.1 :eth2 ----- 10.0.2.2 ... 10.0.9.9
//!   upstream                                                    downstream   receiver
//! ```
#![allow(dead_code, unreachable_pub, unused_imports)]

use std::net::IpAddr;

use earmark_core::random::RandomStreams;
use earmark_core::{Datagram, Input, InterfaceId, Outgoing, Rate, Time};
use earmark_rsvp::{Config, Event, Rsvp};
use earmark_testkit::bench;
pub use earmark_testkit::bench::rsvp::*;
pub use earmark_testkit::bench::{events, ip};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{
    Body, Carried, FixedFilterFlow, Message, Path, PathTear, Resv, ResvTear, RsvpHop,
    SenderDescriptor,
};

/// A third link, if added: between 10.0.3.1, the engine's, and 10.0.3.2.
pub const ETH3: InterfaceId = InterfaceId(3);

earmark_testkit::bench_of!(Rsvp);

/// Effects of one input, with messages as octets.
pub type Outcome = bench::Outcome<Event>;

/// A router with 10 Mbit/s links of which 7.5 Mbit/s may be reserved.
pub fn router() -> Bench {
    with_config(Config::default())
}

pub fn with_config(config: Config) -> Bench {
    let engine = Rsvp::new(config, &RandomStreams::new(7));
    let mut bench = Bench(bench::Bench::new(engine, Time::from_secs(1_000)));
    bench.add_interface(ETH1, "10.0.1.2");
    bench.add_interface(ETH2, "10.0.2.1");
    bench.add_route("10.0.1.0/24", ETH1, None);
    bench.add_route("10.0.2.0/24", ETH2, None);
    bench.add_route("10.0.0.0/24", ETH1, Some(UPSTREAM));
    bench.add_route("10.0.9.0/24", ETH2, Some(DOWNSTREAM));
    bench
}

/// A host at the receiving end: `RECEIVER` is its address, and eth1 its only link.
pub fn receiver() -> Bench {
    let mut bench = router();
    bench.interfaces.remove(ETH2);
    bench.add_interface_with(ETH1, &["10.0.1.2", RECEIVER], Rate::from_mbps(10));
    bench
}

/// A host at the sending end: `SENDER` is its address on eth1, and the default route is through eth2.
pub fn sender() -> Bench {
    let mut bench = router();
    bench.interfaces.remove(ETH1);
    bench.add_interface_with(ETH2, &["10.0.2.1", SENDER], Rate::from_mbps(10));
    bench
}

impl Bench {
    pub fn add_interface(&mut self, id: InterfaceId, address: &str) {
        self.add_interface_with(id, &[address], Rate::from_mbps(10));
    }

    pub fn add_interface_with(&mut self, id: InterfaceId, addresses: &[&str], bandwidth: Rate) {
        self.set_link(id, addresses, bandwidth, bandwidth.share(0.75));
    }

    /// Delivers a message in the way of its type: those for every node with router alert to the final destination. A
    /// Resv or ResvTear whose LIH is an interface index gets the real handle, as from a neighbour.
    pub fn receive(&mut self, interface: InterfaceId, mut body: Body<'_>) -> Vec<Outcome> {
        if let Body::Resv(Resv { hop, .. }) | Body::ResvTear(ResvTear { hop, .. }) = &mut body
            && hop.lih <= ETH3.0
        {
            hop.lih = self.engine.lih(InterfaceId(hop.lih));
        }
        let (destination, ttl) = match &body {
            Body::Path(path) => (path.session.destination, 63),
            Body::PathTear(tear) => (tear.session.destination, 63),
            Body::ResvConf(confirmation) => (confirmation.confirm, 63),
            _ => {
                let address = self.interfaces.by_id(interface).expect("known").addresses[0];
                (address, 255)
            }
        };
        let octets = octets(body, ttl);
        self.receive_octets(interface, destination, ttl, &octets)
    }

    pub fn receive_octets(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        ttl: u8,
        payload: &[u8],
    ) -> Vec<Outcome> {
        let source = ip(match interface {
            ETH1 => UPSTREAM,
            ETH3 => "10.0.3.2",
            _ => DOWNSTREAM,
        });
        let datagram = Datagram {
            interface,
            source,
            destination,
            ttl,
            router_alert: true,
            encapsulated: false,
            payload,
        };
        self.handle(Input::Datagram(datagram))
    }

    /// Bandwidth held on eth2.
    pub fn held(&self) -> Rate {
        self.held_on(ETH2)
    }
}

/// Sent messages among the outcomes, parsed.
pub fn sent(outcomes: &[Outcome]) -> Vec<(Outgoing, Message<'_>)> {
    let parse = |(how, octets): (Outgoing, _)| {
        (how, Message::parse(octets).expect("what we send can be read"))
    };
    bench::sent(outcomes).map(parse).collect()
}

/// Path of a sender of up to 20 Mbit/s in packets of any size, so that receivers determine the reservation; from the
/// upstream neighbour, refreshed every 30 s.
pub fn path() -> Path<'static> {
    Path {
        session: session(),
        hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
        refresh_ms: 30_000,
        carried: Carried::Objects(&[]),
        sender: SenderDescriptor {
            template: template(),
            tspec: TokenBucket { max_packet_size: 9_000, ..tspec(20) },
            adspec: None,
        },
    }
}

pub fn path_tear() -> PathTear<'static> {
    let Path { session, hop, carried, sender, .. } = path();
    PathTear { session, hop, carried, template: sender.template, tspec: None }
}

pub fn resv_tear(flows: &[FixedFilterFlow]) -> ResvTear<'_> {
    let Resv { session, hop, scope, carried, flows, .. } = resv(flows);
    ResvTear { session, hop, scope, carried, flows }
}
