//! Interfaces, addresses and routes of a namespace, for testbeds.
//!
//! What `ip link`, `ip address`, `ip route` and `sysctl` would do, through our own netlink and without a process each.
//! Every function enters the namespace on a thread of its own for as long as it takes.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::{fs, io};

use earmark_core::{InterfaceId, Prefix};

use crate::netlink::{Connection, Message, NetlinkError};
use crate::netns::Namespace;
use crate::sys::ethtool::{self, Switch};
use crate::sys::namespace::mount_own_sysfs;

/// Type of a veth pair's other end in its link data (`include/uapi/linux/veth.h`).
const VETH_INFO_PEER: u16 = 1;

/// The fixed part of messages about interfaces (`struct ifinfomsg`): any family, an index, flags and which to change.
pub(crate) fn interface_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// Joins two namespaces by a pair of virtual Ethernet interfaces; both ends are down.
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

/// Gives an interface an address with the prefix length of its subnet.
pub fn add_address(
    namespace: &Namespace,
    name: &str,
    address: IpAddr,
    prefix_length: u8,
) -> Result<(), NetlinkError> {
    let interface = existing(namespace, name)?;
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    // IPv6: usable at once, since a testbed has no duplicates to detect.
    let no_detection = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
    let [a, b, c, d] = interface.0.to_ne_bytes();
    let octets = octets_of(address);
    let message = Message::new(libc::RTM_NEWADDR, flags as u16)
        .fixed(&[family_of(address), prefix_length, no_detection, 0, a, b, c, d])
        .attribute(libc::IFA_LOCAL, &octets)
        .attribute(libc::IFA_ADDRESS, &octets);
    inside(namespace, |netlink| netlink.request("add an address", message))
}

/// Sets an interface up, or down.
pub fn set_up(namespace: &Namespace, name: &str, up: bool) -> Result<(), NetlinkError> {
    let index = existing(namespace, name)?.0;
    let flag = libc::IFF_UP as u32;
    let header = interface_header(index, if up { flag } else { 0 }, flag);
    let message = Message::new(libc::RTM_NEWLINK, 0).fixed(&header);
    inside(namespace, |netlink| netlink.request("set an interface up or down", message))
}

/// Sets the largest IP packet, octets.
pub fn set_mtu(namespace: &Namespace, name: &str, mtu: u32) -> Result<(), NetlinkError> {
    let index = existing(namespace, name)?.0;
    let message = Message::new(libc::RTM_NEWLINK, 0)
        .fixed(&interface_header(index, 0, 0))
        .u32(libc::IFLA_MTU, mtu);
    inside(namespace, |netlink| netlink.request("set an MTU", message))
}

/// Something that a driver does by itself, as ethtool(8) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Packets that come in are joined (`gro`). An end of a veth pair receives by NAPI, as a network card does, only with it or
    /// with an XDP program.
    ReceiveJoining,
    /// TCP is cut into packets by the driver (`tso`).
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

/// Has a thread of the kernel's own receive what comes in by an interface (`threaded` in its directory of sysfs); gives the
/// thread's number, so that it can be put on another processor than the sender's.
///
/// # Errors
/// The interface receives without NAPI, or its threads cannot be told apart: another namespace has one of that name.
pub fn receive_by_thread(namespace: &Namespace, name: &str) -> io::Result<u32> {
    let path = format!("/sys/class/net/{name}/threaded");
    namespace.run_in(|| {
        // What /sys shows belongs to the namespace that it was mounted in.
        mount_own_sysfs()?;
        fs::write(path, "1")
    })??;
    let prefix = format!("napi/{name}-");
    let mut found = Vec::new();
    for process in fs::read_dir("/proc")? {
        let process = process?;
        // One that has ended meanwhile has no name.
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

/// The Ethernet address of an interface.
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

/// Deletes an interface; the other end of a veth pair goes with it.
pub fn delete(namespace: &Namespace, name: &str) -> Result<(), NetlinkError> {
    let index = existing(namespace, name)?.0;
    let message = Message::new(libc::RTM_DELLINK, 0).fixed(&interface_header(index, 0, 0));
    inside(namespace, |netlink| netlink.request("delete an interface", message))
}

/// The index of an interface; `None` where there is none of that name.
pub fn index(namespace: &Namespace, name: &str) -> Result<Option<InterfaceId>, NetlinkError> {
    match existing(namespace, name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a setting such as `net.ipv4.ip_forward`. Where a component has a dot of its own (an interface `eth0.5`), the
/// components are separated by slashes instead: `net/ipv4/conf/eth0.5/rp_filter`.
pub fn sysctl(namespace: &Namespace, key: &str, value: &str) -> io::Result<()> {
    let path = if key.contains('/') { key.to_owned() } else { key.replace('.', "/") };
    if path.split('/').any(|component| component.is_empty() || component == "..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of a setting"));
    }
    namespace.run_in(|| std::fs::write(format!("/proc/sys/{path}"), value))?
}

/// The index of an interface that has to be there.
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

/// A message about a route of the main table: its fixed part (`struct rtmsg`) and its destination.
fn route_message(kind: u16, flags: u16, destination: Prefix) -> Message {
    // A deletion matches any protocol, scope and type; an addition is made as from the command line.
    let (protocol, scope, route_type) = match kind {
        libc::RTM_DELROUTE => (libc::RTPROT_UNSPEC, libc::RT_SCOPE_NOWHERE, libc::RTN_UNSPEC),
        _ => (libc::RTPROT_BOOT, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST),
    };
    let (family, length) = (family_of(destination.address()), destination.length());
    let table = libc::RT_TABLE_MAIN;
    let header = [family, length, 0, 0, table, protocol, scope, route_type, 0, 0, 0, 0];
    let message = Message::new(kind, flags).fixed(&header);
    match length {
        0 => message, // the default route names no destination
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
