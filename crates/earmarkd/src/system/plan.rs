//! Plan of traffic control for an interface.

use earmark_core::{InterfaceId, Rate};
use earmark_linux::LinkPlan;
use earmark_node::Border;

use crate::config::{Capacity, InterfaceConfig};

/// Returns the plan for an interface; `None` if its queues must be left alone.
pub(crate) fn plan(
    interface: InterfaceId,
    config: &InterfaceConfig,
    capacity: Capacity,
) -> Option<LinkPlan> {
    Some(LinkPlan {
        queues: config.queues.plan()?,
        overhead: config.overhead,
        pool: config.classes,
        pool_limit: config.classes.max(LinkPlan::new(interface, Rate::ZERO, Rate::ZERO).pool_limit),
        best_effort_queue: config.queue_packets,
        services: config.services.clone(),
        markings: config.border.as_ref().map(Border::markings).unwrap_or_default(),
        ..LinkPlan::new(interface, capacity.bandwidth, capacity.reservable)
    })
}
