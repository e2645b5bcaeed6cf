//! A static multicast router, for testbeds: the kernel forwards groups as it is told, for as long as this lives.
//!
//! Linux forwards multicast only for a process that has opened its multicast forwarding cache (`MRT_INIT`), numbered the
//! interfaces that take part, and entered who may send what to where. Usually that is a routing daemon that speaks PIM;
//! here it is whoever builds a test network. When the value is dropped, the kernel forgets all of it.
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
/// An interface is named by its index (`VIFF_USE_IFINDEX`).
const BY_INDEX: u8 = 8;
/// Most interfaces of a router (`MAXVIFS`, `MAXMIFS`).
const MOST: usize = 32;

/// One family's multicast forwarding in one namespace.
#[derive(Debug)]
pub struct MulticastRouter {
    socket: OwnedFd,
    is_ipv4: bool,
    /// What the kernel calls them.
    numbers: BTreeMap<InterfaceId, u16>,
}

impl MulticastRouter {
    /// Becomes the multicast router for IPv4 or IPv6 between these interfaces of a namespace.
    ///
    /// # Errors
    /// `AddrInUse` where there is one already; `InvalidInput` for more than 32 interfaces.
    pub fn start(
        namespace: &Namespace,
        is_ipv4: bool,
        interfaces: &[InterfaceId],
    ) -> io::Result<MulticastRouter> {
        if interfaces.len() > MOST {
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

    /// Enters where the packets of a source to a group go, in place of what there was.
    ///
    /// # Errors
    /// `InvalidInput` where an interface takes no part, no incoming one is named, or an address is of the other family.
    pub fn set_route(&self, route: &MulticastRoute) -> io::Result<()> {
        self.set(ADD_ENTRY, &self.entry(route)?)
    }

    /// Takes an entry out.
    ///
    /// # Errors
    /// As of [`MulticastRouter::set_route`]; `NotFound` where there is none.
    pub fn remove_route(&self, route: &MulticastRoute) -> io::Result<()> {
        self.set(REMOVE_ENTRY, &self.entry(route)?)
    }

    fn set(&self, option: i32, structure: &[u8]) -> io::Result<()> {
        set_structure(self.socket.as_fd(), self.level(), option, structure)
    }

    fn level(&self) -> i32 {
        if self.is_ipv4 { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
    }

    /// `struct vifctl` or `struct mif6ctl`: every packet may leave that has hops left.
    fn interface(&self, id: InterfaceId, number: u16) -> Vec<u8> {
        let mut octets = number.to_ne_bytes().to_vec();
        if self.is_ipv4 {
            octets.extend([BY_INDEX, 1]);
            octets.extend([0; 4]); // no limit of rate
            octets.extend(id.0.to_ne_bytes());
            octets.extend([0; 4]); // no tunnel
        } else {
            octets.extend([0, 1]);
            octets.extend((id.0 as u16).to_ne_bytes()); // indexes of a namespace are small
            octets.extend([0; 6]);
        }
        octets
    }

    /// `struct mfcctl` or `struct mf6cctl`.
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
                let mut thresholds = [0_u8; MOST];
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
                octets.resize(92, 0); // of 256 possible interfaces
            }
            _ => return Err(wrong()),
        }
        Ok(octets)
    }
}
