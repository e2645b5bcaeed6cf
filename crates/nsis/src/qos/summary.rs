//! Many sessions in one message: SESSION-ID-LIST and RSN-LIST (RFC 5974 sections 3.2.6, 5.3.6 and 5.3.7).
//!
//! Sessions with the same next peer are in a ring. A refresh of one includes those after it that are due within half a
//! period, so that after some periods all of them are refreshed together. Sessions that end together, because their
//! peer is gone or has torn them down in one message, are torn down further along in one message, too.

use core::time::Duration;

use earmark_wire::gist::Direction;
use earmark_wire::qos_nslp::iana::Informational;
use earmark_wire::qos_nslp::{
    Answers, BoundSessions, Extra as Objects, InfoSpec, Message, Outcome, Reserve, Response, Rsn,
    RsnList, Summary,
};

use super::QosNslp;
use super::addressing::Addressing;
use super::api::Change;
use super::pending_tear::PendingTear;
use super::received_reserve::{Order, ReceivedReserve, order};
use super::send::{ReserveOptions, release_routing_state};
use super::state::{Flags, Index};
use super::summary_lists::SummaryLists;
use super::tear::Confirmation;
use crate::nslp::HandlerContext;

impl QosNslp {
    /// Refreshes the sessions of a summary, and reports unknown and mismatching ones to the peer.
    pub(super) fn refresh_summary(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        summary: &Summary<'_>,
    ) {
        let Some(rsns) = summary.rsns else { return };
        let epoch = received.reserve.rsn.epoch;
        if rsns.epoch != epoch {
            return;
        }
        let (mut unknown, mut mismatched) = (SummaryLists::default(), SummaryLists::default());
        for (id, number) in summary.ids().zip(rsns.numbers()) {
            let found = self.store.find(id).ok_or(None);
            let checked =
                found.and_then(|index| self.check_summarized(received, index).map(|()| index));
            let index = match checked {
                Ok(index) => index,
                Err(None) => {
                    unknown.push(id, number);
                    continue;
                }
                Err(Some(reason)) => {
                    self.ignore(cx, received.message, reason);
                    continue;
                }
            };
            let session = self.store.session_mut(index);
            if session.flags.has(Flags::REMOVED) {
                continue;
            }
            let rsn = Rsn { number, epoch };
            let is_of_back = session.back == Some(received.peer) && session.rsn == rsn;
            if !is_of_back && !session.shares_under(received.peer, rsn) {
                mismatched.push(id, number);
                continue;
            }
            let (lifetime_ms, direction) = (session.lifetime_ms, session.direction());
            if session.extra.is_some() {
                self.refresh_flows(cx.now, index, received.peer);
            } else {
                session.expires_at = cx.now.after_millis(lifetime_ms.into());
            }
            self.note_refresh(cx.now, index);
            if direction == Direction::Upstream {
                // This node is the querying node.
                let lifetime = Duration::from_millis(lifetime_ms.into());
                Self::keep_routing_state(cx, &self.towards_qni(index, None), lifetime);
            }
        }
        self.report_sessions(cx, received, &unknown, Informational::UnknownSessionId, false);
        self.report_sessions(cx, received, &mismatched, Informational::MismatchingRsn, true);
    }

    /// Tears down the sessions of a summary. Unknown sessions, and those changed since, are ignored.
    pub(super) fn tear_summary(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        summary: &Summary<'_>,
    ) {
        let Some(rsns) = summary.rsns else { return };
        for (id, number) in summary.ids().zip(rsns.numbers()) {
            let Some(index) = self.store.find(id) else { continue };
            if let Err(reason) = self.check_summarized(received, index) {
                if let Some(reason) = reason {
                    self.ignore(cx, received.message, reason);
                }
                continue;
            }
            let rsn = Rsn { number, epoch: rsns.epoch };
            if id == received.message.session {
                continue;
            }
            let session = self.store.session(index);
            let ends = match session.sharing().is_empty() {
                true => order(session.rsn, rsn) != Order::Older,
                false => self.tear_flows_of(cx, index, received.peer, rsn),
            };
            if !ends {
                continue;
            }
            self.counters.released += 1;
            self.end(cx, index, Change::Released, Confirmation::None);
        }
    }

    fn report_sessions(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        lists: &SummaryLists,
        code: Informational,
        with_numbers: bool,
    ) {
        if lists.sessions.is_empty() {
            return;
        }
        let reserve = received.reserve;
        let rsns = RsnList { epoch: reserve.rsn.epoch, wire: &lists.rsns };
        let response = Response {
            flags: self.flags_of(received.message.session),
            answers: Some(Answers::Rsn(reserve.rsn)),
            info: InfoSpec::new(Outcome::Informational(code)),
            summary: Some(Summary {
                sessions: &lists.sessions,
                rsns: with_numbers.then_some(rsns),
            }),
            qspec: None,
            extra: Objects::NONE,
        };
        self.send(cx, self.back(received.message), &Message::Response(response));
    }

    /// Refreshes a session, together with those after it in its ring that are due soon.
    pub(super) fn summarize(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        first: Index,
        acknowledge: bool,
    ) {
        let mut lists = core::mem::take(&mut self.lists);
        lists.clear();
        let (soon, next) = (cx.now + self.config.refresh / 2, self.store.session(first).refresh_at);
        let (direction, attributes) =
            (self.store.session(first).direction(), self.store.session(first).attributes);
        let most = usize::from(self.config.summary);
        let lifetime = self.own_lifetime();
        let mut other = self.store.session(first).ring.next;
        for _ in 0..2 * most {
            if other == first || lists.sessions.len() >= most {
                break;
            }
            let session = self.store.session_mut(other);
            let (this, behind) = (other, session.ring.next);
            let fits = session.refresh_at <= soon
                && session.direction() == direction
                // The next node takes nothing in the clear for a secured session.
                && session.attributes == attributes
                && session.flags.has(Flags::CONFIRMED)
                && !session.flags.has(Flags::REMOVED)
                && !session.flags.has(Flags::FULL_ONLY)
                && !session.flags.has(Flags::LAST);
            if fits {
                session.refresh_at = next;
                lists.push(session.id, session.own_rsn);
                Self::keep_routing_state(cx, &self.towards_qnr(this, None), lifetime);
                self.follow_route(cx, this);
            }
            other = behind;
        }
        let rsns = RsnList { epoch: self.epoch, wire: &lists.rsns };
        let summary = Summary { sessions: &lists.sessions, rsns: Some(rsns) };
        let summary = Some(summary).filter(|summary| !summary.sessions.is_empty());
        self.send_reserve(
            cx,
            first,
            &ReserveOptions { acknowledge, summary, ..ReserveOptions::default() },
        );
        self.lists = lists;
    }

    /// Keeps the routing state of a summarized session, which has no message of its own that GIST would see.
    fn keep_routing_state(
        cx: &mut HandlerContext<'_, '_>,
        addressing: &Addressing,
        lifetime: Duration,
    ) {
        let &Addressing { session, mri, nslpid, .. } = addressing;
        cx.for_nslpid(nslpid, |cx| cx.set_state_lifetime(mri, session, lifetime));
    }
}

/// Summary tears.
impl QosNslp {
    /// Returns whether a session can be torn down together with others: it has no further objects.
    pub(super) fn can_join_summary_tear(&self, index: Index) -> bool {
        let session = self.store.session(index);
        self.config.summary > 0 && session.on.is_some() && session.extra.is_none()
    }

    /// Removes a session, and queues a tear for the next node until the end of the input.
    pub(super) fn queue_summary_tear(&mut self, index: Index) {
        let (on, back) = (self.towards_qnr(index, None), self.towards_qni(index, None));
        let flags = self.flags_of(on.session);
        let session = self.store.remove(index);
        let Some(peer) = session.on else { return };
        let (number, replace) = (session.own_rsn, session.flags.has(Flags::REPLACE));
        self.pending_tears.push(PendingTear { on, back, peer, number, flags, replace });
    }

    /// Sends the queued tears.
    pub(super) fn send_summary_tears(&mut self, cx: &mut HandlerContext<'_, '_>) {
        if self.pending_tears.is_empty() {
            return;
        }
        let mut tears = core::mem::take(&mut self.pending_tears);
        tears.sort_by_key(PendingTear::destination_key);
        let most = usize::from(self.config.summary) + 1;
        for destination_key in
            tears.chunk_by(|one, other| one.destination_key() == other.destination_key())
        {
            destination_key.chunks(most).for_each(|some| self.send_summary_tear(cx, some));
        }
        tears.clear();
        self.pending_tears = tears;
    }

    /// Sends one tear for sessions with the same next node.
    fn send_summary_tear(&mut self, cx: &mut HandlerContext<'_, '_>, some: &[PendingTear]) {
        let Some((first, others)) = some.split_first() else { return };
        let mut lists = SummaryLists::default();
        others.iter().for_each(|other| lists.push(other.on.session, other.number));
        let rsns = RsnList { epoch: self.epoch, wire: &lists.rsns };
        let summary = Summary { sessions: &lists.sessions, rsns: Some(rsns) };
        let tear = Reserve {
            flags: first.flags,
            tear: true,
            replace: first.replace,
            rsn: Rsn { number: first.number, epoch: self.epoch },
            rii: None,
            refresh_period: None,
            bound: BoundSessions::NONE,
            summary: Some(summary).filter(|summary| !summary.sessions.is_empty()),
            binding: None,
            info: None,
            classifier: None,
            qspec: None,
            extra: Objects::NONE,
        };
        self.send(cx, first.on, &Message::Reserve(tear));
        for PendingTear { on, back, .. } in some {
            let numbers = [on, back].map(|addressing| addressing.nslpid.unwrap_or(cx.nslpid));
            release_routing_state(cx, on.session, on.mri, numbers.into());
        }
    }
}
