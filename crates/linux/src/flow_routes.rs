//! Route of a flow as the kernel selects it: one query on a netlink socket (`RTM_GETROUTE`).
//!
//! The query has everything that the kernel's choice can depend on: addresses, protocol, ports, the incoming interface,
//! and the mark that rules of `nftables` give the packets, as far as the settings know it ([`MarkRule`]). The answer is
//! the next hop of forwarded packets of the flow, for each `fib_multipath_hash_policy`. A query costs some
//! microseconds, so callers cache the answer.
//!
//! The kernel accepts queries for TCP, UDP and ICMP. Packets of other protocols are queried as UDP without ports: the
//! answer is right unless the kernel's choice depends on protocols or ports. Such answers are counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use earmark_core::{Flow, FlowResolver, Hop, InterfaceId, Prefix, Resolution};

use crate::mirror::route_answer;
use crate::netlink::{Connection, Message, Messages, NetlinkError};

/// Route attributes (Linux 4.19, and 6.14 for the flow label).
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const RTA_FLOWLABEL: u16 = 31;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// The mark of some packets, as the firewall of this host sets it before routing. Fields that are `None` match
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkRule {
    /// The mark.
    pub mark: u32,
    /// Name of the incoming interface (by name, because the index changes if the interface is created again).
    pub incoming: Option<String>,
    /// Source prefix.
    pub source: Option<Prefix>,
    /// Destination prefix.
    pub destination: Option<Prefix>,
    /// IP protocol number of the packets.
    pub protocol: Option<u8>,
    /// Destination port of the packets.
    pub port: Option<u16>,
}

impl MarkRule {
    pub(crate) fn fits(
        &self,
        flow: &Flow,
        incoming: Option<InterfaceId>,
        netlink: &Connection,
    ) -> bool {
        let within = |range: Option<Prefix>, address: Option<IpAddr>| {
            range.is_none_or(|range| address.is_some_and(|address| range.contains(address)))
        };
        let comes_through = |name: &String| {
            let index = rustix::net::netdevice::name_to_index(netlink, name);
            incoming.is_some_and(|incoming| index == Ok(incoming.0))
        };
        self.incoming.as_ref().is_none_or(comes_through)
            && within(self.source, flow.source)
            && within(self.destination, Some(flow.destination))
            && self.protocol.is_none_or(|protocol| flow.protocol == protocol)
            && self.port.is_none_or(|port| flow.destination_port == port)
    }
}

/// Counters of queries and their results.
#[derive(Debug, Default)]
pub struct FlowRouteCounters {
    /// Queries.
    pub asked: AtomicU64,
    /// Flows without a route in the kernel.
    pub no_route: AtomicU64,
    /// Flows of protocols that the kernel accepts no query for: their answers may be wrong.
    pub other_protocol: AtomicU64,
    /// Answers that were malformed or did not match the query; the route of the destination is used instead.
    pub malformed: AtomicU64,
    /// Queries that the kernel refused; the route of the destination is used instead.
    pub refused: AtomicU64,
}

/// Why the kernel's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlowRouteError {
    /// The kernel refused, or its answer is malformed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel's answer is for another destination.
    #[error("malformed answer of the kernel: route to {about} instead of {destination}")]
    OtherDestination {
        /// Destination of the query.
        destination: IpAddr,
        /// Destination of the answer.
        about: Prefix,
    },
    /// The kernel's answer names no interface, or an unknown one.
    #[error("malformed answer of the kernel: no interface in the route to {destination}")]
    NoInterface {
        /// Destination of the query.
        destination: IpAddr,
    },
}

/// Route queries in one network namespace.
#[derive(Debug)]
pub struct FlowRoutes {
    connection: Connection,
    marks: Vec<MarkRule>,
    counters: Arc<FlowRouteCounters>,
}

impl FlowRoutes {
    /// Opens a socket in the network namespace of the calling thread. The first rule that matches a flow gives its
    /// mark.
    ///
    /// # Errors
    /// The netlink socket cannot be opened.
    pub fn open(marks: Vec<MarkRule>) -> Result<FlowRoutes, NetlinkError> {
        let counters = Arc::default();
        Ok(FlowRoutes { connection: Connection::open()?, marks, counters })
    }

    /// Returns the counters, for display.
    pub fn counters(&self) -> Arc<FlowRouteCounters> {
        self.counters.clone()
    }

    /// Returns the hop of a flow; `None` if it has no route. If the incoming interface of another host's flow is
    /// unknown, the interface that the routes to its source use is assumed.
    ///
    /// # Errors
    /// [`FlowRouteError`]: the route of the flow is unknown.
    pub fn find(
        &mut self,
        flow: &Flow,
        incoming: Option<InterfaceId>,
    ) -> Result<Option<Hop>, FlowRouteError> {
        let found = self.find_from(flow, incoming)?;
        let (None, None, Some(source)) = (found, incoming, flow.source) else { return Ok(found) };
        // The kernel sends from its own addresses only, so it finds no route for a foreign source.
        let back = Flow { source: None, ..Flow::to_range(Prefix::host(source)) };
        match self.find_from(&back, None)? {
            Some(back) => self.find_from(flow, Some(back.interface)),
            None => Ok(None),
        }
    }

    fn find_from(
        &mut self,
        flow: &Flow,
        incoming: Option<InterfaceId>,
    ) -> Result<Option<Hop>, FlowRouteError> {
        let rule = self.marks.iter().find(|rule| rule.fits(flow, incoming, &self.connection));
        // Without `RTM_F_FIB_MATCH`, which makes the kernel report the whole route.
        let message = question(flow, incoming, rule.map(|rule| rule.mark), 0);
        match self.connection.ask("find the route of a flow", message) {
            Ok(answers) => hop_of(flow, answers.iter()).map(Some),
            Err(error) if is_no_route(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the error means that packets would find no route either: there is none, or a route of type `unreachable` or
/// similar, or the incoming interface is wrong. The kernel explains an error of the query itself.
pub(crate) fn is_no_route(error: &NetlinkError) -> bool {
    let NetlinkError::Refused { source, explanation, .. } = error else { return false };
    let no_route = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL, libc::EXDEV];
    explanation.is_none() && source.raw_os_error().is_some_and(|errno| no_route.contains(&errno))
}

impl FlowResolver for FlowRoutes {
    fn resolve(&mut self, flow: &Flow, incoming: Option<InterfaceId>) -> Resolution {
        let count = |counter: &AtomicU64| _ = counter.fetch_add(1, Ordering::Relaxed);
        count(&self.counters.asked);
        if !matches!(flow.protocol, 0 | TCP | UDP) {
            count(&self.counters.other_protocol);
        }
        match self.find(flow, incoming) {
            Ok(Some(hop)) => Resolution::Through(hop),
            Ok(None) => {
                count(&self.counters.no_route);
                Resolution::Nowhere
            }
            Err(error) => {
                tracing::debug!(%error, ?flow, "the route of the destination is used");
                count(match error {
                    FlowRouteError::Netlink(
                        NetlinkError::Refused { .. } | NetlinkError::Socket { .. },
                    ) => &self.counters.refused,
                    _ => &self.counters.malformed,
                });
                Resolution::Unknown
            }
        }
    }
}

/// Builds a route query with these flags (`RTM_F_...`).
pub(crate) fn question(
    flow: &Flow,
    incoming: Option<InterfaceId>,
    mark: Option<u32>,
    flags: u32,
) -> Message {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let mut header = [0; 12];
    header[0] = if flow.destination.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let destination = octets(flow.destination);
    header[1] = destination.len() as u8 * 8;
    header[2] = flow.source.map_or(0, |_| header[1]);
    header[8..].copy_from_slice(&flags.to_ne_bytes());
    let mut message =
        Message::new(libc::RTM_GETROUTE, 0).fixed(&header).attribute(libc::RTA_DST, &destination);
    if let Some(source) = flow.source {
        message = message.attribute(libc::RTA_SRC, &octets(source));
        // A forwarded packet always has a source.
        if let Some(interface) = incoming {
            message = message.u32(libc::RTA_IIF, interface.0);
        }
    }
    if let Some(mark) = mark {
        message = message.u32(libc::RTA_MARK, mark);
    }
    if matches!(flow.protocol, TCP | UDP) {
        message = message
            .u8(RTA_IP_PROTO, flow.protocol)
            .attribute(RTA_SPORT, &flow.source_port.to_be_bytes())
            .attribute(RTA_DPORT, &flow.destination_port.to_be_bytes());
    }
    if flow.flow_label != 0 && flow.destination.is_ipv6() {
        message = message.attribute(RTA_FLOWLABEL, &flow.flow_label.to_be_bytes());
    }
    message
}

/// Returns the hop in the kernel's answer, if the answer matches the query.
fn hop_of(flow: &Flow, answers: Messages<'_>) -> Result<Hop, FlowRouteError> {
    let destination = flow.destination;
    for message in answers {
        let Some((about, hop)) = route_answer(&message?)? else { continue };
        if !about.contains(destination) {
            return Err(FlowRouteError::OtherDestination { destination, about });
        }
        return hop.ok_or(FlowRouteError::NoInterface { destination });
    }
    Err(FlowRouteError::NoInterface { destination })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 12] = [libc::AF_INET as u8, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];

    fn answer(build: impl FnOnce(Message) -> Message) -> Result<Hop, FlowRouteError> {
        let octets = build(Message::new(libc::RTM_NEWROUTE, 0).fixed(&HEADER)).finish(0);
        let flow = Flow::to_range(Prefix::host([10, 9, 0, 1].into()));
        hop_of(&flow, Messages::new(&octets))
    }

    #[test]
    fn answer_names_interface_and_gateway() {
        let hop = answer(|m| {
            m.attribute(libc::RTA_DST, &[10, 9, 0, 1])
                .u32(libc::RTA_OIF, 7)
                .attribute(libc::RTA_GATEWAY, &[10, 0, 0, 2])
        });
        let hop = hop.expect("fits");
        assert_eq!((hop.interface, hop.gateway), (InterfaceId(7), Some([10, 0, 0, 2].into())));
    }

    #[test]
    fn answer_that_does_not_fit_is_an_error() {
        let other = answer(|m| m.attribute(libc::RTA_DST, &[10, 9, 0, 2]).u32(libc::RTA_OIF, 7));
        assert!(matches!(other, Err(FlowRouteError::OtherDestination { .. })), "{other:?}");
        let nowhere = answer(|m| m.attribute(libc::RTA_DST, &[10, 9, 0, 1]));
        assert!(matches!(nowhere, Err(FlowRouteError::NoInterface { .. })), "{nowhere:?}");
        let empty = answer(|m| m);
        assert!(matches!(empty, Err(FlowRouteError::NoInterface { .. })), "{empty:?}");
        let cut = answer(|m| m.attribute(libc::RTA_DST, &[10, 9, 0]));
        let malformed = NetlinkError::Malformed { field: "IP address", offset: 32 };
        assert_eq!(cut.expect_err("cut").to_string(), malformed.to_string());
    }

    #[test]
    fn first_mark_rule_that_fits_counts() {
        let flow = Flow {
            source: Some([10, 0, 0, 9].into()),
            protocol: UDP,
            destination_port: 5_001,
            ..Flow::to_range(Prefix::host([10, 9, 0, 1].into()))
        };
        let netlink = Connection::open().expect("a socket");
        let fits = |rule: MarkRule| rule.fits(&flow, None, &netlink);
        let range = |text: &str| Some(text.parse().expect("a range"));
        assert!(fits(MarkRule::default()));
        assert!(fits(MarkRule {
            source: range("10.0.0.0/24"),
            destination: range("10.9.0.0/16"),
            protocol: Some(UDP),
            port: Some(5_001),
            ..MarkRule::default()
        }));
        for rule in [
            MarkRule { source: range("10.0.1.0/24"), ..MarkRule::default() },
            MarkRule { destination: range("2001:db8::/32"), ..MarkRule::default() },
            MarkRule { protocol: Some(TCP), ..MarkRule::default() },
            MarkRule { port: Some(5_002), ..MarkRule::default() },
            MarkRule { incoming: Some("lo".into()), ..MarkRule::default() },
        ] {
            assert!(!fits(rule.clone()), "{rule:?}");
        }
    }
}
