//! What each previous hop of a pool should reserve: computed from what is reserved here, and for whom.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{FilterSpec, Style};

use crate::blockade::merge_past;
use crate::instance::Rsvp;
use crate::merge::least_upper_bound;
use crate::state::{Holder, Index, Kept, NONE, Peer, Pool, Rsb, SentResv};

impl Rsvp {
    /// What each previous hop, and each application here that sends, should reserve for a pool, in the order of the
    /// session's senders.
    pub(super) fn demands(&self, now: Time, index: Index) -> Vec<SentResv> {
        let pool = self.store.pool(index);
        let mut demands: Vec<SentResv> = Vec::new();
        for sender in self.store.senders_of(pool.session) {
            let psb = self.store.psb(sender);
            let Some(flowspec) = self.share_of(now, index, sender) else { continue };
            let demand = match demands.iter_mut().find(|demand| demand.hop == psb.hop) {
                Some(demand) => demand,
                None => demands.push_mut(SentResv {
                    hop: psb.hop,
                    flowspec,
                    filters: Vec::new(),
                    scope: None,
                    carried: Kept::default(),
                    told: NONE,
                }),
            };
            demand.flowspec =
                least_upper_bound(&demand.flowspec, &flowspec).unwrap_or(demand.flowspec);
            demand.filters.push(psb.template);
        }
        for demand in &mut demands {
            demand.filters.sort_unstable();
        }
        if pool.style == Style::Wildcard && self.needs_scope(index) {
            demands.retain_mut(|demand| {
                if matches!(demand.hop, Peer::Local(_)) {
                    return true;
                }
                let scope = self.scope_towards(index, demand);
                let empty = scope.is_empty();
                demand.scope = Some(scope);
                !empty
            });
        }
        demands
    }

    /// What a pool asks upstream for one sender: what is reserved on the ways that its data takes, without what has
    /// failed upstream lately.
    fn share_of(&self, now: Time, pool: Index, sender: Index) -> Option<FlowSpec> {
        let holder = Holder::Pool(pool);
        let psb = self.store.psb(sender);
        if let Some(failed) = self.failure(now, holder, sender) {
            return merge_past(failed, || self.flowspecs_for(holder, psb));
        }
        let Pool { style, filters, .. } = self.store.pool(pool);
        filters
            .iter()
            .filter(|(_, filters)| {
                *style == Style::Wildcard || filters.binary_search(&psb.template).is_ok()
            })
            .map(|(&tcsb, _)| self.store.tcsb(tcsb))
            .filter(|tcsb| psb.goes(tcsb.outgoing))
            .map(|tcsb| tcsb.flowspec)
            .reduce(|a, b| least_upper_bound(&a, &b).unwrap_or(a))
    }

    /// Whether the packets of a sender share in a traffic-control block.
    pub(crate) fn has_part(&self, holder: Holder, tcsb: Index, template: &FilterSpec) -> bool {
        match holder {
            Holder::Pool(pool) if self.store.pool(pool).style == Style::SharedExplicit => {
                self.store.filters_of(pool, tcsb).binary_search(template).is_ok()
            }
            _ => true,
        }
    }

    /// What the requests of a pool carry that are for some of these senders, on a way that their data takes.
    pub(super) fn carried_for<'k>(
        &'k self,
        pool: Index,
        senders: &'k [FilterSpec],
    ) -> impl Iterator<Item = &'k [u8]> {
        let holder = Holder::Pool(pool);
        let session = self.store.session_key(holder);
        let wildcard = self.store.pool(pool).style == Style::Wildcard;
        let requests = self.store.tcsbs_of(holder).flat_map(|tcsb| self.store.rsbs_of(tcsb));
        let requests = requests.map(|rsb| self.store.rsb(rsb));
        // Most carry nothing, and need no look at their senders.
        requests
            .filter(|rsb| !rsb.carried().is_empty())
            .filter(move |rsb| {
                let outgoing = self.store.tcsb(rsb.tcsb).outgoing;
                senders.iter().filter(|spec| wildcard || rsb.names(spec)).any(|spec| {
                    let sender = self.store.find_sender(&session, spec);
                    sender.is_some_and(|sender| self.store.psb(sender).goes(outgoing))
                })
            })
            .map(Rsb::carried)
    }

    /// Whether wildcard requests must name the senders they are meant for, lest they go round in circles: where there is
    /// more than one previous hop of multicast data, or where those downstream found that they must (RFC 2205 section
    /// 3.4). Ways of unicast data never part, so requests that follow them back never meet again.
    fn needs_scope(&self, pool: Index) -> bool {
        let session = self.store.pool(pool).session;
        if !self.store.session(session).session.destination.is_multicast() {
            return false;
        }
        let mut hops = self.store.senders_of(session).map(|psb| self.store.psb(psb).hop);
        let mut first = None;
        let parted = hops.any(|hop| match hop {
            Peer::Local(_) => false,
            Peer::Neighbor { .. } => *first.get_or_insert(hop) != hop,
        });
        let mut requests =
            self.store.tcsbs_of(Holder::Pool(pool)).flat_map(|tcsb| self.store.rsbs_of(tcsb));
        parted || requests.any(|rsb| self.store.rsb(rsb).scope().is_some())
    }

    /// SCOPE of the request to one previous hop: its senders that the requests here are meant for.
    fn scope_towards(&self, pool: Index, demand: &SentResv) -> Vec<IpAddr> {
        let session = self.store.pool(pool).session;
        let meant = |psb: Index| {
            let psb = self.store.psb(psb);
            let tcsbs = self.store.tcsbs_of(Holder::Pool(pool));
            tcsbs.filter(|&tcsb| psb.goes(self.store.tcsb(tcsb).outgoing)).any(|tcsb| {
                self.store.rsbs_of(tcsb).any(|rsb| {
                    let scope = self.store.rsb(rsb).scope();
                    scope.is_none_or(|scope| scope.contains(&psb.template.source))
                })
            })
        };
        let mut scope: Vec<IpAddr> = self
            .store
            .senders_of(session)
            .filter(|&psb| self.store.psb(psb).hop == demand.hop && meant(psb))
            .map(|psb| self.store.psb(psb).template.source)
            .collect();
        scope.sort_unstable();
        scope.dedup();
        scope
    }
}
