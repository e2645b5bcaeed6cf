//! NSIS's messages: GIST in datagrams, and QoS NSLP in it, TMOD-1 with 64 kbit/s, confirmed by the receiver.
//!
//! ```text
//! near                         router                          far
//!   Query ---------------------->
//!   <--------------------- Response
//!   Confirm, RESERVE ----------->   Query ---------------------->
//!                                   <------------------- Response
//!                                   Confirm, RESERVE ----------->
//!   <--------------------- RESPONSE <------------------- RESPONSE
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_wire::gist::{
    Body, Confirm, Continuation, Data, Direction, Extensions, MAGIC_LEN, Message as Gist, Mode,
    Mri, NetworkLayerInformation, PathCoupled, Query, ResponderPart, Response, Returned, SessionId,
    datagram, emit_magic,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::qos_nslp::iana::{NSLPID, Success};
use earmark_wire::qos_nslp::{
    Answers, BoundSessions, Extra, GenericFlags, InfoSpec, Message as QosNslp, Outcome, Reserve,
    Response as QosResponse, Rsn,
};
use earmark_wire::qspec::iana::MessageSequence;
use earmark_wire::qspec::{Parameter, Procedure, QosObject, Qspec, Value};
use earmark_wire::udp;

use super::{Arrival, FAR, Message, NEAR, Router, Step};

/// The goals are those of the engine: a Query, and a RESERVE that refreshes.
pub(super) const MESSAGES: [Message; 7] = [
    Message { name: "Query, new", step: Step::SetUp, goal: Some(4_000), write: query },
    Message { name: "Confirm with RESERVE, new", step: Step::SetUp, goal: None, write: confirm },
    Message { name: "Response, new", step: Step::SetUp, goal: None, write: response },
    Message { name: "RESPONSE", step: Step::SetUp, goal: None, write: confirmation },
    Message { name: "Query, refresh", step: Step::Refresh, goal: Some(4_000), write: known_query },
    Message { name: "RESERVE, refresh", step: Step::Refresh, goal: Some(4_000), write: refresh },
    Message { name: "RESERVE, tear", step: Step::Release, goal: None, write: tear },
];

/// Nobody is kept from sending many messages of GIST, nor from having much state.
pub(in crate::bench) fn lift_limits(gist: &mut earmark_nsis::gist::Config) {
    let limits = &mut gist.limits;
    for limit in [
        &mut limits.states,
        &mut limits.states_per_peer,
        &mut limits.queries_per_second,
        &mut limits.queries_per_second_of_a_peer,
        &mut limits.datagrams_per_second,
    ] {
        *limit = u32::MAX;
    }
}

/// How long routing state holds: longer than anybody here is silent.
pub(super) const VALIDITY: Duration = Duration::from_secs(180);

/// A neighbour of the router: its address, that of the router towards it, and the router's interface.
struct Neighbor {
    address: IpAddr,
    router: IpAddr,
    interface: earmark_core::InterfaceId,
    identity: [u8; 4],
}

const BEFORE: Neighbor = Neighbor {
    address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    router: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    interface: NEAR,
    identity: [192, 0, 2, 1],
};
const BEHIND: Neighbor = Neighbor {
    address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)),
    router: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    interface: FAR,
    identity: [198, 51, 100, 2],
};

impl Neighbor {
    fn nli(&self) -> NetworkLayerInformation<'_> {
        NetworkLayerInformation {
            peer_identity: &self.identity,
            ip_ttl: 64,
            interface_address: self.address,
            routing_state_validity: VALIDITY.as_millis() as u32,
        }
    }

    /// A message to the router.
    fn tells(&self, number: u32, body: Body<'_>) -> Arrival {
        self.sends(number, (self.address, self.router), body)
    }

    /// A message between these addresses.
    fn sends(
        &self,
        session: u32,
        (source, destination): (IpAddr, IpAddr),
        body: Body<'_>,
    ) -> Arrival {
        let source_is_peer = source == self.address;
        let extensions = Extensions::NONE;
        let message = Gist { hops: 64, nslpid: NSLPID, source_is_peer, body, extensions };
        let mut octets = vec![0; udp::HEADER + MAGIC_LEN + message.buffer_len()];
        let room = emit_magic(&mut octets[udp::HEADER..]).expect("it fits");
        message.emit(room).expect("it fits");
        let port = earmark_nsis::PORT;
        udp::Repr { source, destination, source_port: port, destination_port: port }
            .emit(&mut octets)
            .expect("it fits");
        let (protocol, interface) = (udp::PROTOCOL, self.interface);
        Arrival { session, protocol, interface, source, destination, octets }
    }
}

fn session(number: u32, round: u32) -> SessionId {
    // As random as names of sessions are.
    let name = u128::from(u64::from(round) << 32 | u64::from(number)) + 1;
    SessionId(name.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
}

fn ends(number: u32) -> (IpAddr, IpAddr) {
    let source = Ipv4Addr::from_bits(0xac10_0000 + number % 65_536);
    (source.into(), Ipv4Addr::from_bits(0x0a00_0000 + number).into())
}

fn mri(number: u32, direction: Direction) -> Mri {
    let (source, destination) = ends(number);
    Mri::PathCoupled(PathCoupled {
        source,
        destination,
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(udp::PROTOCOL),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(4_000),
        destination_port: Some(5_004),
        direction,
    })
}

fn query(_: &Router, number: u32, round: u32) -> Arrival {
    ask(number, session(number, round))
}

fn known_query(_: &Router, number: u32, _: u32) -> Arrival {
    ask(number, session(number, 0))
}

fn ask(number: u32, session: SessionId) -> Arrival {
    let body = Body::Query(Query {
        nat_traversal: None,
        mri: mri(number, Direction::Downstream),
        session,
        nli: BEFORE.nli(),
        query_cookie: &[0x51; 16],
        stack: None,
        nslp_data: None,
    });
    // It looks like a packet of the flow.
    BEFORE.sends(number, ends(number), body)
}

fn confirm(router: &Router, number: u32, round: u32) -> Arrival {
    let Body::Response(response) = heard(router, number) else { panic!("no Response") };
    let cookie = response.responder.expect("it wants to be confirmed").cookie;
    let mut room = Vec::new();
    let body = Body::Confirm(Confirm {
        mri: mri(number, Direction::Downstream),
        session: session(number, round),
        nli: BEFORE.nli(),
        returned: Some(Returned { cookie, proposal: None, configuration: None }),
        nslp_data: Some(reserve(number, true, false, &mut room)),
    });
    BEFORE.tells(number, body)
}

fn response(router: &Router, number: u32, round: u32) -> Arrival {
    let Body::Query(query) = heard(router, number) else { panic!("no Query") };
    let body = Body::Response(Response {
        nat_traversal: None,
        mri: mri(number, Direction::Upstream),
        session: session(number, round),
        nli: BEHIND.nli(),
        query_cookie: query.query_cookie,
        responder: Some(ResponderPart { cookie: &[0x52; 16], stack: None }),
        confirm_requested: true,
        nslp_data: None,
    });
    BEHIND.tells(number, body)
}

/// What the router has sent about the message of a session before.
fn heard(router: &Router, number: u32) -> Body<'_> {
    let octets = router.answer(number).expect("the router has answered");
    let octets = datagram(&octets[udp::HEADER..]).expect("GIST");
    Gist::parse(octets, Mode::D).expect("a message").body
}

fn confirmation(_: &Router, number: u32, round: u32) -> Arrival {
    let message = QosNslp::Response(QosResponse {
        flags: GenericFlags::default(),
        answers: Some(Answers::Rii(number)),
        info: InfoSpec::new(Outcome::Success(Success::Reservation)),
        summary: None,
        qspec: None,
        extra: Extra::NONE,
    });
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    let session = session(number, round);
    BEHIND.tells(number, data(&BEHIND, mri(number, Direction::Upstream), session, &octets))
}

fn refresh(_: &Router, number: u32, _: u32) -> Arrival {
    let mut room = Vec::new();
    let octets = reserve(number, false, false, &mut room);
    let mri = mri(number, Direction::Downstream);
    BEFORE.tells(number, data(&BEFORE, mri, session(number, 0), octets))
}

fn tear(_: &Router, number: u32, round: u32) -> Arrival {
    let mut room = Vec::new();
    let octets = reserve(number, false, true, &mut room);
    let mri = mri(number, Direction::Downstream);
    BEFORE.tells(number, data(&BEFORE, mri, session(number, round), octets))
}

fn data<'a>(from: &'a Neighbor, mri: Mri, session: SessionId, nslp_data: &'a [u8]) -> Body<'a> {
    Body::Data(Data {
        nat_traversal: None,
        mri,
        session,
        nli: Some(from.nli()),
        nslp_data,
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    })
}

/// A RESERVE: with a QSPEC and a wish for a RESPONSE, or one that only says that its session goes on or ends.
fn reserve(number: u32, whole: bool, tear: bool, room: &mut Vec<u8>) -> &[u8] {
    let bucket = TokenBucket {
        rate: 8_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    };
    let desired = [Parameter::mandatory(Value::Tmod1(bucket))];
    let procedure = Procedure { sequence: MessageSequence::TwoWay, combination: 0 };
    let qspec = Qspec { desired: Some(QosObject::new(&desired)), ..Qspec::new(procedure) };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).expect("it fits");
    let message = QosNslp::Reserve(Reserve {
        flags: GenericFlags::default(),
        tear,
        replace: true,
        rsn: Rsn { number: 0, epoch: 4_711 },
        rii: whole.then_some(number),
        refresh_period: None,
        bound: BoundSessions::NONE,
        summary: None,
        binding: None,
        info: None,
        classifier: None,
        qspec: whole.then_some(&octets[..]),
        extra: Extra::NONE,
    });
    room.resize(message.buffer_len(), 0);
    message.emit(room).expect("it fits");
    room
}
