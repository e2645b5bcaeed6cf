//! Next hops of a message and its stream, by the routes of the node.

use core::net::IpAddr;
use core::slice;

use earmark_core::{Context, Interface, InterfaceId, Interfaces};

use crate::api::Stream;
use crate::counters::DropReason;

/// Outgoing links of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHops<'r> {
    /// The link of its stream, with the router there if that depends on the stream.
    One(InterfaceId, Option<IpAddr>),
    /// The branches of a group in ascending order, without the incoming interface.
    Branches(&'r [InterfaceId], Option<InterfaceId>),
}

impl<'r> NextHops<'r> {
    /// Returns the next hops of a message with this incoming interface; `None` for one of this host. `stream` is the
    /// stream of the message, if known.
    ///
    /// # Errors
    /// The reason why the message cannot be forwarded.
    #[inline(always)]
    pub(crate) fn of(
        context: &Context<'r>,
        incoming: Option<InterfaceId>,
        source: IpAddr,
        destination: IpAddr,
        stream: Option<&Stream>,
    ) -> Result<NextHops<'r>, DropReason> {
        if destination.is_multicast() {
            return NextHops::to_group(context, incoming, source, destination);
        }
        let routes = context.routes;
        if let Some(stream) = stream
            && routes.differs_by_flow(destination)
        {
            let hop = routes.lookup_flow(&stream.flow(), incoming).ok_or(DropReason::NoRoute)?;
            return Ok(NextHops::One(hop.interface, hop.gateway));
        }
        let hop = routes.lookup(destination).ok_or(DropReason::NoRoute)?;
        Ok(NextHops::One(hop.interface, None))
    }

    #[cold]
    fn to_group(
        context: &Context<'r>,
        incoming: Option<InterfaceId>,
        source: IpAddr,
        group: IpAddr,
    ) -> Result<NextHops<'r>, DropReason> {
        match (context.routes.multicast(source, group), incoming) {
            (Some(branches), Some(interface))
                if branches.incoming.is_some_and(|expected| expected != interface) =>
            {
                Err(DropReason::WrongInterface)
            }
            (Some(branches), _) => Ok(NextHops::Branches(branches.outgoing, incoming)),
            (None, Some(_)) => Ok(NextHops::Branches(&[], incoming)),
            // A sending host needs no forwarding entry: its data leaves by its unicast route for the group.
            (None, None) => {
                let hop = context.routes.lookup(group).ok_or(DropReason::NoRoute)?;
                Ok(NextHops::One(hop.interface, None))
            }
        }
    }

    /// Returns the links, each with its interface if this node takes part there.
    #[inline]
    pub(crate) fn iter<'w>(
        &'w self,
        interfaces: &'r Interfaces,
    ) -> impl Iterator<Item = (InterfaceId, Option<&'r Interface>)> + use<'w, 'r> {
        let (all, incoming) = match self {
            NextHops::One(interface, _) => (slice::from_ref(interface), None),
            NextHops::Branches(all, incoming) => (*all, *incoming),
        };
        let all = all.iter().copied().filter(move |&interface| Some(interface) != incoming);
        all.map(|interface| {
            let ours = interfaces.by_id(interface).filter(|interface| interface.takes_part());
            (interface, ours)
        })
    }

    /// Returns the router that receives the message, if that depends on its stream.
    #[inline]
    pub(crate) fn next_hop(self) -> Option<IpAddr> {
        match self {
            NextHops::One(_, next_hop) => next_hop,
            NextHops::Branches(..) => None,
        }
    }

    /// Returns whether a link is among them.
    #[inline]
    pub(crate) fn contains(self, interface: InterfaceId) -> bool {
        match self {
            NextHops::One(one, _) => one == interface,
            NextHops::Branches(all, incoming) => {
                Some(interface) != incoming && all.contains(&interface)
            }
        }
    }
}
