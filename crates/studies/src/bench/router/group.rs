//! Multicast sessions through a router without I/O, with several senders and receivers, in each of RSVP's styles.
//!
//! ```text
//!   senders 172.16.0.0/12 --- eth1 [router] eth2 --- 198.18.0.2       each receiver on a link of its own,
//!                                           eth3 --- 198.18.1.2       or all of them on eth2
//! ```

use std::net::{IpAddr, Ipv4Addr};

use earmark_core::{InterfaceId, MulticastRoute};
use earmark_node::HostUpdate;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Path, PathTear, Resv,
    ResvTear, RsvpHop, SenderDescriptor, Session, SourceSelector, Style,
};

use super::rsvp::{TSPEC, UPSTREAM, adspec, written};
use super::{Arrival, FAR, NEAR, Protocol, Router};

/// Largest number of receivers of a group.
pub const MAX_RECEIVERS: u32 = 64;

/// Properties of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Reservation style.
    pub style: Style,
    /// Number of senders, all with the same traffic.
    pub senders: u32,
    /// Number of receivers, all with the same request.
    pub receivers: u32,
    /// Whether all receivers are behind one interface.
    pub one_link: bool,
}

/// Message of a member of a group, by the member's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberMessage {
    /// Path of a sender.
    Path(u32),
    /// PathTear of a sender.
    PathTear(u32),
    /// Resv of a receiver for all senders.
    Resv(u32),
    /// ResvTear of a receiver.
    ResvTear(u32),
}

impl Group {
    /// Creates a router that has only routes for `groups` groups of this kind.
    pub fn router(&self, groups: u32) -> Router {
        let mut router = Router::new(Protocol::Rsvp);
        let links = if self.one_link { 1 } else { self.receivers.min(MAX_RECEIVERS) };
        for receiver in 0..links {
            router.attach(self.link(receiver), Ipv4Addr::new(198, 18, receiver as u8, 1));
        }
        for number in 0..groups {
            router.update(HostUpdate::MulticastRoute(MulticastRoute {
                source: None,
                group: destination(number).into(),
                incoming: Some(NEAR),
                outgoing: (0..links).map(|receiver| self.link(receiver)).collect(),
            }));
        }
        router.out.clear();
        router
    }

    /// Returns the message of a member of a group, as it arrives at the router.
    pub fn message(&self, router: &Router, number: u32, message: MemberMessage) -> Arrival {
        let session = Session {
            destination: destination(number).into(),
            protocol: 17,
            flags: 0,
            port: 5_004,
        };
        match message {
            MemberMessage::Path(sender) => {
                let template = template(sender);
                let adspec = adspec();
                let sender = SenderDescriptor { template, tspec: TSPEC, adspec: Some(&adspec) };
                let carried = Carried::Objects(&[]);
                let path = Path { session, hop: UPSTREAM, refresh_ms: 30_000, carried, sender };
                downstream(number, template.source, &session, Body::Path(path))
            }
            MemberMessage::PathTear(sender) => {
                let (template, tspec) = (template(sender), Some(TSPEC));
                let carried = Carried::Objects(&[]);
                let tear = PathTear { session, hop: UPSTREAM, carried, template, tspec };
                downstream(number, template.source, &session, Body::PathTear(tear))
            }
            MemberMessage::Resv(receiver) => {
                self.upstream(router, number, receiver, |hop, flows| {
                    Body::Resv(Resv {
                        session,
                        hop,
                        refresh_ms: 30_000,
                        confirm: None,
                        scope: None,
                        carried: Carried::Objects(&[]),
                        flows,
                    })
                })
            }
            MemberMessage::ResvTear(receiver) => {
                self.upstream(router, number, receiver, |hop, flows| {
                    let (scope, carried) = (None, Carried::Objects(&[]));
                    Body::ResvTear(ResvTear { session, hop, scope, carried, flows })
                })
            }
        }
    }

    fn link(&self, receiver: u32) -> InterfaceId {
        InterfaceId(FAR.0 + if self.one_link { 0 } else { receiver })
    }

    fn upstream(
        &self,
        router: &Router,
        session: u32,
        receiver: u32,
        body: impl for<'a> FnOnce(RsvpHop, FlowDescriptors<'a>) -> Body<'a>,
    ) -> Arrival {
        let [link, host] = if self.one_link { [0, 2 + receiver] } else { [receiver, 2] };
        let source = IpAddr::from([198, 18, link as u8, host as u8]);
        let hop = RsvpHop {
            address: source,
            lih: router
                .node
                .engine::<earmark_rsvp::Rsvp>()
                .expect("a node with RSVP")
                .lih(self.link(receiver)),
        };
        let flowspec = Some(FlowSpec::ControlledLoad(TSPEC));
        let filters: Vec<FilterSpec> = (0..self.senders).map(template).collect();
        let fixed: Vec<_> =
            filters.iter().map(|&filter| FixedFilterFlow { flowspec, filter }).collect();
        let octets = written(body(
            hop,
            match self.style {
                Style::SharedExplicit => {
                    FlowDescriptors::SharedExplicit(flowspec, List::Items(&filters))
                }
                Style::Wildcard => FlowDescriptors::Wildcard(flowspec),
                _ => FlowDescriptors::FixedFilter(List::Items(&fixed)),
            },
        ));
        let destination = IpAddr::from([198, 18, link as u8, 1]);
        let (protocol, interface) = (earmark_rsvp::PROTOCOL, self.link(receiver));
        Arrival { session, protocol, interface, source, destination, octets }
    }
}

fn downstream(number: u32, source: IpAddr, session: &Session, body: Body<'_>) -> Arrival {
    let (protocol, destination) = (earmark_rsvp::PROTOCOL, session.destination);
    let octets = written(body);
    Arrival { session: number, protocol, interface: NEAR, source, destination, octets }
}

/// Returns the multicast address of a group.
fn destination(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xef01_0000 + number)
}

fn template(sender: u32) -> FilterSpec {
    let source = IpAddr::V4(Ipv4Addr::from_bits(0xac10_0001 + sender));
    FilterSpec { source, selector: SourceSelector::Port(4_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each style reserves once on each link, or once for each sender, and everything is released again.
    #[test]
    fn groups_reserve_by_their_style() {
        for (style, of_a_link) in
            [(Style::FixedFilter, 3), (Style::SharedExplicit, 1), (Style::Wildcard, 1)]
        {
            for (one_link, links) in [(false, 4), (true, 1)] {
                let group = Group { style, senders: 3, receivers: 4, one_link };
                let mut router = group.router(2);
                let mut deliver = |message| {
                    let message = group.message(&router, 1, message);
                    router.deliver_all(&[message]);
                    router.claims()
                };
                (0..3).for_each(|sender| assert_eq!(deliver(MemberMessage::Path(sender)), 0));
                let claims = (0..4).map(|receiver| deliver(MemberMessage::Resv(receiver))).max();
                assert_eq!(claims, Some(links * of_a_link), "{style:?} {one_link}");
                (0..3).for_each(|receiver| _ = deliver(MemberMessage::ResvTear(receiver)));
                assert_eq!(deliver(MemberMessage::PathTear(0)), of_a_link.min(2));
                (1..3).for_each(|sender| _ = deliver(MemberMessage::PathTear(sender)));
                assert_eq!(router.claims(), 0, "{style:?} {one_link}");
                assert_eq!(router.sessions(Protocol::Rsvp), 0);
            }
        }
    }
}
