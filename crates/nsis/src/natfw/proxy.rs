//! Proxy mode: the CREATE that an edge sends for a data sender without NSIS (RFC 5973 section 3.7.6.1), and the responder's
//! part of the last node (section 3.7.6.2).

use alloc::boxed::Box;

use earmark_wire::gist::{Direction, Mri, PathCoupled};
use earmark_wire::natfw_nslp::iana::PermanentFailure;
use earmark_wire::natfw_nslp::{Extra as Objects, Info, Message, Outcome, Response, RuleAction};

use super::external::data_of;
use super::flow::{endpoints, with_destination};
use super::initiator::own_address;
use super::instance::NatfwNslp;
use super::outcome::{PROCESSED, permanent};
use super::state::{Extra, Flags, Index, Kind, Role, Session, Stage};
use crate::nslp::{HandlerContext, SendFailure, SendMessage};

impl NatfwNslp {
    /// Sends the CREATE that belongs to an EXTERNAL in proxy mode: a new one, or a refresh of it. "The NF MUST refresh the
    /// CREATE message signaling session only if an EXTERNAL-PROXY refresh message has been received first".
    pub(super) fn serve_secondary(&mut self, cx: &mut HandlerContext<'_, '_>, primary: Index) {
        let session = self.store.session(primary);
        let Some(extra) = session.extra.as_deref() else { return };
        let is_served = session.kind == Kind::External
            && session.role == Role::Responder
            && session.flags.has(Flags::PASSES)
            && extra.proxy.is_proxy()
            && session.extended_flow.action == RuleAction::Allow;
        let Some(terminal) = extra.terminal.filter(|_| is_served) else { return };
        let lifetime = session.lifetime;
        if let Some(secondary) = extra.secondary {
            self.store.session_mut(secondary).lifetime = lifetime;
            return self.send_again(cx, secondary);
        }
        let inside = data_of(&session.near, &terminal);
        let outside = match session.binding {
            Some(binding) => self.bindings.get(binding).external,
            None => endpoints(&inside).1,
        };
        let inside = PathCoupled { direction: Direction::Downstream, ..inside };
        // A message needs a source even if the data sender is any, and not that of the receiver.
        let source = match inside.source_prefix {
            0 => own_address(cx, inside.destination).unwrap_or(outside.address),
            _ => inside.source,
        };
        let inside = PathCoupled { source, ..inside };
        let nonce = extra.nonce;
        let (extended_flow, attributes) = (session.extended_flow, session.attributes);
        let flags = Flags::default().with(Flags::PASSES, true);
        let far = Mri::PathCoupled(inside);
        let id = self.ids.draw();
        let new = Session {
            near: Mri::PathCoupled(with_destination(&inside, outside)),
            flags,
            extended_flow,
            attributes,
            extra: Some(Box::new(Extra { nonce, ..Extra::default() })),
            ..self.own_session(id, (Kind::Create, Role::Proxy(primary)), far)
        };
        let rules = new.rules();
        let is_possible = rules.clone().next().is_some() && !self.store.conflicts(None, rules);
        if !is_possible || !self.has_own_room(cx) {
            return self.secondary_failed(cx, primary);
        }
        let secondary = self.start(cx, new, lifetime);
        self.hold_rules(secondary);
        self.store.session_mut(primary).extra().secondary = Some(secondary);
    }

    /// Ends an EXTERNAL in proxy mode whose CREATE has failed: its initiator does not accept its own data.
    pub(super) fn secondary_failed(&mut self, cx: &mut HandlerContext<'_, '_>, primary: Index) {
        if self.store.get(primary).is_some() {
            self.terminate(cx, primary);
        }
    }

    /// Handles an undeliverable request.
    pub(super) fn request_undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        failure: SendFailure,
    ) {
        let Some(index) = self.store.find(sent.session) else { return };
        let session = self.store.session(index);
        if session.far != sent.mri {
            return;
        }
        let proxy = session.extra.as_ref().map(|extra| extra.proxy).unwrap_or_default();
        match session.role {
            // "A failed attempt to forward the request message to the NR will be silently discarded" (section 3.7.6.3).
            Role::Responder => {}
            Role::Initiator(_) => {
                use SendFailure::{NoNextNode, NoRoute, NoUpstreamState};
                let is_final = matches!(failure, NoRoute | NoNextNode | NoUpstreamState);
                if is_final && session.stage == Stage::Pending {
                    self.fail(cx, index, super::Refusal::Unsent(failure));
                }
            }
            // The request is repeated, and fails in the end.
            Role::Proxy(_) => {}
            // A refresh is repeated as long as the session lives (section 3.2.8).
            Role::Forwarder if session.stage == Stage::Established => {}
            Role::Forwarder => {
                let is_last = failure == SendFailure::NoNextNode;
                if is_last && proxy.is_proxy() && session.kind == Kind::Create {
                    return self.answer_as_last(cx, index);
                }
                let outcome = match session.kind {
                    Kind::Create => permanent(PermanentFailure::ResponderNotReached),
                    Kind::External => permanent(PermanentFailure::NoEdgeDevice),
                };
                self.respond_for_session(cx, index, (None, outcome));
                self.end(cx, index, super::Change::Ended);
            }
        }
    }

    /// Answers a CREATE in proxy mode as the last node on the path.
    fn answer_as_last(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        session.role = Role::Responder;
        session.stage = Stage::Established;
        let lifetime = session.lifetime;
        self.install_rules(cx, index);
        self.respond_for_session(cx, index, (Some(lifetime), PROCESSED));
    }

    fn respond_for_session(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        (lifetime, outcome): (Option<u32>, Outcome),
    ) {
        let response = Response {
            lifetime,
            msn: self.store.session(index).msn,
            info: Info::new(outcome),
            external_address: None,
            external_binding: None,
            extra: Objects::NONE,
        };
        let addressing = self.towards_initiator(index);
        self.send(cx, addressing, &Message::Response(response));
    }
}
