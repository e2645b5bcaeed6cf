//! A static multicast router, for testbeds: the kernel forwards groups by the given routes while the value exists.
//!
//! Linux forwards multicast only for a process that has opened its multicast forwarding cache (`MRT_INIT`), numbered
//! the interfaces that take part, and entered the routes of sources and groups. Usually that is a routing daemon that
//! speaks PIM; here it is the builder of a test network. When the value is dropped, the kernel removes all of it.
//! (Linux: `mroute.h`, `mroute6.h`.)

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use earmark_core::{InterfaceId, MulticastRoute};

use crate::netns::Namespace;
use crate::sys::socket::{set_option, set_structure};

// The options have the same numbers in both families.
const INIT: i32 = 200;
const ADD_INTERFACE: i32 = 202;
const ADD_ENTRY: i32 = 204;
const REMOVE_ENTRY: i32 = 205;
/// Flag: an interface is given by its index (`VIFF_USE_IFINDEX`).
const BY_INDEX: u8 = 8;
/// Maximum number of interfaces of a router (`MAXVIFS`, `MAXMIFS`).
const MAX_INTERFACES: usize = 32;

/// One family's multicast forwarding in one namespace.
#[derive(Debug)]
pub struct MulticastRouter {
    socket: OwnedFd,
    is_ipv4: bool,
    /// The kernel's numbers of the interfaces.
    numbers: BTreeMap<InterfaceId, u16>,
}

impl MulticastRouter {
    /// Becomes the multicast router for IPv4 or IPv6 between these interfaces of a namespace.
    ///
    /// # Errors
    /// `AddrInUse` if there is one already; `InvalidInput` for more than 32 interfaces.
    pub fn start(
        namespace: &Namespace,
        is_ipv4: bool,
        interfaces: &[InterfaceId],
    ) -> io::Result<MulticastRouter> {
        if interfaces.len() > MAX_INTERFACES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (domain, protocol) = match is_ipv4 {
            true => (socket2::Domain::IPV4, libc::IPPROTO_IGMP),
            false => (socket2::Domain::IPV6, libc::IPPROTO_ICMPV6),
        };
        let open = || {
            let kind = socket2::Type::RAW.cloexec();
            socket2::Socket::new(domain, kind, Some(protocol.into())).map(OwnedFd::from)
        };
        let socket = namespace.run_in(open)??;
        let mut router = MulticastRouter { socket, is_ipv4, numbers: BTreeMap::new() };
        set_option(router.socket.as_fd(), router.level(), INIT, 1)?;
        for (&id, number) in interfaces.iter().zip(0..) {
            router.set(ADD_INTERFACE, &router.interface(id, number))?;
            router.numbers.insert(id, number);
        }
        Ok(router)
    }

    /// Sets the outgoing interfaces for the packets of a source to a group; replaces an existing entry.
    ///
    /// # Errors
    /// `InvalidInput` if an interface takes no part, the incoming one is missing, or an address is of the other family.
    pub fn set_route(&self, route: &MulticastRoute) -> io::Result<()> {
        self.set(ADD_ENTRY, &self.entry(route)?)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// As for [`MulticastRouter::set_route`]; `NotFound` if there is none.
    pub fn remove_route(&self, route: &MulticastRoute) -> io::Result<()> {
        self.set(REMOVE_ENTRY, &self.entry(route)?)
    }

    fn set(&self, option: i32, structure: &[u8]) -> io::Result<()> {
        set_structure(self.socket.as_fd(), self.level(), option, structure)
    }

    fn level(&self) -> i32 {
        if self.is_ipv4 { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
    }

    /// Returns `struct vifctl` or `struct mif6ctl`: the TTL threshold lets every packet with hops left pass.
    fn interface(&self, id: InterfaceId, number: u16) -> Vec<u8> {
        let mut octets = number.to_ne_bytes().to_vec();
        if self.is_ipv4 {
            octets.extend([BY_INDEX, 1]);
            octets.extend([0; 4]); // no rate limit
            octets.extend(id.0.to_ne_bytes());
            octets.extend([0; 4]); // no tunnel
        } else {
            octets.extend([0, 1]);
            octets.extend((id.0 as u16).to_ne_bytes()); // indexes of a namespace are small
            octets.extend([0; 6]);
        }
        octets
    }

    /// Returns `struct mfcctl` or `struct mf6cctl`.
    fn entry(&self, route: &MulticastRoute) -> io::Result<Vec<u8>> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let number = |id: &InterfaceId| self.numbers.get(id).copied().ok_or_else(wrong);
        let incoming = number(route.incoming.as_ref().ok_or_else(wrong)?)?;
        let outgoing: Vec<u16> = route.outgoing.iter().map(number).collect::<Result<_, _>>()?;
        let mut octets = Vec::new();
        match (route.source, route.group, self.is_ipv4) {
            (Some(IpAddr::V4(source)), IpAddr::V4(group), true) => {
                octets.extend(source.octets());
                octets.extend(group.octets());
                octets.extend(incoming.to_ne_bytes());
                let mut thresholds = [0_u8; MAX_INTERFACES];
                outgoing.iter().for_each(|&number| thresholds[usize::from(number)] = 1);
                octets.extend(thresholds);
                octets.resize(60, 0); // counters
            }
            (Some(IpAddr::V6(source)), IpAddr::V6(group), false) => {
                for address in [source, group] {
                    octets.extend((libc::AF_INET6 as u16).to_ne_bytes());
                    octets.extend([0; 6]); // port and flow
                    octets.extend(address.octets());
                    octets.extend([0; 4]); // scope
                }
                octets.extend(incoming.to_ne_bytes());
                octets.extend([0; 2]);
                let set = outgoing.iter().fold(0_u32, |set, number| set | 1 << number);
                octets.extend(set.to_ne_bytes());
                octets.resize(92, 0); // bit set of 256 interfaces
            }
            _ => return Err(wrong()),
        }
        Ok(octets)
    }
}
