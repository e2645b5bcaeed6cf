//! Route changes: finds the routing states whose next hop has changed, and queries for their peers again (RFC 5971
//! sections 7.1.2 and 7.1.3).
//!
//! A changed route names a range of destinations. An index lists routing states by destination, and those in the range
//! are checked, a few for each input. After a change of an interface, a routing state is checked at its next use. A
//! fingerprint of the hop of the last Query is kept: if it is unchanged, nothing is done. A Response that would install a
//! peer counts only if the flow still takes the hop of its Query, and likewise an association that was opened for it.

use alloc::vec::Vec;

use earmark_core::{CloseReason, HostEvent, InterfaceId};
use earmark_wire::gist::{Direction, Mri};

use super::Gist;
use super::association::Stage;
use super::event_data::EventData;
use super::machine::{Event, Facts, State};
use super::state::{HalfRef, Index, NO_HOP, NONE};
use super::translation::peer_form;
use crate::input_context::InputContext;
use crate::nslp::{Notification, Validity};

/// Limit of routing states that are checked for one input; the rest is due again at once.
const MAX_CHECKS_PER_INPUT: usize = 256;

impl Gist {
    /// Handles a change of the host.
    pub(crate) fn host_changes(&mut self, cx: &mut InputContext<'_, '_>, event: &HostEvent) {
        match *event {
            HostEvent::RouteChanged(prefix) => {
                self.route_changes = self.route_changes.wrapping_add(1);
                self.changed_ranges.add(cx.now, prefix);
            }
            HostEvent::InterfaceChanged(interface) => {
                self.route_changes = self.route_changes.wrapping_add(1);
                self.epoch = self.epoch.wrapping_add(1);
                if cx.context.interfaces.by_id(interface).is_none() {
                    self.end_associations_behind(cx, interface);
                }
            }
            // Multicast flows have no next hop to be queried.
            HostEvent::MulticastRouteChanged { .. }
            | HostEvent::TrafficControlRefused { .. }
            | HostEvent::Grantable { .. }
            | HostEvent::Displaced(_)
            | HostEvent::Adopted
            | HostEvent::Filter(_) => {}
        }
    }

    /// Closes the associations with the peers behind an interface that is gone. A peer is one behind its interface: if the
    /// interface appears again with another index, its Confirm over an old association would be that of another peer.
    fn end_associations_behind(&mut self, cx: &mut InputContext<'_, '_>, interface: InterfaceId) {
        let associations = self.associations.slab.iter();
        let behind: Vec<Index> = associations
            .filter(|(_, one)| one.interface == interface && !matches!(one.stage, Stage::Closed(_)))
            .map(|(index, _)| index as Index)
            .collect();
        for index in behind {
            self.end_association(cx, index, CloseReason::Unreachable);
        }
    }

    /// Checks some of the routing states in changed ranges.
    pub(super) fn check_changed_ranges(&mut self, cx: &mut InputContext<'_, '_>) {
        for _ in 0..MAX_CHECKS_PER_INPUT {
            let Some(index) = self.changed_ranges.next_state(&self.store) else { return };
            let key = self.store.state(index).key;
            let mut at = HalfRef { key, direction: Direction::Downstream, index };
            self.check_route(cx, &mut at);
        }
    }

    /// Checks whether the next hop of a half has changed; if so, queries for the peer again. Until the Response,
    /// messages go to the old peer of an established half. A handshake under way is abandoned: its messages wait for the
    /// next one.
    pub(super) fn check_route(&mut self, cx: &mut InputContext<'_, '_>, at: &mut HalfRef) {
        if !self.state(at).is_querying() {
            return;
        }
        self.store.half_mut(at.half_id()).epoch = self.epoch;
        let now = self.present_hop(cx, at);
        if now == self.store.half(at.half_id()).hop {
            return;
        }
        self.lower_validity(cx, at, Validity::Tentative);
        if now == NO_HOP {
            // Whatever hop comes next, the peer is queried for.
            self.store.half_mut(at.half_id()).hop = NO_HOP;
            return;
        }
        self.step(cx, at, Event::Refresh, Facts::default(), &EventData::Nothing);
    }

    /// Returns whether the flow now takes another hop than the last Query of a half. Usually no route has changed since.
    #[inline]
    pub(super) fn is_rerouted(&self, cx: &InputContext<'_, '_>, at: &HalfRef) -> bool {
        let half = self.store.get(at.half_id());
        half.is_some_and(|half| {
            half.route_changes != self.route_changes && self.takes_other_hop(cx, at, half.hop)
        })
    }

    #[cold]
    fn takes_other_hop(&self, cx: &InputContext<'_, '_>, at: &HalfRef, hop: u32) -> bool {
        let now = self.present_hop(cx, at);
        now != NO_HOP && now != hop
    }

    /// Returns the fingerprint of the hop that the flow takes now.
    fn present_hop(&self, cx: &InputContext<'_, '_>, at: &HalfRef) -> u32 {
        let mri = peer_form(cx, at.key.nslpid, at.mri());
        self.hop(cx, at, &mri).map_or(NO_HOP, |hop| self.fingerprint(&hop))
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
