//! Blockade state: a request that failed upstream must not block smaller ones (RFC 2205 sections 2.5 and 3.5, the
//! second killer-reservation problem).
//!
//! A ResvErr for an admission-control failure contains the flowspec that failed. For a while requests that are as large
//! are left out of the merged request upstream. If none remains, the smallest is used, so that the failure is bracketed
//! from below.

use core::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, Style};

use crate::instance::Rsvp;
use crate::merge::{greatest_lower_bound, is_greater, least_upper_bound};
use crate::state::{Blocked, Bsb, Holder, Index, Peer, Psb};

impl Rsvp {
    /// Returns the merged flowspec that a sender's fixed-filter reservations request upstream: those on the outgoing
    /// interfaces of its data, without those in blockade state.
    #[inline]
    pub(crate) fn requested_flowspec(&self, now: Time, sender: Index) -> Option<FlowSpec> {
        let psb = self.store.psb(sender);
        if let Some(failed) = self.store.blockade(Blocked::Sender(sender), now) {
            return merge_past(failed, || self.flowspecs_for(Holder::Sender(sender), psb));
        }
        let mut merged = None;
        for tcsb in self.store.tcsbs_of(Holder::Sender(sender)) {
            let tcsb = self.store.tcsb(tcsb);
            if psb.leaves_through(tcsb.outgoing) {
                merged = match merged {
                    None => Some(tcsb.flowspec),
                    // Requests for different services were refused before.
                    Some(other) => Some(least_upper_bound(&other, &tcsb.flowspec).unwrap_or(other)),
                };
            }
        }
        merged
    }

    /// Returns the requests for a sender: those on the outgoing interfaces of its data, and of a shared style those
    /// whose filters include it.
    pub(crate) fn requests_for<'s>(
        &'s self,
        holder: Holder,
        psb: &'s Psb,
    ) -> impl Iterator<Item = Index> + use<'s> {
        self.store
            .tcsbs_of(holder)
            .filter(|&tcsb| psb.leaves_through(self.store.tcsb(tcsb).outgoing))
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

    /// Returns the flowspec in blockade state upstream of a sender.
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

    /// Returns whether a request is blocked because it is not smaller than one that has failed upstream.
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

    /// Returns whether a next hop would lose what it has by a change of its request to `flowspec`: on the paths to all its
    /// senders that is known to fail, what it had requested before is not, and smaller requests of others would be sent in
    /// its place, because a blockaded request is not merged. The older request stays then, as when a link of this node
    /// has no room.
    pub(crate) fn would_be_displaced(
        &self,
        now: Time,
        holder: Holder,
        rsb: Index,
        flowspec: &FlowSpec,
    ) -> bool {
        let request = self.store.rsb(rsb);
        let fails = |psb: Index| {
            self.failure(now, holder, psb).is_some_and(|failed| {
                !is_greater(failed, flowspec)
                    && is_greater(failed, &request.flowspec)
                    && self.requests_for(holder, self.store.psb(psb)).any(|other| {
                        other != rsb && is_greater(failed, &self.store.rsb(other).flowspec)
                    })
            })
        };
        match (holder, request.hop) {
            (_, Peer::Local(_)) => false,
            (Holder::Sender(psb), _) => fails(psb),
            (Holder::Pool(pool), _) => {
                let session = self.store.pool(pool).session;
                let outgoing = self.store.tcsb(request.tcsb).outgoing;
                let mut senders = self.store.senders_of(session).filter(|&psb| {
                    let psb = self.store.psb(psb);
                    let is_named =
                        request.filters().is_empty() || request.has_filter(&psb.template);
                    is_named && psb.leaves_through(outgoing)
                });
                senders.next().is_some_and(fails) && senders.all(fails)
            }
        }
    }

    /// Creates blockade state for Kb * R from an admission-control error received through `incoming`.
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

/// Returns whether an error about `failed` concerns the sender of a request for `requested`. If a smaller reservation
/// remains in place, only requests as large as the failed one are concerned.
pub(crate) fn concerns(error: &ErrorSpec, failed: Option<&FlowSpec>, requested: &FlowSpec) -> bool {
    let stands = error.flags & ErrorSpec::IN_PLACE != 0;
    error.code != ErrorCode::AdmissionControlFailure
        || !stands
        || failed.is_none_or(|failed| !is_greater(failed, requested))
}

/// Returns the flags of an error about `failed` for the sender of a request for `requested`.
pub(crate) fn flags_for(error: &ErrorSpec, failed: Option<&FlowSpec>, requested: &FlowSpec) -> u8 {
    let guilty = failed.is_none_or(|failed| !is_greater(failed, requested));
    error.flags | if guilty { 0 } else { ErrorSpec::NOT_GUILTY }
}

/// Merges the requests that are smaller than what has failed; if there are none, returns the smallest.
pub(crate) fn merge_past<I: Iterator<Item = FlowSpec>>(
    failed: &FlowSpec,
    requests: impl Fn() -> I,
) -> Option<FlowSpec> {
    let free = requests().filter(|requested| is_greater(failed, requested));
    free.reduce(|a, b| least_upper_bound(&a, &b).unwrap_or(a))
        .or_else(|| requests().reduce(|a, b| greatest_lower_bound(&a, &b).unwrap_or(a)))
}
