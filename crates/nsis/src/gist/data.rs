//! Messages of applications: sent, kept until their peer is found, and handed over (RFC 5971 sections 4.3.2, 4.3.3, 7.1.4).

use core::mem;
use core::ops::Range;
use core::time::Duration;

use earmark_wire::gist::{Body, Continuation, Data, Direction, ErrorCode, Mri};

use super::Gist;
use super::counters::DropReason;
use super::machine::{Event, Fact, Facts, State};
use super::state::{Arrival, Half, Index, Key, NONE, Needs};
use super::step::{At, Occasion};
use super::transmit::{Identity, message, target};
use crate::instance::Work;
use crate::nslp::{
    Attributes, Notification, Received, Request, SendFailure, SendMessage, Validity,
};

/// The largest message that is kept for a datagram to a peer that nobody knows yet, octets.
const LARGEST_DATAGRAM: usize = 1_500 - 64;

impl Gist {
    /// Does what an application asks for.
    pub(crate) fn carry_out(
        &mut self,
        work: &mut Work<'_, '_>,
        nslpid: u16,
        request: &Request,
        octets: &[u8],
    ) {
        match request {
            Request::Send(message, Range { start, end }) => {
                let data = octets.get(*start..*end).unwrap_or_default();
                if let Err(failure) = self.send(work, nslpid, message, data) {
                    self.undelivered(work, nslpid, message, data, failure);
                }
            }
            Request::SetStateLifetime { mri, session, lifetime } => {
                self.set_state_lifetime(work, Key::new(nslpid, *session, *mri), mri, *lifetime);
            }
            Request::Forget { mri, session } => {
                self.forget(work, Key::new(nslpid, *session, *mri), mri.direction());
            }
            Request::Invalidate { mri, status, urgent } => {
                self.invalidate(work, nslpid, mri, *status, *urgent);
            }
        }
    }

    /// Sends a message, or keeps it until it can be sent.
    pub(super) fn send(
        &mut self,
        work: &mut Work<'_, '_>,
        nslpid: u16,
        message: &SendMessage,
        data: &[u8],
    ) -> Result<(), SendFailure> {
        if message.hops == Some(0) {
            return Err(SendFailure::Limit);
        }
        if data.len() > self.config.limits.message_octets as usize {
            return Err(SendFailure::TooLarge);
        }
        if let Some(handle) = message.to {
            let peer = self.peers.by_handle(handle).ok_or(SendFailure::NoSuchPeer)?;
            return self.send_explicitly(work, nslpid, message, data, peer);
        }
        let mri = message.mri;
        let mut at = self.at_again(Key::new(nslpid, message.session, mri), mri.direction());
        if work.context.interfaces.is_local(target(&mri)) {
            self.tell(work, &at, Notification::LastNode);
            return Err(SendFailure::NoNextNode);
        }
        let mut state = self.state(&at);
        let mut hop = None;
        if state == State::Idle {
            hop = Some(self.may_query(work, &mri)?);
            if self.is_full(&at) {
                return Err(SendFailure::Limit);
            }
        }
        if state == State::EstablishedDownstream && self.store.half(at.place()).epoch != self.epoch
        {
            self.look_at_route(work, &mut at);
            state = self.state(&at);
        }
        let half = self.store.get(at.place());
        let needs = self.needs_of(half, message, data)?;
        let known = half.is_some_and(|half| half.peer != NONE);
        let exists = half.is_some_and(|half| self.served_by(half.association) >= needs);
        let bad = state == State::EstablishedDownstream
            && half.is_some_and(|half| half.validity == Validity::Bad);
        if !self.can_serve(needs) || state == State::EstablishedUpstream && known && !exists {
            // Only who has asked for the path may set an association up (RFC 5971 section 4.4.1).
            return Err(SendFailure::NoAssociation);
        }
        let facts = Facts::default()
            .with(Fact::NeedsAssociation, needs > Needs::Nothing)
            .with(Fact::AssociationExists, exists)
            .with(Fact::PeerKnown, known)
            .with(Fact::Bad, bad);
        let occasion = Occasion::Send { message, data, needs, hop };
        match self.step(work, &mut at, Event::SendMessage, facts, &occasion) {
            Some(_) => Ok(()),
            None => Err(SendFailure::NoUpstreamState),
        }
    }

    /// What a message needs: what it asks for and the settings do, and an association where it is too large for a datagram.
    fn needs_of(
        &self,
        half: Option<&Half>,
        message: &SendMessage,
        data: &[u8],
    ) -> Result<Needs, SendFailure> {
        let asked = needs(message.attributes).max(self.least_needs());
        let length = data.len() + self.overhead(&message.mri);
        // As long as nobody knows the peer, it may be a neighbour.
        let known = half.filter(|half| half.peer != NONE);
        let room = known.map_or(LARGEST_DATAGRAM, |half| self.largest_datagram(half));
        match asked {
            Needs::Nothing if length <= room => Ok(asked),
            Needs::Nothing if self.can_serve(Needs::Reliable) => Ok(Needs::Reliable),
            Needs::Nothing => Err(SendFailure::TooLarge),
            Needs::Reliable | Needs::Secure => Ok(asked),
        }
    }

    /// Octets of a Data message without its data.
    fn overhead(&self, mri: &Mri) -> usize {
        // Common header, MRI, SID, NLI with an address of this family, the header of NSLP-Data.
        let address = if target(mri).is_ipv4() { 4 } else { 16 };
        let identity = self.identity.octets().len().next_multiple_of(4);
        8 + (4 + mri.value_len()) + 20 + (4 + 8 + identity + address) + 4
    }

    /// Sends Data to the peer of a half.
    pub(super) fn send_data(&mut self, work: &mut Work<'_, '_>, at: &At, occasion: &Occasion<'_>) {
        let Occasion::Send { message, data, .. } = occasion else { return };
        if !self.transmit_data(work, at, message, data) {
            self.undelivered(work, at.key.nslpid, message, data, SendFailure::Limit);
        }
    }

    fn transmit_data(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        message: &SendMessage,
        data: &[u8],
    ) -> bool {
        let half = self.store.half(at.place());
        let (peer, distance, over) = (half.peer, half.ip_distance, half.association);
        if over != NONE {
            return self.transmit_over(work, at.key.nslpid, message, data, over);
        }
        self.transmit_to(work, at.key.nslpid, message, data, peer, distance)
    }

    /// To a peer that an application names, whatever the routing state says.
    fn send_explicitly(
        &mut self,
        work: &mut Work<'_, '_>,
        nslpid: u16,
        message: &SendMessage,
        data: &[u8],
        peer: Index,
    ) -> Result<(), SendFailure> {
        let unknown = Half { peer, ..Half::default() };
        let needs = self.needs_of(Some(&unknown), message, data)?;
        let sent = match needs {
            Needs::Nothing => self.transmit_to(work, nslpid, message, data, peer, 0),
            _ => {
                let over = self.open_association(peer, needs);
                let over = over.ok_or(SendFailure::NoAssociation)?;
                self.transmit_over(work, nslpid, message, data, over)
            }
        };
        if sent { Ok(()) } else { Err(SendFailure::Limit) }
    }

    /// Over an association, in as many objects as it takes.
    fn transmit_over(
        &mut self,
        work: &mut Work<'_, '_>,
        nslpid: u16,
        sent: &SendMessage,
        data: &[u8],
        over: Index,
    ) -> bool {
        let (nslp_data, continuation) = Continuation::split(data);
        let body = Body::Data(Data {
            nat_traversal: None,
            mri: sent.mri,
            session: sent.session,
            nli: None,
            nslp_data,
            continuation,
            context_free: false,
            explicitly_routed: sent.to.is_some(),
        });
        let hops = sent.hops.unwrap_or(self.config.hops);
        self.write_message(work, over, &message(hops, nslpid, true, body))
    }

    fn transmit_to(
        &mut self,
        work: &mut Work<'_, '_>,
        nslpid: u16,
        sent: &SendMessage,
        data: &[u8],
        peer: Index,
        ip_distance: u8,
    ) -> bool {
        let Some(way) = self.way_to(work, peer) else { return false };
        let identity: Identity = self.identity;
        let validity = self.validity_ms();
        let nli = self.nli(&identity, way.source, sent.mri.direction(), ip_distance, validity);
        let body = Body::Data(Data {
            nat_traversal: None,
            mri: sent.mri,
            session: sent.session,
            nli: Some(nli),
            nslp_data: data,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: sent.to.is_some(),
        });
        let hops = sent.hops.unwrap_or(self.config.hops);
        self.send_datagram(work, &way, &message(hops, nslpid, true, body))
    }

    /// Gives a message back to its application.
    pub(super) fn undelivered(
        &mut self,
        work: &mut Work<'_, '_>,
        nslpid: u16,
        message: &SendMessage,
        data: &[u8],
        failure: SendFailure,
    ) {
        self.counters.undelivered += 1;
        work.call(nslpid, |application, cx| {
            application.undelivered(cx, message, data, failure);
        });
    }

    /// Data has come.
    pub(super) fn data_arrives(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        data: &Data<'_>,
    ) {
        if data.continuation.is_empty() {
            return self.whole_data_arrives(work, arrival, data);
        }
        let mut whole = mem::take(&mut self.assembly);
        whole.clear();
        whole.extend_from_slice(data.nslp_data);
        data.continuation.pieces().for_each(|piece| whole.extend_from_slice(piece));
        let data = Data { nslp_data: &whole, continuation: Continuation::NONE, ..*data };
        self.whole_data_arrives(work, arrival, &data);
        self.assembly = whole;
    }

    /// Likewise, all of them in one piece.
    #[inline]
    fn whole_data_arrives(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        data: &Data<'_>,
    ) {
        let direction = data.mri.direction().inverted();
        let key = Key::new(arrival.nslpid, data.session, data.mri);
        if data.explicitly_routed {
            let peer = data.nli.and_then(|nli| self.peers.find(&nli, arrival.interface));
            let at = At { key, direction, index: NONE };
            return self.hand_over_from(work, &at, arrival, data.mri, data.nslp_data, true, peer);
        }
        let mut at = self.at(key, direction);
        let state = self.state(&at);
        if state == State::Idle && data.context_free && self.config.stateless_data {
            return self.hand_over(work, &at, arrival, data.mri, data.nslp_data, false);
        }
        let peer = self.store.get(at.place()).map_or(NONE, |half| half.peer);
        let facts = Facts::default().with(Fact::PeerKnown, peer != NONE);
        let occasion = Occasion::Data { arrival, data };
        self.step(work, &mut at, Event::Data, facts, &occasion);
    }

    /// Hands Data over, or what came in a Confirm, if it came from the peer.
    pub(super) fn deliver(&mut self, work: &mut Work<'_, '_>, at: &At, occasion: &Occasion<'_>) {
        match occasion {
            Occasion::Data { arrival, data } => {
                let half = self.store.half(at.place());
                if let Some(association) = self.associations.get(arrival.association) {
                    // Two peers may have opened one each at the same time.
                    if half.association == NONE || association.peer != half.peer {
                        self.refuse(work, arrival, ErrorCode::IncorrectlyDelivered, 0);
                        return self.ignore(work, arrival, DropReason::WrongAssociation);
                    }
                    return self.hand_over(work, at, arrival, data.mri, data.nslp_data, false);
                }
                let is_peer = match (self.peers.get(half.peer), &data.nli) {
                    (Some(peer), Some(nli)) => {
                        peer.is(nli) && arrival.source == nli.interface_address
                    }
                    _ => false,
                };
                if !is_peer {
                    return self.ignore(work, arrival, DropReason::WrongPeer);
                }
                self.hand_over(work, at, arrival, data.mri, data.nslp_data, false);
            }
            Occasion::Confirm { arrival, confirm, .. } => {
                if let Some(data) = confirm.nslp_data {
                    self.hand_over(work, at, arrival, confirm.mri, data, false);
                }
            }
            _ => {}
        }
    }

    /// Hands a message over to its application.
    pub(super) fn hand_over(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        arrival: &Arrival<'_>,
        mri: Mri,
        data: &[u8],
        explicitly_routed: bool,
    ) {
        let peer = self.store.get(at.place()).map(|half| half.peer);
        self.hand_over_from(work, at, arrival, mri, data, explicitly_routed, peer);
    }

    #[allow(clippy::too_many_arguments)] // one message, taken apart
    fn hand_over_from(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        arrival: &Arrival<'_>,
        mri: Mri,
        data: &[u8],
        explicitly_routed: bool,
        peer: Option<Index>,
    ) {
        let distance = self.store.get(at.place()).map(|half| half.ip_distance);
        let received = Received {
            data,
            session: at.key.session,
            mri,
            peer: peer.and_then(|peer| self.peers.handle(peer)),
            attributes: Attributes {
                reliable: arrival.association != NONE,
                secure: self.served_by(arrival.association) == Needs::Secure,
            },
            explicitly_routed,
            ip_distance: distance.filter(|distance| *distance != 0),
            hops: arrival.hops,
            interface: arrival.interface,
        };
        work.call(arrival.nslpid, |application, cx| application.receive(cx, &received));
    }

    /// Data has come for which there is no routing state.
    pub(super) fn refuse_data(&mut self, work: &mut Work<'_, '_>, occasion: &Occasion<'_>) {
        let Occasion::Data { arrival, .. } = occasion else { return };
        if !work.is_served(arrival.nslpid) {
            self.refuse(work, arrival, ErrorCode::UnknownNslpid, 0);
            return self.ignore(work, arrival, DropReason::UnknownApplication);
        }
        self.refuse(work, arrival, ErrorCode::NoRoutingState, 0);
        self.ignore(work, arrival, DropReason::NoRoutingState);
    }

    /// An application says how long it needs routing state.
    fn set_state_lifetime(
        &mut self,
        work: &mut Work<'_, '_>,
        key: Key,
        mri: &Mri,
        lifetime: Duration,
    ) {
        let mut at = self.at_again(key, mri.direction());
        let state = self.state(&at);
        if state == State::Idle {
            return;
        }
        if lifetime.is_zero() {
            let occasion = Occasion::Nothing;
            self.step(work, &mut at, Event::Forget, Facts::default(), &occasion);
        } else if state.is_querying() {
            self.store.half_mut(at.place()).lifetime_ms = super::querying::millis(lifetime);
            self.restart_expire(work.now, &at);
            self.arm(at.place());
        }
    }

    /// An application needs routing state no more, first of this direction, then of the other.
    fn forget(&mut self, work: &mut Work<'_, '_>, key: Key, direction: Direction) {
        let mut at = self.at_again(key, direction);
        for direction in [direction, direction.inverted()] {
            at.direction = direction;
            if self.state(&at) != State::Idle {
                let occasion = Occasion::Nothing;
                self.step(work, &mut at, Event::Forget, Facts::default(), &occasion);
            }
        }
    }
}

/// What attributes ask for.
pub(super) fn needs(attributes: Attributes) -> Needs {
    match attributes {
        Attributes { secure: true, .. } => Needs::Secure,
        Attributes { reliable: true, .. } => Needs::Reliable,
        Attributes { .. } => Needs::Nothing,
    }
}
