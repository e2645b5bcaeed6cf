//! Aggregates: one reservation for many flows.
//!
//! An *aggregating node* keeps each flow as ever, and appends to each of its messages a note of the aggregate that the
//! flow is part of: which packets, and what all its flows need together. A node further on that is set to it keeps
//! the aggregate only, and takes each flow's message for a refresh of it. There is no node that takes aggregates apart:
//! beyond the last one that cares, each message is what it always was.
//!
//! # Joining and leaving while packets flow
//!
//! A flow that has a reservation of its own when the first note about it comes is *folded*: the aggregate grows by what
//! the note says, or at least by what the flow has, before the flow's own reservation goes. A flow that leaves is announced
//! for some messages (LEAVES), so that nodes further on shrink the aggregate and reserve for the flow in one step.
//!
//! # Refusals
//!
//! Where an aggregate cannot grow to what a note says, the flow that is new (RAISES, until its message has come back, or
//! has come again) is treated by itself, and refused by itself if it must be. Other flows are not made to suffer:
//! they keep what the aggregate has.
//!
//! Aggregates are of the forward direction.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::boomerang::iana::aggregation_flag;
use earmark_wire::boomerang::{Aggregation, Editor, Keys, OptionFlags, OptionItem, append};
use earmark_wire::icmp::PseudoHeader;

use crate::admission::{AccessDecision, Grant};
use crate::api::{Change, Direction, Event, Selector};
use crate::config::AggregateRule;
use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Outcome, Passing};
use crate::participation::counted;
use crate::route::{follow, route};
use crate::state::{Half, Index};
use crate::store::Key;

/// With how many of its messages a flow is announced to leave.
const FAREWELLS: u8 = 3;
/// The slot of the forward half.
const FORWARD: usize = Direction::Forward as usize;

/// The aggregates that this node makes.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    /// Members name them by their place, so none moves. A place that is not in use is taken by the next one.
    list: Vec<Aggregate>,
}

#[derive(Debug)]
struct Aggregate {
    name: String,
    selector: Selector,
    /// What the note calls the packets.
    keys: Keys,
    mask: Keys,
    /// Bits per second; see [`AggregateRule::step`].
    step: u64,
    /// Whether flows may join.
    active: bool,
    members: u32,
    /// What the members have.
    total: u64,
    /// What the notes say.
    announced: u64,
}

/// The place of a flow in an aggregate of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    aggregate: u32,
    /// What it counts for; nothing while it leaves.
    rate: u32,
    /// Whether its message has come back, or has come again.
    settled: bool,
    /// How often it is still announced to leave; zero while it stays.
    farewells: u8,
}

impl Aggregates {
    pub(crate) fn new(rules: &[AggregateRule]) -> Aggregates {
        let mut aggregates = Aggregates::default();
        aggregates.replace(rules);
        aggregates
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// These are the rules from now on. Flows of those that are no more will leave, each with its next message.
    pub(crate) fn replace(&mut self, rules: &[AggregateRule]) {
        for aggregate in &mut self.list {
            let same = |rule: &&AggregateRule| {
                rule.name == aggregate.name && rule.selector == aggregate.selector
            };
            let rule = rules.iter().find(same);
            aggregate.active = rule.is_some();
            aggregate.step = rule.map_or(aggregate.step, |rule| rule.step.as_bps());
        }
        for rule in rules {
            let known = |a: &Aggregate| a.name == rule.name && a.selector == rule.selector;
            if self.list.iter().any(known) {
                continue;
            }
            let Some(aggregate) = Aggregate::new(rule) else { continue };
            match self.list.iter_mut().find(|a| !a.active && a.members == 0) {
                Some(place) => *place = aggregate,
                None => self.list.push(aggregate),
            }
        }
    }

    /// The aggregate that packets are to be part of: the first that has them all.
    fn aggregate_for(&self, selector: &Selector) -> Option<u32> {
        let has = |a: &Aggregate| a.active && a.selector.contains(selector);
        self.list.iter().position(has).map(|place| place as u32)
    }
}

impl Aggregate {
    fn new(rule: &AggregateRule) -> Option<Aggregate> {
        let (keys, shape) = rule.selector.keys();
        let mask = shape.keys(keys.family().ok()?).ok()?;
        Some(Aggregate {
            name: rule.name.clone(),
            selector: rule.selector,
            keys,
            mask,
            step: rule.step.as_bps(),
            active: true,
            members: 0,
            total: 0,
            announced: 0,
        })
    }

    /// A member that counted for `before` counts for `after` now. Notes say whole steps, and shrink by two at least, so
    /// that a flow that comes and goes does not make them swing.
    fn count(&mut self, before: u32, after: u32) {
        self.total = self.total - u64::from(before) + u64::from(after);
        let needed = match self.step {
            0 => self.total,
            step => self.total.div_ceil(step) * step,
        };
        if needed > self.announced || needed + 2 * self.step <= self.announced {
            self.announced = needed;
        }
    }
}

/// The aggregating node.
impl Boomerang {
    /// A message of others on its way through a node that has to do with aggregates.
    pub(crate) fn pass_by_with_aggregates<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
    ) {
        // A release takes the session away, but its aggregate has to be told of further on.
        let before = self.member_of(passing);
        let outcome = match self.note_in(passing) {
            Some(note) => self.treat_as_part(cx, passing, &note),
            None => self.treat(cx, passing),
        };
        let note = match passing.direction {
            Direction::Forward => self.note_for(cx, passing, &outcome, before),
            Direction::Reverse => {
                self.settle_member(passing, &outcome);
                None
            }
        };
        let note = note.map(OptionItem::Aggregation);
        let Some(mut how) = self.onward(cx, datagram, outcome.interface) else { return };
        follow(cx, passing, &mut how);
        let (length, family) = (datagram.payload.len(), passing.view.family());
        let room = note.map_or(0, |note| note.buffer_len(family));
        let record = counted(cx.context, datagram, &passing.view, passing.direction, &outcome);
        let message = cx.out.send(how, length + room);
        message[..length].copy_from_slice(datagram.payload);
        outcome.edits.apply(message, &passing.view);
        if let Some((at, record)) = record {
            Editor::new(message, &passing.view).set_participation(at, &record);
        }
        let ends = PseudoHeader::of(datagram.source, datagram.destination);
        if let (Some(note), Some(ends)) = (note, ends) {
            // The room was made for it, and the family is that of the session.
            let appended = append(message, length, ends, &note, family);
            debug_assert!(appended.is_ok(), "{appended:?}");
        }
    }

    /// The session of a message and its place in an aggregate.
    fn member_of(&mut self, passing: &Passing<'_>) -> Option<(Index, Option<Member>)> {
        let index = self.find(passing)?;
        let extra = self.store.session(index).extra.as_ref();
        Some((index, extra.and_then(|extra| extra.member)))
    }

    /// The session of a message, if there is one.
    fn find(&self, passing: &Passing<'_>) -> Option<Index> {
        let number = self.store.masks.find(passing.view.mask_octets())?;
        let mask = self.store.masks.mask(number);
        self.store.look_up(&Key::new(number, mask, passing.view.classifier_octets())).ok()
    }

    /// Brings the flow's place in an aggregate up to date; what to append to its message.
    fn note_for<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        outcome: &Outcome,
        before: Option<(Index, Option<Member>)>,
    ) -> Option<Aggregation> {
        // Behind an option that nobody knows here nothing could be found.
        let readable = passing.view.options().check().is_ok()
            && !passing.view.options().iter().any(|o| matches!(o, OptionItem::Unknown { .. }));
        if !readable {
            return None;
        }
        let hop = || route(cx, passing).map(|hop| hop.interface);
        let interface = outcome.interface.or_else(hop);
        let Some((index, member)) = self.member_of(passing) else {
            // It was released just now, and counts no more.
            let member = before.and_then(|(_, member)| member)?;
            let leaves = if member.farewells > 0 { aggregation_flag::LEAVES } else { 0 };
            return self.note(cx, passing, interface, member.aggregate, leaves);
        };
        let rate = self.store.session(index).half_at(FORWARD).rate;
        let changes_nothing = outcome.edits.nack || passing.view.flags().is_nack();
        let mut member = match member {
            Some(member) => member,
            None if changes_nothing || rate == 0 => return None,
            None => {
                let aggregate = self.aggregates.aggregate_for(&self.selector(index)?)?;
                self.aggregates.list[aggregate as usize].members += 1;
                Member { aggregate, rate: 0, settled: false, farewells: 0 }
            }
        };
        let aggregate = &mut self.aggregates.list[member.aggregate as usize];
        if outcome.edits.nack {
            return None;
        }
        if aggregate.active {
            let comes_again = member.rate == rate && member.farewells == 0;
            member.settled = comes_again || (member.settled && rate < member.rate);
            aggregate.count(member.rate, rate);
            (member.rate, member.farewells) = (rate, 0);
        } else if member.farewells == 0 {
            aggregate.count(member.rate, 0);
            (member.rate, member.farewells) = (0, FAREWELLS);
        } else {
            member.farewells -= 1;
        }
        let number = member.aggregate;
        let gone = !aggregate.active && member.farewells == 0;
        if gone {
            aggregate.members -= 1;
        }
        let extra = self.store.session_mut(index).extra.get_or_insert_default();
        extra.member = (!gone).then_some(member);
        let raises = if member.settled { 0 } else { aggregation_flag::RAISES };
        let flags = if member.farewells > 0 { aggregation_flag::LEAVES } else { raises };
        if gone { None } else { self.note(cx, passing, interface, number, flags) }
    }

    /// The note of an aggregate for a message that leaves through `interface`.
    fn note<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        interface: Option<InterfaceId>,
        number: u32,
        flags: u16,
    ) -> Option<Aggregation> {
        let aggregate = &self.aggregates.list[number as usize];
        // The node is known by its first address on the way out.
        let like = aggregate.keys.destination;
        let node = cx.context.interfaces.by_id(interface?)?.address_like(like)?;
        let same_family = aggregate.keys.family() == Ok(passing.view.family());
        same_family.then(|| Aggregation {
            flags: OptionFlags(flags),
            node,
            transaction_id: number,
            classifier: aggregate.keys,
            mask: aggregate.mask,
            rate: u32::try_from(aggregate.announced).unwrap_or(u32::MAX),
        })
    }

    /// The message of a flow has come back through this node, and nobody has refused.
    fn settle_member(&mut self, passing: &Passing<'_>, outcome: &Outcome) {
        if passing.view.flags().is_nack() || outcome.edits.nack {
            return;
        }
        let Some(index) = self.find(passing) else { return };
        if let Some(extra) = &mut self.store.session_mut(index).extra
            && let Some(member) = &mut extra.member
        {
            member.settled = true;
        }
    }

    /// A session ends, and counts no more.
    pub(crate) fn leave_aggregate(&mut self, index: Index) {
        let extra = self.store.session_mut(index).extra.as_mut();
        let Some(member) = extra.and_then(|extra| extra.member.take()) else { return };
        let aggregate = &mut self.aggregates.list[member.aggregate as usize];
        aggregate.count(member.rate, 0);
        aggregate.members -= 1;
    }
}

/// The node further on, which keeps aggregates only.
impl Boomerang {
    /// The note in a message, if this node heeds it: that of the nearest aggregating node.
    fn note_in(&self, passing: &Passing<'_>) -> Option<Aggregation> {
        if !self.config.aggregate_only || passing.direction == Direction::Reverse {
            return None;
        }
        let notes = passing.view.options().iter().filter_map(|option| match option {
            OptionItem::Aggregation(note) => Some(note),
            _ => None,
        });
        notes.last()
    }

    /// The rules for a message whose flow is part of an aggregate.
    fn treat_as_part<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        note: &Aggregation,
    ) -> Outcome {
        let interface = route(cx, passing).map(|hop| hop.interface);
        let grant = self.find_aggregate(passing, note);
        let (Some(interface), Some(mut grant)) = (interface, grant) else {
            return self.treat(cx, passing);
        };
        let held = self.held_by(&grant);
        // An aggregate has one link. Flows of it that leave elsewhere are treated by themselves.
        let elsewhere = held.is_there() && held.interface != interface;
        if elsewhere || !crate::transit::takes_part(cx, interface) {
            return self.treat(cx, passing);
        }
        if note.flags.leaves() || passing.is_release() {
            return self.treat_apart(cx, passing, note, &grant);
        }
        if passing.view.flags().is_nack() {
            self.prolong_aggregate(cx, passing, &grant);
            return self.treat(cx, passing);
        }
        let own = self.find(passing).filter(|&i| self.store.session(i).half_at(FORWARD).is_there());
        let as_node = Passing { initiator: note.node, ..*passing };
        let place = (FORWARD, interface);
        let mut asked = AccessDecision::NotYet;
        let whole = self.admit(cx, &as_node, place, &mut grant, note.rate, &mut asked);
        if whole.is_err() && own.is_none() && (note.flags.raises() || !held.is_there()) {
            return self.treat(cx, passing);
        }
        if let Some(own) = own {
            if whole.is_err() && !self.fold(cx, &as_node, place, &mut grant, own) {
                return self.treat(cx, passing);
            }
            self.release_half(cx, own, FORWARD, Change::Aggregated);
            self.remove_if_empty(cx, own);
        }
        self.prolong_aggregate(cx, passing, &grant);
        let longest = self.config.max_refresh_interval;
        let mut outcome =
            Outcome { interface: Some(interface), edits: crate::message::Edits::NONE };
        outcome.edits.interval = (passing.view.refresh_interval() > longest).then_some(longest);
        outcome
    }

    /// Lets an aggregate grow by what a flow of it has by itself, which is given back for it. The claim goes over at one
    /// stroke; traffic control hears of the larger aggregate first.
    fn fold<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        as_node: &Passing<'_>,
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
        let mut asked = AccessDecision::Already(Ok(self.store.asker(as_node.initiator)));
        let granted = self.admit(cx, as_node, place, grant, sum, &mut asked).is_ok();
        if !granted {
            // What was given up a moment ago is still there.
            let back = cx.context.ledger.change(half.claim, self.demand(half.rate));
            debug_assert!(back.is_ok(), "{back:?}");
        }
        granted
    }

    /// A flow leaves its aggregate, which shrinks; unless it ends altogether, it gets a reservation of its own.
    fn treat_apart<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        note: &Aggregation,
        grant: &Grant,
    ) -> Outcome {
        let Grant::Known(index) = *grant else { return self.treat(cx, passing) };
        let held = self.store.session(index).half_at(FORWARD);
        let shrinks = note.rate < held.rate;
        if shrinks {
            // Less is always granted. Traffic control hears of it last.
            let granted = cx.context.ledger.change(held.claim, self.demand(note.rate));
            debug_assert!(granted.is_ok() || !held.is_there(), "{granted:?}");
        }
        let outcome = self.treat(cx, passing);
        if shrinks && note.rate == 0 {
            self.release_session(cx, index, Change::Released);
        } else if shrinks {
            self.store.session_mut(index).half_at_mut(FORWARD).rate = note.rate;
            self.install(cx, index, FORWARD);
            self.tell(cx, index, FORWARD, Change::Changed);
        }
        if note.rate != 0 {
            self.prolong_aggregate(cx, passing, grant);
        }
        outcome
    }

    /// The aggregate of a note, or the place of a new one; `None` where its mask makes no sense or is one too many, or where
    /// the aggregate is another node's.
    fn find_aggregate(&mut self, passing: &Passing<'_>, note: &Aggregation) -> Option<Grant> {
        let family = passing.view.family();
        let shape = note.shape()?;
        let mut octets = [[0; 40]; 2];
        for (octets, keys) in octets.iter_mut().zip([note.classifier, note.mask]) {
            keys.emit_to(octets).ok()?;
        }
        let [classifier, mask] = octets.each_ref().map(|octets| &octets[..family.keys_len()]);
        let number = match self.store.masks.find(mask) {
            Some(number) => number,
            None => self.store.masks.enter(family, shape, self.config.limits.masks)?,
        };
        let key = Key::new(number, self.store.masks.mask(number), classifier);
        match self.store.look_up(&key) {
            Ok(index) => (self.store.initiator(index) == note.node).then_some(Grant::Known(index)),
            Err(place) => Some(Grant::New { key, place, prime: 0 }),
        }
    }

    fn held_by(&self, grant: &Grant) -> Half {
        match *grant {
            Grant::Known(index) => self.store.session(index).half_at(FORWARD),
            Grant::New { .. } => Half::NONE,
        }
    }

    /// A message of one of its flows keeps an aggregate alive, as long as the one that promises the longest interval.
    fn prolong_aggregate<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        grant: &Grant,
    ) {
        let Grant::Known(index) = *grant else { return };
        let interval = passing.view.refresh_interval().min(self.config.max_refresh_interval);
        let half = self.store.session(index).half_at(FORWARD);
        let ends = self.config.end_of_life(cx.now, interval);
        if half.expires_at == earmark_core::Time::MAX || half.expires_at < ends {
            self.prolong(cx.now, index, FORWARD, interval);
        }
    }
}

impl Selector {
    /// Whether all packets of `other` are among these.
    fn contains(&self, other: &Selector) -> bool {
        let wider = |wide: earmark_core::Prefix, narrow: earmark_core::Prefix| {
            wide.length() <= narrow.length() && wide.contains(narrow.address())
        };
        wider(self.source, other.source)
            && wider(self.destination, other.destination)
            && (self.protocol.is_none() || self.protocol == other.protocol)
            && (self.source_port.is_none() || self.source_port == other.source_port)
            && (self.destination_port.is_none() || self.destination_port == other.destination_port)
    }
}
