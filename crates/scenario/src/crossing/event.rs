//! Events of a case: what happens, where and when.

use std::time::Duration;

use earmark_core::Rate;
use serde::Serialize;

use crate::faults::Fault;
use crate::protocols::Setting;
use crate::routing::Returns;

earmark_core::named_enum! {
    /// Kind of an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum EventKind {
        /// Nothing happens.
        Nothing = "nothing",
        /// A part of the messages on a link is lost.
        Loss = "loss",
        /// No message passes a link, and routes stay.
        Silence = "silence",
        /// Messages on a link arrive twice.
        Duplication = "duplication",
        /// Messages on a link overtake each other.
        Reordering = "reordering",
        /// One bit of some messages on a link is flipped.
        Corruption = "corruption",
        /// A link fails, and routes avoid it if they can.
        Outage = "outage",
        /// A daemon crashes; the next one adopts the reservations of the kernel.
        Crash = "crash",
        /// A daemon crashes; the next one removes the reservations of the kernel at once.
        CrashWithoutAdoption = "crash without adoption",
        /// Another machine takes over the addresses of a node, without its state, and stays.
        Replaced = "replaced",
        /// Another machine takes over the addresses of a node, and the first one is back later, without its state.
        ReplacedTwice = "replaced twice",
        /// An interface vanishes, and returns with its index.
        InterfaceRemoved = "interface removed",
        /// An interface vanishes, and returns with another index.
        InterfaceRenumbered = "interface renumbered",
        /// An interface vanishes, and returns with another index and another address.
        InterfaceReaddressed = "interface readdressed",
        /// Traffic control of a node refuses.
        Refusal = "refusal",
        /// A node refreshes less often for a while.
        LongerRefresh = "longer refresh",
        /// A node refreshes more often for a while.
        ShorterRefresh = "shorter refresh",
        /// A node limits lifetimes for a while.
        ShorterLifetime = "shorter lifetime",
        /// A node takes no new sessions for a while.
        NoSessions = "no sessions",
        /// The policy of a node refuses new requests for a while.
        Forbidden = "forbidden",
        /// A link has no room for new reservations; what is reserved stays.
        NoRoom = "no room",
        /// A link takes no new reservation as large as the request.
        Largest = "largest",
        /// The application requests more than any link has, at first.
        LargeRequest = "large request",
        /// The application changes the rate of its reservation, and mostly back again.
        Change = "change",
    }
}

impl EventKind {
    /// Returns the setting that changes.
    pub(super) fn setting(self) -> Option<Setting> {
        match self {
            EventKind::LongerRefresh => Some(Setting::LongerRefresh),
            EventKind::ShorterRefresh => Some(Setting::ShorterRefresh),
            EventKind::ShorterLifetime => Some(Setting::ShorterLifetime),
            EventKind::NoSessions => Some(Setting::NoSessions),
            EventKind::Forbidden => Some(Setting::Forbidden),
            _ => None,
        }
    }
}

earmark_core::named_enum! {
    /// Place of an event: a node, or the link from there towards the destination; at the destination, the way around. An
    /// interface is that of the node to this link, and of the destination its only one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Place {
        /// The source.
        Source = "source",
        /// The first router.
        FirstRouter = "first router",
        /// The last router.
        LastRouter = "last router",
        /// The destination.
        Destination = "destination",
    }
}

/// An event of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Event {
    /// What happens.
    pub kind: EventKind,
    /// Where.
    pub place: Place,
    /// When it begins.
    pub from: Duration,
    /// When it is over.
    pub until: Duration,
}

impl Event {
    /// Returns whether it takes a link from paths.
    pub(super) fn breaks_paths(&self) -> bool {
        use EventKind::{InterfaceReaddressed, InterfaceRemoved, InterfaceRenumbered, Outage};
        let breaks = [Outage, InterfaceRemoved, InterfaceRenumbered, InterfaceReaddressed];
        breaks.contains(&self.kind)
    }

    /// Returns whether another machine takes the place of its node.
    pub(super) fn replaces(&self) -> bool {
        matches!(self.kind, EventKind::Replaced | EventKind::ReplacedTwice)
    }

    /// Returns when it ends the last daemon, if it is one that ends daemons, or when it is over.
    pub(super) fn last(&self) -> Duration {
        if self.kind == EventKind::Replaced { self.from } else { self.until }
    }

    /// Returns whether it leaves a link without room for a new reservation of the requested rate.
    pub(super) fn limits_rate(&self) -> bool {
        matches!(self.kind, EventKind::NoRoom | EventKind::Largest)
    }

    /// Returns whether it changes the messages of a link.
    pub(super) fn faults_messages(&self) -> bool {
        use EventKind::{Corruption, Duplication, Loss, Reordering, Silence};
        matches!(self.kind, Loss | Silence | Duplication | Reordering | Corruption)
    }

    /// Returns the fault that it is, if it is one.
    pub(super) fn fault(&self) -> Option<Fault> {
        let (from, until) = (self.from, Some(self.until));
        let on_link = Fault { from, until, link: Some(self.link()), ..Fault::default() };
        let removed = |returns| Fault { removed: Some(self.node()), returns, ..on_link.clone() };
        let at_node = Fault { from, until, node: Some(self.node()), ..Fault::default() };
        Some(match self.kind {
            EventKind::Nothing
            | EventKind::Change
            | EventKind::LargeRequest
            | EventKind::Replaced
            | EventKind::ReplacedTwice
            | EventKind::LongerRefresh
            | EventKind::ShorterRefresh
            | EventKind::ShorterLifetime
            | EventKind::NoSessions
            | EventKind::Forbidden => return None,
            EventKind::Loss => Fault { loss: 0.4.into(), ..on_link },
            EventKind::Silence => Fault { loss: 1.0.into(), ..on_link },
            EventKind::Duplication => Fault { duplication: 0.6, ..on_link },
            EventKind::Reordering => Fault { jitter: Duration::from_millis(200), ..on_link },
            EventKind::Corruption => Fault { corruption: 0.4, ..on_link },
            EventKind::Outage => Fault { outage: true, ..on_link },
            EventKind::Crash => {
                Fault { crash: true, grace: Some(Duration::from_secs(10)), ..at_node }
            }
            EventKind::CrashWithoutAdoption => {
                Fault { crash: true, grace: Some(Duration::ZERO), ..at_node }
            }
            EventKind::InterfaceRemoved => removed(Returns::Same),
            EventKind::InterfaceRenumbered => removed(Returns::Renumbered),
            EventKind::InterfaceReaddressed => removed(Returns::Readdressed),
            EventKind::Refusal => Fault { refusal: true, ..at_node },
            EventKind::Largest => Fault { largest: Some(Rate::from_mbps(1)), ..on_link },
            EventKind::NoRoom => Fault { reservable: Some(Rate::from_mbps(1)), ..on_link },
        })
    }

    /// Returns the name of its node.
    pub(super) fn node(&self) -> String {
        let name = match self.place {
            Place::Source => "source",
            Place::FirstRouter => "r1",
            Place::LastRouter => "r2",
            Place::Destination => "destination",
        };
        name.to_owned()
    }

    /// Returns the names of the nodes at the ends of its link.
    pub(super) fn link(&self) -> [String; 2] {
        let ends = match self.place {
            Place::Source => ["source", "r1"],
            Place::FirstRouter => ["r1", "r2"],
            Place::LastRouter => ["r2", "destination"],
            Place::Destination if self.breaks_paths() && self.kind != EventKind::Outage => {
                ["r2", "destination"]
            }
            Place::Destination => ["r1", "r3"],
        };
        ends.map(str::to_owned)
    }
}
