//! Route changes: finds the routing states whose next hop has changed, and queries for their peers again (RFC 5971
//! sections 7.1.2 and 7.1.3).
//!
//! A changed route names a range of destinations. An index lists routing states by destination, and those in the range
//! are checked, a few for each input. After a change of an interface, a routing state is checked at its next use. A
//! fingerprint of the hop of the last Query is kept: if it is unchanged, nothing is done.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use earmark_core::{HostEvent, Prefix, Time};
use earmark_wire::gist::{Direction, Mri};

use super::Gist;
use super::machine::{Event, Facts, State};
use super::state::{Index, NONE};
use super::step::{EventData, HalfRef};
use crate::input_context::InputContext;
use crate::nslp::{Notification, Validity};
use crate::route;

/// Limit of routing states that are checked for one input; the rest is due again at once.
const MAX_CHECKS_PER_INPUT: usize = 256;
/// Limit of changed ranges that are kept; above it all destinations count as changed.
const MAX_CHANGED_RANGES: usize = 1_024;

/// Ranges of destinations whose routing states must be checked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    ranges: VecDeque<Prefix>,
    /// Progress in the first range: the highest destination that was checked.
    done: Option<IpAddr>,
    /// First routing state of this destination that is still to be checked.
    next: Index,
    /// When the first unchecked range was added.
    since: Option<Time>,
}

impl Changes {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.since
    }
}

impl Gist {
    /// Handles a change of the host.
    pub(crate) fn host_changes(&mut self, now: Time, event: &HostEvent) {
        match *event {
            HostEvent::RouteChanged(prefix) => self.add_changed_range(now, prefix),
            HostEvent::InterfaceChanged(_) => self.epoch = self.epoch.wrapping_add(1),
            // Multicast flows have no next hop to be queried.
            HostEvent::MulticastRouteChanged { .. }
            | HostEvent::TrafficControlRefused { .. }
            | HostEvent::Grantable { .. }
            | HostEvent::Displaced(_) => {}
        }
    }

    fn add_changed_range(&mut self, now: Time, prefix: Prefix) {
        let changes = &mut self.changes;
        if changes.since.is_none() {
            changes.next = NONE;
        }
        if changes.ranges.iter().skip(1).any(|range| range.covers(prefix)) {
            return;
        }
        if changes.ranges.len() >= MAX_CHANGED_RANGES {
            changes.ranges.clear();
            (changes.done, changes.next) = (None, NONE);
            let all = |text: [u16; 8], is_v4| match is_v4 {
                true => IpAddr::from([0_u8; 4]),
                false => IpAddr::from(text),
            };
            changes.ranges.push_back(Prefix::new(all([0; 8], true), 0));
            changes.ranges.push_back(Prefix::new(all([0; 8], false), 0));
        } else {
            changes.ranges.push_back(prefix);
        }
        changes.since = Some(now);
    }

    /// Checks some of the routing states in changed ranges.
    pub(super) fn check_changed_ranges(&mut self, cx: &mut InputContext<'_, '_>) {
        for _ in 0..MAX_CHECKS_PER_INPUT {
            let Some(index) = self.next_changed_state() else {
                self.changes.since = None;
                return;
            };
            let key = self.store.state(index).key;
            let mut at = HalfRef { key, direction: Direction::Downstream, index };
            self.check_route(cx, &mut at);
        }
    }

    /// Returns the next routing state to be checked.
    fn next_changed_state(&mut self) -> Option<Index> {
        loop {
            if self.changes.next != NONE {
                let index = self.changes.next;
                self.changes.next = self.store.state(index).next;
                return Some(index);
            }
            let range = *self.changes.ranges.front()?;
            match self.store.by_destination.next_in(range, self.changes.done) {
                Some((address, first)) => {
                    self.changes.done = Some(address);
                    self.changes.next = first;
                }
                None => {
                    self.changes.done = None;
                    self.changes.ranges.pop_front();
                }
            }
        }
    }

    /// Skips a routing state that is being removed.
    pub(super) fn skip_removed_state(&mut self, index: Index) {
        if self.changes.next == index {
            self.changes.next = self.store.state(index).next;
        }
    }

    /// Checks whether the next hop of a half has changed; if so, queries for the peer again. Until the Response,
    /// messages go to the old peer.
    pub(super) fn check_route(&mut self, cx: &mut InputContext<'_, '_>, at: &mut HalfRef) {
        let state = self.state(at);
        if !state.is_querying() {
            return;
        }
        self.store.half_mut(at.half_id()).epoch = self.epoch;
        let hop = route::hop(cx.context, &at.mri());
        let now = hop.map(|hop| self.fingerprint(&hop));
        if now == Some(self.store.half(at.half_id()).hop) || state != State::EstablishedDownstream {
            return;
        }
        self.lower_validity(cx, at, Validity::Tentative);
        if now.is_some() {
            self.step(cx, at, Event::Refresh, Facts::default(), &EventData::Nothing);
        }
    }

    /// Lowers the validity of good routing state.
    fn lower_validity(&mut self, cx: &mut InputContext<'_, '_>, at: &HalfRef, status: Validity) {
        let half = self.store.half_mut(at.half_id());
        if half.validity != Validity::Good {
            return;
        }
        half.validity = status;
        self.notify_application(cx, at, Notification::RoutingStatusChange { status, peer: None });
    }

    /// Handles the report of an application that the next hop of a flow may have changed. All its sessions of this flow
    /// are found among those of its destination.
    pub(super) fn invalidate(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        nslpid: u16,
        mri: &Mri,
        status: Validity,
        urgent: bool,
    ) {
        let destination = mri.addresses().1;
        let mut next = self.store.by_destination.get(destination).unwrap_or(NONE);
        while let Some(state) = self.store.states.get(next as usize) {
            let index = next;
            next = state.next;
            let (key, direction) = (state.key, mri.direction());
            let half = state.half(direction);
            if key.nslpid != nslpid
                || key.mri(direction) != *mri
                || half.state != State::EstablishedDownstream
            {
                continue;
            }
            let mut at = HalfRef { key, direction, index };
            // No notification: the change came from the application (RFC 5971 section 7.1.3).
            self.store.half_mut(at.half_id()).validity = status;
            let event = match status {
                Validity::Good => continue,
                Validity::Tentative => Event::Refresh,
                Validity::Bad => Event::Invalidate,
            };
            if urgent {
                self.step(cx, &mut at, event, Facts::default(), &EventData::Nothing);
            }
        }
    }
}
