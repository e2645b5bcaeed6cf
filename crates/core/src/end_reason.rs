//! Why a reservation ends.

use crate::{HostEvent, Input};

crate::named_enum! {
    /// Why a reservation leaves traffic control, as far as the input says it that its engine processes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum EndReason {
        /// An application or the operator of this node ended it.
        #[default]
        Released = "released",
        /// A message of a neighbor ended it: a teardown, an error, or a request without the flow.
        TornDown = "torn_down",
        /// Nobody refreshed it any more.
        Expired = "expired",
        /// A more important reservation took its bandwidth.
        Preempted = "preempted",
        /// The packets leave by another link.
        Rerouted = "rerouted",
        /// The link went down, was removed or takes no part any more.
        LinkLost = "link_lost",
        /// The kernel refused it or a change of it.
        TrafficControlRefused = "traffic_control_refused",
    }
}

impl EndReason {
    /// Returns why reservations end that an engine removes because of an input.
    #[inline]
    pub fn of<C>(input: &Input<'_, C>) -> EndReason {
        match input {
            Input::Datagram(_) | Input::Stream(_) => EndReason::TornDown,
            Input::Expire => EndReason::Expired,
            Input::Command(_) => EndReason::Released,
            Input::Host(event) => match event {
                HostEvent::Displaced(_) => EndReason::Preempted,
                HostEvent::RouteChanged(_) | HostEvent::MulticastRouteChanged { .. } => {
                    EndReason::Rerouted
                }
                HostEvent::InterfaceChanged(_) => EndReason::LinkLost,
                HostEvent::TrafficControlRefused { .. } => EndReason::TrafficControlRefused,
                // These give or restore; what they displace ends for the sake of another.
                HostEvent::Grantable { .. } | HostEvent::Adopted | HostEvent::Filter(_) => {
                    EndReason::Preempted
                }
            },
        }
    }
}
