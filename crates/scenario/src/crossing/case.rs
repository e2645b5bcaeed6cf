//! Axes of the crossings, and the case of a seed.

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::random::{RandomStreams, Stream};
use earmark_sim::distributions::happens;
use serde::Serialize;

use crate::faults::Fault;
use crate::protocols::{Protocols, ScenarioProtocol, Variant};
use crate::routing::Returns;
use crate::sampling::{below, milliseconds};
use crate::topology::Family;

/// The network: the way through r3 is used while the link between r1 and r2 is down.
pub(super) const NETWORK: &str = r#"
name = "crossing"
ipv6 = true
node = [{ name = "source" }, { name = "r1" }, { name = "r2" }, { name = "r3" }, { name = "destination" }]
link = [
    { ends = ["source", "r1"], bandwidth = "10Mbit", delay = "1ms", prefix = "10.0.0.0/24" },
    { ends = ["r1", "r2"], bandwidth = "10Mbit", delay = "2ms", prefix = "10.0.1.0/24" },
    { ends = ["r1", "r3"], bandwidth = "10Mbit", delay = "2ms", prefix = "10.0.2.0/24" },
    { ends = ["r3", "r2"], bandwidth = "10Mbit", delay = "2ms", prefix = "10.0.3.0/24" },
    { ends = ["r2", "destination"], bandwidth = "10Mbit", delay = "1ms", prefix = "10.0.4.0/24" },
]
"#;

/// Time of the request.
pub(super) const REQUEST: Duration = Duration::from_secs(2);
/// Rate of the request.
pub(super) const RATE: Rate = Rate::from_mbps(2);
/// Earliest change after the request, and after another change.
const FIRST_CHANGE: Duration = Duration::from_millis(20);
/// Time at which the last event is over.
pub(super) const LAST_EVENT_OVER: Duration = Duration::from_secs(20);

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
        /// An interface vanishes, and returns with its index.
        InterfaceRemoved = "interface removed",
        /// An interface vanishes, and returns with another index.
        InterfaceRenumbered = "interface renumbered",
        /// An interface vanishes, and returns with another index and another address.
        InterfaceReaddressed = "interface readdressed",
        /// Traffic control of a node refuses.
        Refusal = "refusal",
        /// A link has no room for new reservations; what is reserved stays.
        NoRoom = "no room",
        /// The application changes the rate of its reservation, and mostly back again.
        Change = "change",
    }
}

impl EventKind {
    /// Returns whether a reservation must survive it, or come about during it.
    pub(super) fn is_harmless(self) -> bool {
        use EventKind::{Change, Duplication, Nothing, Reordering};
        matches!(self, Nothing | Duplication | Reordering | Change)
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

/// One case: a value of each axis.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// Protocol of the reservation.
    pub protocol: &'static dyn ScenarioProtocol,
    /// Variant of the protocol.
    pub variant: &'static Variant,
    /// Address family.
    pub family: Family,
    /// Events: one, and mostly another one.
    pub events: Vec<Event>,
}

impl Case {
    /// Returns the case of a seed. Consecutive seeds go through all combinations of variant, family and first event; times and
    /// the second event are random.
    pub fn of(seed: u64, protocols: &Protocols) -> Case {
        let variants: Vec<(&'static dyn ScenarioProtocol, &'static Variant)> = protocols
            .all()
            .iter()
            .flat_map(|protocol| protocol.variants().iter().map(|variant| (*protocol, variant)))
            .collect();
        let mut rest = seed;
        let mut axis = |values: usize| {
            let value = rest % values as u64;
            rest /= values as u64;
            value as usize
        };
        let (protocol, variant) = variants[axis(variants.len())];
        let family = [Family::Ipv4, Family::Ipv6][axis(2)];
        let (kind, place) = (EventKind::ALL[axis(EventKind::ALL.len())], Place::ALL[axis(4)]);
        let mut dice = RandomStreams::new(seed).part("crossing").stream("case");
        let mut events = vec![event(kind, place, &mut dice)];
        if happens(&mut dice, 0.7) {
            let kind = EventKind::ALL[below(&mut dice, EventKind::ALL.len())];
            let place = Place::ALL[below(&mut dice, Place::ALL.len())];
            events.push(event(kind, place, &mut dice));
        }
        Case { seed, protocol, variant, family, events }
    }

    /// Returns whether the daemon of a node crashes at or after the request.
    pub(super) fn crashes_at(&self, place: Place) -> bool {
        let is_crash = |kind| matches!(kind, EventKind::Crash | EventKind::CrashWithoutAdoption);
        let is_late = |event: &Event| event.until >= REQUEST;
        self.events
            .iter()
            .any(|event| event.place == place && is_crash(event.kind) && is_late(event))
    }

    /// Returns whether an end of the flow loses the address by which the flow is known.
    pub(super) fn loses_address(&self) -> bool {
        let is_at_end = |event: &Event| matches!(event.place, Place::Source | Place::Destination);
        let mut events = self.events.iter();
        events.any(|event| event.kind == EventKind::InterfaceReaddressed && is_at_end(event))
    }

    /// Returns the rates that the application changes its reservation to, with their times, in order.
    pub(super) fn changes(&self) -> Vec<(Duration, Rate)> {
        let mut changes = Vec::new();
        for event in self.events.iter().filter(|event| event.kind == EventKind::Change) {
            let first = event.from.max(REQUEST + FIRST_CHANGE);
            let last = event.until.max(first + FIRST_CHANGE);
            // In place of a node the event has a direction: more or less, and back again or not.
            let (rate, back) = match event.place {
                Place::Source => (3, true),
                Place::FirstRouter => (1, true),
                Place::LastRouter => (3, false),
                Place::Destination => (1, false),
            };
            changes.push((first, Rate::from_mbps(rate)));
            if back {
                changes.push((last, RATE));
            }
        }
        changes.sort_by_key(|(at, _)| *at);
        changes
    }

    /// Returns the faults of its events.
    pub(super) fn faults(&self) -> Vec<Fault> {
        self.events.iter().filter_map(Event::fault).collect()
    }
}

fn event(kind: EventKind, place: Place, dice: &mut Stream) -> Event {
    let latest = LAST_EVENT_OVER.as_millis() as u64;
    let from = milliseconds(dice, 0, latest - 8_000);
    // Short events are between two messages, long ones outlast lifetimes.
    let longest = if happens(dice, 0.5) { 500 } else { 8_000 };
    let until = from + milliseconds(dice, 20, longest);
    Event { kind, place, from, until }
}

impl Event {
    /// Returns whether it takes a link from paths.
    pub(super) fn breaks_paths(&self) -> bool {
        use EventKind::{InterfaceReaddressed, InterfaceRemoved, InterfaceRenumbered, Outage};
        let breaks = [Outage, InterfaceRemoved, InterfaceRenumbered, InterfaceReaddressed];
        breaks.contains(&self.kind)
    }

    /// Returns whether it changes the messages of a link.
    pub(super) fn faults_messages(&self) -> bool {
        use EventKind::{Corruption, Duplication, Loss, Reordering, Silence};
        matches!(self.kind, Loss | Silence | Duplication | Reordering | Corruption)
    }

    fn fault(&self) -> Option<Fault> {
        let (from, until) = (self.from, Some(self.until));
        let on_link = Fault { from, until, link: Some(self.link()), ..Fault::default() };
        let removed = |returns| Fault { removed: Some(self.node()), returns, ..on_link.clone() };
        let at_node = Fault { from, until, node: Some(self.node()), ..Fault::default() };
        Some(match self.kind {
            EventKind::Nothing | EventKind::Change => return None,
            EventKind::Loss => Fault { loss: 0.4, ..on_link },
            EventKind::Silence => Fault { loss: 1.0, ..on_link },
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
