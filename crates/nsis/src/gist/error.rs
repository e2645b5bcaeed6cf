//! Errors: told to whoever sent what is wrong, and taken note of where others send them (RFC 5971 sections 4.4.6 and 5.6).

use core::net::IpAddr;

use earmark_core::outcome::Translation;
use earmark_wire::gist::iana::subcode::object_type;
use earmark_wire::gist::{
    Body, Direction, Error, ErrorCode, ErrorData, Info, Infos, MessageType, Mode, ObjectType,
    find_object, find_sender,
};

use super::Gist;
use super::api::Event as Told;
use super::counters::DropReason;
use super::machine::{Event, Facts, State};
use super::state::{Arrival, Key, NONE};
use super::step::{At, Occasion};
use super::transmit::{DatagramPath, message, own_address};
use crate::api::Event as NsisEvent;
use crate::instance::Work;

impl Gist {
    /// Refuses a message with an error that has nothing more to say.
    pub(super) fn refuse(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        code: ErrorCode,
        subcode: u8,
    ) {
        if let Some(error) =
            ErrorData::error_data_about(arrival.octets, mode(arrival), code, subcode)
        {
            self.send_error(work, arrival, error);
        }
    }

    /// Refuses one that is too large for the links behind.
    pub(super) fn refuse_size(&mut self, work: &mut Work<'_, '_>, arrival: &Arrival<'_>, mtu: u16) {
        let code = ErrorCode::MessageTooLarge;
        if let Some(error) = ErrorData::error_data_about(arrival.octets, mode(arrival), code, 0) {
            let infos = Infos::Few([Some(Info::Mtu(mtu)), None]);
            self.send_error(work, arrival, ErrorData { infos, ..error });
        }
    }

    /// Refuses one because of an object in it.
    pub(super) fn refuse_object(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        code: ErrorCode,
        subcode: u8,
        object: ObjectType,
    ) {
        let Some(error) = ErrorData::error_data_about(arrival.octets, mode(arrival), code, subcode)
        else {
            return;
        };
        let info = match code {
            ErrorCode::ObjectType => Some(Info::ObjectType(object.code())),
            _ => find_object(arrival.octets, object)
                .map(|object| Info::object_value(object.octets(), 0)),
        };
        self.send_error(work, arrival, ErrorData { infos: Infos::Few([info, None]), ..error });
    }

    /// Sends an Error the way that the message came: to the address that it names, or where it names none to its IP source,
    /// if that is its sender's.
    pub(super) fn send_error(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        error: ErrorData<'_>,
    ) {
        if arrival.association != NONE {
            let body = Body::Error(Error { nat_traversal: None, nli: None, error });
            let hops = self.config.hops;
            self.write_message(work, arrival.association, &message(hops, 0, true, body));
            return;
        }
        let untranslated = error.code == ErrorCode::ObjectType && arrival.source_is_peer;
        let named = find_sender(arrival.octets).map(|nli| nli.interface_address);
        let source = arrival.source_is_peer.then_some(arrival.source);
        // Behind a translator only the IP source leads back (RFC 5971 section 7.2.1).
        let to = if untranslated { source } else { named.or(source) };
        let Some(destination) = to.filter(|to| can_be_told(*to)) else { return };
        let hash = self.hash_address(destination);
        if !self.errors.admits(work.now, hash, self.config.limits.errors_per_second) {
            self.counters.held_back += 1;
            return;
        }
        let Some(interface) = work.context.interfaces.by_id(arrival.interface) else { return };
        let Some(own) = own_address(interface, destination) else { return };
        let way = DatagramPath {
            source: own,
            destination,
            port: arrival.source_port,
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
        self.send_datagram(work, &way, &message(hops, 0, true, body));
    }

    /// An Error has come. What it says is believed only of routing state whose session and flow it names, which nobody can
    /// guess who is not on the path.
    pub(super) fn error_arrives(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        error: &Error<'_>,
    ) {
        let error = &error.error;
        let told = Told::error_received(arrival.source, error.code, error.subcode);
        work.out.notify(NsisEvent::Gist(told));
        let (Some(original), Some(session), Some(mri)) =
            (error.original_header(), error.session, error.mri)
        else {
            return;
        };
        // The message at fault was this node's: its MRI leads to the peer.
        let mut at = self.at(Key::new(original.nslpid, session, mri), mri.direction());
        let state = self.state(&at);
        if at.index == NONE || state == State::Idle {
            return self.ignore(work, arrival, DropReason::NoRoutingState);
        }
        if error.code == ErrorCode::ObjectType && error.subcode == object_type::UNTRANSLATED {
            // Who has seen another address does not say which.
            let translation = Translation { named: arrival.destination, seen: None };
            work.call(original.nslpid, |application, cx| {
                application.translated(cx, (session, mri), translation);
            });
        }
        let is_query = original.message_type == MessageType::Query;
        let unanswered = self.store.half(at.place()).unanswered > 0;
        match error.code {
            ErrorCode::NoRoutingState if self.is_from_peer(arrival, &at) => {
                let occasion = Occasion::Nothing;
                self.step(work, &mut at, Event::NoRoutingState, Facts::default(), &occasion);
            }
            ErrorCode::EndpointFound | ErrorCode::UnknownNslpid if is_query && unanswered => {
                let occasion = Occasion::Nothing;
                self.step(work, &mut at, Event::EndpointFound, Facts::default(), &occasion);
            }
            ErrorCode::MessageTooLarge => self.note_mtu(&at, error),
            ErrorCode::ObjectType | ErrorCode::MriValidation | ErrorCode::InvalidTtl
                if is_query && unanswered =>
            {
                let occasion = Occasion::Nothing;
                self.step(work, &mut at, Event::Error, Facts::default(), &occasion);
            }
            _ => {}
        }
    }

    /// Whether a message came from the peer of a half.
    fn is_from_peer(&self, arrival: &Arrival<'_>, at: &At) -> bool {
        let half = self.store.half(at.place());
        match self.associations.get(arrival.association) {
            Some(association) => association.peer == half.peer && half.peer != NONE,
            None => self.peers.get(half.peer).is_some_and(|peer| peer.address == arrival.source),
        }
    }

    /// Something on the way to a peer takes only packets of this size.
    fn note_mtu(&mut self, at: &At, error: &ErrorData<'_>) {
        let peer = self.store.half(at.place()).peer;
        let mtu = error.infos.iter().find_map(|info| match info {
            Info::Mtu(mtu) => Some(u32::from(mtu)),
            _ => None,
        });
        if let (Some(peer), Some(mtu)) = (self.peers.get_mut(peer), mtu) {
            // No path is narrower (RFC 791).
            peer.mtu = peer.mtu.min(mtu.max(576));
        }
    }

    /// A hash of an address, for what is counted of each.
    pub(super) fn hash_address(&self, address: IpAddr) -> u64 {
        let bits = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.hash.of_two([(bits >> 64) as u64, bits as u64])
    }
}

fn mode(arrival: &Arrival<'_>) -> Mode {
    if arrival.association == NONE { Mode::D } else { Mode::C }
}

/// Whether an address is that of one node.
fn can_be_told(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast)
}
