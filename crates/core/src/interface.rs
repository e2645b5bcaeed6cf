//! Interfaces of a node, as engines see them.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Rate, Trust};

/// Index of an interface in the kernel (or the simulator), never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterfaceId(pub u32);

/// One interface and the link behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Index.
    pub id: InterfaceId,
    /// Name, `eth0`.
    pub name: String,
    /// Addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// MTU: largest IP packet, octets.
    pub mtu: u32,
    /// Whether packets can leave through it now.
    pub up: bool,
    /// Bandwidth of the link; zero if Earmark does not use it.
    pub bandwidth: Rate,
    /// Reservable part of the bandwidth; zero if nothing may be reserved.
    pub reservable: Rate,
    /// Limit of one reservation on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Rate>,
    /// Octets that the link adds to each IP packet: link-layer headers, tunnels. Reservations take them of the link.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overhead: u16,
    /// Minimum latency of the link, microseconds (RFC 2215 section 3.4).
    pub latency_us: u32,
    /// Trust in what is behind it.
    #[serde(default = "Trust::unlimited")]
    pub trust: Trust,
}

fn is_zero(octets: &u16) -> bool {
    *octets == 0
}

impl Interface {
    /// Returns whether this node runs its protocols on the interface: one without bandwidth is known, but not used.
    #[inline]
    pub fn takes_part(&self) -> bool {
        self.bandwidth > Rate::ZERO
    }

    /// Returns how many new and changed requests a second from one access interface are forwarded through this interface:
    /// half of what fits into the tenth of the bandwidth that signalling gets, so that those of others fit as well.
    pub fn requests_per_second(&self) -> u32 {
        const OCTETS: u64 = 250; // of a usual request with the answer's acknowledgement
        let requests = self.bandwidth.as_bps() / (2 * 10 * 8 * OCTETS);
        u32::try_from(requests).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the address for neighbours of the same family as `like`.
    pub fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|a| a.is_ipv4() == like.is_ipv4())
    }
}

/// All interfaces of a node.
///
/// There are few, so sorted lists serve; each message looks them up several times, so they are kept flat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interfaces {
    by_id: Vec<Interface>,
    /// IPv4 addresses of the node.
    v4: Vec<(u32, InterfaceId)>,
    /// IPv6 addresses of the node.
    v6: Vec<(u128, InterfaceId)>,
}

impl Interfaces {
    /// Adds or replaces an interface.
    pub fn set(&mut self, interface: Interface) {
        self.remove(interface.id);
        for address in &interface.addresses {
            match address {
                IpAddr::V4(address) => self.v4.push((address.to_bits(), interface.id)),
                IpAddr::V6(address) => self.v6.push((address.to_bits(), interface.id)),
            }
        }
        self.v4.sort_unstable();
        self.v6.sort_unstable();
        let place = self.by_id.partition_point(|other| other.id < interface.id);
        self.by_id.insert(place, interface);
    }

    /// Removes an interface.
    pub fn remove(&mut self, id: InterfaceId) -> Option<Interface> {
        self.v4.retain(|&(_, owner)| owner != id);
        self.v6.retain(|&(_, owner)| owner != id);
        let place = self.by_id.iter().position(|interface| interface.id == id)?;
        Some(self.by_id.remove(place))
    }

    /// Returns the interface with this index.
    #[inline]
    pub fn by_id(&self, id: InterfaceId) -> Option<&Interface> {
        let is_it = |interface: &&Interface| interface.id == id;
        // The kernel's numbers usually begin at 1 and have no gaps.
        let guess = self.by_id.get((id.0 as usize).wrapping_sub(1)).filter(is_it);
        guess.or_else(|| {
            let place = self.by_id.partition_point(|other| other.id < id);
            self.by_id.get(place).filter(is_it)
        })
    }

    /// Returns whether this node runs its protocols on the interface with this index.
    #[inline]
    pub fn takes_part(&self, id: InterfaceId) -> bool {
        self.by_id(id).is_some_and(Interface::takes_part)
    }

    /// Returns the interface with this name.
    pub fn by_name(&self, name: &str) -> Option<&Interface> {
        self.iter().find(|i| i.name == name)
    }

    /// Returns the interface that has this address, if it is one of ours.
    #[inline]
    pub fn owner_of(&self, address: IpAddr) -> Option<InterfaceId> {
        match address {
            IpAddr::V4(address) => owner(&self.v4, address.to_bits()),
            IpAddr::V6(address) => owner(&self.v6, address.to_bits()),
        }
    }

    /// Returns whether this address is one of ours.
    #[inline]
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.owner_of(address).is_some()
    }

    /// Returns the number of interfaces.
    #[inline]
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Returns all interfaces, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.by_id.iter()
    }
}

#[inline]
fn owner<A: Copy + Ord>(addresses: &[(A, InterfaceId)], address: A) -> Option<InterfaceId> {
    let place = addresses.partition_point(|&(other, _)| other < address);
    addresses.get(place).filter(|(other, _)| *other == address).map(|&(_, owner)| owner)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn interface(id: u32, name: &str, addresses: &[&str]) -> Interface {
        Interface {
            id: InterfaceId(id),
            name: name.into(),
            addresses: addresses.iter().map(|a| address(a)).collect(),
            mtu: 1_500,
            up: true,
            bandwidth: Rate::from_mbps(10),
            reservable: Rate::from_mbps(5),
            largest: None,
            overhead: 0,
            latency_us: 10,
            trust: Trust::CORE,
        }
    }

    #[test]
    fn interfaces_are_found_by_index_name_and_address() {
        let mut interfaces = Interfaces::default();
        interfaces.set(interface(2, "eth1", &["10.0.1.1", "2001:db8::1"]));
        interfaces.set(interface(1, "eth0", &["10.0.0.1"]));
        assert_eq!(interfaces.owner_of(address("10.0.1.1")), Some(InterfaceId(2)));
        assert_eq!(interfaces.owner_of(address("10.0.1.2")), None);
        assert!(interfaces.is_local(address("2001:db8::1")));
        assert_eq!(interfaces.by_name("eth0").map(|i| i.id), Some(InterfaceId(1)));
        assert_eq!(interfaces.by_id(InterfaceId(3)), None);
        let ids: Vec<u32> = interfaces.iter().map(|i| i.id.0).collect();
        assert_eq!(ids, vec![1, 2], "by index, not by arrival");
        assert_eq!((interfaces.count(), Interfaces::default().count()), (2, 0));
    }

    #[test]
    fn interface_without_bandwidth_takes_no_part() {
        let used = interface(1, "eth0", &["10.0.0.1"]);
        assert!(used.takes_part());
        assert!(!Interface { bandwidth: Rate::ZERO, ..used }.takes_part());
    }

    #[test]
    fn changed_interface_drops_old_addresses() {
        let mut interfaces = Interfaces::default();
        interfaces.set(interface(1, "eth0", &["10.0.0.1"]));
        interfaces.set(interface(1, "eth0", &["10.0.0.2"]));
        assert!(!interfaces.is_local(address("10.0.0.1")));
        assert!(interfaces.is_local(address("10.0.0.2")));
        let removed = interfaces.remove(InterfaceId(1)).expect("it was there");
        assert_eq!(removed.addresses, [address("10.0.0.2")]);
        assert!(!interfaces.is_local(address("10.0.0.2")));
        assert_eq!(interfaces.remove(InterfaceId(1)), None);
    }

    #[test]
    fn address_for_neighbour_is_first_of_its_family() {
        let both = interface(1, "eth0", &["2001:db8::1", "10.0.0.1", "10.0.0.2"]);
        assert_eq!(both.address_like(address("192.0.2.1")), Some(address("10.0.0.1")));
        assert_eq!(both.address_like(address("::1")), Some(address("2001:db8::1")));
        assert_eq!(interface(1, "eth0", &["10.0.0.1"]).address_like(address("::1")), None);
    }
}
