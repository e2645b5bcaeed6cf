//! Sockets bound to the GIST port that discard everything.
//!
//! Messages for this host are intercepted before they reach a port. If the port were free, the kernel would answer
//! everything that is not intercepted - fragments, packets that are no GIST messages, and everything while raw sockets
//! replace BPF, since they only receive copies - with ICMP "port unreachable", and a neighbour could conclude that this
//! node does not run GIST any more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use super::OpenError;
use super::alerted::step;
use crate::sys::socket::attach_filter;

/// UDP port of GIST (RFC 5971 section 9).
pub(super) const PORT: u16 = 270;
/// Socket filter that accepts no packet.
const NOTHING: [libc::sock_filter; 1] = [step(0x06, 0, 0, 0)];

/// One socket for each address family that the kernel supports.
#[derive(Debug)]
pub(super) struct Sink {
    _sockets: Vec<OwnedFd>,
}

impl Sink {
    /// Binds the port, which needs CAP_NET_BIND_SERVICE.
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
