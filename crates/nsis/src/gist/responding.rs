//! The responding node: answers Queries, and keeps the querying peer (RFC 5971 sections 4.3.2, 4.4.1 and 6.3).

use core::mem;

use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{
    Body, Direction, ErrorCode, Mri, NetworkLayerInformation, ObjectType, Profiles,
    ProtocolOptionsList, Query, ResponderPart, Response, Stack, StackConfiguration,
};

use super::Gist;
use super::association::link_user;
use super::config::Installation;
use super::cookie::CookieBinding;
use super::counters::DropReason;
use super::event_data::EventData;
use super::machine::{Event, Fact, Facts, State};
use super::notify::report_translation;
use super::receipt::Receipt;
use super::state::{HalfRef, Index, Key, NONE, Needs};
use super::translation::lacks_translation;
use super::transmit::{DatagramPath, message, own_address};
use crate::Tolerated;
use crate::input_context::InputContext;
use crate::nslp::{Origin, Peering, Received, Validity};
use crate::route;

/// TTL below which an upstream Query has crossed more than one hop (RFC 5971 A.4.4.11).
const NEIGHBOUR_TTL: u8 = 254;

/// Proof of the address of a querying node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// A Query proves nothing.
    None,
    /// The cookie in a Confirm.
    Cookie,
}

impl Gist {
    /// Handles a Query for an application of this node.
    pub(super) fn receive_query(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        query: &Query<'_>,
        is_local: bool,
    ) -> Option<Peering> {
        if query.nli.peer_identity == self.identity.octets()
            && cx.context.interfaces.is_local(query.nli.interface_address)
        {
            self.ignore(cx, receipt, DropReason::Own);
            return None;
        }
        if let Err(reason) = self.check_query(cx, receipt, query) {
            self.ignore(cx, receipt, reason);
            return None;
        }
        let mut answer = mem::take(&mut self.scratch);
        answer.clear();
        let peering = self.ask_application(cx, receipt, query, &mut answer);
        // RFC 5971 section 4.3.2: no node behind the destination could accept it.
        let accepts = is_local || peering == Some(Peering::Accept);
        if accepts {
            self.answer_query(cx, receipt, query, &answer);
        }
        self.scratch = answer;
        Some(if accepts { Peering::Accept } else { Peering::Pass })
    }

    /// Checks the rate limits, the distance and the MRI of a Query.
    fn check_query(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        query: &Query<'_>,
    ) -> Result<(), DropReason> {
        let limits = self.config.limits;
        // The sender of a Query has not proved its address, so the limit is that of the interface.
        let arrival = receipt.interface.0.into();
        if !self.queries.admits(cx.now, arrival, limits.queries_per_second_of_a_peer)
            || !self.totals.admits(cx.now, 1, limits.queries_per_second)
        {
            return Err(DropReason::Throttled);
        }
        // RFC 5971 section 7.2.1.
        if receipt.source_is_peer && receipt.source != query.nli.interface_address {
            let code = ErrorCode::ObjectType;
            let subcode = subcode::object_type::UNTRANSLATED;
            self.refuse_mri(cx, receipt, code, subcode);
            let named = query.nli.interface_address;
            report_translation(cx, receipt, (query.session, query.mri), named);
            return Err(DropReason::Untranslated);
        }
        if lacks_translation(cx, receipt, &query.mri) || !is_translated(query) {
            let subcode = subcode::object_type::UNTRANSLATED;
            self.refuse_mri(cx, receipt, ErrorCode::ObjectType, subcode);
            return Err(DropReason::Untranslated);
        }
        if query.mri.direction() == Direction::Upstream
            && receipt.ttl.is_some_and(|ttl| ttl < NEIGHBOUR_TTL)
        {
            self.refuse(cx, receipt, ErrorCode::InvalidTtl, 0);
            return Err(DropReason::TooFar);
        }
        let mri = match &receipt.upstream {
            Some(flow) if query.mri.direction() == Direction::Downstream => Mri::PathCoupled(*flow),
            _ => query.mri,
        };
        if let Err(subcode) = self.check_mri(cx, receipt, &mri) {
            self.refuse_mri(cx, receipt, ErrorCode::MriValidation, subcode);
            return Err(DropReason::Mri);
        }
        // A downstream Query with the addresses of the flow must have the source of the flow.
        let source = mri.addresses().0;
        let as_data = !receipt.source_is_peer && query.mri.direction() == Direction::Downstream;
        if as_data && receipt.source != source {
            report_translation(cx, receipt, (query.session, query.mri), source);
            return Err(DropReason::Untranslated);
        }
        Ok(())
    }

    /// Checks whether a flow can take this path (RFC 5971 sections 4.3.4 and 5.8.1.2).
    fn check_mri(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        mri: &Mri,
    ) -> Result<(), u8> {
        let (source, destination) = mri.addresses();
        if destination.is_ipv4() != receipt.destination.is_ipv4() {
            return Err(subcode::mri::IP_VERSION_MISMATCH);
        }
        let Mri::PathCoupled(flow) = mri else { return Ok(()) };
        if flow.destination_prefix < self.config.shortest_prefix || destination.is_multicast() {
            return Err(subcode::mri::TOO_WILD);
        }
        // Behind an access interface, messages of a flow come from where its packets come from or go to.
        let end = if mri.direction() == Direction::Downstream { source } else { destination };
        if !cx.context.is_behind(end, receipt.interface) {
            return Err(subcode::mri::INGRESS_FILTER);
        }
        if mri.direction() == Direction::Upstream {
            // The flow leaves through another interface, so the querying node has another node before it (section 5.8.1.3:
            // the upstream Query "depends on the correctness of the Querying node's understanding of the topology").
            let hop = route::hop(cx.context, &mri.inverted());
            if hop.is_some_and(|hop| hop.interface != receipt.interface) {
                return Err(subcode::mri::INGRESS_FILTER);
            }
        }
        if mri.direction() == Direction::Downstream {
            let wrong_way = self.config.ingress_filter
                && !cx.context.routes.leads_back(source, receipt.interface);
            if wrong_way || cx.context.interfaces.is_local(source) {
                return Err(subcode::mri::INGRESS_FILTER);
            }
        }
        Ok(())
    }

    fn ask_application(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        query: &Query<'_>,
        answer: &mut alloc::vec::Vec<u8>,
    ) -> Option<Peering> {
        let received = Received {
            data: query.nslp_data.unwrap_or_default(),
            session: query.session,
            mri: query.mri,
            upstream: receipt.upstream.as_ref(),
            origin: Origin { peer: None, channel: receipt.channel },
            explicitly_routed: false,
            ip_distance: receipt.ip_distance(query.mri.direction(), query.nli.ip_ttl),
            hops: receipt.hops,
            interface: receipt.interface,
        };
        cx.call(receipt.nslpid, |application, cx| application.may_peer(cx, &received, answer))
    }

    fn answer_query(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        query: &Query<'_>,
        answer: &[u8],
    ) {
        let direction = query.mri.direction().inverted();
        let mut at = self.at(Key::new(receipt.nslpid, query.session, query.mri), direction);
        let mut state = self.state(&at);
        if state.is_querying() {
            if direction == Direction::Downstream
                || self.config.installation == Installation::Delayed
            {
                // RFC 5971 section 5.8.1.3: the result of a downstream Query takes precedence. The peer gets a
                // Response; only its Confirm ends an upstream search, because anybody can send a Query.
                return self.respond_only(cx, &at, receipt, query, answer, NONE);
            }
            let event_data = EventData::Nothing;
            self.step(cx, &mut at, Event::Forget, Facts::default(), &event_data);
            at = self.at(at.key, direction);
            state = State::Idle;
        }
        let before = self.store.get(at.half_id()).map_or(NONE, |half| half.peer);
        let is_same = self
            .peers
            .get(before)
            .is_some_and(|peer| peer.interface == receipt.interface && peer.is(&query.nli));
        let is_new = before != NONE && !is_same;
        let known = match (is_same, query.stack) {
            (true, _) => before,
            (false, Some(_)) => self.peers.find(&query.nli, receipt.interface).unwrap_or(NONE),
            (false, None) => NONE,
        };
        let policy = self.config.installation;
        // If an association is requested: does one that serves exist with this peer, and does the half already use it?
        let wanted = query.stack.is_some_and(|stack| !stack.proposal.is_empty())
            && self.can_serve(Needs::Reliable);
        let used = self.store.get(at.half_id()).map_or(NONE, |half| half.association);
        let found = query.stack.and_then(|stack| {
            let stays = is_same && self.can_reuse(used, &stack);
            if stays { Some(used) } else { self.reusable(known, &stack) }
        });
        let over = found.filter(|_| wanted).unwrap_or(NONE);
        // Without a proposal the sender leaves the association; it must prove that with a Confirm.
        let leaves = !wanted && used != NONE;
        let needs_association = wanted && (found.is_none() || found != Some(used)) || leaves;
        let confirm = needs_association
            || policy != Installation::Immediate
                && (state != State::EstablishedUpstream || is_new || before == NONE);
        if policy != Installation::Delayed
            && state == State::EstablishedUpstream
            && (is_new || needs_association)
        {
            match self.check_handshake(cx, receipt, &query.nli, &at) {
                Ok(()) => {}
                Err(DropReason::NotSecured) => {
                    // Only the Confirm over a secured association changes the half.
                    return self.respond_only(cx, &at, receipt, query, answer, over);
                }
                Err(reason) => return self.ignore(cx, receipt, reason),
            }
        }
        let mut peer = NONE;
        if policy == Installation::Immediate || state == State::EstablishedUpstream && !confirm {
            let admitted = match is_same {
                true => Some(before),
                false => self.admit_querier(cx, receipt, &query.nli, before),
            };
            let Some(admitted) = admitted else {
                return self.ignore(cx, receipt, DropReason::Limit);
            };
            peer = admitted;
        }
        if state == State::Idle && policy != Installation::Delayed && self.is_full(&at) {
            self.start_peer_lifetime(cx.now, peer);
            return self.ignore(cx, receipt, DropReason::Limit);
        }
        let facts = Facts::default()
            .with(Fact::ConfirmRequired, policy != Installation::Immediate)
            .with(Fact::Delayed, policy == Installation::Delayed)
            .with(Fact::NewPeer, is_new)
            .with(Fact::NeedsAssociation, needs_association);
        let event_data = EventData::Query { receipt, query, answer, peer, confirm, over };
        self.step(cx, &mut at, Event::Query, facts, &event_data);
        self.start_peer_lifetime(cx.now, peer);
    }

    /// Sends the Response to a Query, to the address in the Query.
    pub(super) fn send_response(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
    ) {
        let EventData::Query { query, over, .. } = event_data else { return };
        if query.stack.is_none() || *over != NONE {
            return self.respond(cx, at, event_data, None);
        }
        let ports = self.ports();
        let (profiles, options) = self.proposal(&ports);
        let configuration = StackConfiguration {
            hold_time: self.hold_time_ms(),
            options: ProtocolOptionsList::new(&options[..profiles.len()]),
        };
        let stack = Stack { proposal: Profiles::new(profiles), configuration };
        self.respond(cx, at, event_data, (!profiles.is_empty()).then_some(stack));
    }

    fn respond(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
        stack: Option<Stack<'_>>,
    ) {
        let EventData::Query { receipt, query, answer, confirm, over, .. } = event_data else {
            return;
        };
        let Some(path) = self.path_back(cx, receipt, &query.nli) else { return };
        // A refresh without Confirm has no cookie.
        let cookie = confirm.then(|| {
            let binding = CookieBinding {
                nli: &query.nli,
                mri: &query.mri,
                session: query.session,
                nslpid: receipt.nslpid,
            };
            self.cookies.responder(cx.now, &binding, receipt.interface)
        });
        let distance = receipt.ip_distance(query.mri.direction(), query.nli.ip_ttl).unwrap_or(0);
        let validity = self.granted_ms(query.nli.routing_state_validity);
        let identity = self.identity;
        let response = Response {
            nat_traversal: query.nat_traversal,
            mri: receipt.prefix_form.written(receipt.peer_form(at.mri())),
            session: query.session,
            nli: self.nli(&identity, path.source, at.direction, distance, validity),
            query_cookie: query.query_cookie,
            responder: cookie.as_ref().map(|cookie| ResponderPart { cookie, stack }),
            confirm_requested: *confirm,
            nslp_data: (!answer.is_empty()).then_some(*answer),
        };
        let response = message(self.config.hops, receipt.nslpid, true, Body::Response(response));
        match *over {
            NONE => self.send_datagram(cx, &path, &response),
            over => self.write_message(cx, over, &response),
        };
    }

    /// Returns the path to the sender of a message, by its NLI (RFC 5971 section 4.4.1).
    pub(super) fn path_back(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
    ) -> Option<DatagramPath> {
        let interface = cx.context.interfaces.by_id(receipt.interface)?;
        Some(DatagramPath {
            source: own_address(interface, nli.interface_address)?,
            destination: nli.interface_address,
            port: receipt.source_port,
            interface: None,
            next_hop: None,
            ttl: self.config.ttl,
            router_alert: false,
        })
    }

    /// Returns the validity that is granted for a proposed one, milliseconds.
    pub(super) fn granted_ms(&self, proposed: u32) -> u32 {
        let most = self.validity_ms();
        proposed.clamp(self.validities.shortest.clamp(1, most), most)
    }

    /// Installs the querying node as the peer.
    pub(super) fn install_querier(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
        peer: Index,
        proof: Proof,
    ) {
        let before = self.store.half(at.half_id()).peer;
        let handle = self.peers.handle(before);
        let is_refresh = proof == Proof::None && before == peer;
        self.set_peer(cx.now, at, peer);
        if before != peer {
            self.count_querier(at);
        }
        if let Some(block) = self.peers.get_mut(peer) {
            block.heard = cx.now;
            if receipt.prefix_form.is_tolerated() {
                block.tolerated.count(Tolerated::PrefixLength);
            }
        }
        match receipt.association {
            // A refresh arrives in a datagram, whatever the session uses.
            NONE if is_refresh => {}
            NONE => self.release(at),
            index => link_user(&mut self.store, &mut self.associations, at.half_id(), index),
        }
        let mut validity = self.granted_ms(nli.routing_state_validity);
        if is_refresh {
            // Anybody can send a Query in the name of the peer: it never shortens the lifetime.
            let lifetime = self.store.half(at.half_id()).lifetime_ms;
            validity = validity.max(lifetime.min(self.validity_ms()));
        }
        let direction = at.direction.inverted();
        let distance = receipt.ip_distance(direction, nli.ip_ttl);
        let half = self.store.half_mut(at.half_id());
        let was_due = half.due();
        let was_good = mem::replace(&mut half.validity, Validity::Good) == Validity::Good;
        half.lifetime_ms = validity;
        half.expires_at = cx.now.after_millis(validity.into());
        half.next_at = earmark_core::Time::MAX;
        half.prefix_form = receipt.prefix_form;
        if !(is_refresh && half.secured) {
            half.ip_distance = distance.unwrap_or(half.ip_distance);
        }
        self.arm_if_earlier(at.half_id(), was_due);
        if before != peer || !was_good {
            self.notify_installed(cx, at, handle.filter(|_| before != peer));
        }
    }

    /// Answers a Query without any effect on the half: only the Confirm has one.
    fn respond_only(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        receipt: &Receipt<'_>,
        query: &Query<'_>,
        answer: &[u8],
        over: Index,
    ) {
        let (peer, confirm) = (NONE, true);
        let event_data = EventData::Query { receipt, query, answer, peer, confirm, over };
        self.send_response(cx, at, &event_data);
    }

    /// Returns the querying peer that a message names, whose half had the peer `before`; creates it if it is new. `None`
    /// at a limit: then a peer that nothing uses ends after its lifetime.
    pub(super) fn admit_querier(
        &mut self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
        before: Index,
    ) -> Option<Index> {
        let known = self.peers.find(nli, receipt.interface);
        let peer = self.use_peer(cx, receipt, nli, known)?;
        if before == peer || !self.exceeds_querier_limit(cx, peer) {
            return Some(peer);
        }
        self.start_peer_lifetime(cx.now, peer);
        None
    }

    /// Returns the peer that a message names, `known` if it is; creates it if it is new.
    pub(super) fn use_peer(
        &mut self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
        known: Option<Index>,
    ) -> Option<Index> {
        let index = match known {
            Some(index) => index,
            None => self.insert_peer(cx, receipt, nli)?,
        };
        let peer = self.peers.get_mut(index)?;
        if receipt.association == NONE {
            peer.port = receipt.source_port;
        }
        peer.heard = cx.now;
        peer.is_near |= receipt.is_from_this_link() && receipt.source == nli.interface_address;
        Some(index)
    }

    /// Inserts the peer that a message names, if its interface has room.
    #[cold]
    fn insert_peer(
        &mut self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
    ) -> Option<Index> {
        let mtu = cx.context.interfaces.by_id(receipt.interface).map_or(0, |found| found.mtu);
        let bounds = self.bounds(cx, self.config.limits.peers);
        self.peers.insert(nli, receipt.interface, mtu, bounds, cx.now)
    }
}

/// Returns whether the translators on the path, if there are any, have translated all objects that contain addresses: "a GIST
/// node receiving such a message MUST verify that" (RFC 5971 section 7.2.3).
#[inline]
fn is_translated(query: &Query<'_>) -> bool {
    query.nat_traversal.is_none_or(|by| {
        let has = |kind: ObjectType| by.translated.contains(kind.code());
        has(ObjectType::NetworkLayerInformation)
            && (query.stack.is_none() || has(ObjectType::StackConfigurationData))
    })
}
