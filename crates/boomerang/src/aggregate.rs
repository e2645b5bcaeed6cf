//! Aggregates: one reservation for many flows.
//!
//! An *aggregating node* keeps each flow as before, and appends a note of the flow's aggregate to each of its
//! messages: the packets of the aggregate, and the rate that all its flows need together. A downstream node that is
//! configured for it keeps only the aggregate, and takes each flow's message as a refresh of it. No node
//! de-aggregates: beyond the last node that heeds notes, each message has its usual meaning.
//!
//! # Joining and leaving while packets flow
//!
//! A flow that has a reservation of its own when the first note about it comes is *folded*: the aggregate grows by
//! what the note asks, or at least by what the flow has, before the flow's own reservation is released. A flow that
//! leaves is announced in several messages (LEAVES), so that downstream nodes shrink the aggregate and reserve for
//! the flow in one step.
//!
//! # Refusals
//!
//! If an aggregate cannot grow to the rate of a note, the new flow (RAISES, until its message has come back or was
//! repeated) is processed by itself, and refused by itself if necessary. Other flows are not affected: they keep what
//! the aggregate has.
//!
//! Aggregates exist in the forward direction only.

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::boomerang::iana::aggregation_flag;
use earmark_wire::boomerang::{Aggregation, Editor, OptionFlags, OptionItem, append};
use earmark_wire::icmp::PseudoHeader;

use crate::aggregates::Member;
use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Boomerang;
use crate::message::{Outcome, TransitMessage};
use crate::participation::counted_record;
use crate::route::{follow_flow_route, route};
use crate::selector::Direction;
use crate::state::{Half, Index, flag};
use crate::store::Grant;

/// Number of messages in which a flow is announced to leave.
const LEAVE_ANNOUNCEMENTS: u8 = 3;
/// Slot of the forward half.
const FORWARD: usize = Direction::Forward as usize;

/// The aggregating node.
impl Boomerang {
    /// Processes a message in transit through a node with aggregates.
    pub(crate) fn transit_with_aggregates<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        transit: &TransitMessage<'_>,
    ) {
        // A release removes the session, but downstream nodes still have to be sent its aggregate.
        let before = self.member_of(transit);
        let outcome = match self.note_in(transit) {
            Some(note) => self.process_member(cx, transit, &note),
            None => self.process(cx, transit),
        };
        let outcome = self.expect_reply_of_member(cx, transit, outcome);
        let note = match transit.direction {
            Direction::Forward => self.note_for(cx, transit, &outcome, before),
            Direction::Reverse => {
                self.confirm_member(transit, &outcome);
                None
            }
        };
        let note = note.map(OptionItem::Aggregation);
        let Some(mut how) = self.transit_outgoing(cx, datagram, outcome.interface) else { return };
        follow_flow_route(cx, transit, &mut how);
        let (length, family) = (datagram.payload.len(), transit.view.family());
        let room = note.map_or(0, |note| note.buffer_len(family));
        let record =
            counted_record(cx.context, datagram, &transit.view, transit.direction, &outcome);
        let message = cx.out.send(how, length + room);
        message[..length].copy_from_slice(datagram.payload);
        outcome.edits.apply(message, &transit.view);
        if let Some((at, record)) = record {
            Editor::new(message, &transit.view).set_participation(at, &record);
        }
        let ends = PseudoHeader::of(datagram.source, datagram.destination);
        if let (Some(note), Some(ends)) = (note, ends) {
            // The buffer has room for it, and the family is that of the session.
            let appended = append(message, length, ends, &note, family);
            debug_assert!(appended.is_ok(), "{appended:?}");
        }
    }

    /// Returns the session of a message and its membership in an aggregate.
    fn member_of(&mut self, transit: &TransitMessage<'_>) -> Option<(Index, Option<Member>)> {
        let index =
            self.store.find(transit.view.classifier_octets(), transit.view.mask_octets())?;
        let extra = self.store.session(index).extra.as_ref();
        Some((index, extra.and_then(|extra| extra.member)))
    }

    /// Updates the flow's membership in an aggregate. Returns the note to append to its message.
    fn note_for<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        outcome: &Outcome,
        before: Option<(Index, Option<Member>)>,
    ) -> Option<Aggregation> {
        // Nothing behind an option that this node does not know could be found.
        let readable = transit.view.options().check().is_ok()
            && !transit.view.options().iter().any(|o| matches!(o, OptionItem::Unknown { .. }));
        if !readable {
            return None;
        }
        let hop = || route(cx, transit).map(|hop| hop.interface);
        let interface = outcome.interface.or_else(hop);
        let Some((index, member)) = self.member_of(transit) else {
            // The session was released just now and no longer counts.
            let member = before.and_then(|(_, member)| member)?;
            let leaves = if member.announcements_left > 0 { aggregation_flag::LEAVES } else { 0 };
            return self.note(cx, transit, interface, member.aggregate, leaves);
        };
        let rate = self.store.session(index).half_at(FORWARD).rate;
        let changes_nothing = outcome.edits.nack || transit.view.flags().is_nack();
        let mut member = match member {
            Some(member) => member,
            None if changes_nothing || rate == 0 => return None,
            None => {
                let aggregate = self.aggregates.aggregate_for(&self.store.selector(index)?)?;
                self.aggregates.list[aggregate as usize].members += 1;
                Member { aggregate, rate: 0, settled: false, announcements_left: 0 }
            }
        };
        let aggregate = &mut self.aggregates.list[member.aggregate as usize];
        if outcome.edits.nack {
            return None;
        }
        if aggregate.active {
            let comes_again = member.rate == rate && member.announcements_left == 0;
            member.settled = comes_again || (member.settled && rate < member.rate);
            aggregate.count(member.rate, rate);
            (member.rate, member.announcements_left) = (rate, 0);
        } else if member.announcements_left == 0 {
            aggregate.count(member.rate, 0);
            (member.rate, member.announcements_left) = (0, LEAVE_ANNOUNCEMENTS);
        } else {
            member.announcements_left -= 1;
        }
        let number = member.aggregate;
        let gone = !aggregate.active && member.announcements_left == 0;
        if gone {
            aggregate.members -= 1;
        }
        let extra = self.store.session_mut(index).extra.get_or_insert_default();
        extra.member = (!gone).then_some(member);
        let raises = if member.settled { 0 } else { aggregation_flag::RAISES };
        let flags = if member.announcements_left > 0 { aggregation_flag::LEAVES } else { raises };
        if gone { None } else { self.note(cx, transit, interface, number, flags) }
    }

    /// Returns the note of an aggregate for a message that leaves through `interface`.
    fn note<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        interface: Option<InterfaceId>,
        number: u32,
        flags: u16,
    ) -> Option<Aggregation> {
        let aggregate = &self.aggregates.list[number as usize];
        // The node is named by its first address on the outgoing interface.
        let like = aggregate.keys.destination;
        let node = cx.context.interfaces.by_id(interface?)?.address_like(like)?;
        let same_family = aggregate.keys.family() == Ok(transit.view.family());
        same_family.then(|| Aggregation {
            flags: OptionFlags(flags),
            node,
            transaction_id: number,
            classifier: aggregate.keys,
            mask: aggregate.mask,
            rate: u32::try_from(aggregate.announced).unwrap_or(u32::MAX),
        })
    }

    /// Marks a member as settled: its message has come back through this node without a refusal.
    fn confirm_member(&mut self, transit: &TransitMessage<'_>, outcome: &Outcome) {
        if transit.view.flags().is_nack() || outcome.edits.nack {
            return;
        }
        let Some(index) =
            self.store.find(transit.view.classifier_octets(), transit.view.mask_octets())
        else {
            return;
        };
        if let Some(extra) = &mut self.store.session_mut(index).extra
            && let Some(member) = &mut extra.member
        {
            member.settled = true;
        }
    }
}

/// The node further on, which keeps aggregates only.
impl Boomerang {
    /// Returns the note in a message, if this node heeds it: the note of the nearest aggregating node. Only routers of
    /// the same administration aggregate.
    fn note_in(&self, transit: &TransitMessage<'_>) -> Option<Aggregation> {
        if !self.config.aggregate_only
            || transit.direction == Direction::Reverse
            || !transit.from_core
        {
            return None;
        }
        let notes = transit.view.options().iter().filter_map(|option| match option {
            OptionItem::Aggregation(note) => Some(note),
            _ => None,
        });
        notes.last()
    }

    /// Processes a message whose flow is part of an aggregate.
    fn process_member<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        note: &Aggregation,
    ) -> Outcome {
        let interface = route(cx, transit).map(|hop| hop.interface);
        let grant = self.find_aggregate(cx, transit, note);
        let (Some(interface), Some(mut grant)) = (interface, grant) else {
            return self.process(cx, transit);
        };
        let held = self.held_by(&grant);
        // An aggregate has one link. Its flows that leave elsewhere are processed by themselves.
        let elsewhere = held.is_there() && held.interface != interface;
        if elsewhere || !cx.context.interfaces.takes_part(interface) {
            return self.process(cx, transit);
        }
        if note.flags.leaves() || transit.is_release() {
            return self.process_leaving_member(cx, transit, note, &grant);
        }
        if transit.view.flags().is_nack() {
            self.extend_aggregate_lifetime(cx, transit, &grant);
            return self.process(cx, transit);
        }
        let own = self
            .store
            .find(transit.view.classifier_octets(), transit.view.mask_octets())
            .filter(|&i| self.store.session(i).half_at(FORWARD).is_there());
        let as_node = TransitMessage { initiator: note.node, ..*transit };
        let place = (FORWARD, interface);
        let mut decision = None;
        let whole = self.admit(cx, &as_node, place, &mut grant, note.rate, &mut decision);
        if let Grant::Known(index) = grant {
            // Aggregating nodes are routers of the same administration, and need no proof.
            self.store.session_mut(index).flags &= !flag::UNPROVEN;
        }
        if whole.is_err() && own.is_none() && (note.flags.raises() || !held.is_there()) {
            return self.process(cx, transit);
        }
        if let Some(own) = own {
            if whole.is_err() && !self.fold(cx, &as_node, place, &mut grant, own) {
                return self.process(cx, transit);
            }
            self.release_half(cx, own, FORWARD, Change::Aggregated);
            self.remove_if_empty(cx, own);
        }
        self.extend_aggregate_lifetime(cx, transit, &grant);
        let longest = self.config.max_refresh_interval;
        let mut outcome =
            Outcome { interface: Some(interface), edits: crate::message::Edits::NONE };
        outcome.edits.interval = (transit.view.refresh_interval() > longest).then_some(longest);
        outcome
    }

    /// Folds a flow's own reservation into an aggregate, which grows by it. Both claims change in one step; traffic
    /// control receives the larger aggregate first.
    fn fold<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        as_node: &TransitMessage<'_>,
        place: (usize, InterfaceId),
        grant: &mut Grant,
        own: Index,
    ) -> bool {
        let half = self.store.session(own).half_at(FORWARD);
        let Some(sum) = self.held_by(grant).rate.checked_add(half.rate) else { return false };
        let nothing = self.demand(0);
        if half.interface != place.1 || cx.context.ledger.change(half.claim, nothing).is_err() {
            return false;
        }
        let mut decision = Some(Ok(self.store.initiator_entry(
            as_node.initiator,
            as_node.request_arrival(),
            !as_node.from_core,
        )));
        let granted = self.admit(cx, as_node, place, grant, sum, &mut decision).is_ok();
        if !granted {
            // The bandwidth released a moment ago is still free.
            let back = cx.context.ledger.change(half.claim, self.demand(half.rate));
            debug_assert!(back.is_ok(), "{back:?}");
        }
        granted
    }

    /// Processes a message of a flow that leaves its aggregate. The aggregate shrinks; unless the flow ends as well,
    /// it gets a reservation of its own.
    fn process_leaving_member<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        note: &Aggregation,
        grant: &Grant,
    ) -> Outcome {
        let Grant::Known(index) = *grant else { return self.process(cx, transit) };
        let held = self.store.session(index).half_at(FORWARD);
        let shrinks = note.rate < held.rate;
        if shrinks {
            // A decrease is always granted. Traffic control receives it last.
            let granted = cx.context.ledger.change(held.claim, self.demand(note.rate));
            debug_assert!(granted.is_ok() || !held.is_there(), "{granted:?}");
        }
        let outcome = self.process(cx, transit);
        if shrinks && note.rate == 0 {
            self.release_session(cx, index, Change::Released);
        } else if shrinks {
            self.store.session_mut(index).half_at_mut(FORWARD).rate = note.rate;
            self.install(cx, index, FORWARD);
            self.notify_reservation(cx, index, FORWARD, Change::Changed);
        }
        if note.rate != 0 {
            self.extend_aggregate_lifetime(cx, transit, grant);
        }
        outcome
    }

    /// Returns the aggregate of a note, or the entry for a new one; `None` if its mask is invalid or over the limit,
    /// or if the aggregate is of another origin.
    fn find_aggregate<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        note: &Aggregation,
    ) -> Option<Grant> {
        let family = transit.view.family();
        let shape = note.shape()?;
        let mut octets = [[0; 40]; 2];
        for (octets, keys) in octets.iter_mut().zip([note.classifier, note.mask]) {
            keys.emit_to(octets).ok()?;
        }
        let [classifier, mask] = octets.each_ref().map(|octets| &octets[..family.keys_len()]);
        let number = match self.store.masks.find(mask) {
            Some(number) => number,
            None => self.store.masks.insert(family, shape, self.config.limits.masks)?,
        };
        match self.store.grant(number, classifier) {
            Grant::Known(index) => {
                let arrival = self.store.request_arrival(index);
                let is_origin = self.store.initiator(index) == note.node
                    && cx.context.may_concern(transit.arrival, arrival);
                is_origin.then_some(Grant::Known(index))
            }
            grant => Some(grant),
        }
    }

    /// Expects the reply of a flow that has no session here, because its aggregate has the reservation.
    fn expect_reply_of_member<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        outcome: Outcome,
    ) -> Outcome {
        if transit.direction == Direction::Reverse || self.member_of(transit).is_some() {
            return outcome;
        }
        match self.find_or_vacant(transit) {
            Ok(grant) => self.expect_reply(cx, transit, grant, outcome),
            Err(_) => outcome,
        }
    }

    fn held_by(&self, grant: &Grant) -> Half {
        match *grant {
            Grant::Known(index) => self.store.session(index).half_at(FORWARD),
            Grant::New { .. } => Half::NONE,
        }
    }

    /// Extends the lifetime of an aggregate by a message of one of its flows; the longest promised interval counts.
    fn extend_aggregate_lifetime<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        grant: &Grant,
    ) {
        let Grant::Known(index) = *grant else { return };
        let interval = transit.view.refresh_interval().min(self.config.max_refresh_interval);
        let half = self.store.session(index).half_at(FORWARD);
        let ends = self.config.expiry_time(cx.now, interval);
        if half.expires_at == earmark_core::Time::MAX || half.expires_at < ends {
            self.extend_lifetime(cx.now, index, FORWARD, interval);
        }
    }
}
