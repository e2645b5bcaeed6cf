//! NSIS messages of both ends: GIST in datagrams, with QoS NSLP in them. Neither end keeps session state: the next
//! message follows from the received one.
//!
//! ```text
//!   s                                r1                                d
//!     Query ------------------------->
//!     <---------------------- Response
//!     Confirm, RESERVE -------------->  Query ------------------------->
//!                                       <---------------------- Response
//!                                       Confirm, RESERVE -------------->
//!     <---------------------- RESPONSE  <---------------------- RESPONSE
//!     RESERVE, tear ----------------->  RESERVE, tear ----------------->
//! ```
//!
//! A router removes the routing state of a session together with its reservation (RFC 5974 section 5.4.1, RFC 5971
//! section 4.4.4), so that every set-up begins with the handshakes.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::{Effects, Outgoing};
use earmark_wire::gist::{
    Body, Confirm, Data, Direction, Mri, NetworkLayerInformation, Query, ResponderPart, Response,
    Returned, SessionId,
};
use earmark_wire::qos_nslp::{Message as QosNslp, Outcome};
use earmark_wire::udp;

use super::super::nsis::spoken::{self, Does, body};
use super::super::session::TTL;
use super::speaker::{RATE, Speaker, Step};

/// Validity of routing state: longer than any measurement, so that none is refreshed meanwhile.
pub(super) const VALIDITY: Duration = Duration::from_secs(3_600);
/// Hop count to the router, a neighbor of both ends.
const HOPS_TO_ROUTER: u8 = 1;
/// RII of every RESERVE; one in each session is enough.
const RII: u32 = 1;

/// Effect of a received message on a set-up or a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// None.
    Nothing,
    /// The set-up continues.
    Step,
    /// The set-up or the release is complete.
    Last,
}

/// A host with GIST; a router is its peer.
#[derive(Clone, Copy, Debug)]
struct Host {
    address: IpAddr,
    identity: [u8; 4],
}

/// Message handler of the sender.
#[derive(Debug)]
pub(super) struct Asking {
    host: Host,
    reserve: Vec<u8>,
    room: Vec<u8>,
}

/// Message handler of the destination.
#[derive(Debug)]
pub(super) struct Answering {
    host: Host,
    response: Vec<u8>,
    room: Vec<u8>,
}

/// Writes the sender's first message of a step into `octets`; returns its envelope.
pub(super) fn write(speaker: &Speaker, number: u32, step: Step, octets: &mut Vec<u8>) -> Outgoing {
    let host = Host::new(speaker.sessions.sender);
    let (mri, session) = (mri(speaker, number), session(number));
    if step == Step::SetUp {
        let body = Body::Query(Query {
            nat_traversal: None,
            mri,
            session,
            nli: host.nli(Direction::Downstream),
            query_cookie: &number.to_be_bytes(),
            stack: None,
            nslp_data: None,
        });
        let way = host.write(speaker.to.into(), body, octets);
        // A Query follows the flow with router alert, and a GIST node on the path intercepts it.
        return Outgoing { router_alert: true, ..way };
    }
    let reserve = reserve(step, speaker.sessions.refresh);
    host.write(speaker.router.into(), host.data(mri, session, &reserve), octets)
}

impl Asking {
    pub(super) fn new(speaker: &Speaker) -> Asking {
        let host = Host::new(speaker.sessions.sender);
        let reserve = reserve(Step::SetUp, speaker.sessions.refresh);
        Asking { host, reserve, room: Vec::new() }
    }

    /// Handles a datagram: confirms a Response, with the RESERVE in the Confirm. A RESPONSE that reports success
    /// completes a set-up.
    pub(super) fn hear(&mut self, octets: &[u8], outbox: &mut Effects<Infallible>) -> Heard {
        match body(octets) {
            Some(Body::Response(Response { mri, session, nli, responder: Some(part), .. })) => {
                let body = Body::Confirm(Confirm {
                    mri: mri.inverted(),
                    session,
                    nli: self.host.nli(Direction::Downstream),
                    returned: Some(Returned {
                        cookie: part.cookie,
                        proposal: None,
                        configuration: None,
                    }),
                    nslp_data: Some(&self.reserve),
                });
                let way = self.host.write(nli.interface_address, body, &mut self.room);
                outbox.send_copy(way, &self.room);
                Heard::Step
            }
            Some(Body::Data(data)) => match QosNslp::parse(data.nslp_data) {
                Ok(QosNslp::Response(response))
                    if matches!(response.info.outcome, Outcome::Success(_)) =>
                {
                    Heard::Last
                }
                _ => Heard::Nothing,
            },
            _ => Heard::Nothing,
        }
    }
}

impl Answering {
    pub(super) fn new(speaker: &Speaker) -> Answering {
        let host = Host::new(speaker.to);
        Answering { host, response: spoken::response(RII), room: Vec::new() }
    }

    /// Handles a datagram: answers a Query, and a RESERVE that requests a RESPONSE. A RESERVE that tears down
    /// completes a release.
    pub(super) fn hear(&mut self, octets: &[u8], outbox: &mut Effects<Infallible>) -> Heard {
        match body(octets) {
            Some(Body::Query(query)) => {
                let body = Body::Response(Response {
                    nat_traversal: None,
                    mri: query.mri.inverted(),
                    session: query.session,
                    nli: self.host.nli(Direction::Upstream),
                    query_cookie: query.query_cookie,
                    responder: Some(ResponderPart { cookie: &[0x52; 16], stack: None }),
                    confirm_requested: true,
                    nslp_data: None,
                });
                let way = self.host.write(query.nli.interface_address, body, &mut self.room);
                outbox.send_copy(way, &self.room);
                Heard::Step
            }
            Some(Body::Confirm(Confirm { mri, session, nli, nslp_data: Some(data), .. })) => {
                self.reserve(mri, session, nli.interface_address, data, outbox)
            }
            Some(Body::Data(Data { mri, session, nli: Some(nli), nslp_data, .. })) => {
                self.reserve(mri, session, nli.interface_address, nslp_data, outbox)
            }
            _ => Heard::Nothing,
        }
    }

    fn reserve(
        &mut self,
        mri: Mri,
        session: SessionId,
        from: IpAddr,
        octets: &[u8],
        outbox: &mut Effects<Infallible>,
    ) -> Heard {
        let Ok(QosNslp::Reserve(reserve)) = QosNslp::parse(octets) else { return Heard::Nothing };
        match reserve.rii {
            Some(_) => {
                let body = self.host.data(mri.inverted(), session, &self.response);
                let way = self.host.write(from, body, &mut self.room);
                outbox.send_copy(way, &self.room);
                Heard::Step
            }
            None if reserve.tear => Heard::Last,
            None => Heard::Nothing,
        }
    }
}

impl Host {
    fn new(address: Ipv4Addr) -> Host {
        Host { address: address.into(), identity: address.octets() }
    }

    /// Returns the Network-Layer-Information of this host for a message in this direction (RFC 5971 section 5.2.2).
    fn nli(&self, direction: Direction) -> NetworkLayerInformation<'_> {
        NetworkLayerInformation {
            peer_identity: &self.identity,
            ip_ttl: match direction {
                Direction::Downstream => TTL,
                Direction::Upstream => HOPS_TO_ROUTER,
            },
            interface_address: self.address,
            routing_state_validity: VALIDITY.as_millis() as u32,
        }
    }

    fn data<'a>(&'a self, mri: Mri, session: SessionId, nslp_data: &'a [u8]) -> Body<'a> {
        spoken::data(mri, session, self.nli(mri.direction()), nslp_data)
    }

    /// Writes a message and the header of its datagram into `octets`; returns its envelope.
    fn write(&self, to: IpAddr, body: Body<'_>, octets: &mut Vec<u8>) -> Outgoing {
        spoken::write((self.address, to), TTL, true, body, octets);
        Outgoing {
            protocol: udp::PROTOCOL,
            interface: None,
            source: self.address,
            destination: to,
            ttl: TTL,
            router_alert: false,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        }
    }
}

fn session(number: u32) -> SessionId {
    spoken::session(number.into())
}

/// The flow of a session, towards its destination.
fn mri(speaker: &Speaker, number: u32) -> Mri {
    let ends = (speaker.sessions.sender.into(), speaker.to.into());
    spoken::flow(ends, Speaker::ports_of(number), Direction::Downstream)
}

fn reserve(step: Step, refresh: Duration) -> Vec<u8> {
    let does = match step {
        Step::SetUp => Does::Make((RATE / 8) as f32, RII),
        Step::Refresh => Does::Refresh,
        Step::Release => Does::Tear,
    };
    spoken::reserve(does, Some(refresh))
}

#[cfg(test)]
mod tests {
    use earmark_core::Effect;

    use super::super::speaker::{Protocol, SESSIONS, tests::speaker};
    use super::*;

    /// Takes the one message of an outbox, with its destination; leaves the outbox empty.
    fn only(outbox: &mut Effects<Infallible>) -> (IpAddr, Vec<u8>) {
        let messages: Vec<_> = outbox.iter().cloned().collect();
        let [Effect::Send(way, range)] = &messages[..] else { panic!("{messages:?}") };
        let message = (way.destination, outbox.octets(range).to_vec());
        outbox.clear();
        message
    }

    /// Both ends can exchange messages directly, without a router.
    #[test]
    fn a_session_is_set_up_refreshed_and_released() {
        for number in [0, 25_000, SESSIONS - 1] {
            let speaker = speaker(Protocol::Nsis);
            let (from, to) = (speaker.sessions.sender, speaker.to);
            let (mut asking, mut answering) = (Asking::new(&speaker), Answering::new(&speaker));
            let (mut octets, mut outbox) = (Vec::new(), Effects::new());
            let way = write(&speaker, number, Step::SetUp, &mut octets);
            assert_eq!((way.destination, way.router_alert), (to.into(), true));
            assert_eq!(answering.hear(&octets, &mut outbox), Heard::Step);
            let (whom, response) = only(&mut outbox);
            assert_eq!(whom, IpAddr::from(from));
            assert_eq!(asking.hear(&response, &mut outbox), Heard::Step);
            let (whom, confirm) = only(&mut outbox);
            assert_eq!(whom, IpAddr::from(to));
            assert_eq!(answering.hear(&confirm, &mut outbox), Heard::Step);
            let (_, answer) = only(&mut outbox);
            assert_eq!(asking.hear(&answer, &mut outbox), Heard::Last);
            let others = [(Step::Refresh, Heard::Nothing), (Step::Release, Heard::Last)];
            for (step, heard) in others {
                let way = write(&speaker, number, step, &mut octets);
                assert_eq!((way.destination, way.router_alert), (speaker.router.into(), false));
                assert_eq!(answering.hear(&octets, &mut outbox), heard);
                assert!(outbox.is_empty(), "nobody wants an answer");
            }
        }
    }

    #[test]
    fn session_ids_are_unique() {
        let speaker = speaker(Protocol::Nsis);
        let [one, other] = [7, 25_007].map(|number| (session(number), mri(&speaker, number)));
        assert_ne!(one.0, other.0);
        assert_ne!(one.1, other.1);
    }

    #[test]
    fn malformed_message_is_not_answered() {
        let speaker = speaker(Protocol::Nsis);
        let mut outbox = Effects::new();
        let mut octets = Vec::new();
        write(&speaker, 1, Step::SetUp, &mut octets);
        for length in 0..octets.len() {
            let cut = &octets[..length];
            assert_eq!(Asking::new(&speaker).hear(cut, &mut outbox), Heard::Nothing);
            assert_eq!(Answering::new(&speaker).hear(cut, &mut outbox), Heard::Nothing);
        }
        assert!(outbox.is_empty());
    }
}
