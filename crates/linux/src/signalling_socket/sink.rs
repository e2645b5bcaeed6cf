//! Sockets bound to a UDP port that discard everything.
//!
//! Messages for this host are intercepted before they reach a port. If the port of their protocol were free, the kernel
//! would answer everything that is not intercepted - fragments, packets that are no messages, and everything while raw
//! sockets replace BPF, since they only receive copies - with ICMP "port unreachable", and a neighbour could conclude
//! that this node does not run the protocol any more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use super::OpenError;
use super::packet_filter::instruction;
use crate::sys::socket::attach_filter;

/// Socket filter that accepts no packet.
const DROP_ALL: [libc::sock_filter; 1] = [instruction(0x06, 0, 0, 0)];

/// One socket for each address family that the kernel supports.
#[derive(Debug)]
pub(super) struct Sink {
    _sockets: Vec<OwnedFd>,
}

impl Sink {
    /// Binds a port; one below 1 024 needs CAP_NET_BIND_SERVICE.
    pub(super) fn open(port: u16) -> Result<Sink, OpenError> {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let mut sockets = Vec::new();
        for address in any {
            match open(SocketAddr::new(address, port)) {
                Err(error) if error.is_missing_family() => {}
                opened => sockets.push(opened?),
            }
        }
        Ok(Sink { _sockets: sockets })
    }
}

fn open(address: SocketAddr) -> Result<OwnedFd, OpenError> {
    let system =
        |source| OpenError::System { doing: "bind the UDP port of a signalling protocol", source };
    let kind = socket2::Type::DGRAM.nonblocking().cloexec();
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, kind, None).map_err(system)?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(system)?;
    }
    attach_filter(socket.as_fd(), &DROP_ALL).map_err(system)?;
    socket.bind(&address.into()).map_err(system)?;
    Ok(socket.into())
}
