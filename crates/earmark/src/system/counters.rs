//! What the kernel's side counts, for listings.

use std::sync::atomic::{AtomicU64, Ordering};

use super::System;

/// What happened to traffic control, beside what the node asked for: that the driver counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrafficControlCounters {
    /// Flows found reserved by an earlier daemon.
    pub(super) adopted: u64,
    /// Adopted flows that nobody claimed in time, and that were taken back.
    pub(super) reaped: u64,
    /// Times that the kernel was compared with the plan.
    pub(super) reconciliations: u64,
    /// Things without an owner that such a comparison removed.
    pub(super) removed: u64,
    /// Things that it found missing or altered and put right.
    pub(super) restored: u64,
    /// Reservations, or whole links, that were found not to be enforced.
    pub(super) unenforced: u64,
    /// Reservations and links of these that were put right.
    pub(super) enforced_again: u64,
}

impl System {
    /// Part, name and count of each.
    pub(super) fn list_counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let socket = self.socket.counters();
        let traffic_control = self.counters;
        let streams = self.streams.counters();
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
            ("socket", "no_room", socket.no_room),
            ("socket", "passed_on", socket.passed_on),
            ("flow_routes", "asked", routes(&self.flow_routes.asked)),
            ("flow_routes", "no_route", routes(&self.flow_routes.no_route)),
            ("flow_routes", "other_protocol", routes(&self.flow_routes.other_protocol)),
            ("flow_routes", "malformed", routes(&self.flow_routes.malformed)),
            ("flow_routes", "refused", routes(&self.flow_routes.refused)),
            ("traffic_control", "adopted", traffic_control.adopted),
            ("traffic_control", "reaped", traffic_control.reaped),
            ("traffic_control", "reconciliations", traffic_control.reconciliations),
            ("traffic_control", "removed", traffic_control.removed),
            ("traffic_control", "restored", traffic_control.restored),
            ("traffic_control", "unenforced", traffic_control.unenforced),
            ("traffic_control", "enforced_again", traffic_control.enforced_again),
        ]
    }
}
