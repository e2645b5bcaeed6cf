//! Requests to each previous hop, computed from reservations, senders and blockade state.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{FilterSpec, Style};

use crate::instance::Rsvp;
use crate::rules::blockade::merge_past;
use crate::rules::merge::least_upper_bound;
use crate::state::{Blocked, Holder, Index, Kept, NONE, Peer, Pool, Psb, Rsb, SentResv};

impl Rsvp {
    /// Returns the merged flowspec that a sender's fixed-filter reservations request upstream: those on the outgoing
    /// interfaces of its data, without those in blockade state.
    #[inline]
    pub(crate) fn requested_flowspec(&self, now: Time, sender: Index) -> Option<FlowSpec> {
        let psb = self.store.psb(sender);
        if self.store.blockade(Blocked::Sender(sender), now).is_some() {
            let failures = self.failures(now, Holder::Sender(sender), psb.hop);
            let requests = || self.requests_for(Holder::Sender(sender), psb);
            return merge_past(&failures, || requests().map(|rsb| self.store.rsb(rsb).flowspec));
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

    /// Returns the request of a pool to each previous hop and each sending application of this host, in the order of
    /// the session's senders.
    pub(super) fn demands(&self, now: Time, index: Index) -> Vec<SentResv> {
        let pool = self.store.pool(index);
        let mut demands: Vec<SentResv> = Vec::new();
        for sender in self.store.senders_of(pool.session) {
            let psb = self.store.psb(sender);
            let flowspec = self.flowspec_for_sender(index, sender);
            let Some(flowspec) = flowspec.or_else(|| pool.kept_flowspec(psb)) else { continue };
            let demand = match demands.iter_mut().find(|demand| demand.hop == psb.hop) {
                Some(demand) => demand,
                None => demands.push_mut(SentResv {
                    hop: psb.hop,
                    flowspec,
                    filters: Vec::new(),
                    scope: None,
                    carried: Kept::default(),
                    message_id: NONE,
                }),
            };
            demand.flowspec =
                least_upper_bound(&demand.flowspec, &flowspec).unwrap_or(demand.flowspec);
            demand.filters.push(psb.template);
        }
        for demand in &mut demands {
            demand.filters.sort_unstable();
            let failures = self.failures(now, Holder::Pool(index), demand.hop);
            if !failures.is_empty() {
                let requests = || {
                    let requests = self.requests_naming(index, &demand.filters, |_| true);
                    requests.map(|rsb| self.store.rsb(rsb).flowspec)
                };
                demand.flowspec = merge_past(&failures, requests).unwrap_or(demand.flowspec);
            }
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

    /// Returns the flowspec that a pool requests upstream for one sender if nothing is in blockade state: merged from the
    /// reservations on the outgoing interfaces of its data.
    fn flowspec_for_sender(&self, pool: Index, sender: Index) -> Option<FlowSpec> {
        let psb = self.store.psb(sender);
        let Pool { style, filters, .. } = self.store.pool(pool);
        filters
            .iter()
            .filter(|(_, filters)| {
                *style == Style::Wildcard || filters.binary_search(&psb.template).is_ok()
            })
            .map(|(&tcsb, _)| self.store.tcsb(tcsb))
            .filter(|tcsb| psb.leaves_through(tcsb.outgoing))
            .map(|tcsb| tcsb.flowspec)
            .reduce(|a, b| least_upper_bound(&a, &b).unwrap_or(a))
    }

    /// Returns whether the packets of a sender belong to a traffic-control block.
    pub(crate) fn includes_sender(
        &self,
        holder: Holder,
        tcsb: Index,
        template: &FilterSpec,
    ) -> bool {
        match holder {
            Holder::Pool(pool) if !self.is_for_all_senders(pool, tcsb) => {
                self.store.filters_of(pool, tcsb).binary_search(template).is_ok()
            }
            _ => true,
        }
    }

    /// Returns whether a block is for all data of its session: of the wildcard style, and without filters.
    pub(crate) fn is_for_all_senders(&self, pool: Index, tcsb: Index) -> bool {
        self.store.pool(pool).style == Style::Wildcard
            && self.store.filters_of(pool, tcsb).is_empty()
    }

    /// Returns the unknown objects of the requests for some of these senders, on outgoing interfaces of their data.
    pub(super) fn carried_for<'k>(
        &'k self,
        pool: Index,
        senders: &'k [FilterSpec],
    ) -> impl Iterator<Item = &'k [u8]> {
        // Most requests have none, so the senders are compared last.
        let requests = self.requests_naming(pool, senders, |rsb| !rsb.carried().is_empty());
        requests.map(|rsb| self.store.rsb(rsb).carried())
    }

    /// Returns the wanted requests for some of these senders, on outgoing interfaces of their data.
    pub(crate) fn requests_naming<'k>(
        &'k self,
        pool: Index,
        senders: &'k [FilterSpec],
        is_wanted: impl Fn(&Rsb) -> bool + 'k,
    ) -> impl Iterator<Item = Index> {
        let holder = Holder::Pool(pool);
        let session = self.store.session_key(holder);
        let wildcard = self.store.pool(pool).style == Style::Wildcard;
        let requests = self.store.tcsbs_of(holder).flat_map(|tcsb| self.store.rsbs_of(tcsb));
        requests.filter(move |&rsb| {
            let rsb = self.store.rsb(rsb);
            let outgoing = self.store.tcsb(rsb.tcsb).outgoing;
            let names = |spec: &&FilterSpec| wildcard || rsb.has_filter(spec);
            is_wanted(rsb)
                && senders.iter().filter(names).any(|spec| {
                    let sender = self.store.find_sender(&session, spec);
                    sender.is_some_and(|sender| self.store.psb(sender).leaves_through(outgoing))
                })
        })
    }

    /// Returns whether wildcard requests need a SCOPE object to prevent loops: multicast data has more than one
    /// previous hop, or a next hop has sent SCOPE (RFC 2205 section 3.4). Paths of unicast data never split, so
    /// requests along them cannot loop.
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

    /// Returns the addresses for SCOPE of the request to one previous hop: its senders that are in the scope of
    /// requests here.
    fn scope_towards(&self, pool: Index, demand: &SentResv) -> Vec<IpAddr> {
        let session = self.store.pool(pool).session;
        let meant = |psb: Index| {
            let psb = self.store.psb(psb);
            let tcsbs = self.store.tcsbs_of(Holder::Pool(pool));
            tcsbs.filter(|&tcsb| psb.leaves_through(self.store.tcsb(tcsb).outgoing)).any(|tcsb| {
                self.store.rsbs_of(tcsb).any(|rsb| {
                    let scope = self.store.rsb(rsb).scope();
                    scope.is_none_or(|scope| scope.contains(&psb.template.source))
                })
            }) || psb.keeps_request()
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

impl Pool {
    /// Returns the flowspec that was requested upstream for a sender whose old path has not ended yet.
    fn kept_flowspec(&self, psb: &Psb) -> Option<FlowSpec> {
        let mut sent = self.sent_resvs.iter().filter(|_| psb.keeps_request());
        let last = sent.find(|sent| sent.hop == psb.hop && sent.filters.contains(&psb.template));
        last.map(|sent| sent.flowspec)
    }

    /// Returns whether a reservation of the pool is for this sender among others.
    pub(crate) fn names(&self, sender: &FilterSpec) -> bool {
        self.filters.values().any(|filters| filters.binary_search(sender).is_ok())
    }
}
