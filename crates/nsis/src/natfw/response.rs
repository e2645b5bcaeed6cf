//! RESPONSE: what it makes of a session (RFC 5973 sections 3.4, 3.7.1 and 3.7.2).

use earmark_core::{Endpoint, Time};
use earmark_wire::natfw_nslp::iana::{
    ErrorClass, Informational, SignalingSessionFailure as Failure,
};
use earmark_wire::natfw_nslp::{ExternalBinding, Extra, Info, Message, Outcome, Response};

use super::api::{Change, Event, Refusal};
use super::counters::DropReason;
use super::instance::NatfwNslp;
use super::outcome::failure;
use super::state::{Flags, Index, Role, Stage, end_after, seconds};
use crate::nslp::{HandlerContext, Received};

impl NatfwNslp {
    /// Handles a RESPONSE.
    pub(super) fn receive_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
    ) {
        let Some(index) = self.store.find(message.session) else {
            return self.ignore(cx, message, DropReason::NoSession);
        };
        if let Err(reason) = self.check_answer(message, index) {
            return self.ignore(cx, message, reason);
        }
        let session = self.store.session(index);
        if session.msn != response.msn {
            return self.ignore(cx, message, DropReason::OtherMsn);
        }
        match session.role {
            // What this node has answered already stays so; the initiator hears of a responder behind it (section 3.7.6.3).
            Role::Responder if session.flags.has(Flags::PROBED) => {
                if is_success(response) {
                    self.pass_back(cx, index, response);
                }
                return;
            }
            // "MUST silently drop any such messages received" (section 3.7.1).
            Role::Responder => return self.ignore(cx, message, DropReason::OtherRole),
            Role::Initiator(_) | Role::Proxy(_) | Role::Forwarder => {}
        }
        if let Some(peer) = message.origin.peer.filter(|_| !message.explicitly_routed) {
            self.store.set_on(index, Some(peer));
        }
        match (is_success(response), response.lifetime) {
            (true, Some(lifetime)) => self.granted(cx, index, response, lifetime),
            _ => self.refused(cx, index, response),
        }
    }

    fn granted(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        response: &Response<'_>,
        lifetime: u32,
    ) {
        let accepted = self.store.session(index).lifetime;
        let shortest = seconds(self.config.shortest_lifetime);
        if lifetime > accepted {
            return self.reject_lifetime(cx, index, (Failure::ModifiedLifetimeTooBig, accepted));
        }
        if lifetime < shortest {
            return self.reject_lifetime(cx, index, (Failure::ModifiedLifetimeTooSmall, shortest));
        }
        let session = self.store.session_mut(index);
        let (was, ended) = (session.stage, session.expires_at);
        session.stage = Stage::Established;
        session.lifetime = lifetime;
        let is_shorter = lifetime < accepted;
        // The refresh of an edge's own CREATE has extended it at the other nodes.
        if was == Stage::Pending || is_shorter || matches!(session.role, Role::Proxy(_)) {
            session.expires_at = end_after(cx.now, lifetime);
        }
        if session.is_initiator() {
            session.extra().granted_until = end_after(cx.now, lifetime);
        }
        let is_installed = session.flags.has(Flags::INSTALLED);
        if !is_installed || session.expires_at != ended {
            self.install_rules(cx, index);
        }
        match self.store.session(index).role {
            Role::Forwarder => {
                self.store.rearm(index);
                self.pass_back(cx, index, response);
            }
            Role::Initiator(application) => {
                self.schedule_refresh(cx, index);
                let external = response
                    .external_address
                    .map(|it| Endpoint { address: it.address.into(), port: it.port });
                let of = |address: core::net::Ipv4Addr| Endpoint {
                    address: address.into(),
                    port: response.external_binding.map_or(0, |binding| binding.port),
                };
                let bindings = response.external_binding.iter();
                let bindings = bindings.flat_map(ExternalBinding::addresses).map(of).collect();
                let extra = self.store.session_mut(index).extra();
                // A firewall beyond an edge that sends the request on as well may know no address (section 3.7.6.3).
                let external = external.or(extra.external);
                let is_news = !extra.was_granted || extra.external != external;
                (extra.was_granted, extra.external) = (true, external);
                if is_news || was != Stage::Established {
                    cx.report(Event::Granted { application, external, bindings, lifetime });
                }
            }
            // The EXTERNAL decides when its CREATE is refreshed (section 3.7.6.1).
            Role::Proxy(_) => {
                self.store.session_mut(index).next_at = Time::MAX;
                self.store.rearm(index);
            }
            Role::Responder => {}
        }
    }

    /// Ends a session for which the responder has granted a lifetime that this node does not (section 3.4).
    #[cold]
    fn reject_lifetime(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        (reason, acceptable): (Failure, u32),
    ) {
        let info = Info::new(failure(reason));
        // "NIs MUST NOT generate NOTIFY messages" (section 3.7.5); a deletion ends what the other nodes have granted.
        match self.store.session(index).role {
            Role::Initiator(application) => {
                cx.report(Event::Refused { application, refusal: Refusal::Answered(info) });
                return self.release_own(cx, index);
            }
            Role::Proxy(primary) => {
                self.release_own(cx, index);
                return self.secondary_failed(cx, primary);
            }
            Role::Forwarder | Role::Responder => {}
        }
        let terminated = Info::new(Outcome::Informational(Informational::Terminated));
        let outbound = self.towards_responder(index);
        self.send_notify(cx, outbound, terminated, Extra::NONE);
        let response = Response {
            lifetime: Some(acceptable),
            msn: self.store.session(index).msn,
            info,
            external_address: None,
            external_binding: None,
            extra: Extra::NONE,
        };
        self.refused(cx, index, &response);
    }

    /// Ends a session that was refused, and passes the refusal on.
    fn refused(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, response: &Response<'_>) {
        match self.store.session(index).role {
            Role::Forwarder => {
                self.pass_back(cx, index, response);
                self.end(cx, index, Change::Ended);
            }
            Role::Initiator(_) => {
                self.fail(cx, index, Refusal::Answered(response.info));
            }
            Role::Proxy(primary) => {
                self.end(cx, index, Change::Ended);
                self.secondary_failed(cx, primary);
            }
            Role::Responder => {}
        }
    }

    fn pass_back(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        response: &Response<'_>,
    ) {
        let addressing = self.towards_initiator(index);
        self.send(cx, addressing, &Message::Response(*response));
    }
}

fn is_success(response: &Response<'_>) -> bool {
    response.info.outcome.class() == ErrorClass::Success
}
