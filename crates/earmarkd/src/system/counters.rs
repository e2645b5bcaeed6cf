//! Counters of the kernel's side, for listings.

use std::sync::atomic::{AtomicU64, Ordering};

use earmark_history::Counts;
use earmark_linux::{FlowRouteCounters, SocketCounters, Statistics};

use crate::streams::StreamCounters;

/// Counters of traffic control, except for operations requested by the node, which the driver counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrafficControlCounters {
    /// Flows with reservations adopted from an earlier daemon.
    pub(super) adopted: u64,
    /// Adopted flows that were removed because nobody claimed them in time.
    pub(super) reaped: u64,
    /// Comparisons of the kernel with the plan.
    pub(super) reconciliations: u64,
    /// Objects without an owner that were removed.
    pub(super) removed: u64,
    /// Missing or altered objects that were restored.
    pub(super) restored: u64,
    /// Reservations, or whole links, that were found not to be enforced.
    pub(super) unenforced: u64,
    /// Reservations and links among these that are enforced again.
    pub(super) enforced_again: u64,
}

impl TrafficControlCounters {
    /// Lists part, name and count of each counter, with those of other parts.
    pub(super) fn list(
        self,
        socket: &SocketCounters,
        streams: &StreamCounters,
        flow_routes: &FlowRouteCounters,
    ) -> Vec<(&'static str, &'static str, u64)> {
        let routes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("streams", "connected", streams.connected),
            ("streams", "accepted", streams.accepted),
            ("streams", "refused", streams.refused),
            ("streams", "not_authenticated", streams.not_authenticated),
            ("streams", "half_open", streams.half_open),
            ("streams", "backlog", streams.backlog),
            ("socket", "received", socket.received),
            ("socket", "malformed", socket.malformed),
            ("socket", "overflowed", socket.overflowed),
            ("socket", "sent", socket.sent),
            ("socket", "no_room", socket.queue_full),
            ("socket", "passed_on", socket.forwarded),
            ("flow_routes", "asked", routes(&flow_routes.asked)),
            ("flow_routes", "no_route", routes(&flow_routes.no_route)),
            ("flow_routes", "other_protocol", routes(&flow_routes.other_protocol)),
            ("flow_routes", "malformed", routes(&flow_routes.malformed)),
            ("flow_routes", "refused", routes(&flow_routes.refused)),
            ("traffic_control", "adopted", self.adopted),
            ("traffic_control", "reaped", self.reaped),
            ("traffic_control", "reconciliations", self.reconciliations),
            ("traffic_control", "removed", self.removed),
            ("traffic_control", "restored", self.restored),
            ("traffic_control", "unenforced", self.unenforced),
            ("traffic_control", "enforced_again", self.enforced_again),
        ]
    }
}

/// Converts the counters of a queue for accounting records.
pub(super) fn counts(counted: Statistics) -> Counts {
    Counts { octets: counted.octets, packets: counted.packets, drops: counted.drops }
}
