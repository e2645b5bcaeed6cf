//! The two capabilities that Earmark needs, and giving up all others.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::signalling_socket::Access;

/// What the daemon keeps: netlink and flow maps, and raw sockets.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

/// Names of the capabilities that this thread lacks of those that it needs to run; empty when it can. Signalling inside
/// UDP only needs no raw sockets, and reservations that are only kept account of need no traffic control.
///
/// Loading the classifier and the interceptor takes CAP_BPF besides, and finding the classifier of an earlier daemon
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

/// Names of the capabilities that this thread lacks of those that [`crate::traffic_control::clear`] needs; empty when it has
/// them.
pub fn missing_to_clear() -> io::Result<Vec<&'static str>> {
    let effective = capabilities(None)?.effective;
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        // To examine classifiers.
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    Ok(needed.into_iter().filter(|(c, _)| !effective.contains(*c)).map(|(_, name)| name).collect())
}

/// Gives up everything but CAP_NET_ADMIN and CAP_NET_RAW, for good: effective, permitted, inheritable, ambient and
/// bounding sets, and no new privileges by execution. For the calling thread; call it before there are others.
pub fn drop_to_network_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let before = capabilities(None)?;
    // The bounding set can only be cut with CAP_SETPCAP. Who starts without it has no more to give up by execution,
    // since nothing is inheritable below.
    if before.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(KEPT).iter() {
            match remove_capability_from_bounding_set(capability) {
                // A capability that this kernel does not know.
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
