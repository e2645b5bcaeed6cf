//! Checks of a Confirm against the association that carries it (RFC 5971 sections 4.4.1, 5.7.1 and 8.6).

use core::time::Duration;

use earmark_core::CloseReason;
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{Confirm, ErrorCode, ObjectType};

use super::Gist;
use super::association::Stage;
use super::counters::DropReason;
use super::message_origin::MessageOrigin;
use super::state::Index;
use crate::input_context::InputContext;

impl Gist {
    /// Checks that a Confirm arrived over the transport that its handshake asks for, and that it repeats the stack
    /// proposal of this node. A different proposal was weakened on the path (RFC 5971 sections 5.7.1 and 8.6).
    pub(super) fn check_encapsulation(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        confirm: &Confirm<'_>,
    ) -> Result<(), DropReason> {
        let returned = confirm.returned;
        let proposal = returned.and_then(|returned| returned.proposal);
        let Some(association) = self.associations.get(origin.association) else {
            if proposal.is_some() {
                self.refuse(cx, origin, ErrorCode::IncorrectEncapsulation, 0);
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
                let index = origin.association;
                self.end_association(cx, index, CloseReason::Broken);
            }
            return Err(DropReason::Downgrade);
        }
        if is_first && returned.and_then(|returned| returned.configuration).is_none() {
            let object = ObjectType::StackConfigurationData;
            let (code, subcode) = (ErrorCode::ObjectType, subcode::object_type::MISSING);
            self.refuse_object(cx, origin, code, subcode, object);
            return Err(DropReason::Malformed);
        }
        Ok(())
    }

    /// Takes the peer and its MA-Hold-Time from the first Confirm on an association; a later Confirm must come from the
    /// same peer.
    pub(super) fn set_association_peer(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        origin: &MessageOrigin<'_>,
        confirm: &Confirm<'_>,
        peer: Index,
    ) -> Result<(), DropReason> {
        let index = origin.association;
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
