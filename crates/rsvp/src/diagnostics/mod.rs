//! Diagnostics: state of a session at each hop (RFC 2745).
//!
//! A DREQ starts at the LAST-HOP, a node on the path of a sender's data, and follows path state towards the sender.
//! Each node adds a DIAG_RESPONSE with its state of the session (`response`), and forwards the DREQ or returns it as a
//! DREP: because it is the sender's node, because it has no path state, or because the requested number of nodes was
//! reached (`dreq`). A message that becomes too long for the links is returned in fragments. DREPs are sent to the
//! requester directly, or along the ROUTE that the DREQ has recorded, which also works if only neighbours trust each
//! other (`drep`).
//!
//! Diagnostics do not change RSVP state. A requester is a node itself (`trace`): it repeats a DREQ without answer, and
//! then searches for the silent node by requesting one hop more each time.
//!
//! # Choices that RFC 2745 leaves open
//!
//! - **D-TTL** is 1 between neighbours, as in sections 3.6 and 5.3. The difference of the TTLs, as in section 4.1,
//!   would be 0, because RSVP nodes do not decrement the TTL of messages addressed to them.
//! - **Path MTU** is what fits into an IP packet without fragmentation beside the headers of IP and UDP.
//! - **Fragment Offset** counts octets of DIAG_RESPONSE objects.
//! - **A requester with port 0** is an RSVP node and gets the DREP as an RSVP message; others get it inside UDP.
//! - **R-pointer** counts addresses.
//! - **RSVP_HOP of a DREP** is the node that sends it, so that neighbours can find the key of its digest.

mod drep;
mod dreq;
mod hop;
mod response;
mod trace;

use core::net::IpAddr;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Context, Datagram, InterfaceId};
use earmark_wire::rsvp::Diagnosis;
use serde::{Deserialize, Serialize};
use slab::Slab;

pub use self::hop::{TraceEnd, TraceHop};
use self::trace::PendingTrace;
pub use self::trace::Trace;
use crate::api::Event;
use crate::counters::DropReason;
use crate::instance::{HandlerContext, Rsvp};
use crate::path::is_unicast;
use crate::state::key;

/// Settings of diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whether DREQs of other nodes are answered and forwarded. They change no state, but reveal it (RFC 2745 section
    /// 7).
    pub answer: bool,
    /// Limit of DREQs and DREPs from one interface processed in one second; more are dropped.
    pub per_second: u32,
    /// NTP time of the engine's [`Time::ZERO`]: units of 2^-32 s since 1900 (RFC 5905 section 6). Responses contain the
    /// arrival time of a DREQ in NTP time; with 0, in the engine's time.
    pub ntp_origin: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { answer: true, per_second: 200, ntp_origin: 0 }
    }
}

/// State of diagnostics.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    /// Traces of this node.
    tracing: Slab<PendingTrace>,
    /// Random Request IDs, so that other nodes cannot guess them.
    ids: Stream,
}

impl Diagnostics {
    pub(crate) fn new(random: &RandomStreams) -> Diagnostics {
        let ids = random.stream("rsvp/diagnostics");
        Diagnostics { tracing: Slab::new(), ids }
    }
}

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
fn is_fresh(dreq: &Diagnosis<'_>) -> bool {
    dreq.diagnostic.fragment_offset == 0 && dreq.responses.is_empty()
}

/// Returns the local address on the route to a destination.
fn own_address_towards(context: &Context<'_>, destination: IpAddr) -> Option<IpAddr> {
    if context.interfaces.is_local(destination) {
        return Some(destination);
    }
    let hop = context.routes.lookup(destination)?;
    let own = || context.interfaces.by_id(hop.interface)?.address_like(destination);
    hop.source.filter(|source| source.is_ipv4() == destination.is_ipv4()).or_else(own)
}
