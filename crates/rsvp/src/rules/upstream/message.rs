//! Resv and ResvTear messages to one previous hop.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FlowDescriptors, List, MessageId, Resv, ResvTear, RsvpHop, Session,
    Style,
};

use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::rules::marking::mark_upstream;
use crate::state::Peer;

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
