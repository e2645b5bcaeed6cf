//! Admission: claims on the ledger of a link, and the corresponding traffic control (RFC 2205 section 3.11.2,
//! TC_AddFlowspec and TC_ModFlowspec).

use earmark_core::admission::{Demand, Owner, Priority};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Flow, Installation, InterfaceId};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{FilterSpec, Style};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::rules::merge::{effective, sum};
use crate::rules::request::Request;
use crate::state::{Filter, Holder, Index, NONE, Tcsb};

impl Rsvp {
    /// TC_AddFlowspec.
    pub(crate) fn add_traffic_control<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        request: &Request,
        flowspec: FlowSpec,
        priority: Option<Priority>,
    ) -> Result<Index, ResvFault> {
        let outgoing = request.outgoing;
        let new = request.extra.as_deref().map_or(&[][..], |extra| &extra.filters);
        let first = self.first_filter(cx.context, holder, request);
        let mut claim = None;
        if let Some(interface) = outgoing {
            let flow = self.flow(holder, first.as_ref());
            let demand = self.demand(holder, None, outgoing, &flowspec, new);
            check_bucket(&demand)?;
            let block = self.store.tcsbs.vacant_key() as Index;
            let owner = Owner { protocol: crate::ID, block };
            let ledger = &mut cx.context.ledger;
            let granted = match priority {
                None => ledger.claim(interface, owner, &flow, demand),
                Some(priority) => {
                    ledger.claim_with_priority(interface, owner, &flow, demand, priority)
                }
            };
            mark(Checkpoint::Admission);
            let granted = granted.map_err(ResvFault::refused)?;
            self.install(cx, holder, Installation { claim: granted, interface, flow, demand });
            claim = Some(granted);
        }
        let tcsb = Tcsb { holder, next: NONE, rsbs: NONE, outgoing, flowspec, claim };
        let tcsb = self.store.insert_tcsb(tcsb);
        if let Holder::Pool(pool) = holder {
            // The installation included the first filter.
            let first = first.into_iter().collect();
            self.store.pool_mut(pool).filters.insert(tcsb, first);
        }
        Ok(tcsb)
    }

    /// TC_ModFlowspec. `new` are additional filters.
    pub(crate) fn change_traffic_control<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        flowspec: FlowSpec,
        new: &[Filter],
        priority: Option<Priority>,
    ) -> Result<(), ResvFault> {
        let block = self.store.tcsb(tcsb);
        if let (Some(claim), Some(interface)) = (block.claim, block.outgoing) {
            let (holder, outgoing) = (block.holder, block.outgoing);
            let demand = self.demand(holder, Some(tcsb), outgoing, &flowspec, new);
            let held = cx.context.ledger.demand(claim);
            if held != Some(demand) {
                check_bucket(&demand)?;
                let ledger = &mut cx.context.ledger;
                let granted = match priority {
                    None => ledger.change(claim, demand),
                    Some(priority) => ledger.change_with_priority(claim, demand, priority),
                };
                mark(Checkpoint::Admission);
                granted.map_err(ResvFault::refused)?;
                let flow = self.first_flow(tcsb);
                self.install(cx, holder, Installation { claim, interface, flow, demand });
            } else if let Some(priority) = priority {
                cx.context.ledger.set_priority(claim, priority);
            }
        }
        self.store.tcsb_mut(tcsb).flowspec = flowspec;
        Ok(())
    }

    /// Returns whether a block with another flowspec would claim no more of its link than it holds.
    pub(crate) fn is_within_claim(
        &self,
        context: &Context<'_>,
        tcsb: Index,
        flowspec: &FlowSpec,
    ) -> bool {
        let block = self.store.tcsb(tcsb);
        let demand = self.demand(block.holder, Some(tcsb), block.outgoing, flowspec, &[]);
        let overhead = block.outgoing.map_or(0, |link| context.ledger.overhead(link));
        block.claim.and_then(|claim| context.ledger.demand(claim)).is_some_and(|held| {
            demand.rate <= held.rate && demand.rate_on_link(overhead) <= held.rate_on_link(overhead)
        })
    }

    /// Claims the bandwidth of a block, which must not exceed what the ledger has left to it,
    /// and installs it in traffic control.
    pub(crate) fn reinstall<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
    ) {
        let block = self.store.tcsb(tcsb);
        let (Some(claim), Some(interface)) = (block.claim, block.outgoing) else { return };
        let (holder, outgoing, flowspec) = (block.holder, block.outgoing, &block.flowspec);
        let demand = self.demand(holder, Some(tcsb), outgoing, flowspec, &[]);
        let granted = cx.context.ledger.change(claim, demand);
        debug_assert!(granted.is_ok(), "less is always granted");
        let flow = self.first_flow(tcsb);
        self.install(cx, holder, Installation { claim, interface, flow, demand });
    }

    /// Returns the flow that identifies a block in traffic control.
    fn first_flow(&self, tcsb: Index) -> Flow {
        let holder = self.store.tcsb(tcsb).holder;
        let first = match holder {
            Holder::Pool(pool) => self.store.filters_of(pool, tcsb).first(),
            Holder::Sender(_) => None,
        };
        self.flow(holder, first)
    }

    /// Returns what a flowspec claims of a link: no more than the traffic of its senders.
    fn demand(
        &self,
        holder: Holder,
        tcsb: Option<Index>,
        outgoing: Option<InterfaceId>,
        flowspec: &FlowSpec,
        new: &[Filter],
    ) -> Demand {
        let path = match holder {
            Holder::Sender(psb) => Some(self.store.psb(psb).tspec),
            Holder::Pool(pool) => self.path_tspec(pool, tcsb, outgoing, new),
        };
        Demand::from_flowspec(&path.map_or(*flowspec, |path| effective(flowspec, &path)))
    }

    /// Returns Path_Te of a shared reservation: the sum of the Tspecs of all its senders.
    fn path_tspec(
        &self,
        pool: Index,
        tcsb: Option<Index>,
        outgoing: Option<InterfaceId>,
        new: &[Filter],
    ) -> Option<TokenBucket> {
        let block = self.store.pool(pool);
        let has_part = |template: &FilterSpec| {
            tcsb.map_or(block.style == Style::Wildcard, |tcsb| self.is_for_all_senders(pool, tcsb))
                || new.binary_search_by_key(template, |filter| filter.spec).is_ok()
                || tcsb.is_some_and(|tcsb| {
                    self.store.filters_of(pool, tcsb).binary_search(template).is_ok()
                })
        };
        self.store
            .senders_of(block.session)
            .map(|psb| self.store.psb(psb))
            .filter(|psb| psb.leaves_through(outgoing) && has_part(&psb.template))
            .map(|psb| psb.tspec)
            .reduce(|a, b| sum(&a, &b))
    }
}

/// Refuses a bucket that the ledger cannot hold (RFC 2211 section 5), instead of cutting it.
#[inline]
fn check_bucket(demand: &Demand) -> Result<(), ResvFault> {
    if demand.burst == u32::MAX { Err(ResvFault::bad_flowspec()) } else { Ok(()) }
}
