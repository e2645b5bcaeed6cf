//! A message arrives: whether it is one, whether it is for this node, and who treats it (RFC 5971 sections 4.3.1, 4.3.4,
//! 5.3).
//!
//! A node with GIST is shown every datagram to port 270 that passes. What is not for it, it sends on itself: datagrams that
//! are no GIST, messages between others, Queries of applications that are not here, and those that its own applications
//! pass on.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, Interface, Outgoing};
use earmark_wire::gist::{
    Body, ErrorCode, Header, MAGIC_LEN, Message, MessageType, Mode, ObjectType, datagram,
    emit_magic, forward_with_data,
};
use earmark_wire::udp;

use super::Gist;
use super::api::Event as Told;
use super::counters::DropReason;
use super::state::{Arrival, NONE};
use crate::PORT;
use crate::api::Event;
use crate::instance::Work;
use crate::nslp::Peering;
use crate::route;

/// The longest IP header with router alert, octets: that of IPv6.
const IP_HEADER: usize = 48;

impl Gist {
    /// A UDP packet has come that interception holds for GIST.
    pub(crate) fn datagram_arrives(&mut self, work: &mut Work<'_, '_>, received: &Datagram<'_>) {
        let interfaces = work.context.interfaces;
        let is_local = interfaces.is_local(received.destination);
        let Ok(packet) = udp::Packet::parse(received.payload) else {
            return self.ignore_datagram(work, received, DropReason::NotGist);
        };
        let octets = datagram(packet.payload).filter(|_| packet.destination_port == PORT);
        let takes_part = interfaces.by_id(received.interface).is_some_and(Interface::takes_part);
        let Some(octets) = octets.filter(|_| takes_part) else {
            return match is_local {
                true => self.ignore_datagram(work, received, DropReason::NotGist),
                false => self.relay(work, received, &packet),
            };
        };
        if packet.verify(received.source, received.destination) == udp::Checksum::Invalid {
            return self.ignore_datagram(work, received, DropReason::Checksum);
        }
        let header = Header::parse(octets);
        let context_free = header.is_ok_and(|header| header.flags.context_free);
        if !is_local && !context_free && header.is_ok() {
            // Between two others: only what finds its way by its MRI may be taken up in transit.
            return self.relay(work, received, &packet);
        }
        let mut arrival = Arrival {
            octets,
            interface: received.interface,
            source: received.source,
            source_port: packet.source_port,
            destination: received.destination,
            ttl: Some(received.ttl),
            association: NONE,
            source_is_peer: false,
            nslpid: 0,
            hops: 0,
        };
        if let Ok(header) = header {
            arrival.source_is_peer = header.flags.source_is_peer;
            arrival.nslpid = header.nslpid;
            let Some(hops) = header.hops.checked_sub(1) else {
                self.refuse(work, &arrival, ErrorCode::HopLimitExceeded, 0);
                return self.ignore(work, &arrival, DropReason::HopLimit);
            };
            arrival.hops = hops;
            if self.is_without_application(work, &header) {
                return self.unserved_arrives(work, received, &packet, &arrival, is_local);
            }
        }
        // What was read is large, and is looked at where it is.
        match &header.and_then(|header| Message::parse_rest(header, octets, Mode::D)) {
            Ok(message) => {
                mark(Checkpoint::Parse);
                self.message_arrives(work, received, &packet, &arrival, message, is_local);
            }
            Err(error) => {
                *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
                let answer = error.error_data(octets, Mode::D);
                self.ignore(work, &arrival, DropReason::Malformed);
                if let Some(answer) = answer {
                    self.send_error(work, &arrival, answer);
                }
            }
        }
    }

    /// Whether a message is for an application that is not here. Of Data without routing state that is looked at when they
    /// are refused: with it there is one.
    fn is_without_application(&mut self, work: &mut Work<'_, '_>, header: &Header) -> bool {
        let is_asked = match header.message_type {
            MessageType::Query | MessageType::Response | MessageType::Confirm => true,
            MessageType::Data => header.flags.context_free,
            _ => false,
        };
        is_asked && !work.is_served(header.nslpid)
    }

    /// A message has come for an application that is not here (RFC 5971 section 4.3.4).
    fn unserved_arrives(
        &mut self,
        work: &mut Work<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        arrival: &Arrival<'_>,
        is_local: bool,
    ) {
        let is_query = Header::parse(arrival.octets)
            .is_ok_and(|header| header.message_type == MessageType::Query);
        if !is_local {
            return self.pass_on(work, received, packet, arrival, Payload::Untouched);
        }
        self.ignore(work, arrival, DropReason::UnknownApplication);
        let code = if is_query { ErrorCode::EndpointFound } else { ErrorCode::UnknownNslpid };
        self.refuse(work, arrival, code, 0);
    }

    fn message_arrives(
        &mut self,
        work: &mut Work<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        arrival: &Arrival<'_>,
        message: &Message<'_>,
        is_local: bool,
    ) {
        self.count(message.body.message_type()).received += 1;
        match &message.body {
            Body::Query(query) => {
                if self.query_arrives(work, arrival, query, is_local) == Some(Peering::Pass) {
                    let payload =
                        if self.scratch.is_empty() { Payload::Untouched } else { Payload::Answer };
                    self.pass_on(work, received, packet, arrival, payload);
                }
            }
            Body::Response(response) => self.response_arrives(work, arrival, response),
            Body::Confirm(confirm) => self.confirm_arrives(work, arrival, confirm),
            Body::Data(data) => self.data_arrives(work, arrival, data),
            Body::Error(error) => self.error_arrives(work, arrival, error),
            Body::Hello(_) => {}
        }
    }

    /// Sends a Query on, for nodes further along the path, one GIST hop less in it; perhaps with other data.
    fn pass_on(
        &mut self,
        work: &mut Work<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        arrival: &Arrival<'_>,
        payload: Payload,
    ) {
        if arrival.hops == 0 {
            self.refuse(work, arrival, ErrorCode::HopLimitExceeded, 0);
            return self.ignore(work, arrival, DropReason::HopLimit);
        }
        let Some(mut how) = self.onward(work, received) else { return };
        follow_flow(work, arrival, &mut how);
        let answer = core::mem::take(&mut self.scratch);
        let (data, growth) = match payload {
            Payload::Untouched => (None, 0),
            Payload::Answer => (Some(&answer[..]), answer.len() + 4),
        };
        let mtu = how.interface.and_then(|interface| work.context.interfaces.by_id(interface));
        let mtu = mtu.map_or(0, |interface| interface.mtu as usize);
        if IP_HEADER + packet.octets().len() + growth > mtu {
            self.scratch = answer;
            let shown = u16::try_from(mtu.saturating_sub(IP_HEADER)).unwrap_or(u16::MAX);
            self.refuse_size(work, arrival, shown);
            return self.ignore(work, arrival, DropReason::TooLarge);
        }
        let length = udp::HEADER + MAGIC_LEN + arrival.octets.len() + growth;
        let mut copy = core::mem::take(&mut self.copy);
        copy.clear();
        copy.resize(length, 0);
        let written = match data {
            None => {
                let room = &mut copy[udp::HEADER..];
                emit_magic(room).ok().and_then(|room| {
                    room.copy_from_slice(arrival.octets);
                    *room.get_mut(1)? = arrival.hops;
                    Some(MAGIC_LEN + arrival.octets.len())
                })
            }
            Some(data) => forward_with_data(arrival.octets, data, &mut copy[udp::HEADER..]).ok(),
        };
        self.scratch = answer;
        if let Some(written) = written {
            copy.truncate(udp::HEADER + written);
            self.send_copy(work, how, packet, &mut copy);
        }
        self.copy = copy;
    }

    /// Sends a datagram on as it came, as a router does without GIST.
    fn relay(
        &mut self,
        work: &mut Work<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
    ) {
        let Some(how) = self.onward(work, received) else { return };
        let mut copy = core::mem::take(&mut self.copy);
        copy.clear();
        copy.extend_from_slice(packet.octets());
        self.send_copy(work, how, packet, &mut copy);
        self.copy = copy;
    }

    /// Sends octets on whose header is to be written: checksums that a kernel has left to hardware are made good so.
    fn send_copy(
        &mut self,
        work: &mut Work<'_, '_>,
        how: Outgoing,
        packet: &udp::Packet<'_>,
        copy: &mut [u8],
    ) {
        let header = udp::Repr {
            source: how.source,
            destination: how.destination,
            source_port: packet.source_port,
            destination_port: packet.destination_port,
        };
        if header.emit(copy).is_ok() {
            work.out.send(how, copy.len()).copy_from_slice(copy);
            self.counters.forwarded += 1;
        }
    }

    /// How a datagram goes on that is for somebody else.
    fn onward(&mut self, work: &mut Work<'_, '_>, received: &Datagram<'_>) -> Option<Outgoing> {
        if received.ttl <= 1 {
            self.ignore_datagram(work, received, DropReason::TtlExpired);
            return None;
        }
        let Some(hop) = work.context.routes.lookup(received.destination) else {
            self.ignore_datagram(work, received, DropReason::NoRoute);
            return None;
        };
        Some(Outgoing {
            protocol: udp::PROTOCOL,
            interface: Some(hop.interface),
            source: received.source,
            destination: received.destination,
            ttl: received.ttl - 1,
            router_alert: received.router_alert,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        })
    }

    /// Counts a message that is not acted on, and tells.
    #[cold]
    pub(super) fn ignore(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        reason: DropReason,
    ) {
        *self.counters.ignored.entry(reason).or_default() += 1;
        let interface = (arrival.association == NONE).then_some(arrival.interface);
        let source = arrival.source;
        work.out.notify(Event::Gist(Told::Ignored { reason, interface, source }));
    }

    #[cold]
    fn ignore_datagram(
        &mut self,
        work: &mut Work<'_, '_>,
        received: &Datagram<'_>,
        reason: DropReason,
    ) {
        *self.counters.ignored.entry(reason).or_default() += 1;
        let (interface, source) = (Some(received.interface), received.source);
        work.out.notify(Event::Gist(Told::Ignored { reason, interface, source }));
    }

    /// Refuses a message because of its MRI.
    pub(super) fn refuse_mri(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        code: ErrorCode,
        subcode: u8,
    ) {
        let object = ObjectType::MessageRoutingInformation;
        self.refuse_object(work, arrival, code, subcode, object);
    }
}

/// What becomes of the data in a Query that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    /// They stay.
    Untouched,
    /// The application has written others.
    Answer,
}

/// Has a Query that goes on leave as the flow does that it is about.
fn follow_flow(work: &Work<'_, '_>, arrival: &Arrival<'_>, how: &mut Outgoing) {
    if !work.context.routes.differs_by_flow(how.destination) {
        return;
    }
    let Ok(message) = Message::parse(arrival.octets, Mode::D) else { return };
    if let Body::Query(query) = message.body
        && let Some(hop) = route::hop(work.context, &query.mri)
    {
        how.interface = Some(hop.interface);
        how.next_hop = route::next_hop(work.context, &query.mri, &hop);
    }
}
