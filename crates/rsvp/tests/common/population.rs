//! A router with many sessions, for measurements: each with a destination and a sender of its own, an ADSPEC, and a
//! reservation of 64 kbit/s.
#![allow(dead_code, unreachable_pub)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::admission::{Ledger, LinkCapacity};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effect, Effects, Engine, Hop, Input, Interface, InterfaceId, Interfaces,
    MulticastRoute, Rate, Route, RouteTable, Time, Trust,
};
use earmark_rsvp::{Config, Event, Rsvp};
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Carried, FilterSpec, FixedFilterFlow,
    FlowDescriptors, List, Message, MessageId, Path, PathTear, RefreshIds, RefreshList, Resv,
    ResvTear, RsvpHop, SenderDescriptor, Session, SourceSelector, Srefresh,
};

/// Number of the session whose destination is a group, 239.1.1.1.
pub const GROUP: u32 = 0xef01_0101 - 0x0a00_0000;

const UPSTREAM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const DOWNSTREAM: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));

/// Message type of a summary refresh (RFC 2961 section 5.2).
const SREFRESH: u8 = 15;
/// Epoch of the neighbours.
const EPOCH: u32 = 1;

const TSPEC: SenderTspec = TokenBucket {
    rate: 8_000.0,
    depth: 3_000.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

/// The router, and buffers for its effects.
pub struct Population {
    engine: Rsvp,
    interfaces: Interfaces,
    routes: RouteTable,
    ledger: Ledger,
    out: Effects<Event>,
    adspec: Vec<u8>,
    now: Time,
}

impl Population {
    /// Creates a router with `sessions` reserved sessions, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        let mut population = Population::empty();
        for number in 0..sessions {
            population.handle(&population.path(number));
            population.handle(&population.resv(number));
        }
        assert_eq!(
            population.engine.population(),
            (sessions as usize, sessions as usize, sessions as usize)
        );
        population
    }

    /// Creates a router with `sessions` reserved sessions between neighbours with refresh reduction that have
    /// acknowledged everything, so that summary refreshes refresh all. Sessions are set up at 10 000 a second.
    pub fn reduced(sessions: u32) -> Population {
        let mut population = Population::empty();
        // Neighbours show their capabilities; the acknowledgement of an unknown epoch has no other effect.
        let nothing = [MessageId { flags: 0, epoch: u32::MAX >> 8, id: 0 }];
        population.acknowledge(&nothing);
        for number in 0..sessions {
            let mut message_ids = Vec::new();
            for arrival in [population.path(number), population.resv(number)] {
                population.handle(&arrival.with_message_id(number));
                message_ids.extend(population.names_sent());
            }
            population.acknowledge(&message_ids);
            population.pass(Duration::from_micros(100));
        }
        population.pass(Duration::from_secs(8));
        assert_eq!(population.engine.population().0, sessions as usize);
        let summarized: usize = population
            .engine
            .neighbors()
            .filter_map(|neighbor| neighbor.reduction)
            .map(|reduction| reduction.summarized)
            .sum();
        assert_eq!(summarized, 2 * sessions as usize, "every Path and every Resv");
        population
    }

    /// Both neighbours acknowledge all identifiers; those that were not sent to them have no effect.
    fn acknowledge(&mut self, names: &[MessageId]) {
        for neighbor in [UPSTREAM, DOWNSTREAM] {
            self.handle(&Arrival::acknowledging(neighbor, names));
        }
    }

    /// MESSAGE_IDs of the last sent messages.
    fn names_sent(&self) -> Vec<MessageId> {
        let messages = self.out.iter().filter_map(|effect| match effect {
            Effect::Send(_, range) => Message::parse(self.out.octets(range)).ok(),
            _ => None,
        });
        messages.filter_map(|message| message.message_id).collect()
    }

    /// Advances the time, timer by timer; returns the summary refreshes sent meanwhile.
    pub fn pass(&mut self, duration: Duration) -> Vec<Vec<u8>> {
        let end = self.now + duration;
        let mut summaries = Vec::new();
        while let Some((at, _)) = self.engine.next_deadline().filter(|&(at, _)| at <= end) {
            self.now = self.now.max(at);
            self.expire();
            summaries.extend(self.out.iter().filter_map(|effect| match effect {
                Effect::Send(_, range) if self.out.octets(range)[1] == SREFRESH => {
                    Some(self.out.octets(range).to_vec())
                }
                _ => None,
            }));
        }
        self.now = end;
        summaries
    }

    /// Advances the time to the next deadline, without handling it.
    pub fn wait(&mut self) {
        let (at, _) = self.engine.next_deadline().expect("summaries are due");
        self.now = self.now.max(at);
    }

    /// Handles the due timers.
    #[inline(never)]
    pub fn expire(&mut self) -> usize {
        let context = &mut Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        self.out.clear();
        self.engine.handle(self.now, Input::Expire, context, &mut self.out);
        self.out.len()
    }

    /// Summary refresh of the previous hop for the Paths of these sessions.
    pub fn summary(&self, sessions: impl Iterator<Item = u32>) -> Arrival {
        let ids: Vec<u32> = sessions.collect();
        let names = RefreshIds::Messages(List::Items(&ids));
        let lists = [RefreshList { epoch: EPOCH, ids: names }];
        let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
        Arrival::of(UPSTREAM, Message::new(62, body))
    }

    /// Creates the router without sessions.
    pub fn empty() -> Population {
        let mut population = Population {
            engine: Rsvp::new(Config::default(), &RandomStreams::new(1)),
            interfaces: Interfaces::default(),
            routes: RouteTable::new(),
            ledger: Ledger::new(),
            out: Effects::new(),
            adspec: Vec::new(),
            now: Time::from_secs(1),
        };
        population.attach(1, Ipv4Addr::new(192, 0, 2, 2));
        population.attach(2, Ipv4Addr::new(198, 51, 100, 1));
        let prefix = "10.0.0.0/8".parse().expect("a prefix");
        let hop = Hop { interface: InterfaceId(2), gateway: Some(DOWNSTREAM), source: None };
        population.routes.insert(Route { prefix, metric: 0, hop });
        let adspec = Adspec::for_sender();
        population.adspec = vec![0; adspec.buffer_len()];
        adspec.emit(&mut population.adspec).expect("it fits");
        population
    }

    /// Creates a router that forwards the data of a [`GROUP`] through this number of interfaces, the first of which is
    /// eth2.
    pub fn forked(links: u32) -> Population {
        let mut population = Population::empty();
        for link in 1..links {
            population.attach(2 + link, Ipv4Addr::new(198, 51, 100 + link as u8, 1));
        }
        population.routes.insert_multicast(MulticastRoute {
            source: None,
            group: names(GROUP).0.destination,
            incoming: Some(InterfaceId(1)),
            outgoing: (0..links).map(|link| InterfaceId(2 + link)).collect(),
        });
        population
    }

    fn attach(&mut self, index: u32, address: Ipv4Addr) {
        let (id, bandwidth, mtu) = (InterfaceId(index), Rate::from_mbps(400_000), 1_500);
        self.interfaces.set(Interface {
            id,
            name: format!("eth{index}"),
            addresses: vec![address.into()],
            mtu,
            up: true,
            bandwidth,
            reservable: bandwidth,
            latency_us: 10,
            trust: Trust::CORE,
        });
        self.ledger.set_link(id, LinkCapacity { bandwidth, reservable: bandwidth, mtu });
    }

    /// Path of session `number`.
    pub fn path(&self, number: u32) -> Arrival {
        self.path_from(number, 4000)
    }

    /// Path of another sender of session `number`, by its port.
    pub fn path_from(&self, number: u32, port: u16) -> Arrival {
        let (session, template) = names(number);
        let template = FilterSpec { selector: SourceSelector::Port(port), ..template };
        let path = Path {
            session,
            hop: RsvpHop { address: UPSTREAM, lih: 5 },
            refresh_ms: 30_000,
            carried: Carried::Objects(&[]),
            sender: SenderDescriptor { template, tspec: TSPEC, adspec: Some(&self.adspec) },
        };
        Arrival::new(InterfaceId(1), template.source, session.destination, Body::Path(path))
    }

    /// PathTear of session `number`.
    pub fn path_tear(&self, number: u32) -> Arrival {
        let (session, template) = names(number);
        let tear = PathTear {
            session,
            hop: RsvpHop { address: UPSTREAM, lih: 5 },
            carried: Carried::Objects(&[]),
            template,
            tspec: Some(TSPEC),
        };
        Arrival::new(InterfaceId(1), template.source, session.destination, Body::PathTear(tear))
    }

    /// Resv for session `number`.
    pub fn resv(&self, number: u32) -> Arrival {
        let (_, filter) = names(number);
        let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(TSPEC)), filter };
        self.resv_for(number, FlowDescriptors::FixedFilter(List::Items(&[flow])))
    }

    /// ResvTear for session `number`.
    pub fn resv_tear(&self, number: u32) -> Arrival {
        self.resv(number).taken_back()
    }

    /// Resv of a next hop in shared-explicit style for the sender of the [`GROUP`]: host number `host` behind interface
    /// number `link`, both counted from 0.
    pub fn group_resv(&self, link: u32, host: u8) -> Arrival {
        let filters = [names(GROUP).1];
        let flowspec = Some(FlowSpec::ControlledLoad(TSPEC));
        let flows = FlowDescriptors::SharedExplicit(flowspec, List::Items(&filters));
        let address = Ipv4Addr::new(198, 51, 100 + link as u8, 2 + host);
        self.resv_from(InterfaceId(2 + link), address.into(), GROUP, flows)
    }

    /// Resv for a reservation that the senders of session `number` on these ports share.
    pub fn shared_resv(&self, number: u32, ports: &[u16]) -> Arrival {
        let (_, filter) = names(number);
        let on = |&port: &u16| FilterSpec { selector: SourceSelector::Port(port), ..filter };
        let filters: Vec<FilterSpec> = ports.iter().map(on).collect();
        let flowspec = Some(FlowSpec::ControlledLoad(TSPEC));
        self.resv_for(number, FlowDescriptors::SharedExplicit(flowspec, List::Items(&filters)))
    }

    /// Resv for a reservation that all senders of session `number` share.
    pub fn wildcard_resv(&self, number: u32) -> Arrival {
        let flowspec = Some(FlowSpec::ControlledLoad(TSPEC));
        self.resv_for(number, FlowDescriptors::Wildcard(flowspec))
    }

    fn resv_for(&self, number: u32, flows: FlowDescriptors<'_>) -> Arrival {
        self.resv_from(InterfaceId(2), DOWNSTREAM, number, flows)
    }

    fn resv_from(
        &self,
        interface: InterfaceId,
        address: IpAddr,
        number: u32,
        flows: FlowDescriptors<'_>,
    ) -> Arrival {
        let (session, _) = names(number);
        let resv = Resv {
            session,
            hop: RsvpHop { address, lih: self.engine.lih(interface) },
            refresh_ms: 30_000,
            confirm: None,
            scope: None,
            carried: Carried::Objects(&[]),
            flows,
        };
        let here = self.interfaces.by_id(interface).expect("it is attached").addresses[0];
        Arrival::new(interface, address, here, Body::Resv(resv))
    }

    /// Drops the effects of the last message, as a driver would have by now.
    pub fn forget_effects(&mut self) {
        self.out.clear();
    }

    /// Handles one message with all its consequences; returns their number.
    #[inline(never)]
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        let context = &mut Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        self.out.clear();
        self.engine.handle(self.now, Input::Datagram(arrival.datagram()), context, &mut self.out);
        self.out.len()
    }
}

/// A message to be received.
pub struct Arrival {
    interface: InterfaceId,
    source: IpAddr,
    destination: IpAddr,
    octets: Vec<u8>,
}

impl Arrival {
    fn new(interface: InterfaceId, source: IpAddr, destination: IpAddr, body: Body<'_>) -> Arrival {
        Arrival::write(interface, source, destination, &Message::new(62, body))
    }

    /// Returns this message with MESSAGE_ID and the flag of refresh reduction.
    fn with_message_id(&self, id: u32) -> Arrival {
        let message = Message::parse(&self.octets).expect("it was written");
        let message_id = Some(MessageId { flags: MessageId::ACK_DESIRED, epoch: EPOCH, id });
        let message = Message { flags: Message::REFRESH_REDUCTION, message_id, ..message };
        Arrival::write(self.interface, self.source, self.destination, &message)
    }

    /// Returns the ResvTear for this Resv.
    fn taken_back(&self) -> Arrival {
        let message = Message::parse(&self.octets).expect("it was written");
        let Body::Resv(resv) = message.body else { panic!("a Resv: {message:?}") };
        let Resv { session, hop, scope, carried, flows, .. } = resv;
        let tear = ResvTear { session, hop, scope, carried, flows };
        Arrival::new(self.interface, self.source, self.destination, Body::ResvTear(tear))
    }

    /// Ack message of a neighbour for these MESSAGE_IDs.
    fn acknowledging(neighbor: IpAddr, names: &[MessageId]) -> Arrival {
        let kind = AcknowledgementKind::Ack;
        let names: Vec<Acknowledgement> = names
            .iter()
            .map(|&MessageId { epoch, id, .. }| Acknowledgement { kind, epoch, id })
            .collect();
        let acknowledgements = List::Items(&names);
        Arrival::of(neighbor, Message { acknowledgements, ..Message::new(62, Body::Ack) })
    }

    /// Message to this router from a neighbour with refresh reduction.
    fn of(neighbor: IpAddr, message: Message<'_>) -> Arrival {
        let (interface, here) = match neighbor {
            UPSTREAM => (InterfaceId(1), Ipv4Addr::new(192, 0, 2, 2)),
            _ => (InterfaceId(2), Ipv4Addr::new(198, 51, 100, 1)),
        };
        let message = Message { flags: Message::REFRESH_REDUCTION, ..message };
        Arrival::write(interface, neighbor, here.into(), &message)
    }

    fn write(
        interface: InterfaceId,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Arrival {
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets).expect("it fits");
        Arrival { interface, source, destination, octets }
    }

    fn datagram(&self) -> Datagram<'_> {
        Datagram {
            interface: self.interface,
            source: self.source,
            destination: self.destination,
            ttl: 62,
            router_alert: true,
            encapsulated: false,
            payload: &self.octets,
        }
    }
}

fn names(number: u32) -> (Session, FilterSpec) {
    let destination = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
    let source = IpAddr::V4(Ipv4Addr::from(0xac10_0000 + number % 65_536));
    let session = Session { destination, protocol: 17, flags: 0, port: 5004 };
    (session, FilterSpec { source, selector: SourceSelector::Port(4000) })
}
