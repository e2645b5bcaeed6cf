//! Blockade state: a request that failed upstream must not block smaller ones (RFC 2205 sections 2.5 and 3.5, the
//! second killer-reservation problem).
//!
//! A ResvErr for an admission-control failure contains the flowspec that failed. For a while requests that are as large
//! are left out of the merged request upstream. If none remains, the smallest is used, so that the failure is bracketed
//! from below.
//!
//! A request to one previous hop has one flowspec for all of its senders. In shared styles, therefore, what has failed for
//! one sender is blocked for its previous hop: a request as large for the others would fail for that sender again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, FilterSpec, Style};

use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::merge::{greatest_lower_bound, is_greater, least_upper_bound};
use crate::state::{Blocked, Bsb, Holder, Index, Peer, Psb};

/// Flowspecs that have failed upstream of one previous hop. Mostly there is none, and rarely more than one.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<FlowSpec>);

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a request for `flowspec` is blocked, because it is not smaller than what has failed.
    pub(crate) fn block(&self, flowspec: &FlowSpec) -> bool {
        self.0.iter().any(|failed| !is_greater(failed, flowspec))
    }

    fn add(&mut self, failed: Option<&FlowSpec>) {
        if let Some(failed) = failed.filter(|failed| !self.0.contains(failed)) {
            self.0.push(*failed);
        }
    }
}

impl Rsvp {
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

    /// Returns what has failed upstream of a previous hop of a holder, for a sender of its requests.
    #[inline]
    pub(crate) fn failures(&self, now: Time, holder: Holder, hop: Peer) -> Failures {
        match self.store.has_blockades() {
            true => self.failures_towards(now, holder, hop),
            false => Failures::default(),
        }
    }

    #[cold]
    fn failures_towards(&self, now: Time, holder: Holder, hop: Peer) -> Failures {
        let mut failures = Failures::default();
        match holder {
            Holder::Sender(psb) => failures.add(self.store.blockade(Blocked::Sender(psb), now)),
            Holder::Pool(index) => {
                let pool = self.store.pool(index);
                if pool.style == Style::Wildcard {
                    let neighbor = self.store.neighbor_index(hop);
                    let blocked = neighbor.map(|neighbor| Blocked::Hop(index, neighbor));
                    failures.add(blocked.and_then(|blocked| self.store.blockade(blocked, now)));
                    return failures;
                }
                for sender in self.store.senders_of(pool.session) {
                    let failed = self.store.blockade(Blocked::Sender(sender), now);
                    let psb = self.store.psb(sender);
                    if failed.is_some() && psb.hop == hop && pool.names(&psb.template) {
                        failures.add(failed);
                    }
                }
            }
        }
        failures
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

    /// Returns whether a next hop or an application would lose what it has by a change of its request to `flowspec`: on the
    /// path to some of its senders that is known to fail, what it had requested before is not, and smaller requests of
    /// others would be sent in its place, because a blockaded request is not merged. The older request stays then, as when
    /// a link of this node has no room.
    pub(crate) fn would_be_displaced(
        &self,
        now: Time,
        holder: Holder,
        rsb: Index,
        flowspec: &FlowSpec,
    ) -> bool {
        let request = self.store.rsb(rsb);
        if !self.store.has_blockades() {
            return false;
        }
        let fails = |hop: Peer, requests: Vec<Index>| {
            let failures = self.failures(now, holder, hop);
            let is_free = |rsb: Index| !failures.block(&self.store.rsb(rsb).flowspec);
            let mut others = requests.into_iter().filter(|&other| other != rsb);
            failures.block(flowspec) && is_free(rsb) && others.any(is_free)
        };
        let pool = match holder {
            Holder::Sender(psb) => {
                let psb = self.store.psb(psb);
                return fails(psb.hop, self.requests_for(holder, psb).collect());
            }
            Holder::Pool(pool) => pool,
        };
        let outgoing = self.store.tcsb(request.tcsb).outgoing;
        let senders = self.store.senders_of(self.store.pool(pool).session);
        let senders = senders.map(|psb| self.store.psb(psb)).filter(|psb| {
            let is_named = request.filters().is_empty() || request.has_filter(&psb.template);
            is_named && psb.leaves_through(outgoing)
        });
        let mut by_hop: BTreeMap<Peer, Vec<FilterSpec>> = BTreeMap::new();
        for psb in senders {
            by_hop.entry(psb.hop).or_default().push(psb.template);
        }
        by_hop.iter().any(|(&hop, senders)| {
            fails(hop, self.requests_naming(pool, senders, |_| true).collect())
        })
    }

    /// Creates blockade state for Kb * R from an admission-control error received through `incoming`. An error that a later
    /// one has overtaken changes nothing here (RFC 2961 section 4.5); what it says is still news to receivers.
    pub(crate) fn note_failure<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        incoming: InterfaceId,
        error: &ErrorSpec,
        blocked: Blocked,
        failed: Option<FlowSpec>,
    ) {
        if let (ErrorCode::AdmissionControlFailure, Some(flowspec)) = (error.code, failed) {
            let refresh = u64::from(self.config.timing(incoming).refresh_ms());
            let factor = u64::from(self.config.blockade_factor);
            let until = cx.now + Duration::from_millis(refresh.saturating_mul(factor));
            self.store.block(blocked, Bsb { flowspec, until, message_id: cx.message_id });
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
    failures: &Failures,
    requests: impl Fn() -> I,
) -> Option<FlowSpec> {
    let free = requests().filter(|requested| !failures.block(requested));
    free.reduce(|a, b| least_upper_bound(&a, &b).unwrap_or(a))
        .or_else(|| requests().reduce(|a, b| greatest_lower_bound(&a, &b).unwrap_or(a)))
}
