//! The kernel's answers about the route of a flow: the selected hop, and the route with all its next hops.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Hop, InterfaceId, Prefix};

use super::verdict::{NextHop, Verdict};
use crate::flow_routes::FlowRouteError;
use crate::mirror::{NEXT_HOP_UNUSABLE, gateway_in, ip_address, next_hop, via};
use crate::netlink::{Attribute, Messages, NetlinkError, Received};

/// Octets of `struct rtmsg`.
const HEADER: usize = 12;
/// ID of a nexthop object (Linux 5.3).
const RTA_NH_ID: u16 = 30;

/// Verdict for packets of a flow, the table, and the source address that this host selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    pub(super) table: u32,
    pub(super) source: Option<IpAddr>,
}

/// A route of the kernel with all its next hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WholeRoute {
    pub(super) prefix: Prefix,
    pub(super) table: u32,
    pub(super) metric: u32,
    pub(super) next_hops: Vec<NextHop>,
    pub(super) nexthop_object: Option<u32>,
    source: Option<IpAddr>,
    kind: u8,
}

impl Answer {
    /// Decodes the answer for packets to `destination`.
    pub(super) fn decode(
        answers: Messages<'_>,
        destination: IpAddr,
    ) -> Result<Answer, FlowRouteError> {
        let route = WholeRoute::decode(answers)?;
        let route = route.ok_or(FlowRouteError::NoInterface { destination })?;
        if !route.prefix.contains(destination) {
            let about = route.prefix;
            return Err(FlowRouteError::OtherDestination { destination, about });
        }
        let hop = route.next_hops.first().copied();
        let verdict = match (route.kind, hop) {
            // A unicast address of several hosts, this one among them.
            (libc::RTN_LOCAL | libc::RTN_ANYCAST, _) => Verdict::Local,
            (libc::RTN_UNREACHABLE, _) => Verdict::Unreachable,
            (libc::RTN_PROHIBIT, _) => Verdict::Prohibited,
            (libc::RTN_BLACKHOLE, _) => Verdict::Blackhole,
            (libc::RTN_BROADCAST, Some(hop)) => Verdict::Broadcast(hop.interface),
            (_, Some(NextHop { interface, gateway, .. })) => {
                Verdict::Forwarded(Hop { interface, gateway, source: route.source })
            }
            (_, None) => return Err(FlowRouteError::NoInterface { destination }),
        };
        Ok(Answer { verdict, table: route.table, source: route.source })
    }
}

impl WholeRoute {
    /// Decodes the first route among the answers.
    pub(super) fn decode(answers: Messages<'_>) -> Result<Option<WholeRoute>, NetlinkError> {
        for message in answers {
            let message = message?;
            if message.kind == libc::RTM_NEWROUTE {
                return WholeRoute::of(&message).map(Some);
            }
        }
        Ok(None)
    }

    fn of(message: &Received<'_>) -> Result<WholeRoute, NetlinkError> {
        let fixed = message.fixed(HEADER, "route")?;
        let unspecified: IpAddr = match i32::from(fixed[0]) {
            libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut destination = unspecified;
        let (mut interface, mut gateway, mut source) = (None, None, None);
        let (mut table, mut metric, mut object) = (u32::from(fixed[4]), 0, None);
        let mut next_hops = Vec::new();
        for attribute in message.attributes(HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                libc::RTA_DST => destination = ip_address(&attribute)?,
                libc::RTA_TABLE => table = attribute.u32("table")?,
                libc::RTA_PRIORITY => metric = attribute.u32("metric")?,
                libc::RTA_OIF => interface = Some(InterfaceId(attribute.u32("interface")?)),
                libc::RTA_GATEWAY => gateway = Some(ip_address(&attribute)?),
                libc::RTA_VIA => gateway = via(&attribute)?,
                libc::RTA_PREFSRC => source = Some(ip_address(&attribute)?),
                libc::RTA_MULTIPATH => next_hops = next_hops_in(&attribute)?,
                RTA_NH_ID => object = Some(attribute.u32("nexthop id")?),
                _ => {}
            }
        }
        if let (Some(interface), true) = (interface, next_hops.is_empty()) {
            next_hops.push(NextHop { interface, gateway, weight: 1, usable: true });
        }
        Ok(WholeRoute {
            prefix: Prefix::new(destination, fixed[1]),
            table,
            metric,
            next_hops,
            nexthop_object: object,
            source,
            kind: fixed[7],
        })
    }

    /// Whether the verdict is possible by this route.
    pub(super) fn has(&self, verdict: &Verdict) -> bool {
        let Verdict::Forwarded(hop) = verdict else { return true };
        let is_it = |next: &NextHop| next.interface == hop.interface && next.gateway == hop.gateway;
        self.next_hops.iter().any(is_it)
    }
}

/// Returns all next hops of a route with several (`RTA_MULTIPATH`).
fn next_hops_in(paths: &Attribute<'_>) -> Result<Vec<NextHop>, NetlinkError> {
    let mut next_hops = Vec::new();
    let mut rest = paths.value;
    while let Some((header, attributes, after)) =
        next_hop(rest).ok_or_else(|| paths.malformed("next hop"))?
    {
        let gateway = gateway_in(attributes)?;
        let [_, _, flags, weight_less_one, a, b, c, d] = *header;
        next_hops.push(NextHop {
            interface: InterfaceId(u32::from_ne_bytes([a, b, c, d])),
            gateway,
            weight: u32::from(weight_less_one) + 1,
            usable: flags & NEXT_HOP_UNUSABLE == 0,
        });
        rest = after;
    }
    Ok(next_hops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Message;

    fn octets(kind: u8, build: impl FnOnce(Message) -> Message) -> Vec<u8> {
        let fixed = [libc::AF_INET as u8, 24, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0];
        let message = Message::new(libc::RTM_NEWROUTE, 0).fixed(&fixed);
        build(message.attribute(libc::RTA_DST, &[10, 0, 9, 0])).finish(0)
    }

    fn paths(list: &[(u32, u8, u8, u8)]) -> Vec<u8> {
        let mut paths = Vec::new();
        for &(index, flags, weight_less_one, last) in list {
            paths.extend([16, 0, flags, weight_less_one]);
            paths.extend(index.to_ne_bytes());
            paths.extend([8, 0, libc::RTA_GATEWAY as u8, 0, 10, 0, 0, last]);
        }
        paths
    }

    #[test]
    fn multipath_route_has_all_its_next_hops_with_weights() {
        let octets = octets(libc::RTN_UNICAST, |m| {
            m.u32(libc::RTA_TABLE, 1_000)
                .u32(libc::RTA_PRIORITY, 7)
                .u32(RTA_NH_ID, 10)
                .attribute(libc::RTA_MULTIPATH, &paths(&[(4, 0, 0, 1), (5, 16, 2, 2)]))
        });
        let route = WholeRoute::decode(Messages::new(&octets)).expect("read").expect("a route");
        assert_eq!((route.table, route.metric, route.nexthop_object), (1_000, 7, Some(10)));
        assert_eq!(route.prefix.to_string(), "10.0.9.0/24");
        let hop = |interface, last: u8, weight, usable| NextHop {
            interface: InterfaceId(interface),
            gateway: Some([10, 0, 0, last].into()),
            weight,
            usable,
        };
        assert_eq!(route.next_hops, [hop(4, 1, 1, true), hop(5, 2, 3, false)]);
        let through = |interface, last: u8| {
            let gateway = Some([10, 0, 0, last].into());
            Verdict::Forwarded(Hop { interface: InterfaceId(interface), gateway, source: None })
        };
        assert!(route.has(&through(5, 2)) && !route.has(&through(5, 1)));
    }

    #[test]
    fn answer_gives_the_verdict() {
        let decode = |kind, destination: [u8; 4]| {
            let octets = octets(kind, |m| m.u32(libc::RTA_OIF, 3));
            Answer::decode(Messages::new(&octets), destination.into())
        };
        let inside = [10, 0, 9, 9];
        for (kind, expected) in [
            (libc::RTN_LOCAL, Verdict::Local),
            (libc::RTN_BROADCAST, Verdict::Broadcast(InterfaceId(3))),
            (libc::RTN_UNREACHABLE, Verdict::Unreachable),
            (libc::RTN_PROHIBIT, Verdict::Prohibited),
            (libc::RTN_BLACKHOLE, Verdict::Blackhole),
        ] {
            assert_eq!(decode(kind, inside).expect("an answer").verdict, expected);
        }
        let hop = Hop { interface: InterfaceId(3), gateway: None, source: None };
        let unicast = decode(libc::RTN_UNICAST, inside).expect("an answer");
        assert_eq!((unicast.verdict, unicast.table), (Verdict::Forwarded(hop), 254));
        let other = decode(libc::RTN_UNICAST, [10, 0, 8, 1]);
        assert!(matches!(other, Err(FlowRouteError::OtherDestination { .. })), "{other:?}");
    }

    #[test]
    fn malformed_answers_are_refused_with_their_field() {
        for octets in [
            octets(1, |m| m.attribute(libc::RTA_MULTIPATH, &[9, 0, 0, 0, 4, 0, 0, 0])),
            octets(1, |m| m.attribute(libc::RTA_GATEWAY, &[1, 2, 3])),
            octets(1, |m| m.u8(libc::RTA_TABLE, 1)),
        ] {
            let error = WholeRoute::decode(Messages::new(&octets)).expect_err("malformed");
            assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}");
        }
    }
}
