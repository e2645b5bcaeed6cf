//! The two capabilities that Earmark needs, and dropping all others.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::signalling_socket::Access;

/// Capabilities that the daemon keeps: CAP_NET_ADMIN for netlink and flow maps, CAP_NET_RAW for raw sockets.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

/// Returns the names of the required capabilities that this thread lacks; empty if it has all. Signalling inside UDP
/// alone needs no raw sockets, and reservations without enforcement need no traffic control.
///
/// Loading the classifier and the interceptor takes CAP_BPF as well, and finding the classifier of an earlier daemon
/// CAP_SYS_ADMIN, so [`crate::TrafficControl::open`] and [`crate::SignallingSocket::open`] come before
/// [`drop_to_network_capabilities`].
pub fn missing(access: Access, traffic_control: bool) -> io::Result<Vec<&'static str>> {
    let effective = capabilities(None)?.effective;
    let raw = access == Access::Raw;
    let needed = [
        (traffic_control || raw, CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (raw, CapabilitySet::NET_RAW, "CAP_NET_RAW"),
    ];
    let lacking = needed.into_iter().filter(|(is_so, c, _)| *is_so && !effective.contains(*c));
    Ok(lacking.map(|(_, _, name)| name).collect())
}

/// Returns the names of the capabilities for [`crate::traffic_control::clear`] that this thread lacks; empty if it has
/// all.
pub fn missing_to_clear() -> io::Result<Vec<&'static str>> {
    let effective = capabilities(None)?.effective;
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        // To examine classifiers.
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    Ok(needed.into_iter().filter(|(c, _)| !effective.contains(*c)).map(|(_, name)| name).collect())
}

/// Drops every capability of the calling thread permanently, and sets "no new privileges".
pub fn drop_all() -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Drops every capability except CAP_NET_ADMIN and CAP_NET_RAW permanently: from the effective, permitted, inheritable,
/// ambient and bounding sets, and sets "no new privileges". Applies to the calling thread: call it before others start.
pub fn drop_to_network_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let before = capabilities(None)?;
    // Only CAP_SETPCAP allows a smaller bounding set. A thread without it can gain nothing by execution, since nothing
    // is inheritable below.
    if before.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(KEPT).iter() {
            match remove_capability_from_bounding_set(capability) {
                // This kernel does not know the capability.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: before.effective & KEPT,
            permitted: before.permitted & KEPT,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}
