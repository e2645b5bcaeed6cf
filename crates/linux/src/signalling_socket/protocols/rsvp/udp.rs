//! RSVP inside UDP, for hosts without raw sockets and for their neighbours (RFC 2205 appendix C).
//!
//! ```text
//!                 unicast destination D                multicast destination D
//! a host          sends to D or its router, port 1698  sends to the group G*, port 1698
//! without raw     receives at ports 1698 and 1699      receives at D port 1699, G* port 1698
//! everybody else  sends to D, port 1699, and raw       sends to D, port 1699, and raw
//!                 receives at port 1698                receives at G* port 1698
//! ```
//!
//! The two ports prevent that nodes with raw sockets receive everything twice. G* reaches no further than the link.
//!
//! A message inside UDP has no TTL to compare with its sender's; the Send_TTL of the message itself is used in its
//! place, so no hop without RSVP is detected.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_wire::rsvp::encapsulation::{self, FROM_OTHERS, FROM_UDP_ONLY};

use super::IP_PROTOCOL;
use crate::interface::InterfaceName;
use crate::netlink::{Connection, Message, NetlinkError};
use crate::signalling_socket::OpenError;
use crate::signalling_socket::incoming::Incoming;
use crate::signalling_socket::socket_options::{
    membership, set, set_receive_buffer, set_send_buffer,
};
use crate::sys::socket::{Received, Target, send_packet};
use crate::traffic_control::SIGNALLING_CLASS;

/// The UDP sockets, and the interfaces on which they are used.
#[derive(Debug)]
pub(crate) struct UdpSockets {
    pub(crate) ports: Vec<Port>,
    /// Whether this host has no raw sockets.
    udp_only: bool,
    interfaces: BTreeSet<InterfaceId>,
    routes: Connection,
}

/// One UDP socket.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) socket: OwnedFd,
    is_ipv4: bool,
    port: u16,
}

impl UdpSockets {
    /// Opens the ports at which this kind of node receives; no interface uses them yet.
    pub(crate) fn open(udp_only: bool) -> Result<UdpSockets, OpenError> {
        let received: &[u16] =
            if udp_only { &[FROM_UDP_ONLY, FROM_OTHERS] } else { &[FROM_UDP_ONLY] };
        let mut ports = Vec::new();
        for &port in received {
            ports.push(Port::open(true, port)?);
            match Port::open(false, port) {
                Err(error) if error.is_missing_family() => {}
                opened => ports.push(opened?),
            }
        }
        let routes = Connection::open().map_err(|error| OpenError::System {
            doing: "ask for routes",
            source: io::Error::other(error),
        })?;
        Ok(UdpSockets { ports, udp_only, interfaces: BTreeSet::new(), routes })
    }

    /// Whether messages of this IP protocol can be sent inside UDP.
    pub(crate) fn supports(protocol: u8) -> bool {
        protocol == IP_PROTOCOL
    }

    /// Whether messages inside UDP are received and sent through an interface.
    pub(crate) fn serves(&self, interface: InterfaceId) -> bool {
        self.interfaces.contains(&interface)
    }

    /// Starts or stops using an interface.
    pub(crate) fn serve(&mut self, interface: InterfaceId, serve: bool) -> io::Result<()> {
        let changed = match serve {
            true => self.interfaces.insert(interface),
            false => self.interfaces.remove(&interface),
        };
        if !changed {
            return Ok(());
        }
        for port in self.ports.iter().filter(|port| port.port == FROM_UDP_ONLY) {
            let group = encapsulation::group(!port.is_ipv4);
            match membership(port.socket.as_fd(), group, interface, serve) {
                // The interface lacks that family, or was deleted.
                Err(error) if !serve || !port.is_ipv4 => {
                    tracing::debug!(%error, interface = %InterfaceName(interface), "membership \
                        of {group}");
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Whether there is a socket of this address family.
    pub(crate) fn can_signal(&self, destination: IpAddr) -> bool {
        self.ports.iter().any(|port| port.is_ipv4 == destination.is_ipv4())
    }

    /// Returns the socket that receives what is sent to a group, for a host without raw sockets.
    pub(crate) fn group_socket(&self, group: IpAddr) -> Option<&OwnedFd> {
        let matches = |p: &&Port| p.is_ipv4 == group.is_ipv4() && p.port == FROM_OTHERS;
        self.ports.iter().find(matches).map(|port| &port.socket)
    }

    /// Returns the message inside a UDP packet; `None` if the interface does not use UDP, or the packet is too short
    /// for a message.
    pub(crate) fn message<'a>(&self, octets: &'a [u8], about: &Received) -> Option<Incoming<'a>> {
        let interface = InterfaceId(about.interface?);
        self.serves(interface).then_some(())?;
        let datagram = Datagram {
            interface,
            source: about.source?,
            destination: about.destination?,
            ttl: encapsulation::send_ttl(octets)?,
            router_alert: false,
            encapsulated: true,
            payload: octets,
        };
        Some(Incoming { protocol: IP_PROTOCOL, is_copy: false, share_change: None, datagram })
    }

    /// Sends a message inside UDP.
    pub(crate) fn send(&mut self, out: &Outgoing, payload: &[u8]) -> io::Result<()> {
        let port = if self.udp_only { FROM_UDP_ONLY } else { FROM_OTHERS };
        let (to, hop_limit) = match (self.udp_only, out.destination.is_multicast()) {
            (false, _) => (out.destination, out.ttl),
            (true, true) => (encapsulation::group(out.destination.is_ipv6()), 1),
            // Path and other end-to-end messages are addressed to the session; the router intercepts them.
            (true, false) if out.router_alert => {
                let known = out.next_hop.filter(|hop| hop.is_ipv4() == out.destination.is_ipv4());
                (known.map_or_else(|| self.first_hop(out.destination), Ok)?, out.ttl)
            }
            (true, false) => (out.destination, out.ttl),
        };
        let interface = out.interface.map(|interface| interface.0);
        let to = match to {
            IpAddr::V4(to) => SocketAddr::from((to, port)),
            IpAddr::V6(to) => SocketAddrV6::new(to, port, 0, interface.unwrap_or(0)).into(),
        };
        let socket = self.ports.iter().find(|port| port.is_ipv4 == to.is_ipv4());
        let socket = socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        let target = Target { to, interface, source: None, hop_limit: Some(hop_limit) };
        send_packet(socket.socket.as_fd(), [payload, &[]], &target)
    }

    /// Returns the router towards a destination, or the destination itself if it is on the link.
    fn first_hop(&mut self, destination: IpAddr) -> io::Result<IpAddr> {
        let (family, octets) = match destination {
            IpAddr::V4(a) => (libc::AF_INET as u8, a.octets().to_vec()),
            IpAddr::V6(a) => (libc::AF_INET6 as u8, a.octets().to_vec()),
        };
        let mut header = [0; 12];
        (header[0], header[1]) = (family, octets.len() as u8 * 8);
        let message = Message::new(libc::RTM_GETROUTE, 0).fixed(&header);
        let message = message.attribute(libc::RTA_DST, &octets);
        let answers = self.routes.ask("find a route", message).map_err(io::Error::other)?;
        let mut gateway = None;
        for message in &answers {
            gateway = gateway.or(gateway_of(&message.map_err(io::Error::other)?)?);
        }
        Ok(gateway.unwrap_or(destination))
    }
}

impl Port {
    fn open(is_ipv4: bool, port: u16) -> Result<Port, OpenError> {
        let doing = "open the UDP ports of RSVP";
        let system = |source| OpenError::System { doing, source };
        let domain = if is_ipv4 { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let kind = socket2::Type::DGRAM.nonblocking().cloexec();
        let socket = socket2::Socket::new(domain, kind, None).map_err(system)?;
        let any: IpAddr = match is_ipv4 {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        if !is_ipv4 {
            socket.set_only_v6(true).map_err(system)?;
        }
        socket.bind(&SocketAddr::from((any, port)).into()).map_err(system)?;
        let socket = OwnedFd::from(socket);
        let (level, information, echo) = match is_ipv4 {
            true => (libc::IPPROTO_IP, libc::IP_PKTINFO, libc::IP_MULTICAST_LOOP),
            false => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, libc::IPV6_MULTICAST_LOOP),
        };
        set(&socket, "ask for packet information", level, information, 1)?;
        set(&socket, "disable multicast loops", level, echo, 0)?;
        set_receive_buffer(&socket)?;
        set_send_buffer(&socket)?;
        // A host without privileges cannot use the class; its messages wait with other traffic.
        let class = SIGNALLING_CLASS as i32;
        if let Err(error) =
            set(&socket, "set the traffic class", libc::SOL_SOCKET, libc::SO_PRIORITY, class)
        {
            tracing::debug!(%error, "RSVP inside UDP goes with best effort");
        }
        Ok(Port { socket, is_ipv4, port })
    }
}

/// Returns the gateway in the answer to a route query.
fn gateway_of(message: &crate::netlink::Received<'_>) -> io::Result<Option<IpAddr>> {
    for attribute in message.attributes(12) {
        let attribute = attribute.map_err(io::Error::other)?;
        if attribute.kind == libc::RTA_GATEWAY {
            let malformed =
                |_| io::Error::other(NetlinkError::Malformed { field: "gateway", offset: 0 });
            return match attribute.value.len() {
                4 => <[u8; 4]>::try_from(attribute.value).map(IpAddr::from).map_err(malformed),
                _ => <[u8; 16]>::try_from(attribute.value).map(IpAddr::from).map_err(malformed),
            }
            .map(Some);
        }
    }
    Ok(None)
}
