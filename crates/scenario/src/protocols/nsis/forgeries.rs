//! Forged messages of NSIS.

use std::net::IpAddr;

use earmark_wire::gist::{
    Body, Continuation, Data, Error, ErrorClass, ErrorCode, ErrorData, Extensions, HEADER, Infos,
    Message, Mode, Mri, NetworkLayerInformation, Query, SessionId, emit_magic,
};
use earmark_wire::qos_nslp::iana::{NSLPID, TransientFailure};
use earmark_wire::qos_nslp::{
    self as qos, Extra, GenericFlags, InfoSpec, Notify, Outcome, Reserve, Rsn,
};
use earmark_wire::udp;

use super::messages;
use crate::attack::{Attack, Packet, Power};

/// IP protocol number of UDP.
const UDP: u8 = 17;
/// UDP port of GIST.
const PORT: u16 = 270;
/// GIST hop count of forged messages.
const HOPS: u8 = 10;
/// Octets of the magic number of a datagram.
const MAGIC: usize = 4;
/// Validity of routing state that a forged Query announces, milliseconds.
const SHORT: u32 = 100;
/// Query-Cookie of the attacker.
const COOKIE: [u8; 8] = [0xa5; 8];
const NO_FLAGS: GenericFlags =
    GenericFlags { scoping: false, proxy: false, ack_req: false, breaks: false };

/// A message between two peers about a session, and the RESERVE in it.
struct Seen<'a> {
    /// Address of the sender, which is the previous peer.
    previous: IpAddr,
    /// Address of the receiver.
    next: IpAddr,
    mri: Mri,
    session: SessionId,
    nli: NetworkLayerInformation<'a>,
    reserve: Reserve<'a>,
    /// Common header of the message.
    header: [u8; HEADER],
}

/// Returns forged messages by an attacker who has seen the messages of reservations.
pub(super) fn forgeries(seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
    let seen: Vec<Seen<'_>> = seen.iter().filter_map(read).collect();
    let all = |forge: &dyn Fn(&Seen<'_>) -> Option<Packet>| seen.iter().filter_map(forge).collect();
    let (any, own) = (Power::AnyAddress, Power::OwnAddress);
    let attacks = vec![
        Attack::new("RESERVE that tears", any, all(&|seen| seen.tear(false, seen.previous))),
        Attack::new("explicitly routed tear", any, all(&|seen| seen.tear(true, seen.previous))),
        Attack::new("explicitly routed tear", own, all(&|seen| seen.tear(true, attacker))),
        Attack::new("RESERVE with a short refresh period", any, all(&|seen| seen.short_lived())),
        Attack::new("NOTIFY of a failure", any, all(&|seen| seen.notify(seen.next))),
        Attack::new("NOTIFY of a failure", own, all(&|seen| seen.notify(attacker))),
        Attack::new("RESPONSE that refuses", any, all(&|seen| seen.refusal())),
        Attack::new("Error: no routing state", any, all(&|seen| seen.lost_state())),
        Attack::new("Query of another previous peer", own, all(&|seen| seen.query(attacker))),
        Attack::new("Query with a short validity", any, all(&|seen| seen.query(seen.previous))),
    ];
    attacks.into_iter().filter(|attack| !attack.packets.is_empty()).collect()
}

/// Returns the RESERVE in a datagram; `None` for other packets.
fn read(packet: &Packet) -> Option<Seen<'_>> {
    let octets = messages::in_datagram(packet.protocol, &packet.payload)?;
    let message = Message::parse(octets, Mode::D).ok()?;
    let (mri, session, nli, data) = match message.body {
        Body::Data(data) => (data.mri, data.session, data.nli?, data.nslp_data),
        Body::Confirm(confirm) => (confirm.mri, confirm.session, confirm.nli, confirm.nslp_data?),
        _ => return None,
    };
    let qos::Message::Reserve(reserve) = qos::Message::parse(data).ok()? else { return None };
    let (previous, next) = (packet.source, packet.destination);
    let &header = octets.first_chunk()?;
    Some(Seen { previous, next, mri, session, nli, reserve, header })
}

impl Seen<'_> {
    /// Returns Data from the previous peer with a RESERVE that ends the session.
    fn tear(&self, explicitly_routed: bool, source: IpAddr) -> Option<Packet> {
        let rsn = Rsn { number: self.reserve.rsn.number.wrapping_add(1), ..self.reserve.rsn };
        let tear = Reserve { tear: true, rsn, qspec: None, classifier: None, ..self.reserve };
        self.data(&qos::Message::Reserve(tear), explicitly_routed, [source, self.next])
    }

    /// Returns the RESERVE again, with a lifetime of some milliseconds.
    fn short_lived(&self) -> Option<Packet> {
        let reserve = Reserve { refresh_period: Some(1), ..self.reserve };
        self.data(&qos::Message::Reserve(reserve), false, [self.previous, self.next])
    }

    /// Returns Data to the previous peer with a NOTIFY that the reservation is lost.
    fn notify(&self, source: IpAddr) -> Option<Packet> {
        let (info, extra) = (Seen::failure(), Extra::NONE);
        let notify = Notify { flags: NO_FLAGS, info, qspec: None, extra };
        self.data(&qos::Message::Notify(notify), false, [source, self.previous])
    }

    /// Returns Data to the previous peer with a RESPONSE that the RESERVE has failed.
    fn refusal(&self) -> Option<Packet> {
        let answers = match self.reserve.rii {
            Some(rii) => qos::Answers::Rii(rii),
            None => qos::Answers::Rsn(self.reserve.rsn),
        };
        let response = qos::Response {
            flags: NO_FLAGS,
            answers: Some(answers),
            info: Seen::failure(),
            summary: None,
            qspec: None,
            extra: Extra::NONE,
        };
        self.data(&qos::Message::Response(response), false, [self.next, self.previous])
    }

    fn failure() -> InfoSpec<'static> {
        let outcome = Outcome::TransientFailure(TransientFailure::Preempted);
        InfoSpec::new(outcome)
    }

    /// Returns Data between two addresses; it runs upstream if it goes to the previous peer.
    fn data(
        &self,
        message: &qos::Message<'_>,
        explicitly_routed: bool,
        [source, destination]: [IpAddr; 2],
    ) -> Option<Packet> {
        let mut nslp_data = vec![0; message.buffer_len()];
        message.emit(&mut nslp_data).ok()?;
        let is_upstream = destination == self.previous;
        let data = Data {
            nat_traversal: None,
            mri: if is_upstream { self.mri.inverted() } else { self.mri },
            session: self.session,
            nli: Some(NetworkLayerInformation { interface_address: source, ..self.nli }),
            nslp_data: &nslp_data,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed,
        };
        packet(source, destination, false, NSLPID, Body::Data(data))
    }

    /// Returns an Error from the next peer, which has no routing state for a message of the previous one.
    fn lost_state(&self) -> Option<Packet> {
        let error = ErrorData {
            class: ErrorClass::PermanentFailure,
            code: ErrorCode::NoRoutingState,
            subcode: 0,
            d_mode: true,
            q_mode: false,
            original: self.header,
            session: Some(self.session),
            mri: Some(self.mri),
            infos: Infos::NONE,
            comment: None,
        };
        let nli = Some(NetworkLayerInformation { interface_address: self.next, ..self.nli });
        let error = Error { nat_traversal: None, nli, error };
        packet(self.next, self.previous, false, 0, Body::Error(error))
    }

    /// Returns a Query of a node that would be the previous peer, with routing state for a short time.
    fn query(&self, source: IpAddr) -> Option<Packet> {
        let (_, destination) = self.mri.addresses();
        let nli = NetworkLayerInformation {
            interface_address: source,
            routing_state_validity: SHORT,
            ..self.nli
        };
        let query = Query {
            nat_traversal: None,
            mri: self.mri,
            session: self.session,
            nli,
            query_cookie: &COOKIE,
            stack: None,
            nslp_data: None,
        };
        packet(source, destination, true, NSLPID, Body::Query(query))
    }
}

/// Returns the packet of a message; `None` if the message is too long.
fn packet(
    source: IpAddr,
    destination: IpAddr,
    router_alert: bool,
    nslpid: u16,
    body: Body<'_>,
) -> Option<Packet> {
    let extensions = Extensions::NONE;
    let message = Message { hops: HOPS, nslpid, source_is_peer: true, body, extensions };
    let mut payload = vec![0; udp::HEADER + MAGIC + message.buffer_len()];
    message.emit(emit_magic(&mut payload[udp::HEADER..]).ok()?).ok()?;
    let header = udp::Repr { source, destination, source_port: PORT, destination_port: PORT };
    header.emit(&mut payload).ok()?;
    let router_alert = router_alert.then_some(0);
    Some(Packet { source, destination, protocol: UDP, ttl: u8::MAX, router_alert, payload })
}
