//! Refreshes: requests that ask for what a session has already (RFC 5973 sections 3.4 and 3.7.3).

use core::time::Duration;

use earmark_core::Time;
use earmark_wire::natfw_nslp::iana::SignalingSessionFailure as Failure;

use super::counters::DropReason;
use super::instance::NatfwNslp;
use super::outcome::failure;
use super::received::Request;
use super::state::{Flags, Index, Role, Stage, end_after, seconds};
use crate::nslp::HandlerContext;

impl NatfwNslp {
    /// Handles a refresh.
    pub(super) fn refresh(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        request: &Request<'_>,
    ) {
        // Each refresh changes the packet filter. One that is dropped is repeated.
        if !self.may_change(cx.now, &request.message.origin) {
            return self.ignore(cx, request.message, DropReason::TooOften);
        }
        let of_rule = self.policy.longest_lifetime(self.store.session(index).counted);
        let longest = self.config.longest_lifetime.min(of_rule.unwrap_or(Duration::MAX));
        let lifetime = request.lifetime.min(seconds(longest));
        if lifetime < seconds(self.config.shortest_lifetime) {
            return self.refuse(cx, request, failure(Failure::LifetimeTooSmall));
        }
        self.counters.refreshed += 1;
        self.take_peer(index, request);
        let session = self.store.session_mut(index);
        session.msn = request.msn;
        session.lifetime = lifetime;
        session.expires_at = end_after(cx.now, lifetime);
        let (role, stage) = (session.role, session.stage);
        if stage == Stage::Transitory {
            session.stage = Stage::Established;
        }
        if session.flags.has(Flags::INSTALLED) {
            self.install_rules(cx, index);
        }
        self.store.rearm(index);
        let is_probed = self.store.session(index).flags.has(Flags::PROBED);
        if role == Role::Responder {
            self.grant(cx, index, request);
        }
        if role == Role::Forwarder || is_probed {
            self.send_request(cx, index, (lifetime, Some(request.message.hops)), Some(request));
        }
        // This may end the session.
        self.serve_secondary(cx, index);
    }

    /// Arms the next refresh of a session of this node: at random in [0.5 R, 1.5 R], where the lifetime is (K + 0.5) 1.5 R
    /// (section 3.4).
    pub(super) fn schedule_refresh(&mut self, cx: &HandlerContext<'_, '_>, index: Index) {
        let lifetime = Duration::from_secs(self.store.session(index).lifetime.into());
        let period = lifetime * 4 / (3 * (2 * self.config.lost_refreshes + 1));
        let wait = self.numbers.uniform(period / 2, period * 3 / 2);
        let session = self.store.session_mut(index);
        session.extra().sent = 0;
        session.next_at = cx.now + wait;
        session.expires_at = Time::MAX;
        self.store.rearm(index);
    }
}
