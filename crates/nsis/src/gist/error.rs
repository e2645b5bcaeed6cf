//! Errors: sent to the sender of a faulty message, and received from other nodes (RFC 5971 sections 4.4.6 and 5.6).

use core::net::IpAddr;

use earmark_core::outcome::Translation;
use earmark_wire::gist::iana::subcode::object_type;
use earmark_wire::gist::{
    Body, Direction, Error, ErrorCode, ErrorData, Info, Infos, MessageType, Mode, ObjectType,
    find_object, find_sender,
};

use super::Gist;
use super::api::Event as GistEvent;
use super::counters::DropReason;
use super::event_data::EventData;
use super::machine::{Event, Facts, State};
use super::message_origin::MessageOrigin;
use super::state::{HalfRef, Key, NONE};
use super::transmit::{DatagramPath, message, own_address};
use crate::input_context::InputContext;

impl Gist {
    /// Refuses a message with an error without additional information.
    pub(super) fn refuse(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        code: ErrorCode,
        subcode: u8,
    ) {
        if let Some(error) = ErrorData::error_data_about(origin.octets, mode(origin), code, subcode)
        {
            self.send_error(cx, origin, error);
        }
    }

    /// Refuses a message that exceeds the MTU of the next links.
    pub(super) fn refuse_size(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        mtu: u16,
    ) {
        let code = ErrorCode::MessageTooLarge;
        if let Some(error) = ErrorData::error_data_about(origin.octets, mode(origin), code, 0) {
            let infos = Infos::Few([Some(Info::Mtu(mtu)), None]);
            self.send_error(cx, origin, ErrorData { infos, ..error });
        }
    }

    /// Refuses a message because of an object in it.
    pub(super) fn refuse_object(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        code: ErrorCode,
        subcode: u8,
        object: ObjectType,
    ) {
        let Some(error) = ErrorData::error_data_about(origin.octets, mode(origin), code, subcode)
        else {
            return;
        };
        let info = match code {
            ErrorCode::ObjectType => Some(Info::ObjectType(object.code())),
            _ => find_object(origin.octets, object)
                .map(|object| Info::object_value(object.octets(), 0)),
        };
        self.send_error(cx, origin, ErrorData { infos: Infos::Few([info, None]), ..error });
    }

    /// Sends an Error to the origin of a message: to the address in its NLI, or without one to its IP source if that is
    /// the sender.
    pub(super) fn send_error(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        error: ErrorData<'_>,
    ) {
        if origin.association != NONE {
            let body = Body::Error(Error { nat_traversal: None, nli: None, error });
            let hops = self.config.hops;
            self.write_message(cx, origin.association, &message(hops, 0, true, body));
            return;
        }
        let untranslated = error.code == ErrorCode::ObjectType && origin.source_is_peer;
        let named = find_sender(origin.octets).map(|nli| nli.interface_address);
        let source = origin.source_is_peer.then_some(origin.source);
        // Behind a translator, only the IP source leads back (RFC 5971 section 7.2.1).
        let to = if untranslated { source } else { named.or(source) };
        let Some(destination) = to.filter(|to| is_unicast(*to)) else { return };
        let hash = self.hash_address(destination);
        if !self.errors.admits(cx.now, hash, self.config.limits.errors_per_second) {
            self.counters.held_back += 1;
            return;
        }
        let Some(interface) = cx.context.interfaces.by_id(origin.interface) else { return };
        let Some(own) = own_address(interface, destination) else { return };
        let path = DatagramPath {
            source: own,
            destination,
            port: origin.source_port,
            interface: None,
            next_hop: None,
            ttl: self.config.ttl,
            router_alert: false,
        };
        let identity = self.identity;
        let direction = error.mri.map_or(Direction::Downstream, |mri| mri.direction().inverted());
        let nli = self.nli(&identity, own, direction, 0, self.validity_ms());
        let body = Body::Error(Error { nat_traversal: None, nli: Some(nli), error });
        let hops = self.config.hops;
        self.send_datagram(cx, &path, &message(hops, 0, true, body));
    }

    /// Handles an Error. It affects only routing state whose session and flow it names, which nobody off the path can
    /// guess.
    pub(super) fn receive_error(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        error: &Error<'_>,
    ) {
        let error = &error.error;
        let event = GistEvent::error_received(origin.source, error.code, error.subcode);
        cx.report(event);
        let (Some(original), Some(session), Some(mri)) =
            (error.original_header(), error.session, error.mri)
        else {
            return;
        };
        // This node sent the faulty message: its MRI leads to the peer.
        let mut at = self.at(Key::new(original.nslpid, session, mri), mri.direction());
        let state = self.state(&at);
        if at.index == NONE || state == State::Idle {
            return self.ignore(cx, origin, DropReason::NoRoutingState);
        }
        if error.code == ErrorCode::ObjectType && error.subcode == object_type::UNTRANSLATED {
            // The node that saw another address does not report it.
            let translation = Translation { named: origin.destination, seen: None };
            cx.call(original.nslpid, |application, cx| {
                application.translated(cx, (session, mri), translation);
            });
        }
        let is_query = original.message_type == MessageType::Query;
        let unanswered = self.store.half(at.half_id()).unanswered > 0;
        match error.code {
            ErrorCode::NoRoutingState if self.is_from_peer(origin, &at) => {
                let event_data = EventData::Nothing;
                self.step(cx, &mut at, Event::NoRoutingState, Facts::default(), &event_data);
            }
            ErrorCode::EndpointFound | ErrorCode::UnknownNslpid if is_query && unanswered => {
                let event_data = EventData::Nothing;
                self.step(cx, &mut at, Event::EndpointFound, Facts::default(), &event_data);
            }
            ErrorCode::MessageTooLarge => self.update_mtu(&at, error),
            ErrorCode::ObjectType | ErrorCode::MriValidation | ErrorCode::InvalidTtl
                if is_query && unanswered =>
            {
                let event_data = EventData::Nothing;
                self.step(cx, &mut at, Event::Error, Facts::default(), &event_data);
            }
            _ => {}
        }
    }

    /// Returns whether a message came from the peer of a half.
    fn is_from_peer(&self, origin: &MessageOrigin<'_>, at: &HalfRef) -> bool {
        let half = self.store.half(at.half_id());
        match self.associations.get(origin.association) {
            Some(association) => association.peer == half.peer && half.peer != NONE,
            None => self.peers.get(half.peer).is_some_and(|peer| peer.address == origin.source),
        }
    }

    /// Lowers the path MTU of a peer.
    fn update_mtu(&mut self, at: &HalfRef, error: &ErrorData<'_>) {
        let peer = self.store.half(at.half_id()).peer;
        let mtu = error.infos.iter().find_map(|info| match info {
            Info::Mtu(mtu) => Some(u32::from(mtu)),
            _ => None,
        });
        if let (Some(peer), Some(mtu)) = (self.peers.get_mut(peer), mtu) {
            // Every path carries 576 octets (RFC 791).
            peer.mtu = peer.mtu.min(mtu.max(576));
        }
    }

    /// Returns a hash of an address, for rate limits per address.
    pub(super) fn hash_address(&self, address: IpAddr) -> u64 {
        let bits = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.hash.of_two([(bits >> 64) as u64, bits as u64])
    }
}

fn mode(origin: &MessageOrigin<'_>) -> Mode {
    if origin.association == NONE { Mode::D } else { Mode::C }
}

/// Returns whether an address can belong to one node.
fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast)
}
