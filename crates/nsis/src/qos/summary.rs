//! Many sessions in one message: SESSION-ID-LIST and RSN-LIST (RFC 5974 sections 3.2.6, 5.3.6 and 5.3.7).
//!
//! The sessions that go on to one peer hang in a ring. When one of them is refreshed, those behind it that are due within
//! half a period come along, so that after some periods all of them travel together.

use alloc::vec::Vec;

use earmark_wire::gist::SessionId;
use earmark_wire::qos_nslp::iana::Informational;
use earmark_wire::qos_nslp::{
    Answers, Extra as Objects, InfoSpec, Message, Outcome, Response, RsnList, Summary,
};

use super::QosNslp;
use super::api::Change;
use super::reserve::{Arrival, Order, order};
use super::send::Saying;
use super::state::{Flags, Index};
use crate::nslp::Turn;

/// Sessions and numbers as they stand in the two lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    sessions: Vec<[u8; SessionId::LEN]>,
    rsns: Vec<[u8; 4]>,
}

impl QosNslp {
    /// Refreshes the sessions of a summary, and tells the peer of those that it cannot mean.
    pub(super) fn summary_refreshes(
        &mut self,
        turn: &mut Turn<'_, '_>,
        arrival: &Arrival<'_>,
        summary: &Summary<'_>,
    ) {
        let Some(rsns) = summary.rsns else { return };
        let epoch = arrival.reserve.rsn.epoch;
        if rsns.epoch != epoch {
            return;
        }
        let (mut unknown, mut mismatched) = (Lists::default(), Lists::default());
        for (id, number) in summary.ids().zip(rsns.numbers()) {
            let Some(index) = self.store.find(id).filter(|&index| self.is_of(index, arrival))
            else {
                unknown.push(id, number);
                continue;
            };
            let session = self.store.session_mut(index);
            if session.flags.has(Flags::REMOVED) {
                continue;
            }
            if session.rsn.number != number || session.rsn.epoch != epoch {
                mismatched.push(id, number);
                continue;
            }
            session.expires_at = turn.now.after_millis(session.lifetime_ms.into());
            self.counters.refreshed += 1;
        }
        self.complain(turn, arrival, &unknown, Informational::UnknownSessionId, false);
        self.complain(turn, arrival, &mismatched, Informational::MismatchingRsn, true);
    }

    /// Tears down the sessions of a summary. Those that are not known, or were changed since, are left out of account.
    pub(super) fn summary_tears(
        &mut self,
        turn: &mut Turn<'_, '_>,
        arrival: &Arrival<'_>,
        summary: &Summary<'_>,
    ) {
        let Some(rsns) = summary.rsns else { return };
        for (id, number) in summary.ids().zip(rsns.numbers()) {
            let Some(index) = self.store.find(id).filter(|&index| self.is_of(index, arrival))
            else {
                continue;
            };
            let rsn = earmark_wire::qos_nslp::Rsn { number, epoch: rsns.epoch };
            if id == arrival.message.session
                || order(self.store.session(index).rsn, rsn) == Order::Older
            {
                continue;
            }
            self.counters.released += 1;
            self.end(turn, index, Change::Released, None);
        }
    }

    fn is_of(&self, index: Index, arrival: &Arrival<'_>) -> bool {
        let session = self.store.session(index);
        session.back == Some(arrival.peer) && session.direction() == arrival.mri.direction
    }

    fn complain(
        &mut self,
        turn: &mut Turn<'_, '_>,
        arrival: &Arrival<'_>,
        lists: &Lists,
        code: Informational,
        with_numbers: bool,
    ) {
        if lists.sessions.is_empty() {
            return;
        }
        let reserve = arrival.reserve;
        let rsns = RsnList { epoch: reserve.rsn.epoch, wire: &lists.rsns };
        let response = Response {
            flags: self.flags_of(arrival.message.session),
            answers: Some(Answers::Rsn(reserve.rsn)),
            info: InfoSpec::new(Outcome::Informational(code)),
            summary: Some(Summary {
                sessions: &lists.sessions,
                rsns: with_numbers.then_some(rsns),
            }),
            qspec: None,
            extra: Objects::NONE,
        };
        self.send(turn, self.back(arrival.message), &Message::Response(response));
    }

    /// Refreshes a session, and with it those behind it in its ring that are due soon.
    pub(super) fn summarize(&mut self, turn: &mut Turn<'_, '_>, first: Index, acknowledge: bool) {
        let mut lists = core::mem::take(&mut self.lists);
        lists.clear();
        let (soon, next) =
            (turn.now + self.config.refresh / 2, self.store.session(first).refresh_at);
        let direction = self.store.session(first).direction();
        let most = usize::from(self.config.summary);
        let mut other = self.store.session(first).ring.next;
        for _ in 0..2 * most {
            if other == first || lists.sessions.len() >= most {
                break;
            }
            let session = self.store.session_mut(other);
            let (this, behind) = (other, session.ring.next);
            let fits = session.refresh_at <= soon
                && session.direction() == direction
                && session.flags.has(Flags::CONFIRMED)
                && !session.flags.has(Flags::REMOVED)
                && !session.flags.has(Flags::FULL_ONLY)
                && !session.flags.has(Flags::LAST);
            if fits {
                session.refresh_at = next;
                lists.push(session.id, session.own_rsn);
                self.follow_route(turn, this);
            }
            other = behind;
        }
        let rsns = RsnList { epoch: self.epoch, wire: &lists.rsns };
        let summary = Summary { sessions: &lists.sessions, rsns: Some(rsns) };
        let summary = Some(summary).filter(|summary| !summary.sessions.is_empty());
        self.send_reserve(turn, first, &Saying { acknowledge, summary, ..Saying::default() });
        self.lists = lists;
    }
}

impl Lists {
    fn push(&mut self, id: SessionId, number: u32) {
        self.sessions.push(id.0);
        self.rsns.push(number.to_be_bytes());
    }

    fn clear(&mut self) {
        self.sessions.clear();
        self.rsns.clear();
    }
}
