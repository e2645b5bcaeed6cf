//! The querying node: discovers the next node on the path, and refreshes the result before it expires (RFC 5971
//! sections 4.4.1, 5.3.2, 5.8 and 6.2).

use core::time::Duration;

use earmark_core::{Hop, Time, Transport};
use earmark_wire::gist::{
    Body, Confirm, Direction, ErrorCode, Mri, Profile, Profiles, ProtocolOptions,
    ProtocolOptionsList, Query, Response, Returned, Stack, StackConfiguration,
};

use super::Gist;
use super::association::{Stage, link_user};
use super::config::UpstreamQueries;
use super::counters::DropReason;
use super::event_data::EventData;
use super::handshake::Handshake;
use super::machine::{Event, Fact, Facts, State};
use super::notify::report_translation;
use super::receipt::Receipt;
use super::state::{HalfRef, Index, Key, NO_HOP, NONE, Needs, millis};
use super::translation::peer_form;
use super::transmit::{DatagramPath, UPSTREAM_TTL, message, own_address, target};
use crate::PORT;
use crate::input_context::InputContext;
use crate::nslp::{Origin, SendFailure, Validity};
use crate::route;

impl Gist {
    /// Returns the hop for a Query in this direction, or why none can be sent (RFC 5971 section 5.8).
    pub(super) fn may_query(
        &self,
        cx: &InputContext<'_, '_>,
        at: &HalfRef,
        mri: &Mri,
    ) -> Result<Hop, SendFailure> {
        let hop = self.hop(cx, at, mri);
        match (mri, mri.direction(), self.config.upstream_queries) {
            (_, Direction::Downstream, _)
            | (Mri::PathCoupled(_), Direction::Upstream, UpstreamQueries::Routed) => {
                hop.ok_or(SendFailure::NoRoute)
            }
            (Mri::PathCoupled(_), Direction::Upstream, UpstreamQueries::OnLink) => {
                let hop = hop.ok_or(SendFailure::NoRoute)?;
                if hop.gateway.is_none() { Ok(hop) } else { Err(SendFailure::NoUpstreamState) }
            }
            _ => Err(SendFailure::NoUpstreamState),
        }
    }

    /// Returns the hop in the direction of an MRI, which is that of a half; none if there is no route, or only one back to the peer
    /// of the other half. Then the flow does not pass this node: packets from that peer do not arrive when it knows that route.
    pub(super) fn hop(&self, cx: &InputContext<'_, '_>, at: &HalfRef, mri: &Mri) -> Option<Hop> {
        let hop = route::hop(cx.context, mri)?;
        let peer = self.store.get(at.other_id()).and_then(|other| self.peers.get(other.peer));
        let leads_back = peer.is_some_and(|peer| hop.is_neighbor(peer.interface, peer.address));
        (!leads_back).then_some(hop)
    }

    /// Sends a Query, the first or a retransmission, and starts the timeout of the Response.
    pub(super) fn send_query(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event: Event,
        event_data: &EventData<'_>,
    ) {
        let mri = peer_form(cx, at.key.nslpid, at.mri());
        let hop = match event_data {
            EventData::Send { hop: Some(hop), .. } => Some(*hop),
            _ => self.may_query(cx, at, &mri).ok(),
        };
        let route = hop.map_or(NO_HOP, |hop| self.fingerprint(&hop));
        let before = self.store.half(at.half_id());
        let is_new = before.peer == NONE && event == Event::SendMessage;
        // A Query on another route begins another handshake: the Responses to those before it do not count.
        let again = event == Event::NoResponse && (route == NO_HOP || route == before.hop);
        let first = if is_new { self.cookies.first_query() } else { 0 };
        let (epoch, route_changes) = (self.epoch, self.route_changes);
        let inactivity = millis(self.config.inactivity);
        let half = self.store.half_mut(at.half_id());
        if is_new {
            half.query = first;
            half.lifetime_ms = inactivity;
            half.expires_at = cx.now + self.config.inactivity;
        } else {
            half.query = half.query.wrapping_add(1);
        }
        half.unanswered = if again { half.unanswered.saturating_add(1) } else { 1 };
        match event {
            Event::NoRoutingState | Event::AssociationError => half.refused = 1,
            Event::Refresh => half.refused = 0,
            _ => {}
        }
        (half.epoch, half.hop, half.route_changes) = (epoch, route, route_changes);
        if let EventData::Send { needs, .. } = event_data {
            half.needs = half.needs.max(*needs);
        }
        half.next_at = cx.now + self.config.timeout_after(half.unanswered);
        let (number, unanswered, ip_distance) = (half.query, half.unanswered, half.ip_distance);
        let needs = half.needs;
        half.offered = needs > Needs::Nothing;
        self.counters.repeated += u64::from(again);
        self.arm(at.half_id());
        let Some(hop) = hop else { return };
        let Some(own) = self.own_address(cx, &hop, target(&mri)) else { return };
        let cookie = self.cookies.query(&at.key, number);
        let identity = self.identity;
        let direction = mri.direction();
        let nli = self.nli(&identity, own, direction, ip_distance, self.validity_ms());
        let mut query = Query {
            nat_traversal: None,
            mri,
            session: at.key.session,
            nli,
            query_cookie: &cookie,
            stack: None,
            nslp_data: None,
        };
        let next_hop = route::next_hop(cx.context, &mri, &hop);
        let path = DatagramPath { next_hop, ..self.query_path(&mri, &hop, own, unanswered) };
        let hops = self.config.hops;
        let is_peer = path.source == own;
        let nslpid = at.key.nslpid;
        if needs == Needs::Nothing {
            self.send_datagram(cx, &path, &message(hops, nslpid, is_peer, Body::Query(query)));
            return;
        }
        let profiles = self.profiles(needs);
        let options = [ProtocolOptions::tcp_query(0)];
        let configuration = StackConfiguration {
            hold_time: self.hold_time_ms(),
            options: ProtocolOptionsList::new(&options),
        };
        let proposal = Profiles::new(profiles);
        query.stack = (!profiles.is_empty()).then_some(Stack { proposal, configuration });
        self.send_datagram(cx, &path, &message(hops, nslpid, is_peer, Body::Query(query)));
    }

    /// Returns the facts for a handshake of a half that has failed.
    pub(super) fn failure_facts(&self, at: &HalfRef) -> Facts {
        let refused = self.store.get(at.half_id()).is_some_and(|half| half.refused > 0);
        Facts::default().with(Fact::Refused, refused)
    }

    /// Starts another handshake later, because several in succession have failed.
    pub(super) fn delay_query(&mut self, now: Time, at: &HalfRef) {
        let half = self.store.half_mut(at.half_id());
        half.refused = half.refused.saturating_add(1);
        half.unanswered = 0;
        half.next_at = now + self.config.timeout_after(half.refused);
        self.arm(at.half_id());
    }

    /// Forgets what the next node has refused, and starts a delayed handshake at once: the peer of the other half is new, so the
    /// flow has come to this node, and the refusals were of a path that the flow had left.
    pub(super) fn forget_refusals(&mut self, now: Time, other: &HalfRef) {
        let id = other.other_id();
        if self.store.get(id).is_none_or(|half| half.refused == 0) {
            return;
        }
        let half = self.store.half_mut(id);
        half.refused = 0;
        if half.state == State::WaitResponse && half.unanswered == 0 {
            half.next_at = now;
            self.arm(id);
        }
    }

    /// Returns the addresses of a Query: downstream those of the flow, so that it takes the path of the flow (RFC 5971
    /// sections 5.8.1.2, 5.8.1.3, 5.8.2.2).
    fn query_path(
        &self,
        mri: &Mri,
        hop: &Hop,
        own: core::net::IpAddr,
        unanswered: u8,
    ) -> DatagramPath {
        let destination = target(mri);
        let upstream = mri.direction() == Direction::Upstream;
        let own_source = upstream || self.config.own_source || unanswered.is_multiple_of(2);
        let silent = &self.config.without_router_alert;
        DatagramPath {
            source: if own_source { own } else { mri.addresses().0 },
            destination,
            port: PORT,
            interface: Some(hop.interface),
            next_hop: None,
            ttl: if upstream { UPSTREAM_TTL } else { self.config.ttl },
            router_alert: destination.is_ipv6()
                || !silent.iter().any(|prefix| prefix.contains(destination)),
        }
    }

    /// Returns the address of this node that a peer behind a hop sees.
    pub(super) fn own_address(
        &self,
        cx: &InputContext<'_, '_>,
        hop: &Hop,
        like: core::net::IpAddr,
    ) -> Option<core::net::IpAddr> {
        let interface = cx.context.interfaces.by_id(hop.interface)?;
        own_address(interface, like)
    }

    /// Returns a hash of a hop. Two hops with the same hash, one pair in 2^32, are indistinguishable until the next
    /// refresh.
    pub(super) fn fingerprint(&self, hop: &Hop) -> u32 {
        let gateway = match hop.gateway {
            None => 0,
            Some(core::net::IpAddr::V4(address)) => address.to_ipv6_mapped().to_bits(),
            Some(core::net::IpAddr::V6(address)) => address.to_bits(),
        };
        let words = [(gateway >> 64) as u64, gateway as u64, hop.interface.0.into(), 0, 0, 0];
        (self.hash.of_six(words) >> 32) as u32
    }

    /// Handles a Response (RFC 5971 section 6.2).
    pub(super) fn receive_response(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        response: &Response<'_>,
    ) {
        let direction = response.mri.direction().inverted();
        let key = Key::new(receipt.nslpid, response.session, response.mri);
        let mut at = self.at(key, direction);
        let Some(half) = self.store.get(at.half_id()).filter(|half| half.state.is_querying())
        else {
            return self.ignore(cx, receipt, DropReason::Unexpected);
        };
        let (before, unanswered, offered) = (half.peer, half.unanswered, half.offered);
        let is_established = half.state == State::EstablishedDownstream;
        if !self.cookies.is_query(&at.key, half.query, unanswered.max(1), response.query_cookie) {
            return self.ignore(cx, receipt, DropReason::Cookie);
        }
        let known = match self.check_response(cx, receipt, &response.nli, &at) {
            Ok(known) => known,
            Err(reason) => return self.ignore(cx, receipt, reason),
        };
        let needs = half.needs.max(self.least_needs());
        // RFC 5971 section 7.1.3: the flow takes another route than the Query, so this peer is not on its path.
        if (!is_established || known != Some(before)) && self.is_rerouted(cx, &at) {
            self.ignore(cx, receipt, DropReason::OldRoute);
            return self.check_route(cx, &mut at);
        }
        // The handshake is over. Its peer may still ask for the Confirm, which may have been lost.
        let asks_again = is_established && response.confirm_requested && known == Some(before);
        if unanswered == 0 && !asks_again {
            return self.ignore(cx, receipt, DropReason::Unexpected);
        }
        // RFC 5971 section 7.2.1: the peer is behind a translator, where the addresses of the flow are wrong.
        if receipt.association == NONE && receipt.source != response.nli.interface_address {
            self.ignore(cx, receipt, DropReason::Untranslated);
            let named = response.nli.interface_address;
            report_translation(cx, receipt, (response.session, response.mri), named);
            if !self.store.half(at.half_id()).secured {
                self.step(cx, &mut at, Event::Error, Facts::default(), &EventData::Nothing);
            }
            return;
        }
        let Some(peer) = self.use_peer(cx, receipt, &response.nli, known) else {
            return self.ignore(cx, receipt, DropReason::Limit);
        };
        if self.exceeds_peer_limit(peer) && before != peer {
            self.ignore(cx, receipt, DropReason::Limit);
            return self.start_peer_lifetime(cx.now, peer);
        }
        let found = match self.associations.get(receipt.association) {
            // Multiplexing: the responder has chosen the association (RFC 5971 section 4.4.3).
            Some(association) if association.peer == peer && association.serves(needs) => {
                Some(receipt.association)
            }
            Some(_) => {
                self.refuse(cx, receipt, ErrorCode::IncorrectlyDelivered, 0);
                self.ignore(cx, receipt, DropReason::WrongAssociation);
                return self.start_peer_lifetime(cx.now, peer);
            }
            None => self.open_association(peer, needs),
        };
        // The Response to a Query without a stack proposal, sent before an association was needed, has none either.
        let wanted = needs > Needs::Nothing && offered;
        if wanted && found.is_none() && self.choose(response, needs).is_none() {
            let event_data = EventData::Nothing;
            self.step(cx, &mut at, Event::NoCommonStack, Facts::default(), &event_data);
            return self.start_peer_lifetime(cx.now, peer);
        }
        let facts = Facts::default()
            .with(Fact::NewPeer, before != NONE && before != peer)
            .with(Fact::PeerLostState, unanswered == 0 && response.confirm_requested)
            .with(Fact::NeedsAssociation, wanted)
            .with(Fact::AssociationExists, found.is_some());
        let event_data = EventData::Response { receipt, response, peer };
        self.step(cx, &mut at, Event::Response, facts, &event_data);
        self.start_peer_lifetime(cx.now, peer);
        if self
            .store
            .get(at.half_id())
            .is_some_and(|half| half.awaits_association() && half.association == NONE)
        {
            let event_data = EventData::Nothing;
            self.step(cx, &mut at, Event::AssociationError, Facts::default(), &event_data);
        }
        if self.state(&at) == State::EstablishedDownstream
            && let Some(data) = response.nslp_data
        {
            let half = self.store.half(at.half_id());
            if half.secured && !receipt.channel.is_secured() {
                return self.ignore(cx, receipt, DropReason::NotSecured);
            }
            let origin = Origin { peer: self.peers.handle(half.peer), channel: receipt.channel };
            // RFC 5971 section 6.2, rule 4: data use the state.
            self.restart_expire(cx.now, &at);
            self.deliver_to_application(cx, &at, receipt, origin, (response.mri, data));
        }
    }

    /// Installs the peer and the values of its Response as routing state.
    pub(super) fn install_response(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        receipt: &Receipt<'_>,
        response: &Response<'_>,
        peer: u32,
    ) {
        let before = self.store.half(at.half_id()).peer;
        let handle = self.peers.handle(before);
        let was_good = self.store.half(at.half_id()).validity == Validity::Good;
        self.set_peer(cx.now, at, peer);
        self.use_association(at, receipt, peer);
        self.refresh_response(cx, at, receipt, response);
        if before != peer || !was_good {
            self.notify_installed(cx, at, handle.filter(|_| before != peer));
        }
    }

    /// Refreshes routing state with the values of a Response.
    pub(super) fn refresh_response(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        receipt: &Receipt<'_>,
        response: &Response<'_>,
    ) {
        let distance = receipt.ip_distance(response.mri.direction(), response.nli.ip_ttl);
        self.refresh_half(cx.now, at, response.nli.routing_state_validity, distance);
    }

    /// Restarts the refresh timer of routing state.
    fn refresh_half(&mut self, now: Time, at: &HalfRef, validity_ms: u32, ip_distance: Option<u8>) {
        // A peer cannot make this node query for ever, or never again.
        let validity = Duration::from_millis(self.granted_ms(validity_ms).into());
        // RFC 5971 section 4.4.4: randomized between half and three quarters of the validity.
        let next = self.jitter.uniform(validity / 2, validity * 3 / 4);
        let half = self.store.half_mut(at.half_id());
        let was_due = half.due();
        half.unanswered = 0;
        half.validity = Validity::Good;
        half.next_at = now + next;
        half.ip_distance = ip_distance.unwrap_or(half.ip_distance);
        self.arm_if_earlier(at.half_id(), was_due);
    }

    /// Uses an association for messages to the peer, if one exists and is needed.
    fn use_association(&mut self, at: &HalfRef, receipt: &Receipt<'_>, peer: Index) {
        let half = self.store.half(at.half_id());
        let needs = half.needs.max(self.least_needs());
        if needs == Needs::Nothing || !half.offered {
            return;
        }
        let came = (receipt.association != NONE).then_some(receipt.association);
        if let Some(index) = came.or_else(|| self.open_association(peer, needs)) {
            link_user(&mut self.store, &mut self.associations, at.half_id(), index);
        }
    }

    /// Returns an established association with a peer that serves `needs`.
    pub(super) fn open_association(&self, peer: Index, needs: Needs) -> Option<Index> {
        let index = self.associations.find(peer, needs)?;
        let is_open = self.associations.get(index).is_some_and(|one| one.stage == Stage::Open);
        (needs > Needs::Nothing && is_open).then_some(index)
    }

    /// Installs routing state after its association was established.
    pub(super) fn install_handshake(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        handshake: &Handshake,
    ) {
        self.refresh_half(cx.now, at, handshake.validity_ms, handshake.ip_distance);
        self.counters.established += 1;
        self.notify_good(cx, at);
    }

    /// Sends a Confirm, if the Response requests it. It carries the oldest waiting message, if that fits.
    pub(super) fn send_confirm(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
    ) {
        match event_data {
            EventData::Response { response, .. } if response.confirm_requested => {
                let returned = response.responder.map(|responder| Returned {
                    cookie: responder.cookie,
                    proposal: responder.stack.map(|stack| stack.proposal),
                    configuration: None,
                });
                let validity = response.nli.routing_state_validity;
                self.transmit_confirm(cx, at, returned, validity);
            }
            EventData::Established { handshake } if handshake.confirm_requested => {
                let profiles = handshake.profiles.iter().map(|layers| Profile(layers));
                let profiles: alloc::vec::Vec<Profile<'_>> = profiles.collect();
                let returned = Returned {
                    cookie: &handshake.cookie,
                    proposal: Some(Profiles::new(&profiles)),
                    configuration: None,
                };
                self.transmit_confirm(cx, at, Some(returned), handshake.validity_ms);
            }
            _ => {}
        }
    }

    fn transmit_confirm(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        returned: Option<Returned<'_>>,
        validity_ms: u32,
    ) {
        let half = self.store.half(at.half_id());
        let (queue, ip_distance, peer) = (half.queue, half.ip_distance, half.peer);
        let (association, room) = (half.association, self.largest_datagram(half));
        let Some(path) = self.path_to(cx, peer) else { return };
        let mri = peer_form(cx, at.key.nslpid, at.mri());
        let identity = self.identity;
        let mut confirm = Confirm {
            mri,
            session: at.key.session,
            nli: self.nli(&identity, path.source, mri.direction(), ip_distance, validity_ms),
            returned,
            nslp_data: None,
        };
        // The first Confirm on an association has the MA-Hold-Time of this node (RFC 5971 section 4.4.1).
        let hold_time = self.hold_time_ms();
        if let Some(association) = self.associations.get_mut(association)
            && let Some(returned) = &mut confirm.returned
            && returned.proposal.is_some()
            && !core::mem::replace(&mut association.hold_time_sent, true)
        {
            let options = ProtocolOptionsList::NONE;
            returned.configuration = Some(StackConfiguration { hold_time, options });
        }
        let bare = message(self.config.hops, at.key.nslpid, true, Body::Confirm(confirm));
        let (room, needs) = match association {
            NONE => (room.saturating_sub(bare.buffer_len()), Needs::Nothing),
            _ => (earmark_wire::nsis::MAXIMUM_VALUE, self.served_by(association)),
        };
        let taken = self.config.piggyback.then(|| self.take_first(queue, room, needs)).flatten();
        let mut hops = self.config.hops;
        if let Some(waiting) = &taken {
            confirm.nslp_data = Some(&waiting.data);
            hops = waiting.message.hops.unwrap_or(hops);
        }
        let confirm = message(hops, at.key.nslpid, true, Body::Confirm(confirm));
        let sent = match association {
            NONE => self.send_datagram(cx, &path, &confirm),
            _ => self.write_message(cx, association, &confirm),
        };
        if !sent && let Some(waiting) = taken {
            let (nslpid, failure) = (at.key.nslpid, SendFailure::Limit);
            self.undelivered(cx, nslpid, &waiting.message, &waiting.data, failure);
        }
    }

    /// Returns the needs that an association serves; [`Needs::Nothing`] if there is none.
    pub(super) fn served_by(&self, association: Index) -> Needs {
        match self.associations.get(association).map(|association| association.transport) {
            Some(Transport::Tls) => Needs::Secure,
            Some(Transport::Tcp) => Needs::Reliable,
            None => Needs::Nothing,
        }
    }
}
