//! The Confirm: proves the address of a querying node, and is checked against the association that carries it (RFC 5971
//! sections 4.4.1, 5.7.1, 6.3 and 8.6).

use core::time::Duration;

use earmark_core::CloseReason;
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{Confirm, Direction, ErrorCode, ObjectType};

use super::Gist;
use super::association::Stage;
use super::config::Installation;
use super::cookie::CookieBinding;
use super::counters::DropReason;
use super::event_data::EventData;
use super::machine::{Event, Fact, Facts, State};
use super::notify::report_translation;
use super::receipt::Receipt;
use super::state::{Index, Key, NONE};
use crate::input_context::InputContext;

impl Gist {
    /// Handles a Confirm.
    pub(super) fn receive_confirm(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        confirm: &Confirm<'_>,
    ) {
        let direction = confirm.mri.direction().inverted();
        let mut at = self.at(Key::new(receipt.nslpid, confirm.session, confirm.mri), direction);
        let state = self.state(&at);
        if state.is_querying() && direction == Direction::Downstream {
            return; // see `answer_query`
        }
        let delayed = self.config.installation == Installation::Delayed;
        let binding = CookieBinding {
            nli: &confirm.nli,
            mri: &confirm.mri,
            session: confirm.session,
            nslpid: receipt.nslpid,
        };
        let opened =
            confirm.returned.map(|returned| self.cookies.open(cx.now, &binding, returned.cookie));
        let interface = match opened {
            Some(Some(interface)) => interface,
            Some(None) => return self.refuse_cookie(cx, receipt),
            None if state == State::Idle => {
                self.refuse(cx, receipt, ErrorCode::NoRoutingState, 0);
                return self.ignore(cx, receipt, DropReason::NoRoutingState);
            }
            // A Confirm without cookie answers no request of this node.
            None => return self.ignore(cx, receipt, DropReason::Unexpected),
        };
        if receipt.association == NONE && receipt.source != confirm.nli.interface_address {
            let named = confirm.nli.interface_address;
            report_translation(cx, receipt, (confirm.session, confirm.mri), named);
            return self.ignore(cx, receipt, DropReason::Untranslated);
        }
        if let Err(reason) = self.check_encapsulation(cx, receipt, confirm) {
            return self.ignore(cx, receipt, reason);
        }
        if state == State::Idle && (!delayed || self.is_full(&at)) {
            let reason = if delayed { DropReason::Limit } else { DropReason::NoRoutingState };
            self.refuse(cx, receipt, ErrorCode::NoRoutingState, 0);
            return self.ignore(cx, receipt, reason);
        }
        if receipt.association == NONE && !cx.context.may_concern(receipt.interface, interface) {
            return self.ignore(cx, receipt, DropReason::WrongInterface);
        }
        let receipt = &Receipt { interface, ..*receipt };
        if let Err(reason) = self.check_handshake(cx, receipt, &confirm.nli, &at) {
            return self.ignore(cx, receipt, reason);
        }
        if state.is_querying() {
            let event_data = EventData::Nothing;
            self.step(cx, &mut at, Event::Forget, Facts::default(), &event_data);
            at = self.at(at.key, direction);
            if !delayed || self.is_full(&at) {
                return self.ignore(cx, receipt, DropReason::Limit);
            }
        }
        let used = self.store.get(at.half_id()).map_or(NONE, |half| half.association);
        let before = self.store.get(at.half_id()).map_or(NONE, |half| half.peer);
        let Some(peer) = self.admit_querier(cx, receipt, &confirm.nli, before) else {
            return self.ignore(cx, receipt, DropReason::Limit);
        };
        if let Err(reason) = self.set_association_peer(cx, receipt, confirm, peer) {
            self.refuse(cx, receipt, ErrorCode::IncorrectlyDelivered, 0);
            self.start_peer_lifetime(cx.now, peer);
            return self.ignore(cx, receipt, reason);
        }
        let facts = Facts::default()
            .with(Fact::Delayed, delayed)
            .with(Fact::NewPeer, before != peer)
            .with(Fact::NeedsAssociation, receipt.association != used)
            .with(Fact::PeerKnown, before != NONE);
        let event_data = EventData::Confirm { receipt, confirm, peer };
        self.step(cx, &mut at, Event::Confirm, facts, &event_data);
        self.start_peer_lifetime(cx.now, peer);
    }

    /// Refuses a message with a wrong cookie. The sender gets an error only if the settings ask for it (RFC 5971
    /// section 8.5).
    fn refuse_cookie(&mut self, cx: &mut InputContext<'_, '_>, receipt: &Receipt<'_>) {
        if self.config.report_cookies {
            let (code, subcode) = (ErrorCode::ObjectValue, subcode::object_value::INVALID_COOKIE);
            self.refuse_object(cx, receipt, code, subcode, ObjectType::ResponderCookie);
        }
        self.ignore(cx, receipt, DropReason::Cookie);
    }

    /// Checks that a Confirm arrived over the transport that its handshake asks for, and that it repeats the stack
    /// proposal of this node. A different proposal was weakened on the path (RFC 5971 sections 5.7.1 and 8.6).
    pub(super) fn check_encapsulation(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        confirm: &Confirm<'_>,
    ) -> Result<(), DropReason> {
        let returned = confirm.returned;
        let proposal = returned.and_then(|returned| returned.proposal);
        let Some(association) = self.associations.get(receipt.association) else {
            if proposal.is_some() {
                self.refuse(cx, receipt, ErrorCode::IncorrectEncapsulation, 0);
                return Err(DropReason::WrongAssociation);
            }
            return Ok(());
        };
        let is_first = matches!(association.stage, Stage::HalfOpen { .. });
        let is_same = match proposal {
            Some(proposal) => self.is_own_proposal(proposal),
            None => !is_first,
        };
        if !is_same {
            if is_first {
                let index = receipt.association;
                self.end_association(cx, index, CloseReason::Broken);
            }
            return Err(DropReason::Downgrade);
        }
        if is_first && returned.and_then(|returned| returned.configuration).is_none() {
            let object = ObjectType::StackConfigurationData;
            let (code, subcode) = (ErrorCode::ObjectType, subcode::object_type::MISSING);
            self.refuse_object(cx, receipt, code, subcode, object);
            return Err(DropReason::Malformed);
        }
        Ok(())
    }

    /// Takes the peer and its MA-Hold-Time from the first Confirm on an association; a later Confirm must come from the
    /// same peer.
    pub(super) fn set_association_peer(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        confirm: &Confirm<'_>,
        peer: Index,
    ) -> Result<(), DropReason> {
        let index = receipt.association;
        let Some(association) = self.associations.get_mut(index) else { return Ok(()) };
        if !matches!(association.stage, Stage::HalfOpen { .. }) {
            let is_same = association.peer == peer;
            return if is_same { Ok(()) } else { Err(DropReason::WrongAssociation) };
        }
        let configuration = confirm.returned.and_then(|returned| returned.configuration);
        if let Some(configuration) = configuration {
            association.hold_time = Duration::from_millis(configuration.hold_time.into());
        }
        self.associations.set_peer(index, peer);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.uses += 1;
            if let Some(timer) = peer.timer.take() {
                self.store.timers.cancel(timer);
            }
        }
        self.schedule_hello(cx.now, index, cx.now);
        Ok(())
    }
}
