//! Errors: sent to the sender of a faulty message, and received from other nodes (RFC 5971 sections 4.4.6 and 5.6).

use core::net::IpAddr;

use earmark_core::outcome::Translation;
use earmark_wire::gist::iana::subcode::object_type;
use earmark_wire::gist::{
    Body, Direction, Error, ErrorCode, ErrorData, Info, Infos, MessageType, Mode,
    NetworkLayerInformation, ObjectType, find_nat_traversal, find_object, find_sender,
};

use super::Gist;
use super::api::Event as GistEvent;
use super::counters::DropReason;
use super::event_data::EventData;
use super::machine::{Event, Facts, State};
use super::origin::check_arrival;
use super::receipt::Receipt;
use super::state::{HalfRef, Key, NONE};
use super::transmit::{DatagramPath, message, own_address};
use crate::input_context::InputContext;

/// Limit of Errors through one interface, as a multiple of that for one address.
const ADDRESSES_PER_INTERFACE: u32 = 10;
/// Key of the first interface among the total rate limits, after those of datagrams and Queries.
const FIRST_INTERFACE_KEY: u64 = 2;

impl Gist {
    /// Refuses a message with an error without additional information.
    pub(super) fn refuse(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        code: ErrorCode,
        subcode: u8,
    ) {
        if let Some(error) =
            ErrorData::error_data_about(receipt.octets, mode(receipt), code, subcode)
        {
            self.send_error(cx, receipt, error);
        }
    }

    /// Refuses a message that exceeds the MTU of the next links.
    pub(super) fn refuse_size(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        mtu: u16,
    ) {
        let code = ErrorCode::MessageTooLarge;
        if let Some(error) = ErrorData::error_data_about(receipt.octets, mode(receipt), code, 0) {
            let infos = Infos::Few([Some(Info::Mtu(mtu)), None]);
            self.send_error(cx, receipt, ErrorData { infos, ..error });
        }
    }

    /// Refuses a message because of an object in it.
    pub(super) fn refuse_object(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        code: ErrorCode,
        subcode: u8,
        object: ObjectType,
    ) {
        let Some(error) = ErrorData::error_data_about(receipt.octets, mode(receipt), code, subcode)
        else {
            return;
        };
        let info = match code {
            ErrorCode::ObjectType => Some(Info::ObjectType(object.code())),
            _ => find_object(receipt.octets, object)
                .map(|object| Info::object_value(object.octets(), 0)),
        };
        self.send_error(cx, receipt, ErrorData { infos: Infos::Few([info, None]), ..error });
    }

    /// Sends an Error to the origin of a message: to the address in its NLI, or without one to its IP source if that is
    /// the sender.
    pub(super) fn send_error(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        error: ErrorData<'_>,
    ) {
        if receipt.association != NONE {
            let nat_traversal = find_nat_traversal(receipt.octets);
            let body = Body::Error(Error { nat_traversal, nli: None, error });
            let hops = self.config.hops;
            self.write_message(cx, receipt.association, &message(hops, 0, true, body));
            return;
        }
        let untranslated = error.code == ErrorCode::ObjectType && receipt.source_is_peer;
        let named = find_sender(receipt.octets).map(|nli| nli.interface_address);
        let source = receipt.source_is_peer.then_some(receipt.source);
        // Behind a translator, only the IP source leads back (RFC 5971 section 7.2.1).
        let to = if untranslated { source } else { named.or(source) };
        // A message in the name of this node itself has no origin that could be told.
        let is_other = |to: &IpAddr| is_unicast(*to) && !cx.context.interfaces.is_local(*to);
        let Some(destination) = to.filter(is_other) else { return };
        // Nobody on another interface uses up the Errors of this address, and one interface not those of the others.
        let key = self.hash_address(destination) ^ u64::from(receipt.interface.0);
        let rate = self.config.limits.errors_per_second;
        let of_interface = FIRST_INTERFACE_KEY + u64::from(receipt.interface.0);
        if !self.errors.admits(cx.now, key, rate)
            || !self.totals.admits(
                cx.now,
                of_interface,
                rate.saturating_mul(ADDRESSES_PER_INTERFACE),
            )
        {
            self.counters.held_back += 1;
            return;
        }
        let Some(interface) = cx.context.interfaces.by_id(receipt.interface) else { return };
        let Some(own) = own_address(interface, destination) else { return };
        let path = DatagramPath {
            source: own,
            destination,
            port: receipt.source_port,
            interface: None,
            next_hop: None,
            ttl: self.config.ttl,
            router_alert: false,
        };
        let identity = self.identity;
        let direction = error.mri.map_or(Direction::Downstream, |mri| mri.direction().inverted());
        let nli = self.nli(&identity, own, direction, 0, self.validity_ms());
        let nat_traversal = find_nat_traversal(receipt.octets);
        let body = Body::Error(Error { nat_traversal, nli: Some(nli), error });
        let hops = self.config.hops;
        self.send_datagram(cx, &path, &message(hops, 0, true, body));
    }

    /// Handles an Error about a message of this node, from a node that may have received the message.
    pub(super) fn receive_error(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        error: &Error<'_>,
    ) {
        if receipt.association == NONE && cx.context.interfaces.is_local(receipt.source) {
            return self.ignore(cx, receipt, DropReason::Own);
        }
        let error = &error.error;
        let event = GistEvent::error_received(receipt.source, error.code, error.subcode);
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
            return self.ignore(cx, receipt, DropReason::NoRoutingState);
        }
        let is_query = original.message_type == MessageType::Query;
        let is_asked = is_query && self.store.half(at.half_id()).unanswered > 0;
        // The Error is about a Query on a route that the flow has left.
        if is_asked && self.is_rerouted(cx, &at) {
            self.ignore(cx, receipt, DropReason::OldRoute);
            return self.check_route(cx, &mut at);
        }
        let checked = match is_asked {
            true => self.check_query_error(cx, receipt, &at),
            false => self.check_peer_error(cx, receipt, &at),
        };
        if let Err(reason) = checked {
            return self.ignore(cx, receipt, reason);
        }
        if error.code == ErrorCode::ObjectType && error.subcode == object_type::UNTRANSLATED {
            // The node that saw another address does not report it.
            let translation = Translation { named: receipt.destination, seen: None };
            cx.call(original.nslpid, |application, cx| {
                application.translated(cx, (session, mri), translation);
            });
        }
        match error.code {
            // After either, the peer needs another handshake.
            ErrorCode::NoRoutingState | ErrorCode::IncorrectlyDelivered if !is_asked => {
                let facts = self.failure_facts(&at);
                self.step(cx, &mut at, Event::NoRoutingState, facts, &EventData::Nothing);
            }
            ErrorCode::EndpointFound | ErrorCode::UnknownNslpid if is_asked => {
                let event_data = EventData::Nothing;
                self.step(cx, &mut at, Event::EndpointFound, Facts::default(), &event_data);
            }
            ErrorCode::MessageTooLarge => self.update_mtu(&at, error),
            ErrorCode::ObjectType | ErrorCode::MriValidation | ErrorCode::InvalidTtl
                if is_asked =>
            {
                let event_data = EventData::Nothing;
                self.step(cx, &mut at, Event::Error, Facts::default(), &event_data);
            }
            _ => {}
        }
    }

    /// Checks an Error about a Query of this node. Any node on the path may send one, so it must arrive through an
    /// interface that may concern the hop of the Query. State that was secured stays as it is.
    fn check_query_error(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        at: &HalfRef,
    ) -> Result<(), DropReason> {
        if self.store.half(at.half_id()).secured && !receipt.channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        check_arrival(cx, receipt, at).map(|_| ())
    }

    /// Checks an Error about another message of this node, which only the peer has received.
    fn check_peer_error(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        at: &HalfRef,
    ) -> Result<(), DropReason> {
        let half = self.store.half(at.half_id());
        let Some(peer) = self.peers.get(half.peer) else { return Err(DropReason::WrongPeer) };
        // An Error may lack the sender's NLI; its source is the address of the peer.
        let named = NetworkLayerInformation {
            peer_identity: &peer.identity,
            ip_ttl: 0,
            interface_address: peer.address,
            routing_state_validity: 0,
        };
        self.origin_for(cx, receipt, Some(&named), half).map(|_| ())
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

fn mode(receipt: &Receipt<'_>) -> Mode {
    if receipt.association == NONE { Mode::D } else { Mode::C }
}

/// Returns whether an address can belong to one node.
fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast)
}
