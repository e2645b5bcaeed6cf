//! Removing everything that a daemon has left in the kernel, on every interface of the namespace.

use std::collections::BTreeSet;

use earmark_core::InterfaceId;

use super::{TcError, bpf_table, kernel};
use crate::link::interface_header;
use crate::netlink::{Connection, Message};

/// Removes our queues and classifiers from every interface of the network namespace of the calling thread; returns the
/// interfaces that had some. The kernel deletes flow maps and buckets with the classifiers that use them.
///
/// Needs CAP_NET_ADMIN, and CAP_SYS_ADMIN to find classifiers. No daemon may run in the namespace, which
/// [`crate::NamespaceClaim`] ensures.
///
/// # Errors
/// The first refusal of the kernel; everything else is removed nevertheless.
pub fn clear() -> Result<Vec<InterfaceId>, TcError> {
    let mut netlink = Connection::open()?;
    let qdiscs = kernel::qdiscs(&mut netlink)?;
    let ours: BTreeSet<InterfaceId> =
        qdiscs.iter().filter(|qdisc| qdisc.is_ours()).map(|qdisc| qdisc.interface).collect();
    let (mut cleared, mut outcome) = (Vec::new(), Ok(()));
    for interface in interfaces(&mut netlink)? {
        let detached = match bpf_table::detach_previous(interface) {
            // A kernel before 6.6 supports no classifier. Or the interface was deleted after it was listed.
            Err(TcError::Bpf { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)) =>
            {
                Ok(0)
            }
            outcome => outcome,
        };
        let deleted = match ours.contains(&interface) {
            true => delete_root(&mut netlink, interface),
            false => Ok(false),
        };
        if matches!(detached, Ok(1..)) || matches!(deleted, Ok(true)) {
            cleared.push(interface);
        }
        outcome = outcome.and(detached.map(drop)).and(deleted.map(drop));
    }
    outcome.map(|()| cleared)
}

/// Deletes the root qdisc; returns whether it was present.
fn delete_root(netlink: &mut Connection, interface: InterfaceId) -> Result<bool, TcError> {
    match netlink.request("delete the root qdisc", kernel::delete_root(interface)) {
        Ok(()) => Ok(true),
        Err(error) if error.is(libc::ENOENT) || error.is(libc::ENODEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn interfaces(netlink: &mut Connection) -> Result<Vec<InterfaceId>, TcError> {
    let links = Message::new(libc::RTM_GETLINK, 0).fixed(&interface_header(0, 0, 0));
    let mut interfaces = Vec::new();
    for message in &netlink.dump("list the interfaces", links)? {
        let message = message?;
        interfaces.push(InterfaceId(kernel::u32_at(message.fixed(16, "link")?, 4)));
    }
    Ok(interfaces)
}
