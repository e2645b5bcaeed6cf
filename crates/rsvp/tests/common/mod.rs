//! Test bench of one engine: a router between two links (or a host at the end of one), virtual time, and messages as
//! values instead of octets.
//!
//! ```text
//!   10.0.1.1 ----- eth1: 10.0.1.2 [ engine ] 10.0.2.1 :eth2 ----- 10.0.2.2 ... 10.0.9.9
//!   upstream                                                    downstream   receiver
//! ```
#![allow(dead_code, unreachable_pub)]

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::{Ledger, LinkCapacity};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effect, Effects, Engine, Flow, Hop, HostEvent, Input, Installation,
    Interface, InterfaceId, Interfaces, Outgoing, Prefix, Rate, Route, RouteTable, Time, Trust,
};
use earmark_rsvp::{Command, Config, Event, Rsvp};
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Message, Path, PathTear,
    Resv, ResvTear, RsvpHop, SenderDescriptor, SenderTemplate, Session, SourceSelector,
};

pub const UPSTREAM: &str = "10.0.1.1";
pub const DOWNSTREAM: &str = "10.0.2.2";
pub const SENDER: &str = "10.0.0.1";
pub const RECEIVER: &str = "10.0.9.9";
pub const ETH1: InterfaceId = InterfaceId(1);
pub const ETH2: InterfaceId = InterfaceId(2);
/// A third link, if added: between 10.0.3.1, the engine's, and 10.0.3.2.
pub const ETH3: InterfaceId = InterfaceId(3);

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("test addresses are right")
}

/// An engine, its node, and the time.
pub struct Bench {
    pub engine: Rsvp,
    pub interfaces: Interfaces,
    pub routes: RouteTable,
    pub ledger: Ledger,
    pub now: Time,
}

/// Effects of one input, with messages as octets.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Sent(Outgoing, Vec<u8>),
    Installed(Installation),
    Added(earmark_core::admission::ClaimId, Flow),
    TakenOut(earmark_core::admission::ClaimId, Flow),
    Removed(earmark_core::admission::ClaimId),
    Event(Event),
}

/// A router with 10 Mbit/s links of which 7.5 Mbit/s may be reserved.
pub fn router() -> Bench {
    with_config(Config::default())
}

pub fn with_config(config: Config) -> Bench {
    let mut bench = Bench {
        engine: Rsvp::new(config, &RandomStreams::new(7)),
        interfaces: Interfaces::default(),
        routes: RouteTable::new(),
        ledger: Ledger::new(),
        now: Time::from_secs(1_000),
    };
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
        let reservable = bandwidth.share(0.75);
        self.interfaces.set(Interface {
            id,
            name: format!("eth{}", id.0),
            addresses: addresses.iter().map(|a| ip(a)).collect(),
            mtu: 1500,
            up: true,
            bandwidth,
            reservable,
            latency_us: 100,
            trust: Trust::CORE,
        });
        self.ledger.set_link(id, LinkCapacity { bandwidth, reservable, mtu: 1500 });
    }

    pub fn add_route(&mut self, prefix: &str, interface: InterfaceId, gateway: Option<&str>) {
        let prefix: Prefix = prefix.parse().expect("a prefix");
        let hop = Hop { interface, gateway: gateway.map(ip), source: None };
        self.routes.insert(Route { prefix, metric: 0, hop });
    }

    pub fn handle(&mut self, input: Input<'_, Command>) -> Vec<Outcome> {
        let mut out: Effects<Event> = Effects::new();
        let context = &mut Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        self.engine.handle(self.now, input, context, &mut out);
        // As the node does.
        while let Some(displaced) = context.ledger.next_displaced() {
            let input = Input::Host(HostEvent::Displaced(displaced));
            self.engine.handle(self.now, input, context, &mut out);
        }
        out.iter()
            .map(|effect| match effect {
                Effect::Send(how, range) => Outcome::Sent(*how, out.octets(range).to_vec()),
                Effect::Install(installation) => Outcome::Installed(*installation),
                Effect::Remove(claim) => Outcome::Removed(*claim),
                Effect::Notify(event) => Outcome::Event(event.clone()),
                Effect::AddFlow(claim, flow) => Outcome::Added(*claim, *flow),
                Effect::RemoveFlow(claim, flow) => Outcome::TakenOut(*claim, *flow),
                Effect::Connect(_) | Effect::Write(..) | Effect::Close(_) => {
                    panic!("RSVP has no connections")
                }
            })
            .collect()
    }

    pub fn command(&mut self, command: Command) -> Vec<Outcome> {
        self.handle(Input::Command(command))
    }

    pub fn host(&mut self, event: HostEvent) -> Vec<Outcome> {
        self.handle(Input::Host(event))
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
                (address, 64)
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

    /// Advances the time, timer by timer.
    pub fn pass(&mut self, duration: Duration) -> Vec<Outcome> {
        let end = self.now + duration;
        let mut outcomes = Vec::new();
        while let Some((at, _)) = self.engine.next_deadline().filter(|&(at, _)| at <= end) {
            self.now = self.now.max(at);
            outcomes.extend(self.handle(Input::Expire));
        }
        self.now = end;
        outcomes
    }

    /// Bandwidth held on eth2.
    pub fn held(&self) -> Rate {
        self.ledger.link(ETH2).expect("eth2 is a link").held
    }
}

/// Octets of a message.
pub fn octets(body: Body<'_>, send_ttl: u8) -> Vec<u8> {
    let message = Message::new(send_ttl, body);
    let mut octets = vec![0xa5; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

/// Sent messages among the outcomes, parsed.
pub fn sent(outcomes: &[Outcome]) -> Vec<(Outgoing, Message<'_>)> {
    outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Sent(how, octets) => {
                Some((*how, Message::parse(octets).expect("what we send can be read")))
            }
            _ => None,
        })
        .collect()
}

/// Events among the outcomes.
pub fn events(outcomes: &[Outcome]) -> Vec<Event> {
    let event = |outcome: &Outcome| match outcome {
        Outcome::Event(event) => Some(event.clone()),
        _ => None,
    };
    outcomes.iter().filter_map(event).collect()
}

pub fn session() -> Session {
    Session { destination: ip(RECEIVER), protocol: 17, flags: 0, port: 5004 }
}

pub fn template() -> SenderTemplate {
    FilterSpec { source: ip(SENDER), selector: SourceSelector::Port(4000) }
}

/// `mbps` Mbit/s with a bucket of two packets of 1 500 octets.
pub fn tspec(mbps: u32) -> SenderTspec {
    TokenBucket {
        rate: mbps as f32 * 125_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    }
}

pub fn flowspec(mbps: u32) -> FlowSpec {
    FlowSpec::ControlledLoad(tspec(mbps))
}

pub fn adspec() -> Vec<u8> {
    let adspec = Adspec::for_sender();
    let mut body = vec![0; adspec.buffer_len()];
    adspec.emit(&mut body).expect("it fits");
    body
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

pub fn flow(mbps: u32) -> FixedFilterFlow {
    FixedFilterFlow { flowspec: Some(flowspec(mbps)), filter: template() }
}

/// Resv of the downstream neighbour for these flows.
pub fn resv(flows: &[FixedFilterFlow]) -> Resv<'_> {
    Resv {
        session: session(),
        hop: RsvpHop { address: ip(DOWNSTREAM), lih: ETH2.0 },
        refresh_ms: 30_000,
        confirm: None,
        scope: None,
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(flows)),
    }
}

pub fn resv_tear(flows: &[FixedFilterFlow]) -> ResvTear<'_> {
    let Resv { session, hop, scope, carried, flows, .. } = resv(flows);
    ResvTear { session, hop, scope, carried, flows }
}
