//! NOTIFY: news that nobody has asked for (RFC 5974 section 5.4.4). It travels back to the QNI, which decides.

use earmark_wire::qos_nslp::iana::{Informational, TransientFailure};
use earmark_wire::qos_nslp::{Extra as Objects, Message, Notify, Outcome};

use super::QosNslp;
use super::api::{Event, OnRefusal, Source};
use super::counters::DropReason;
use super::response::is_error;
use super::send::{Way, said_here};
use super::state::{Flags, Index};
use crate::nslp::{Received, Turn, Validity};

impl QosNslp {
    /// A NOTIFY has come.
    pub(super) fn notified(
        &mut self,
        turn: &mut Turn<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        let Some(index) = self.store.find(message.session) else {
            return self.notified_of_query(turn, message, notify);
        };
        let session = self.store.session(index);
        if message.mri.direction() == session.direction() {
            return self.ignore(turn, message, DropReason::Unasked);
        }
        let outcome = notify.info.outcome;
        if outcome == Outcome::Informational(Informational::RouteChange) {
            // The next node has another one in front of it now: who comes next has to be found out anew (section 5.2.5.3).
            let Way { mri, nslpid, .. } = self.way_on(index, None);
            let called = turn.nslpid;
            turn.nslpid = nslpid.unwrap_or(called);
            turn.invalidate_routing_state(mri, Validity::Tentative, true);
            turn.nslpid = called;
        }
        if self.store.session(index).is_initiator() {
            let source = notify.info.source.and_then(Source::of);
            return self.lost(turn, index, outcome, source);
        }
        let way = self.way_back(index, None);
        let flags = self.flags_of(message.session);
        self.send(turn, way, &Message::Notify(Notify { flags, ..*notify }));
    }

    /// News of a QUERY, which leaves no state: on it goes to who has sent that.
    fn notified_of_query(
        &mut self,
        turn: &mut Turn<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        if !self.is_own_end(turn, &message.mri) {
            return self.send(turn, Way::on(message), &Message::Notify(*notify));
        }
        if !self.invitation_fails(turn, message.session, notify) {
            self.ignore(turn, message, DropReason::Unasked);
        }
    }

    /// Tells the QNI of a session what has happened to it here.
    pub(super) fn notify_qni(&mut self, turn: &mut Turn<'_, '_>, index: Index, outcome: Outcome) {
        let session = self.store.session(index);
        if session.is_initiator() {
            return self.lost(turn, index, outcome, None);
        }
        let way = self.way_back(index, None);
        let info = said_here(turn, session.interface, &session.towards_qni(), outcome);
        let flags = self.flags_of(session.id);
        let notify = Notify { flags, info, qspec: None, extra: Objects::NONE };
        self.send(turn, way, &Message::Notify(notify));
    }

    /// This node is the QNI of a session to which something has happened on the path.
    fn lost(
        &mut self,
        turn: &mut Turn<'_, '_>,
        index: Index,
        outcome: Outcome,
        source: Option<Source>,
    ) {
        let truncated = Outcome::TransientFailure(TransientFailure::PathTruncated);
        if !is_error(outcome) {
            return;
        }
        let session = self.store.session(index);
        if session.flags.has(Flags::AGGREGATE) && outcome != truncated {
            return self.aggregate_is_lost(turn, index);
        }
        let Some(application) = session.application() else { return };
        turn.out.notify(crate::Event::Qos(Event::Lost { application, outcome, source }));
        let on_refusal = session.extra.as_ref().map(|extra| extra.on_refusal);
        // A neighbour that is silent may come back, or GIST finds another way.
        if outcome == truncated {
            return;
        }
        match on_refusal {
            Some(OnRefusal::Retry) => self.ask_later(turn, index),
            _ => self.release(turn, index),
        }
    }
}
