//! Axes of the crossings, and the case of a seed.

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::random::{RandomStreams, Stream};
use earmark_node::NodeConfig;
use earmark_sim::distributions::happens;

use super::event::{Event, EventKind, Place};
use crate::faults::Fault;
use crate::protocols::{End, Protocols, Proxy, ScenarioProtocol, Variant};
use crate::sampling::{below, milliseconds};
use crate::topology::Family;

/// The network: the way through r3 is used while the link between r1 and r2 is down. The second host is the second member of a
/// group.
pub(super) const NETWORK: &str = r#"
name = "crossing"
ipv6 = true
node = [{ name = "source" }, { name = "r1" }, { name = "r2" }, { name = "r3" }, { name = "second" },
        { name = "destination" }]
link = [
    { ends = ["source", "r1"], bandwidth = "10Mbit", delay = "1ms", prefix = "10.0.0.0/24" },
    { ends = ["r1", "r2"], bandwidth = "10Mbit", delay = "2ms", prefix = "10.0.1.0/24" },
    { ends = ["r1", "r3"], bandwidth = "10Mbit", delay = "2ms", prefix = "10.0.2.0/24" },
    { ends = ["r3", "r2"], bandwidth = "10Mbit", delay = "2ms", prefix = "10.0.3.0/24" },
    { ends = ["r2", "destination"], bandwidth = "10Mbit", delay = "1ms", prefix = "10.0.4.0/24" },
    { ends = ["r3", "second"], bandwidth = "10Mbit", delay = "1ms", prefix = "10.0.5.0/24" },
]
"#;

/// Time of the request.
pub(super) const REQUEST: Duration = Duration::from_secs(2);
/// Rate of the request.
pub(super) const RATE: Rate = Rate::from_mbps(2);
/// Rate of a request that no link has.
const LARGE: Rate = Rate::from_mbps(20);
/// Earliest change after the request, and after another change.
const FIRST_CHANGE: Duration = Duration::from_millis(20);
/// Time by which a reservation is made that nothing prevents.
const MADE: Duration = Duration::from_secs(3);
/// Time at which the last event is over.
pub(super) const LAST_EVENT_OVER: Duration = Duration::from_secs(20);

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

    /// Returns whether the daemon of a node crashes, or starts again with other settings or at another machine, at or after the
    /// request.
    pub(super) fn crashes_at(&self, place: Place) -> bool {
        let is_late = |event: &Event| event.last() >= REQUEST;
        let mut events = self.events.iter();
        events.any(|event| event.place == place && self.crashes(event) && is_late(event))
    }

    /// Returns the place of the receiver's application, if it has one.
    pub(super) fn receiver(&self) -> Place {
        match self.variant.proxy {
            Some(Proxy { of: End::Destination, has_application: true, .. }) => Place::LastRouter,
            _ => Place::Destination,
        }
    }

    /// Returns whether an event changes a setting that the protocol has.
    pub(super) fn has_setting(&self, event: &Event) -> bool {
        let mut config = NodeConfig::default();
        event.kind.setting().is_some_and(|setting| self.protocol.set(setting, &mut config))
    }

    /// Returns whether an event ends a daemon.
    pub(super) fn crashes(&self, event: &Event) -> bool {
        let is_crash = matches!(event.kind, EventKind::Crash | EventKind::CrashWithoutAdoption);
        let setting = event.kind.setting().filter(|_| self.has_setting(event));
        is_crash
            || event.replaces()
            || setting.is_some_and(|setting| !self.protocol.is_reloaded(setting))
    }

    /// Returns whether a reservation must survive an event, or come about during it.
    pub(super) fn is_harmless(&self, event: &Event) -> bool {
        use EventKind::{Change, Duplication, LongerRefresh, Nothing, Reordering};
        use EventKind::{Forbidden, NoSessions, ShorterLifetime, ShorterRefresh};
        let other = || self.events.iter().filter(|other| *other != event);
        let has = |kinds: &[EventKind]| other().any(|other| kinds.contains(&other.kind));
        match event.kind {
            Nothing | Duplication | Reordering | Change => true,
            // Refreshes restore what a router has lost.
            _ if self.crashes(event) => {
                matches!(event.place, Place::FirstRouter | Place::LastRouter)
                    && event.place != self.receiver()
                    && event.from >= REQUEST + MADE
                    && !has(&[Change])
                    && other().all(|it| self.is_mild(it))
            }
            LongerRefresh | ShorterRefresh => true,
            // A neighbour that refreshes less often than the lifetime loses its state now and then.
            ShorterLifetime => !has(&[LongerRefresh]),
            // What is reserved stays, but does not change.
            NoSessions | Forbidden => {
                event.from >= REQUEST + MADE
                    && !has(&[Change])
                    && other().all(|it| self.is_mild(it))
            }
            _ => false,
        }
    }

    /// Returns whether no node can lose its state by an event.
    fn is_mild(&self, event: &Event) -> bool {
        use EventKind::{Duplication, LongerRefresh, Nothing, Reordering, ShorterRefresh};
        let is_mild = matches!(
            event.kind,
            Nothing | Duplication | Reordering | LongerRefresh | ShorterRefresh
        ) || (event.kind.setting().is_some() && event.from >= REQUEST + MADE);
        is_mild && !self.crashes(event)
    }

    /// Returns whether an end of the flow loses the address by which the flow is known.
    pub(super) fn loses_address(&self) -> bool {
        let is_of_flow = |place| match place {
            Place::Source => true,
            Place::Destination => self.variant.members == 0,
            Place::FirstRouter | Place::LastRouter => false,
        };
        let mut events = self.events.iter();
        events.any(|event| event.kind == EventKind::InterfaceReaddressed && is_of_flow(event.place))
    }

    /// Returns the rate of the request.
    pub(super) fn rate(&self) -> Rate {
        match self.events.iter().any(|event| event.kind == EventKind::LargeRequest) {
            true => LARGE,
            false => RATE,
        }
    }

    /// Returns the rates that the application changes its reservation to, with their times, in order; none if it cannot.
    pub(super) fn changes(&self) -> Vec<(Duration, Rate)> {
        let mut changes = Vec::new();
        if self.variant.change.is_none() {
            return changes;
        }
        for event in &self.events {
            let first = event.from.max(REQUEST + FIRST_CHANGE);
            let last = event.until.max(first + FIRST_CHANGE);
            // In place of a node, the event says whether a large request is lowered later.
            let is_lowered = matches!(event.place, Place::Source | Place::LastRouter);
            match event.kind {
                EventKind::Change => {}
                EventKind::LargeRequest if is_lowered => {
                    changes.push((last, RATE));
                    continue;
                }
                _ => continue,
            }
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
