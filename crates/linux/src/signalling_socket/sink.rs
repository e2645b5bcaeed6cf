//! The port of GIST, held and not read.
//!
//! What comes for this host is taken before it gets to a port. Were the port free, what is not taken - fragments, packets
//! that are no messages of GIST, and everything while raw sockets stand in for BPF, which only get copies - would be answered by
//! the kernel with ICMP's "port unreachable", and a neighbour could take that for the end of GIST here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use super::OpenError;
use super::alerted::step;
use crate::sys::socket::attach_filter;

/// UDP port of GIST (RFC 5971 section 9).
pub(super) const PORT: u16 = 270;
/// Lets nothing through.
const NOTHING: [libc::sock_filter; 1] = [step(0x06, 0, 0, 0)];

/// One socket for each family that the kernel has.
#[derive(Debug)]
pub(super) struct Sink {
    _sockets: Vec<OwnedFd>,
}

impl Sink {
    /// Takes the port, which needs CAP_NET_BIND_SERVICE.
    pub(super) fn open() -> Result<Sink, OpenError> {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let mut sockets = Vec::new();
        for address in any {
            match open(SocketAddr::new(address, PORT)) {
                Err(error) if error.is_missing_family() => {}
                opened => sockets.push(opened?),
            }
        }
        Ok(Sink { _sockets: sockets })
    }
}

fn open(address: SocketAddr) -> Result<OwnedFd, OpenError> {
    let system = |source| OpenError::System { doing: "take the UDP port of GIST", source };
    let kind = socket2::Type::DGRAM.nonblocking().cloexec();
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, kind, None).map_err(system)?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(system)?;
    }
    attach_filter(socket.as_fd(), &NOTHING).map_err(system)?;
    socket.bind(&address.into()).map_err(system)?;
    Ok(socket.into())
}
