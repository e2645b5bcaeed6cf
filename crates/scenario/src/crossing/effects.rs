//! Effects of the events of a case: whether what they change has happened while they lasted.

use std::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_sim::{LogEvent, Network, NodeId};

use super::case::{Case, REQUEST};
use super::event::{Event, EventKind};
use crate::routing::Routing;

/// Time that a change of the rate may take to reach a link.
const CHANGE_TIME: Duration = Duration::from_secs(1);

/// Where an event is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    /// Index of its node.
    pub(super) node: usize,
    /// Index of its link.
    pub(super) link: usize,
}

/// What is known of the effects of each event.
#[derive(Debug)]
pub(super) struct Effects {
    locations: Vec<Location>,
    /// Messages that the faults of its link had changed when it began.
    faulted_before: Vec<u64>,
    took_effect: Vec<bool>,
}

impl Effects {
    /// Creates the effects of a case. `changes_rate`: the application follows its changes of the rate.
    pub(super) fn new(case: &Case, locations: Vec<Location>, changes_rate: bool) -> Effects {
        let took_effect = case.events.iter().map(|event| match event.kind {
            EventKind::Change => changes_rate,
            // An outage beside the path leaves none to an outage on it.
            _ if event.breaks_paths() => {
                case.events.iter().any(|other| other != event && other.breaks_paths())
            }
            EventKind::Crash | EventKind::CrashWithoutAdoption => true,
            _ if event.replaces() => true,
            EventKind::LargeRequest => true,
            // Some protocols lack the setting.
            _ if event.kind.setting().is_some() => {
                case.has_setting(event) && event.until >= REQUEST
            }
            _ => false,
        });
        let took_effect = took_effect.collect();
        Effects { faulted_before: vec![0; locations.len()], locations, took_effect }
    }

    /// Returns whether each event took effect.
    pub(super) fn took_effect(&self) -> &[bool] {
        &self.took_effect
    }

    /// Returns whether an event may have prevented or ended the reservation.
    pub(super) fn may_prevent(&self, case: &Case) -> bool {
        let mut events = case.events.iter().zip(&self.took_effect);
        events.any(|(event, &took_effect)| {
            let is_late = event.last() >= REQUEST || event.kind == EventKind::LargeRequest;
            took_effect && !case.is_harmless(event) && is_late
        })
    }

    /// Notes what messages the events that begin or end now have changed, and which links of `path` are lost by them.
    pub(super) fn note_change(
        &mut self,
        case: &Case,
        (network, nodes): (&Network, &[NodeId]),
        routing: &Routing,
        path: &[(usize, InterfaceId)],
    ) {
        let now = network.now();
        for (number, event) in case.events.iter().enumerate() {
            let ends = || routing.ends_of(self.locations[number].link);
            let faulted = ends().map(|(node, at)| network.faulted_messages(nodes[node], at)).sum();
            if Time::ZERO + event.from == now {
                self.faulted_before[number] = faulted;
                let is_on_path = ends().any(|end| path.contains(&end));
                self.took_effect[number] |= event.breaks_paths() && is_on_path;
            }
            if Time::ZERO + event.until == now && event.faults_messages() {
                self.took_effect[number] |= faulted > self.faulted_before[number];
            }
        }
    }

    /// Notes what has happened at a node, by its index.
    pub(super) fn note_log(
        &mut self,
        case: &Case,
        at: Time,
        node: usize,
        what: &LogEvent,
        routing: &Routing,
    ) {
        if !matches!(what, LogEvent::Refused(..) | LogEvent::Attempt(_)) {
            return;
        }
        let of = |event: &Event, location: &Location| match (event.kind, what) {
            (EventKind::Refusal, LogEvent::Refused(..)) => location.node == node,
            (_, LogEvent::Attempt(attempt)) if event.limits_rate() => {
                let mut ends = routing.ends_of(location.link);
                !attempt.granted && ends.any(|end| end == (node, attempt.link))
            }
            _ => false,
        };
        let during =
            |event: &Event| (Time::ZERO + event.from..=Time::ZERO + event.until).contains(&at);
        for (number, event) in case.events.iter().enumerate() {
            self.took_effect[number] |= of(event, &self.locations[number]) && during(event);
        }
    }

    /// Notes that the application changes its rate: whether a link has room for more is not logged.
    pub(super) fn note_rate_change(&mut self, case: &Case, now: Time) {
        for (event, took_effect) in case.events.iter().zip(&mut self.took_effect) {
            let from = Time::ZERO + event.from.saturating_sub(CHANGE_TIME);
            let is_then = (from..=Time::ZERO + event.until).contains(&now);
            *took_effect |= event.limits_rate() && is_then;
        }
    }
}
