//! Messages of NSIS: GIST in datagrams, and QoS NSLP in it, TMOD-1 with 64 kbit/s, confirmed by the receiver.
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
    Body, Confirm, Direction, Mri, NetworkLayerInformation, Query, ResponderPart, Response,
    Returned, SessionId,
};
use earmark_wire::qos_nslp::iana::NSLPID;
use earmark_wire::udp;

use super::super::nsis::messages::{self, Purpose};
use super::{Arrival, FAR, Message, NEAR, Router, Step};

/// Kinds of messages, with the goals of the engine: a Query, and a RESERVE that refreshes.
pub(super) const MESSAGES: [Message; 7] = [
    Message { name: "Query, new", step: Step::SetUp, goal: Some(4_000), write: query },
    Message { name: "Confirm with RESERVE, new", step: Step::SetUp, goal: None, write: confirm },
    Message { name: "Response, new", step: Step::SetUp, goal: None, write: response },
    Message { name: "RESPONSE", step: Step::SetUp, goal: None, write: confirmation },
    Message { name: "Query, refresh", step: Step::Refresh, goal: Some(4_000), write: known_query },
    Message { name: "RESERVE, refresh", step: Step::Refresh, goal: Some(4_000), write: refresh },
    Message { name: "RESERVE, tear", step: Step::Release, goal: None, write: tear },
];

/// Lifts the limits on GIST messages a second and on state.
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

/// Validity of routing state: longer than any pause between messages here.
pub(super) const VALIDITY: Duration = Duration::from_secs(180);

/// A neighbor of the router: its address, the router's address on this link, and the router's interface.
pub(super) struct Neighbor {
    address: IpAddr,
    router: IpAddr,
    interface: earmark_core::InterfaceId,
    identity: [u8; 4],
}

pub(super) const PREVIOUS: Neighbor = Neighbor {
    address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    router: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    interface: NEAR,
    identity: [192, 0, 2, 1],
};
pub(super) const NEXT: Neighbor = Neighbor {
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
}

/// GIST for an application.
pub(super) struct Signalling {
    pub(super) nslpid: u16,
}

/// GIST for QoS NSLP.
const SIGNALLING: Signalling = Signalling { nslpid: NSLPID };

impl Signalling {
    /// Returns a message of a neighbor to the router.
    fn write_datagram(&self, from: &Neighbor, number: u32, body: Body<'_>) -> Arrival {
        self.sends(from, number, (from.address, from.router), body)
    }

    /// Returns a message of a neighbor between these addresses.
    fn sends(
        &self,
        from: &Neighbor,
        session: u32,
        (source, destination): (IpAddr, IpAddr),
        body: Body<'_>,
    ) -> Arrival {
        let source_is_peer = source == from.address;
        let mut octets = Vec::new();
        let addresses = (source, destination);
        messages::write_for(self.nslpid, addresses, 64, source_is_peer, body, &mut octets);
        let (protocol, interface) = (udp::PROTOCOL, from.interface);
        Arrival { session, protocol, interface, source, destination, octets }
    }

    /// Returns a Query for a session.
    pub(super) fn ask(&self, number: u32, session: SessionId) -> Arrival {
        let body = Body::Query(Query {
            nat_traversal: None,
            mri: mri(number, Direction::Downstream),
            session,
            nli: PREVIOUS.nli(),
            query_cookie: &[0x51; 16],
            stack: None,
            nslp_data: None,
        });
        // A Query looks like a packet of the flow.
        self.sends(&PREVIOUS, number, ends(number), body)
    }

    /// Returns the Confirm with the first request of a session.
    pub(super) fn confirm(
        &self,
        router: &Router,
        number: u32,
        round: u32,
        request: &[u8],
    ) -> Arrival {
        let Body::Response(response) = last_answer(router, number) else { panic!("no Response") };
        let cookie = response.responder.expect("it wants to be confirmed").cookie;
        let body = Body::Confirm(Confirm {
            mri: mri(number, Direction::Downstream),
            session: session(number, round),
            nli: PREVIOUS.nli(),
            returned: Some(Returned { cookie, proposal: None, configuration: None }),
            nslp_data: Some(request),
        });
        self.write_datagram(&PREVIOUS, number, body)
    }

    /// Returns the Response to the Query of the router.
    pub(super) fn response(&self, router: &Router, number: u32, round: u32) -> Arrival {
        let Body::Query(query) = last_answer(router, number) else { panic!("no Query") };
        let body = Body::Response(Response {
            nat_traversal: None,
            mri: mri(number, Direction::Upstream),
            session: session(number, round),
            nli: NEXT.nli(),
            query_cookie: query.query_cookie,
            responder: Some(ResponderPart { cookie: &[0x52; 16], stack: None }),
            confirm_requested: true,
            nslp_data: None,
        });
        self.write_datagram(&NEXT, number, body)
    }

    /// Returns a message of the application along existing routing state.
    pub(super) fn data(
        &self,
        from: &Neighbor,
        number: u32,
        (mri, session): (Mri, SessionId),
        octets: &[u8],
    ) -> Arrival {
        self.write_datagram(from, number, messages::data(mri, session, from.nli(), octets))
    }
}

pub(super) fn session(number: u32, round: u32) -> SessionId {
    messages::session(u64::from(round) << 32 | u64::from(number))
}

fn ends(number: u32) -> (IpAddr, IpAddr) {
    let source = Ipv4Addr::from_bits(0xac10_0000 + number % 65_536);
    (source.into(), Ipv4Addr::from_bits(0x0a00_0000 + number).into())
}

pub(super) fn mri(number: u32, direction: Direction) -> Mri {
    messages::flow(ends(number), [4_000, 5_004], direction)
}

fn query(_: &Router, number: u32, round: u32) -> Arrival {
    SIGNALLING.ask(number, session(number, round))
}

fn known_query(_: &Router, number: u32, _: u32) -> Arrival {
    SIGNALLING.ask(number, session(number, 0))
}

fn confirm(router: &Router, number: u32, round: u32) -> Arrival {
    let reserve = messages::reserve(Purpose::SetUp(8_000.0, number), None);
    SIGNALLING.confirm(router, number, round, &reserve)
}

fn response(router: &Router, number: u32, round: u32) -> Arrival {
    SIGNALLING.response(router, number, round)
}

/// Returns the message that the router has sent about the previous message of the session.
fn last_answer(router: &Router, number: u32) -> Body<'_> {
    let octets = router.answer(number).expect("the router has answered");
    messages::body(octets).expect("a message of GIST")
}

fn confirmation(_: &Router, number: u32, round: u32) -> Arrival {
    let named = (mri(number, Direction::Upstream), session(number, round));
    SIGNALLING.data(&NEXT, number, named, &messages::response(number))
}

fn refresh(_: &Router, number: u32, _: u32) -> Arrival {
    goes_on(Purpose::Refresh, number, session(number, 0))
}

fn tear(_: &Router, number: u32, round: u32) -> Arrival {
    goes_on(Purpose::Tear, number, session(number, round))
}

/// Returns a RESERVE of the initiator about an existing session.
fn goes_on(purpose: Purpose, number: u32, session: SessionId) -> Arrival {
    let octets = messages::reserve(purpose, None);
    SIGNALLING.data(&PREVIOUS, number, (mri(number, Direction::Downstream), session), &octets)
}
