//! Arrival interfaces that are none of the host's.

use earmark_core::InterfaceId;

/// Arrival interface of this host's own messages.
pub(crate) const OWN: InterfaceId = InterfaceId(u32::MAX);
/// Arrival interface of a pass that has not come by here.
pub(crate) const NONE: InterfaceId = InterfaceId(0);
