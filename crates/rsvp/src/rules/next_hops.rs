//! Next hops of a sender's data by the routes of the node.
//!
//! Unicast data has one next hop: by its destination, or, with several next hops for it or with policy rules, by its
//! flow. Multicast data has branches, by source and group, and must arrive through the interface in the forwarding
//! entry. Whether data also ends at an application of this host does not depend on routes; see
//! [`Psb::HERE`](crate::state::Psb::HERE).

use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Hop, InterfaceId};
use earmark_wire::rsvp::{SenderTemplate, Session};

use crate::filters::routed_flow;
use crate::state::OutInterfaces;

/// Next hops of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHops<'r> {
    /// This host.
    Here,
    /// An interface with RSVP.
    Out(InterfaceId),
    /// Interfaces of the list with RSVP, in ascending order: multicast.
    Branches(&'r [InterfaceId]),
    /// An interface without RSVP.
    WithoutRsvp,
    /// None: multicast data from an unexpected interface.
    WrongInterface,
    /// None: there is no route, or only one back to the previous hop. Its data does not arrive here when it knows that route.
    None,
}

/// Properties of a sender's data that its route depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderData {
    pub(crate) session: Session,
    pub(crate) template: SenderTemplate,
    /// Incoming interface; `None` for a sender on this host.
    pub(crate) incoming: Option<InterfaceId>,
    /// Address of the previous hop, if the next hop must be another node.
    pub(crate) previous: Option<IpAddr>,
}

impl SenderData {
    /// Describes data whose next hop may be any node.
    pub(crate) fn new(
        session: Session,
        template: SenderTemplate,
        incoming: Option<InterfaceId>,
    ) -> SenderData {
        SenderData { session, template, incoming, previous: None }
    }

    /// Returns the next hop of unicast data.
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
        context.routes.lookup_flow(&routed_flow(&self.session, Some(&self.template)), self.incoming)
    }

    /// Returns whether a next hop is the previous one.
    #[inline]
    fn leads_back(&self, hop: &Hop) -> bool {
        let previous = self.incoming.zip(self.previous);
        previous.is_some_and(|(interface, address)| hop.is_neighbor(interface, address))
    }

    /// Returns the next router on the link of an interface, if it depends on the flow.
    #[cold]
    pub(crate) fn next_hop(&self, context: &Context<'_>, interface: InterfaceId) -> Option<IpAddr> {
        context.next_hop(self.session.destination, interface, || {
            (routed_flow(&self.session, Some(&self.template)), self.incoming)
        })
    }
}

impl<'r> NextHops<'r> {
    /// Returns the next hops of data to one address.
    pub(crate) fn of(context: &Context<'r>, destination: IpAddr) -> NextHops<'r> {
        let next_hops =
            NextHops::unicast(context, destination, || context.routes.lookup(destination));
        mark(Checkpoint::Route);
        next_hops
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
            Some(hop) if context.interfaces.takes_part(hop.interface) => {
                NextHops::Out(hop.interface)
            }
            Some(_) => NextHops::WithoutRsvp,
        }
    }

    /// Returns the next hops of a sender's data.
    #[inline]
    pub(crate) fn of_sender(context: &Context<'r>, data: &SenderData) -> NextHops<'r> {
        let destination = data.session.destination;
        let next_hops = if destination.is_multicast() {
            NextHops::multicast(context, destination, data.template.source, data.incoming)
        } else {
            NextHops::unicast(context, destination, || {
                data.hop(context).filter(|hop| !data.leads_back(hop))
            })
        };
        mark(Checkpoint::Route);
        next_hops
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
                NextHops::WrongInterface
            }
            (Some(branches), _) => NextHops::Branches(branches.outgoing),
            (None, Some(_)) => NextHops::Branches(&[]),
            // A sending host needs no forwarding entry: its data follows the route for the group.
            (None, None) => match context.routes.lookup(group) {
                Some(hop) if context.interfaces.takes_part(hop.interface) => {
                    NextHops::Out(hop.interface)
                }
                _ => NextHops::Branches(&[]),
            },
        }
    }

    /// Returns OutInterface_list.
    pub(crate) fn outgoing(
        self,
        context: &Context<'r>,
        incoming: Option<InterfaceId>,
    ) -> OutInterfaces {
        match self {
            NextHops::Out(interface) => OutInterfaces::One(interface),
            NextHops::Branches(all) => OutInterfaces::of(branches(context, all, incoming)),
            NextHops::Here | NextHops::WithoutRsvp | NextHops::WrongInterface | NextHops::None => {
                OutInterfaces::None
            }
        }
    }

    /// Returns whether OutInterface_list would equal `outgoing`.
    #[inline]
    pub(crate) fn has_outgoing(
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
            NextHops::Here | NextHops::WithoutRsvp | NextHops::WrongInterface | NextHops::None => {
                *outgoing == OutInterfaces::None
            }
        }
    }
}

/// Returns the interfaces with RSVP, without the incoming one (RFC 2205 section 3.4).
fn branches<'r>(
    context: &Context<'r>,
    all: &'r [InterfaceId],
    incoming: Option<InterfaceId>,
) -> impl Iterator<Item = InterfaceId> + use<'r> {
    let interfaces = context.interfaces;
    all.iter().copied().filter(move |&id| Some(id) != incoming && interfaces.takes_part(id))
}
