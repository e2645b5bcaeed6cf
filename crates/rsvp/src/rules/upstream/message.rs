//! Resv and ResvTear messages to one previous hop.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FlowDescriptors, List, MessageId, Path, Resv, ResvTear, RsvpHop,
    SenderDescriptor, Session, Style,
};

use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::rules::marking::mark_upstream;
use crate::state::{Index, Peer, Psb};

/// A previous hop that messages can be sent to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreviousHop {
    interface: InterfaceId,
    /// Own address on its link, with its LIH.
    hop: RsvpHop,
    pub(super) message: OutgoingMessage,
}

/// Objects of a Resv or ResvTear that do not depend on the link to the previous hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestObjects<'r> {
    pub(super) session: Session,
    pub(super) scope: Option<&'r [IpAddr]>,
    pub(super) flows: FlowDescriptors<'r>,
}

impl Rsvp {
    /// Returns how messages reach a previous hop; `None` if it is an application, or cannot be reached now.
    pub(super) fn previous_hop<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        peer: Peer,
    ) -> Option<PreviousHop> {
        let (interface, hop) = self.store.neighbor_of(peer)?;
        let (address, message) = self.message_to(cx, interface, hop.address)?;
        Some(PreviousHop { interface, hop: RsvpHop { address, lih: hop.lih }, message })
    }

    /// Sends a Resv. `scratch` holds the objects to be forwarded; DCLASS is replaced there if it is configured.
    pub(super) fn send_resv<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        to: &PreviousHop,
        objects: &RequestObjects<'_>,
        confirm: Option<IpAddr>,
        message_id: Option<MessageId>,
    ) {
        mark_upstream(&mut self.scratch, &self.config, cx.context, to.interface);
        let resv = Resv {
            session: objects.session,
            hop: to.hop,
            refresh_ms: self.config.timing(to.interface).refresh_ms(),
            confirm,
            scope: objects.scope.map(List::Items),
            carried: Carried::Objects(&self.scratch),
            flows: objects.flows,
        };
        let message = to.message.with_message_id(message_id);
        self.refresh_reduction.send(&mut self.counters, cx.out, message, &Body::Resv(resv));
    }

    /// Sends a RecoveryPath: the Path of a sender as it was last received, back to its previous hop, with the hop object and the
    /// destination of the Resv (RFC 5063 section 4.5.1). The refresh period is that of this node, because no state block stores
    /// the neighbour's. It has no MESSAGE_ID, so that the Path alone answers it.
    pub(crate) fn send_recovery_path<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        sender: Index,
    ) {
        let psb = self.store.psb(sender);
        let Some(to) = self.previous_hop(cx, psb.hop) else { return };
        let session = self.store.session_of(sender);
        let flags = if psb.flags & Psb::E_POLICE == 0 { 0 } else { Session::E_POLICE };
        let (template, tspec, adspec) = (psb.template, psb.tspec, psb.adspec.as_deref());
        let body = Body::RecoveryPath(Path {
            session: Session { flags, ..session },
            hop: to.hop,
            refresh_ms: self.config.timing(to.interface).refresh_ms(),
            carried: Carried::Objects(psb.carried.octets()),
            sender: SenderDescriptor { template, tspec, adspec },
        });
        self.refresh_reduction.send(&mut self.counters, cx.out, to.message, &body);
    }

    /// Sends a ResvTear with the unknown objects of the one that caused it.
    pub(super) fn send_resv_tear<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        to: &PreviousHop,
        objects: &RequestObjects<'_>,
        carried: Carried<'_>,
    ) {
        let tear = ResvTear {
            session: objects.session,
            hop: to.hop,
            scope: objects.scope.map(List::Items),
            carried,
            flows: objects.flows,
        };
        self.send_once(cx, to.message, &Body::ResvTear(tear));
    }
}

/// Returns style and flow descriptor of a shared reservation.
pub(crate) fn shared_flows(
    style: Style,
    flowspec: Option<FlowSpec>,
    filters: &[FilterSpec],
) -> FlowDescriptors<'_> {
    match style {
        Style::Wildcard => FlowDescriptors::Wildcard(flowspec),
        _ => FlowDescriptors::SharedExplicit(flowspec, List::Items(filters)),
    }
}

/// Writes the objects of all requests into `all`, each once (RFC 2205 section 3.10, rule 3), up to `limit` octets, so
/// that one next hop cannot fill the message of all.
pub(crate) fn merge_carried<'k>(
    all: &mut Vec<u8>,
    requests: impl Iterator<Item = &'k [u8]>,
    limit: usize,
) {
    all.clear();
    let mut known = BTreeSet::new();
    // Most requests have none.
    requests.filter(|octets| !octets.is_empty()).for_each(|octets| {
        for object in Carried::Objects(octets).iter() {
            if all.len() + object.bytes.len() <= limit && known.insert(object.bytes) {
                all.extend_from_slice(object.bytes);
            }
        }
    });
}
