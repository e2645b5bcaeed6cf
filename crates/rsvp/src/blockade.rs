//! Blockade state: a request that failed upstream must not keep smaller ones from succeeding (RFC 2205 sections 2.5 and
//! 3.5, the second killer-reservation problem).
//!
//! A ResvErr for an admission-control failure says how much was too much. For a while requests that ask for as much are
//! left out of what is asked for upstream; if that leaves none, the smallest is asked for, so that the failure is
//! bracketed from below.

use core::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, Style};

use crate::instance::Rsvp;
use crate::merge::{greatest_lower_bound, is_greater, least_upper_bound};
use crate::state::{Blocked, Bsb, Holder, Index, Peer, Psb};

impl Rsvp {
    /// What a sender's fixed-filter reservations ask for upstream: what is reserved on the ways that its data takes,
    /// merged, without what has failed upstream lately.
    #[inline]
    pub(crate) fn asked_for(&self, now: Time, sender: Index) -> Option<FlowSpec> {
        let psb = self.store.psb(sender);
        if let Some(failed) = self.store.blockade(Blocked::Sender(sender), now) {
            return merge_past(failed, || self.flowspecs_for(Holder::Sender(sender), psb));
        }
        let mut merged = None;
        for tcsb in self.store.tcsbs_of(Holder::Sender(sender)) {
            let tcsb = self.store.tcsb(tcsb);
            if psb.goes(tcsb.outgoing) {
                merged = match merged {
                    None => Some(tcsb.flowspec),
                    // Requests that do not go together are refused before they get here.
                    Some(other) => Some(least_upper_bound(&other, &tcsb.flowspec).unwrap_or(other)),
                };
            }
        }
        merged
    }

    /// The requests that a sender has a part in: those on the ways that its data takes, and in a shared style those that
    /// name it.
    pub(crate) fn requests_for<'s>(
        &'s self,
        holder: Holder,
        psb: &'s Psb,
    ) -> impl Iterator<Item = Index> + use<'s> {
        self.store
            .tcsbs_of(holder)
            .filter(|&tcsb| psb.goes(self.store.tcsb(tcsb).outgoing))
            .flat_map(|tcsb| self.store.rsbs_of(tcsb))
            .filter(|&rsb| {
                let filters = self.store.rsb(rsb).filters();
                filters.is_empty() || filters.iter().any(|filter| filter.spec == psb.template)
            })
    }

    pub(crate) fn flowspecs_for<'s>(
        &'s self,
        holder: Holder,
        psb: &'s Psb,
    ) -> impl Iterator<Item = FlowSpec> + use<'s> {
        self.requests_for(holder, psb).map(|rsb| self.store.rsb(rsb).flowspec)
    }

    /// What has failed lately upstream of a sender.
    pub(crate) fn failure(&self, now: Time, holder: Holder, sender: Index) -> Option<&FlowSpec> {
        let blocked = match (holder, self.store.psb(sender).hop) {
            (Holder::Pool(pool), Peer::Neighbor { index, .. })
                if self.store.pool(pool).style == Style::Wildcard =>
            {
                Blocked::Hop(pool, index)
            }
            _ => Blocked::Sender(sender),
        };
        self.store.blockade(blocked, now)
    }

    /// Whether a request is held back because as much has failed upstream.
    pub(crate) fn is_blocked(&self, now: Time, holder: Holder, flowspec: &FlowSpec) -> bool {
        let blocks = |blocked| {
            self.store.blockade(blocked, now).is_some_and(|failed| !is_greater(failed, flowspec))
        };
        match holder {
            Holder::Sender(psb) => blocks(Blocked::Sender(psb)),
            Holder::Pool(pool) => {
                let session = self.store.pool(pool).session;
                self.store.senders_of(session).any(|psb| {
                    let hop = self.store.neighbor_index(self.store.psb(psb).hop);
                    blocks(Blocked::Sender(psb))
                        || hop.is_some_and(|hop| blocks(Blocked::Hop(pool, hop)))
                })
            }
        }
    }

    /// An error from behind `incoming` makes blockade state, if it is one of admission control. It lasts Kb * R.
    pub(crate) fn note_failure(
        &mut self,
        now: Time,
        incoming: InterfaceId,
        error: &ErrorSpec,
        blocked: Blocked,
        failed: Option<FlowSpec>,
    ) {
        if let (ErrorCode::AdmissionControlFailure, Some(flowspec)) = (error.code, failed) {
            let refresh = u64::from(self.config.timing(incoming).refresh_ms());
            let factor = u64::from(self.config.blockade_factor);
            let until = now + Duration::from_millis(refresh.saturating_mul(factor));
            self.store.block(blocked, Bsb { flowspec, until });
        }
    }
}

/// Whether an error about `failed` goes on to whoever asked for `asked`. Where a smaller reservation stands in spite of
/// the failure, only those hear of it who asked for as much.
pub(crate) fn concerns(error: &ErrorSpec, failed: Option<&FlowSpec>, asked: &FlowSpec) -> bool {
    let stands = error.flags & ErrorSpec::IN_PLACE != 0;
    error.code != ErrorCode::AdmissionControlFailure
        || !stands
        || failed.is_none_or(|failed| !is_greater(failed, asked))
}

/// The flags with which an error about `failed` reaches whoever asked for `asked`.
pub(crate) fn flags_for(error: &ErrorSpec, failed: Option<&FlowSpec>, asked: &FlowSpec) -> u8 {
    let guilty = failed.is_none_or(|failed| !is_greater(failed, asked));
    error.flags | if guilty { 0 } else { ErrorSpec::NOT_GUILTY }
}

/// Merges those requests that do not ask for as much as has failed; if all of them do, the smallest.
pub(crate) fn merge_past<I: Iterator<Item = FlowSpec>>(
    failed: &FlowSpec,
    requests: impl Fn() -> I,
) -> Option<FlowSpec> {
    let free = requests().filter(|asked| is_greater(failed, asked));
    free.reduce(|a, b| least_upper_bound(&a, &b).unwrap_or(a))
        .or_else(|| requests().reduce(|a, b| greatest_lower_bound(&a, &b).unwrap_or(a)))
}
