//! Applications of a case, at the source and at each member, and what each was told last.

use std::collections::BTreeSet;

use earmark_core::outcome::{Kind, Outcome};
use earmark_core::{InterfaceId, Rate};
use earmark_node::outcome;
use earmark_sim::{LogEntry, LogEvent, NodeId};

use super::case::Case;
use super::event::Place;
use super::violation::ViolationKind;
use crate::protocols::{End, Receiver};
use crate::reservation::ReservationRequest;

/// Links with a reservation, or those of a path: index of the node and interface.
pub(super) type Links = BTreeSet<(usize, InterfaceId)>;

/// A violated invariant: its kind, the node and the details.
type Found = (ViolationKind, NodeId, String);

/// An application.
#[derive(Debug)]
struct Application {
    node: NodeId,
    number: u64,
    /// Last outcome that it was told.
    told: Option<Outcome>,
    /// Last rate that it was told.
    rate: Option<Rate>,
}

/// The applications of a case.
#[derive(Debug)]
pub(super) struct Applications {
    source: Application,
    /// Applications of the members, in order.
    members: Vec<Application>,
    refused_at: NodeId,
    /// Whether the source's application, or the one that is told of a refusal, was told anything.
    was_told: bool,
}

/// What is reserved in the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved<'r> {
    /// Links with a reservation.
    pub(super) links: &'r Links,
    /// Paths to the members, each empty if there is none.
    pub(super) paths: &'r [Links],
    /// Rate of a link with a reservation.
    pub(super) rate: Option<Rate>,
    /// Whether the last change of the rate was refused, which leaves what was reserved before.
    pub(super) is_change_refused: bool,
}

impl Applications {
    /// Creates the applications of these requests, one for each member.
    pub(super) fn new(case: &Case, requests: &[ReservationRequest]) -> Applications {
        let [source, destination] = requests[0].nodes;
        let at = |node, request: &ReservationRequest| Application {
            node,
            number: request.application(),
            told: None,
            rate: None,
        };
        Applications {
            source: at(source, &requests[0]),
            members: requests.iter().map(|request| at(request.nodes[1], request)).collect(),
            refused_at: match case.variant.refused_at {
                End::Source => source,
                End::Destination => destination,
            },
            was_told: false,
        }
    }

    /// Notes what an application is told.
    pub(super) fn note_log(&mut self, case: &Case, entry: &LogEntry) {
        if let LogEvent::Event(event) = &entry.what
            && [self.source.node, self.refused_at].contains(&entry.node)
        {
            self.was_told |= outcome::application_of(event) == Some(self.source.number);
        }
        self.source.note_log(case, entry);
        self.members.iter_mut().for_each(|member| member.note_log(case, entry));
    }

    /// Checks that what is reserved is what the applications were told last.
    pub(super) fn check(&self, case: &Case, reserved: Reserved<'_>) -> Vec<Found> {
        self.check_source(case, reserved)
            .into_iter()
            .chain(self.check_members(case, reserved))
            .collect()
    }

    fn check_source(&self, case: &Case, reserved: Reserved<'_>) -> Option<Found> {
        // Nobody at the source knows what its proxy announces.
        if case.variant.proxy.is_some_and(|proxy| proxy.of == End::Source) {
            return None;
        }
        let found = |kind| Some((kind, self.source.node, self.source.describe()));
        let Reserved { links, paths, is_change_refused, .. } = reserved;
        if case.crashes_at(Place::Source) {
            let is_kept = !links.is_empty() && case.variant.keeper == End::Source;
            return found(ViolationKind::WithoutApplication).filter(|_| is_kept);
        }
        let is_reserved = *links == paths.iter().flatten().copied().collect();
        // The rate may be changed to what is reserved already, and be refused.
        let is_changed = !case.changes().is_empty();
        let is_refused = is_changed && self.source.kind() == Some(Kind::Refused);
        // An application at the destination that answers is gone with its daemon, and nobody tells of the grant of a change.
        let is_answered = !is_changed || !case.crashes_at(case.receiver());
        match self.source.kind().map(Kind::is_reserved) {
            Some(false) if is_reserved && !is_change_refused && !is_refused && is_answered => {
                found(ViolationKind::ToldNotReserved)
            }
            Some(true) if links.is_empty() => found(ViolationKind::ToldReserved),
            Some(true) if self.source.was_told_other_rate(reserved) => {
                found(ViolationKind::ToldOtherRate)
            }
            None if !self.was_told && !case.crashes_at(case.receiver()) => {
                found(ViolationKind::NotAnswered)
            }
            _ => None,
        }
    }

    fn check_members(&self, case: &Case, reserved: Reserved<'_>) -> Vec<Found> {
        let receiver = case.variant.receiver;
        if receiver == Receiver::Unaware {
            return Vec::new();
        }
        let Reserved { links, paths, is_change_refused, .. } = reserved;
        let mut all = Vec::new();
        for (number, (member, path)) in self.members.iter().zip(paths).enumerate() {
            let mut found = |kind| all.push((kind, member.node, member.describe()));
            let is_reserved = !path.is_empty() && path.is_subset(links);
            // Events at the destination are at the first member.
            if number == 0 && case.crashes_at(case.receiver()) {
                if is_reserved && receiver == Receiver::Requests {
                    found(ViolationKind::WithoutApplication);
                }
                continue;
            }
            match member.kind().map(Kind::is_reserved) {
                Some(false) if is_reserved && !is_change_refused => {
                    found(ViolationKind::ReceiverToldNotReserved);
                }
                Some(true) if path.is_disjoint(links) => {
                    found(ViolationKind::ReceiverToldReserved);
                }
                Some(true) if member.was_told_other_rate(reserved) => {
                    found(ViolationKind::ToldOtherRate);
                }
                None if is_reserved => {
                    found(ViolationKind::ReceiverNotTold);
                }
                _ => {}
            }
        }
        all
    }
}

/// Returns whether a rate is that of a request, which messages state in floating point.
pub(super) fn is(rate: Rate, requested: Rate) -> bool {
    rate.as_bps().abs_diff(requested.as_bps()) < 10_000
}

impl Application {
    fn note_log(&mut self, case: &Case, entry: &LogEntry) {
        if entry.node != self.node {
            return;
        }
        match &entry.what {
            LogEvent::Restarted => (self.told, self.rate) = (None, None),
            LogEvent::Event(event) if outcome::application_of(event) == Some(self.number) => {
                let before = self.told.clone().unwrap_or_default();
                self.told = outcome::after(&before, event).or(self.told.take());
                self.rate = case.protocol.told_rate(event).or(self.rate);
            }
            _ => {}
        }
    }

    fn was_told_other_rate(&self, reserved: Reserved<'_>) -> bool {
        let differs = |told: Rate| reserved.rate.is_some_and(|rate| !is(rate, told));
        self.rate.is_some_and(differs)
    }

    fn kind(&self) -> Option<Kind> {
        self.told.as_ref().map(|outcome| outcome.kind)
    }

    fn describe(&self) -> String {
        format!("told {:?}, {:?}", self.kind().map(Kind::name), self.rate)
    }
}
