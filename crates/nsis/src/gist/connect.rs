//! Setup of associations: proposal, choice and keepalive (RFC 5971 sections 4.4.3, 4.4.5 and 5.7).

use core::net::SocketAddr;

use earmark_core::{CloseReason, Connect, ConnectionId, Time, Transport};
use earmark_wire::gist::{Hello, Profile, Profiles, ProtocolId, ProtocolOptions, Response, Stack};

use super::Gist;
use super::association::{Association, Stage, link_user, unlink_user};
use super::event_data::EventData;
use super::handshake::Handshake;
use super::receipt::Receipt;
use super::state::{HalfRef, Index, NONE, Needs, millis};
use super::transmit::own_address;
use crate::input_context::InputContext;
use crate::nslp::{Attributes, Notification};

/// Protocols of the profiles: TLS over TCP, and TCP alone.
const TLS: [u8; 2] = [ProtocolId::Tls.code(), ProtocolId::ForwardsTcp.code()];
const TCP: [u8; 1] = [ProtocolId::ForwardsTcp.code()];

/// Lower bound of the MA-Hold-Time of a peer: limits the rate of MA-Hellos that a peer can cause.
const MIN_HOLD_TIME: core::time::Duration = core::time::Duration::from_secs(1);

/// Stack proposals of a Query: both profiles, only TLS for `Needs::Secure`, and only TCP if TLS is not supported.
const BOTH: [Profile<'static>; 2] = [Profile(&TLS), Profile(&TCP)];

impl Gist {
    /// Returns the least needs of every message, by the settings.
    pub(super) fn least_needs(&self) -> Needs {
        self.config.associations.require.into()
    }

    /// Returns whether messages with these attributes can be sent at all.
    pub(crate) fn has_transport(&self, wanted: Attributes) -> bool {
        self.can_serve(Needs::from(wanted).max(self.least_needs()))
    }

    /// Returns whether this node can have associations that serve `needs`.
    pub(super) fn can_serve(&self, needs: Needs) -> bool {
        let associations = &self.config.associations;
        match needs {
            Needs::Nothing => true,
            Needs::Reliable => associations.tcp_port.is_some() || associations.tls_port.is_some(),
            Needs::Secure => associations.tls_port.is_some(),
        }
    }

    /// Returns the profiles that this node offers for `needs`, most wanted first: all that serve them (RFC 5971 section
    /// 5.7.1).
    pub(super) fn profiles(&self, needs: Needs) -> &'static [Profile<'static>] {
        let associations = &self.config.associations;
        let tcp = associations.tcp_port.is_some() && needs < Needs::Secure;
        match (associations.tls_port.is_some(), tcp) {
            (true, true) => &BOTH,
            (true, false) => &BOTH[..1],
            (false, true) => &BOTH[1..],
            (false, false) => &[],
        }
    }

    /// Returns the ports of [`Gist::proposal`]: for TLS, and for TCP alone.
    pub(super) fn ports(&self) -> [[u8; 2]; 2] {
        let associations = &self.config.associations;
        [associations.tls_port, associations.tcp_port]
            .map(|port| port.unwrap_or_default().to_be_bytes())
    }

    /// Returns the stack proposal of a Response, with the port of each profile. It depends only on the settings, so
    /// that nobody on the path can weaken it by changing the Query (RFC 5971 section 8.6).
    pub(super) fn proposal<'p>(
        &self,
        [tls, tcp]: &'p [[u8; 2]; 2],
    ) -> (&'static [Profile<'static>], [ProtocolOptions<'p>; 2]) {
        let profiles = self.profiles(self.least_needs());
        let mut options = [ProtocolOptions::tcp_response(1, tls); 2];
        for ((number, profile), options) in (1..).zip(profiles).zip(&mut options) {
            let port = if *profile == Profile(&TLS) { tls } else { tcp };
            *options = ProtocolOptions::tcp_response(number, port);
        }
        (profiles, options)
    }

    pub(super) fn hold_time_ms(&self) -> u32 {
        millis(self.config.associations.hold_time).max(1)
    }

    /// Returns whether these are the profiles that this node proposes.
    pub(super) fn is_own_proposal(&self, proposal: Profiles<'_>) -> bool {
        proposal == Profiles::new(self.profiles(self.least_needs()))
    }

    /// Returns the first profile of a Response that this node can use for `needs`, and its port.
    pub(super) fn choose(&self, response: &Response<'_>, needs: Needs) -> Option<(Transport, u16)> {
        let stack = response.responder?.stack?;
        let offered = self.profiles(needs.max(self.least_needs()));
        (1..=u8::MAX).zip(stack.proposal.iter()).find_map(|(number, profile)| {
            offered.iter().find(|offer| **offer == profile)?;
            let options = || stack.configuration.options.iter();
            let unusable =
                |protocol| options().any(|one| one.unusable && one.applies_to(protocol, number));
            if profile.protocols().any(unusable) {
                return None;
            }
            let tcp = ProtocolId::ForwardsTcp;
            let own = options().find(|one| one.protocol == tcp && one.profile == number);
            let port = own.or_else(|| options().find(|one| one.applies_to(tcp, number)))?;
            let secure = profile.contains(ProtocolId::Tls);
            let transport = if secure { Transport::Tls } else { Transport::Tcp };
            Some((transport, port.tcp_port().filter(|port| *port != 0)?))
        })
    }

    /// Returns an association with a peer that serves the offer of a Query: as good as one of its profiles, and no
    /// weaker than the least needs of this node (RFC 5971 section 5.7.1).
    pub(super) fn reusable(&self, peer: Index, stack: &Stack<'_>) -> Option<Index> {
        let offers_tcp = stack.proposal.iter().any(|profile| profile == Profile(&TCP));
        let offers_tls = stack.proposal.iter().any(|profile| profile == Profile(&TLS));
        let needs = match (offers_tcp, offers_tls) {
            (true, _) => Needs::Reliable,
            (false, true) => Needs::Secure,
            (false, false) => return None,
        };
        let index = self.associations.find(peer, needs.max(self.least_needs()))?;
        let is_open = self.associations.get(index).is_some_and(|one| one.stage == Stage::Open);
        is_open.then_some(index)
    }

    /// Returns whether an association is open and serves the offer of a Query.
    pub(super) fn can_reuse(&self, index: Index, stack: &Stack<'_>) -> bool {
        let offers_tcp = stack.proposal.iter().any(|profile| profile == Profile(&TCP));
        let needs = if offers_tcp { Needs::Reliable } else { Needs::Secure };
        !stack.proposal.is_empty()
            && self.associations.get(index).is_some_and(|one| {
                one.stage == Stage::Open && one.serves(needs.max(self.least_needs()))
            })
    }

    /// Opens the association that a Response needs, or joins it if it is being opened already. The data for the Confirm
    /// are kept.
    pub(super) fn connect(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
    ) {
        let EventData::Response { receipt, response, peer } = event_data else { return };
        let half = self.store.half(at.half_id());
        let (before, needs) = (half.peer, half.needs.max(self.least_needs()));
        if before != NONE
            && before != *peer
            && let Some(old) = self.peers.handle(before)
        {
            self.counters.rerouted += 1;
            self.notify_application(cx, at, Notification::RouteDeletion(old));
        }
        self.set_peer(cx.now, at, *peer);
        self.store_handshake(at, receipt, response);
        let until = cx.now + self.config.associations.connect_timeout;
        let half = self.store.half_mut(at.half_id());
        half.unanswered = 0;
        half.next_at = until;
        self.arm(at.half_id());
        let found = self.associations.find(*peer, needs);
        let opened = found.or_else(|| self.open(cx, receipt, response, *peer, needs, until));
        if let Some(index) = opened {
            link_user(&mut self.store, &mut self.associations, at.half_id(), index);
        }
    }

    fn store_handshake(&mut self, at: &HalfRef, receipt: &Receipt<'_>, response: &Response<'_>) {
        let queue = self.find_or_insert_queue(at);
        let responder = response.responder;
        let stack = responder.and_then(|responder| responder.stack);
        let handshake = Handshake {
            cookie: responder.map_or(&[][..], |responder| responder.cookie).into(),
            profiles: stack
                .map(|stack| Handshake::copy_profiles(stack.proposal))
                .unwrap_or_default(),
            validity_ms: response.nli.routing_state_validity,
            ip_distance: receipt.ip_distance(response.mri.direction(), response.nli.ip_ttl),
            confirm_requested: response.confirm_requested,
        };
        if let Some(queue) = self.store.queues.get_mut(queue as usize) {
            queue.handshake = Some(alloc::boxed::Box::new(handshake));
        }
    }

    /// Opens an association with the sender of a Response.
    fn open(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        response: &Response<'_>,
        peer: Index,
        needs: Needs,
        until: Time,
    ) -> Option<Index> {
        let (limit, interfaces) = (self.config.limits.associations, cx.context.interfaces.count());
        if !self.associations.shares.has_room(receipt.interface, limit, interfaces) {
            return None;
        }
        let (transport, port) = self.choose(response, needs)?;
        let address = response.nli.interface_address;
        let interface = cx.context.interfaces.by_id(receipt.interface)?;
        let source = own_address(interface, address)?;
        self.associations.next_connection += 2;
        let connection = ConnectionId(self.associations.next_connection);
        let destination = SocketAddr::new(address, port);
        cx.out.connect(Connect { connection, source, destination, transport });
        let stack = response.responder.and_then(|responder| responder.stack);
        let hold_time = stack.map_or(0, |stack| stack.configuration.hold_time);
        let index = self.associations.insert(Association {
            connection,
            transport,
            stage: Stage::Opening { until },
            peer,
            local: SocketAddr::new(source, 0),
            remote: destination,
            interface: receipt.interface,
            is_ours: true,
            hold_time_sent: false,
            first_user: NONE,
            next_waiting: NONE,
            uses: 0,
            hold_time: core::time::Duration::from_millis(hold_time.into()),
            last_received: cx.now,
            last_sent: cx.now,
            hello_at: Time::MAX,
            buffer: alloc::vec::Vec::new(),
            timer: None,
        });
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.uses += 1;
        }
        self.arm_association(cx.now, index);
        Some(index)
    }

    /// Releases the association of a half.
    pub(super) fn release(&mut self, at: &HalfRef) {
        if at.index != NONE {
            unlink_user(&mut self.store, &mut self.associations, at.half_id());
        }
    }

    /// Schedules the next MA-Hello of an idle association: between half and three quarters of the hold time of the peer
    /// after `since` (RFC 5971 section 4.4.5).
    pub(super) fn schedule_hello(&mut self, now: Time, index: Index, since: Time) {
        let Some(association) = self.associations.get_mut(index) else { return };
        let time = association.hold_time.max(MIN_HOLD_TIME);
        association.hello_at = since + self.jitter.uniform(time / 2, time * 3 / 4);
        self.arm_association(now, index);
    }

    /// Handles the timer of an association.
    pub(super) fn handle_association_timer(&mut self, cx: &mut InputContext<'_, '_>, index: Index) {
        let own = self.config.associations.hold_time;
        let Some(association) = self.associations.get_mut(index) else { return };
        association.timer = None;
        let silence = cx.now.since(association.last_received);
        match association.stage {
            Stage::Closed(_) => return self.notify_closed(cx, index),
            Stage::Opening { until } | Stage::HalfOpen { until } => {
                if until <= cx.now {
                    return self.end_association(cx, index, CloseReason::TimedOut);
                }
            }
            Stage::Open if association.next_waiting != NONE => {
                return self.confirm_waiting(cx, index);
            }
            // to_NoHello: the peer sends no MA-Hello to keep the association, and no half of this node uses it.
            Stage::Open if association.uses == 0 && silence >= own => {
                return self.end_association(cx, index, CloseReason::Ended);
            }
            // The peer does not even answer MA-Hellos.
            Stage::Open if silence >= own.saturating_mul(3) => {
                return self.end_association(cx, index, CloseReason::TimedOut);
            }
            Stage::Open if association.hello_at <= cx.now => {
                let (last_sent, is_wanted) = (association.last_sent, association.uses > 0);
                let time = association.hold_time.max(MIN_HOLD_TIME);
                let is_quiet = cx.now.since(last_sent) >= time / 2;
                if is_quiet && is_wanted {
                    self.hello_number = self.hello_number.wrapping_add(1).max(1);
                    let reply_requested = silence >= own / 2;
                    let id = if reply_requested { self.hello_number } else { 0 };
                    self.send_hello(cx, index, Hello { id, reply_requested });
                }
                let since = if is_quiet { cx.now } else { last_sent };
                return self.schedule_hello(cx.now, index, since);
            }
            Stage::Open => {}
        }
        self.arm_association(cx.now, index);
    }
}
