//! Messages of applications: sending, waiting for a peer, and delivery (RFC 5971 sections 4.3.2, 4.3.3, 7.1.4).

use core::mem;
use core::ops::Range;
use core::time::Duration;

use earmark_wire::gist::{
    Body, Continuation, Data, Direction, ErrorCode, Mri, NetworkLayerInformation,
};

use super::Gist;
use super::counters::DropReason;
use super::event_data::EventData;
use super::identity::Identity;
use super::machine::{Event, Fact, Facts, State};
use super::receipt::Receipt;
use super::state::{Half, HalfRef, Index, Key, NONE, Needs, millis};
use super::translation::peer_form;
use super::transmit::{message, target};
use crate::input_context::InputContext;
use crate::nslp::{Notification, Origin, Received, Request, SendFailure, SendMessage, Validity};

/// Largest message that may wait for a datagram to a still unknown peer, octets.
const LARGEST_DATAGRAM: usize = 1_500 - 64;

impl Gist {
    /// Executes a request of an application.
    pub(crate) fn execute_request(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        nslpid: u16,
        request: &Request,
        octets: &[u8],
    ) {
        match request {
            Request::Send(message, Range { start, end }) => {
                let data = octets.get(*start..*end).unwrap_or_default();
                if let Err(failure) = self.send(cx, nslpid, message, data) {
                    self.undelivered(cx, nslpid, message, data, failure);
                }
            }
            Request::SetStateLifetime { mri, session, lifetime } => {
                self.set_state_lifetime(cx, Key::new(nslpid, *session, *mri), mri, *lifetime);
            }
            Request::Forget { mri, session } => {
                self.forget(cx, Key::new(nslpid, *session, *mri), mri.direction());
            }
            Request::Invalidate { mri, status, urgent } => {
                self.invalidate(cx, nslpid, mri, *status, *urgent);
            }
            Request::ReportStatus { mri, session } => {
                self.report_status(cx, Key::new(nslpid, *session, *mri), mri.direction());
            }
            Request::SessionEnded { session, arrival } => cx.call_all(|application, cx| {
                if application.id() != nslpid {
                    application.other_session_ended(cx, *session, *arrival);
                }
            }),
            Request::Tolerated { peer, tolerated } => {
                if let Some(peer) = self.peers.by_handle(*peer) {
                    self.count_tolerated(peer, *tolerated);
                }
            }
        }
    }

    /// Sends a message, or queues it until it can be sent.
    pub(super) fn send(
        &mut self,
        cx: &mut InputContext<'_, '_>,
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
            return self.send_explicitly(cx, nslpid, message, data, peer);
        }
        let mri = message.mri;
        let mut at = self.at_recent(Key::new(nslpid, message.session, mri), mri.direction());
        let sent = peer_form(cx, nslpid, mri);
        if cx.context.interfaces.is_local(target(&sent)) {
            self.notify_application(cx, &at, Notification::LastNode);
            return Err(SendFailure::NoNextNode);
        }
        let mut state = self.state(&at);
        let mut hop = None;
        if state == State::Idle {
            hop = Some(self.may_query(cx, &at, &sent)?);
            if self.is_full(&at) {
                return Err(SendFailure::Limit);
            }
        }
        if state.is_querying() && self.store.half(at.half_id()).epoch != self.epoch {
            self.check_route(cx, &mut at);
            state = self.state(&at);
        }
        let half = self.store.get(at.half_id());
        let needs = self.needs_of(half, message, data)?;
        let known = half.is_some_and(|half| half.peer != NONE);
        let exists = half.is_some_and(|half| self.served_by(half.association) >= needs);
        let bad = state == State::EstablishedDownstream
            && half.is_some_and(|half| half.validity == Validity::Bad);
        if !self.can_serve(needs) || state == State::EstablishedUpstream && known && !exists {
            // Only the querying node may set up an association (RFC 5971 section 4.4.1).
            return Err(SendFailure::NoAssociation);
        }
        let facts = Facts::default()
            .with(Fact::NeedsAssociation, needs > Needs::Nothing)
            .with(Fact::AssociationExists, exists)
            .with(Fact::PeerKnown, known)
            .with(Fact::Bad, bad);
        let event_data = EventData::Send { message, data, needs, hop };
        match self.step(cx, &mut at, Event::SendMessage, facts, &event_data) {
            Some(_) => Ok(()),
            None => Err(SendFailure::NoUpstreamState),
        }
    }

    /// Returns the needs of a message: by its attributes, by the settings, and an association if it exceeds a datagram.
    fn needs_of(
        &self,
        half: Option<&Half>,
        message: &SendMessage,
        data: &[u8],
    ) -> Result<Needs, SendFailure> {
        let asked = Needs::from(message.attributes).max(self.least_needs());
        let length = data.len() + self.overhead(&message.mri);
        // An unknown peer may be a neighbor.
        let known = half.filter(|half| half.peer != NONE);
        let room = known.map_or(LARGEST_DATAGRAM, |half| self.largest_datagram(half));
        match asked {
            Needs::Nothing if length <= room => Ok(asked),
            Needs::Nothing if self.can_serve(Needs::Reliable) => Ok(Needs::Reliable),
            Needs::Nothing => Err(SendFailure::TooLarge),
            Needs::Reliable | Needs::Secure => Ok(asked),
        }
    }

    /// Returns the length of a Data message without its data, octets.
    fn overhead(&self, mri: &Mri) -> usize {
        // Common header, MRI, SID, NLI with an address of this family, the header of NSLP-Data.
        let address = if target(mri).is_ipv4() { 4 } else { 16 };
        let identity = self.identity.octets().len().next_multiple_of(4);
        8 + (4 + mri.value_len()) + 20 + (4 + 8 + identity + address) + 4
    }

    /// Sends Data to the peer of a half.
    pub(super) fn send_data(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
    ) {
        let EventData::Send { message, data, .. } = event_data else { return };
        if !self.transmit_data(cx, at, message, data) {
            self.undelivered(cx, at.key.nslpid, message, data, SendFailure::Limit);
        }
    }

    /// Sends Data to a peer that writes the prefixes of the flow in its own form.
    #[cold]
    fn transmit_as_written(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        message: &SendMessage,
        data: &[u8],
    ) -> bool {
        let half = self.store.half(at.half_id());
        let (peer, distance, over) = (half.peer, half.ip_distance, half.association);
        let message = &SendMessage { mri: half.prefix_form.written(message.mri), ..*message };
        match over {
            NONE => self.transmit_to(cx, at.key.nslpid, message, data, peer, distance),
            over => self.transmit_over(cx, at.key.nslpid, message, data, over),
        }
    }

    fn transmit_data(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        message: &SendMessage,
        data: &[u8],
    ) -> bool {
        let half = self.store.half(at.half_id());
        let (peer, distance, over) = (half.peer, half.ip_distance, half.association);
        if half.prefix_form.is_tolerated() {
            return self.transmit_as_written(cx, at, message, data);
        }
        if over != NONE {
            return self.transmit_over(cx, at.key.nslpid, message, data, over);
        }
        self.transmit_to(cx, at.key.nslpid, message, data, peer, distance)
    }

    /// Sends to a peer that the application names, whatever the routing state.
    fn send_explicitly(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        nslpid: u16,
        message: &SendMessage,
        data: &[u8],
        peer: Index,
    ) -> Result<(), SendFailure> {
        let unknown = Half { peer, ..Half::default() };
        let needs = self.needs_of(Some(&unknown), message, data)?;
        // The state at the peer may have come over an association, and then nothing weaker touches it.
        let over = self
            .open_association(peer, Needs::Secure)
            .or_else(|| self.open_association(peer, Needs::Reliable));
        let sent = match over.filter(|&over| self.served_by(over) >= needs) {
            Some(over) => self.transmit_over(cx, nslpid, message, data, over),
            None if needs == Needs::Nothing => self.transmit_to(cx, nslpid, message, data, peer, 0),
            None => return Err(SendFailure::NoAssociation),
        };
        if sent { Ok(()) } else { Err(SendFailure::Limit) }
    }

    /// Sends over an association, in as many objects as needed.
    fn transmit_over(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        nslpid: u16,
        sent: &SendMessage,
        data: &[u8],
        over: Index,
    ) -> bool {
        let (nslp_data, continuation) = Continuation::split(data);
        let body = Body::Data(Data {
            nat_traversal: None,
            mri: peer_form(cx, nslpid, sent.mri),
            session: sent.session,
            nli: None,
            nslp_data,
            continuation,
            context_free: false,
            explicitly_routed: sent.to.is_some(),
        });
        let hops = sent.hops.unwrap_or(self.config.hops);
        self.write_message(cx, over, &message(hops, nslpid, true, body))
    }

    fn transmit_to(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        nslpid: u16,
        sent: &SendMessage,
        data: &[u8],
        peer: Index,
        ip_distance: u8,
    ) -> bool {
        let Some(path) = self.path_to(cx, peer) else { return false };
        let identity: Identity = self.identity;
        let validity = self.validity_ms();
        let nli = self.nli(&identity, path.source, sent.mri.direction(), ip_distance, validity);
        let body = Body::Data(Data {
            nat_traversal: None,
            mri: peer_form(cx, nslpid, sent.mri),
            session: sent.session,
            nli: Some(nli),
            nslp_data: data,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: sent.to.is_some(),
        });
        let hops = sent.hops.unwrap_or(self.config.hops);
        self.send_datagram(cx, &path, &message(hops, nslpid, true, body))
    }

    /// Returns an undeliverable message to its application.
    pub(super) fn undelivered(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        nslpid: u16,
        message: &SendMessage,
        data: &[u8],
        failure: SendFailure,
    ) {
        self.counters.undelivered += 1;
        cx.call(nslpid, |application, cx| {
            application.undelivered(cx, message, data, failure);
        });
    }

    /// Handles Data. Data in several objects are joined.
    pub(super) fn receive_data(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        data: &Data<'_>,
    ) {
        if data.continuation.is_empty() {
            return self.receive_whole_data(cx, receipt, data);
        }
        let mut whole = mem::take(&mut self.assembly);
        whole.clear();
        whole.extend_from_slice(data.nslp_data);
        data.continuation.pieces().for_each(|piece| whole.extend_from_slice(piece));
        let data = Data { nslp_data: &whole, continuation: Continuation::NONE, ..*data };
        self.receive_whole_data(cx, receipt, &data);
        self.assembly = whole;
    }

    /// Handles Data in one piece.
    #[inline]
    fn receive_whole_data(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        data: &Data<'_>,
    ) {
        let direction = data.mri.direction().inverted();
        let key = Key::new(receipt.nslpid, data.session, data.mri);
        if data.explicitly_routed {
            return self.receive_explicit_data(
                cx,
                receipt,
                data,
                &HalfRef { key, direction, index: NONE },
            );
        }
        let mut at = self.at(key, direction);
        let half = self.store.get(at.half_id());
        let checked = match half.filter(|half| half.peer != NONE) {
            Some(half) => self.origin_for(cx, receipt, data.nli.as_ref(), half),
            None => Ok(Origin { peer: None, channel: receipt.channel }),
        };
        let sender = match checked {
            Ok(sender) => sender,
            Err(DropReason::WrongPeer) => {
                return self.refuse_former_peer(cx, receipt, data.nli.as_ref());
            }
            Err(reason) => return self.refuse_sender(cx, receipt, reason),
        };
        let state = half.map_or(State::Idle, |half| half.state);
        if state == State::Idle && data.context_free && self.config.stateless_data {
            return self.deliver_to_application(
                cx,
                &at,
                receipt,
                sender,
                (data.mri, data.nslp_data),
            );
        }
        let facts = Facts::default().with(Fact::PeerKnown, sender.peer.is_some());
        let event_data = EventData::Data { receipt, data, sender };
        self.step(cx, &mut at, Event::Data, facts, &event_data);
    }

    /// Handles explicitly routed Data, whatever the routing state (RFC 5971 section 7.1.5).
    fn receive_explicit_data(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        data: &Data<'_>,
        at: &HalfRef,
    ) {
        let known = self.at(at.key, at.direction);
        match self.explicit_origin(cx, receipt, data.nli.as_ref(), &known) {
            Ok(sender) => {
                self.deliver_to_application(cx, at, receipt, sender, (data.mri, data.nslp_data));
            }
            Err(reason) => self.ignore(cx, receipt, reason),
        }
    }

    /// Ignores a message of a sender that may not touch its routing state. Over an association, the sender gets an
    /// Error.
    #[cold]
    pub(super) fn refuse_sender(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        reason: DropReason,
    ) {
        if reason == DropReason::WrongAssociation {
            self.refuse(cx, receipt, ErrorCode::IncorrectlyDelivered, 0);
        }
        self.ignore(cx, receipt, reason);
    }

    /// Ignores a datagram whose sender is not the peer of its routing state. If it is a peer of this node, it may have been
    /// the peer before, and be on the path again: with the Error it repeats the handshake, and need not wait for its
    /// next refresh (RFC 5971 section 4.4.6).
    #[cold]
    fn refuse_former_peer(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: Option<&NetworkLayerInformation<'_>>,
    ) {
        if self.known_sender(receipt, nli).is_ok() {
            self.refuse(cx, receipt, ErrorCode::NoRoutingState, 0);
        }
        self.ignore(cx, receipt, DropReason::WrongPeer);
    }

    /// Delivers Data, or the data of a Confirm.
    pub(super) fn deliver(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
    ) {
        match event_data {
            EventData::Data { receipt, data, sender } => {
                let content = (data.mri, data.nslp_data);
                self.deliver_to_application(cx, at, receipt, *sender, content);
            }
            EventData::Confirm { receipt, confirm, peer } => {
                if let Some(data) = confirm.nslp_data {
                    let sender =
                        Origin { peer: self.peers.handle(*peer), channel: receipt.channel };
                    self.deliver_to_application(cx, at, receipt, sender, (confirm.mri, data));
                }
            }
            _ => {}
        }
    }

    /// Delivers a message to its application.
    pub(super) fn deliver_to_application(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        receipt: &Receipt<'_>,
        origin: Origin,
        (mri, data): (Mri, &[u8]),
    ) {
        let distance = self.store.get(at.half_id()).map(|half| half.ip_distance);
        let received = Received {
            data,
            session: at.key.session,
            mri,
            upstream: receipt.upstream.as_ref(),
            origin,
            explicitly_routed: receipt.explicitly_routed,
            ip_distance: distance.filter(|distance| *distance != 0),
            hops: receipt.hops,
            interface: receipt.interface,
        };
        cx.call(receipt.nslpid, |application, cx| application.receive(cx, &received));
    }

    /// Refuses Data without routing state.
    pub(super) fn refuse_data(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        event_data: &EventData<'_>,
    ) {
        let EventData::Data { receipt, .. } = event_data else { return };
        if !cx.is_served(receipt.nslpid) {
            self.refuse(cx, receipt, ErrorCode::UnknownNslpid, 0);
            return self.ignore(cx, receipt, DropReason::UnknownApplication);
        }
        self.refuse(cx, receipt, ErrorCode::NoRoutingState, 0);
        self.ignore(cx, receipt, DropReason::NoRoutingState);
    }

    /// Sets how long an application needs routing state.
    fn set_state_lifetime(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        key: Key,
        mri: &Mri,
        lifetime: Duration,
    ) {
        let mut at = self.at_recent(key, mri.direction());
        let state = self.state(&at);
        if state == State::Idle {
            return;
        }
        if lifetime.is_zero() {
            let event_data = EventData::Nothing;
            self.step(cx, &mut at, Event::Forget, Facts::default(), &event_data);
        } else if state.is_querying() {
            self.store.half_mut(at.half_id()).lifetime_ms = millis(lifetime);
            self.restart_expire(cx.now, &at);
            self.arm(at.half_id());
        }
    }

    /// Releases routing state of an application in both directions, `direction` first.
    fn forget(&mut self, cx: &mut InputContext<'_, '_>, key: Key, direction: Direction) {
        let mut at = self.at_recent(key, direction);
        for direction in [direction, direction.inverted()] {
            at.direction = direction;
            if self.state(&at) != State::Idle {
                let event_data = EventData::Nothing;
                self.step(cx, &mut at, Event::Forget, Facts::default(), &event_data);
            }
        }
    }
}
