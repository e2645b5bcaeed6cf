//! A router with many sessions of QoS NSLP on GIST, and the datagrams of its neighbors: sessions of 64 kbit/s each,
//! confirmed by the receiver.
#![allow(dead_code, unreachable_pub)]

mod qos_messages;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{Input, InterfaceId, Time};
use earmark_nsis::{Config, Nsis, PORT};
pub use earmark_testkit::bench::Arrival;
use earmark_testkit::bench::Bench;
use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::{
    Body, Confirm, Continuation, Data, Direction, Extensions, MAGIC_LEN, Message as Gist, Mode,
    Mri, NetworkLayerInformation, PathCoupled, Query, ResponderPart, Response, Returned, datagram,
    emit_magic,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::qos_nslp::iana::NSLPID;
use earmark_wire::udp;

use qos_messages::session;

/// Routing state validity.
const VALIDITY: Duration = Duration::from_secs(180);

/// The previous and the next neighbor of the router: its address, the address of the router towards it, the interface
/// of the router.
const BEFORE: Neighbor = Neighbor::new([192, 0, 2, 1], [192, 0, 2, 2], 1);
const BEHIND: Neighbor = Neighbor::new([198, 51, 100, 2], [198, 51, 100, 1], 2);

struct Neighbor {
    address: Ipv4Addr,
    router: Ipv4Addr,
    interface: InterfaceId,
    identity: [u8; 4],
}

impl Neighbor {
    const fn new(address: [u8; 4], router: [u8; 4], interface: u32) -> Neighbor {
        let [a, b, c, d] = router;
        let router = Ipv4Addr::new(a, b, c, d);
        let [a, b, c, d] = address;
        let interface = InterfaceId(interface);
        Neighbor { address: Ipv4Addr::new(a, b, c, d), router, interface, identity: address }
    }

    fn nli(&self) -> NetworkLayerInformation<'_> {
        NetworkLayerInformation {
            peer_identity: &self.identity,
            ip_ttl: 64,
            interface_address: self.address.into(),
            routing_state_validity: VALIDITY.as_millis() as u32,
        }
    }

    /// Returns a message to the router.
    fn to_router(&self, body: Body<'_>) -> Arrival {
        self.between((self.address.into(), self.router.into()), body)
    }

    /// Returns a message between these addresses.
    fn between(&self, (source, destination): (IpAddr, IpAddr), body: Body<'_>) -> Arrival {
        let source_is_peer = source == self.address;
        let extensions = Extensions::NONE;
        let message = Gist { hops: 64, nslpid: NSLPID, source_is_peer, body, extensions };
        let mut octets = vec![0; udp::HEADER + MAGIC_LEN + message.buffer_len()];
        let room = emit_magic(&mut octets[udp::HEADER..]).expect("it fits");
        message.emit(room).expect("it fits");
        let header = udp::Repr { source, destination, source_port: PORT, destination_port: PORT };
        header.emit(&mut octets).expect("it fits");
        let interface = self.interface;
        Arrival { interface, source, destination, ttl: 62, router_alert: true, octets }
    }

    fn data(&self, number: u32, direction: Direction, octets: &[u8]) -> Arrival {
        self.to_router(Body::Data(Data {
            nat_traversal: None,
            mri: mri(number, direction),
            session: session(number),
            nli: Some(self.nli()),
            nslp_data: octets,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        }))
    }
}

/// The router.
pub struct Population(Bench<Nsis>);

impl Population {
    /// Creates a router with `sessions` sessions, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        let mut population = Population::empty();
        for number in 0..sessions {
            let query = query(number);
            population.handle(&query);
            let confirm = population.confirm(number);
            population.handle(&confirm);
            let response = population.response(number);
            population.handle(&response);
            population.handle(&confirmation(number));
        }
        assert_eq!(population.0.engine.gist().routing_state_count(), sessions as usize);
        assert_eq!(population.0.engine.qos().session_count(), sessions as usize);
        population
    }

    fn empty() -> Population {
        let mut config = Config::default();
        config.gist.validity = VALIDITY;
        let limits = &mut config.gist.limits;
        limits.datagrams_per_second = u32::MAX;
        limits.queries_per_second = u32::MAX;
        limits.queries_per_second_of_a_peer = u32::MAX;
        config.qos.limits.changes_per_second = u32::MAX;
        let engine = Nsis::new(config, &RandomStreams::new(1));
        let mut bench = Bench::new(engine, Time::from_secs(1));
        for (neighbor, leads_to) in [(BEFORE, "172.16.0.0/12"), (BEHIND, "10.0.0.0/8")] {
            bench.set_large_link(neighbor.interface, &neighbor.router.to_string());
            bench.add_route(leads_to, neighbor.interface, Some(&neighbor.address.to_string()));
        }
        Population(bench)
    }

    /// Passes a message to the router; returns the number of effects.
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        self.0.forget_effects();
        self.0.give(Input::Datagram(arrival.datagram()));
        self.0.out.len()
    }

    /// Drops the effects of the setup, so that they do not count for the measured message.
    pub fn forget_effects(&mut self) {
        self.0.forget_effects();
    }

    /// Returns the Confirm to the latest Response of the router, with the RESERVE in it.
    pub fn confirm(&self, number: u32) -> Arrival {
        let Body::Response(response) = self.last_sent() else { panic!("no Response") };
        let cookie = response.responder.expect("it wants to be confirmed").cookie;
        BEFORE.to_router(Body::Confirm(Confirm {
            mri: mri(number, Direction::Downstream),
            session: session(number),
            nli: BEFORE.nli(),
            returned: Some(Returned { cookie, proposal: None, configuration: None }),
            nslp_data: Some(&request(number)),
        }))
    }

    /// Returns the Response to the latest Query of the router.
    pub fn response(&self, number: u32) -> Arrival {
        let Body::Query(query) = self.last_sent() else { panic!("no Query") };
        BEHIND.to_router(Body::Response(Response {
            nat_traversal: None,
            mri: mri(number, Direction::Upstream),
            session: session(number),
            nli: BEHIND.nli(),
            query_cookie: query.query_cookie,
            responder: Some(ResponderPart { cookie: &[0x52; 16], stack: None }),
            confirm_requested: true,
            nslp_data: None,
        }))
    }

    /// Returns the latest message of the router.
    fn last_sent(&self) -> Body<'_> {
        let (_, octets) = self.0.sent().last().expect("the router has answered");
        let octets = datagram(&octets[udp::HEADER..]).expect("GIST");
        Gist::parse(octets, Mode::D).expect("a message").body
    }
}

fn ends(number: u32) -> (IpAddr, IpAddr) {
    let source = Ipv4Addr::from_bits(0xac10_0000 + number % 65_536);
    (source.into(), Ipv4Addr::from_bits(0x0a00_0000 + number).into())
}

fn mri(number: u32, direction: Direction) -> Mri {
    let (source, destination) = ends(number);
    let flow = udp_flow((source, 4_000), (destination, 5_004));
    Mri::PathCoupled(PathCoupled { direction, ..flow })
}

/// Returns the Query that starts a session, or refreshes its routing state. It looks like a packet of the flow.
pub fn query(number: u32) -> Arrival {
    let body = Body::Query(Query {
        nat_traversal: None,
        mri: mri(number, Direction::Downstream),
        session: session(number),
        nli: BEFORE.nli(),
        query_cookie: &[0x51; 16],
        stack: None,
        nslp_data: None,
    });
    BEFORE.between(ends(number), body)
}

/// Returns the RESPONSE of the receiver.
pub fn confirmation(number: u32) -> Arrival {
    BEHIND.data(number, Direction::Upstream, &qos_messages::response(number))
}

/// Returns a RESERVE that refreshes a session.
pub fn refresh(number: u32) -> Arrival {
    BEFORE.data(number, Direction::Downstream, &qos_messages::reserve(number, None, false))
}

/// Returns a RESERVE that tears a session down.
pub fn tear(number: u32) -> Arrival {
    BEFORE.data(number, Direction::Downstream, &qos_messages::reserve(number, None, true))
}

/// Returns a RESERVE that creates a session, and requests a RESPONSE.
fn request(number: u32) -> Vec<u8> {
    let wanted = qos_messages::qspec(TokenBucket {
        rate: 8_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    });
    qos_messages::reserve(number, Some(&wanted), false)
}
