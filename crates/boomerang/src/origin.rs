//! Origin of a message, and the state that it may touch.
//!
//! A message comes from an address and through an interface. Behind an access interface are only the sources that the
//! routes or the settings place there, so nobody there can speak for a node elsewhere. A session remembers the origin of
//! its messages: the initiating node, the far end that the initiating node has addressed, and the arrival interface of
//! each pass. A message of another origin changes nothing, and is dropped and counted.
//!
//! A reply counts only if it comes from the far end that the request was addressed to. A reply without a request that
//! passed here makes no state if it arrives through an access interface; between core routers the two passes may take
//! different paths, so one that arrives through a core interface does.

use core::net::IpAddr;

use earmark_core::{Context, InterfaceId};

use crate::api::Event;
use crate::arrival::{NONE, OWN};
use crate::context::HandlerContext;
use crate::counters::{DropReason, RefusalReason};
use crate::instance::Boomerang;
use crate::lookup::Lookup;
use crate::message::{Origin, Outcome, Refused, TransitMessage};
use crate::selector::{Direction, Selector};
use crate::state::{Index, Session, flag};
use crate::store::{Grant, Store};

impl TransitMessage<'_> {
    /// Returns the node that has sent the message to this node: the initiating node, or the far end with its reply.
    fn sender(&self) -> IpAddr {
        if self.is_reply { self.far_end } else { self.initiator }
    }

    /// Returns the interface that the request arrived through; [`NONE`] if this is a reply.
    pub(crate) fn request_arrival(&self) -> InterfaceId {
        if self.is_reply { NONE } else { self.arrival }
    }
}

impl Session {
    /// Returns whether this is the far end that the initiating node has addressed.
    #[inline]
    pub(crate) fn is_far_end(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.far == address.to_bits(),
            IpAddr::V6(address) => {
                self.extra.as_ref().is_some_and(|extra| extra.far_end == Some(address))
            }
        }
    }

    #[inline]
    fn set_far_end(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.far = address.to_bits(),
            IpAddr::V6(address) => {
                self.far = 0;
                self.extra.get_or_insert_default().far_end = Some(address);
            }
        }
    }

    /// Records the origin of the message that creates the session.
    #[inline(always)]
    pub(crate) fn record_origin(&mut self, transit: &TransitMessage<'_>) {
        if !self.is_far_end(transit.far_end) {
            // The initiating node addresses another far end: the way back begins elsewhere.
            self.set_far_end(transit.far_end);
            self.reply_arrival = NONE;
        }
        if transit.is_reply {
            self.reply_arrival = transit.arrival;
        }
    }
}

impl Store {
    /// Returns the arrival interface of the requests of a session; [`NONE`] if none has passed.
    pub(crate) fn request_arrival(&self, index: Index) -> InterfaceId {
        self.sources[self.session(index).source as usize].port
    }

    /// Records the origin of a message that may touch a session.
    #[inline(always)]
    pub(crate) fn record_origin(&mut self, transit: &TransitMessage<'_>, index: Index) {
        self.session_mut(index).record_origin(transit);
        if !transit.is_reply && self.request_arrival(index) != transit.arrival {
            let entry =
                self.initiator_entry(transit.initiator, transit.arrival, !transit.from_core);
            let source = self.join(&entry, transit.initiator);
            let before = core::mem::replace(&mut self.session_mut(index).source, source);
            self.leave(before);
        }
    }
}

impl Boomerang {
    /// Checks whether a message may be processed: whether its source is behind the interface that it arrived through,
    /// and whether its origin may touch the session that it is about.
    ///
    /// # Errors
    /// The reason to drop the message.
    #[inline(always)]
    pub(crate) fn check_origin(
        &self,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        found: Option<Index>,
    ) -> Result<(), DropReason> {
        match found {
            Some(index) if self.is_recorded_origin(transit, index) => Ok(()),
            Some(index) if self.is_first_reply_in_core(transit, index) => Ok(()),
            // Nearly all messages of a session are of its own origin, and in the core nothing else is to be checked.
            None if transit.from_core && transit.origin == Origin::Others => Ok(()),
            _ => self.check_other_origin(context, transit, found),
        }
    }

    /// Returns whether a message is of the origin that was recorded when it was checked.
    #[inline]
    pub(crate) fn is_recorded_origin(&self, transit: &TransitMessage<'_>, index: Index) -> bool {
        let session = self.store.session(index);
        let source = &self.store.sources[session.source as usize];
        let expected = if transit.is_reply { session.reply_arrival } else { source.port };
        expected == transit.arrival
            && source.address == transit.initiator
            && session.is_far_end(transit.far_end)
    }

    /// Returns whether a message is the far end's first reply, through the core interface that requests leave by.
    #[inline]
    fn is_first_reply_in_core(&self, transit: &TransitMessage<'_>, index: Index) -> bool {
        let session = self.store.session(index);
        let source = &self.store.sources[session.source as usize];
        transit.is_reply
            && transit.from_core
            && session.reply_arrival == NONE
            && session.half(Direction::Forward).interface == transit.arrival
            && source.address == transit.initiator
            && session.is_far_end(transit.far_end)
    }

    #[inline(never)]
    fn check_other_origin(
        &self,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        found: Option<Index>,
    ) -> Result<(), DropReason> {
        if transit.origin == Origin::Own {
            return Ok(());
        }
        if transit.origin == Origin::Others && !transit.from_core {
            let sender = transit.sender();
            if context.interfaces.is_local(sender) {
                return Err(DropReason::BadSource);
            }
            if !context.is_behind(sender, transit.arrival) {
                return Err(DropReason::SourceNotBehind);
            }
        }
        match found {
            Some(index) => self.may_touch(context, transit, index),
            None if is_unsolicited(transit) => Err(DropReason::UnsolicitedReply),
            None => Ok(()),
        }
    }

    /// Checks whether the origin of a message may touch a session. A message of another initiating node is refused
    /// later, so that this node learns of it.
    fn may_touch(
        &self,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        index: Index,
    ) -> Result<(), DropReason> {
        let session = self.store.session(index);
        let source = &self.store.sources[session.source as usize];
        let expected = if transit.is_reply { session.reply_arrival } else { source.port };
        let same_initiator = source.address == transit.initiator;
        if same_initiator && expected == transit.arrival {
            return match transit.is_reply && !session.is_far_end(transit.far_end) {
                true => Err(DropReason::WrongFarEnd),
                false => Ok(()),
            };
        }
        if same_initiator {
            return may_move(context, transit, session, expected);
        }
        match is_unsolicited(transit) {
            true => Err(DropReason::UnsolicitedReply),
            false => Ok(()),
        }
    }

    /// Checks whether the packets that a message wants to reserve for come from behind the interface that it arrived
    /// through.
    #[inline]
    pub(crate) fn check_flow(
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
    ) -> Result<(), Refused> {
        match transit.origin != Origin::Others || transit.from_core {
            true => Ok(()),
            false => check_flow_behind(context, transit),
        }
    }

    /// Returns whether a slot holds something of an unproven initiating node.
    #[inline]
    pub(crate) fn is_unproven(&self, index: Index, slot: usize) -> bool {
        let session = self.store.session(index);
        session.flags & flag::UNPROVEN != 0 && session.half_at(slot).is_there()
    }

    /// Marks a session as proven by a message: by a request that its origin has repeated, or by the far end's reply.
    /// `repeated`: the slot held something of an unproven node before.
    #[inline(always)]
    pub(crate) fn prove(
        &mut self,
        transit: &TransitMessage<'_>,
        index: Index,
        (slot, interval): (usize, u8),
        repeated: bool,
        now: earmark_core::Time,
    ) {
        let session = self.store.session_mut(index);
        if session.flags & flag::UNPROVEN == 0 {
            return;
        }
        if repeated {
            session.flags &= !Direction::of_slot(slot).unproven();
        }
        if transit.is_reply && session.flags & flag::FORWARD_UNPROVEN != 0 {
            session.flags &= !flag::FORWARD_UNPROVEN;
            // Only what was cut short is made up for.
            if self.config.expiry_time(now, interval) > now + self.config.unproven_lifetime {
                self.extend_lifetime(now, index, Direction::Forward as usize, interval);
            }
        }
    }

    /// Keeps in mind for a short time that a request has passed which has reserved nothing here, so that its reply is
    /// expected. Needed only where the far end is behind an access interface.
    #[inline]
    pub(crate) fn expect_reply<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        grant: Grant,
        outcome: Outcome,
    ) -> Outcome {
        let passes = matches!(grant, Grant::New { .. })
            && transit.origin == Origin::Others
            && transit.direction == Direction::Forward
            && !transit.toward().is_multicast()
            && !transit.view.flags().is_nack()
            && !transit.is_release()
            && !outcome.edits.nack;
        match !passes || outcome.interface.is_none_or(|interface| cx.context.is_core(interface)) {
            true => outcome,
            false => self.insert_expectation(cx, transit, grant, outcome),
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_expectation<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        grant: Grant,
        outcome: Outcome,
    ) -> Outcome {
        let Grant::New { key, place, prime } = grant else { return outcome };
        let index = match self.check_change((cx.now, cx.context, cx.out), transit, (&grant, 0)) {
            Ok(entry) => self.create(cx.context, transit, key, place, prime, &entry),
            Err(refused) => return Outcome { edits: self.refuse(transit, refused), ..outcome },
        };
        self.store.session_mut(index).flags |= flag::REPLY_EXPECTED;
        self.await_reply(cx.now, index);
        outcome
    }

    /// Sets how long the reply of a request is expected that has reserved nothing here.
    #[inline]
    pub(crate) fn await_reply(&mut self, now: earmark_core::Time, index: Index) {
        let session = self.store.session_mut(index);
        if session.flags & flag::REPLY_EXPECTED != 0 {
            let until = now + self.config.unproven_lifetime;
            session.half_mut(Direction::Reverse).expires_at = until;
            self.store.rearm(index);
        }
    }
}

impl Lookup {
    /// Returns the session that was found.
    pub(crate) fn found(&self) -> Option<Index> {
        match *self {
            Lookup::Found(index) => Some(index),
            _ => None,
        }
    }
}

#[cold]
fn check_flow_behind(context: &Context<'_>, transit: &TransitMessage<'_>) -> Result<(), Refused> {
    let view = &transit.view;
    let Ok(shape) = view.shape() else { return Ok(()) };
    let Selector { source, destination, .. } = Selector::of_keys(&view.classifier(), &shape);
    let packets = if transit.is_reply { destination } else { source };
    match context.is_range_behind(packets, transit.arrival) {
        true => Ok(()),
        false => Err(Refused::without_offer(RefusalReason::FlowNotBehind)),
    }
}

/// Checks whether a message of a session's initiating node or far end may touch the session though it arrived through
/// another interface than `expected`.
#[cold]
fn may_move(
    context: &Context<'_>,
    transit: &TransitMessage<'_>,
    session: &Session,
    mut expected: InterfaceId,
) -> Result<(), DropReason> {
    if transit.is_reply {
        if !session.is_far_end(transit.far_end) {
            return Err(DropReason::WrongFarEnd);
        }
        let forward = session.half(Direction::Forward);
        if expected == NONE && forward.is_there() {
            expected = forward.interface;
        }
    }
    let arrival = transit.arrival;
    // A recording from before the arrival was recorded has none.
    let is_unknown = transit.origin == Origin::Settled && arrival == NONE;
    // The routes between core routers may change, and a host may have moved.
    let has_moved =
        || context.may_concern(arrival, expected) || !context.is_behind(transit.sender(), expected);
    match expected == NONE || is_unknown || (expected != OWN && has_moved()) {
        true => Ok(()),
        false => Err(DropReason::WrongArrival),
    }
}

/// Returns whether a reply asks for something, which it may do only if its request has passed here, or on another path
/// between core interfaces. A refusal and a release ask for nothing.
fn is_unsolicited(transit: &TransitMessage<'_>) -> bool {
    transit.is_reply
        && transit.origin == Origin::Others
        && !transit.from_core
        && !transit.view.flags().is_nack()
        && !transit.is_release()
}
