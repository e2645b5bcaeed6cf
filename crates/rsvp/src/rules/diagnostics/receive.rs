//! DREQ and DREP that arrive: which of them are processed.

use core::net::IpAddr;

use earmark_core::{Context, Datagram, InterfaceId};
use earmark_wire::rsvp::Diagnosis;

use super::Settings;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::address::is_unicast;
use crate::state::key;

impl Rsvp {
    /// Handles a DREQ; `send_ttl` is the TTL that its sender used.
    #[cold]
    pub(crate) fn receive_dreq<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        send_ttl: u8,
        dreq: &Diagnosis<'_>,
    ) {
        if let Err(reason) = self.admit_diagnosis(cx, datagram.interface, dreq) {
            return self.drop(cx, datagram, reason);
        }
        let diagnostic = &dreq.diagnostic;
        // RFC 2745 section 4.1: without responses, the DREQ is still on its way to the LAST-HOP.
        if is_fresh(dreq) && !cx.context.interfaces.is_local(diagnostic.last_hop) {
            return self.relay_to(cx, datagram, diagnostic.last_hop);
        }
        if let Err(reason) = self.may_ask(cx, datagram, dreq) {
            return self.drop(cx, datagram, reason);
        }
        let ip_hops = send_ttl.saturating_sub(datagram.ttl).saturating_add(1);
        self.handle_dreq(cx, dreq, ip_hops);
    }

    /// Handles a DREP or a fragment of one.
    #[cold]
    pub(crate) fn receive_drep<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        answer: &Diagnosis<'_>,
    ) {
        let done = self
            .admit_diagnosis(cx, datagram.interface, answer)
            .and_then(|()| self.forward_drep(cx, answer));
        if let Err(reason) = done {
            self.drop(cx, datagram, reason);
        }
    }

    /// Returns whether a DREQ or DREP may be processed. Those of this node's own traces always may.
    fn admit_diagnosis<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(), DropReason> {
        let diagnostic = &diagnosis.diagnostic;
        let Settings { answer, per_second, .. } = self.config.diagnostics;
        if self.is_ours(diagnostic.request_id, diagnostic.requester.source, cx.context) {
            return Ok(());
        }
        if !answer {
            return Err(DropReason::DiagnosticsOff);
        }
        if !is_unicast(diagnostic.requester.source) || !is_unicast(diagnostic.last_hop) {
            return Err(DropReason::BadHop);
        }
        match self.throttles.admits_diagnosis(cx.now, interface, per_second) {
            true => Ok(()),
            false => Err(DropReason::Limit),
        }
    }

    /// Checks that the sender of a DREQ may learn the state that it asks for. Behind a core interface everybody may.
    /// Behind an access interface a sender or receiver may ask about its own data, and a next hop about data that it
    /// receives through that interface.
    fn may_ask<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        dreq: &Diagnosis<'_>,
    ) -> Result<(), DropReason> {
        let interface = datagram.interface;
        if cx.context.is_core(interface) {
            return match self.interface_of_lih(cx, dreq.hop.lih) {
                Some(at) if !is_fresh(dreq) => self.may_act_at(cx, datagram, at, dreq.hop.address),
                _ => Ok(()),
            };
        }
        let (session, request) = (key(dreq.session), dreq.diagnostic);
        let sender = self.store.find_sender(&session, &request.sender);
        let Some(psb) = sender.map(|index| self.store.psb(index)) else { return Ok(()) };
        let is_end = session.destination.is_multicast()
            || [session.destination, request.sender.source].contains(&request.requester.source);
        if is_fresh(dreq) && !(is_end && cx.context.is_behind(request.requester.source, interface))
        {
            return Err(DropReason::DiagnosticsOff);
        }
        let previous = self.store.neighbor_of(psb.hop).map(|(incoming, _)| incoming);
        let is_on_path =
            psb.leaves_through(Some(interface)) || (is_fresh(dreq) && previous == Some(interface));
        if is_on_path { Ok(()) } else { Err(DropReason::OtherInterface) }
    }

    /// Returns whether a DREQ or DREP belongs to a trace of this node.
    fn is_ours(&self, request_id: u32, requester: IpAddr, context: &Context<'_>) -> bool {
        let mut tracing = self.diagnostics.tracing.iter();
        tracing.any(|(_, tracing)| tracing.request_id == request_id)
            && context.interfaces.is_local(requester)
    }
}

/// Returns whether a DREQ has no responses yet.
pub(super) fn is_fresh(dreq: &Diagnosis<'_>) -> bool {
    dreq.diagnostic.fragment_offset == 0 && dreq.responses.is_empty()
}

/// Returns the local address on the route to a destination.
pub(super) fn own_address_towards(context: &Context<'_>, destination: IpAddr) -> Option<IpAddr> {
    if context.interfaces.is_local(destination) {
        return Some(destination);
    }
    let hop = context.routes.lookup(destination)?;
    let own = || context.interfaces.by_id(hop.interface)?.address_like(destination);
    hop.source.filter(|source| source.is_ipv4() == destination.is_ipv4()).or_else(own)
}
