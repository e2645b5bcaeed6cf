//! Receipt of datagrams: parsing, forwarding, and dispatch (RFC 5971 sections 4.3.1, 4.3.4, 5.3).
//!
//! A node with GIST intercepts every datagram to port 270 that it forwards. It forwards by itself what it does not
//! handle: datagrams that are not GIST, messages between other nodes, Queries of unknown applications, and Queries that
//! its own applications pass on.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, Interface, InterfaceId, Outgoing};
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{
    Body, ErrorCode, Header, MAGIC_LEN, Message, MessageType, Mode, Mri, ObjectType, datagram,
    emit_magic, forward_with_data,
};
use earmark_wire::udp;

use super::Gist;
use super::api::Event as GistEvent;
use super::counters::DropReason;
use super::prefix_form::PrefixForm;
use super::receipt::Receipt;
use super::state::NONE;
use super::tolerated_prefix::with_mri;
use super::translation::{LocalForm, leaves_untranslated};
use crate::PORT;
use crate::input_context::InputContext;
use crate::nslp::{Channel, Encapsulation, Peering};
use crate::route;

/// Longest IP header with router alert, octets: that of IPv6.
const IP_HEADER: usize = 48;

impl Gist {
    /// Handles a UDP packet that interception has taken for GIST.
    pub(crate) fn receive_datagram(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
    ) {
        let interfaces = cx.context.interfaces;
        let is_local = interfaces.is_local(received.destination);
        let Ok(packet) = udp::Packet::parse(received.payload) else {
            return self.ignore_datagram(cx, received, DropReason::NotGist);
        };
        let octets = datagram(packet.payload).filter(|_| packet.destination_port == PORT);
        let takes_part = interfaces.by_id(received.interface).is_some_and(Interface::takes_part);
        let Some(octets) = octets.filter(|_| takes_part) else {
            return match is_local {
                true => self.ignore_datagram(cx, received, DropReason::NotGist),
                false => self.forward_unchanged(cx, received, &packet),
            };
        };
        if packet.verify(received.source, received.destination) == udp::Checksum::Invalid {
            return self.ignore_datagram(cx, received, DropReason::Checksum);
        }
        let header = Header::parse(octets);
        let context_free = header.is_ok_and(|header| header.flags.context_free);
        if !is_local && !context_free && header.is_ok() {
            // Only messages routed by MRI may be intercepted in transit.
            return self.forward_unchanged(cx, received, &packet);
        }
        if is_local && context_free && self.lacks_router_alert(cx, received) {
            return self.ignore_datagram(cx, received, DropReason::NoRouterAlert);
        }
        let mut receipt = Receipt {
            octets,
            interface: received.interface,
            source: received.source,
            source_port: packet.source_port,
            destination: received.destination,
            ttl: Some(received.ttl),
            association: NONE,
            channel: Channel::Datagram {
                interface: received.interface,
                encapsulation: Encapsulation::Normal,
            },
            source_is_peer: false,
            explicitly_routed: false,
            prefix_form: PrefixForm::default(),
            upstream: None,
            nslpid: 0,
            hops: 0,
        };
        if let Ok(header) = header {
            receipt.source_is_peer = header.flags.source_is_peer;
            receipt.explicitly_routed = header.flags.explicitly_routed;
            receipt.channel = channel(received.interface, &header);
            receipt.nslpid = header.nslpid;
            let Some(hops) = header.hops.checked_sub(1) else {
                self.refuse(cx, &receipt, ErrorCode::HopLimitExceeded, 0);
                return self.ignore(cx, &receipt, DropReason::HopLimit);
            };
            receipt.hops = hops;
            let is_whole = header.message_len() == octets.len();
            if is_whole && self.is_without_application(cx, &header) {
                return self.receive_unserved(cx, received, &packet, &receipt, is_local);
            }
        }
        // The parsed message is large, and is used in place.
        match &header.and_then(|header| Message::parse_rest(header, octets, Mode::D)) {
            Ok(message) => {
                mark(Checkpoint::Parse);
                self.receive_message::<false>(cx, received, &packet, &receipt, message, is_local);
            }
            Err(error) => {
                *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
                let answer = error.error_data(octets, Mode::D);
                self.ignore(cx, &receipt, DropReason::Malformed);
                if let Some(answer) = answer {
                    self.send_error(cx, &receipt, answer);
                }
            }
        }
    }

    /// Returns whether a message that every node on the path intercepts lacks router alert (RFC 5971 section 5.3.2.1), so
    /// that they pass it on unseen, on an interface where this is not expected.
    #[inline]
    fn lacks_router_alert(&self, cx: &InputContext<'_, '_>, received: &Datagram<'_>) -> bool {
        let is_by_port = |link: &Interface| self.config.by_port.contains(&link.name);
        !received.router_alert
            && !cx.context.interfaces.by_id(received.interface).is_some_and(is_by_port)
    }

    /// Returns whether no application serves a message. Data with routing state has an application; Data without is
    /// checked when it is refused.
    fn is_without_application(&mut self, cx: &mut InputContext<'_, '_>, header: &Header) -> bool {
        let is_asked = match header.message_type {
            MessageType::Query | MessageType::Response | MessageType::Confirm => true,
            MessageType::Data => header.flags.context_free,
            _ => false,
        };
        is_asked && !cx.is_served(header.nslpid)
    }

    /// Handles a message for an unknown application (RFC 5971 section 4.3.4).
    fn receive_unserved(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        receipt: &Receipt<'_>,
        is_local: bool,
    ) {
        let is_query = Header::parse(receipt.octets)
            .is_ok_and(|header| header.message_type == MessageType::Query);
        if !is_local {
            return self.forward_query(cx, received, packet, receipt, Payload::Untouched);
        }
        self.ignore(cx, receipt, DropReason::UnknownApplication);
        let code = if is_query { ErrorCode::EndpointFound } else { ErrorCode::UnknownNslpid };
        self.refuse(cx, receipt, code, 0);
    }

    /// Handles a copy of a message whose sender names its flow otherwise than this node.
    #[cold]
    #[inline(never)]
    fn receive_in_local_form(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        (received, packet): (&Datagram<'_>, &udp::Packet<'_>),
        receipt: &Receipt<'_>,
        message: &Message<'_>,
        is_local: bool,
        form: &LocalForm,
    ) {
        let LocalForm { mri, prefix_form, upstream } = *form;
        let receipt = Receipt { prefix_form, upstream, ..*receipt };
        let message = Message { body: with_mri(&message.body, mri), ..*message };
        self.receive_message::<true>(cx, received, packet, &receipt, &message, is_local);
    }

    /// Handles a message. `IS_LOCAL_FORM` keeps the usual case in one piece with the receipt of the datagram.
    fn receive_message<const IS_LOCAL_FORM: bool>(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        receipt: &Receipt<'_>,
        message: &Message<'_>,
        is_local: bool,
    ) {
        if !IS_LOCAL_FORM && let Some(form) = self.local_form(cx, receipt.nslpid, &message.body) {
            let datagram = (received, packet);
            return self.receive_in_local_form(cx, datagram, receipt, message, is_local, &form);
        }
        self.count(message.body.message_type()).received += 1;
        match &message.body {
            Body::Query(query) => {
                if self.receive_query(cx, receipt, query, is_local) == Some(Peering::Pass) {
                    let payload =
                        if self.scratch.is_empty() { Payload::Untouched } else { Payload::Answer };
                    self.forward_query(cx, received, packet, receipt, payload);
                }
            }
            Body::Response(response) => self.receive_response(cx, receipt, response),
            Body::Confirm(confirm) => self.receive_confirm(cx, receipt, confirm),
            Body::Data(data) => self.receive_data(cx, receipt, data),
            Body::Error(error) => self.receive_error(cx, receipt, error),
            Body::Hello(_) => {}
        }
    }

    /// Forwards a Query along the path, with the GIST hop count decremented and optionally with other data.
    fn forward_query(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        receipt: &Receipt<'_>,
        payload: Payload,
    ) {
        if receipt.hops == 0 {
            self.refuse(cx, receipt, ErrorCode::HopLimitExceeded, 0);
            return self.ignore(cx, receipt, DropReason::HopLimit);
        }
        let mri = mri_of_query(cx, receipt);
        // No other node adds the translation that this one makes, or would make.
        if mri.is_some_and(|mri| leaves_untranslated(cx, receipt.interface, &mri)) {
            let subcode = subcode::object_type::UNTRANSLATED;
            self.refuse_mri(cx, receipt, ErrorCode::ObjectType, subcode);
            return self.ignore(cx, receipt, DropReason::Untranslated);
        }
        let Some(mut how) = self.forwarding_route(cx, received) else { return };
        if let Some(mri) = &mri {
            route_by_flow(cx, mri, &mut how);
        }
        let outgoing = how.interface.unwrap_or(receipt.interface);
        if !cx.context.may_forward_request(cx.now, (receipt.interface, outgoing), 1) {
            return self.ignore(cx, receipt, DropReason::Throttled);
        }
        let answer = core::mem::take(&mut self.scratch);
        let (data, growth) = match payload {
            Payload::Untouched => (None, 0),
            Payload::Answer => (Some(&answer[..]), answer.len() + 4),
        };
        let mtu = how.interface.and_then(|interface| cx.context.interfaces.by_id(interface));
        let mtu = mtu.map_or(0, |interface| interface.mtu as usize);
        if IP_HEADER + packet.octets().len() + growth > mtu {
            self.scratch = answer;
            let shown = u16::try_from(mtu.saturating_sub(IP_HEADER)).unwrap_or(u16::MAX);
            self.refuse_size(cx, receipt, shown);
            return self.ignore(cx, receipt, DropReason::TooLarge);
        }
        let length = udp::HEADER + MAGIC_LEN + receipt.octets.len() + growth;
        let mut copy = core::mem::take(&mut self.copy);
        copy.clear();
        copy.resize(length, 0);
        let written = match data {
            None => {
                let room = &mut copy[udp::HEADER..];
                emit_magic(room).ok().and_then(|room| {
                    room.copy_from_slice(receipt.octets);
                    *room.get_mut(1)? = receipt.hops;
                    Some(MAGIC_LEN + receipt.octets.len())
                })
            }
            Some(data) => forward_with_data(receipt.octets, data, &mut copy[udp::HEADER..]).ok(),
        };
        self.scratch = answer;
        if let Some(written) = written {
            copy.truncate(udp::HEADER + written);
            self.send_with_checksum(cx, how, packet, &mut copy);
        }
        self.copy = copy;
    }

    /// Forwards a datagram unchanged, like a router without GIST. From an access interface it counts as a request does:
    /// messages between honest nodes are intercepted on their way only if the port alone decides.
    fn forward_unchanged(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
        packet: &udp::Packet<'_>,
    ) {
        let Some(how) = self.forwarding_route(cx, received) else { return };
        let outgoing = how.interface.unwrap_or(received.interface);
        if cx.context.interfaces.takes_part(received.interface)
            && !cx.context.may_forward_request(cx.now, (received.interface, outgoing), 1)
        {
            return self.ignore_datagram(cx, received, DropReason::Throttled);
        }
        let mut copy = core::mem::take(&mut self.copy);
        copy.clear();
        copy.extend_from_slice(packet.octets());
        // A wrong checksum stays wrong: a new one would hide the damage from the destination.
        match packet.verify(received.source, received.destination) {
            udp::Checksum::Partial => self.send_with_checksum(cx, how, packet, &mut copy),
            _ => self.send_copy(cx, how, &copy),
        }
        self.copy = copy;
    }

    fn send_copy(&mut self, cx: &mut InputContext<'_, '_>, how: Outgoing, copy: &[u8]) {
        cx.out.send(how, copy.len()).copy_from_slice(copy);
        self.counters.forwarded += 1;
    }

    /// Sends a copied packet with a new UDP header, checksum included.
    fn send_with_checksum(
        &mut self,
        cx: &mut InputContext<'_, '_>,
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
            self.send_copy(cx, how, copy);
        }
    }

    /// Returns the route of a forwarded datagram.
    fn forwarding_route(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
    ) -> Option<Outgoing> {
        if received.ttl <= 1 {
            self.ignore_datagram(cx, received, DropReason::TtlExpired);
            return None;
        }
        let Some(hop) = cx.context.routes.lookup(received.destination) else {
            self.ignore_datagram(cx, received, DropReason::NoRoute);
            return None;
        };
        Some(Outgoing { interface: Some(hop.interface), ..received.forwarded(udp::PROTOCOL) })
    }

    /// Counts an ignored message, and reports it.
    #[cold]
    pub(super) fn ignore(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        reason: DropReason,
    ) {
        *self.counters.ignored.entry(reason).or_default() += 1;
        let interface = (receipt.association == NONE).then_some(receipt.interface);
        let source = receipt.source;
        cx.report(GistEvent::Ignored { reason, interface, source });
    }

    #[cold]
    fn ignore_datagram(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        received: &Datagram<'_>,
        reason: DropReason,
    ) {
        *self.counters.ignored.entry(reason).or_default() += 1;
        let (interface, source) = (Some(received.interface), received.source);
        cx.report(GistEvent::Ignored { reason, interface, source });
    }

    /// Refuses a message because of its MRI.
    pub(super) fn refuse_mri(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        code: ErrorCode,
        subcode: u8,
    ) {
        let object = ObjectType::MessageRoutingInformation;
        self.refuse_object(cx, receipt, code, subcode, object);
    }
}

/// Data of a forwarded Query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    /// The data stay.
    Untouched,
    /// The application has replaced the data.
    Answer,
}

/// Returns the channel of a datagram.
fn channel(interface: InterfaceId, header: &Header) -> Channel {
    let encapsulation = match header.flags {
        flags if flags.explicitly_routed => Encapsulation::ExplicitlyRouted,
        flags if flags.context_free => Encapsulation::Query,
        _ => Encapsulation::Normal,
    };
    Channel::Datagram { interface, encapsulation }
}

/// Returns the MRI of a Query to forward, if it matters where its flow goes.
fn mri_of_query(cx: &InputContext<'_, '_>, receipt: &Receipt<'_>) -> Option<Mri> {
    let matters = cx.applications.natfw.is_translator()
        || cx.context.routes.differs_by_flow(receipt.destination);
    let message = matters.then(|| Message::parse(receipt.octets, Mode::D).ok()).flatten()?;
    if let Body::Query(query) = message.body { Some(query.mri) } else { None }
}

/// Sends a forwarded Query along the route of its flow.
fn route_by_flow(cx: &InputContext<'_, '_>, mri: &Mri, how: &mut Outgoing) {
    if cx.context.routes.differs_by_flow(how.destination)
        && let Some(hop) = route::hop(cx.context, mri)
    {
        how.interface = Some(hop.interface);
        how.next_hop = route::next_hop(cx.context, mri, &hop);
    }
}
