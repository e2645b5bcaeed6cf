//! A router with many sessions, for measurements: each with a destination and a sender of its own, an ADSPEC, and a
//! reservation of 64 kbit/s.
#![allow(dead_code, unreachable_pub)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{Effect, Engine, Input, InterfaceId, MulticastRoute, Secret, Time};
use earmark_rsvp::integrity::{self, Algorithm, Directions, HandshakeMode, Key};
use earmark_rsvp::{Config, Rsvp};
pub use earmark_testkit::bench::Arrival;
use earmark_testkit::bench::{Bench, rsvp};
use earmark_wire::intserv::{FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Carried, FilterSpec, FixedFilterFlow,
    FlowDescriptors, Integrity, List, Message, MessageId, Path, PathTear, RefreshIds, RefreshList,
    Resv, ResvTear, RsvpHop, SenderDescriptor, Session, SourceSelector, Srefresh,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Number of the session whose destination is a group, 239.1.1.1.
pub const GROUP: u32 = 0xef01_0101 - 0x0a00_0000;

const UPSTREAM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const DOWNSTREAM: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));

const SECRET: &[u8] = b"what the previous hop and the router share";

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

/// The router.
pub struct Population {
    bench: Bench<Rsvp>,
    adspec: Vec<u8>,
}

impl Population {
    /// Returns the octets of the engine's tables.
    pub fn table_octets(&self) -> usize {
        self.bench.engine.table_octets()
    }

    /// Creates a router with `sessions` reserved sessions, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        let mut population = Population::empty();
        for number in 0..sessions {
            population.handle(&population.path(number));
            population.handle(&population.resv(number));
        }
        assert_eq!(
            population.bench.engine.population(),
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
                population.handle(&with_message_id(&arrival, number));
                message_ids.extend(population.names_sent());
            }
            population.acknowledge(&message_ids);
            population.pass(Duration::from_micros(100));
        }
        population.pass(Duration::from_secs(8));
        assert_eq!(population.bench.engine.population().0, sessions as usize);
        let summarized: usize = population
            .bench
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
            self.handle(&acknowledging(neighbor, names));
        }
    }

    /// MESSAGE_IDs of the last sent messages.
    fn names_sent(&self) -> Vec<MessageId> {
        let messages = self.sent().filter_map(|octets| Message::parse(octets).ok());
        messages.filter_map(|message| message.message_id).collect()
    }

    fn sent(&self) -> impl Iterator<Item = &[u8]> {
        self.bench.out.iter().filter_map(|effect| match effect {
            Effect::Send(_, range) => Some(self.bench.out.octets(range)),
            _ => None,
        })
    }

    /// Advances the time, timer by timer; returns the summary refreshes sent meanwhile.
    pub fn pass(&mut self, duration: Duration) -> Vec<Vec<u8>> {
        let end = self.bench.now + duration;
        let mut summaries = Vec::new();
        while self.bench.advance(end) {
            self.expire();
            let sent = self.sent().filter(|octets| octets[1] == SREFRESH);
            summaries.extend(sent.map(<[u8]>::to_vec));
        }
        summaries
    }

    /// Advances the time to the next deadline, without handling it.
    pub fn wait(&mut self) {
        let (at, _) = self.bench.engine.next_deadline().expect("summaries are due");
        self.bench.advance(at);
    }

    /// Handles the due timers.
    #[inline(never)]
    pub fn expire(&mut self) -> usize {
        self.bench.forget_effects();
        self.bench.give(Input::Expire);
        self.bench.out.len()
    }

    /// Summary refresh of the previous hop for the Paths of these sessions.
    pub fn summary(&self, sessions: impl Iterator<Item = u32>) -> Arrival {
        let ids: Vec<u32> = sessions.collect();
        let names = RefreshIds::Messages(List::Items(&ids));
        let lists = [RefreshList { epoch: EPOCH, ids: names }];
        let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
        of_neighbor(UPSTREAM, Message::new(255, body))
    }

    /// Creates a router with `sessions` sessions whose previous hop signs by HMAC-SHA-256.
    pub fn signed(sessions: u32) -> Population {
        let key = Key {
            id: 1,
            algorithm: Algorithm::HmacSha256,
            secret: Secret::new(SECRET),
            purpose: Directions::Both,
            start: Time::ZERO,
            age: Duration::ZERO,
            end: Time::MAX,
            interfaces: Vec::new(),
            neighbors: Vec::new(),
        };
        let integrity = integrity::Settings {
            interfaces: [("eth1".to_owned(), Directions::Accept)].into(),
            keys: vec![key],
            handshake: HandshakeMode::Off,
            ..integrity::Settings::default()
        };
        let mut population = Population::of(Config { integrity, ..Config::default() });
        for number in 0..sessions {
            population.handle(&sign(&population.path(number), 1 + u64::from(number)));
            population.handle(&population.resv(number));
        }
        assert_eq!(population.bench.engine.population().2, sessions as usize);
        population
    }

    /// Creates the router without sessions.
    pub fn empty() -> Population {
        Population::of(Config::default())
    }

    fn of(config: Config) -> Population {
        let engine = Rsvp::new(config, &RandomStreams::new(1));
        let mut bench = Bench::new(engine, Time::from_secs(1));
        bench.set_large_link(InterfaceId(1), "192.0.2.2");
        bench.set_large_link(InterfaceId(2), "198.51.100.1");
        bench.add_route("10.0.0.0/8", InterfaceId(2), Some("198.51.100.2"));
        Population { bench, adspec: rsvp::adspec() }
    }

    /// Creates a router that forwards the data of a [`GROUP`] through this number of interfaces, the first of which is
    /// eth2.
    pub fn forked(links: u32) -> Population {
        let mut population = Population::empty();
        for link in 1..links {
            let address = format!("198.51.{}.1", 100 + link);
            population.bench.set_large_link(InterfaceId(2 + link), &address);
        }
        population.bench.routes.insert_multicast(MulticastRoute {
            source: None,
            group: names(GROUP).0.destination,
            incoming: Some(InterfaceId(1)),
            outgoing: (0..links).map(|link| InterfaceId(2 + link)).collect(),
        });
        population
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
        arrival(InterfaceId(1), template.source, session.destination, Body::Path(path))
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
        arrival(InterfaceId(1), template.source, session.destination, Body::PathTear(tear))
    }

    /// Resv for session `number`.
    pub fn resv(&self, number: u32) -> Arrival {
        let (_, filter) = names(number);
        let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(TSPEC)), filter };
        self.resv_for(number, FlowDescriptors::FixedFilter(List::Items(&[flow])))
    }

    /// ResvTear for session `number`.
    pub fn resv_tear(&self, number: u32) -> Arrival {
        taken_back(&self.resv(number))
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
            hop: RsvpHop { address, lih: self.bench.engine.lih(interface) },
            refresh_ms: 30_000,
            confirm: None,
            scope: None,
            carried: Carried::Objects(&[]),
            flows,
        };
        let here = self.bench.interfaces.by_id(interface).expect("it is attached").addresses[0];
        arrival(interface, address, here, Body::Resv(resv))
    }

    /// Drops the effects of the last message, as a driver would have by now.
    pub fn forget_effects(&mut self) {
        self.bench.forget_effects();
    }

    /// Handles one message with all its consequences; returns their number.
    #[inline(never)]
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        self.bench.forget_effects();
        self.bench.give(Input::Datagram(arrival.datagram()));
        self.bench.out.len()
    }
}

fn arrival(interface: InterfaceId, source: IpAddr, destination: IpAddr, body: Body<'_>) -> Arrival {
    let ttl = if matches!(body, Body::Path(_) | Body::PathTear(_)) { 62 } else { 255 };
    let octets = rsvp::octets(body, ttl);
    Arrival { interface, source, destination, ttl, router_alert: true, octets }
}

/// Returns this message with MESSAGE_ID and the flag of refresh reduction.
fn with_message_id(arrival: &Arrival, id: u32) -> Arrival {
    let message = Message::parse(&arrival.octets).expect("it was written");
    let message_id = Some(MessageId { flags: MessageId::ACK_DESIRED, epoch: EPOCH, id });
    let message = Message { flags: Message::REFRESH_REDUCTION, message_id, ..message };
    Arrival { octets: rsvp::emit(&message), ..arrival.clone() }
}

/// Returns the ResvTear for this Resv.
fn taken_back(resv: &Arrival) -> Arrival {
    let message = Message::parse(&resv.octets).expect("it was written");
    let Body::Resv(body) = message.body else { panic!("a Resv: {message:?}") };
    let Resv { session, hop, scope, carried, flows, .. } = body;
    let tear = ResvTear { session, hop, scope, carried, flows };
    arrival(resv.interface, resv.source, resv.destination, Body::ResvTear(tear))
}

/// Ack message of a neighbour for these MESSAGE_IDs.
fn acknowledging(neighbor: IpAddr, names: &[MessageId]) -> Arrival {
    let kind = AcknowledgementKind::Ack;
    let names: Vec<Acknowledgement> = names
        .iter()
        .map(|&MessageId { epoch, id, .. }| Acknowledgement { kind, epoch, id })
        .collect();
    let acknowledgements = List::Items(&names);
    of_neighbor(neighbor, Message { acknowledgements, ..Message::new(255, Body::Ack) })
}

/// Signs a message of the previous hop.
pub fn sign(arrival: &Arrival, sequence: u64) -> Arrival {
    let blank = Integrity::blank(0, 1, sequence, 32);
    let mut octets = vec![0; arrival.octets.len() + blank.object_len()];
    blank.insert(&arrival.octets, &mut octets).expect("it fits");
    octets[2..4].fill(0);
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("any length");
    mac.update(&octets);
    Integrity::seal(&mut octets, &mac.finalize().into_bytes()).expect("it has a place for it");
    Arrival { octets, ..arrival.clone() }
}

/// Message to this router from a neighbour with refresh reduction.
fn of_neighbor(neighbor: IpAddr, message: Message<'_>) -> Arrival {
    let (interface, here) = match neighbor {
        UPSTREAM => (InterfaceId(1), Ipv4Addr::new(192, 0, 2, 2)),
        _ => (InterfaceId(2), Ipv4Addr::new(198, 51, 100, 1)),
    };
    let message = Message { flags: Message::REFRESH_REDUCTION, ..message };
    let (source, destination) = (neighbor, here.into());
    let octets = rsvp::emit(&message);
    Arrival { interface, source, destination, ttl: 255, router_alert: true, octets }
}

fn names(number: u32) -> (Session, FilterSpec) {
    let destination = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
    let source = IpAddr::V4(Ipv4Addr::from(0xac10_0000 + number % 65_536));
    let session = Session { destination, protocol: 17, flags: 0, port: 5004 };
    (session, FilterSpec { source, selector: SourceSelector::Port(4000) })
}
