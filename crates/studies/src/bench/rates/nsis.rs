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

use super::super::nsis::messages::{self, Purpose, body};
use super::super::session::{TTL, envelope};
use super::message_writer::{MessageWriter, RATE};
use crate::bench::router::Step;

/// Validity of routing state: longer than any measurement, so that none is refreshed meanwhile.
pub(super) const VALIDITY: Duration = Duration::from_secs(3_600);
/// Hop count to the router, a neighbor of both ends.
const HOPS_TO_ROUTER: u8 = 1;
/// RII of every RESERVE; one in each session is enough.
const RII: u32 = 1;

/// Effect of a received message on a set-up or a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetUpProgress {
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
pub(super) struct Initiator {
    host: Host,
    reserve: Vec<u8>,
    buffer: Vec<u8>,
}

/// Message handler of the destination.
#[derive(Debug)]
pub(super) struct Responder {
    host: Host,
    response: Vec<u8>,
    buffer: Vec<u8>,
}

/// Writes the sender's first message of a step into `octets`; returns its envelope.
pub(super) fn write(
    writer: &MessageWriter,
    number: u32,
    step: Step,
    octets: &mut Vec<u8>,
) -> Outgoing {
    let host = Host::new(writer.sessions.sender);
    let (mri, session) = (mri(writer, number), session(number));
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
        let envelope = host.write(writer.to.into(), body, octets);
        // A Query follows the flow with router alert, and a GIST node on the path intercepts it.
        return Outgoing { router_alert: true, ..envelope };
    }
    let reserve = reserve(step, writer.sessions.refresh);
    host.write(writer.router.into(), host.data(mri, session, &reserve), octets)
}

impl Initiator {
    pub(super) fn new(writer: &MessageWriter) -> Initiator {
        let host = Host::new(writer.sessions.sender);
        let reserve = reserve(Step::SetUp, writer.sessions.refresh);
        Initiator { host, reserve, buffer: Vec::new() }
    }

    /// Handles a datagram: confirms a Response, with the RESERVE in the Confirm. A RESPONSE that reports success
    /// completes a set-up.
    pub(super) fn handle(
        &mut self,
        octets: &[u8],
        outbox: &mut Effects<Infallible>,
    ) -> SetUpProgress {
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
                let envelope = self.host.write(nli.interface_address, body, &mut self.buffer);
                outbox.send_copy(envelope, &self.buffer);
                SetUpProgress::Step
            }
            Some(Body::Data(data)) => match QosNslp::parse(data.nslp_data) {
                Ok(QosNslp::Response(response))
                    if matches!(response.info.outcome, Outcome::Success(_)) =>
                {
                    SetUpProgress::Last
                }
                _ => SetUpProgress::Nothing,
            },
            _ => SetUpProgress::Nothing,
        }
    }
}

impl Responder {
    pub(super) fn new(writer: &MessageWriter) -> Responder {
        let host = Host::new(writer.to);
        Responder { host, response: messages::response(RII), buffer: Vec::new() }
    }

    /// Handles a datagram: answers a Query, and a RESERVE that requests a RESPONSE. A RESERVE that tears down
    /// completes a release.
    pub(super) fn handle(
        &mut self,
        octets: &[u8],
        outbox: &mut Effects<Infallible>,
    ) -> SetUpProgress {
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
                let envelope = self.host.write(query.nli.interface_address, body, &mut self.buffer);
                outbox.send_copy(envelope, &self.buffer);
                SetUpProgress::Step
            }
            Some(Body::Confirm(Confirm { mri, session, nli, nslp_data: Some(data), .. })) => {
                self.reserve(mri, session, nli.interface_address, data, outbox)
            }
            Some(Body::Data(Data { mri, session, nli: Some(nli), nslp_data, .. })) => {
                self.reserve(mri, session, nli.interface_address, nslp_data, outbox)
            }
            _ => SetUpProgress::Nothing,
        }
    }

    fn reserve(
        &mut self,
        mri: Mri,
        session: SessionId,
        from: IpAddr,
        octets: &[u8],
        outbox: &mut Effects<Infallible>,
    ) -> SetUpProgress {
        let Ok(QosNslp::Reserve(reserve)) = QosNslp::parse(octets) else {
            return SetUpProgress::Nothing;
        };
        match reserve.rii {
            Some(_) => {
                let body = self.host.data(mri.inverted(), session, &self.response);
                let envelope = self.host.write(from, body, &mut self.buffer);
                outbox.send_copy(envelope, &self.buffer);
                SetUpProgress::Step
            }
            None if reserve.tear => SetUpProgress::Last,
            None => SetUpProgress::Nothing,
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
        messages::data(mri, session, self.nli(mri.direction()), nslp_data)
    }

    /// Writes a message and the header of its datagram into `octets`; returns its envelope.
    fn write(&self, to: IpAddr, body: Body<'_>, octets: &mut Vec<u8>) -> Outgoing {
        messages::write((self.address, to), TTL, true, body, octets);
        envelope(udp::PROTOCOL, self.address, to)
    }
}

fn session(number: u32) -> SessionId {
    messages::session(number.into())
}

/// The flow of a session, towards its destination.
fn mri(writer: &MessageWriter, number: u32) -> Mri {
    let ends = (writer.sessions.sender.into(), writer.to.into());
    messages::flow(ends, MessageWriter::ports_of(number), Direction::Downstream)
}

fn reserve(step: Step, refresh: Duration) -> Vec<u8> {
    let does = match step {
        Step::SetUp => Purpose::SetUp((RATE / 8) as f32, RII),
        Step::Refresh => Purpose::Refresh,
        Step::Release => Purpose::Tear,
    };
    messages::reserve(does, Some(refresh))
}

#[cfg(test)]
mod tests {
    use earmark_core::Effect;

    use super::super::message_writer::{SESSIONS, tests::writer};
    use super::*;
    use crate::bench::router::Protocol;

    /// Takes the one message of an outbox, with its destination; leaves the outbox empty.
    fn only(outbox: &mut Effects<Infallible>) -> (IpAddr, Vec<u8>) {
        let messages: Vec<_> = outbox.iter().cloned().collect();
        let [Effect::Send(envelope, range)] = &messages[..] else { panic!("{messages:?}") };
        let message = (envelope.destination, outbox.octets(range).to_vec());
        outbox.clear();
        message
    }

    /// Both ends can exchange messages directly, without a router.
    #[test]
    fn a_session_is_set_up_refreshed_and_released() {
        for number in [0, 25_000, SESSIONS - 1] {
            let writer = writer(Protocol::Nsis);
            let (from, to) = (writer.sessions.sender, writer.to);
            let (mut initiator, mut responder) = (Initiator::new(&writer), Responder::new(&writer));
            let (mut octets, mut outbox) = (Vec::new(), Effects::new());
            let envelope = write(&writer, number, Step::SetUp, &mut octets);
            assert_eq!((envelope.destination, envelope.router_alert), (to.into(), true));
            assert_eq!(responder.handle(&octets, &mut outbox), SetUpProgress::Step);
            let (whom, response) = only(&mut outbox);
            assert_eq!(whom, IpAddr::from(from));
            assert_eq!(initiator.handle(&response, &mut outbox), SetUpProgress::Step);
            let (whom, confirm) = only(&mut outbox);
            assert_eq!(whom, IpAddr::from(to));
            assert_eq!(responder.handle(&confirm, &mut outbox), SetUpProgress::Step);
            let (_, answer) = only(&mut outbox);
            assert_eq!(initiator.handle(&answer, &mut outbox), SetUpProgress::Last);
            let others =
                [(Step::Refresh, SetUpProgress::Nothing), (Step::Release, SetUpProgress::Last)];
            for (step, heard) in others {
                let envelope = write(&writer, number, step, &mut octets);
                assert_eq!(
                    (envelope.destination, envelope.router_alert),
                    (writer.router.into(), false)
                );
                assert_eq!(responder.handle(&octets, &mut outbox), heard);
                assert!(outbox.is_empty(), "nobody wants an answer");
            }
        }
    }

    #[test]
    fn session_ids_are_unique() {
        let writer = writer(Protocol::Nsis);
        let [one, other] = [7, 25_007].map(|number| (session(number), mri(&writer, number)));
        assert_ne!(one.0, other.0);
        assert_ne!(one.1, other.1);
    }

    #[test]
    fn malformed_message_is_not_answered() {
        let writer = writer(Protocol::Nsis);
        let mut outbox = Effects::new();
        let mut octets = Vec::new();
        write(&writer, 1, Step::SetUp, &mut octets);
        for length in 0..octets.len() {
            let cut = &octets[..length];
            assert_eq!(Initiator::new(&writer).handle(cut, &mut outbox), SetUpProgress::Nothing);
            assert_eq!(Responder::new(&writer).handle(cut, &mut outbox), SetUpProgress::Nothing);
        }
        assert!(outbox.is_empty());
    }
}
