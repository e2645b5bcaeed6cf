//! Flows of reservations, which traffic control matches packets by, and the filters of shared reservations.

use alloc::vec::Vec;

use earmark_core::{Context, Flow};
use earmark_wire::rsvp::{FilterSpec, Style};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::filters::{Filters, flow};
use crate::instance::Rsvp;
use crate::rules::request::Request;
use crate::state::{Holder, Index};

impl Rsvp {
    /// TC_AddFilter and TC_DelFilter: sets the filters of a shared reservation to those of its requests; only those of
    /// `changed` may differ. Returns whether any filter has changed.
    pub(crate) fn update_filters<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        changed: Option<Index>,
    ) -> bool {
        let Holder::Pool(pool) = self.store.tcsb(tcsb).holder else { return false };
        let before = self.store.filters_of(pool, tcsb);
        let (new, gone) = match self.store.pool(pool).style {
            Style::Wildcard if before.is_empty() => return false,
            Style::Wildcard => self.wildcard_filter_changes(cx.context, pool, tcsb),
            _ => self.explicit_filter_changes(pool, tcsb, changed),
        };
        if new.is_empty() && gone.is_empty() {
            return false;
        }
        // All senders of an aggregate have one flow.
        let is_aggregate = self.store.session_key(Holder::Pool(pool)).is_aggregate();
        if let Some(claim) = self.store.tcsb(tcsb).claim.filter(|_| !is_aggregate) {
            for filter in &new {
                let flow = self.flow(Holder::Pool(pool), Some(filter));
                // A class for this flow left by a previous daemon run is part of the claim now.
                if let Some(interface) = self.store.tcsb(tcsb).outgoing {
                    cx.context.ledger.drop_adopted(interface, &flow);
                }
                cx.out.add_flow(claim, flow);
            }
            for filter in &gone {
                cx.out.remove_flow(claim, self.flow(Holder::Pool(pool), Some(filter)));
            }
        }
        let filters = self.store.pool_mut(pool).filters.entry(tcsb).or_default();
        filters.retain(|spec| gone.binary_search(spec).is_err());
        filters.extend(new);
        filters.sort_unstable();
        true
    }

    /// Returns the senders of a shared-explicit reservation that are new and those that no request names any more.
    fn explicit_filter_changes(
        &self,
        pool: Index,
        tcsb: Index,
        changed: Option<Index>,
    ) -> (Vec<FilterSpec>, Vec<FilterSpec>) {
        let before = self.store.filters_of(pool, tcsb);
        let named = changed.map_or(&[][..], |rsb| self.store.rsb(rsb).filters());
        let named = named.iter().map(|filter| filter.spec);
        let new = named.filter(|spec| before.binary_search(spec).is_err()).collect();
        // In most cases all requests have the same senders, and the first of them names all.
        let is_named = |spec: &FilterSpec| {
            self.store.rsbs_of(tcsb).any(|rsb| self.store.rsb(rsb).has_filter(spec))
        };
        let gone = before.iter().filter(|spec| !is_named(spec)).copied().collect();
        (new, gone)
    }

    /// Returns the senders of a wildcard reservation that are new, and those that have left or are not admitted any more. If
    /// none would be left, the last ones stay.
    fn wildcard_filter_changes(
        &self,
        context: &Context<'_>,
        pool: Index,
        tcsb: Index,
    ) -> (Vec<FilterSpec>, Vec<FilterSpec>) {
        let before = self.store.filters_of(pool, tcsb);
        let Some(outgoing) = self.store.tcsb(tcsb).outgoing else { return Default::default() };
        let admitted = self.admitted_senders(context, pool, Some(tcsb), outgoing);
        if admitted.is_empty() {
            return Default::default();
        }
        let without = |all: &[FilterSpec], known: &[FilterSpec]| {
            all.iter().filter(|spec| known.binary_search(spec).is_err()).copied().collect()
        };
        (without(&admitted, before), without(before, &admitted))
    }

    /// Returns the first sender that a new reservation has a filter for: the first that it names, and for a wildcard one the
    /// first that is admitted, if rules tell senders apart. Other wildcard reservations are for all data of the session.
    pub(crate) fn first_filter(
        &self,
        context: &Context<'_>,
        holder: Holder,
        request: &Request,
    ) -> Option<FilterSpec> {
        let named = request.extra.as_deref().and_then(|extra| extra.filters.first());
        match (named, holder, request.outgoing, &self.policy) {
            (None, Holder::Pool(pool), Some(outgoing), Some(policy))
                if policy.tells_senders_apart() =>
            {
                self.admitted_senders(context, pool, None, outgoing).first().copied()
            }
            _ => named.map(|filter| filter.spec),
        }
    }

    /// Returns the flow of a sender, of one sender in a pool, or of all senders.
    pub(crate) fn flow(&self, holder: Holder, filter: Option<&FilterSpec>) -> Flow {
        let session = self.store.session_key(holder);
        match holder {
            Holder::Sender(psb) => flow(&session, Some(&self.store.psb(psb).template)),
            Holder::Pool(_) => flow(&session, filter),
        }
    }

    /// Returns the senders of a reservation.
    #[inline]
    pub(crate) fn filters_in(&self, tcsb: Index) -> Filters {
        match self.store.tcsb(tcsb).holder {
            Holder::Sender(psb) => Filters::One(self.store.psb(psb).template),
            Holder::Pool(pool) => self.store.filters_of(pool, tcsb).into(),
        }
    }
}
