//! The querying node: asks who is next on the path, and asks again before the answer is stale (RFC 5971 sections 4.4.1,
//! 5.3.2, 5.8 and 6.2).

use core::time::Duration;

use earmark_core::Hop;
use earmark_wire::gist::{Body, Confirm, Direction, Mri, Query, Response, Returned};

use super::Gist;
use super::config::UpstreamQueries;
use super::counters::DropReason;
use super::machine::{Event, Fact, Facts, State};
use super::state::{Arrival, Key, NONE, Needs};
use super::step::{At, Occasion};
use super::transmit::{UPSTREAM_TTL, Way, message, own_address, target};
use crate::PORT;
use crate::instance::Work;
use crate::nslp::{Notification, SendFailure, Validity};

impl Gist {
    /// Whether a peer can be asked for in this direction (RFC 5971 section 5.8).
    pub(super) fn may_query(&self, work: &Work<'_, '_>, mri: &Mri) -> Result<Hop, SendFailure> {
        let hop = work.context.routes.lookup(target(mri));
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

    /// Sends a Query, the first or one more, and waits for the Response.
    pub(super) fn send_query(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        event: Event,
        occasion: &Occasion<'_>,
    ) {
        let is_new = self.store.half(at.place()).peer == NONE && event == Event::SendMessage;
        let first = if is_new { self.cookies.first_query() } else { 0 };
        let epoch = self.epoch;
        let inactivity = millis(self.config.inactivity);
        let half = self.store.half_mut(at.place());
        if is_new {
            half.query = first;
            half.lifetime_ms = inactivity;
            half.expires_at = work.now + self.config.inactivity;
        } else {
            half.query = half.query.wrapping_add(1);
        }
        let again = event == Event::NoResponse;
        half.unanswered = if again { half.unanswered.saturating_add(1) } else { 1 };
        half.epoch = epoch;
        if let Occasion::Send { needs, .. } = occasion {
            half.needs = half.needs.max(*needs);
        }
        // Binary exponential backoff (RFC 5971 section 5.3.3).
        let doublings = u32::from(half.unanswered - 1).min(16);
        let timeout = self.config.first_timeout.saturating_mul(1 << doublings);
        half.next_at = work.now + timeout.min(self.config.longest_timeout);
        let (number, unanswered, ip_distance) = (half.query, half.unanswered, half.ip_distance);
        self.counters.repeated += u64::from(again);
        self.arm(at.place());
        let mri = at.mri();
        let Ok(hop) = self.may_query(work, &mri) else { return };
        self.store.half_mut(at.place()).hop = self.fingerprint(&hop);
        let Some(own) = self.own_address(work, &hop, target(&mri)) else { return };
        let cookie = self.cookies.query(&at.key, number);
        let identity = self.identity;
        let direction = mri.direction();
        let nli = self.nli(&identity, own, direction, ip_distance, self.validity_ms());
        let query = Query {
            nat_traversal: None,
            mri,
            session: at.key.session,
            nli,
            query_cookie: &cookie,
            stack: None,
            nslp_data: None,
        };
        let way = self.way_of_query(&mri, &hop, own, unanswered);
        let hops = self.config.hops;
        let is_peer = way.source == own;
        self.send_datagram(work, &way, &message(hops, at.key.nslpid, is_peer, Body::Query(query)));
    }

    /// The addresses of a Query: downstream those of the flow, so that it goes where the flow goes (RFC 5971 sections
    /// 5.8.1.2, 5.8.1.3, 5.8.2.2).
    fn way_of_query(&self, mri: &Mri, hop: &Hop, own: core::net::IpAddr, unanswered: u8) -> Way {
        let destination = target(mri);
        let upstream = mri.direction() == Direction::Upstream;
        let own_source = upstream || self.config.own_source || unanswered.is_multiple_of(2);
        let silent = &self.config.without_router_alert;
        Way {
            source: if own_source { own } else { mri.addresses().0 },
            destination,
            port: PORT,
            interface: Some(hop.interface),
            ttl: if upstream { UPSTREAM_TTL } else { self.config.ttl },
            router_alert: destination.is_ipv6()
                || !silent.iter().any(|prefix| prefix.contains(destination)),
        }
    }

    /// The address of this node that a peer behind a hop sees.
    pub(super) fn own_address(
        &self,
        work: &Work<'_, '_>,
        hop: &Hop,
        like: core::net::IpAddr,
    ) -> Option<core::net::IpAddr> {
        let interface = work.context.interfaces.by_id(hop.interface)?;
        own_address(interface, like)
    }

    /// A hop as a number. Two that share one, one pair in four thousand million, look alike until the next refresh.
    pub(super) fn fingerprint(&self, hop: &Hop) -> u32 {
        let gateway = match hop.gateway {
            None => 0,
            Some(core::net::IpAddr::V4(address)) => address.to_ipv6_mapped().to_bits(),
            Some(core::net::IpAddr::V6(address)) => address.to_bits(),
        };
        let words = [(gateway >> 64) as u64, gateway as u64, hop.interface.0.into(), 0, 0, 0];
        (self.hash.of_six(words) >> 32) as u32
    }

    /// A Response has come (RFC 5971 section 6.2).
    pub(super) fn response_arrives(
        &mut self,
        work: &mut Work<'_, '_>,
        arrival: &Arrival<'_>,
        response: &Response<'_>,
    ) {
        let direction = response.mri.direction().inverted();
        let key = Key::new(arrival.nslpid, response.session, response.mri);
        let mut at = self.at(key, direction);
        let Some(half) = self.store.get(at.place()).filter(|half| half.state.is_querying()) else {
            return self.ignore(work, arrival, DropReason::Unexpected);
        };
        if !self.cookies.is_query(&at.key, half.query, response.query_cookie) {
            return self.ignore(work, arrival, DropReason::Cookie);
        }
        let (before, unanswered, needs) = (half.peer, half.unanswered, half.needs);
        // RFC 5971 section 7.2.1: the peer is behind a translator, and the addresses of the flow are wrong there.
        if arrival.association == NONE && arrival.source != response.nli.interface_address {
            self.ignore(work, arrival, DropReason::Untranslated);
            self.step(work, &mut at, Event::Error, Facts::default(), &Occasion::Nothing);
            return;
        }
        let Some(peer) = self.obtain_peer(work, arrival, &response.nli) else {
            return self.ignore(work, arrival, DropReason::Limit);
        };
        if self.is_crowded(peer) && before != peer {
            self.ignore(work, arrival, DropReason::Limit);
            return self.settle(work.now, peer);
        }
        let facts = Facts::default()
            .with(Fact::NewPeer, before != NONE && before != peer)
            .with(Fact::PeerLostState, unanswered == 0 && response.confirm_requested)
            .with(Fact::NeedsAssociation, needs > Needs::Nothing)
            .with(Fact::AssociationExists, false);
        let occasion = Occasion::Response { arrival, response, peer };
        self.step(work, &mut at, Event::Response, facts, &occasion);
        self.settle(work.now, peer);
        if self.state(&at) == State::EstablishedDownstream
            && let Some(data) = response.nslp_data
        {
            self.hand_over(work, &at, arrival, response.mri, data, false);
        }
    }

    /// The peer and what the Response says of it become routing state.
    pub(super) fn install_response(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        arrival: &Arrival<'_>,
        response: &Response<'_>,
        peer: u32,
    ) {
        let before = self.store.half(at.place()).peer;
        let handle = self.peers.handle(before);
        let was_good = self.store.half(at.place()).validity == Validity::Good;
        self.name_peer(work.now, at, peer);
        self.refresh_response(work, at, arrival, response);
        if before != peer || !was_good {
            self.counters.established += 1;
            self.tell_good(work, at);
        }
        if before != NONE
            && before != peer
            && let Some(old) = handle
        {
            self.counters.rerouted += 1;
            self.tell(work, at, Notification::RouteDeletion(old));
        }
    }

    /// What a Response says of routing state that is there.
    pub(super) fn refresh_response(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        arrival: &Arrival<'_>,
        response: &Response<'_>,
    ) {
        let validity = Duration::from_millis(response.nli.routing_state_validity.into());
        // RFC 5971 section 4.4.4: at random between half and three quarters of the time.
        let next = self.jitter.uniform(validity / 2, validity * 3 / 4);
        let distance = ip_distance(arrival, response.mri.direction(), response.nli.ip_ttl);
        let half = self.store.half_mut(at.place());
        half.unanswered = 0;
        half.validity = Validity::Good;
        half.next_at = work.now + next;
        half.ip_distance = distance.unwrap_or(half.ip_distance);
        self.arm(at.place());
    }

    /// A Confirm, where the Response asks for one. What has waited longest travels in it, if it may.
    pub(super) fn send_confirm(
        &mut self,
        work: &mut Work<'_, '_>,
        at: &At,
        occasion: &Occasion<'_>,
    ) {
        let Occasion::Response { response, peer, .. } = occasion else { return };
        if !response.confirm_requested {
            return;
        }
        let Some(way) = self.way_to(work, *peer) else { return };
        let half = self.store.half(at.place());
        let room = self.largest_datagram(half);
        let (queue, ip_distance) = (half.queue, half.ip_distance);
        let mri = at.mri();
        let identity = self.identity;
        let validity = response.nli.routing_state_validity;
        let mut confirm = Confirm {
            mri,
            session: at.key.session,
            nli: self.nli(&identity, way.source, mri.direction(), ip_distance, validity),
            returned: response.responder.map(|responder| Returned {
                cookie: responder.cookie,
                proposal: responder.stack.map(|stack| stack.proposal),
                configuration: None,
            }),
            nslp_data: None,
        };
        let bare = message(self.config.hops, at.key.nslpid, true, Body::Confirm(confirm));
        let room = room.saturating_sub(bare.buffer_len());
        let taken = self.config.piggyback.then(|| self.take_first(queue, room)).flatten();
        let mut hops = self.config.hops;
        if let Some(waiting) = &taken {
            confirm.nslp_data = Some(&waiting.data);
            hops = waiting.message.hops.unwrap_or(hops);
        }
        let confirm = message(hops, at.key.nslpid, true, Body::Confirm(confirm));
        if !self.send_datagram(work, &way, &confirm)
            && let Some(waiting) = taken
        {
            self.undelivered(
                work,
                at.key.nslpid,
                &waiting.message,
                &waiting.data,
                SendFailure::Limit,
            );
        }
    }

    /// Tells that routing state is right.
    pub(super) fn tell_good(&mut self, work: &mut Work<'_, '_>, at: &At) {
        let peer = self.peers.handle(self.store.half(at.place()).peer);
        let status = Validity::Good;
        self.tell(work, at, Notification::RoutingStatusChange { status, peer });
    }
}

/// IP hops from whoever sent a message, by RFC 5971 section 5.2.2: downstream what is missing of the TTL that the packet
/// began with, upstream what the peer has found out. A neighbour on the same link is one hop away; its packets miss nothing.
pub(super) fn ip_distance(arrival: &Arrival<'_>, direction: Direction, ip_ttl: u8) -> Option<u8> {
    match direction {
        _ if ip_ttl == 0 => None,
        Direction::Downstream => {
            arrival.ttl.map(|ttl| ip_ttl.saturating_sub(ttl).saturating_add(1))
        }
        Direction::Upstream => Some(ip_ttl),
    }
}

/// A time as state blocks have it.
pub(super) fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
