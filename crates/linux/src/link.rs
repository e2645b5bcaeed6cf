//! Interfaces, addresses and routes of a namespace, for testbeds.
//!
//! The equivalent of `ip link`, `ip address`, `ip route` and `sysctl`, through this crate's netlink and without a
//! process each. Every function enters the namespace on a thread of its own for the duration of the call.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::{fs, io};

use earmark_core::{InterfaceId, Prefix};

use crate::netlink::{Connection, Message, NetlinkError};
use crate::netns::Namespace;
use crate::sys::ethtool::{self, Switch};
use crate::sys::namespace::mount_own_sysfs;

/// Attribute type of the other end in the link data of a veth pair (`include/uapi/linux/veth.h`).
const VETH_INFO_PEER: u16 = 1;

/// Returns the fixed part of messages about interfaces (`struct ifinfomsg`): any family, an index, flags, and the flags
/// to change.
pub(crate) fn interface_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// Connects two namespaces by a veth pair; both ends are down.
pub fn create_veth(
    a: &Namespace,
    a_name: &str,
    b: &Namespace,
    b_name: &str,
) -> Result<(InterfaceId, InterfaceId), NetlinkError> {
    use std::os::fd::{AsFd, AsRawFd};
    let other = b.as_fd().as_raw_fd() as u32;
    let message = Message::new(libc::RTM_NEWLINK, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16)
        .fixed(&interface_header(0, 0, 0))
        .text(libc::IFLA_IFNAME, a_name)
        .nested(libc::IFLA_LINKINFO, |m| {
            m.text(libc::IFLA_INFO_KIND, "veth").nested(libc::IFLA_INFO_DATA, |m| {
                m.nested(VETH_INFO_PEER, |m| {
                    m.fixed(&interface_header(0, 0, 0))
                        .text(libc::IFLA_IFNAME, b_name)
                        .u32(libc::IFLA_NET_NS_FD, other)
                })
            })
        });
    inside(a, |netlink| netlink.request("create a veth pair", message))?;
    Ok((existing(a, a_name)?, existing(b, b_name)?))
}

/// Adds an address, with the prefix length of its subnet, to an interface.
pub fn add_address(
    namespace: &Namespace,
    name: &str,
    address: IpAddr,
    prefix_length: u8,
) -> Result<(), NetlinkError> {
    let interface = existing(namespace, name)?;
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    // IPv6: usable at once, since a testbed has no duplicate addresses.
    let no_detection = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
    let [a, b, c, d] = interface.0.to_ne_bytes();
    let octets = octets_of(address);
    let message = Message::new(libc::RTM_NEWADDR, flags as u16)
        .fixed(&[family_of(address), prefix_length, no_detection, 0, a, b, c, d])
        .attribute(libc::IFA_LOCAL, &octets)
        .attribute(libc::IFA_ADDRESS, &octets);
    inside(namespace, |netlink| netlink.request("add an address", message))
}

/// Sets an interface up or down.
pub fn set_up(namespace: &Namespace, name: &str, up: bool) -> Result<(), NetlinkError> {
    let index = existing(namespace, name)?.0;
    let flag = libc::IFF_UP as u32;
    let header = interface_header(index, if up { flag } else { 0 }, flag);
    let message = Message::new(libc::RTM_NEWLINK, 0).fixed(&header);
    inside(namespace, |netlink| netlink.request("set an interface up or down", message))
}

/// Sets the MTU, octets of the largest IP packet.
pub fn set_mtu(namespace: &Namespace, name: &str, mtu: u32) -> Result<(), NetlinkError> {
    let index = existing(namespace, name)?.0;
    let message = Message::new(libc::RTM_NEWLINK, 0)
        .fixed(&interface_header(index, 0, 0))
        .u32(libc::IFLA_MTU, mtu);
    inside(namespace, |netlink| netlink.request("set an MTU", message))
}

/// A feature of a driver, as ethtool(8) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Generic receive offload (`gro`): incoming packets are joined. An end of a veth pair receives by NAPI, as a
    /// network card does, only with it or with an XDP program.
    ReceiveJoining,
    /// TCP segmentation offload (`tso`): the driver cuts TCP into packets.
    Segmentation,
}

/// Switches a feature of an interface on or off.
pub fn set_feature(
    namespace: &Namespace,
    name: &str,
    feature: Feature,
    on: bool,
) -> Result<(), NetlinkError> {
    let feature = match feature {
        Feature::ReceiveJoining => Switch::ReceiveJoining,
        Feature::Segmentation => Switch::Segmentation,
    };
    let set =
        || ethtool::set(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.as_fd(), name, feature, on);
    let failed = |source| NetlinkError::Socket { doing: "set a feature of an interface", source };
    namespace.run_in(set).map_err(failed)?.map_err(failed)
}

/// Makes the kernel receive from an interface on a separate kernel thread (`threaded` in its sysfs directory). Returns
/// the thread's ID, so that it can be moved to another processor than the sender's.
///
/// # Errors
/// The interface receives without NAPI, or its threads are ambiguous: another namespace has an interface of that name.
pub fn receive_by_thread(namespace: &Namespace, name: &str) -> io::Result<u32> {
    let path = format!("/sys/class/net/{name}/threaded");
    namespace.run_in(|| {
        // `/sys` shows the namespace that it was mounted in.
        mount_own_sysfs()?;
        fs::write(path, "1")
    })??;
    let prefix = format!("napi/{name}-");
    let mut found = Vec::new();
    for process in fs::read_dir("/proc")? {
        let process = process?;
        // A process that has ended meanwhile has no name.
        let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        if command.starts_with(&prefix) {
            found
                .extend(process.file_name().to_str().and_then(|number| number.parse::<u32>().ok()));
        }
    }
    match found[..] {
        [thread] => Ok(thread),
        _ => Err(io::Error::other(format!("{} threads receive for {name}", found.len()))),
    }
}

/// Returns the Ethernet address of an interface.
pub fn hardware_address(namespace: &Namespace, name: &str) -> Result<[u8; 6], NetlinkError> {
    let message = Message::new(libc::RTM_GETLINK, 0)
        .fixed(&interface_header(0, 0, 0))
        .text(libc::IFLA_IFNAME, name);
    inside(namespace, |netlink| {
        let answers = netlink.ask("read an interface's address", message)?;
        for answer in &answers {
            for attribute in answer?.attributes(interface_header(0, 0, 0).len()) {
                let attribute = attribute?;
                if attribute.kind == libc::IFLA_ADDRESS {
                    return attribute.array("Ethernet address");
                }
            }
        }
        Err(NetlinkError::Malformed { field: "Ethernet address", offset: crate::netlink::HEADER })
    })
}

/// Adds a route through a gateway.
pub fn add_route(
    namespace: &Namespace,
    destination: Prefix,
    gateway: IpAddr,
) -> Result<(), NetlinkError> {
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let message = route_message(libc::RTM_NEWROUTE, flags, destination)
        .attribute(libc::RTA_GATEWAY, &octets_of(gateway));
    inside(namespace, |netlink| netlink.request("add a route", message))
}

/// Removes a route.
pub fn remove_route(namespace: &Namespace, destination: Prefix) -> Result<(), NetlinkError> {
    let message = route_message(libc::RTM_DELROUTE, 0, destination);
    inside(namespace, |netlink| netlink.request("remove a route", message))
}

/// Deletes an interface, and with it the other end of a veth pair.
pub fn delete(namespace: &Namespace, name: &str) -> Result<(), NetlinkError> {
    let index = existing(namespace, name)?.0;
    let message = Message::new(libc::RTM_DELLINK, 0).fixed(&interface_header(index, 0, 0));
    inside(namespace, |netlink| netlink.request("delete an interface", message))
}

/// Returns the index of an interface; `None` if there is none of that name.
pub fn index(namespace: &Namespace, name: &str) -> Result<Option<InterfaceId>, NetlinkError> {
    match existing(namespace, name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a setting such as `net.ipv4.ip_forward`. If a component has a dot of its own (an interface `eth0.5`), slashes
/// separate the components instead: `net/ipv4/conf/eth0.5/rp_filter`.
pub fn sysctl(namespace: &Namespace, key: &str, value: &str) -> io::Result<()> {
    let path = if key.contains('/') { key.to_owned() } else { key.replace('.', "/") };
    if path.split('/').any(|component| component.is_empty() || component == "..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of a setting"));
    }
    namespace.run_in(|| std::fs::write(format!("/proc/sys/{path}"), value))?
}

/// Returns the index of an interface that must exist.
fn existing(namespace: &Namespace, name: &str) -> Result<InterfaceId, NetlinkError> {
    let message = Message::new(libc::RTM_GETLINK, 0)
        .fixed(&interface_header(0, 0, 0))
        .text(libc::IFLA_IFNAME, name);
    inside(namespace, |netlink| {
        let answers = netlink.ask("find an interface", message)?;
        let answer = answers.iter().next().transpose()?;
        let index = answer.map(|a| a.fixed(8, "interface index")).transpose()?;
        let index = index.unwrap_or_default().get(4..8).unwrap_or_default();
        let index = index.try_into().map(u32::from_ne_bytes).map_err(|_| {
            NetlinkError::Malformed { field: "interface index", offset: crate::netlink::HEADER }
        })?;
        Ok(InterfaceId(index))
    })
}

/// Returns a message about a route of the main table: its fixed part (`struct rtmsg`) and its destination.
fn route_message(kind: u16, flags: u16, destination: Prefix) -> Message {
    // A deletion matches any protocol, scope and type; an addition has the values of the command line.
    let (protocol, scope, route_type) = match kind {
        libc::RTM_DELROUTE => (libc::RTPROT_UNSPEC, libc::RT_SCOPE_NOWHERE, libc::RTN_UNSPEC),
        _ => (libc::RTPROT_BOOT, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST),
    };
    let (family, length) = (family_of(destination.address()), destination.length());
    let table = libc::RT_TABLE_MAIN;
    let header = [family, length, 0, 0, table, protocol, scope, route_type, 0, 0, 0, 0];
    let message = Message::new(kind, flags).fixed(&header);
    match length {
        0 => message, // the default route has no destination attribute
        _ => message.attribute(libc::RTA_DST, &octets_of(destination.address())),
    }
}

fn inside<T: Send>(
    namespace: &Namespace,
    f: impl FnOnce(&mut Connection) -> Result<T, NetlinkError> + Send,
) -> Result<T, NetlinkError> {
    let outcome = namespace.run_in(|| f(&mut Connection::open()?));
    outcome.map_err(|source| NetlinkError::Socket { doing: "enter the namespace", source })?
}

fn family_of(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn octets_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
