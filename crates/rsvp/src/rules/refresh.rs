//! Refreshes: Path downstream and Resv upstream, at random intervals (RFC 2209, PATH REFRESH and RESV REFRESH; RFC 2205
//! section 3.7).

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Interface, InterfaceId, Outgoing, Rate, Time};
use earmark_wire::intserv::{Adspec, GuaranteedHop, HopCharacteristics, LocalOverrides};
use earmark_wire::rsvp::{Body, Carried, Path, RsvpHop, SenderDescriptor, SenderTemplate, Session};

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::{PROTOCOL, Rsvp};
use crate::neighbors::refresh_reduction::{OutgoingMessage, SendReason};
use crate::state::{Holder, Index, OutInterfaces, Peer, Psb};

impl Rsvp {
    /// Handles the timer of a sender: expiry or refresh. A timer that fires too early is armed again.
    pub(crate) fn sender_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let now = cx.now;
        let psb = self.store.psb_mut(index);
        psb.timer = None;
        if now >= psb.expires_at {
            let hop = psb.hop;
            let Some(until) = self.held_until(now, hop) else {
                return self.drop_sender(cx, index, Change::Expired);
            };
            self.store.psb_mut(index).expires_at = until;
        }
        if now >= self.store.psb(index).path_refresh_at {
            if self.follow_route(cx, index) {
                self.path_refresh(cx, index);
                self.update_requests_for(cx, index);
            } else {
                self.refresh_paths(cx, index);
            }
            self.update_receiver_proxy(cx, index);
        }
        if now >= self.store.psb(index).resv_refresh_at {
            self.store.psb_mut(index).resv_refresh_at = Time::MAX;
            if self.withholds_resv(now, index) {
                self.schedule_resv_refresh(now, index);
            } else {
                self.refresh_requests(cx, Holder::Sender(index));
            }
        }
        self.rearm_sender(index);
    }

    /// PATH REFRESH: sends the changed Path of a sender to its next hops, if any.
    #[inline]
    pub(crate) fn path_refresh<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        self.path_messages(cx, index, SendReason::Trigger);
    }

    /// Sends the Path of a sender to all next hops.
    #[inline]
    pub(crate) fn path_messages<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        reason: SendReason,
    ) {
        match self.store.psb(index).outgoing {
            OutInterfaces::None => {}
            OutInterfaces::One(interface) => {
                self.path_message_through(cx, index, interface, reason);
            }
            OutInterfaces::Many(ref branches) => {
                for interface in branches.interfaces.clone() {
                    self.path_message_through(cx, index, interface, reason);
                }
            }
        }
        mark(Checkpoint::PathRefresh);
    }

    /// Sends the Path of a sender where its refresh is due, and schedules the next refresh there.
    fn refresh_paths<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        if let OutInterfaces::Many(branches) = &self.store.psb(index).outgoing {
            let times = branches.interfaces.iter().zip(&branches.refresh_at);
            let is_due = |&(_, &at): &(_, &Time)| at <= cx.now;
            let due: Vec<InterfaceId> = times.filter(is_due).map(|(&id, _)| id).collect();
            for interface in due {
                self.path_message_through(cx, index, interface, SendReason::Refresh);
            }
            mark(Checkpoint::PathRefresh);
        } else {
            self.path_messages(cx, index, SendReason::Refresh);
        }
        self.schedule_path_refresh(cx.now, index);
    }

    /// Sends the Path of a sender through one interface.
    pub(crate) fn path_message_through<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
        reason: SendReason,
    ) {
        if self.sinks_path(cx.context, index, outgoing)
            || reason == SendReason::Refresh && self.suppresses_path(cx, index, outgoing)
        {
            return;
        }
        let (peer, message_id) = self.assign_path_message_id(cx, index, outgoing, reason);
        let psb = self.store.psb(index);
        let session = self.store.session(psb.session).session;
        let ttl = self.ttl_downstream(index);
        let Some((hop, mut how, interface)) =
            self.downstream(cx, outgoing, &session, &psb.template, ttl)
        else {
            return;
        };
        if cx.context.routes.differs_by_flow(session.destination) {
            how.next_hop = self.sender_data(index).next_hop(cx.context, outgoing);
        }
        self.repairs.note_next_hop(index, how.next_hop);
        let psb = self.store.psb(index);
        let adspec = forward_adspec(psb, interface, &mut self.scratch);
        // A node with policing performs it; only nodes before it forward the flag.
        let police = psb.flags & Psb::E_POLICE != 0 && interface.reservable.as_bps() == 0;
        let body = Body::Path(Path {
            session: Session { flags: if police { Session::E_POLICE } else { 0 }, ..session },
            hop,
            refresh_ms: self.config.timing(interface.id).refresh_ms(),
            carried: Carried::Objects(psb.carried.octets()),
            sender: SenderDescriptor { template: psb.template, tspec: psb.tspec, adspec },
        });
        if self.encapsulating.contains(&outgoing) {
            // For hosts there without raw sockets; others ignore the encapsulated message (RFC 2205 appendix C).
            let outgoing_message = OutgoingMessage::new(Outgoing { encapsulated: true, ..how })
                .with_message_id(message_id);
            self.refresh_reduction.send(&mut self.counters, cx.out, outgoing_message, &body);
        }
        let outgoing_message = OutgoingMessage::new(how).via(peer).with_message_id(message_id);
        self.refresh_reduction.send(&mut self.counters, cx.out, outgoing_message, &body);
    }

    /// Returns the TTL of messages that follow a sender's data.
    #[inline]
    pub(crate) fn ttl_downstream(&self, index: Index) -> u8 {
        let psb = self.store.psb(index);
        if matches!(psb.hop, Peer::Local(_)) { psb.ttl } else { psb.ttl.saturating_sub(1) }
    }

    /// Returns hop object, header and interface for Path and PathTear of a sender: from the sender to the destination,
    /// with router alert. Returns `None` if the interface cannot be used or the TTL expires.
    #[inline]
    pub(crate) fn downstream<'c, E>(
        &self,
        cx: &HandlerContext<'_, 'c, E>,
        outgoing: InterfaceId,
        session: &Session,
        template: &SenderTemplate,
        ttl: u8,
    ) -> Option<(RsvpHop, Outgoing, &'c Interface)> {
        let interface = cx.context.interfaces.by_id(outgoing)?;
        let address = interface.address_like(session.destination)?;
        let how = Outgoing {
            interface: Some(interface.id),
            router_alert: true,
            ..Outgoing::new(PROTOCOL, template.source, session.destination, ttl)
        };
        (ttl > 0).then_some((RsvpHop { address, lih: self.lih(interface.id) }, how, interface))
    }

    /// Returns the time of the next refresh of state on `interface`.
    pub(crate) fn next_refresh(&mut self, now: Time, interface: InterfaceId) -> Time {
        // As announced to neighbours, and therefore never zero, which would refresh without end.
        let refresh_ms = u64::from(self.config.timing(interface).refresh_ms());
        // 0.5 R and 1.5 R; half of R in milliseconds is 500 000 ns.
        let (low, high) = (refresh_ms * 500_000, refresh_ms * 1_500_000);
        now + self.jitter.uniform(Duration::from_nanos(low), Duration::from_nanos(high))
    }

    /// Arms the timer of a sender for the earliest of its times.
    pub(crate) fn rearm_sender(&mut self, index: Index) {
        let psb = &mut self.store.psbs[index as usize];
        let due = psb.due();
        match psb.timer {
            Some(timer) => {
                self.store.timers.rearm(timer, due);
            }
            None => {
                let timer =
                    crate::state::Timer { kind: crate::state::TimerKind::Sender, block: index };
                psb.timer = Some(self.store.timers.arm(due, timer));
            }
        }
    }

    /// Returns the time of the next refresh of a Path that leaves through these interfaces. Each branch of a group's data is
    /// refreshed in the period of its interface; those whose time has passed get a new one.
    #[inline]
    pub(crate) fn next_path_refresh(&mut self, now: Time, outgoing: &mut OutInterfaces) -> Time {
        match outgoing {
            OutInterfaces::None => Time::MAX,
            OutInterfaces::One(interface) => self.next_refresh(now, *interface),
            OutInterfaces::Many(branches) => {
                for (&interface, at) in branches.interfaces.iter().zip(&mut branches.refresh_at) {
                    if *at <= now || *at == Time::MAX {
                        *at = self.next_refresh(now, interface);
                    }
                }
                branches.refresh_at.iter().copied().min().unwrap_or(Time::MAX)
            }
        }
    }

    /// Schedules the refresh of a sender's Path, unless summary refreshes include it.
    pub(crate) fn schedule_path_refresh(&mut self, now: Time, index: Index) {
        let psb = self.store.psb_mut(index);
        let at = match self.refresh_reduction.is_listed(psb.path_message_id) {
            true => Time::MAX,
            false => {
                let mut outgoing = core::mem::replace(&mut psb.outgoing, OutInterfaces::None);
                let at = self.next_path_refresh(now, &mut outgoing);
                self.store.psb_mut(index).outgoing = outgoing;
                at
            }
        };
        self.store.psb_mut(index).path_refresh_at = at;
    }
}

/// Returns the ADSPEC of a sender with this hop added, composed in `scratch`. A malformed one is omitted: none is
/// better for a receiver than a wrong one.
fn forward_adspec<'s>(
    psb: &Psb,
    interface: &Interface,
    scratch: &'s mut Vec<u8>,
) -> Option<&'s [u8]> {
    let body = psb.adspec.as_deref()?;
    let hop = characteristics(interface, psb.flags & Psb::NON_RSVP != 0);
    scratch.resize(body.len(), 0);
    let length = match Adspec::forward(body, &hop, scratch) {
        Some(length) => length,
        None => forward_any_adspec(body, &hop, scratch)?,
    };
    Some(&scratch[..length])
}

/// Adds this hop to an ADSPEC of any form; returns its length.
#[cold]
fn forward_any_adspec(
    body: &[u8],
    hop: &HopCharacteristics,
    scratch: &mut Vec<u8>,
) -> Option<usize> {
    let adspec = Adspec::parse(body).ok()?.advertise(hop);
    scratch.resize(adspec.buffer_len(), 0);
    adspec.emit(scratch).ok()
}

/// Returns the contribution of a link to an ADSPEC. The bandwidth is the maximum reservable one. For guaranteed service
/// a class of our scheduler deviates from a fluid link by one packet at the reserved rate (C) and one at the link's
/// rate (D), as in any fair queueing (RFC 2212, "Exported Information"). A link that takes no reservations offers no
/// service, and has the break bits of all set (RFC 2210 sections 3.3.3 and 3.3.4).
fn characteristics(interface: &Interface, non_is_hop: bool) -> HopCharacteristics {
    let bits = u64::from(interface.mtu) * 8;
    let bandwidth = interface.bandwidth.as_bps().max(1);
    let transmission_us = (bits * 1_000_000).div_ceil(bandwidth);
    let offers_services = interface.reservable > Rate::ZERO;
    HopCharacteristics {
        non_is_hop,
        bandwidth: interface.reservable.as_octets_per_second(),
        latency_us: interface.latency_us,
        mtu: interface.mtu,
        guaranteed: offers_services.then(|| GuaranteedHop {
            c: interface.mtu,
            d: u32::try_from(transmission_us).unwrap_or(u32::MAX),
            reshapes: false,
            overrides: LocalOverrides::default(),
        }),
        controlled_load: offers_services.then(LocalOverrides::default),
    }
}
