//! DCLASS: code points for a sender's packets, so that a differentiated-services network on the path treats them as
//! reserved (RFC 2996).
//!
//! A router at the edge of such a network adds DCLASS to the Resv messages that it sends upstream, replacing that of
//! downstream nodes, because it is the first to receive the packets. Other routers forward DCLASS unchanged. The
//! sender's host reports the code points to its application.

use alloc::vec::Vec;

use earmark_core::{Context, InterfaceId};
use earmark_wire::rsvp::iana::ObjectClass;
use earmark_wire::rsvp::{Carried, Dscp, List, Object};

use crate::config::Config;

/// Replaces DCLASS in the objects of a Resv, if code points are configured for the interface that it leaves through:
/// [`Config::dclass`].
#[inline]
pub(crate) fn mark_upstream(
    carried: &mut Vec<u8>,
    config: &Config,
    context: &Context<'_>,
    incoming: InterfaceId,
) {
    if config.dclass.is_empty() {
        return;
    }
    let interface = context.interfaces.by_id(incoming);
    if let Some(code_points) = interface.and_then(|found| config.dclass.get(&found.name)) {
        replace_dclass(carried, code_points);
    }
}

#[cold]
fn replace_dclass(carried: &mut Vec<u8>, code_points: &[Dscp]) {
    let mut objects = Vec::with_capacity(carried.len());
    for object in Carried::Objects(carried).iter() {
        if object.class_num() != ObjectClass::DClass.code() {
            objects.extend_from_slice(object.bytes);
        }
    }
    let start = objects.len();
    objects.resize(start + OBJECT_HEADER + 4 * code_points.len(), 0);
    let written = Object::DClass(List::Items(code_points)).emit(&mut objects[start..]);
    // An object without code points would be empty.
    objects.truncate(start + written.ok().filter(|_| !code_points.is_empty()).unwrap_or(0));
    *carried = objects;
}

/// Octets of an object header.
const OBJECT_HEADER: usize = 4;

/// Returns the code points of the first request that has any.
pub(crate) fn code_points<'k>(mut requests: impl Iterator<Item = &'k [u8]>) -> Vec<Dscp> {
    let found = requests.find_map(|carried| Carried::Objects(carried).dclass());
    found.map_or_else(Vec::new, |code_points| code_points.iter().collect())
}
