//! Next hops of a sender's data, by the routes of the node.
//!
//! Unicast data has one way: by its destination, or where several next hops share that or policy rules apply, by its
//! flow. Multicast data has branches, by its source and its group, and must
//! come in through the interface that the forwarding entry names. Whether it ends at an application of this host too is
//! not a matter of routes; see [`Psb::HERE`](crate::state::Psb::HERE).

use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Hop, Interface, InterfaceId};
use earmark_wire::rsvp::{SenderTemplate, Session};

use crate::state::OutInterfaces;
use crate::traffic::flow;

/// Where data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHops<'r> {
    /// To this host.
    Here,
    /// Through an interface that takes part.
    Out(InterfaceId),
    /// Through each of these that takes part, in ascending order: multicast.
    Branches(&'r [InterfaceId]),
    /// Through an interface that does not take part.
    Past,
    /// Nowhere: multicast came in where it should not.
    Astray,
    /// Nowhere: there is no route.
    None,
}

/// The data of a sender, as far as its way depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderData {
    pub(crate) session: Session,
    pub(crate) template: SenderTemplate,
    /// Where it comes in; `None`: from this host.
    pub(crate) incoming: Option<InterfaceId>,
}

impl SenderData {
    /// The hop of unicast data.
    #[inline]
    pub(crate) fn hop(&self, context: &Context<'_>) -> Option<Hop> {
        let destination = self.session.destination;
        if !context.routes.differs_by_flow(destination) {
            return context.routes.lookup(destination);
        }
        self.hop_by_flow(context)
    }

    #[cold]
    fn hop_by_flow(&self, context: &Context<'_>) -> Option<Hop> {
        context.routes.lookup_flow(&flow(&self.session, Some(&self.template)), self.incoming)
    }

    /// The router that takes it on the link of an interface, where that depends on the flow.
    #[cold]
    pub(crate) fn next_hop(&self, context: &Context<'_>, interface: InterfaceId) -> Option<IpAddr> {
        context.next_hop(self.session.destination, interface, || {
            (flow(&self.session, Some(&self.template)), self.incoming)
        })
    }
}

impl<'r> NextHops<'r> {
    /// The way of data to one address.
    pub(crate) fn of(context: &Context<'r>, destination: IpAddr) -> NextHops<'r> {
        let way = NextHops::unicast(context, destination, || context.routes.lookup(destination));
        mark(Checkpoint::Route);
        way
    }

    #[inline(always)]
    fn unicast(
        context: &Context<'r>,
        destination: IpAddr,
        hop: impl FnOnce() -> Option<Hop>,
    ) -> NextHops<'r> {
        if context.interfaces.is_local(destination) {
            return NextHops::Here;
        }
        match hop() {
            None => NextHops::None,
            Some(hop) if takes_part(context, hop.interface) => NextHops::Out(hop.interface),
            Some(_) => NextHops::Past,
        }
    }

    /// The way of a sender's data.
    #[inline]
    pub(crate) fn of_sender(context: &Context<'r>, data: &SenderData) -> NextHops<'r> {
        let destination = data.session.destination;
        let way = if destination.is_multicast() {
            NextHops::multicast(context, destination, data.template.source, data.incoming)
        } else {
            NextHops::unicast(context, destination, || data.hop(context))
        };
        mark(Checkpoint::Route);
        way
    }

    #[cold]
    fn multicast(
        context: &Context<'r>,
        group: IpAddr,
        source: IpAddr,
        incoming: Option<InterfaceId>,
    ) -> NextHops<'r> {
        match (context.routes.multicast(source, group), incoming) {
            (Some(branches), Some(interface))
                if branches.incoming.is_some_and(|expected| expected != interface) =>
            {
                NextHops::Astray
            }
            (Some(branches), _) => NextHops::Branches(branches.outgoing),
            (None, Some(_)) => NextHops::Branches(&[]),
            // A host that sends needs no forwarding entry: its data leaves as the routes for the group say.
            (None, None) => match context.routes.lookup(group) {
                Some(hop) if takes_part(context, hop.interface) => NextHops::Out(hop.interface),
                _ => NextHops::Branches(&[]),
            },
        }
    }

    /// OutInterface_list.
    pub(crate) fn outgoing(
        self,
        context: &Context<'r>,
        incoming: Option<InterfaceId>,
    ) -> OutInterfaces {
        match self {
            NextHops::Out(interface) => OutInterfaces::One(interface),
            NextHops::Branches(all) => OutInterfaces::of(branches(context, all, incoming)),
            NextHops::Here | NextHops::Past | NextHops::Astray | NextHops::None => {
                OutInterfaces::None
            }
        }
    }

    /// Whether OutInterface_list is just this.
    #[inline]
    pub(crate) fn leads_through(
        self,
        context: &Context<'r>,
        incoming: Option<InterfaceId>,
        outgoing: &OutInterfaces,
    ) -> bool {
        match self {
            NextHops::Out(interface) => *outgoing == OutInterfaces::One(interface),
            NextHops::Branches(all) => {
                branches(context, all, incoming).eq(outgoing.as_slice().iter().copied())
            }
            NextHops::Here | NextHops::Past | NextHops::Astray | NextHops::None => {
                *outgoing == OutInterfaces::None
            }
        }
    }
}

/// Data never leaves where it came in (RFC 2205 section 3.4), and only some interfaces take part.
fn branches<'r>(
    context: &Context<'r>,
    all: &'r [InterfaceId],
    incoming: Option<InterfaceId>,
) -> impl Iterator<Item = InterfaceId> + use<'r> {
    let interfaces = context.interfaces;
    all.iter().copied().filter(move |&id| {
        Some(id) != incoming && interfaces.by_id(id).is_some_and(Interface::takes_part)
    })
}

fn takes_part(context: &Context<'_>, interface: InterfaceId) -> bool {
    context.interfaces.by_id(interface).is_some_and(Interface::takes_part)
}
