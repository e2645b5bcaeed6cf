//! Flows of reservations, which traffic control matches packets by, and the filters of shared reservations.

use alloc::vec::Vec;

use earmark_core::Flow;
use earmark_wire::rsvp::{FilterSpec, Style};

use crate::api::Event;
use crate::filters::{Filters, flow};
use crate::instance::{HandlerContext, Rsvp};
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
        if self.store.pool(pool).style == Style::Wildcard {
            return false;
        }
        let before = self.store.filters_of(pool, tcsb);
        let named = changed.map_or(&[][..], |rsb| self.store.rsb(rsb).filters());
        let named = named.iter().map(|filter| filter.spec);
        let new: Vec<FilterSpec> =
            named.filter(|spec| before.binary_search(spec).is_err()).collect();
        // In most cases all requests have the same senders, and the first of them names all.
        let is_named = |spec: &FilterSpec| {
            self.store.rsbs_of(tcsb).any(|rsb| self.store.rsb(rsb).has_filter(spec))
        };
        let gone: Vec<FilterSpec> = before.iter().filter(|spec| !is_named(spec)).copied().collect();
        if new.is_empty() && gone.is_empty() {
            return false;
        }
        if let Some(claim) = self.store.tcsb(tcsb).claim {
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
